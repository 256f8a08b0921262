//! The endpoints of SMS messages.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;
use store::Error as DbError;

use super::store::{self as sql, Stretch};
use super::view::{SentSms, SmsMessage};
use super::{Class, Error, Message, Status, parse, send};
use crate::access::caller::{Caller, ReadAccount, SendSms};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::id::SmsId;
use crate::kit::page::{self, NoQuery, Page, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/messages";
const FILTERS: [&str; 5] = ["to", "reference", "status", "since", "until"];
const KNOWN: [&str; 7] = ["to", "reference", "status", "since", "until", "limit", "cursor"];

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_messages, send_message, read_message)
}

/// An SMS to send.
#[derive(Deserialize, ToSchema)]
pub struct NewSms {
    /// International-format phone number.
    #[schema(pattern = "[0-9]", example = "+33612345678")]
    pub to: String,
    /// Approved sender; left out, the account's `default_sender`. Only the sandbox sends without.
    #[schema(min_length = 1, max_length = 16)]
    pub sender: Option<String>,
    /// What it says, at most 10 segments.
    #[schema(max_length = 1530, min_length = 1, example = "Your parcel arrives today at 9.")]
    pub text: String,
    /// Yours, for finding the message again.
    #[schema(min_length = 1, max_length = 128, example = "order-4711")]
    pub reference: Option<String>,
    /// Whether to write characters that GSM-7 does not have as ones that it has (`ê` as `e`), if
    /// that is possible for the whole text; left out, they stay.
    pub transliterate: Option<bool>,
    /// How long it may take to arrive, seconds: then it is `expired`. Left out: 86,400.
    #[schema(minimum = 60, maximum = 259_200)]
    pub validity_s: Option<i64>,
    /// What it is for. Bulk waits for transactional, and is not sent again after an unclear answer.
    pub class: Option<Class>,
}

/// Send an SMS.
///
/// It is stored, its price is held, and the answer comes at once: what becomes of it is told by
/// `sms.delivery` and by reading it. What no carrier takes costs nothing.
#[endpoints::path(
    post, path = "/v1/messages", tag = "SMS",
    request_body = NewSms,
    extensions(("x-codes" = json!([
        Code::InsufficientCredits, Code::CountryNotAllowed, Code::SenderNotApproved,
        Code::RecipientOptedOut, Code::CarrierUnavailable,
    ]))),
    responses(
        (status = 200, body = SentSms, description = "The message is queued"),
    ),
    security(("api_key" = ["sms:send"]))
)]
async fn send_message(
    caller: Caller<SendSms>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let order = parse::send(&app, &body)?;
    let account = &caller.account;
    let request = Repeatable::by_tenant(&account.id, &headers, "POST /v1/messages", &body);
    let fresh = async |claim: &Claim| Ok(send::send(&app, account, &order, claim).await?);
    let again = async |seen: Seen| Ok(send::seen(&app, account, &seen).await?);
    let sent = idempotency::once_or_refused(&app, request, fresh, again).await?;
    Ok(sent.map(|message| Json(SentSms::from(message))).into_response())
}

/// List SMS.
///
/// Newest first. A page of a list that is filtered by `status` may be shorter than `limit`, even
/// empty, and still lead on: go by the `Link` header.
#[endpoints::path(
    get, path = "/v1/messages", tag = "SMS",
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
        (status = 200, body = Vec<SmsMessage>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_messages(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let path = query.path_with(PATH, &FILTERS);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let filter = read_filter(&query, &mut page)?;
    let (rows, next) = list(&app, &caller, &filter, &page).await?;
    let views: Vec<SmsMessage> = rows.into_iter().map(Into::into).collect();
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

/// Read an SMS.
#[endpoints::path(
    get, path = "/v1/messages/{message_id}", tag = "SMS",
    params(("message_id" = String, Path, description = "From its send")),
    responses(
        (status = 200, body = SmsMessage, description = "The message as it stands"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_message(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<SmsMessage>, Problem> {
    let id = SmsId::parse(&id).ok_or(Code::NotFound)?;
    let found = sql::message(&app, &caller.account.id, &id).await?;
    Ok(Json(found.ok_or(Code::NotFound)?.into()))
}

/// Which messages a list is of.
struct Filter {
    stretch: Stretch,
    /// What `stretch` does not look at already.
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
    let status = query.word("status")?;
    let reference = query.get("reference").map(str::to_owned);
    let since = query.between(page, |at| SmsId::bound(at).into())?;
    let reference_beside = reference.clone().filter(|_| to.is_some());
    let stretch = Stretch { to, reference, since };
    Ok(Filter { stretch, reference: reference_beside, status })
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = format!("{error}.");
        let told = |code| Self::new(code).detail(detail.clone());
        match error {
            Error::CountryNotAllowed(_) => told(Code::CountryNotAllowed),
            Error::SenderNotApproved(_) => told(Code::SenderNotApproved),
            Error::OptedOut => told(Code::RecipientOptedOut),
            Error::NoCarrier => told(Code::CarrierUnavailable),
            Error::Unknown => told(Code::NotFound),
            Error::Credits(error) => error.into(),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
