//! The SQL of SMS messages.

use clock::Millis;
use store::{Error, FromRow, Row, Sql, WriteSet, args};

use super::{Cause, Message};
use crate::app::App;
use crate::dispatch::STALE;
use crate::kit::id::{AccountId, SmsId};
use crate::kit::page::Since;
use crate::kit::seal::text::SealedText;

const BY_ID: Sql = Sql("SELECT account_id, sms_id, recipient, reference, sender, text_sealed, \
     class, encoding, segments, charged_credits, attempt_id, status, error, carrier_code, \
     event_count, valid_until, created_at, updated_at FROM sms_messages \
     WHERE account_id = $1 AND sms_id = $2 /*MANY*/");
/// A stretch of an account's messages, newest first.
const STRETCH: Sql = Sql("SELECT account_id, sms_id, recipient, reference, sender, NULL, \
     class, encoding, segments, charged_credits, attempt_id, status, error, carrier_code, \
     event_count, valid_until, created_at, updated_at FROM sms_messages \
     WHERE account_id = $1 AND sms_id < $2 AND sms_id >= $3 ORDER BY sms_id DESC LIMIT $4");
/// The same to one recipient.
const STRETCH_TO: Sql = Sql("SELECT account_id, sms_id, recipient, reference, sender, NULL, \
     class, encoding, segments, charged_credits, attempt_id, status, error, carrier_code, \
     event_count, valid_until, created_at, updated_at FROM sms_messages \
     WHERE recipient = $1 AND account_id = $2 AND sms_id < $3 AND sms_id >= $4 \
     ORDER BY sms_id DESC LIMIT $5");
/// The same with one reference.
const STRETCH_CALLED: Sql = Sql("SELECT account_id, sms_id, recipient, reference, sender, NULL, \
     class, encoding, segments, charged_credits, attempt_id, status, error, carrier_code, \
     event_count, valid_until, created_at, updated_at FROM sms_messages \
     WHERE reference = $1 AND account_id = $2 AND sms_id < $3 AND sms_id >= $4 \
     ORDER BY sms_id DESC LIMIT $5");
const INSERT: Sql = Sql("INSERT INTO sms_messages (account_id, sms_id, recipient, reference, \
     sender, text_sealed, class, encoding, segments, charged_credits, attempt_id, status, error, \
     carrier_code, event_count, valid_until, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, NULL, NULL, 0, $13, $14, \
     $14) /*BULK*/");
/// Moves a message from the state it was read in: every move is one event more. One whose
/// recipient was forgotten meanwhile is read again, so that its event names nobody; it is compared
/// as no index has it, so that the row is found by its id.
const SHIFT: Sql = Sql("UPDATE sms_messages SET status = $1, error = $2, carrier_code = $3, \
     charged_credits = $4, updated_at = $5, event_count = event_count + 1, \
     text_sealed = CASE WHEN CAST($6 AS BIGINT) = 1 THEN text_sealed ELSE NULL END \
     WHERE account_id = $7 AND sms_id = $8 AND event_count = $9 AND recipient || '' = $10 \
     /*BULK*/");
const DROP_TEXT: Sql = Sql("UPDATE sms_messages SET text_sealed = NULL \
     WHERE account_id = $1 AND sms_id = $2 /*BULK*/");
/// The newest message of each account to a number. Ids are in the order of time. An answer is not
/// for who only tried, or waits to; one of which nobody said what became of it may be answered.
const NEWEST_TO: Sql = Sql("SELECT m.account_id, MAX(m.sms_id) FROM sms_messages m \
     WHERE m.recipient = $1 AND m.sms_id > $2 \
     AND (m.status IN ('submitted', 'delivered') \
       OR (m.status = 'queued' AND EXISTS (SELECT 1 FROM attempts t \
         WHERE t.account_id = m.account_id AND t.attempt_id = m.attempt_id \
         AND t.state <> 'queued')) \
       OR (m.status = 'expired' AND m.error = 'no_receipt')) \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = m.account_id AND a.env = $3) \
     GROUP BY m.account_id LIMIT $4");

impl FromRow for Message {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let cause: Option<String> = row.take(12)?;
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            recipient: row.take(2)?,
            reference: row.take(3)?,
            sender: row.take(4)?,
            text: row.take::<Option<Vec<u8>>>(5)?.map(SealedText::stored),
            class: row.take(6)?,
            encoding: row.take(7)?,
            segments: row.take(8)?,
            charged_credits: row.take(9)?,
            attempt: row.take(10)?,
            status: row.take(11)?,
            cause: cause.and_then(|word| word.parse().ok()),
            carrier_code: row.take(13)?,
            event_count: row.take(14)?,
            valid_until: row.take(15)?,
            created_at: row.take(16)?,
            updated_at: row.take(17)?,
        })
    }
}

pub(super) async fn message(
    app: &App,
    account: &AccountId,
    id: &SmsId,
) -> Result<Option<Message>, Error> {
    app.db.row(BY_ID, args![account, id]).await
}

/// Which messages a list begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    pub(super) to: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) since: Since,
}

/// At most so many messages with ids below `before`, newest first, without what they say.
pub(super) async fn stretch(
    app: &App,
    account: &AccountId,
    stretch: &Stretch,
    before: &str,
    limit: i64,
) -> Result<Vec<Message>, Error> {
    let oldest = stretch.since.as_str();
    match (&stretch.to, &stretch.reference) {
        (Some(to), _) => app.db.rows(STRETCH_TO, args![to, account, before, oldest, limit]).await,
        (None, Some(reference)) => {
            let args = args![reference, account, before, oldest, limit];
            app.db.rows(STRETCH_CALLED, args).await
        }
        (None, None) => app.db.rows(STRETCH, args![account, before, oldest, limit]).await,
    }
}

pub(super) fn insert(set: &mut WriteSet, message: &Message) {
    let args = args![
        &message.account,
        &message.id,
        &message.recipient,
        message.reference.as_deref(),
        &message.sender,
        message.text.as_ref().map(SealedText::as_bytes),
        message.class.as_str(),
        message.encoding.as_str(),
        message.segments,
        message.charged_credits,
        &message.attempt,
        message.status.as_str(),
        message.valid_until,
        message.created_at
    ];
    set.push(INSERT, args);
}

/// Makes the row what the message in hand is, which is one event further.
pub(super) fn shift(set: &mut WriteSet, message: &Message) {
    let args = args![
        message.status.as_str(),
        message.cause.map(Cause::as_str),
        message.carrier_code.as_deref(),
        message.charged_credits,
        message.updated_at,
        message.text.is_some(),
        &message.account,
        &message.id,
        message.event_count - 1,
        &message.recipient
    ];
    set.guard(SHIFT, args, STALE);
}

pub(super) fn drop_text(set: &mut WriteSet, message: &Message) {
    set.push(DROP_TEXT, args![&message.account, &message.id]);
}

/// See [`super::sent_to`].
pub(super) async fn newest_to(
    app: &App,
    person: &str,
    since: Millis,
    limit: i64,
) -> Result<Vec<(AccountId, SmsId)>, Error> {
    let args = args![person, &SmsId::bound(since), app.env.as_str(), limit];
    app.db.rows(NEWEST_TO, args).await
}
