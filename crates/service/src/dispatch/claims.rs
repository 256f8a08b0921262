//! Claims of what is due in one environment, for tables that have rows of both: passcodes, attempts
//! and consent sessions.

use clock::Millis;
use store::{CommitError, Error, FromRow, Sql, WriteSet, args};

use crate::app::App;

/// Work of many accounts, which is routed by a word of its own.
pub(super) const DUE_SHARD: &str = "due";

/// What is claimed, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// What is due by then.
    pub due_at: Millis,
    /// When the claim ends: until then no other node finds it due.
    pub until: Millis,
}

/// The statements of a table.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// The environment of a due row: of one that an earlier version made, which says none, or else
    /// of this one. Takes the time and the environment.
    pub any: Sql,
    /// Says of which environment due rows are that an earlier version made. Takes the time and how
    /// many.
    pub adopt: Sql,
    /// Takes due rows. Takes the claim's end, the environment, the time and how many.
    pub claim: Sql,
    /// Since when a row of either environment is due. Takes the time.
    pub oldest: Sql,
}

impl Claims {
    /// Claims at most `limit` due rows, the longest due first.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn claim<T: FromRow>(
        &self,
        app: &App,
        limit: i64,
        claim: Claim,
    ) -> Result<Vec<T>, CommitError> {
        let (Claim { due_at, until }, env) = (claim, app.env.as_str());
        let any = app.db.row::<(Option<String>,)>(self.any, args![due_at, env]).await?;
        let Some((found,)) = any else { return Ok(Vec::new()) };
        let mut set = WriteSet::of(DUE_SHARD);
        if found.is_none() {
            set.push(self.adopt, args![due_at, limit]);
        }
        set.returning_rows(self.claim, args![until, env, due_at, limit]);
        let rows = app.db.commit(set).await?.rows.into_iter().flatten();
        rows.map(T::from_row).collect::<Result<_, _>>().map_err(CommitError::from)
    }

    /// Since when work is due; `None` = none is.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn oldest(&self, app: &App) -> Result<Option<Millis>, Error> {
        let found = app.db.row::<(Option<Millis>,)>(self.oldest, args![app.now()]).await?;
        Ok(found.and_then(|(next_at,)| next_at))
    }
}
