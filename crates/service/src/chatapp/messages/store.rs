//! The SQL of chat-app messages.

use clock::Millis;
use store::{Error, FromRow, Row, Sql, WriteSet, args};

use super::{Cause, Message};
use crate::app::App;
use crate::dispatch::STALE;
use crate::kit::id::{AccountId, MessageId};
use crate::kit::page::Since;

const BY_ID: Sql = Sql("SELECT account_id, message_id, recipient, country, reference, client_id, \
     billing_mode, billing_kind, template, language, content_sealed, charged_credits, session_id, \
     attempt_id, status, error, carrier_code, event_count, valid_until, created_at, updated_at \
     FROM chatapp_messages WHERE account_id = $1 AND message_id = $2 /*MANY*/");
/// A stretch of an account's messages, newest first.
const STRETCH: Sql = Sql("SELECT account_id, message_id, recipient, country, reference, \
     client_id, billing_mode, billing_kind, template, language, NULL, charged_credits, \
     session_id, attempt_id, status, error, carrier_code, event_count, valid_until, created_at, \
     updated_at FROM chatapp_messages WHERE account_id = $1 AND message_id < $2 \
     AND message_id >= $3 ORDER BY message_id DESC LIMIT $4");
/// The same to one recipient.
const STRETCH_TO: Sql = Sql("SELECT account_id, message_id, recipient, country, reference, \
     client_id, billing_mode, billing_kind, template, language, NULL, charged_credits, \
     session_id, attempt_id, status, error, carrier_code, event_count, valid_until, created_at, \
     updated_at FROM chatapp_messages WHERE recipient = $1 AND account_id = $2 \
     AND message_id < $3 AND message_id >= $4 ORDER BY message_id DESC LIMIT $5");
const INSERT: Sql = Sql("INSERT INTO chatapp_messages (account_id, message_id, recipient, \
     country, reference, client_id, billing_mode, billing_kind, template, language, \
     content_sealed, charged_credits, session_id, attempt_id, status, error, carrier_code, \
     event_count, valid_until, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, \
     $9, $10, $11, $12, $13, $14, $15, NULL, NULL, 0, $16, $17, $17)");
/// Moves a message from the state it was read in: every move is one event more. One whose
/// recipient was forgotten meanwhile is read again, so that its event names nobody; it is compared
/// as no index has it, so that the row is found by its id.
const SHIFT: Sql = Sql("UPDATE chatapp_messages SET status = $1, error = $2, carrier_code = $3, \
     charged_credits = $4, updated_at = $5, event_count = event_count + 1, \
     content_sealed = NULL WHERE account_id = $6 AND message_id = $7 AND event_count = $8 \
     AND recipient || '' = $9");
/// The newest message of each account to a number. An answer is not for who only tried,
/// or waits to.
const NEWEST_TO: Sql = Sql("SELECT m.account_id, MAX(m.message_id) FROM chatapp_messages m \
     WHERE m.recipient = $1 AND m.message_id > $2 AND m.status <> 'failed' \
     AND (m.status <> 'submitted' OR EXISTS (SELECT 1 FROM attempts t \
       WHERE t.account_id = m.account_id AND t.attempt_id = m.attempt_id \
       AND t.state <> 'queued')) \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = m.account_id AND a.env = $3) \
     GROUP BY m.account_id LIMIT $4");

impl FromRow for Message {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let cause: Option<String> = row.take(15)?;
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            recipient: row.take(2)?,
            country: row.take(3)?,
            reference: row.take(4)?,
            client_id: row.take(5)?,
            billing_mode: row.take(6)?,
            billing_kind: row.take(7)?,
            template: row.take(8)?,
            language: row.take(9)?,
            content_sealed: row.take(10)?,
            charged_credits: row.take(11)?,
            session: row.take(12)?,
            attempt: row.take(13)?,
            status: row.take(14)?,
            cause: cause.and_then(|word| word.parse().ok()),
            carrier_code: row.take(16)?,
            event_count: row.take(17)?,
            valid_until: row.take(18)?,
            created_at: row.take(19)?,
            updated_at: row.take(20)?,
        })
    }
}

pub(in crate::chatapp) async fn message(
    app: &App,
    account: &AccountId,
    id: &MessageId,
) -> Result<Option<Message>, Error> {
    app.db.row(BY_ID, args![account, id]).await
}

/// Which messages a list begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    pub(super) to: Option<String>,
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
    match &stretch.to {
        Some(to) => app.db.rows(STRETCH_TO, args![to, account, before, oldest, limit]).await,
        None => app.db.rows(STRETCH, args![account, before, oldest, limit]).await,
    }
}

pub(super) fn insert(set: &mut WriteSet, message: &Message) {
    let args = args![
        &message.account,
        &message.id,
        &message.recipient,
        &message.country,
        message.reference.as_deref(),
        message.client_id.as_deref(),
        message.billing_mode.as_str(),
        message.billing_kind.as_str(),
        message.template.as_deref(),
        message.language.as_deref(),
        message.content_sealed.clone(),
        message.charged_credits,
        message.session.clone().map(String::from),
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
        &message.account,
        &message.id,
        message.event_count - 1,
        &message.recipient
    ];
    set.guard(SHIFT, args, STALE);
}

/// See [`super::sent_to`].
pub(super) async fn newest_to(
    app: &App,
    person: &str,
    since: Millis,
    limit: i64,
) -> Result<Vec<(AccountId, MessageId)>, Error> {
    let args = args![person, &MessageId::bound(since), app.env.as_str(), limit];
    app.db.rows(NEWEST_TO, args).await
}
