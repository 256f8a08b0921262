//! The SQL of due passcodes.

use clock::Millis;
use store::{Error, FromRow, Sql, WriteSet, args};

use crate::app::App;
use crate::kit::id::{AccountId, ChallengeId};

/// Claims touch many accounts, so they are routed by a word of their own.
const DUE_SHARD: &str = "due";

/// The environment of a due challenge: of one that an earlier version made, which says none, or
/// else of this one.
const ANY: Sql = Sql("SELECT env FROM challenges WHERE env IS NULL AND next_at <= $1 \
     UNION ALL SELECT env FROM challenges WHERE env = $2 AND next_at <= $1 LIMIT 1");
/// Says of which environment due challenges are that an earlier version made.
const ADOPT: Sql = Sql("UPDATE challenges SET env = \
       (SELECT a.env FROM accounts a WHERE a.account_id = challenges.account_id) \
     WHERE (account_id, challenge_id) IN (SELECT c.account_id, c.challenge_id FROM challenges c \
       WHERE c.env IS NULL AND c.next_at <= $1 LIMIT $2 /*SKIP LOCKED*/) \
     AND env IS NULL");
/// Takes due challenges for this node: until the lease ends, no other finds them due.
const CLAIM: Sql = Sql("UPDATE challenges SET next_at = $1 \
     WHERE (account_id, challenge_id) IN (SELECT c.account_id, c.challenge_id FROM challenges c \
       WHERE c.env = $2 AND c.next_at <= $3 ORDER BY c.next_at LIMIT $4 /*SKIP LOCKED*/) \
     AND next_at <= $3 RETURNING account_id, challenge_id");
const OLDEST: Sql = Sql("SELECT MIN(next_at) FROM (\
       SELECT MIN(next_at) AS next_at FROM challenges WHERE env = 'live' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) FROM challenges WHERE env = 'sandbox' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) FROM challenges WHERE env IS NULL AND next_at <= $1) AS due");

/// What is claimed, and for how long.
pub(super) struct Claim {
    /// What is due by then.
    pub(super) due_at: Millis,
    /// When the claim ends.
    pub(super) until: Millis,
}

/// Claims at most `limit` due challenges, the longest due first.
pub(super) async fn claim(
    app: &App,
    limit: i64,
    claim: &Claim,
) -> Result<Vec<(AccountId, ChallengeId)>, super::Error> {
    let (Claim { due_at, until }, env) = (claim, app.env.as_str());
    let Some((found,)) = app.db.row::<(Option<String>,)>(ANY, args![*due_at, env]).await? else {
        return Ok(Vec::new());
    };
    let mut set = WriteSet::of(DUE_SHARD);
    if found.is_none() {
        set.push(ADOPT, args![*due_at, limit]);
    }
    set.returning_rows(CLAIM, args![*until, env, *due_at, limit]);
    let rows = app.db.commit(set).await?.rows.into_iter().flatten();
    Ok(rows.map(FromRow::from_row).collect::<Result<_, Error>>()?)
}

/// Since when work is due; `None` = none is.
pub(super) async fn oldest(app: &App) -> Result<Option<Millis>, Error> {
    let found = app.db.row::<(Option<Millis>,)>(OLDEST, args![app.now()]).await?;
    Ok(found.and_then(|(next_at,)| next_at))
}
