//! Support over HTTP, as users have it: their tickets and messages.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;
use store::CommitError;

use super::kinds::{Priority, Status};
use super::tickets::{self, Filter, NewTicket, Rating};
use super::view::TicketView;
use super::{Author, Error, FULL, LONGEST_MESSAGE, Reader, STALE};
use crate::access::Who;
use crate::access::caller::{Caller, Portal};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::{TicketId, UserId};
use crate::kit::page::{self, NoQuery, Page, Query};
use crate::kit::posted::Posted;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_tickets, open_ticket, read_ticket, rate_ticket)
}

/// A ticket to be opened.
#[derive(Deserialize, ToSchema)]
pub struct NewTicketBody {
    /// 1 to 200 characters.
    #[schema(min_length = 1, example = "No receipts since noon", max_length = 200)]
    pub subject: String,
    /// 1 to 50 characters of your choice.
    #[schema(min_length = 1, example = "delivery", max_length = 50)]
    pub category: String,
    /// `low`, `normal` or `high`.
    #[schema(value_type = Priority)]
    pub priority: String,
    /// The first message, 1 to 10,000 characters.
    #[schema(
        min_length = 1,
        example = "Since noon no receipt has come for any passcode.",
        max_length = 10000
    )]
    pub message: String,
    /// The closed ticket that this one goes on with.
    #[schema(pattern = "^tkt_")]
    pub follows: Option<String>,
}

/// What the user thinks of how the ticket was dealt with.
#[derive(Deserialize, ToSchema)]
pub struct NewRating {
    /// 1 (bad) to 5 (good).
    #[schema(minimum = 1, maximum = 5, example = 5)]
    pub score: i64,
    /// Up to 1,000 characters, for staff.
    #[schema(min_length = 1, max_length = 1000)]
    pub comment: Option<String>,
}

/// Ends the reading of a body that is about a ticket. Whoever has no such ticket learns that, not
/// what is wrong with the body.
pub(super) async fn finish(
    app: &App,
    fields: Fields,
    reader: Reader<'_>,
    id: &TicketId,
) -> Result<(), Problem> {
    let Err(problem) = fields.finish(app.is_strict()) else { return Ok(()) };
    tickets::find(app, reader, id).await?;
    Err(problem)
}

/// The user behind a portal token.
pub(super) fn user(caller: &Caller<Portal>) -> Result<Author, Problem> {
    match &caller.who {
        Who::User(id) => Ok(Author::User(UserId::stored(id.to_string()))),
        _ => Err(Code::InternalError.into()),
    }
}

/// List tickets.
///
/// Newest first. `q` finds tickets whose subject or messages have all of its words; the first
/// thousand messages found count.
#[endpoints::path(
    get, path = "/v1/support/tickets", tag = "Support",
    params(
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("priority" = Option<Priority>, Query, description = "Only with this priority"),
        ("category" = Option<String>, Query, description = "As it was given"),
        ("q" = Option<String>, Query, description = "Words to look for"),
        ("since" = Option<String>, Query, description = "At or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, body = Vec<TicketView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("portal_token" = []))
)]
async fn list_tickets(
    caller: Caller<Portal>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    const FILTERS: [&str; 6] = ["status", "priority", "category", "q", "since", "until"];
    let query = Query::read(query.as_deref(), &[&FILTERS[..], &["limit", "cursor"]].concat())?;
    let path = query.path_with("/v1/support/tickets", &FILTERS);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let filter = filter(&query, &mut page)?;
    let reader = Reader::User(&caller.account.id);
    let (tickets, next) = found(&app, reader, &query, &filter, &page).await?;
    let views: Vec<TicketView> = tickets.into_iter().map(TicketView::from).collect();
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

/// The part of a filter that users and staff have.
pub(super) fn filter(query: &Query, page: &mut Page) -> Result<Filter, Problem> {
    let status = query.word("status")?;
    let priority = query.word("priority")?;
    let category = query.get("category").map(str::to_owned);
    let since = query.between(page, |at| TicketId::bound(at).into())?;
    Ok(Filter { status, priority, category, since, ..Filter::default() })
}

/// A page of a list or of what is found in it.
pub(super) async fn found(
    app: &App,
    reader: Reader<'_>,
    query: &Query,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<super::Ticket>, Option<String>), Problem> {
    Ok(match query.get("q") {
        Some(text) => tickets::search(app, reader, text, filter, page).await?,
        None => tickets::list(app, reader, filter, page).await?,
    })
}

/// Open a ticket.
///
/// With its first message.
#[endpoints::path(
    post, path = "/v1/support/tickets", tag = "Support",
    request_body = NewTicketBody,
    extensions(("x-codes" = json!([Problem::from(Error::from(CommitError::Rejected(FULL)))]))),
    responses(
        (status = 200, body = TicketView, description = "The ticket"),
    ),
    security(("portal_token" = []))
)]
async fn open_ticket(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let new = read_new(&app, &body)?;
    let account = &caller.account.id;
    let route = "POST /v1/support/tickets";
    let request = Repeatable::by_tenant(account, &headers, route, &body);
    let author = user(&caller)?;
    let fresh = async |claim: Claim| Ok(tickets::open(&app, account, &author, new, &claim).await?);
    let again = async |seen: Seen| {
        let id = TicketId::stored(seen.object_id);
        Ok(tickets::find(&app, Reader::User(account), &id).await?)
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|ticket| Json(TicketView::from(ticket))).into_response())
}

fn read_new(app: &App, body: &[u8]) -> Result<NewTicket, Problem> {
    let mut fields = Fields::read(body)?;
    let subject = fields.required_line("subject", 200);
    let category = fields.required_line("category", 50);
    let priority = fields.required_word("priority");
    let message = said(&mut fields, "message", LONGEST_MESSAGE);
    let follows = take_ticket(&mut fields, "follows");
    fields.finish(app.is_strict())?;
    let all = (subject, category, priority, message);
    let (Some(subject), Some(category), Some(priority), Some(message)) = all else {
        return Err(Code::InternalError.into());
    };
    Ok(NewTicket { subject, category, priority, message, follows })
}

/// A required text that says something.
pub(super) fn said(fields: &mut Fields, name: &'static str, most: usize) -> Option<String> {
    let text = fields.required_within(name, 1, most)?;
    if text.trim().is_empty() {
        fields.fault(name, "too_short", "must not be blank");
        return None;
    }
    Some(text)
}

/// The id of a ticket; one of another shape is at fault.
pub(super) fn take_ticket(fields: &mut Fields, name: &'static str) -> Option<TicketId> {
    let text = fields.text(name)?;
    let id = TicketId::parse(&text);
    if id.is_none() {
        fields.fault(name, "invalid_type", "must be the id of a ticket");
    }
    id
}

/// Read a ticket.
#[endpoints::path(
    get, path = "/v1/support/tickets/{ticket_id}", tag = "Support",
    params(("ticket_id" = String, Path, description = "The ticket")),
    responses(
        (status = 200, body = TicketView, description = "The ticket"),
    ),
    security(("portal_token" = []))
)]
async fn read_ticket(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<TicketView>, Problem> {
    let id = TicketId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(tickets::find(&app, Reader::User(&caller.account.id), &id).await?.into()))
}

/// Rate a ticket.
///
/// Once, after it was resolved: 409 before that, and again.
#[endpoints::path(
    post, path = "/v1/support/tickets/{ticket_id}/rating", tag = "Support",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
    ),
    request_body = NewRating,
    extensions(("x-codes" = json!([
        Problem::from(tickets::rated_before()), Code::TicketClosed,
    ]))),
    responses(
        (status = 200, body = TicketView, description = "The ticket"),
    ),
    security(("portal_token" = []))
)]
async fn rate_ticket(
    caller: Caller<Portal>,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    let mut fields = Fields::read(&body)?;
    let score = fields.required_integer("score", 1, 5);
    let comment = fields.text_within("comment", 1, 1_000);
    let account = &caller.account.id;
    finish(&app, fields, Reader::User(account), &id).await?;
    let score = score.ok_or(Code::InternalError)?;
    let route = format!("POST /v1/support/tickets/{id}/rating");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let rating = Rating { by: user(&caller)?, score, comment };
    let fresh = async |claim: Claim| Ok(tickets::rate(&app, account, &id, rating, &claim).await?);
    let again = async |_: Seen| Ok(tickets::find(&app, Reader::User(account), &id).await?);
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|ticket| Json(TicketView::from(ticket))).into_response())
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Unknown => Code::NotFound.into(),
            Error::Closed { merged_into, to_staff } => {
                let problem = Self::new(Code::TicketClosed);
                problem.detail(match (merged_into, to_staff) {
                    (Some(id), _) => format!("It was merged into {id}, which goes on with it."),
                    (None, true) => {
                        "Its user can open a new ticket that names this one in `follows`.".into()
                    }
                    (None, false) => {
                        "You can open a new ticket that names this one in `follows`.".into()
                    }
                })
            }
            Error::Expired => Code::FileExpired.into(),
            Error::Storage(why) => Self::new(Code::StorageUnavailable).because(&why),
            Error::Full(detail) => Self::new(Code::LimitReached).detail(detail),
            Error::Field { field, detail } => {
                Self::invalid(vec![Item::at(&format!("/{field}"), "invalid_enum", detail)])
            }
            Error::InProgress => Code::IdempotencyInProgress.into(),
            Error::Db(error) => error.into(),
            Error::Commit(CommitError::Rejected(STALE)) => Code::Overloaded.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
