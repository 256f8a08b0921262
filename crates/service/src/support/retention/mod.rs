//! What is forgotten of tickets, and when: `retention.tickets_d` after its end a ticket goes with
//! all that is in it. A person who asks for it goes at once: their number or email address is taken
//! out of every text.

mod store;

use std::collections::BTreeSet;

use ::store::{WriteSet, args};
use clock::{DAY, Millis};

use self::store::{self as sql, Said};
use super::{Error, STALE, files, retried, search, store as of_tickets};
use crate::access::retention::erase_idempotency_keys;
use crate::app::App;
use crate::chores::Turn;
use crate::kit::id::{AccountId, TicketId};
use crate::kit::wipe::{Number, Spellings, Trace};

pub use super::files::retention::{forget_files, sweep_objects};

/// The number of a ticket's first message, whose words are found with the subject's.
const FIRST: i64 = 1;

/// Deletes tickets whose end is long ago; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_tickets(app: &App, turn: &Turn) -> Result<u64, Error> {
    let before = turn.now() - app.config.retention.tickets_d * DAY;
    let mut deleted = 0;
    loop {
        let Some((account, id)) = oldest(app, before).await? else { return Ok(deleted) };
        if !delete(app, turn, &account, &id).await? {
            return Ok(deleted);
        }
        deleted += 1;
        app.metrics.deleted("tickets", 1);
    }
}

async fn oldest(app: &App, before: Millis) -> Result<Option<(AccountId, TicketId)>, Error> {
    Ok(app.db.row(sql::OLDEST, args![before]).await?)
}

/// Deletes a ticket with all that is in it, a chunk at a time; false when the turn was over before.
async fn delete(app: &App, turn: &Turn, account: &AccountId, id: &TicketId) -> Result<bool, Error> {
    let chunk = app.config.retention.chunk;
    loop {
        let mut set = WriteSet::of(account.as_str());
        // The words first: without the messages nothing would lead to them any more.
        set.push(sql::DELETE_WORDS, args![account, id, chunk]);
        files::delete(app, &mut set, account, id, 0..=i64::MAX);
        set.returning_rows(sql::DELETE_MESSAGES, args![account, id, chunk]);
        let rows: usize = app.db.commit(set).await?.rows.iter().map(Vec::len).sum();
        app.metrics.deleted("ticket_messages", u64::try_from(rows).unwrap_or(u64::MAX));
        if i64::try_from(rows).unwrap_or(i64::MAX) < chunk {
            break;
        }
        if !turn.rest().await {
            return Ok(false);
        }
    }
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::DELETE_CHANGES, args![account, id]);
    set.push(sql::DELETE_FILES, args![id, account]);
    set.push(sql::DELETE, args![account, id]);
    app.db.commit(set).await?;
    Ok(turn.rest().await)
}

/// What a person is known by.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// A phone number, `+` and digits.
    Number(&'a str),
    /// An email address.
    Address(&'a email::Address),
}

impl Known<'_> {
    fn trace(self) -> Trace {
        match self {
            Self::Number(number) => Trace::Number(Number::of(number)),
            Self::Address(address) => Trace::Address(Spellings::of(address)),
        }
    }
}

/// The tickets and messages that name a person: what else may show them is erased before them.
///
/// # Errors
/// [`Error::Db`].
pub async fn naming(
    app: &App,
    account: &AccountId,
    person: Known<'_>,
) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    let trace = person.trace();
    for said in said(app, account, &trace).await? {
        found.insert(said.message.to_string());
        found.insert(said.ticket.to_string());
    }
    for ticket in tickets_naming(app, account, &trace).await? {
        found.insert(ticket.id.to_string());
    }
    Ok(found)
}

/// What an erasure went through.
#[derive(Debug, Default)]
pub struct Wiped {
    /// How many messages named the person.
    pub messages: u64,
    /// These messages, and the tickets that named them.
    pub objects: BTreeSet<String>,
}

/// Takes a person out of all texts of an account's tickets. Doing it again finds nothing.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn erase(app: &App, account: &AccountId, person: Known<'_>) -> Result<Wiped, Error> {
    let trace = person.trace();
    let tickets = tickets_naming(app, account, &trace).await?;
    let messages = said(app, account, &trace).await?;
    let mut wiped = Wiped::default();
    if tickets.is_empty() && messages.is_empty() {
        return Ok(wiped);
    }
    erase_idempotency_keys::<Error>(app, account, |key, _| trace.is_in_key(key)).await?;
    for ticket in &tickets {
        retried(|| wipe_ticket(app, account, &ticket.id, &trace)).await?;
        wiped.objects.insert(ticket.id.to_string());
    }
    for said in &messages {
        retried(|| wipe_message(app, account, said, &trace)).await?;
        wiped.messages += 1;
        wiped.objects.extend([said.message.to_string(), said.ticket.to_string()]);
    }
    Ok(wiped)
}

/// The texts of a ticket, and with them what finds it: the subject is in the words of its first
/// message.
async fn wipe_ticket(
    app: &App,
    account: &AccountId,
    id: &TicketId,
    trace: &Trace,
) -> Result<(), Error> {
    let named: Option<sql::Named> = app.db.row(sql::NAMED, args![account, id]).await?;
    let Some(named) = named else { return Ok(()) };
    let first: Option<Said> = app.db.row(sql::MESSAGE, args![account, id, FIRST]).await?;
    let clean = |text: &str| trace.removed_from(text).unwrap_or_else(|| text.to_owned());
    let comment = named.rating_comment.as_deref().map(clean);
    let (subject, category) = (clean(&named.subject), clean(&named.category));
    let mut set = WriteSet::of(account.as_str());
    if let Some(first) = first {
        set.guard(sql::HOLD_MESSAGE, args![&first.body, account, id, FIRST], STALE);
        index(&mut set, account, &first, &format!("{subject} {}", first.body));
    }
    let row = args![subject, category, comment, account, id, named.version];
    set.guard(sql::WIPE_TICKET, row, STALE);
    app.db.commit(set).await?;
    Ok(())
}

/// A message is read again: somebody else may be taken out of it at the same time.
async fn wipe_message(
    app: &App,
    account: &AccountId,
    found: &Said,
    trace: &Trace,
) -> Result<(), Error> {
    let args = args![account, &found.ticket, found.seq];
    let said: Option<Said> = app.db.row(sql::MESSAGE, args).await?;
    let Some(said) = said else { return Ok(()) };
    let clean = trace.removed_from(&said.body).unwrap_or_else(|| said.body.clone());
    let (ticket, seq) = (&said.ticket, said.seq);
    let mut set = WriteSet::of(account.as_str());
    let words = if seq == FIRST {
        let named: Option<sql::Named> = app.db.row(sql::NAMED, args![account, ticket]).await?;
        let Some(named) = named else { return Ok(()) };
        let words = format!("{} {clean}", named.subject);
        set.guard(sql::HOLD_TICKET, args![named.subject, account, ticket], STALE);
        words
    } else {
        clean.clone()
    };
    index(&mut set, account, &said, &words);
    set.guard(sql::WIPE_MESSAGE, args![clean, account, ticket, seq, &said.body], STALE);
    // A file that came with such a message shows the same person.
    files::delete(app, &mut set, account, ticket, seq..=seq);
    app.db.commit(set).await?;
    Ok(())
}

/// Finds a message by other words from now on.
fn index(set: &mut WriteSet, account: &AccountId, said: &Said, words: &str) {
    set.push(sql::DELETE_WORDS_OF, args![said.text_id]);
    let words = search::indexed(account, said.internal, words);
    set.push(of_tickets::INDEX, args![said.text_id, words]);
}

/// The messages of an account that name a person.
async fn said(app: &App, account: &AccountId, trace: &Trace) -> Result<Vec<Said>, Error> {
    let (mut ticket, mut seq) = (String::new(), 0);
    let mut found = Vec::new();
    loop {
        let args = args![account, ticket, seq, app.config.retention.chunk];
        let rows: Vec<Said> = app.db.rows(sql::STRETCH, args).await?;
        let Some(last) = rows.last() else { return Ok(found) };
        (ticket, seq) = (last.ticket.to_string(), last.seq);
        found.extend(rows.into_iter().filter(|said| {
            let client_id = said.client_message_id.as_deref().unwrap_or_default();
            let names = |text: &str| trace.is_in(text);
            names(&said.body) || names_file(trace, &said.filename) || trace.is_in_key(client_id)
        }));
        // Reads of the embedded database are done in place: let others have the thread.
        tokio::task::yield_now().await;
    }
}

/// Whether the name of a file names a person: in front of its ending, too, which is not of the
/// domain of an address. Underscores stand for blanks between the digits of a number; they end the
/// domain of an address, and may be of what is in front of its at sign.
fn names_file(trace: &Trace, name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let names = |text: &str| trace.is_in(text);
    let is_number = matches!(trace, Trace::Number(_));
    if names(name) || names(stem) || (is_number && names(&stem.replace('_', " "))) {
        return true;
    }
    ["@", "%40"].into_iter().flat_map(|sign| stem.match_indices(sign)).any(|(at, sign)| {
        let (front, behind) = stem.split_at(at + sign.len());
        let domain = behind.split('_').next().unwrap_or_default();
        names(&format!("{front}{domain}"))
    })
}

/// The tickets of an account whose own texts name a person.
async fn tickets_naming(
    app: &App,
    account: &AccountId,
    trace: &Trace,
) -> Result<Vec<sql::Named>, Error> {
    let mut after = String::new();
    let mut found = Vec::new();
    loop {
        let args = args![account, after, app.config.retention.chunk];
        let rows: Vec<sql::Named> = app.db.rows(sql::TICKETS, args).await?;
        let Some(last) = rows.last() else { return Ok(found) };
        after = last.id.to_string();
        let names = |text: &str| trace.is_in(text);
        found.extend(rows.into_iter().filter(|row| {
            let comment = row.rating_comment.as_deref().unwrap_or_default();
            [&row.subject, &row.category, comment].into_iter().any(names)
        }));
        tokio::task::yield_now().await;
    }
}
