//! Webhooks over HTTP: the targets. Their deliveries are in `deliveries`.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::secret::{self, Fault as SecretFault};
use super::{Asked, Change, Error, MOST, NewTarget, Patterns, Target, pattern};
use crate::access::caller::{Caller, Portal, ReadAccount};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::described::described_words;
use crate::kit::id::WebhookId;
use crate::kit::outgoing::{Destination, Fault, LONGEST};
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::posted::Posted;
use crate::kit::problem::{Item, Problem, sentence};
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;

/// The routes of the targets.
pub fn routes() -> ApiRouter<App> {
    routes!(
        list_webhooks,
        create_webhook,
        read_webhook,
        change_webhook,
        delete_webhook,
        rotate_webhook_secret
    )
}

/// A webhook target.
#[derive(Serialize, ToSchema)]
pub struct WebhookView {
    /// Its id.
    #[schema(example = "whk_01kdvqh7e8fzsrxcf7mmwb7n3a")]
    id: String,
    /// Where events are pushed to.
    #[schema(example = "https://hooks.example.com/estafette")]
    url: String,
    /// Which events: types, families such as `chatapp.*`, or `*`.
    #[schema(example = json!(["otp.status", "sms.*"]))]
    #[schema(value_type = Vec<super::pattern::EventPattern>)]
    events: Vec<String>,
    /// Whether events are pushed.
    active: bool,
    /// Why not: `manual` (somebody switched it off), `gone` (it answered 410) or `failing` (every
    /// try of five days failed, and there were ten at least).
    #[schema(required = true, value_type = Option<DisabledReason>)]
    disabled_reason: Option<String>,
    /// Since when not.
    #[schema(required = true, format = DateTime)]
    disabled_at: Option<String>,
    /// Since when every try failed.
    #[schema(required = true, format = DateTime)]
    failing_since: Option<String>,
    /// When a try last succeeded.
    #[schema(required = true, format = DateTime)]
    last_success_at: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// Signs the requests, as the guide to webhooks says. Only in the answers that make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: Option<String>,
}

impl From<Target> for WebhookView {
    fn from(target: Target) -> Self {
        let shown = |at: Option<clock::Millis>| at.map(|at| at.to_string());
        Self {
            failing_since: shown(target.failing_since()),
            last_success_at: shown(target.last_success_at()),
            id: target.id.into(),
            url: target.url,
            events: target.patterns.words().to_vec(),
            active: target.active,
            disabled_reason: target.disabled_reason,
            disabled_at: shown(target.disabled_at),
            created_at: target.created_at.to_string(),
            secret: None,
        }
    }
}

/// A target to be.
#[derive(Deserialize, ToSchema)]
pub struct NewWebhook {
    /// An https URL that leads to a public address; port 443 or 1024 to 65535, no credentials, no
    /// fragment.
    #[schema(
        pattern = "^https?://",
        example = "https://hooks.example.com/estafette",
        max_length = 2048
    )]
    pub url: String,
    /// Signs the requests: `whsec_` and base64 of 24 to 64 bytes, or any text of 16 to 64 bytes.
    /// Left out: one is made.
    #[schema(min_length = 16, max_length = 100)]
    pub secret: Option<String>,
    /// Types, families such as `chatapp.*`, or `*`. Left out: `sms.delivery` only.
    #[schema(example = json!(["otp.status"]))]
    #[schema(min_items = 1, max_items = 50, value_type = Option<Vec<super::pattern::EventPattern>>)]
    pub events: Option<Vec<String>>,
}

/// A change; what is left out stays.
#[derive(Deserialize, ToSchema)]
pub struct WebhookChange {
    /// As when it is made.
    #[schema(pattern = "^https?://", max_length = 2048)]
    pub url: Option<String>,
    /// As when it is made.
    #[schema(min_items = 1, max_items = 50, value_type = Option<Vec<super::pattern::EventPattern>>)]
    pub events: Option<Vec<String>>,
    /// `true` starts afresh a target that was disabled; what it missed is delivered by `recover`.
    #[schema(example = true)]
    pub active: Option<bool>,
}

/// Another secret.
#[derive(Deserialize, ToSchema)]
pub struct NewSecret {
    /// As when the target is made. Left out: one is made.
    #[schema(min_length = 16, max_length = 100)]
    pub secret: Option<String>,
}

/// What is left of a deleted target.
#[derive(Serialize, ToSchema)]
pub struct DeletedWebhook {
    #[schema(example = "whk_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// Always false.
    #[schema(example = false)]
    active: bool,
}

/// List webhooks.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/webhooks", tag = "Webhooks",
    params(
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<WebhookView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_webhooks(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let path = query.path_with("/v1/webhooks", &["since", "until"]);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| WebhookId::bound(at).into())?;
    let rows = super::list(&app, &caller.account.id, &page).await?;
    let rows = since.keep(rows, |target| target.id.as_str());
    let views: Vec<WebhookView> = rows.into_iter().map(WebhookView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

/// Create a webhook.
///
/// The answer has the signing secret; nothing else ever shows it. A repeat with the same
/// `Idempotency-Key` shows it again for ten minutes; where the target was deleted since, it is 404
/// `not_found`.
#[endpoints::path(
    post, path = "/v1/webhooks", tag = "Webhooks",
    request_body = NewWebhook,
    extensions(("x-codes" = json!([
        Problem::from(Error::Full), Code::NotFound, Code::WebhookUrlNotAllowed,
    ]))),
    responses(
        (status = 200, body = WebhookView, description = "The target, with its secret"),
    ),
    security(("portal_token" = []))
)]
async fn create_webhook(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let mut fields = Fields::read(&body)?;
    let url = fields.required("url");
    let secret = take_secret(&app, &mut fields);
    let patterns = take_patterns(&mut fields);
    let place = url.as_deref().and_then(|url| take_place(&app, &mut fields, url));
    fields.finish(app.is_strict())?;
    let (Some(url), Some(place), Some(secret)) = (url, place.transpose()?, secret) else {
        return Err(Code::InternalError.into());
    };
    let request = Repeatable::by_tenant(account, &headers, "POST /v1/webhooks", &body);
    let fresh = async |claim: Claim| {
        super::vet(&app, &place).await?;
        let patterns = patterns.unwrap_or_else(|| Patterns::stored(pattern::DEFAULT));
        let new = NewTarget { url, patterns, secret: secret.clone() };
        let target = super::create(&app, account, new, caller.by(), &claim).await?;
        Ok(Json(with_secret(target, Some(&secret))))
    };
    let again = async |seen: Seen| repeat(&app, account, &seen).await;
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

/// Read a webhook.
#[endpoints::path(
    get, path = "/v1/webhooks/{webhook_id}", tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "The target")),
    responses(
        (status = 200, body = WebhookView, description = "The target"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_webhook(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<WebhookView>, Problem> {
    let id = WebhookId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(super::find(&app, &caller.account.id, &id).await?.into()))
}

/// Change a webhook.
///
/// `active: true` also forgets that it failed. A request that is under way arrives at the old URL,
/// all others go to the new one. Other `events` count for what happens from then on.
#[endpoints::path(
    patch, path = "/v1/webhooks/{webhook_id}", tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "The target")),
    request_body = WebhookChange,
    extensions(("x-codes" = json!([Code::WebhookUrlNotAllowed]))),
    responses(
        (status = 200, body = WebhookView, description = "The target as changed"),
    ),
    security(("portal_token" = []))
)]
async fn change_webhook(
    caller: Caller<Portal>,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<WebhookView>, Problem> {
    let mut fields = Fields::read(&body)?;
    let url = fields.text("url");
    let patterns = take_patterns(&mut fields);
    let active = fields.flag("active");
    let place = url.as_deref().and_then(|url| take_place(&app, &mut fields, url));
    fields.finish(app.is_strict())?;
    let place = place.transpose()?;
    let id = WebhookId::parse(&id).ok_or(Code::NotFound)?;
    if let Some(place) = &place {
        super::vet(&app, place).await?;
    }
    let change = Change { url, patterns, active };
    let changed = super::change(&app, &caller.account.id, &id, &change, caller.by()).await?;
    Ok(Json(changed.into()))
}

/// Delete a webhook.
///
/// With its deliveries.
#[endpoints::path(
    delete, path = "/v1/webhooks/{webhook_id}", tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "The target")),
    responses(
        (status = 200, body = DeletedWebhook, description = "It is gone"),
    ),
    security(("portal_token" = []))
)]
async fn delete_webhook(
    caller: Caller<Portal>,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<DeletedWebhook>, Problem> {
    let id = WebhookId::parse(&id).ok_or(Code::NotFound)?;
    super::delete(&app, &caller.account.id, &id, caller.by()).await?;
    Ok(Json(DeletedWebhook { id: id.into(), active: false }))
}

/// Rotate the signing secret.
///
/// For 24 hours requests are signed with the new one and the one before (three at most), so that a
/// receiver can change over without losing any. The answer has the new secret; nothing else ever
/// shows it.
#[endpoints::path(
    post, path = "/v1/webhooks/{webhook_id}/rotate-secret", tag = "Webhooks",
    params(
        ("webhook_id" = String, Path, description = "The target"),
    ),
    request_body = Option<NewSecret>,
    responses(
        (status = 200, body = WebhookView, description = "The target, with its new secret"),
    ),
    security(("portal_token" = []))
)]
async fn rotate_webhook_secret(
    caller: Caller<Portal>,
    State(app): State<App>,
    Posted { id, headers, body }: Posted<WebhookId>,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let mut fields = Fields::read(&body)?;
    let secret = take_secret(&app, &mut fields);
    fields.finish(app.is_strict())?;
    let secret = secret.ok_or(Code::InternalError)?;
    let route = format!("POST /v1/webhooks/{id}/rotate-secret");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let asked = Asked { by: caller.by(), claim: &claim };
        let target = super::rotate(&app, account, &id, &secret, asked).await?;
        Ok(Json(with_secret(target, Some(&secret))))
    };
    let again = async |seen: Seen| repeat(&app, account, &seen).await;
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

/// What an earlier, equal request was answered with, as it stands now.
async fn repeat(
    app: &App,
    account: &crate::kit::id::AccountId,
    seen: &Seen,
) -> Result<Json<WebhookView>, Problem> {
    let id = WebhookId::parse(&seen.object_id).ok_or(Code::NotFound)?;
    let target = super::find(app, account, &id).await?;
    let secret = seen.secret(app);
    Ok(Json(with_secret(target, secret.as_ref())))
}

fn with_secret(target: Target, secret: Option<&Secret>) -> WebhookView {
    let secret = secret.map(|secret| secret.expose().to_owned());
    WebhookView { secret, ..WebhookView::from(target) }
}

/// A secret that was given, or a new one; none when it is at fault.
fn take_secret(app: &App, fields: &mut Fields) -> Option<Secret> {
    let Some(given) = fields.text("secret") else {
        let is_wrong = fields.has_faults_of(&["secret"]);
        return (!is_wrong).then(|| secret::make(&app.clock));
    };
    let (code, detail) = match secret::canonical(&Secret::new(given)) {
        Ok(secret) => return Some(secret),
        Err(SecretFault::TooShort) => {
            ("too_short", "must have at least 16 bytes, or 24 behind whsec_")
        }
        Err(SecretFault::TooLong) => ("too_long", "must have at most 64 bytes"),
        Err(SecretFault::Malformed) => {
            ("invalid_type", "must be base64 (standard alphabet, padded) behind whsec_")
        }
    };
    fields.fault("secret", code, detail);
    None
}

fn take_patterns(fields: &mut Fields) -> Option<Patterns> {
    let given = fields.texts("events", pattern::MOST)?;
    if fields.has_faults_of(&["events"]) {
        return None;
    }
    if given.is_empty() {
        fields.fault("events", "too_short", "must name at least one event");
        return None;
    }
    match Patterns::read(given.into_iter().map(|element| element.text).collect()) {
        Ok(patterns) => Some(patterns),
        Err(index) => {
            let detail = format!("must be one of {}", pattern::known());
            fields.fault(&format!("events/{index}"), "invalid_enum", detail);
            None
        }
    }
}

/// Reads a URL. None when it is at fault; one of a kind that is not called is a problem of its own.
fn take_place(app: &App, fields: &mut Fields, url: &str) -> Option<Result<Destination, Problem>> {
    match app.outgoing.of(app.env).destination(url) {
        Ok(place) => return Some(Ok(place)),
        Err(Fault::TooLong) => {
            let detail = format!("must have at most {LONGEST} characters");
            fields.fault("url", "too_long", detail);
        }
        Err(Fault::Malformed) => {
            fields.fault("url", "invalid_url", "must be an absolute URL without spaces");
        }
        Err(Fault::NotAllowed(why)) => {
            return Some(Err(Error::NotAllowed(format!("the URL {why}")).into()));
        }
    }
    None
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::NotAllowed(why) => Self::new(Code::WebhookUrlNotAllowed)
                .detail(sentence(&why))
                .item(Item::at("/url", "invalid_url", "is not one that webhooks may call")),
            Error::Full => Self::new(Code::LimitReached)
                .detail(format!("An account has at most {MOST} webhooks. Delete one first.")),
            Error::Unknown => Self::new(Code::NotFound),
            Error::Forgotten => Self::new(Code::NotFound)
                .detail("The event of this delivery is older than what is kept."),
            Error::Sealed => Self::new(Code::InternalError).because(&error),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}

described_words!(
    DisabledReason: "Why a target gets nothing: somebody switched it off, it answered 410, or \
        every try of five days failed, of which there were ten at least.",
    ["manual", "gone", "failing"]
);
