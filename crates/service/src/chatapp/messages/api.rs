//! The endpoints of chat-app messages.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;
use store::Error as DbError;

use super::store::{self as sql, Stretch};
use super::view::ChatappMessage;
use super::{BillingMode, Error, Message, Status, parse, send};
use crate::access::caller::{Caller, ReadAccount, SendChatapp};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::id::MessageId;
use crate::kit::page::{self, NoQuery, Page, Query};
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/chatapp/messages";
const FILTERS: [&str; 5] = ["to", "reference", "status", "since", "until"];
const KNOWN: [&str; 7] = ["to", "reference", "status", "since", "until", "limit", "cursor"];

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_chatapp_messages, send_chatapp_message, read_chatapp_message)
}

/// A message to send over the chat-app.
#[derive(Deserialize, ToSchema)]
pub struct NewChatappMessage {
    /// International-format phone number.
    #[schema(pattern = "[0-9]", example = "+33612345678")]
    pub to: String,
    /// A free-form text, while the recipient's window is open. Required unless `template_name` is
    /// set; beside it, the template is sent.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: Option<String>,
    /// An approved template.
    #[schema(min_length = 1, max_length = 512, example = "order_update")]
    pub template_name: Option<String>,
    /// The template's language, `fr` when left out.
    #[schema(pattern = "^[a-z]{2,3}([_-][A-Za-z]{2,4})?$")]
    pub template_language: Option<String>,
    /// What the variables of its text stand for, in order.
    #[schema(max_items = 200, example = json!(["Ana", "4711"]))]
    pub template_params: Option<Vec<String>>,
    /// The provider's id of the template, which must be this one.
    #[schema(min_length = 1, max_length = 128)]
    pub template_id: Option<String>,
    /// Parts in the provider's form; one of type `body` takes the place of `template_params`.
    #[schema(value_type = Option<Vec<Object>>, max_items = 20)]
    pub components: Option<Vec<serde_json::Value>>,
    /// `direct`: the price of country and category. `session`: nothing, within an active session.
    pub billing_mode: BillingMode,
    /// Yours, for finding the message again.
    #[schema(min_length = 1, max_length = 128, example = "order-4711")]
    pub reference: Option<String>,
    /// Your own id of the account that it is for.
    #[schema(min_length = 1, max_length = 128, example = "shop-17")]
    pub client_id: Option<String>,
    /// The recipient's country, ISO 3166; where it is left out, the number tells. The price always
    /// goes by the number.
    #[schema(min_length = 2, max_length = 2, example = "FR")]
    pub country: Option<String>,
}

/// Send a chat-app message.
///
/// It is stored, its price is held, and the answer comes at once: what becomes of it is told by
/// `chatapp.status` and by reading it. What fails costs nothing; what nobody reports
/// anything about stays `sent`, and is charged.
///
/// Nobody can be written to at once. A template must be approved: the one of the example is that of
/// the example of `POST /v1/chatapp/templates`, which the sandbox approves a second after it was
/// sent. A text needs a message from the recipient within 24 hours (in the sandbox: `POST
/// /v1/sandbox/handsets/{phone}/replies`). `session` needs an active session.
#[endpoints::path(
    post, path = "/v1/chatapp/messages", tag = "Chat-app",
    request_body = NewChatappMessage,
    extensions(("x-codes" = json!([
        Code::InsufficientCredits, Code::CountryNotAllowed, Code::RecipientOptedOut,
        Code::TemplateNotApproved, Code::NoActiveSession, Code::MessagingWindowClosed,
        Code::CarrierUnavailable,
    ]))),
    responses(
        (status = 200, body = ChatappMessage, description = "The message is submitted"),
    ),
    security(("api_key" = ["chatapp:send", "sms:send"]))
)]
async fn send_chatapp_message(
    caller: Caller<SendChatapp>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let order = parse::send(&app, &body)?;
    let account = &caller.account;
    let request = Repeatable::by_tenant(&account.id, &headers, "POST /v1/chatapp/messages", &body);
    let fresh = async |claim: &Claim| Ok(send::send(&app, account, &order, claim).await?);
    let again = async |seen: Seen| Ok(send::seen(&app, account, &seen).await?);
    let sent = idempotency::once_or_refused(&app, request, fresh, again).await?;
    Ok(sent.map(|message| Json(ChatappMessage::from(message))).into_response())
}

/// List chat-app messages.
///
/// Newest first. A page of a list that is filtered by `reference` or `status` may be shorter than
/// `limit`, even empty, and still lead on: go by the `Link` header.
#[endpoints::path(
    get, path = "/v1/chatapp/messages", tag = "Chat-app",
    params(
        ("to" = Option<String>, Query, description = "Only to this number"),
        ("reference" = Option<String>, Query, description = "Only with this reference"),
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<ChatappMessage>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_chatapp_messages(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let path = query.path_with(PATH, &FILTERS);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let filter = read_filter(&query, &mut page)?;
    let (rows, next) = list(&app, &caller, &filter, &page).await?;
    let views: Vec<ChatappMessage> = rows.into_iter().map(Into::into).collect();
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

/// Read a chat-app message.
#[endpoints::path(
    get, path = "/v1/chatapp/messages/{message_id}", tag = "Chat-app",
    params(("message_id" = String, Path, description = "From its send")),
    responses(
        (status = 200, body = ChatappMessage, description = "The message as it stands"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_chatapp_message(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<ChatappMessage>, Problem> {
    let id = MessageId::parse(&id).ok_or(Code::NotFound)?;
    let found = sql::message(&app, &caller.account.id, &id).await?;
    Ok(Json(found.ok_or(Code::NotFound)?.into()))
}

/// Which messages a list is of.
struct Filter {
    stretch: Stretch,
    reference: Option<String>,
    status: Option<Status>,
}

impl Filter {
    fn keeps(&self, message: &Message) -> bool {
        self.status.is_none_or(|status| status == message.status)
            && self.reference.as_ref().is_none_or(|own| message.reference.as_ref() == Some(own))
    }
}

async fn list(
    app: &App,
    caller: &Caller<ReadAccount>,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Message>, Option<String>), DbError> {
    let read = async |before: String, limit| {
        sql::stretch(app, &caller.account.id, &filter.stretch, &before, limit).await
    };
    let keep = |m: &Message| filter.keeps(m);
    let is_sifted = filter.status.is_some() || filter.reference.is_some();
    let keep = is_sifted.then_some(&keep as &(dyn Fn(&Message) -> bool + Sync));
    page::sift(page, read, |m: &Message| m.id.as_str().to_owned(), keep).await
}

fn read_filter(query: &Query, page: &mut Page) -> Result<Filter, Problem> {
    let to = query.phone("to")?.map(|to| to.e164().to_owned());
    let status = query.word::<Status>("status")?;
    let reference = query.get("reference").map(str::to_owned);
    let since = query.between(page, |at| MessageId::bound(at).into())?;
    Ok(Filter { stretch: Stretch { to, since }, reference, status })
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = format!("{error}.");
        let told = |code| Self::new(code).detail(detail.clone());
        match error {
            Error::CountryNotAllowed(_) => told(Code::CountryNotAllowed),
            Error::OptedOut => told(Code::RecipientOptedOut),
            Error::TemplateNotApproved(_) => told(Code::TemplateNotApproved),
            Error::Params { pointer, detail } => {
                Self::invalid(vec![Item::at(pointer, "invalid_template_params", detail)])
            }
            Error::WindowClosed => told(Code::MessagingWindowClosed),
            Error::NoActiveSession => told(Code::NoActiveSession),
            Error::NoCarrier => told(Code::CarrierUnavailable),
            Error::Unknown => told(Code::NotFound),
            Error::Credits(error) => error.into(),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
