//! The SQL of passcodes. Rules are guards here: what a statement's WHERE refuses did not happen.

use clock::Millis;
use store::{Args, Error, FromRow, Row, Sql, WriteSet, args};

use super::{Attempt, Challenge, STALE, Status};
use crate::app::App;
use crate::carriers::Channel;
use crate::kit::id::{AccountId, AttemptId, ChallengeId};
use crate::kit::msisdn::Msisdn;

/// Claims touch many accounts, so they are routed by a word of their own.
const DUE_SHARD: &str = "due";

const COLUMNS_BY_ID: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, code_sealed, account_id FROM challenges \
     WHERE account_id = $1 AND challenge_id = $2",
);
const BY_SLOT: Sql = Sql(
    "SELECT challenge_id, recipient, reference, mode, channel, status, failure_reason, attempt_id, \
     provider_message_id, attempts, max_attempts, fallback_used, fallback_ms, settled, wording, \
     expires_at, verified_at, created_at, code_sealed, account_id FROM challenges \
     WHERE account_id = $1 AND slot = $2",
);
/// Anything that a first send to a recipient must look at: an open challenge in its slot, or that
/// the recipient is known as unreachable on the chat-app.
const PAST: Sql = Sql("SELECT challenge_id FROM challenges WHERE account_id = $1 AND slot = $2 \
     UNION ALL SELECT recipient FROM recipients \
     WHERE account_id = $1 AND recipient = $3 AND unreachable_until > $4");
const NEWEST_BY_REFERENCE: Sql = Sql("SELECT challenge_id, recipient FROM challenges \
     WHERE account_id = $1 AND reference = $2 ORDER BY challenge_id DESC LIMIT 1");
const NEWEST_BY_RECIPIENT: Sql = Sql("SELECT challenge_id, reference FROM challenges \
     WHERE account_id = $1 AND recipient = $2 ORDER BY challenge_id DESC LIMIT 1");
const ANY_DUE: Sql = Sql("SELECT c.next_at FROM challenges c WHERE c.next_at <= $1 \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = c.account_id AND a.env = $2) \
     ORDER BY c.next_at LIMIT 1");
/// Takes due challenges for this node: until the lease ends, no other finds them due.
const CLAIM_DUE: Sql = Sql("UPDATE challenges SET next_at = $1 \
     WHERE (account_id, challenge_id) IN (SELECT c.account_id, c.challenge_id FROM challenges c \
       WHERE c.next_at <= $2 \
       AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = c.account_id AND a.env = $3) \
       ORDER BY c.next_at LIMIT $4 /*SKIP LOCKED*/) \
     AND next_at <= $2 RETURNING account_id, challenge_id");
const OLDEST_DUE: Sql =
    Sql("SELECT next_at FROM challenges WHERE next_at <= $1 ORDER BY next_at LIMIT 1");
const ATTEMPT: Sql = Sql("SELECT attempt_id, challenge_id, channel, state, credits, lease_until \
     FROM attempts WHERE account_id = $1 AND attempt_id = $2");
const UNREACHABLE: Sql =
    Sql("SELECT unreachable_until FROM recipients WHERE account_id = $1 AND recipient = $2");
const LIMITS: Sql = Sql("SELECT chatapp_sent_at, sms_sent_at, sent_1, sent_2, sent_3, sent_4, \
     sent_5, sent_6, sent_7, sent_8, sent_9, sent_10 FROM recipients \
     WHERE account_id = $1 AND recipient = $2");

const INSERT: Sql = Sql("INSERT INTO challenges (account_id, challenge_id, recipient, reference, \
     slot, mode, channel, status, attempt_id, provider_message_id, code_mac, code_sealed, \
     attempts, \
     max_attempts, fallback_used, fallback_ms, settled, wording, expires_at, created_at, next_at, \
     event_count) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, 'sent', $8, $9, $10, $11, 0, $12, $13, $14, 0, $15, $16, \
     $17, $18, 1) ON CONFLICT DO NOTHING");
const INSERT_ATTEMPT: Sql = Sql("INSERT INTO attempts (account_id, attempt_id, challenge_id, \
     channel, state, credits, lease_until, created_at) VALUES ($1, $2, $3, $4, 'sending', $5, $6, \
     $7)");
/// The visit that is due for it says and tells that it expired.
const FREE_SLOT: Sql = Sql("UPDATE challenges SET slot = NULL, code_sealed = NULL \
     WHERE account_id = $1 AND challenge_id = $2 AND status IN ('sent', 'delivered') \
     AND expires_at <= $3");
const NEXT_LEG: Sql = Sql("UPDATE challenges SET attempt_id = $1, provider_message_id = $2, \
     channel = $3, fallback_used = $4, next_at = $5, settled = 0 \
     WHERE account_id = $6 AND challenge_id = $7 AND attempt_id = $8 \
     AND status IN ('sent', 'delivered') AND expires_at > $9");
const CODE_MAC: Sql =
    Sql("SELECT code_mac FROM challenges WHERE account_id = $1 AND challenge_id = $2");
const RECODE: Sql = Sql("UPDATE challenges SET code_mac = $1, code_sealed = $2, expires_at = $3 \
     WHERE account_id = $4 AND challenge_id = $5 AND status IN ('sent', 'delivered')");
const SETTLE: Sql = Sql("UPDATE challenges SET provider_message_id = $1, \
     status = CASE WHEN status = 'sent' THEN $2 ELSE status END, \
     next_at = CASE WHEN status IN ('sent', 'delivered') THEN CAST($3 AS BIGINT) ELSE NULL END, \
     event_count = event_count + 1, settled = 1 WHERE account_id = $4 AND challenge_id = $5 \
     AND attempt_id = $6");
const CLOSE: Sql = Sql("UPDATE challenges SET \
     status = CASE WHEN status IN ('sent', 'delivered') THEN $1 ELSE status END, \
     failure_reason = CASE WHEN status IN ('sent', 'delivered') THEN $2 ELSE failure_reason END, \
     code_sealed = NULL, slot = NULL, next_at = NULL, event_count = event_count + 1, settled = 1 \
     WHERE account_id = $3 AND challenge_id = $4 AND attempt_id = $5");
const EXPIRE: Sql = Sql("UPDATE challenges SET status = 'expired', code_sealed = NULL, \
     slot = NULL, next_at = NULL, event_count = event_count + 1, settled = 1 \
     WHERE account_id = $1 AND challenge_id = $2 AND attempt_id = $3 \
     AND status IN ('sent', 'delivered')");
const POSTPONE: Sql = Sql("UPDATE challenges SET next_at = $1, event_count = event_count + 1 \
     WHERE account_id = $2 AND challenge_id = $3 AND attempt_id = $4 AND next_at IS NOT NULL");
const MOVE_ATTEMPT: Sql = Sql("UPDATE attempts SET state = $1, \
     provider_id = COALESCE($2, provider_id), error = $3 \
     WHERE account_id = $4 AND attempt_id = $5 AND state = $6");
const VERIFY: Sql = Sql("UPDATE challenges SET attempts = attempts + 1, \
     event_count = event_count + 1, \
     verified_at = CASE WHEN code_mac = $1 THEN CAST($2 AS BIGINT) ELSE NULL END, \
     status = CASE WHEN code_mac = $1 THEN 'verified' \
       WHEN attempts + 1 >= max_attempts THEN 'failed' ELSE status END, \
     failure_reason = CASE WHEN code_mac <> $1 AND attempts + 1 >= max_attempts \
       THEN 'attempts_exhausted' ELSE NULL END, \
     code_sealed = CASE WHEN code_mac = $1 OR attempts + 1 >= max_attempts THEN NULL \
       ELSE code_sealed END, \
     slot = CASE WHEN code_mac = $1 OR attempts + 1 >= max_attempts THEN NULL ELSE slot END, \
     next_at = CASE WHEN settled = 1 AND (code_mac = $1 OR attempts + 1 >= max_attempts) \
       THEN NULL ELSE next_at END \
     WHERE account_id = $3 AND challenge_id = $4 AND status IN ('sent', 'delivered') \
     AND attempts < max_attempts AND expires_at > $2 RETURNING status, attempts, max_attempts");
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
     AND ($9 = '' OR failure_reason = $9)");
const REMEMBER_UNREACHABLE: Sql = Sql("INSERT INTO recipients (account_id, recipient, \
     unreachable_until, chatapp_sent_at, sms_sent_at, sent_1, sent_2, sent_3, sent_4, sent_5, \
     sent_6, sent_7, sent_8, sent_9, sent_10) VALUES ($1, $2, $3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
     0, 0) \
     ON CONFLICT (account_id, recipient) DO UPDATE SET unreachable_until = $3");
/// Counts one send in a sliding log of ten, if neither limit is reached.
const COUNT_SEND: Sql = Sql("INSERT INTO recipients (account_id, recipient, unreachable_until, \
     chatapp_sent_at, sms_sent_at, sent_1, sent_2, sent_3, sent_4, sent_5, sent_6, sent_7, sent_8, \
     sent_9, sent_10) VALUES ($1, $2, 0, $3, $4, $5, 0, 0, 0, 0, 0, 0, 0, 0, 0) \
     ON CONFLICT (account_id, recipient) DO UPDATE SET \
     chatapp_sent_at = CASE WHEN $3 > 0 THEN $3 ELSE recipients.chatapp_sent_at END, \
     sms_sent_at = CASE WHEN $4 > 0 THEN $4 ELSE recipients.sms_sent_at END, \
     sent_1 = $5, sent_2 = recipients.sent_1, sent_3 = recipients.sent_2, \
     sent_4 = recipients.sent_3, sent_5 = recipients.sent_4, sent_6 = recipients.sent_5, \
     sent_7 = recipients.sent_6, sent_8 = recipients.sent_7, sent_9 = recipients.sent_8, \
     sent_10 = recipients.sent_9 \
     WHERE (CASE CAST($6 AS BIGINT) WHEN 1 THEN recipients.sent_1 WHEN 2 THEN recipients.sent_2 \
       WHEN 3 THEN recipients.sent_3 WHEN 4 THEN recipients.sent_4 WHEN 5 THEN recipients.sent_5 \
       WHEN 6 THEN recipients.sent_6 WHEN 7 THEN recipients.sent_7 WHEN 8 THEN recipients.sent_8 \
       WHEN 9 THEN recipients.sent_9 ELSE recipients.sent_10 END) <= $7 \
     AND (CASE CAST($8 AS BIGINT) WHEN 1 THEN recipients.sent_1 WHEN 2 THEN recipients.sent_2 \
       WHEN 3 THEN recipients.sent_3 WHEN 4 THEN recipients.sent_4 WHEN 5 THEN recipients.sent_5 \
       WHEN 6 THEN recipients.sent_6 WHEN 7 THEN recipients.sent_7 WHEN 8 THEN recipients.sent_8 \
       WHEN 9 THEN recipients.sent_9 ELSE recipients.sent_10 END) <= $9 \
     AND (CASE WHEN $3 > 0 THEN recipients.chatapp_sent_at ELSE recipients.sms_sent_at END) <= \
     $10");

impl FromRow for Challenge {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let channel: String = row.take(4)?;
        let status: String = row.take(5)?;
        Ok(Self {
            id: row.take(0)?,
            recipient: row.take(1)?,
            reference: row.take(2)?,
            mode: row.take(3)?,
            channel: Channel::of(&channel).ok_or(Error::Corrupt { column: 4 })?,
            status: Status::of(&status).ok_or(Error::Corrupt { column: 5 })?,
            failure_reason: row.take(6)?,
            attempt: row.take(7)?,
            provider_message_id: row.take(8)?,
            attempts: row.take(9)?,
            max_attempts: row.take(10)?,
            fallback_used: row.take(11)?,
            fallback_ms: row.take(12)?,
            settled: row.take(13)?,
            wording: row.take(14)?,
            expires_at: row.take(15)?,
            verified_at: row.take(16)?,
            created_at: row.take(17)?,
            code_sealed: row.take(18)?,
            account: row.take(19)?,
        })
    }
}

impl FromRow for Attempt {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let channel: String = row.take(2)?;
        Ok(Self {
            id: row.take(0)?,
            challenge: row.take(1)?,
            channel: Channel::of(&channel).ok_or(Error::Corrupt { column: 2 })?,
            state: row.take(3)?,
            credits: row.take(4)?,
            lease_until: row.take(5)?,
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
    slot: &str,
) -> Result<Option<Challenge>, Error> {
    app.db.row(BY_SLOT, args![account, slot]).await
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
    let args = args![account, recipient.e164()];
    let found = app.db.row::<(ChallengeId, Option<String>)>(NEWEST_BY_RECIPIENT, args);
    Ok(found.await?.map(|(id, _)| id))
}

/// Claims at most `limit` due challenges until `lease_until`, the longest due first.
pub(super) async fn claim_due(
    app: &App,
    limit: i64,
    lease_until: Millis,
) -> Result<Vec<(AccountId, ChallengeId)>, super::Error> {
    let (now, env) = (app.now(), app.env.word());
    if app.db.row::<(Millis,)>(ANY_DUE, args![now, env]).await?.is_none() {
        return Ok(Vec::new());
    }
    let mut set = WriteSet::of(DUE_SHARD);
    set.returning_rows(CLAIM_DUE, args![lease_until, now, env, limit]);
    let rows = app.db.commit(set).await?.rows.into_iter().flatten();
    Ok(rows.map(FromRow::from_row).collect::<Result<_, Error>>()?)
}

/// Since when work is due; `None` = none is.
pub(super) async fn oldest_due(app: &App) -> Result<Option<Millis>, Error> {
    let found = app.db.row::<(Millis,)>(OLDEST_DUE, args![app.now()]).await?;
    Ok(found.map(|(next_at,)| next_at))
}

pub(super) async fn attempt(
    app: &App,
    account: &AccountId,
    id: &AttemptId,
) -> Result<Option<Attempt>, Error> {
    app.db.row(ATTEMPT, args![account, id]).await
}

pub(super) async fn unreachable_until(
    app: &App,
    account: &AccountId,
    recipient: &str,
) -> Result<Millis, Error> {
    let found = app.db.row::<(Millis,)>(UNREACHABLE, args![account, recipient]).await?;
    Ok(found.map_or(Millis(0), |(until,)| until))
}

/// When the recipient was last sent to: by chat-app, by SMS, and the last ten times at all.
pub(super) async fn sends(
    app: &App,
    account: &AccountId,
    recipient: &Msisdn,
) -> Result<Option<[i64; 12]>, Error> {
    let row = app.db.row::<Row>(LIMITS, args![account, recipient.e164()]).await?;
    let Some(mut row) = row else { return Ok(None) };
    let mut sends = [0; 12];
    for (index, sent) in sends.iter_mut().enumerate() {
        *sent = row.take(index)?;
    }
    Ok(Some(sends))
}

pub(super) struct NewChallenge<'a> {
    pub(super) account: &'a AccountId,
    pub(super) id: &'a ChallengeId,
    pub(super) recipient: &'a Msisdn,
    pub(super) reference: Option<&'a str>,
    pub(super) slot: &'a str,
    pub(super) mode: &'static str,
    pub(super) channel: Channel,
    pub(super) attempt: &'a AttemptId,
    pub(super) code_mac: [u8; 32],
    pub(super) code_sealed: Vec<u8>,
    pub(super) max_attempts: i64,
    pub(super) fallback_used: bool,
    pub(super) fallback_ms: i64,
    pub(super) wording: String,
    pub(super) expires_at: Millis,
    pub(super) created_at: Millis,
    pub(super) next_at: Millis,
}

/// Refuses the set if there is a past that it must look at.
pub(super) fn no_past(
    set: &mut WriteSet,
    account: &AccountId,
    recipient: &Msisdn,
    slot: &str,
    now: Millis,
) {
    set.absent(PAST, args![account, slot, recipient.e164(), now], STALE);
}

pub(super) fn insert(set: &mut WriteSet, new: NewChallenge<'_>) {
    let args: Args = args![
        new.account,
        new.id,
        new.recipient.e164(),
        new.reference,
        new.slot,
        new.mode,
        new.channel.word(),
        new.attempt,
        new.attempt.as_str(),
        new.code_mac,
        new.code_sealed,
        new.max_attempts,
        new.fallback_used,
        new.fallback_ms,
        new.wording,
        new.expires_at,
        new.created_at,
        new.next_at
    ];
    set.guard(INSERT, args, STALE);
}

pub(super) fn insert_attempt(
    set: &mut WriteSet,
    account: &AccountId,
    attempt: &Attempt,
    now: Millis,
) {
    let channel = attempt.channel.word();
    let (id, challenge) = (&attempt.id, &attempt.challenge);
    let args = args![account, id, challenge, channel, attempt.credits, attempt.lease_until, now];
    set.push(INSERT_ATTEMPT, args);
}

pub(super) fn free_slot(set: &mut WriteSet, challenge: &Challenge, now: Millis) {
    set.push(FREE_SLOT, args![&challenge.account, &challenge.id, now]);
}

/// Puts a new attempt in the place of the current one.
pub(super) fn next_leg(
    set: &mut WriteSet,
    challenge: &Challenge,
    leg: &Attempt,
    fallback_used: bool,
    now: Millis,
) {
    let args = args![
        &leg.id,
        leg.id.as_str(),
        leg.channel.word(),
        fallback_used,
        leg.lease_until,
        &challenge.account,
        &challenge.id,
        &challenge.attempt,
        now
    ];
    set.guard(NEXT_LEG, args, STALE);
}

pub(super) fn recode(
    set: &mut WriteSet,
    challenge: &Challenge,
    code_mac: [u8; 32],
    code_sealed: Vec<u8>,
    expires_at: Millis,
) {
    let args = args![code_mac, code_sealed, expires_at, &challenge.account, &challenge.id];
    set.guard(RECODE, args, STALE);
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
    set.push(SETTLE, args![provider_id, status.word(), next_at, account, id, attempt]);
}

/// Ends a challenge that is still open; one that ended otherwise only loses its due work.
pub(super) fn close(
    set: &mut WriteSet,
    challenge: &Challenge,
    status: Status,
    reason: Option<&'static str>,
) {
    let (account, id, attempt) = (&challenge.account, &challenge.id, &challenge.attempt);
    set.push(CLOSE, args![status.word(), reason, account, id, attempt]);
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

/// Moves an attempt from the state it was read in; refused if another was faster.
pub(super) fn move_attempt(
    set: &mut WriteSet,
    account: &AccountId,
    attempt: &Attempt,
    to: &'static str,
    news: (Option<&str>, Option<&str>),
) {
    let (provider_id, error) = news;
    let state = attempt.state.as_str();
    set.guard(MOVE_ATTEMPT, args![to, provider_id, error, account, &attempt.id, state], STALE);
}

pub(super) fn verify(
    set: &mut WriteSet,
    account: &AccountId,
    id: &ChallengeId,
    code_mac: [u8; 32],
    now: Millis,
) {
    set.returning(VERIFY, args![code_mac, now, account, id], STALE);
}

pub(super) fn remember_unreachable(
    set: &mut WriteSet,
    account: &AccountId,
    recipient: &str,
    until: Millis,
) {
    set.push(REMEMBER_UNREACHABLE, args![account, recipient, until]);
}

/// Counts a send against the recipient's limits: (how many in 10 minutes, in a day, gap in ms).
pub(super) fn count_send(
    set: &mut WriteSet,
    place: (&AccountId, &Msisdn, Channel),
    limits: (i64, i64, i64),
    now: Millis,
) {
    let (account, recipient, channel) = place;
    let (per_10_min, per_day, gap_ms) = limits;
    let at = |wanted| if channel == wanted { now.0 } else { 0 };
    let args = args![
        account,
        recipient.e164(),
        at(Channel::Chatapp),
        at(Channel::Sms),
        now,
        per_10_min,
        now - 10 * clock::MINUTE,
        per_day,
        now - clock::DAY,
        now - gap_ms
    ];
    set.guard(COUNT_SEND, args, super::LIMITED);
}
