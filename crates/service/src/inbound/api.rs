//! Inbound notifications over HTTP.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use super::message::Address;
use super::view::{InboundNotification, PROVIDER};
use super::{Filter, Notification};
use crate::access::{Caller, ReadInbound, Scope, Staff, Who};
use crate::app::App;
use crate::carriers::Channel;
use crate::kit::described::described_words;
use crate::kit::id::InboundId;
use crate::kit::page::{self, Page, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/inbound-notifications";
const PARKED: &str = "/v1/admin/inbound-notifications";
const FILTERS: [&str; 5] = ["provider", "sender", "recipient", "since", "until"];
const KNOWN: [&str; 7] = ["provider", "sender", "recipient", "since", "until", "limit", "cursor"];

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_inbound_notifications, read_inbound_notification, list_parked_notifications)
}

/// A message that a person sent, with the carrier's payload.
#[derive(Serialize, ToSchema)]
pub struct InboundNotificationDetail {
    /// Its id.
    #[schema(example = "inb_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// Always `svc`.
    #[schema(example = "svc")]
    provider: &'static str,
    /// `chatapp` or `sms`.
    #[schema(value_type = crate::carriers::Channel)]
    channel: &'static str,
    /// Who wrote.
    #[schema(example = "+33612345678")]
    sender: String,
    /// What they wrote.
    #[schema(example = "Thank you")]
    message: String,
    /// When it came in here.
    #[schema(format = DateTime, example = "2026-01-01T00:00:01.250Z")]
    created_at: String,
    /// What the carrier brought, as JSON in a string.
    #[schema(example = "{\"from\":\"33612345678\",\"text\":\"Thank you\"}")]
    raw_json: String,
}

/// List inbound messages.
///
/// What people sent to the account, newest first. A page of a filtered list may be shorter than
/// `limit`, even empty, and still lead on: go by the `Link` header.
#[endpoints::path(
    get, path = "/v1/inbound-notifications", tag = "Inbound",
    params(
        ("provider" = inline(Option<Provider>), Query,
         description = "`ngh`: SMS; `chatapp`: the chat-app; `svc` or left out: all. A key that \
                        has only `chatapp:receive` must say `chatapp`"),
        ("sender" = Option<String>, Query, description = "Only from this number"),
        ("recipient" = Option<String>, Query, description = "Only to this number or name"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<InboundNotification>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["chatapp:receive", "account:read"]), ("portal_token" = []))
)]
async fn list_inbound_notifications(
    caller: Caller<ReadInbound>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let filter = read_filter(&query)?;
    permit(&caller, filter.channel)?;
    let path = query.path_with(PATH, &FILTERS);
    let page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let (rows, next) = super::list(&app, &caller.account.id, &filter, &page).await?;
    Ok(show(&app, &path, &page, rows, next.as_deref()))
}

/// Read an inbound message.
///
/// With the carrier's payload.
#[endpoints::path(
    get, path = "/v1/inbound-notifications/{notification_id}", tag = "Inbound",
    params(
        ("notification_id" = String, Path, description = "The notification"),
        ("provider" = inline(Option<Provider>), Query,
         description = "404 if it came another way; taken as for the list"),
    ),
    responses(
        (status = 200, body = InboundNotificationDetail, description = "The notification"),
    ),
    security(("api_key" = ["chatapp:receive", "account:read"]), ("portal_token" = []))
)]
async fn read_inbound_notification(
    caller: Caller<ReadInbound>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    Path(id): Path<String>,
) -> Result<Json<InboundNotificationDetail>, Problem> {
    let channel = read_channel(&Query::read(query.as_deref(), &["provider"])?)?;
    let id = InboundId::parse(&id).ok_or(Code::NotFound)?;
    let found = super::find(&app, &caller.account.id, &id).await?;
    let asked = found.filter(|(row, _)| channel.is_none_or(|asked| asked == row.channel));
    let (row, raw_json) = asked.ok_or(Code::NotFound)?;
    permit(&caller, Some(row.channel))?;
    let Notification { id, channel, sender, message, created_at, .. } = row;
    Ok(Json(InboundNotificationDetail {
        id: id.into(),
        provider: PROVIDER,
        channel: channel.as_str(),
        sender,
        message,
        created_at: created_at.to_string(),
        raw_json,
    }))
}

/// List inbound messages of no account.
///
/// Newest first. Nobody has the number that was written to as an approved sender, and nobody wrote
/// to the person within 72 hours.
#[endpoints::path(
    get, path = "/v1/admin/inbound-notifications", tag = "Operator",
    params(
        ("sender" = Option<String>, Query, description = "Only what this number wrote"),
        ("recipient" = Option<String>, Query, description = "Only what was written to this"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<InboundNotification>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_parked_notifications(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let known = ["sender", "recipient", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with(PARKED, &known[..4]);
    let page = query.page(&app.vault, &path)?;
    let filter = read_filter(&query)?;
    let (rows, next) = super::parked(&app, &filter, &page).await?;
    Ok(show(&app, &path, &page, rows, next.as_deref()))
}

fn show(
    app: &App,
    path: &str,
    page: &Page,
    rows: Vec<Notification>,
    next: Option<&str>,
) -> Response {
    let views: Vec<InboundNotification> = rows.into_iter().map(Into::into).collect();
    page::answer_until(&app.vault, path, page, &views, next)
}

/// A key that has `chatapp:receive` and not `account:read` reads the chat-app only.
fn permit(caller: &Caller<ReadInbound>, channel: Option<Channel>) -> Result<(), Problem> {
    let is_key = matches!(caller.who, Who::Key(_));
    if is_key && caller.scopes & Scope::AccountRead.bit() == 0 && channel != Some(Channel::Chatapp)
    {
        let detail = "A key with `chatapp:receive` alone reads chat-app messages, and lists \
                      them with `provider=chatapp`. Use a key with `account:read` for others.";
        return Err(Problem::new(Code::InsufficientScope).detail(detail));
    }
    Ok(())
}

/// The channel that `provider` names; `None` = all.
fn read_channel(query: &Query) -> Result<Option<Channel>, Problem> {
    match query.get("provider") {
        None | Some("svc") => Ok(None),
        Some("ngh") => Ok(Some(Channel::Sms)),
        Some("chatapp") => Ok(Some(Channel::Chatapp)),
        Some(_) => {
            let detail = "must be one of ngh, chatapp, svc";
            Err(Problem::bad_request("?provider", "invalid_enum", detail))
        }
    }
}

fn read_filter(query: &Query) -> Result<Filter, Problem> {
    let channel = read_channel(query)?;
    let address = |name| query.get(name).map(|text| Address::read(text).text().to_owned());
    Ok(Filter {
        channel,
        sender: address("sender"),
        recipient: address("recipient"),
        since: query.instant("since")?,
        until: query.instant("until")?,
    })
}

described_words!(
    Provider: "Whose messages: `ngh` is SMS, `chatapp` the chat-app, `svc` all.",
    ["ngh", "chatapp", "svc"]
);
