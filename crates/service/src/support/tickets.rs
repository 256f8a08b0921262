//! What is done with tickets: open, find, list, change, merge, rate.

use ::store::{FromRow, Row, WriteSet, args};
use clock::Millis;

use super::chat;
use super::decide::{self, Assignment, Patch};
use super::messages::{self, NewMessage};
use super::{Author, Error, FULL, Priority, Reader, STALE, Status, Target, retried};
use super::{Ticket, events, search, store as sql};
use crate::access::Who;
use crate::access::idempotency::Claim;
use crate::access::limits::{self, Limited};
use crate::app::App;
use crate::kit::id::{AccountId, StaffId, TicketChangeId, TicketId};
use crate::kit::page::{self, Page, Since};

/// A ticket to be opened.
#[derive(Debug)]
pub(super) struct NewTicket {
    pub(super) subject: String,
    pub(super) category: String,
    pub(super) priority: Priority,
    pub(super) message: String,
    /// The closed ticket that this one goes on with.
    pub(super) follows: Option<TicketId>,
}

/// What a list is narrowed to; what is empty narrows nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) status: Option<Status>,
    pub(super) priority: Option<Priority>,
    pub(super) category: Option<String>,
    /// The assignee's id, or `none`.
    pub(super) assignee: Option<String>,
    pub(super) account: Option<String>,
    pub(super) env: Option<String>,
    /// The end of the list.
    pub(super) since: Since,
}

impl Filter {
    fn is_empty(&self) -> bool {
        let Self { status, priority, category, assignee, account, env, since: _ } = self;
        status.is_none()
            && priority.is_none()
            && [category, assignee, account, env].iter().all(|word| word.is_none())
    }

    fn keeps(&self, ticket: &Ticket) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        self.status.is_none_or(|status| status == ticket.status)
            && self.priority.is_none_or(|priority| priority == ticket.priority)
            && is(&self.category, &ticket.category)
            && is(&self.assignee, ticket.assignee.as_ref().map_or("none", StaffId::as_str))
            && is(&self.account, ticket.account.as_str())
            && is(&self.env, &ticket.env)
    }
}

/// A line of a ticket's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) id: TicketChangeId,
    pub(super) at: Millis,
    pub(super) actor_kind: String,
    pub(super) actor_id: String,
    pub(super) field: String,
    pub(super) was: Option<String>,
    pub(super) became: Option<String>,
}

impl FromRow for Change {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            id: row.take(0)?,
            at: row.take(1)?,
            actor_kind: row.take(2)?,
            actor_id: row.take(3)?,
            field: row.take(4)?,
            was: row.take(5)?,
            became: row.take(6)?,
        })
    }
}

/// Opens a ticket with its first message.
pub(super) async fn open(
    app: &App,
    account: &AccountId,
    author: &Author,
    new: NewTicket,
    claim: &Claim,
) -> Result<Ticket, Error> {
    if let Some(follows) = &new.follows {
        let detail = "must be a ticket of this account";
        let wrong = Error::Field { field: "follows", detail };
        find(app, Reader::User(account), follows).await.map_err(|error| error.or_unknown(wrong))?;
    }
    let id = TicketId::new(&app.clock);
    let now = id.time();
    let ticket = fresh(app, account, id, &new, now);
    let most = app.config.support.open_tickets;
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, ticket.id.as_str(), None, now);
    limits::one_by_one(&mut set, account, Limited::Tickets);
    set.absent(sql::LAST_OF_ALL, args![account, most - 1], FULL);
    let Ticket { reply, resolution, .. } = &ticket;
    let row = args![
        account,
        &ticket.id,
        ticket.env.as_str(),
        ticket.subject.as_str(),
        ticket.category.as_str(),
        ticket.priority.as_str(),
        ticket.follows.as_ref(),
        reply.due_at,
        reply.near_at,
        resolution.due_at,
        resolution.near_at,
        now,
        decide::next_at(&ticket, &app.config.support),
    ];
    set.push(sql::OPEN, row);
    let words = format!("{} {}", new.subject, new.message);
    let first = NewMessage::public(author.clone(), new.message);
    messages::add(app, &mut set, &ticket, &first, &words);
    events::changed(app, &mut set, &ticket, "opened");
    app.db.commit(set).await?;
    Ok(ticket)
}

fn fresh(app: &App, account: &AccountId, id: TicketId, new: &NewTicket, now: Millis) -> Ticket {
    let mut ticket = Ticket {
        account: account.clone(),
        id,
        env: app.env.as_str().to_owned(),
        subject: new.subject.clone(),
        category: new.category.clone(),
        priority: new.priority,
        status: Status::Open,
        assignee: None,
        last_seq: 1,
        shown_seq: 1,
        version: 1,
        user_read_seq: 0,
        staff_read_seq: 0,
        first_reply_at: None,
        reply: Target::default(),
        resolution: Target::default(),
        paused_at: None,
        paused_ms: 0,
        resolved_at: None,
        closed_at: None,
        rating: None,
        rating_comment: None,
        merged_into: None,
        follows: new.follows.clone(),
        created_at: now,
        updated_at: now,
    };
    decide::begin(&mut ticket, &app.config.support);
    ticket
}

/// One ticket, for whoever asks.
pub(super) async fn find(app: &App, reader: Reader<'_>, id: &TicketId) -> Result<Ticket, Error> {
    let found = match reader {
        Reader::User(account) => app.db.row(sql::TICKET, args![account, id]).await?,
        Reader::Staff => app.db.row(sql::TICKET_BY_ID, args![id]).await?,
    };
    found.ok_or(Error::Unknown)
}

/// One page of tickets, newest first, and the id after which the next one begins.
pub(super) async fn list(
    app: &App,
    reader: Reader<'_>,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Ticket>, Option<String>), Error> {
    let read = async |after: String, limit: i64| {
        let rows = match reader {
            Reader::User(account) => app.db.rows(sql::OF_ACCOUNT, args![account, after, limit]),
            Reader::Staff => app.db.rows(sql::OF_ALL, args![after, limit]),
        };
        Ok::<_, ::store::Error>(filter.since.keep(rows.await?, |row: &Ticket| row.id.as_str()))
    };
    let keep = |ticket: &Ticket| filter.keeps(ticket);
    let keep: Option<&(dyn Fn(&Ticket) -> bool + Sync)> =
        if filter.is_empty() { None } else { Some(&keep) };
    Ok(page::sift(page, read, |ticket: &Ticket| ticket.id.as_str().to_owned(), keep).await?)
}

/// The same of those with a message (or a subject) that has all words of a text.
pub(super) async fn search(
    app: &App,
    reader: Reader<'_>,
    text: &str,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Ticket>, Option<String>), Error> {
    // What is found is bounded, so that of one account is looked for where only that is asked for:
    // others' must not stand before it.
    let account = match (reader, &filter.account) {
        (Reader::User(account), _) => Some(account.clone()),
        (Reader::Staff, None) => None,
        (Reader::Staff, Some(account)) => match AccountId::parse(account) {
            Some(account) => Some(account),
            None => return Ok((Vec::new(), None)),
        },
    };
    let wanted = search::looked_for(reader, account.as_ref(), text);
    let Some(wanted) = wanted else { return Ok((Vec::new(), None)) };
    let account = account.as_ref().map_or("", AccountId::as_str);
    let args = args![wanted, reader.sees_notes(), account, search::MOST_FOUND];
    let mut found: Vec<(AccountId, TicketId)> = app.db.rows(sql::SEARCH, args).await?;
    found.sort_by(|one, other| other.1.cmp(&one.1));
    found.dedup();
    let found = filter.since.keep(found, |(_, id)| id.as_str());
    let limit = usize::try_from(page.limit).unwrap_or(1);
    let mut tickets: Vec<Ticket> = Vec::new();
    for (account, id) in found.iter().filter(|(_, id)| id.as_str() < page.after.as_str()) {
        let ticket: Option<Ticket> = app.db.row(sql::TICKET, args![account, id]).await?;
        let Some(ticket) = ticket.filter(|ticket| filter.keeps(ticket)) else { continue };
        if tickets.len() == limit {
            let next = tickets.last().map(|last| last.id.as_str().to_owned());
            return Ok((tickets, next));
        }
        tickets.push(ticket);
    }
    Ok((tickets, None))
}

/// Changes a ticket as staff ask for it. A change that changes nothing is none.
pub(super) async fn change(
    app: &App,
    by: &Author,
    id: &TicketId,
    patch: &Patch,
) -> Result<Ticket, Error> {
    if let Assignment::To(assignee) = &patch.assignee
        && app.db.row::<(StaffId,)>(sql::STAFF, args![assignee]).await?.is_none()
    {
        let detail = "must be the id of a member of staff, or null";
        return Err(Error::Field { field: "assignee", detail });
    }
    retried(|| try_change(app, by, id, patch)).await
}

async fn try_change(app: &App, by: &Author, id: &TicketId, patch: &Patch) -> Result<Ticket, Error> {
    let before = find(app, Reader::Staff, id).await?;
    if before.status == Status::Closed {
        return Err(Error::closed(Reader::Staff, &before));
    }
    let after = decide::changed(&before, patch, &app.config.support, app.now());
    if before == after {
        return Ok(after);
    }
    let mut set = WriteSet::of(before.account.as_str());
    put(app, &mut set, &by.who(), &before, &after);
    commit(app, set, &before).await?;
    Ok(as_committed(app, Reader::Staff, after).await)
}

/// How a ticket stands behind a commit. Nothing that fails there hides what is durable.
async fn as_committed(app: &App, reader: Reader<'_>, after: Ticket) -> Ticket {
    let found = find(app, reader, &after.id).await;
    found.unwrap_or_else(|_| Ticket { updated_at: app.now(), ..after })
}

/// Makes a change durable, and tells the sockets of the ticket.
pub(super) async fn commit(app: &App, mut set: WriteSet, ticket: &Ticket) -> Result<(), Error> {
    chat::tell_nodes(app, &mut set, &ticket.account, &ticket.id);
    app.db.commit(set).await?;
    chat::tell_here(app, ticket);
    Ok(())
}

/// Ends a ticket that another one of the same account has the same matter in.
pub(super) async fn merge(
    app: &App,
    by: &Author,
    id: &TicketId,
    into: &TicketId,
    claim: &Claim,
) -> Result<Ticket, Error> {
    retried(|| try_merge(app, by, id, into, claim)).await
}

async fn try_merge(
    app: &App,
    by: &Author,
    id: &TicketId,
    into: &TicketId,
    claim: &Claim,
) -> Result<Ticket, Error> {
    let wrong = || Error::Field {
        field: "into",
        detail: "must be another ticket of the same account that is not closed",
    };
    let target = find(app, Reader::Staff, into).await.map_err(|error| error.or_unknown(wrong()))?;
    if target.status == Status::Closed || target.id == *id {
        return Err(wrong());
    }
    let before = find(app, Reader::Staff, id).await?;
    if before.account != target.account {
        return Err(wrong());
    }
    if before.status == Status::Closed {
        return Err(Error::closed(Reader::Staff, &before));
    }
    let mut after = before.clone();
    after.merged_into = Some(into.clone());
    decide::stand(&mut after, Status::Closed, app.now());
    let mut set = WriteSet::of(before.account.as_str());
    claim.add_to(&mut set, id.as_str(), None, app.now());
    put(app, &mut set, &by.who(), &before, &after);
    let merged = Changed { field: "merged", was: Some(id.to_string()), became: None };
    history(app, &mut set, &by.who(), &target, merged);
    messages::add_note(app, &mut set, &target, by, merged_note(&before));
    if target.status == Status::Resolved && before.status != Status::Resolved {
        // Its matter is not.
        let mut again = target.clone();
        decide::stand(&mut again, Status::Open, app.now());
        put(app, &mut set, &by.who(), &target, &again);
    }
    chat::tell_nodes(app, &mut set, &target.account, &target.id);
    commit(app, set, &before).await?;
    chat::tell_here(app, &target);
    Ok(as_committed(app, Reader::Staff, after).await)
}

/// What whoever goes on with a ticket is told of one that was merged into it.
fn merged_note(merged: &Ticket) -> String {
    let Ticket { id, subject, last_seq, .. } = merged;
    let count = if *last_seq == 1 { "its message is" } else { "its messages are" };
    format!("{id} was merged into this ticket; {count} there. Its subject: {subject}")
}

/// What a user thinks of how their ticket was dealt with.
pub(super) struct Rating {
    /// Who rates.
    pub(super) by: Author,
    /// 1 to 5.
    pub(super) score: i64,
    pub(super) comment: Option<String>,
}

/// Rates how a ticket was dealt with; once, after it was resolved.
pub(super) async fn rate(
    app: &App,
    account: &AccountId,
    id: &TicketId,
    rating: Rating,
    claim: &Claim,
) -> Result<Ticket, Error> {
    retried(|| try_rate(app, account, id, &rating, claim)).await
}

async fn try_rate(
    app: &App,
    account: &AccountId,
    id: &TicketId,
    rating: &Rating,
    claim: &Claim,
) -> Result<Ticket, Error> {
    let Rating { by, score, comment } = rating;
    let before = find(app, Reader::User(account), id).await?;
    if before.merged_into.is_some() {
        return Err(Error::closed(Reader::User(account), &before));
    }
    if !matches!(before.status, Status::Resolved | Status::Closed) {
        let status = before.status.as_str();
        let detail =
            format!("A ticket takes no rating until it is resolved; this one is {status}.");
        return Err(Error::Full(detail));
    }
    if before.rating.is_some() {
        return Err(rated_before());
    }
    let (rating, rating_comment) = (Some(*score), comment.clone());
    let after = Ticket { rating, rating_comment, ..before.clone() };
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, id.as_str(), None, app.now());
    put(app, &mut set, &by.who(), &before, &after);
    commit(app, set, &before).await?;
    Ok(as_committed(app, Reader::User(account), after).await)
}

pub(super) fn rated_before() -> Error {
    Error::Full("A ticket is rated once, and this one was.".to_owned())
}

/// Notes how far a side has read; never back, never beyond what there is.
pub(super) async fn mark_read(
    app: &App,
    ticket: &mut Ticket,
    author: &Author,
    seq: i64,
    claim: &Claim,
) -> Result<(), Error> {
    // Whether a number is taken must not tell a user that there is a note.
    let (statement, last, read_seq) = match author {
        Author::User(_) => (sql::READ_BY_USER, ticket.shown_seq, &mut ticket.user_read_seq),
        Author::Staff(_) => (sql::READ_BY_STAFF, ticket.last_seq, &mut ticket.staff_read_seq),
    };
    let seq = seq.min(last);
    *read_seq = seq.max(*read_seq);
    let mut set = WriteSet::of(ticket.account.as_str());
    claim.add_to(&mut set, ticket.id.as_str(), None, app.now());
    set.push(statement, args![seq, &ticket.account, &ticket.id]);
    commit(app, set, ticket).await
}

/// One page of a ticket's history, newest first, and one line more if there is one.
pub(super) async fn changes(app: &App, id: &TicketId, page: &Page) -> Result<Vec<Change>, Error> {
    let ticket = find(app, Reader::Staff, id).await?;
    let args = args![&ticket.account, &ticket.id, page.after.as_str(), page.limit + 1];
    Ok(app.db.rows(sql::CHANGES, args).await?)
}

/// Adds a change to a set: the row, the history and the event.
pub(super) fn put(app: &App, set: &mut WriteSet, by: &Who, before: &Ticket, after: &Ticket) {
    let next_at = decide::next_at(after, &app.config.support);
    let after = Ticket { updated_at: app.now(), ..after.clone() };
    set.guard(sql::CHANGE, sql::changed(&after, next_at), STALE);
    let text = |id: Option<&str>| id.map(str::to_owned);
    let rating = |ticket: &Ticket| ticket.rating.map(|rating| rating.to_string());
    let assignee = |ticket: &Ticket| text(ticket.assignee.as_ref().map(StaffId::as_str));
    let into = |ticket: &Ticket| text(ticket.merged_into.as_ref().map(TicketId::as_str));
    let fields = [
        ("merged_into", into(before), into(&after)),
        ("status", text(Some(before.status.as_str())), text(Some(after.status.as_str()))),
        ("assignee", assignee(before), assignee(&after)),
        ("priority", text(Some(before.priority.as_str())), text(Some(after.priority.as_str()))),
        ("rating", rating(before), rating(&after)),
    ];
    let mut first = None;
    for (field, was, became) in fields {
        if was != became {
            first = first.or(Some(field));
            history(app, set, by, &after, Changed { field, was, became });
        }
    }
    // One event for each change: a missed target is told only where no field changed.
    let is_new = |was: Target, is: Target| !was.missed && is.missed;
    let missed = is_new(before.reply, after.reply)
        .then_some("first_reply_missed")
        .or_else(|| is_new(before.resolution, after.resolution).then_some("resolution_missed"));
    if let Some(reason) = first.or(missed) {
        events::changed(app, set, &after, reason);
    }
}

/// A field of a ticket that changed.
struct Changed {
    field: &'static str,
    was: Option<String>,
    became: Option<String>,
}

fn history(app: &App, set: &mut WriteSet, by: &Who, ticket: &Ticket, changed: Changed) {
    let Changed { field, was, became } = changed;
    let id = TicketChangeId::new(&app.clock);
    let (account, ticket) = (&ticket.account, &ticket.id);
    let row = args![account, ticket, &id, app.now(), by.kind(), by.id(), field, was, became];
    set.push(sql::NOTE_CHANGE, row);
}
