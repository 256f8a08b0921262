//! The endpoints of emails.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;
use store::Error as DbError;

use super::bulk::{self, BulkResults};
use super::large::Large;
use super::send::{Taking, seen, send};
use super::store::{self as sql, Stretch};
use super::view::{self, EmailView, SentEmail};
use super::{Error, Letter, Status, address_mac, attempts, domains, parse, suppressions};
use crate::access::caller::{Caller, ReadAccount, SendEmail};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::carriers::Priority;
use crate::kit::id::EmailId;
use crate::kit::large_body;
use crate::kit::page::{self, NoQuery, Page, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/emails";
const FILTERS: [&str; 5] = ["to", "reference", "status", "since", "until"];
const KNOWN: [&str; 7] = ["to", "reference", "status", "since", "until", "limit", "cursor"];

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_emails, send_email, send_emails, read_email)
        .merge(attempts::api::routes())
        .merge(domains::api::routes())
        .merge(suppressions::api::routes())
}

/// An email to send. At least one of `text` and `html` is required.
#[derive(Deserialize, ToSchema)]
pub struct NewEmail {
    /// To whom, `ada@example.com` or `Ada <ada@example.com>`. With `cc` and `bcc` at most 50; an
    /// address that is named several times gets one copy.
    #[schema(min_items = 1, max_items = 50, example = json!(["ada@example.com"]))]
    pub to: Vec<String>,
    /// The sender, on a verified domain of the account or a shared one of the service.
    #[schema(min_length = 3, example = "Shop <shop@sandbox.estafette.test>")]
    pub from_email: String,
    /// What it is about.
    #[schema(min_length = 1, max_length = 998, example = "Your order")]
    pub subject: String,
    /// What it says, for readers without HTML, at most 2 MiB.
    #[schema(example = "It arrives today at 9.")]
    pub text: Option<String>,
    /// What it says, for all others, at most 2 MiB.
    #[schema(example = "<p>It arrives today at 9.</p>")]
    pub html: Option<String>,
    /// Who else sees it.
    #[schema(max_items = 50, example = json!([]))]
    pub cc: Option<Vec<String>>,
    /// Who else gets it, and nobody sees that.
    #[schema(max_items = 50, example = json!([]))]
    pub bcc: Option<Vec<String>>,
    /// Where answers go.
    #[schema(min_length = 3, example = "help@example.com")]
    pub reply_to: Option<String>,
    /// Headers of your own, at most 50; not those that the service writes itself.
    #[schema(
        value_type = Option<std::collections::HashMap<String, String>>,
        example = json!({"X-Order": "4711"})
    )]
    pub headers: Option<serde_json::Map<String, serde_json::Value>>,
    /// Files, at most 20.
    #[schema(max_items = 20, example = json!([]))]
    pub attachments: Option<Vec<NewAttachment>>,
    /// Yours, for finding the email again.
    #[schema(min_length = 1, max_length = 128, example = "order-4711")]
    pub reference: Option<String>,
}

/// A file in an email.
#[derive(Deserialize, ToSchema)]
pub struct NewAttachment {
    /// Its name.
    #[schema(min_length = 1, max_length = 120, example = "invoice.pdf")]
    pub filename: String,
    /// The file in base64; line breaks are passed over, and padding may be left out.
    #[schema(example = "JVBERi0xLjQK")]
    pub content: String,
    /// Its media type; `application/octet-stream` when left out.
    #[schema(example = "application/pdf")]
    pub content_type: Option<String>,
}

/// Many emails to send.
#[derive(Deserialize, ToSchema)]
pub struct NewEmails {
    /// Each is sent on its own.
    #[schema(min_items = 1, max_items = 100)]
    pub messages: Vec<NewEmail>,
}

/// Send an email.
///
/// It is stored, its price is held, and the answer comes at once: what becomes of it is told by
/// `email.delivery` and by reading it. It costs its price for each recipient; what no relay takes
/// costs nothing, and neither do addresses that the account has suppressed. A request may have 10
/// MiB.
#[endpoints::path(
    post, path = "/v1/emails", tag = "Email",
    request_body = NewEmail,
    extensions(("x-codes" = json!([
        Code::InsufficientCredits, Code::DomainNotVerified, Code::CarrierUnavailable,
    ]))),
    responses(
        (status = 200, body = SentEmail, description = "The email is queued"),
    ),
    security(("api_key" = ["email:send"]))
)]
async fn send_email(
    caller: Caller<SendEmail>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let account = &caller.account;
    let large = Large::of(&app);
    let body = large_body::read(&large.room, &account.id, body).await?;
    let (order, request) = large
        .bench
        .work(body.bytes.len(), || {
            let order = parse::single(&app, &body.bytes);
            let route = "POST /v1/emails";
            (order, Repeatable::by_tenant(&account.id, &headers, route, &body.bytes))
        })
        .await;
    let order = order?;
    let fresh = async |claim: &Claim| {
        let id = EmailId::new(&app.clock);
        let taking = Taking { id, priority: Priority::Transactional, claim };
        Ok(send(&app, account, order, taking).await?)
    };
    let again = async |found: Seen| Ok(seen(&app, account, &found).await?);
    let sent = idempotency::once_or_refused(&app, request, fresh, again).await?;
    Ok(sent.map(|letter| Json(SentEmail::from(&letter))).into_response())
}

/// Send many emails.
///
/// At most 100. Each is taken or refused on its own, and `results` has one item for each, in the
/// order of the request. They wait for emails that are sent alone. A repeat under the same
/// `Idempotency-Key` answers how those stand that were taken, and why the others were refused.
#[endpoints::path(
    post, path = "/v1/emails/bulk", tag = "Email",
    request_body = NewEmails,
    responses(
        (status = 200, body = BulkResults, description = "What became of each"),
    ),
    security(("api_key" = ["email:send"]))
)]
async fn send_emails(
    caller: Caller<SendEmail>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let account = &caller.account;
    let large = Large::of(&app);
    let body = large_body::read(&large.room, &account.id, body).await?;
    let (orders, request) = large
        .bench
        .work(body.bytes.len(), || {
            let orders = parse::bulk(&app, &body.bytes);
            let route = "POST /v1/emails/bulk";
            (orders, Repeatable::by_tenant(&account.id, &headers, route, &body.bytes))
        })
        .await;
    let orders = orders?;
    let fresh = async |claim: Claim| bulk::Batch::begin(&app, account, claim).await;
    let again = async |found: Seen| Ok(bulk::Batch::of(found));
    let once = idempotency::once(&app, request, fresh, again).await?;
    let results = once.answer().take(&app, account, orders).await;
    Ok(once.map(|_| Json(results)).into_response())
}

/// List emails.
///
/// Newest first. A page of a list that is filtered by `status` may be shorter than `limit`, even
/// empty, and still lead on: go by the `Link` header.
#[endpoints::path(
    get, path = "/v1/emails", tag = "Email",
    params(
        ("to" = Option<String>, Query, description = "Only to this address, cc and bcc included"),
        ("reference" = Option<String>, Query, description = "Only with this reference"),
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<EmailView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_emails(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let path = query.path_with(PATH, &FILTERS);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let filter = read_filter(&app, &caller, &query, &mut page)?;
    let (rows, next) = list(&app, &caller, &filter, &page).await?;
    let views = view::with_recipients(&app, &caller.account.id, rows).await?;
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

/// Read an email.
#[endpoints::path(
    get, path = "/v1/emails/{email_id}", tag = "Email",
    params(("email_id" = String, Path, description = "From its send")),
    responses(
        (status = 200, body = EmailView, description = "The email as it stands"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_email(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<EmailView>, Problem> {
    let id = EmailId::parse(&id).ok_or(Code::NotFound)?;
    let found = view::one(&app, &caller.account.id, &id).await?;
    Ok(Json(found.ok_or(Code::NotFound)?))
}

/// Which emails a list is of.
struct Filter {
    stretch: Stretch,
    /// What `stretch` does not look at already.
    reference: Option<String>,
    status: Option<Status>,
}

impl Filter {
    fn keeps(&self, letter: &Letter) -> bool {
        self.status.is_none_or(|status| status == letter.tally.status())
            && self.reference.as_ref().is_none_or(|own| letter.reference.as_ref() == Some(own))
    }
}

async fn list(
    app: &App,
    caller: &Caller<ReadAccount>,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Letter>, Option<String>), DbError> {
    let read = async |before: String, limit| {
        sql::stretch(app, &caller.account.id, &filter.stretch, &before, limit).await
    };
    let keep = |letter: &Letter| filter.keeps(letter);
    let is_sifted = filter.status.is_some() || filter.reference.is_some();
    let keep = is_sifted.then_some(&keep as &(dyn Fn(&Letter) -> bool + Sync));
    page::sift(page, read, |letter: &Letter| letter.id.as_str().to_owned(), keep).await
}

fn read_filter(
    app: &App,
    caller: &Caller<ReadAccount>,
    query: &Query,
    page: &mut Page,
) -> Result<Filter, Problem> {
    let to = query.address("to")?;
    let to = to.map(|address| address_mac(app, &caller.account.id, &address));
    let status = query.word::<Status>("status")?;
    let reference = query.get("reference").map(str::to_owned);
    let since = query.between(page, |at| EmailId::bound(at).into())?;
    let reference_beside = reference.clone().filter(|_| to.is_some());
    let stretch = Stretch { to, reference, since };
    Ok(Filter { stretch, reference: reference_beside, status })
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = format!("{error}.");
        let told = |code| Self::new(code).detail(detail.clone());
        match error {
            Error::DomainNotVerified(_) | Error::Reserved => told(Code::DomainNotVerified),
            Error::NoCarrier => told(Code::CarrierUnavailable),
            Error::NoKeys => told(Code::InternalError),
            Error::TooManyDomains => told(Code::LimitReached),
            Error::TooManyKeys(wait) => wait,
            Error::Unknown => told(Code::NotFound),
            Error::Credits(error) => error.into(),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
