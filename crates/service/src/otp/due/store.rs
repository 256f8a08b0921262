//! The SQL of due passcodes.

use store::Sql;

use crate::dispatch::Claims;

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
/// What is due of an environment, the longest due first.
const STRETCH: Sql = Sql("SELECT account_id, challenge_id, next_at FROM challenges \
     WHERE env = $1 AND next_at > $2 AND next_at <= $3 ORDER BY next_at LIMIT $4");
/// Takes one of these, unless another node has done so.
const TAKE: Sql = Sql("UPDATE challenges SET next_at = $1 \
     WHERE (account_id, challenge_id) IN (SELECT c.account_id, c.challenge_id FROM challenges c \
       WHERE c.account_id = $2 AND c.challenge_id = $3 AND c.next_at <= $4 /*SKIP LOCKED*/) \
     AND next_at <= $4 RETURNING account_id, challenge_id");
const OLDEST: Sql = Sql("SELECT MIN(next_at) FROM (\
       SELECT MIN(next_at) AS next_at FROM challenges WHERE env = 'live' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) FROM challenges WHERE env = 'sandbox' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) FROM challenges WHERE env IS NULL AND next_at <= $1) AS due");

/// How due challenges are claimed.
pub(super) const CLAIMS: Claims =
    Claims { any: ANY, adopt: ADOPT, claim: CLAIM, stretch: STRETCH, take: TAKE, oldest: OLDEST };
