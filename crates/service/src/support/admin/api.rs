//! Support over HTTP, as staff have it.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;
use serde_json::Value;

use crate::access::caller::Staff;
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::{App, Env};
use crate::kit::body::Fields;
use crate::kit::id::{AccountId, CannedReplyId, StaffId, TicketId, TicketMessageId};
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::posted::Posted;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::support::api::{filter, found, said};
use crate::support::decide::{Assignment, Patch};
use crate::support::messages::api::{ReadUpTo, Stretch, leading_on, marked, read_up_to};
use crate::support::messages::{self, NewMessage, Written};
use crate::support::tickets::{self, Filter};
use crate::support::view::{self, AdminTicketMessageView, AdminTicketView, TicketChangeView};
use crate::support::{Author, LONGEST_MESSAGE, Priority, Reader, Status, canned};

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(
        list_all_tickets,
        read_any_ticket,
        change_ticket,
        list_all_ticket_messages,
        write_staff_message,
        merge_ticket,
        list_ticket_history,
        mark_ticket_read_by_staff
    )
}

/// A change of a ticket; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"status": "resolved"}))]
pub struct TicketPatch {
    /// `open`, `pending`, `on_hold`, `resolved` or `closed`. A closed ticket stays so.
    #[schema(value_type = Option<crate::support::Status>)]
    pub status: Option<String>,
    /// `low`, `normal` or `high`. Its targets are counted anew.
    #[schema(value_type = Option<crate::support::Priority>)]
    pub priority: Option<String>,
    /// The id of a member of staff; null takes the ticket from whoever has it.
    #[schema(value_type = Option<String>)]
    pub assignee: Option<Value>,
}

/// A message of staff to be written.
#[derive(Deserialize, ToSchema)]
pub struct NewStaffMessageBody {
    /// 1 to 10,000 characters. Left out where `canned_reply_id` is given.
    #[schema(min_length = 1, example = "We have looked into it.", max_length = 10000)]
    pub message: Option<String>,
    /// An answer kept at hand, with its variables filled in.
    pub canned_reply_id: Option<String>,
    /// Whether it is a note that no user ever sees. `false` when left out.
    pub internal: Option<bool>,
    /// Your own id of it, 1 to 64 characters: a repeat is no second message.
    #[schema(min_length = 1, max_length = 64)]
    pub client_message_id: Option<String>,
}

/// Where a ticket goes on.
#[derive(Deserialize, ToSchema)]
pub struct NewMerge {
    /// Another ticket of the same account that is not closed.
    #[schema(example = "tkt_01h455vb4pex5vsknk084sn02p")]
    pub into: String,
}

fn author(staff: &Staff) -> Author {
    Author::Staff(staff.id.clone())
}

/// Staff's own requests are kept apart from those of the accounts that they work for.
fn keeper(staff: &Staff) -> AccountId {
    AccountId::stored(staff.id.to_string())
}

/// List the tickets of all accounts.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/admin/support/tickets", tag = "Operator",
    params(
        ("status" = Option<crate::support::Status>, Query,
         description = "Only with this status"),
        ("priority" = Option<crate::support::Priority>, Query,
         description = "Only with this priority"),
        ("category" = Option<String>, Query, description = "As the user gave it"),
        ("assignee" = Option<String>, Query, description = "A member of staff, or `none`"),
        ("account_id" = Option<String>, Query, description = "Only this account's"),
        ("environment" = Option<Env>, Query, description = "Only this environment's"),
        ("q" = Option<String>, Query, description = "Words to look for, also in notes"),
        ("since" = Option<String>, Query, description = "At or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<AdminTicketView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_all_tickets(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    const FILTERS: [&str; 9] = [
        "status",
        "priority",
        "category",
        "assignee",
        "account_id",
        "environment",
        "q",
        "since",
        "until",
    ];
    let known = [FILTERS.as_slice(), &["limit", "cursor"]].concat();
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with("/v1/admin/support/tickets", &FILTERS);
    let mut page = query.page(&app.vault, &path)?;
    let env = query.word::<Env>("environment")?;
    let text = |name: &str| query.get(name).map(str::to_owned);
    let filter = Filter {
        assignee: text("assignee"),
        account: text("account_id"),
        env: env.map(|env| env.as_str().to_owned()),
        ..filter(&query, &mut page)?
    };
    let (tickets, next) = found(&app, Reader::Staff, &query, &filter, &page).await?;
    let views: Vec<AdminTicketView> = tickets.into_iter().map(AdminTicketView::from).collect();
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

/// Read any ticket.
#[endpoints::path(
    get, path = "/v1/admin/support/tickets/{ticket_id}", tag = "Operator",
    params(("ticket_id" = String, Path, description = "The ticket")),
    responses(
        (status = 200, body = AdminTicketView, description = "The ticket"),
    ),
    security(("staff_token" = []))
)]
async fn read_any_ticket(
    _staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<AdminTicketView>, Problem> {
    let id = TicketId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(tickets::find(&app, Reader::Staff, &id).await?.into()))
}

/// Change a ticket.
///
/// Its status, priority or assignee.
#[endpoints::path(
    patch, path = "/v1/admin/support/tickets/{ticket_id}", tag = "Operator",
    params(("ticket_id" = String, Path, description = "The ticket")),
    request_body = TicketPatch,
    extensions(("x-codes" = json!([Code::TicketClosed]))),
    responses(
        (status = 200, body = AdminTicketView, description = "The ticket as changed"),
    ),
    security(("staff_token" = []))
)]
async fn change_ticket(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<AdminTicketView>, Problem> {
    let patch = read_patch(&app, &body)?;
    let id = TicketId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(tickets::change(&app, &author(&staff), &id, &patch).await?.into()))
}

fn read_patch(app: &App, body: &[u8]) -> Result<Patch, Problem> {
    // null is a value here: it takes the assignee away.
    let is_null = |value: &Value| value.get("assignee").is_some_and(Value::is_null);
    let unassigns = serde_json::from_slice(body).is_ok_and(|value| is_null(&value));
    let mut fields = Fields::read(body)?;
    let status = fields.word::<Status>("status");
    let priority = fields.word::<Priority>("priority");
    let assignee = match fields.text("assignee") {
        None if unassigns => Assignment::Nobody,
        None => Assignment::Stays,
        Some(text) => StaffId::parse(&text).map_or_else(
            || {
                let detail = "must be the id of a member of staff, or null";
                fields.fault("assignee", "invalid_type", detail);
                Assignment::Stays
            },
            Assignment::To,
        ),
    };
    fields.finish(app.is_strict())?;
    Ok(Patch { status, priority, assignee })
}

/// List a ticket's messages and notes.
///
/// Oldest first.
#[endpoints::path(
    get, path = "/v1/admin/support/tickets/{ticket_id}/messages", tag = "Operator",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
        ("after_seq" = Option<i64>, Query, description = "The number to begin after; 0 when left \
            out"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
    ),
    responses(
        (status = 200, body = Vec<AdminTicketMessageView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_all_ticket_messages(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let path = format!("/v1/admin/support/tickets/{id}/messages");
    let stretch = Stretch::read(query.as_deref())?;
    let (messages, more) = stretch.of(&app, Reader::Staff, &id).await?;
    let last = messages.last().map(|message| message.seq);
    let views = view::for_staff(&app, messages).await?;
    Ok(leading_on(&path, &stretch, last.filter(|_| more), Json(views).into_response()))
}

/// Answer in a ticket.
///
/// Or write a note, which no user ever sees.
#[endpoints::path(
    post, path = "/v1/admin/support/tickets/{ticket_id}/messages", tag = "Operator",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
    ),
    request_body = NewStaffMessageBody,
    extensions(("x-codes" = json!([
        Code::TicketClosed, Problem::from(messages::too_many()),
    ]))),
    responses(
        (status = 200, body = AdminTicketMessageView, description = "The message"),
    ),
    security(("staff_token" = []))
)]
async fn write_staff_message(
    staff: Staff,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    let mut fields = Fields::read(&body)?;
    let reply = fields.text("canned_reply_id");
    let text = match reply {
        Some(_) => fields.text_within("message", 1, LONGEST_MESSAGE),
        None => said(&mut fields, "message", LONGEST_MESSAGE),
    };
    if reply.is_some() && text.is_some() {
        fields.fault("message", "unknown_field", "cannot be combined with canned_reply_id");
    }
    let internal = fields.flag("internal").unwrap_or(false);
    let client_message_id = fields.text_within("client_message_id", 1, 64);
    fields.finish(app.is_strict())?;
    let route = format!("POST /v1/admin/support/tickets/{id}/messages");
    let keeper = keeper(&staff);
    let request = Repeatable::by_staff(&keeper, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let text = match reply.as_deref().map(CannedReplyId::parse) {
            None => text.ok_or(Code::InternalError)?,
            Some(reply) => canned::filled(&app, reply.as_ref(), &id).await?,
        };
        let public = NewMessage::public(author(&staff), text);
        let new = NewMessage { internal, client_message_id, ..public };
        Ok(messages::write(&app, Reader::Staff, &id, &new, &claim).await?)
    };
    let again = async |seen: Seen| {
        let id = TicketMessageId::stored(seen.object_id);
        let message = messages::by_id(&app, Reader::Staff, &id).await?;
        Ok(Written { message, attached: None, duplicate: false })
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    let Written { message, attached, duplicate } = once.answer().clone();
    let view = view::written(&app, message, attached).await?;
    Ok(marked(once.map(|_| ()), duplicate, Json(view)))
}

/// Merge a ticket into another.
///
/// It is closed, and its matter goes on in the other one. Its messages stay where they are, and
/// whoever writes in it is told where to go on. A note in the other ticket tells staff of it.
#[endpoints::path(
    post, path = "/v1/admin/support/tickets/{ticket_id}/merge", tag = "Operator",
    params(
        ("ticket_id" = String, Path, description = "The ticket that ends"),
    ),
    request_body = NewMerge,
    extensions(("x-codes" = json!([Code::TicketClosed]))),
    responses(
        (status = 200, body = AdminTicketView, description = "The ticket that ended"),
    ),
    security(("staff_token" = []))
)]
async fn merge_ticket(
    staff: Staff,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    let mut fields = Fields::read(&body)?;
    let into = fields.required("into").map(|text| TicketId::parse(&text));
    if into == Some(None) {
        fields.fault("into", "invalid_type", "must be the id of a ticket");
    }
    fields.finish(app.is_strict())?;
    let into = into.flatten().ok_or(Code::InternalError)?;
    let route = format!("POST /v1/admin/support/tickets/{id}/merge");
    let (keeper, by) = (keeper(&staff), author(&staff));
    let request = Repeatable::by_staff(&keeper, &headers, &route, &body);
    let fresh = async |claim: Claim| Ok(tickets::merge(&app, &by, &id, &into, &claim).await?);
    let again = async |_: Seen| Ok(tickets::find(&app, Reader::Staff, &id).await?);
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|ticket| Json(AdminTicketView::from(ticket))).into_response())
}

/// List a ticket's history.
///
/// What was done with it, newest first.
#[endpoints::path(
    get, path = "/v1/admin/support/tickets/{ticket_id}/history", tag = "Operator",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<TicketChangeView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_ticket_history(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let path = format!("/v1/admin/support/tickets/{id}/history");
    let page = Query::read(query.as_deref(), &["limit", "cursor"])?.page(&app.vault, &path)?;
    let id = TicketId::parse(&id).ok_or(Code::NotFound)?;
    let changes = tickets::changes(&app, &id, &page).await?;
    let views: Vec<TicketChangeView> = changes.into_iter().map(TicketChangeView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

/// Mark messages as read by staff.
#[endpoints::path(
    post, path = "/v1/admin/support/tickets/{ticket_id}/read", tag = "Operator",
    params(("ticket_id" = String, Path, description = "The ticket")),
    request_body = ReadUpTo,
    responses(
        (status = 200, body = AdminTicketView, description = "The ticket"),
    ),
    security(("staff_token" = []))
)]
async fn mark_ticket_read_by_staff(
    staff: Staff,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let route = format!("POST /v1/admin/support/tickets/{}/read", posted.id);
    let request = Repeatable::by_person(&staff.who, &posted.headers, &route, &posted.body);
    let author = author(&staff);
    let read = read_up_to(&app, Reader::Staff, &author, &posted.id, request).await?;
    Ok(read.map(|ticket| Json(AdminTicketView::from(ticket))).into_response())
}
