//! What is done with messages: write one, read them.

pub mod api;

use ::store::{WriteSet, args};

use super::chat;
use super::files::{self, NewFile};
use super::tickets::{find, put};
use super::view::AttachmentView;
use super::{Author, Error, MOST_MESSAGES, Message, Reader, SENT_BEFORE, STALE, Side, Status};
use super::{Ticket, retried};
use super::{decide, events, search, store as sql};
use crate::access::idempotency::Claim;
use crate::app::App;
use crate::kit::id::{TicketId, TicketMessageId};
use crate::notices;

/// A message to be written.
#[derive(Clone, Debug)]
pub(in crate::support) struct NewMessage {
    pub(in crate::support) author: Author,
    pub(in crate::support) text: String,
    /// A note of staff, which no user ever sees.
    pub(in crate::support) internal: bool,
    /// The client's own id of it: a repeat is no second message.
    pub(in crate::support) client_message_id: Option<String>,
    /// What comes with it.
    pub(in crate::support) file: Option<NewFile>,
}

impl NewMessage {
    /// One that both sides see.
    pub(in crate::support) fn public(author: Author, text: String) -> Self {
        Self { author, text, internal: false, client_message_id: None, file: None }
    }
}

/// A message that is there.
#[derive(Clone, Debug)]
pub(in crate::support) struct Written {
    pub(in crate::support) message: Message,
    /// The file that has just come with it; `None` = to be read, as of a message of before.
    pub(in crate::support) attached: Option<Vec<AttachmentView>>,
    /// Its client had sent it before.
    pub(in crate::support) duplicate: bool,
}

/// Writes a message into a ticket.
pub(in crate::support) async fn write(
    app: &App,
    reader: Reader<'_>,
    ticket: &TicketId,
    new: &NewMessage,
    claim: &Claim,
) -> Result<Written, Error> {
    retried(|| try_write(app, reader, ticket, new, claim)).await
}

/// What was written under the client's own id of a message before, or nothing where it can be
/// written now. Asked before its file is stored.
pub(in crate::support) async fn ahead(
    app: &App,
    reader: Reader<'_>,
    ticket: &TicketId,
    new: &NewMessage,
    claim: &Claim,
) -> Result<Option<Written>, Error> {
    let before = find(app, reader, ticket).await?;
    let written = repeated(app, &before, new, claim).await?;
    if written.is_none() {
        takes_more(reader, &before)?;
    }
    Ok(written)
}

fn takes_more(reader: Reader<'_>, ticket: &Ticket) -> Result<(), Error> {
    if ticket.status == Status::Closed {
        return Err(Error::closed(reader, ticket));
    }
    if ticket.last_seq >= MOST_MESSAGES {
        return Err(too_many());
    }
    Ok(())
}

pub(in crate::support) fn too_many() -> Error {
    Error::Full(format!("A ticket has at most {MOST_MESSAGES} messages. Open a new one."))
}

/// A message that its client sent before. The key of the request stands for it from now on.
async fn repeated(
    app: &App,
    ticket: &Ticket,
    new: &NewMessage,
    claim: &Claim,
) -> Result<Option<Written>, Error> {
    let Some(message) = sent_before(app, ticket, new).await? else { return Ok(None) };
    // Under the id of a note, an answer would never be seen.
    if message.internal != new.internal {
        let detail = "was given to a note or an answer before; each needs one of its own";
        return Err(Error::Field { field: "client_message_id", detail });
    }
    if !claim.is_empty() {
        let mut set = WriteSet::of(ticket.account.as_str());
        claim.add_to(&mut set, message.id.as_str(), None, app.now());
        app.db.commit(set).await?;
    }
    Ok(Some(Written { message, attached: None, duplicate: true }))
}

async fn try_write(
    app: &App,
    reader: Reader<'_>,
    ticket: &TicketId,
    new: &NewMessage,
    claim: &Claim,
) -> Result<Written, Error> {
    let before = find(app, reader, ticket).await?;
    if let Some(written) = repeated(app, &before, new, claim).await? {
        return Ok(written);
    }
    takes_more(reader, &before)?;
    let now = app.now();
    let mut set = WriteSet::of(before.account.as_str());
    let id = TicketMessageId::new(&app.clock);
    claim.add_to(&mut set, id.as_str(), None, now);
    set.guard(sql::BUMP, args![new.internal, now, &before.account, ticket, before.version], STALE);
    let message = add_as(app, &mut set, &before, new, Filed { id, words: &new.text });
    if let Some(after) = decide::written(&before, new.author.side(), new.internal, now) {
        put(app, &mut set, &new.author.who(), &before, &after);
    }
    let is_answer = new.author.side() == Side::Admin && !new.internal;
    if is_answer && !chat::has_user(app, ticket).await? {
        let kind = notices::Kind::TicketAnswered;
        notices::tell_owner(app, &mut set, &before.account, kind, ticket.as_str());
    }
    chat::tell_nodes(app, &mut set, &before.account, ticket);
    let (seq,) = app.db.commit(set).await?.only()?;
    chat::tell_here(app, &before);
    let attached = Some(new.file.iter().map(AttachmentView::from).collect());
    Ok(Written { message: Message { seq, ..message }, attached, duplicate: false })
}

/// What a client's own id stands for already.
async fn sent_before(
    app: &App,
    ticket: &Ticket,
    new: &NewMessage,
) -> Result<Option<Message>, Error> {
    let Some(client_id) = &new.client_message_id else { return Ok(None) };
    let args = args![client_id.as_str(), &ticket.id, new.author.id()];
    Ok(app.db.row(sql::MESSAGE_OF_CLIENT, args).await?)
}

/// Adds a message with the number that the ticket's row has in the set by then; `words` go into the
/// index.
pub(in crate::support) fn add(
    app: &App,
    set: &mut WriteSet,
    ticket: &Ticket,
    new: &NewMessage,
    words: &str,
) {
    let id = TicketMessageId::new(&app.clock);
    add_as(app, set, ticket, new, Filed { id, words });
}

/// Adds a note of staff to a ticket that is not the set's own, unless it changed since it was read.
pub(in crate::support) fn add_note(
    app: &App,
    set: &mut WriteSet,
    ticket: &Ticket,
    author: &Author,
    text: String,
) {
    let note = NewMessage { internal: true, ..NewMessage::public(author.clone(), text) };
    let bump = args![true, app.now(), &ticket.account, &ticket.id, ticket.version];
    set.guard(sql::BUMP, bump, STALE);
    add(app, set, ticket, &note, &note.text);
}

/// Under which id a message is stored, and by which words it is found.
struct Filed<'a> {
    id: TicketMessageId,
    words: &'a str,
}

fn add_as(
    app: &App,
    set: &mut WriteSet,
    ticket: &Ticket,
    new: &NewMessage,
    filed: Filed<'_>,
) -> Message {
    let Filed { id, words } = filed;
    let now = app.now();
    // Up to 2^62: rows of the index have a number, and none of ours is one.
    let text_id = i64::try_from(app.clock.below(1 << 62)).unwrap_or_default();
    let (side, author) = (new.author.side(), new.author.id());
    let row = args![
        &id,
        side.as_str(),
        author,
        new.internal,
        new.text.as_str(),
        new.client_message_id.clone(),
        text_id,
        now,
        &ticket.account,
        &ticket.id,
    ];
    set.returning(sql::WRITE, row, SENT_BEFORE);
    if let Some(file) = &new.file {
        files::attach(app, set, ticket, side, file);
    }
    set.push(sql::INDEX, args![text_id, search::indexed(&ticket.account, new.internal, words)]);
    if !new.internal {
        events::written(app, set, &ticket.account, &id);
    }
    Message {
        account: ticket.account.clone(),
        ticket: ticket.id.clone(),
        seq: 0,
        id,
        side,
        author: author.to_owned(),
        internal: new.internal,
        body: new.text.clone(),
        client_message_id: new.client_message_id.clone(),
        created_at: now,
    }
}

/// Messages after a number, oldest first.
pub(in crate::support) async fn after(
    app: &App,
    reader: Reader<'_>,
    ticket: &Ticket,
    seq: i64,
    limit: i64,
) -> Result<Vec<Message>, Error> {
    let args = args![&ticket.account, &ticket.id, seq, reader.sees_notes(), limit];
    Ok(app.db.rows(sql::MESSAGES, args).await?)
}

/// A message by its id, of a ticket that the reader may see.
pub(in crate::support) async fn by_id(
    app: &App,
    reader: Reader<'_>,
    id: &TicketMessageId,
) -> Result<Message, Error> {
    let found: Option<Message> = app.db.row(sql::MESSAGE_BY_ID, args![id]).await?;
    found
        .filter(|message| match reader {
            Reader::User(account) => message.account == *account && !message.internal,
            Reader::Staff => true,
        })
        .ok_or(Error::Unknown)
}
