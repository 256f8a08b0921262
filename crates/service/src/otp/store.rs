//! The SQL of passcodes. Rules are guards here: what a statement's WHERE refuses did not happen.

use clock::Millis;
use store::{Args, Error, FromRow, Row, Sql, WriteSet, args};

use super::order::Order;
use super::{Attempt, Challenge, Fallback, Mode, Reason, STALE, Status};
use crate::app::App;
use crate::carriers::Channel;
use crate::kit::id::{AccountId, AttemptId, ChallengeId};
use crate::kit::msisdn::Msisdn;
use crate::kit::seal::text::SealedText;

const COLUMNS_BY_ID: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, code_sealed, account_id, asks_consent FROM challenges \
     WHERE account_id = $1 AND challenge_id = $2 /*MANY*/",
);
const BY_SLOT: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, code_sealed, account_id, asks_consent FROM challenges \
     WHERE account_id = $1 AND challenge_id IN (SELECT challenge_id FROM challenges \
       WHERE recipient = $2 AND account_id = $1 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) = $3 \
       UNION ALL SELECT challenge_id FROM challenges \
       WHERE account_id = $1 AND slot = $3 AND reference = $4)",
);
/// A stretch of an account's challenges, newest first, without their codes.
const LIST: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, NULL, account_id, asks_consent \
     FROM challenges \
     WHERE account_id = $1 AND challenge_id < $2 ORDER BY challenge_id DESC LIMIT $3",
);
/// The same of one recipient: the open one without a reference is under its slot, the others are
/// under their ids.
const LIST_TO: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, NULL, account_id, asks_consent \
     FROM challenges \
     WHERE account_id = $1 AND challenge_id IN (SELECT challenge_id FROM challenges \
       WHERE recipient = $2 AND account_id = $1 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) = $2 || '|' \
       AND challenge_id < $3 \
       UNION ALL SELECT challenge_id FROM (SELECT challenge_id FROM challenges \
       WHERE recipient = $2 AND account_id = $1 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) >= 'otp_' \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) < $3 \
       ORDER BY COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) DESC \
       LIMIT $4) AS newest) ORDER BY challenge_id DESC LIMIT $4",
);
/// The same with one reference.
const LIST_CALLED: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, NULL, account_id, asks_consent \
     FROM challenges \
     WHERE reference = $1 AND account_id = $2 AND challenge_id < $3 \
     ORDER BY challenge_id DESC LIMIT $4",
);
/// Anything that a first send to a recipient must look at: an open challenge in its slot, that the
/// recipient is known as unreachable on the chat-app, or a challenge of the same recipient or
/// reference whose id is not below the new one, because the clock was set back or another node's is
/// ahead: the newest one must be the one with the highest id.
const PAST: Sql = Sql("SELECT challenge_id FROM challenges WHERE recipient = $1 \
     AND account_id = $2 \
     AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) = $1 || '|' \
     AND (CAST($3 AS TEXT) IS NULL OR challenge_id >= $4) \
     UNION ALL SELECT challenge_id FROM challenges WHERE recipient = $1 AND account_id = $2 \
     AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) >= $4 \
     UNION ALL SELECT challenge_id FROM challenges \
     WHERE account_id = $2 AND slot = $5 AND reference = $3 \
     UNION ALL SELECT challenge_id FROM challenges \
     WHERE account_id = $2 AND reference = $3 AND challenge_id >= $4 \
     UNION ALL SELECT recipient FROM recipients \
     WHERE account_id = $2 AND recipient = $1 AND unreachable_until > $6 /*BULK*/");
const NEWEST_BY_REFERENCE: Sql = Sql("SELECT challenge_id, recipient FROM challenges \
     WHERE account_id = $1 AND reference = $2 ORDER BY challenge_id DESC LIMIT 1");
const NEWEST_BY_RECIPIENT: Sql = Sql("SELECT MAX(challenge_id) FROM (\
       SELECT challenge_id FROM challenges WHERE recipient = $1 AND account_id = $2 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) = $1 || '|' \
       UNION ALL SELECT challenge_id FROM (SELECT challenge_id FROM challenges \
       WHERE recipient = $1 AND account_id = $2 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) >= 'otp_' \
       ORDER BY COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) DESC \
       LIMIT 1) AS newest) AS found");
const INSERT: Sql = Sql("INSERT INTO challenges (account_id, challenge_id, recipient, reference, \
     slot, mode, channel, status, attempt_id, provider_message_id, code_mac, code_sealed, \
     attempts, \
     max_attempts, fallback_used, fallback_ms, settled, wording, expires_at, created_at, next_at, \
     event_count, asks_consent, env) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, 'sent', $8, $9, $10, $11, 0, $12, $13, $14, 0, $15, $16, \
     $17, $18, 1, $19, $20) ON CONFLICT DO NOTHING /*BULK*/");
/// The visit that is due for it says and tells that it expired.
const FREE_SLOT: Sql = Sql("UPDATE challenges SET slot = NULL, code_sealed = NULL \
     WHERE account_id = $1 AND challenge_id = $2 AND status IN ('sent', 'delivered') \
     AND expires_at <= $3");
/// A leg that arrived is remembered, should the next one fail.
const NEXT_LEG: Sql = Sql("UPDATE challenges SET attempt_id = $1, provider_message_id = $2, \
     channel = $3, mode = $4, fallback_used = $5, next_at = $6, asks_consent = $7, settled = 0, \
     delivered_channel = CASE WHEN EXISTS (SELECT 1 FROM attempts WHERE account_id = $8 \
       AND attempt_id = $9 AND state = 'delivered') THEN channel ELSE delivered_channel END, \
     delivered_id = CASE WHEN EXISTS (SELECT 1 FROM attempts WHERE account_id = $8 \
       AND attempt_id = $9 AND state = 'delivered') THEN provider_message_id \
       ELSE delivered_id END \
     WHERE account_id = $8 AND challenge_id = $10 AND attempt_id = $9 \
     AND status IN ('sent', 'delivered') AND expires_at > $11");
const CODE_MAC: Sql =
    Sql("SELECT code_mac FROM challenges WHERE account_id = $1 AND challenge_id = $2");
const RECODE: Sql = Sql("UPDATE challenges SET code_mac = $1, code_sealed = $2, expires_at = $3 \
     WHERE account_id = $4 AND challenge_id = $5 AND status IN ('sent', 'delivered')");
const REWORD: Sql = Sql("UPDATE challenges SET wording = $1 \
     WHERE account_id = $2 AND challenge_id = $3 AND status IN ('sent', 'delivered')");
const SETTLE: Sql = Sql("UPDATE challenges SET provider_message_id = $1, \
     status = CASE WHEN status = 'sent' THEN $2 ELSE status END, \
     next_at = CASE WHEN status IN ('sent', 'delivered') THEN CAST($3 AS BIGINT) ELSE NULL END, \
     event_count = event_count + 1, settled = 1 WHERE account_id = $4 AND challenge_id = $5 \
     AND attempt_id = $6 /*BULK*/");
const CLOSE: Sql = Sql("UPDATE challenges SET \
     status = CASE WHEN status IN ('sent', 'delivered') THEN $1 ELSE status END, \
     failure_reason = CASE WHEN status IN ('sent', 'delivered') THEN $2 ELSE failure_reason END, \
     code_sealed = NULL, slot = NULL, next_at = NULL, event_count = event_count + 1, settled = 1 \
     WHERE account_id = $3 AND challenge_id = $4 AND attempt_id = $5 /*BULK*/");
/// Ends a challenge that nothing was heard of. One that was delivered or ended before stays so.
const FAIL: Sql = Sql("UPDATE challenges SET status = 'failed', failure_reason = $1, \
     code_sealed = NULL, slot = NULL, event_count = event_count + 1 \
     WHERE account_id = $2 AND challenge_id = $3 AND attempt_id = $4 AND status = 'sent'");
/// A challenge that another leg delivered shows that one again.
const LEG_OVER: Sql = Sql("UPDATE challenges SET settled = 1, next_at = \
     CASE WHEN status IN ('sent', 'delivered') THEN CAST($1 AS BIGINT) ELSE NULL END, \
     channel = CASE WHEN status IN ('delivered', 'verified') \
       THEN COALESCE(delivered_channel, channel) ELSE channel END, \
     provider_message_id = CASE WHEN status IN ('delivered', 'verified') \
       THEN COALESCE(delivered_id, provider_message_id) ELSE provider_message_id END \
     WHERE account_id = $2 AND challenge_id = $3 AND attempt_id = $4 /*BULK*/");
/// A leg that never went out is told of, while another may still bring it.
const TURNED_TO: Sql = Sql("UPDATE challenges SET event_count = event_count + 1 \
     WHERE account_id = $1 AND challenge_id = $2 AND attempt_id = $3 AND status = 'sent'");
/// No other way follows the leg that is over.
const NO_MORE_WAYS: Sql = Sql("UPDATE challenges SET mode = channel WHERE account_id = $1 \
     AND challenge_id = $2 AND attempt_id = $3");
const EXPIRE: Sql = Sql("UPDATE challenges SET status = 'expired', code_sealed = NULL, \
     slot = NULL, next_at = NULL, event_count = event_count + 1, settled = 1 \
     WHERE account_id = $1 AND challenge_id = $2 AND attempt_id = $3 \
     AND status IN ('sent', 'delivered')");
const POSTPONE: Sql = Sql("UPDATE challenges SET next_at = $1, event_count = event_count + 1 \
     WHERE account_id = $2 AND challenge_id = $3 AND attempt_id = $4 AND next_at IS NOT NULL \
     /*BULK*/");
/// A guess. SQLite writes each index anew whose columns are set, even if to what they were: there,
/// those are set by [`CLOSE_GUESSED`].
const VERIFY: Sql = Sql("UPDATE challenges SET attempts = attempts + 1, \
     event_count = event_count + 1, \
     verified_at = CASE WHEN code_mac = $1 THEN CAST($2 AS BIGINT) ELSE NULL END, \
     status = CASE WHEN code_mac = $1 THEN 'verified' \
       WHEN attempts + 1 >= max_attempts THEN 'failed' ELSE status END, \
     failure_reason = CASE WHEN code_mac <> $1 AND attempts + 1 >= max_attempts \
       THEN 'attempts_exhausted' ELSE NULL END, \
     code_sealed = CASE WHEN code_mac = $1 OR attempts + 1 >= max_attempts THEN NULL \
       ELSE code_sealed END \
     /*POSTGRESQL , \
     slot = CASE WHEN code_mac = $1 OR attempts + 1 >= max_attempts THEN NULL ELSE slot END, \
     next_at = CASE WHEN settled = 1 AND (code_mac = $1 OR attempts + 1 >= max_attempts) \
       THEN NULL ELSE next_at END */ \
     WHERE account_id = $3 AND challenge_id = $4 AND status IN ('sent', 'delivered') \
     AND attempts < max_attempts AND expires_at > $2 \
     RETURNING status, attempts, max_attempts, recipient, \
     COALESCE((SELECT a.carrier FROM attempts a WHERE a.account_id = challenges.account_id \
     AND a.attempt_id = challenges.attempt_id), '')");
/// The challenge that a guess has ended.
const CLOSE_GUESSED: Sql = Sql("/*SQLITE*/ UPDATE challenges SET slot = NULL, \
     next_at = CASE WHEN settled = 1 THEN NULL ELSE next_at END \
     WHERE account_id = $1 AND challenge_id = $2 AND status NOT IN ('sent', 'delivered')");
/// An event, if the challenge stands as it is said to: with this attempt, this status and this
/// reason; an empty status means that it is over. Everything that may differ at the next event is
/// in `state`; the carrier's id comes last, because it may hold anything.
pub(super) const TELL: Sql = Sql("INSERT INTO events (account_id, event_id, kind, object_id, \
     sequence, state, body, node, due) SELECT account_id, CAST($1 AS TEXT), 'otp.status', \
     challenge_id, event_count, status || ' ' || channel || ' ' || attempts || ' ' || expires_at \
     || ' ' || COALESCE(verified_at, 0) || ' ' || COALESCE(failure_reason, '-') || ' ' \
     || COALESCE($2, provider_message_id), NULL, CAST($3 AS BIGINT), \
     (SELECT CAST($4 AS BIGINT) FROM listeners WHERE account_id = $5) \
     FROM challenges WHERE account_id = $5 AND challenge_id = $6 \
     AND ($7 = '' OR attempt_id = $7) \
     AND (status = $8 OR ($8 = '' AND status NOT IN ('sent', 'delivered'))) \
     AND ($9 = '' OR failure_reason = $9) /*BULK*/");
/// What a guess came to, for a repeat of its request: the challenge as it stands after it.
const TELL_VERDICT: Sql = Sql("UPDATE idempotency SET answer = (SELECT status || ' ' || attempts \
     || ' ' || max_attempts || ' ' || COALESCE(verified_at, 0) FROM challenges \
     WHERE account_id = $1 AND challenge_id = $2) \
     WHERE account_id = $1 AND namespace = 'tenant' AND idem_key = $3");
impl FromRow for Challenge {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let reason: Option<String> = row.take(6)?;
        Ok(Self {
            id: row.take(0)?,
            recipient: row.take(1)?,
            reference: row.take(2)?,
            mode: row.take(3)?,
            channel: row.take(4)?,
            status: row.take(5)?,
            failure_reason: reason.and_then(|word| word.parse().ok()),
            attempt: row.take(7)?,
            provider_message_id: row.take(8)?,
            attempts: row.take(9)?,
            max_attempts: row.take(10)?,
            fallback_used: row.take(11)?,
            fallback: Fallback { stored_ms: row.take(12)? },
            settled: row.take(13)?,
            wording: row.take(14)?,
            expires_at: row.take(15)?,
            verified_at: row.take(16)?,
            created_at: row.take(17)?,
            code: row.take::<Option<Vec<u8>>>(18)?.map(SealedText::stored),
            account: row.take(19)?,
            asks_consent: row.take(20)?,
        })
    }
}

pub(super) async fn challenge(
    app: &App,
    account: &AccountId,
    id: &ChallengeId,
) -> Result<Option<Challenge>, Error> {
    app.db.row(COLUMNS_BY_ID, args![account, id]).await
}

/// At most `limit` challenges with ids below `before`, newest first.
pub(super) async fn list(
    app: &App,
    account: &AccountId,
    before: &str,
    limit: i64,
) -> Result<Vec<Challenge>, Error> {
    app.db.rows(LIST, args![account, before, limit]).await
}

/// The same of one recipient.
pub(super) async fn list_to(
    app: &App,
    account: &AccountId,
    recipient: &str,
    before: &str,
    limit: i64,
) -> Result<Vec<Challenge>, Error> {
    app.db.rows(LIST_TO, args![account, recipient, before, limit]).await
}

/// The same with one reference.
pub(super) async fn list_called(
    app: &App,
    account: &AccountId,
    reference: &str,
    before: &str,
    limit: i64,
) -> Result<Vec<Challenge>, Error> {
    app.db.rows(LIST_CALLED, args![reference, account, before, limit]).await
}

/// The keyed hash of a challenge's code.
pub(super) async fn code_mac(
    app: &App,
    account: &AccountId,
    id: &ChallengeId,
) -> Result<Option<Vec<u8>>, store::Error> {
    let found: Option<(Vec<u8>,)> = app.db.row(CODE_MAC, args![account, id]).await?;
    Ok(found.map(|(mac,)| mac))
}

pub(super) async fn open_in_slot(
    app: &App,
    account: &AccountId,
    order: &Order,
) -> Result<Option<Challenge>, Error> {
    let args = args![account, order.to.e164(), order.slot(), order.reference.as_deref()];
    app.db.row(BY_SLOT, args).await
}

pub(super) async fn newest_by_reference(
    app: &App,
    account: &AccountId,
    reference: &str,
) -> Result<Option<ChallengeId>, Error> {
    let found = app.db.row::<(ChallengeId, String)>(NEWEST_BY_REFERENCE, args![account, reference]);
    Ok(found.await?.map(|(id, _)| id))
}

pub(super) async fn newest_by_recipient(
    app: &App,
    account: &AccountId,
    recipient: &Msisdn,
) -> Result<Option<ChallengeId>, Error> {
    let args = args![recipient.e164(), account];
    let found = app.db.row::<(Option<ChallengeId>,)>(NEWEST_BY_RECIPIENT, args).await?;
    Ok(found.and_then(|(id,)| id))
}

pub(super) struct NewChallenge<'a> {
    pub(super) env: &'a str,
    pub(super) account: &'a AccountId,
    pub(super) id: &'a ChallengeId,
    pub(super) recipient: &'a Msisdn,
    pub(super) reference: Option<&'a str>,
    pub(super) slot: &'a str,
    pub(super) mode: Mode,
    pub(super) channel: Channel,
    pub(super) attempt: &'a AttemptId,
    pub(super) code_mac: [u8; 32],
    pub(super) code: &'a SealedText,
    pub(super) max_attempts: i64,
    pub(super) fallback_used: bool,
    pub(super) fallback: Fallback,
    pub(super) wording: String,
    pub(super) asks_consent: bool,
    pub(super) expires_at: Millis,
    pub(super) created_at: Millis,
    pub(super) next_at: Millis,
}

/// Refuses the set if there is a past that the new challenge must look at.
pub(super) fn no_past(
    set: &mut WriteSet,
    account: &AccountId,
    order: &Order,
    id: &ChallengeId,
    now: Millis,
) {
    let (to, reference) = (order.to.e164(), order.reference.as_deref());
    set.absent(PAST, args![to, account, reference, id, order.slot(), now], STALE);
}

pub(super) fn insert(set: &mut WriteSet, new: NewChallenge<'_>) {
    let args: Args = args![
        new.account,
        new.id,
        new.recipient.e164(),
        new.reference,
        new.slot,
        new.mode.as_str(),
        new.channel.as_str(),
        new.attempt,
        new.attempt.as_str(),
        new.code_mac,
        new.code.as_bytes(),
        new.max_attempts,
        new.fallback_used,
        new.fallback.stored_ms,
        new.wording,
        new.expires_at,
        new.created_at,
        new.next_at,
        new.asks_consent,
        new.env
    ];
    set.guard(INSERT, args, STALE);
}

pub(super) fn free_slot(set: &mut WriteSet, challenge: &Challenge, now: Millis) {
    set.push(FREE_SLOT, args![&challenge.account, &challenge.id, now]);
}

/// The attempt that takes the place of the current one.
#[derive(Clone, Copy)]
pub(super) struct NextLeg<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) mode: Mode,
    pub(super) fallback_used: bool,
    pub(super) asks_consent: bool,
}

/// Puts a new attempt in the place of the current one.
pub(super) fn next_leg(set: &mut WriteSet, challenge: &Challenge, leg: NextLeg<'_>, now: Millis) {
    let NextLeg { attempt, mode, fallback_used, asks_consent } = leg;
    let args = args![
        &attempt.id,
        attempt.id.as_str(),
        attempt.channel.as_str(),
        mode.as_str(),
        fallback_used,
        attempt.lease_until,
        asks_consent,
        &challenge.account,
        &challenge.attempt,
        &challenge.id,
        now
    ];
    set.guard(NEXT_LEG, args, STALE);
}

pub(super) fn recode(
    set: &mut WriteSet,
    challenge: &Challenge,
    code_mac: [u8; 32],
    code: &SealedText,
    expires_at: Millis,
) {
    let args = args![code_mac, code.as_bytes(), expires_at, &challenge.account, &challenge.id];
    set.guard(RECODE, args, STALE);
}

/// It says something else from now on.
pub(super) fn reword(set: &mut WriteSet, challenge: &Challenge, wording: &str) {
    set.guard(REWORD, args![wording, &challenge.account, &challenge.id], STALE);
}

/// The current attempt's fate is known to be good so far.
pub(super) fn settle(
    set: &mut WriteSet,
    challenge: &Challenge,
    provider_id: &str,
    status: Status,
    next_at: Millis,
) {
    let (account, id, attempt) = (&challenge.account, &challenge.id, &challenge.attempt);
    set.push(SETTLE, args![provider_id, status.as_str(), next_at, account, id, attempt]);
}

/// Ends a challenge that is still open; one that ended otherwise only loses its due work.
pub(super) fn close(
    set: &mut WriteSet,
    challenge: &Challenge,
    status: Status,
    reason: Option<Reason>,
) {
    let (account, id, attempt) = (&challenge.account, &challenge.id, &challenge.attempt);
    set.push(CLOSE, args![status.as_str(), reason.map(Reason::as_str), account, id, attempt]);
}

/// Ends a challenge of which nothing was heard.
pub(super) fn fail(set: &mut WriteSet, challenge: &Challenge, reason: Reason) {
    let (account, id, attempt) = (&challenge.account, &challenge.id, &challenge.attempt);
    set.push(FAIL, args![reason.as_str(), account, id, attempt]);
}

/// The current attempt's fate is known to be bad: nothing is held for it, and if the challenge is
/// still open, it has due work at `next_at`.
pub(super) fn leg_over(set: &mut WriteSet, challenge: &Challenge, next_at: Millis) {
    let (account, id, attempt) = (&challenge.account, &challenge.id, &challenge.attempt);
    set.push(LEG_OVER, args![next_at, account, id, attempt]);
}

/// Another way was tried and refused at once: it reads so.
pub(super) fn turned_to(set: &mut WriteSet, challenge: &Challenge) {
    let args = args![&challenge.account, &challenge.id, &challenge.attempt];
    set.push(TURNED_TO, args);
}

/// The current leg is over, another one may still bring it, and none follows.
pub(super) fn no_more_ways(set: &mut WriteSet, challenge: &Challenge) {
    let args = args![&challenge.account, &challenge.id, &challenge.attempt];
    set.push(NO_MORE_WAYS, args);
}

/// Ends a challenge whose time is over, once.
pub(super) fn expire(set: &mut WriteSet, challenge: &Challenge) {
    let args = args![&challenge.account, &challenge.id, &challenge.attempt];
    set.guard(EXPIRE, args, STALE);
}

pub(super) fn postpone(set: &mut WriteSet, challenge: &Challenge, next_at: Millis) {
    let (account, id, attempt) = (&challenge.account, &challenge.id, &challenge.attempt);
    set.push(POSTPONE, args![next_at, account, id, attempt]);
}

pub(super) fn verify(
    set: &mut WriteSet,
    account: &AccountId,
    id: &ChallengeId,
    code_mac: [u8; 32],
    now: Millis,
) {
    set.returning(VERIFY, args![code_mac, now, account, id], STALE);
    set.push(CLOSE_GUESSED, args![account, id]);
}

/// Keeps the verdict of the guess in this set for a repeat of its request.
pub(super) fn tell_verdict(set: &mut WriteSet, account: &AccountId, id: &ChallengeId, key: &str) {
    set.push(TELL_VERDICT, args![account, id, key]);
}
