//! The endpoints of virtual handsets.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::caller::{Caller, TestCaller};
use crate::app::App;
use crate::carriers::handsets::Received;
use crate::kit::body::Fields;
use crate::kit::msisdn::Msisdn;
use crate::kit::page::{self, Query};
use crate::kit::problem::{Item, Problem, ProblemBody};
use crate::kit::problem_code::Code;

/// The routes of this room.
#[must_use]
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_handset_messages)).routes(routes!(reply_from_handset))
}

/// A message on a virtual handset.
#[derive(Serialize, ToSchema)]
pub struct HandsetMessage {
    id: String,
    /// `chatapp` or `sms`.
    channel: &'static str,
    sender: String,
    text: String,
    /// The passcode; null for what is none.
    code: Option<String>,
    /// Quick-reply buttons.
    buttons: Vec<String>,
    #[schema(format = DateTime)]
    received_at: String,
}

/// What the person does: writes a text or taps a button.
#[derive(Deserialize, ToSchema)]
pub struct ReplyRequest {
    /// What they write.
    #[schema(max_length = 4096)]
    pub text: Option<String>,
    /// The button of the last prompt that they tap.
    pub button: Option<Button>,
    /// `chatapp` (default) or `sms`.
    pub channel: Option<ReplyChannel>,
}

/// A button of a consent prompt.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Button {
    /// Consents.
    Yes,
    /// Declines.
    No,
}

/// Where a reply comes from.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplyChannel {
    /// The chat-app.
    Chatapp,
    /// SMS.
    Sms,
}

/// A reply that was taken.
#[derive(Serialize, ToSchema)]
pub struct ReplyView {
    /// Whether the phone's message was taken.
    accepted: bool,
    /// `chatapp` or `sms`.
    channel: &'static str,
}

/// List what a virtual handset received, newest first. Own account's messages only.
#[utoipa::path(get, path = "/v1/sandbox/handsets/{phone}/messages", tag = "Sandbox",
    params(("phone" = String, Path, description = "International format"),
        ("limit" = Option<i64>, Query, description = "1 to 200, default 50",
            minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the Link header")),
    security(("api_key" = []), ("portal_token" = [])), responses(
    (status = 200, body = [HandsetMessage], description = "Messages, newest first"),
    (status = "default", body = ProblemBody, content_type = "application/problem+json",
        description = "A problem")))]
async fn list_handset_messages(
    caller: Caller<TestCaller>,
    State(app): State<App>,
    Path(phone): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let phone = read_phone(&phone)?;
    let path = format!("/v1/sandbox/handsets/{}/messages", phone.e164());
    let query = Query::read(query.as_deref(), &["limit", "cursor"])?;
    let page = query.page(&app.vault, &path)?;
    let handsets = app.carriers.handsets().ok_or(Code::RouteNotFound)?;
    let found = handsets.messages(caller.account.id.as_str(), phone.e164()).await?;
    let limit = usize::try_from(page.limit).unwrap_or(50);
    let rows = found.into_iter().filter(|message| message.id < page.after);
    let rows: Vec<_> = rows.take(limit + 1).map(view).collect();
    Ok(page::answer(&app.vault, &path, &page, rows, |row| row.id.clone()))
}

/// Make a virtual handset answer.
#[utoipa::path(post, path = "/v1/sandbox/handsets/{phone}/replies", tag = "Sandbox",
    params(("phone" = String, Path, description = "International format")),
    request_body = ReplyRequest,
    security(("api_key" = []), ("portal_token" = [])), responses(
    (status = 200, body = ReplyView, description = "The phone's message was taken"),
    (status = "default", body = ProblemBody, content_type = "application/problem+json",
        description = "A problem")))]
async fn reply_from_handset(
    caller: Caller<TestCaller>,
    State(app): State<App>,
    Path(phone): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Json<ReplyView>, Problem> {
    Query::read(query.as_deref(), &[])?;
    let phone = read_phone(&phone)?;
    let handsets = app.carriers.handsets().ok_or(Code::RouteNotFound)?;
    let mut fields = Fields::read(&body)?;
    let text = fields.text_within("text", 1, 4096);
    let button = fields.choice("button", &["yes", "no"]);
    let channel = fields.choice("channel", &["chatapp", "sms"]).unwrap_or("chatapp");
    if text.is_none() && button.is_none() && !fields.has_faults() {
        fields.fault("text", "required", "is required, unless button is given");
    }
    fields.finish(app.is_strict())?;
    let received = handsets.messages(caller.account.id.as_str(), phone.e164()).await?;
    if button.is_some() && received.iter().all(|message| message.buttons.is_empty()) {
        let item = Item::at("/button", "invalid_enum", "this phone got no prompt with buttons");
        return Err(Problem::invalid(vec![item]));
    }
    // Inbound messages are a room of their own, still to come: until then nobody listens.
    Ok(Json(ReplyView { accepted: true, channel }))
}

fn read_phone(text: &str) -> Result<Msisdn, Problem> {
    Msisdn::parse(text)
        .map_err(|error| Problem::bad_request("phone", "invalid_phone_number", error.to_string()))
}

fn view(message: Received) -> HandsetMessage {
    HandsetMessage {
        id: message.id,
        channel: message.channel,
        sender: message.sender,
        text: message.text,
        code: message.code,
        buttons: message.buttons,
        received_at: message.received_at.to_string(),
    }
}
