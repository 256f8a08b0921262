//! Messages over HTTP, as users have them.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;

use super::{NewMessage, Written};
use crate::access::caller::{Caller, Portal};
use crate::access::idempotency::{self, Claim, Once, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::{TicketId, TicketMessageId};
use crate::kit::page::Query;
use crate::kit::posted::Posted;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::support::api::{finish, said, user};
use crate::support::tickets;
use crate::support::view::{self, TicketMessageView, TicketView};
use crate::support::{Author, LONGEST_MESSAGE, Message, Reader, Ticket, messages};

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_ticket_messages, write_ticket_message, mark_ticket_read)
}

/// A message to be written.
#[derive(Deserialize, ToSchema)]
pub struct NewMessageBody {
    /// 1 to 10,000 characters.
    #[schema(min_length = 1, example = "It works again, thank you.", max_length = 10000)]
    pub message: String,
    /// Your own id of it, 1 to 64 characters: a repeat is no second message.
    #[schema(min_length = 1, max_length = 64)]
    pub client_message_id: Option<String>,
}

/// How far somebody has read.
#[derive(Deserialize, ToSchema)]
pub struct ReadUpTo {
    /// The number of the last message that was read.
    #[schema(minimum = 0, example = 1)]
    pub seq: i64,
}

/// List a ticket's messages.
///
/// Oldest first. `after_seq` begins after a number that is known: so a client that was away gets
/// all that it missed. The `Link` header has the next page.
#[endpoints::path(
    get, path = "/v1/support/tickets/{ticket_id}/messages", tag = "Support",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
        ("after_seq" = Option<i64>, Query, description = "The number to begin after; 0 when left \
            out"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
    ),
    responses(
        (status = 200, body = Vec<TicketMessageView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("portal_token" = []))
)]
async fn list_ticket_messages(
    caller: Caller<Portal>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let path = format!("/v1/support/tickets/{id}/messages");
    let stretch = Stretch::read(query.as_deref())?;
    let (messages, more) = stretch.of(&app, Reader::User(&caller.account.id), &id).await?;
    let last = messages.last().map(|message| message.seq);
    let views = view::for_user(&app, messages).await?;
    Ok(leading_on(&path, &stretch, last.filter(|_| more), Json(views).into_response()))
}

/// Which messages are asked for.
pub(in crate::support) struct Stretch {
    after_seq: i64,
    limit: i64,
}

impl Stretch {
    pub(in crate::support) fn read(query: Option<&str>) -> Result<Self, Problem> {
        let query = Query::read(query, &["after_seq", "limit"])?;
        let number = |name: &str, usual: i64, least: i64, most: i64| match query.get(name) {
            None => Ok(usual),
            Some(text) => {
                text.parse().ok().filter(|n| (least..=most).contains(n)).ok_or_else(|| {
                    let detail = format!("must be from {least} to {most}");
                    Problem::bad_request(&format!("?{name}"), "out_of_range", detail)
                })
            }
        };
        let after_seq = number("after_seq", 0, 0, i64::MAX)?;
        Ok(Self { after_seq, limit: number("limit", 50, 1, 200)? })
    }

    /// The messages, and whether there are more.
    pub(in crate::support) async fn of(
        &self,
        app: &App,
        reader: Reader<'_>,
        id: &str,
    ) -> Result<(Vec<Message>, bool), Problem> {
        let id = TicketId::parse(id).ok_or(Code::NotFound)?;
        let ticket = tickets::find(app, reader, &id).await?;
        let (seq, limit) = (self.after_seq, self.limit + 1);
        let mut messages = messages::after(app, reader, &ticket, seq, limit).await?;
        let limit = usize::try_from(self.limit).unwrap_or(1);
        let more = messages.len() > limit;
        messages.truncate(limit);
        Ok((messages, more))
    }
}

/// Adds the `Link` to the messages after these.
pub(in crate::support) fn leading_on(
    path: &str,
    stretch: &Stretch,
    last: Option<i64>,
    mut response: Response,
) -> Response {
    if let Some(last) = last {
        let limit = stretch.limit;
        let link = format!("<{path}?limit={limit}&after_seq={last}>; rel=\"next\"");
        if let Ok(value) = axum::http::HeaderValue::from_str(&link) {
            response.headers_mut().insert(axum::http::header::LINK, value);
        }
    }
    response
}

/// Write in a ticket.
///
/// A ticket that is pending or resolved opens again.
#[endpoints::path(
    post, path = "/v1/support/tickets/{ticket_id}/messages", tag = "Support",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
    ),
    request_body = NewMessageBody,
    extensions(("x-codes" = json!([
        Code::TicketClosed, Problem::from(super::too_many()),
    ]))),
    responses(
        (status = 200, body = TicketMessageView, description = "The message"),
    ),
    security(("portal_token" = []))
)]
async fn write_ticket_message(
    caller: Caller<Portal>,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    let mut fields = Fields::read(&body)?;
    let text = said(&mut fields, "message", LONGEST_MESSAGE);
    let client_message_id = fields.text_within("client_message_id", 1, 64);
    let account = &caller.account.id;
    let reader = Reader::User(account);
    finish(&app, fields, reader, &id).await?;
    let text = text.ok_or(Code::InternalError)?;
    let route = format!("POST /v1/support/tickets/{id}/messages");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let author = user(&caller)?;
    let fresh = async |claim: Claim| {
        let new = NewMessage { client_message_id, ..NewMessage::public(author, text) };
        Ok(messages::write(&app, reader, &id, &new, &claim).await?)
    };
    let again = async |seen: Seen| {
        let id = TicketMessageId::stored(seen.object_id);
        let message = messages::by_id(&app, reader, &id).await?;
        Ok(Written { message, attached: None, duplicate: false })
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    let Written { message, attached, duplicate } = once.answer().clone();
    let view = view::written(&app, message, attached).await?.message;
    Ok(marked(once.map(|_| ()), duplicate, Json(view)))
}

/// The answer of a message. A repeat under the client's own id is one, too.
pub(in crate::support) fn marked(
    once: Once<()>,
    duplicate: bool,
    answer: impl IntoResponse,
) -> Response {
    let mut response = once.map(|()| answer).into_response();
    if duplicate {
        let name = HeaderName::from_static("idempotent-replayed");
        response.headers_mut().insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// Mark messages as read.
#[endpoints::path(
    post, path = "/v1/support/tickets/{ticket_id}/read", tag = "Support",
    params(("ticket_id" = String, Path, description = "The ticket")),
    request_body = ReadUpTo,
    responses(
        (status = 200, body = TicketView, description = "The ticket"),
    ),
    security(("portal_token" = []))
)]
async fn mark_ticket_read(
    caller: Caller<Portal>,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let route = format!("POST /v1/support/tickets/{}/read", posted.id);
    let request = Repeatable::by_tenant(account, &posted.headers, &route, &posted.body);
    let author = user(&caller)?;
    let read = read_up_to(&app, Reader::User(account), &author, &posted.id, request).await?;
    Ok(read.map(|ticket| Json(TicketView::from(ticket))).into_response())
}

/// Notes how far somebody has read, and answers the ticket as it is then.
pub(in crate::support) async fn read_up_to(
    app: &App,
    reader: Reader<'_>,
    author: &Author,
    id: &TicketId,
    request: Repeatable<'_>,
) -> Result<Once<Ticket>, Problem> {
    let mut fields = Fields::read(request.body())?;
    let seq = fields.required_integer("seq", 0, i64::MAX);
    finish(app, fields, reader, id).await?;
    let seq = seq.ok_or(Code::InternalError)?;
    let fresh = async |claim: Claim| {
        let mut ticket = tickets::find(app, reader, id).await?;
        tickets::mark_read(app, &mut ticket, author, seq, &claim).await?;
        // Nothing that fails behind the commit hides it.
        Ok(tickets::find(app, reader, id).await.unwrap_or(ticket))
    };
    let again = async |_: Seen| Ok(tickets::find(app, reader, id).await?);
    idempotency::once(app, request, fresh, again).await
}
