//! The SQL of consent sessions.

use clock::Millis;
use store::{Error, FromRow, Reject, Row, Sql, WriteSet, args};

use super::{DECLINED_MS, LIFE_MS, Session, Status, Wanted};
use crate::app::{App, Standing};
use crate::dispatch::{Claims, STALE};
use crate::kit::id::{AccountId, AttemptId, ConsentId};

const BY_ID: Sql =
    Sql("SELECT account_id, session_id, recipient, country, challenge_id, language, \
     consent_status, status, reason, billed_credits, attempt_id, event_count, expires_at, \
     consent_at, ended_at, created_at, next_at, answered_at FROM chatapp_sessions \
     WHERE account_id = $1 AND session_id = $2 /*MANY*/");
const STRETCH: Sql = Sql("SELECT account_id, session_id, recipient, country, challenge_id, \
     language, consent_status, status, reason, billed_credits, attempt_id, event_count, \
     expires_at, consent_at, ended_at, created_at, next_at, answered_at FROM chatapp_sessions \
     WHERE account_id = $1 AND session_id < $2 AND event_count > 0 \
     ORDER BY session_id DESC LIMIT $3");
const STRETCH_WITH: Sql = Sql("SELECT account_id, session_id, recipient, country, challenge_id, \
     language, consent_status, status, reason, billed_credits, attempt_id, event_count, \
     expires_at, consent_at, ended_at, created_at, next_at, answered_at FROM chatapp_sessions \
     WHERE account_id = $1 AND session_id IN (SELECT session_id FROM chatapp_sessions \
       WHERE recipient = $2 AND account_id = $1 \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END = 'open' \
       AND session_id < $3 AND event_count > 0 \
       UNION ALL SELECT session_id FROM (SELECT session_id FROM chatapp_sessions \
       WHERE recipient = $2 AND account_id = $1 \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END >= 'ses_' \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END < $3 \
       AND event_count > 0 \
       ORDER BY CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END DESC \
       LIMIT $4) AS newest) ORDER BY session_id DESC LIMIT $4");
/// The open session of an account with a person; there is one at most.
const OPEN: Sql =
    Sql("SELECT account_id, session_id, recipient, country, challenge_id, language, \
     consent_status, status, reason, billed_credits, attempt_id, event_count, expires_at, \
     consent_at, ended_at, created_at, next_at, answered_at FROM chatapp_sessions \
     WHERE recipient = $1 AND account_id = $2 \
     AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END = 'open'");
/// The newest that a Yes may open although it is over.
const REOPENABLE: Sql =
    Sql("SELECT account_id, session_id, recipient, country, challenge_id, language, \
     consent_status, status, reason, billed_credits, attempt_id, event_count, expires_at, \
     consent_at, ended_at, created_at, next_at, answered_at FROM chatapp_sessions \
     WHERE recipient = $1 AND account_id = $2 \
     AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END >= 'ses_' \
     AND ((status = 'declined' AND reason IN ('declined', 'withdrawn')) \
     OR (status = 'expired' AND reason = 'no_answer')) \
     ORDER BY CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END DESC \
     LIMIT 1");
/// Has a person asked. `event_count` 0 says that it has not been done.
const WANT: Sql = Sql("INSERT INTO chatapp_sessions (account_id, session_id, recipient, country, \
     challenge_id, language, consent_status, status, reason, billed_credits, attempt_id, \
     event_count, expires_at, created_at, next_at, env) SELECT $1, $2, $3, $4, $5, $6, 'pending', \
     'pending', 'wanted', 0, '', 0, CAST($7 AS BIGINT), CAST($8 AS BIGINT), CAST($8 AS BIGINT), \
     $9 WHERE NOT EXISTS (SELECT 1 FROM chatapp_sessions s WHERE s.recipient = $3 \
       AND s.account_id = $1 AND (s.status IN ('pending', 'active') \
       OR (s.status = 'declined' AND s.ended_at > $10))) \
     AND NOT EXISTS (SELECT 1 FROM opt_outs o WHERE o.account_id = $1 \
       AND o.recipient_mac = $11 AND o.opted_out = 1) ON CONFLICT DO NOTHING");
/// Moves a session from the state it was read in: every move is one event more. A newer answer that
/// was heard meanwhile refuses it.
const SHIFT: Sql = Sql("UPDATE chatapp_sessions SET consent_status = $1, status = $2, \
     reason = $3, billed_credits = $4, attempt_id = $5, expires_at = $6, consent_at = $7, \
     ended_at = $8, next_at = $9, answered_at = $10, event_count = event_count + 1 \
     WHERE account_id = $11 AND session_id = $12 AND event_count = $13 \
     AND (answered_at IS NULL OR answered_at <= $10)");
/// The same of a session that stays pending or active: on SQLite an index entry is written for each
/// column that is set, and those by recipient are on pages of their own.
const STAY: Sql = Sql("UPDATE chatapp_sessions SET consent_status = $1, reason = $2, \
     billed_credits = $3, attempt_id = $4, expires_at = $5, consent_at = $6, ended_at = $7, \
     next_at = $8, answered_at = $9, event_count = event_count + 1 \
     WHERE account_id = $10 AND session_id = $11 AND event_count = $12 \
     AND (answered_at IS NULL OR answered_at <= $9)");
/// Remembers the newest answer of a session that it does not move.
const HEARD: Sql = Sql("UPDATE chatapp_sessions SET answered_at = $1 \
     WHERE account_id = $2 AND session_id = $3 AND event_count = $4 \
     AND (answered_at IS NULL OR answered_at <= $1)");
/// Makes the open session with a person due.
const LOOK: Sql = Sql("UPDATE chatapp_sessions SET next_at = $1 \
     WHERE recipient = $2 AND account_id = $3 \
     AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END = 'open' \
     AND event_count > 0");
/// Has a session that was looked at rest until its time is over.
const REST: Sql = Sql("UPDATE chatapp_sessions SET next_at = expires_at \
     WHERE account_id = $1 AND session_id = $2 AND event_count = $3");
/// Finds something where a session is not active.
const IS_NOT_ACTIVE: Sql = Sql("SELECT 1 WHERE NOT EXISTS (SELECT session_id \
     FROM chatapp_sessions WHERE account_id = $1 AND session_id = $2 AND status = 'active' \
     AND expires_at > $3) /*BULK*/");
const STATUS: Sql = Sql("SELECT status FROM accounts WHERE account_id = $1");
/// The environment of a due session: of one that an earlier version made, which says none, or else
/// of this one.
const ANY_DUE: Sql = Sql("SELECT env FROM chatapp_sessions WHERE env IS NULL AND next_at <= $1 \
     UNION ALL SELECT env FROM chatapp_sessions WHERE env = $2 AND next_at <= $1 LIMIT 1");
/// Says of which environment due sessions are that an earlier version made.
const ADOPT: Sql = Sql("UPDATE chatapp_sessions SET env = \
       (SELECT a.env FROM accounts a WHERE a.account_id = chatapp_sessions.account_id) \
     WHERE (account_id, session_id) IN (SELECT d.account_id, d.session_id FROM chatapp_sessions d \
       WHERE d.env IS NULL AND d.next_at <= $1 LIMIT $2 /*SKIP LOCKED*/) \
     AND env IS NULL");
/// Takes sessions that are due to be looked at: until then no other node finds them due.
const CLAIM_DUE: Sql = Sql("UPDATE chatapp_sessions SET next_at = $1 \
     WHERE (account_id, session_id) IN (SELECT d.account_id, d.session_id \
       FROM chatapp_sessions d WHERE d.env = $2 AND d.next_at <= $3 \
       ORDER BY d.next_at LIMIT $4 /*SKIP LOCKED*/) \
     AND next_at <= $3 RETURNING account_id, session_id, recipient, country, challenge_id, \
     language, consent_status, status, reason, billed_credits, attempt_id, event_count, \
     expires_at, consent_at, ended_at, created_at, next_at, answered_at");
/// What is due of an environment, the longest due first.
const STRETCH_DUE: Sql = Sql("SELECT account_id, session_id, next_at FROM chatapp_sessions \
     WHERE env = $1 AND next_at > $2 AND next_at <= $3 ORDER BY next_at LIMIT $4");
/// Takes one of these, unless another node has done so.
const TAKE_DUE: Sql = Sql("UPDATE chatapp_sessions SET next_at = $1 \
     WHERE (account_id, session_id) IN (SELECT d.account_id, d.session_id \
       FROM chatapp_sessions d WHERE d.account_id = $2 AND d.session_id = $3 \
       AND d.next_at <= $4 /*SKIP LOCKED*/) \
     AND next_at <= $4 RETURNING account_id, session_id, recipient, country, \
     challenge_id, language, consent_status, status, reason, billed_credits, attempt_id, \
     event_count, expires_at, consent_at, ended_at, created_at, next_at, answered_at");
const OLDEST_DUE: Sql = Sql("SELECT MIN(next_at) FROM (SELECT MIN(next_at) AS next_at \
         FROM chatapp_sessions WHERE env = 'live' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) \
         FROM chatapp_sessions WHERE env = 'sandbox' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) \
         FROM chatapp_sessions WHERE env IS NULL AND next_at <= $1) AS oldest");

/// How due sessions are claimed.
pub(super) const CLAIMS: Claims = Claims {
    any: ANY_DUE,
    adopt: ADOPT,
    claim: CLAIM_DUE,
    stretch: STRETCH_DUE,
    take: TAKE_DUE,
    oldest: OLDEST_DUE,
};

impl FromRow for Session {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let attempt: String = row.take(10)?;
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            recipient: row.take(2)?,
            country: row.take(3)?,
            challenge: row.take(4)?,
            language: row.take(5)?,
            consent: row.take(6)?,
            status: row.take(7)?,
            reason: row.take(8)?,
            billed_credits: row.take(9)?,
            attempt: (!attempt.is_empty()).then(|| AttemptId::stored(attempt)),
            event_count: row.take(11)?,
            expires_at: row.take(12)?,
            consent_at: row.take(13)?,
            ended_at: row.take(14)?,
            created_at: row.take(15)?,
            next_at: row.take(16)?,
            answered_at: row.take(17)?,
            in_window: false,
        })
    }
}

pub(in crate::chatapp) async fn session(
    app: &App,
    account: &AccountId,
    id: &ConsentId,
) -> Result<Option<Session>, Error> {
    app.db.row(BY_ID, args![account, id]).await
}

/// At most so many sessions with ids below `before`, newest first.
pub(super) async fn stretch(
    app: &App,
    account: &AccountId,
    before: &str,
    limit: i64,
) -> Result<Vec<Session>, Error> {
    app.db.rows(STRETCH, args![account, before, limit]).await
}

/// The same of one person (`+` and digits).
pub(super) async fn stretch_with(
    app: &App,
    account: &AccountId,
    person: &str,
    before: &str,
    limit: i64,
) -> Result<Vec<Session>, Error> {
    app.db.rows(STRETCH_WITH, args![account, person, before, limit]).await
}

/// The session that is pending or active with a person (`+` and digits), perhaps over its time.
pub(super) async fn open(
    app: &App,
    account: &AccountId,
    person: &str,
) -> Result<Option<Session>, Error> {
    app.db.row(OPEN, args![person, account]).await
}

/// The newest session with a person that is over, and that a Yes may open.
pub(super) async fn reopenable(
    app: &App,
    account: &AccountId,
    person: &str,
) -> Result<Option<Session>, Error> {
    app.db.row(REOPENABLE, args![person, account]).await
}

/// The one that is active now.
pub(super) async fn active(
    app: &App,
    account: &AccountId,
    person: &str,
) -> Result<Option<Session>, Error> {
    let found = open(app, account, person).await?;
    Ok(found.filter(|session| session.shown_status(app.now()) == Status::Active))
}

/// A session that may be asked for.
pub(super) struct New<'a> {
    pub(super) env: &'a str,
    pub(super) id: &'a ConsentId,
    pub(super) country: &'a str,
    pub(super) recipient_mac: [u8; 32],
    pub(super) wanted: Wanted<'a>,
}

/// See [`super::want`].
pub(super) fn want(set: &mut WriteSet, new: &New<'_>, now: Millis) {
    let Wanted { account, challenge_id, recipient, language } = new.wanted;
    let args = args![
        account,
        new.id,
        recipient,
        new.country,
        challenge_id,
        language,
        now + LIFE_MS,
        now,
        new.env,
        now - DECLINED_MS,
        new.recipient_mac
    ];
    set.push(WANT, args);
}

/// Makes the row what the session in hand is, which is one event further and stood at `before`.
pub(super) fn shift(set: &mut WriteSet, session: &Session, before: Status) {
    let mut args = args![
        session.consent.as_str(),
        session.status.as_str(),
        session.reason.as_str(),
        session.billed_credits,
        session.attempt.as_ref().map_or("", AttemptId::as_str),
        session.expires_at,
        session.consent_at,
        session.ended_at,
        session.next_at,
        session.answered_at,
        &session.account,
        &session.id,
        session.event_count - 1
    ];
    if session.status == before {
        args.remove(1);
        set.guard(STAY, args, STALE);
    } else {
        set.guard(SHIFT, args, STALE);
    }
}

/// Makes the row remember the newest answer, as the session in hand does.
pub(super) fn heard(set: &mut WriteSet, session: &Session) {
    let args = args![session.answered_at, &session.account, &session.id, session.event_count];
    set.guard(HEARD, args, STALE);
}

/// Has due work look at the open session with a person (`+` and digits).
pub(super) fn look(set: &mut WriteSet, account: &AccountId, person: &str, now: Millis) {
    set.push(LOOK, args![now, person, account]);
}

/// Ends the look at a session that stays as it is.
pub(super) fn rest(set: &mut WriteSet, session: &Session) {
    set.push(REST, args![&session.account, &session.id, session.event_count]);
}

pub(super) fn active_guard(
    set: &mut WriteSet,
    account: &AccountId,
    id: &ConsentId,
    now: Millis,
    reject: Reject,
) {
    set.absent(IS_NOT_ACTIVE, args![account, id, now], reject);
}

/// Whether the operator has stopped an account.
pub(super) async fn is_suspended(app: &App, account: &AccountId) -> Result<bool, Error> {
    let found = app.db.row::<(Standing,)>(STATUS, args![account]).await?;
    Ok(found.is_some_and(|(standing,)| standing == Standing::Suspended))
}
