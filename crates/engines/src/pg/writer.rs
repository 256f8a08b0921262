//! How a COMMIT whose answer was lost is looked up. Each batcher has one row, in which each of its
//! transactions leaves an id made here. After a lost COMMIT the row is asked for that id, by a
//! statement that waits for whoever is still writing it: so the answer is final.

use clock::Clock;

use super::connection::Connection;
use super::failure::Failure;
use super::pipeline::Pipeline;
use store::{Args, Row, Sql, Val, args};

/// The table of the batchers' last commits.
pub(super) const TABLE: &str = "CREATE TABLE store_writers (writer_id BYTEA PRIMARY KEY, \
    last_commit BYTEA NOT NULL, at BIGINT NOT NULL)";
/// Leaves the id of a transaction in it. Its time is the database's, so that no node with a wrong
/// clock forgets what another still asks for.
pub(super) const MARK: Sql = Sql("INSERT INTO store_writers (writer_id, last_commit, at) \
    VALUES ($1, $2, CAST(date_part('epoch', clock_timestamp()) * 1000 AS BIGINT)) \
    ON CONFLICT (writer_id) DO UPDATE SET last_commit = excluded.last_commit, at = excluded.at");
/// A SELECT would not see a row that is just being inserted; this waits for it.
const LAST: Sql = Sql("INSERT INTO store_writers (writer_id, last_commit, at) \
    VALUES ($1, $2, CAST(date_part('epoch', clock_timestamp()) * 1000 AS BIGINT)) \
    ON CONFLICT (writer_id) DO UPDATE SET at = excluded.at \
    RETURNING last_commit");
const FORGET: Sql = Sql("DELETE FROM store_writers \
    WHERE at < CAST(date_part('epoch', clock_timestamp()) * 1000 AS BIGINT) - $1");
/// No commit stays unknown for so long.
const FORGET_AFTER_MS: i64 = 7 * clock::DAY;

/// The id of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitId([u8; 16]);

/// One batcher, as the database knows it.
pub(super) struct Writer {
    id: [u8; 16],
    clock: Clock,
}

impl Writer {
    pub(super) fn new() -> Self {
        // Never a held clock: two programs must not make the same ids.
        let clock = Clock::system();
        Self { id: clock.uuid().into_bytes(), clock }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn new_commit(&self) -> CommitId {
        CommitId(self.clock.uuid().into_bytes())
    }

    /// The arguments of [`MARK`].
    pub(super) fn mark_args(&self, commit: &CommitId) -> Args {
        args![self.id, commit.0]
    }

    /// Whether a transaction of this batcher was committed. Final: one that was not can no longer
    /// be. `begin` bounds the wait for a server that is still at it.
    pub(super) async fn was_committed(
        &self,
        connection: &mut Pipeline,
        begin: &str,
        commit: &CommitId,
    ) -> Result<bool, Failure> {
        connection.run_text(begin).await?;
        let args = args![self.id, Vec::new()];
        let last = connection.run(LAST, &args).await?;
        connection.commit().await?;
        Ok(matches!(last.rows.first(), Some(Row(columns))
            if columns.first() == Some(&Val::from(commit.0))))
    }
}

/// Forgets batchers that ended long ago.
pub(super) async fn forget_old(connection: &Connection) -> Result<(), Failure> {
    connection.run(FORGET, &args![FORGET_AFTER_MS]).await.map(drop)
}
