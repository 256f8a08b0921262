//! The SQL of emails.

use store::{Error, FromRow, Reject, Row, Sql, WriteSet, args};

use super::{Cause, Kind, Letter, Piece, Recipient, Said, Status, Tally};
use crate::app::App;
use crate::carriers::Priority;
use crate::dispatch::STALE;
use crate::events;
use crate::kit::heavy;
use crate::kit::id::{AccountId, EmailId, EventId};
use crate::kit::page::Since;

/// There is an email with this id: another request took it.
pub(super) const EXISTS: Reject = Reject("email_exists");

const BY_ID: Sql = Sql("SELECT account_id, email_id, from_email, reply_to, subject, reference, \
     size_bytes, priority, queued, sent, delivered, bounced, failed, suppressed, \
     charged_credits, valid_until, created_at, updated_at \
     FROM emails WHERE account_id = $1 AND email_id = $2 /*MANY*/");
/// A stretch of an account's emails, newest first.
const STRETCH: Sql = Sql("SELECT account_id, email_id, from_email, reply_to, subject, reference, \
     size_bytes, priority, queued, sent, delivered, bounced, failed, suppressed, \
     charged_credits, valid_until, created_at, updated_at FROM emails \
     WHERE account_id = $1 AND email_id < $2 AND email_id >= $3 ORDER BY email_id DESC LIMIT $4");
/// The same with one reference.
const STRETCH_CALLED: Sql = Sql("SELECT account_id, email_id, from_email, reply_to, subject, \
     reference, size_bytes, priority, queued, sent, delivered, bounced, failed, suppressed, \
     charged_credits, valid_until, created_at, updated_at FROM emails \
     WHERE reference = $1 AND account_id = $2 AND email_id < $3 AND email_id >= $4 \
     ORDER BY email_id DESC LIMIT $5");
/// The same to one recipient. An email names an address once.
const STRETCH_TO: Sql =
    Sql("SELECT e.account_id, e.email_id, e.from_email, e.reply_to, e.subject, \
     e.reference, e.size_bytes, e.priority, e.queued, e.sent, e.delivered, e.bounced, e.failed, \
     e.suppressed, e.charged_credits, e.valid_until, e.created_at, e.updated_at \
     FROM email_recipients r JOIN emails e \
     ON e.account_id = r.account_id AND e.email_id = r.email_id \
     WHERE r.address_mac = $1 AND r.account_id = $2 AND r.email_id < $3 AND r.email_id >= $4 \
     AND r.mailbox <> '' ORDER BY r.email_id DESC LIMIT $5");
const RECIPIENTS: Sql = Sql("SELECT position, kind, mailbox, status, error, detail \
     FROM email_recipients WHERE account_id = $1 AND email_id = $2 ORDER BY position LIMIT $3");
const PIECE: Sql = Sql("SELECT r.account_id, r.email_id, r.position, r.mailbox, r.address_mac, \
     r.status, r.error, r.detail, r.attempt_id, r.credits, r.change_count, e.from_email, \
     e.valid_until, CASE WHEN EXISTS (SELECT 1 FROM email_suppressions s \
       WHERE s.account_id = r.account_id AND s.address_mac = r.address_mac) \
       THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END, \
     CASE WHEN r.status = 'queued' AND e.size_bytes <= $1 THEN (SELECT c.sealed \
       FROM email_contents c WHERE c.account_id = r.account_id AND c.email_id = r.email_id) \
       ELSE NULL END \
     FROM email_recipients r JOIN emails e \
     ON e.account_id = r.account_id AND e.email_id = r.email_id \
     WHERE r.account_id = $2 AND r.email_id = $3 AND r.position = $4");
const CONTENT: Sql =
    Sql("SELECT sealed FROM email_contents WHERE account_id = $1 AND email_id = $2");
const INSERT: Sql =
    Sql("INSERT INTO emails (account_id, email_id, from_email, reply_to, subject, \
     reference, size_bytes, priority, queued, sent, delivered, bounced, failed, suppressed, \
     charged_credits, event_count, valid_until, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, 0, 0, $10, $11, 0, $12, $13, $13) \
     ON CONFLICT DO NOTHING");
const INSERT_CONTENT: Sql =
    Sql("INSERT INTO email_contents (account_id, email_id, sealed) VALUES ($1, $2, $3)");
const INSERT_RECIPIENT: Sql = Sql("INSERT INTO email_recipients (account_id, email_id, position, \
     kind, mailbox, address_mac, status, error, detail, attempt_id, credits, change_count) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9, $10, 0)");
/// Moves a recipient from the state it was read in.
const SHIFT: Sql = Sql("UPDATE email_recipients SET status = $1, error = $2, detail = $3, \
     credits = $4, change_count = change_count + 1 \
     WHERE account_id = $5 AND email_id = $6 AND position = $7 AND change_count = $8");
/// Counts a change, and makes the sets wait for each other that change recipients of one email: the
/// statements behind it see what the others did.
const COUNT: Sql = Sql("UPDATE emails SET queued = queued + $1, sent = sent + $2, \
     delivered = delivered + $3, bounced = bounced + $4, failed = failed + $5, \
     suppressed = suppressed + $6, charged_credits = charged_credits - $7, updated_at = $8, \
     event_count = event_count + 1 WHERE account_id = $9 AND email_id = $10");
/// Writes down what was so at an event: of which recipient it tells, when, what was charged, and
/// how all recipients stood.
const TELL: Sql =
    Sql("INSERT INTO events (account_id, event_id, kind, object_id, sequence, state, \
     body, node, due) SELECT account_id, CAST($1 AS TEXT), 'email.delivery', email_id, \
     event_count, CAST($2 AS TEXT) || ' ' || updated_at || ' ' || charged_credits || ' ' || \
     COALESCE((SELECT string_agg(r.position || ':' || r.status || ':' || \
       COALESCE(r.error, '-'), ' ') FROM email_recipients r \
       WHERE r.account_id = emails.account_id AND r.email_id = emails.email_id), ''), \
     NULL, CAST($3 AS BIGINT), (SELECT CAST($4 AS BIGINT) FROM listeners WHERE account_id = $5) \
     FROM emails WHERE account_id = $5 AND email_id = $6");
/// What it says goes as soon as nobody has to get it any more.
const DROP_CONTENT: Sql =
    Sql("DELETE FROM email_contents WHERE account_id = $1 AND email_id = $2 \
     AND NOT EXISTS (SELECT 1 FROM emails WHERE account_id = $1 AND email_id = $2 AND queued > 0)");

impl FromRow for Letter {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let priority = Priority::of(row.take(7)?).ok_or(Error::Corrupt { column: 7 })?;
        let mut tally = Tally::default();
        for (place, status) in Status::ALL.iter().enumerate() {
            tally.add(*status, row.take(8 + place)?);
        }
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            from_email: row.take(2)?,
            reply_to: row.take(3)?,
            subject: row.take(4)?,
            reference: row.take(5)?,
            size_bytes: row.take(6)?,
            priority,
            tally,
            charged_credits: row.take(14)?,
            valid_until: row.take(15)?,
            created_at: row.take(16)?,
            updated_at: row.take(17)?,
        })
    }
}

impl FromRow for Recipient {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let cause: Option<String> = row.take(4)?;
        Ok(Self {
            position: row.take(0)?,
            kind: row.take(1)?,
            mailbox: row.take(2)?,
            status: row.take(3)?,
            cause: cause.and_then(|word| word.parse().ok()),
            detail: row.take(5)?,
        })
    }
}

impl FromRow for Piece {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let cause: Option<String> = row.take(6)?;
        let sealed: Option<Vec<u8>> = row.take(14)?;
        let status: Status = row.take(5)?;
        let stored = (status == Status::Queued).then_some(Said::Stored);
        Ok(Self {
            account: row.take(0)?,
            email: row.take(1)?,
            position: row.take(2)?,
            mailbox: row.take(3)?,
            address_mac: row.take(4)?,
            status,
            cause: cause.and_then(|word| word.parse().ok()),
            detail: row.take(7)?,
            attempt: row.take(8)?,
            credits: row.take(9)?,
            change_count: row.take(10)?,
            from_email: row.take(11)?,
            valid_until: row.take(12)?,
            is_suppressed: row.take::<i64>(13)? == 1,
            said: sealed.map(|sealed| Said::Sealed(sealed.into())).or(stored),
        })
    }
}

pub(super) async fn letter(
    app: &App,
    account: &AccountId,
    id: &EmailId,
) -> Result<Option<Letter>, Error> {
    app.db.row(BY_ID, args![account, id]).await
}

/// Which emails a list begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    /// The keyed hash of a recipient.
    pub(super) to: Option<Vec<u8>>,
    pub(super) reference: Option<String>,
    pub(super) since: Since,
}

/// At most so many emails with ids below `before`, newest first.
pub(super) async fn stretch(
    app: &App,
    account: &AccountId,
    stretch: &Stretch,
    before: &str,
    limit: i64,
) -> Result<Vec<Letter>, Error> {
    let oldest = stretch.since.as_str();
    match (&stretch.to, &stretch.reference) {
        (Some(to), _) => {
            app.db.rows(STRETCH_TO, args![to.clone(), account, before, oldest, limit]).await
        }
        (None, Some(reference)) => {
            let args = args![reference, account, before, oldest, limit];
            app.db.rows(STRETCH_CALLED, args).await
        }
        (None, None) => app.db.rows(STRETCH, args![account, before, oldest, limit]).await,
    }
}

/// The recipients of an email, in their order.
pub(super) async fn recipients(
    app: &App,
    account: &AccountId,
    id: &EmailId,
    limit: i64,
) -> Result<Vec<Recipient>, Error> {
    app.db.rows(RECIPIENTS, args![account, id, limit]).await
}

pub(super) async fn piece(
    app: &App,
    account: &AccountId,
    email: &EmailId,
    position: i64,
) -> Result<Option<Piece>, Error> {
    // What is larger is read apart, once for all recipients.
    let small = i64::try_from(heavy::SMALL).unwrap_or(i64::MAX);
    app.db.row(PIECE, args![small, account, email, position]).await
}

/// What an email says, sealed.
pub(super) async fn content(
    app: &App,
    account: &AccountId,
    email: &EmailId,
) -> Result<Option<Vec<u8>>, Error> {
    Ok(app.db.row::<(Vec<u8>,)>(CONTENT, args![account, email]).await?.map(|(sealed,)| sealed))
}

/// Adds an email; refused if there is one with its id.
pub(super) fn insert(set: &mut WriteSet, letter: &Letter) {
    let [queued, .., suppressed] = letter.tally.0;
    let args = args![
        &letter.account,
        &letter.id,
        &letter.from_email,
        letter.reply_to.as_deref(),
        &letter.subject,
        letter.reference.as_deref(),
        letter.size_bytes,
        letter.priority.number(),
        queued,
        suppressed,
        letter.charged_credits,
        letter.valid_until,
        letter.created_at
    ];
    set.guard(INSERT, args, EXISTS);
}

pub(super) fn insert_content(
    set: &mut WriteSet,
    account: &AccountId,
    id: &EmailId,
    sealed: Vec<u8>,
) {
    set.push(INSERT_CONTENT, args![account, id, sealed]);
}

pub(super) fn insert_recipient(set: &mut WriteSet, piece: &Piece, kind: Kind) {
    let args = args![
        &piece.account,
        &piece.email,
        piece.position,
        kind.as_str(),
        &piece.mailbox,
        piece.address_mac.clone(),
        piece.status.as_str(),
        piece.cause.map(Cause::as_str),
        &piece.attempt,
        piece.credits
    ];
    set.push(INSERT_RECIPIENT, args);
}

/// Makes the row what the piece in hand is, which is one change further.
pub(super) fn shift(set: &mut WriteSet, piece: &Piece) {
    let args = args![
        piece.status.as_str(),
        piece.cause.map(Cause::as_str),
        piece.detail.as_deref(),
        piece.credits,
        &piece.account,
        &piece.email,
        piece.position,
        piece.change_count - 1
    ];
    set.guard(SHIFT, args, STALE);
}

/// What a change does to an email as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// What is added where.
    pub(super) tally: Tally,
    /// What it costs less.
    pub(super) given_back: i64,
}

/// Counts a change of one recipient, and tells of it.
pub(super) fn tell(app: &App, set: &mut WriteSet, piece: &Piece, change: Change) {
    let Piece { account, email, position, .. } = piece;
    let [queued, sent, delivered, bounced, failed, suppressed] = change.tally.0;
    let args = args![
        queued,
        sent,
        delivered,
        bounced,
        failed,
        suppressed,
        change.given_back,
        app.now(),
        account,
        email
    ];
    set.push(COUNT, args);
    let (node, due) = events::address(app);
    let id = EventId::new(&app.clock);
    set.push(TELL, args![&id, position.to_string(), node, due, account, email]);
    set.ring(events::BELL);
    if queued < 0 {
        set.push(DROP_CONTENT, args![account, email]);
    }
}
