//! Senders over HTTP: accounts ask for them, staff decides.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};
use store::{CommitError, WriteSet};

use super::{AskError, MOST, Sender, Status, Verdict};
use crate::access::audit::{self, Entry};
use crate::access::caller::{Caller, Portal, Staff};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::{AccountId, SenderId};
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_senders, create_sender, list_all_senders, decide_senders, decide_sender)
}

/// A sender of SMS.
#[derive(Debug, Serialize, ToSchema)]
pub struct SenderView {
    /// Its id.
    #[schema(example = "snd_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// Whose it is.
    pub account_id: String,
    /// As the recipient sees it.
    #[schema(example = "Estafette")]
    pub value: String,
    /// `pending`, `approved` or `rejected`.
    #[schema(value_type = Status)]
    pub status: String,
    /// What staff said about it.
    #[schema(required = true)]
    pub reason: Option<String>,
    /// When it was asked for.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
}

impl From<Sender> for SenderView {
    fn from(sender: Sender) -> Self {
        Self {
            id: sender.id.into(),
            account_id: sender.account.into(),
            value: sender.value,
            status: sender.status.as_str().to_owned(),
            reason: sender.reason,
            created_at: sender.created_at.to_string(),
        }
    }
}

/// A sender that an account asks for.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewSender {
    /// Up to 11 letters, digits, spaces and `.-_&` with at least one letter, or 3 to 15 digits.
    #[schema(pattern = "^[A-Za-z0-9 ._&+-]{1,16}$", example = "Estafette")]
    pub value: String,
}

/// Staff's decision about a sender.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Decision {
    /// `approved` or `rejected`.
    #[schema(value_type = Verdict)]
    pub status: String,
    /// What the account is told, up to 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub reason: Option<String>,
}

/// Staff's decision about a sender that the body names.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NamedDecision {
    /// The sender.
    #[schema(example = "snd_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// `approved` or `rejected`.
    #[schema(value_type = Verdict)]
    pub status: String,
    /// What the account is told, up to 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub reason: Option<String>,
}

/// List senders.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/senders", tag = "Senders",
    params(
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<SenderView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("portal_token" = []))
)]
async fn list_senders(
    caller: Caller<Portal>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let known = ["status", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with("/v1/senders", &known[..3]);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| SenderId::bound(at).into())?;
    let status = query.word("status")?;
    let rows = super::list(&app, Some(&caller.account.id), status, &page).await?;
    Ok(show(&app, &path, &page, since.keep(rows, |sender| sender.id.as_str())))
}

/// Request a sender.
///
/// It is `pending` until the operator's staff decides. Asking again for the same one changes
/// nothing and answers where it stands.
#[endpoints::path(
    post, path = "/v1/senders", tag = "Senders",
    request_body = NewSender,
    extensions(("x-codes" = json!([Problem::from(AskError::Full), Code::NotFound]))),
    responses(
        (status = 200, body = SenderView, description = "The sender and where it stands"),
    ),
    security(("portal_token" = []))
)]
async fn create_sender(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let value = fields.required("value");
    if let Some(Err(fault)) = value.as_deref().map(super::check) {
        fields.fault("value", "invalid_type", fault.to_string());
    }
    fields.finish(app.is_strict())?;
    let value = value.ok_or(Code::InternalError)?;
    let account = &caller.account.id;
    let request = Repeatable::by_tenant(account, &headers, "POST /v1/senders", &body);
    let fresh =
        async |claim: Claim| Ok(super::ask(&app, account, &value, caller.by(), &claim).await?);
    let again = async |seen: Seen| {
        let found = SenderId::parse(&seen.object_id).ok_or(Code::NotFound)?;
        Ok(super::find(&app, &found).await?.ok_or(Code::NotFound)?)
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|sender| Json(SenderView::from(sender))).into_response())
}

/// List the senders of all accounts.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/admin/senders", tag = "Operator",
    params(
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("account_id" = Option<String>, Query, description = "Only this account's"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<SenderView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_all_senders(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let known = ["status", "account_id", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with("/v1/admin/senders", &known[..4]);
    let mut page = query.page(&app.vault, &path)?;
    let since = query.between(&mut page, |at| SenderId::bound(at).into())?;
    let status = query.word("status")?;
    let account = query.get("account_id").map(|id| AccountId::stored(id.to_owned()));
    let rows = super::list(&app, account.as_ref(), status, &page).await?;
    Ok(show(&app, &path, &page, since.keep(rows, |sender| sender.id.as_str())))
}

/// Approve or reject a sender.
#[endpoints::path(
    patch, path = "/v1/admin/senders/{sender_id}", tag = "Operator",
    params(("sender_id" = String, Path, description = "The sender")),
    request_body = Decision,
    responses(
        (status = 200, body = SenderView, description = "The sender as decided"),
    ),
    security(("staff_token" = []))
)]
async fn decide_sender(
    staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<SenderView>, Problem> {
    carry_out(&app, &staff, Fields::read(&body)?, Some(id)).await
}

/// Approve or reject the sender in the body.
#[endpoints::path(
    patch, path = "/v1/admin/senders", tag = "Operator",
    request_body = NamedDecision,
    extensions(("x-codes" = json!([Code::NotFound]))),
    responses(
        (status = 200, body = SenderView, description = "The sender as decided"),
    ),
    security(("staff_token" = []))
)]
async fn decide_senders(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<SenderView>, Problem> {
    carry_out(&app, &staff, Fields::read(&body)?, None).await
}

async fn carry_out(
    app: &App,
    staff: &Staff,
    mut fields: Fields,
    id: Option<String>,
) -> Result<Json<SenderView>, Problem> {
    let id = if id.is_some() { id } else { fields.required("id") };
    let verdict: Option<Verdict> = fields.required_word("status");
    let reason = fields.text_within("reason", 1, 200);
    fields.finish(app.is_strict())?;
    let (Some(id), Some(verdict)) = (id, verdict) else {
        return Err(Problem::from(Code::InternalError));
    };
    let status = verdict.status();
    let id = SenderId::parse(&id).ok_or(Code::NotFound)?;
    let mut sender = super::find(app, &id).await?.ok_or(Code::NotFound)?;
    let mut set = WriteSet::of(sender.account.as_str());
    super::decide(&mut set, &sender, status, reason.as_deref());
    let entry = Entry {
        actor: &staff.who,
        action: "sender.decide",
        object_id: id.as_str(),
        account: Some(&sender.account),
        request_id: &staff.request_id,
        detail: serde_json::json!({ "status": status.as_str(), "reason": reason }),
    };
    audit::record(app, &mut set, &entry);
    match app.db.commit(set).await {
        // A newer one took its place meanwhile.
        Err(CommitError::Rejected(super::GONE)) => return Err(Code::NotFound.into()),
        decided => decided?,
    };
    sender.status = status;
    sender.reason = reason;
    Ok(Json(sender.into()))
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Full => Self::new(Code::LimitReached).detail(format!(
                "An account has at most {MOST} senders that are approved or wait for a decision. \
                 Ask the operator to reject one that is no longer used."
            )),
            AskError::Db(error) => error.into(),
            AskError::Commit(error) => error.into(),
        }
    }
}

fn show(app: &App, path: &str, page: &page::Page, rows: Vec<Sender>) -> Response {
    let views: Vec<SenderView> = rows.into_iter().map(SenderView::from).collect();
    page::answer(&app.vault, path, page, views, |view| view.id.clone())
}
