//! What endpoints and events show of tickets and messages. A user's view has no note, no author's
//! id and no target; those are in the views for staff.

use clock::Millis;
use endpoints::ToSchema;
use serde::Serialize;
use store::{FromRow, Row, args};

use super::files::NewFile;
use super::tickets::Change;
use super::{Error, Message, Ticket, store as sql};
use crate::app::App;

fn shown(at: Option<Millis>) -> Option<String> {
    at.map(|at| at.to_string())
}

/// A support ticket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TicketView {
    /// Its id.
    #[schema(example = "tkt_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// What it is about.
    #[schema(example = "No receipts since noon")]
    pub subject: String,
    /// As the user chose it.
    #[schema(example = "delivery")]
    pub category: String,
    /// `low`, `normal` or `high`.
    #[schema(value_type = super::Priority)]
    pub priority: String,
    /// `open`, `pending` (the user is to answer), `on_hold`, `resolved` or `closed`.
    #[schema(value_type = super::Status)]
    pub status: String,
    /// The member of staff who deals with it.
    #[schema(required = true)]
    pub assignee: Option<String>,
    /// The number of the newest message; a user's view knows of no note.
    #[schema(example = 1)]
    pub last_seq: i64,
    /// How far the user has read.
    #[schema(example = 0)]
    pub read_seq: i64,
    /// 1 to 5, given by the user after the end.
    #[schema(required = true)]
    pub rating: Option<i64>,
    /// The ticket that goes on with it.
    #[schema(required = true)]
    pub merged_into: Option<String>,
    /// The closed ticket that this one goes on with.
    #[schema(required = true)]
    pub follows: Option<String>,
    /// When it was opened.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
    /// When it was written in or changed last.
    #[schema(format = DateTime)]
    pub updated_at: String,
    /// When it was resolved, if it is.
    #[schema(required = true, format = DateTime)]
    pub resolved_at: Option<String>,
    /// When it was closed, if it is.
    #[schema(required = true, format = DateTime)]
    pub closed_at: Option<String>,
}

impl From<Ticket> for TicketView {
    fn from(ticket: Ticket) -> Self {
        Self {
            id: ticket.id.into(),
            subject: ticket.subject,
            category: ticket.category,
            priority: ticket.priority.as_str().to_owned(),
            status: ticket.status.as_str().to_owned(),
            assignee: ticket.assignee.map(String::from),
            last_seq: ticket.shown_seq,
            read_seq: ticket.user_read_seq,
            rating: ticket.rating,
            merged_into: ticket.merged_into.map(String::from),
            follows: ticket.follows.map(String::from),
            created_at: ticket.created_at.to_string(),
            updated_at: ticket.updated_at.to_string(),
            resolved_at: shown(ticket.resolved_at),
            closed_at: shown(ticket.closed_at),
        }
    }
}

/// A support ticket as staff see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AdminTicketView {
    /// What the user sees, too.
    #[serde(flatten)]
    pub ticket: TicketView,
    /// Whose it is.
    pub account_id: String,
    /// Where the account is.
    #[schema(value_type = crate::app::Env)]
    pub environment: String,
    /// How far staff have read.
    pub staff_read_seq: i64,
    /// When staff answered first.
    #[schema(required = true, format = DateTime)]
    pub first_reply_at: Option<String>,
    /// When the first answer is due; null = no target, or it is met or missed, or stands still.
    #[schema(required = true, format = DateTime)]
    pub first_reply_due_at: Option<String>,
    /// Whether it came too late.
    pub first_reply_missed: bool,
    /// When the resolution is due; null = no target, or it is met or missed, or stands still.
    #[schema(required = true, format = DateTime)]
    pub resolution_due_at: Option<String>,
    /// Whether it comes too late.
    pub resolution_missed: bool,
    /// What the user said with the rating.
    #[schema(required = true)]
    pub rating_comment: Option<String>,
}

impl From<Ticket> for AdminTicketView {
    fn from(ticket: Ticket) -> Self {
        let due = |at: Option<Millis>| shown(at.filter(|_| ticket.paused_at.is_none()));
        Self {
            account_id: ticket.account.to_string(),
            environment: ticket.env.clone(),
            staff_read_seq: ticket.staff_read_seq,
            first_reply_at: shown(ticket.first_reply_at),
            first_reply_due_at: due(ticket.reply.due_at),
            first_reply_missed: ticket.reply.missed,
            resolution_due_at: due(ticket.resolution.due_at),
            resolution_missed: ticket.resolution.missed,
            rating_comment: ticket.rating_comment.clone(),
            ticket: TicketView { last_seq: ticket.last_seq, ..ticket.into() },
        }
    }
}

/// A file at a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AttachmentView {
    /// Its id, for `GET /v1/support-ticket-files/{file_id}`.
    #[schema(example = "fil_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// As it was uploaded, tidied.
    #[schema(example = "screenshot.png")]
    pub filename: String,
    /// What its content is.
    #[schema(example = "image/png")]
    pub content_type: String,
    /// Bytes.
    #[schema(example = 48211)]
    pub size: i64,
}

impl From<&NewFile> for AttachmentView {
    fn from(file: &NewFile) -> Self {
        Self {
            id: file.id.to_string(),
            filename: file.filename.clone(),
            content_type: file.content_type.to_owned(),
            size: file.size,
        }
    }
}

/// A file with the number of its message.
pub(super) struct Attached {
    seq: i64,
    view: AttachmentView,
}

impl FromRow for Attached {
    fn from_row(mut row: Row) -> Result<Self, store::Error> {
        let seq = row.take(0)?;
        let (id, filename) = (row.take(1)?, row.take(2)?);
        let view = AttachmentView { id, filename, content_type: row.take(3)?, size: row.take(4)? };
        Ok(Self { seq, view })
    }
}

/// A message in a ticket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TicketMessageView {
    /// Its id.
    #[schema(example = "tmg_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// Its number in the ticket. A user's view may skip some: those of staff's notes.
    #[schema(example = 2)]
    pub seq: i64,
    /// `user` or `admin`.
    #[schema(value_type = super::Side)]
    pub sender_type: String,
    /// The text; empty where only a file was sent.
    #[schema(example = "We have looked into it.")]
    pub message: String,
    /// The sender's own id of it.
    #[schema(required = true)]
    pub client_message_id: Option<String>,
    /// Files that came with it.
    pub attachments: Vec<AttachmentView>,
    /// When it was written.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
}

/// A message as staff see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AdminTicketMessageView {
    /// What the user sees, too, unless it is a note.
    #[serde(flatten)]
    pub message: TicketMessageView,
    /// The user or the member of staff who wrote it.
    pub sender_id: String,
    /// Whether it is a note, which no user sees.
    pub internal: bool,
}

/// A message as an event shows it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ToldMessage {
    #[serde(flatten)]
    message: TicketMessageView,
    ticket_id: String,
}

/// A line of a ticket's history.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TicketChangeView {
    /// Its id.
    #[schema(example = "tch_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    pub id: String,
    /// When it happened.
    #[schema(format = DateTime)]
    pub at: String,
    /// `user`, `staff` or `service`.
    #[schema(example = "staff")]
    pub actor_kind: String,
    /// Their id.
    pub actor_id: String,
    /// `status`, `priority`, `assignee`, `rating`, `merged_into`, `merged`.
    #[schema(example = "status")]
    pub field: String,
    /// What it was.
    #[schema(required = true, example = "open")]
    pub was: Option<String>,
    /// What it became.
    #[schema(required = true, example = "resolved")]
    pub became: Option<String>,
}

impl From<Change> for TicketChangeView {
    fn from(change: Change) -> Self {
        Self {
            id: change.id.into(),
            at: change.at.to_string(),
            actor_kind: change.actor_kind,
            actor_id: change.actor_id,
            field: change.field,
            was: change.was,
            became: change.became,
        }
    }
}

fn of(message: Message, attachments: Vec<AttachmentView>) -> TicketMessageView {
    TicketMessageView {
        id: message.id.into(),
        seq: message.seq,
        sender_type: message.side.as_str().to_owned(),
        message: message.body,
        client_message_id: message.client_message_id,
        attachments,
        created_at: message.created_at.to_string(),
    }
}

/// A message that was just written, as staff see it. Its files are read where they are not known:
/// nothing that fails behind the commit hides that it is there.
pub(super) async fn written(
    app: &App,
    message: Message,
    attached: Option<Vec<AttachmentView>>,
) -> Result<AdminTicketMessageView, Error> {
    let (sender_id, internal) = (message.author.clone(), message.internal);
    let message = if let Some(attached) = attached {
        of(message, attached)
    } else {
        let read = with_attachments(app, vec![message]).await?.pop();
        read.map(|(view, _)| view).ok_or(Error::Unknown)?
    };
    Ok(AdminTicketMessageView { message, sender_id, internal })
}

/// Messages of one ticket as a user sees them. Notes must not get here; if one does, it stays out.
pub(super) async fn for_user(
    app: &App,
    messages: Vec<Message>,
) -> Result<Vec<TicketMessageView>, Error> {
    let messages = messages.into_iter().filter(|message| !message.internal).collect();
    Ok(with_attachments(app, messages).await?.into_iter().map(|(view, _)| view).collect())
}

/// Messages of one ticket as staff see them.
pub(super) async fn for_staff(
    app: &App,
    messages: Vec<Message>,
) -> Result<Vec<AdminTicketMessageView>, Error> {
    let all = with_attachments(app, messages).await?;
    let view = |(message, (sender_id, internal)): (TicketMessageView, (String, bool))| {
        AdminTicketMessageView { message, sender_id, internal }
    };
    Ok(all.into_iter().map(view).collect())
}

/// Each view with who wrote it, and whether it is a note.
async fn with_attachments(
    app: &App,
    messages: Vec<Message>,
) -> Result<Vec<(TicketMessageView, (String, bool))>, Error> {
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
        return Ok(Vec::new());
    };
    let args = args![&first.ticket, &first.account, first.seq, last.seq];
    let files: Vec<Attached> = app.db.rows(sql::FILES, args).await?;
    let view = |message: Message| {
        let of_message = files.iter().filter(|file| file.seq == message.seq);
        let attachments = of_message.map(|file| file.view.clone()).collect();
        let more = (message.author.clone(), message.internal);
        (of(message, attachments), more)
    };
    Ok(messages.into_iter().map(view).collect())
}

/// A message as an event shows it.
pub(super) async fn told(app: &App, message: Message) -> Result<Option<ToldMessage>, Error> {
    let ticket_id = message.ticket.to_string();
    let view = for_user(app, vec![message]).await?.pop();
    Ok(view.map(|message| ToldMessage { message, ticket_id }))
}
