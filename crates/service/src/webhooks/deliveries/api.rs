//! What was delivered and what was not: the log of a target, and the ways to make up for what it
//! missed.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use clock::{DAY, Millis};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::{Attempt, Delivery};
use crate::access::api::EmptyRequest;
use crate::access::caller::{Caller, Portal, ReadAccount};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::events::Kind;
use crate::kit::body::Fields;
use crate::kit::described::described_words;
use crate::kit::id::{DeliveryId, WebhookId};
use crate::kit::page::{self, NoQuery, Query, Since};
use crate::kit::posted::Posted;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::words::one_of;
use crate::webhooks::log::{self, Detail, Filter};
use crate::webhooks::{self, Asked};

/// What a delivery can be.
const FILTERS: [&str; 4] = ["status", "type", "since", "until"];
const STATES: &[&str] = &["pending", "delivered", "failed", "exhausted"];
/// How far back events can be looked through, milliseconds.
const KEPT: i64 = 30 * DAY;

/// The routes of deliveries.
pub fn routes() -> ApiRouter<App> {
    routes!(test_webhook, list_deliveries, recover_webhook, read_delivery, retry_delivery)
}

/// An event on its way to a target.
#[derive(Serialize, ToSchema)]
pub struct DeliveryView {
    /// Its id; also in the header `webhook-delivery-id`.
    #[schema(example = "dlv_01kdvqh7gp2b4rz9k8ynxm5t6c")]
    id: String,
    /// To which target.
    webhook_id: String,
    /// Which event; also in the header `webhook-id`.
    event_id: String,
    /// The event's type.
    #[schema(value_type = Kind)]
    r#type: String,
    /// `pending`, `delivered`, `failed` (the target refused it) or `exhausted` (every try of the
    /// schedule failed).
    #[schema(value_type = DeliveryStatus)]
    status: String,
    /// Tries so far.
    attempt_count: i64,
    /// When it is tried next: not before its target's pause is over. Null while its target is
    /// disabled.
    #[schema(required = true, format = DateTime)]
    next_attempt_at: Option<String>,
    /// When it was delivered or given up.
    #[schema(required = true, format = DateTime)]
    settled_at: Option<String>,
    /// When the event happened.
    #[schema(format = DateTime)]
    created_at: String,
    /// The tries, first to last; of more than 100 the newest.
    attempts: Vec<AttemptView>,
}

/// One try.
#[derive(Serialize, ToSchema)]
pub struct AttemptView {
    /// 1, 2, …; also in the header `webhook-attempt`.
    number: i64,
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// The HTTP status of the answer; null when there was none.
    #[schema(required = true, example = 200)]
    status: Option<u16>,
    /// Why there was no answer: `dns_error`, `address_not_allowed`, `connection_failed`,
    /// `connect_timeout`, `tls_error`, `timeout`, `connection_reset` or `invalid_response`.
    #[schema(required = true)]
    error: Option<String>,
    /// The same for people.
    #[schema(required = true)]
    detail: Option<String>,
    /// From the beginning of the try to the end of the answer.
    latency_ms: i64,
    /// The first 4 KiB of the answer's body, in the reading of one delivery. What is not UTF-8 is
    /// replaced.
    #[schema(required = true)]
    response: Option<String>,
}

impl AttemptView {
    fn of(attempt: Attempt) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            number: attempt.number,
            at: attempt.at.to_string(),
            status: attempt.status,
            error: attempt.error,
            detail: attempt.detail,
            latency_ms: attempt.latency_ms,
            response: attempt.body.map(text),
        }
    }
}

/// What kind of test.
#[derive(Deserialize, ToSchema)]
pub struct TestRequest {
    /// An event type, whose example is sent with `test: true` in its data. Left out:
    /// `webhook.test`.
    #[schema(value_type = Option<crate::events::Kind>, example = "otp.status")]
    pub r#type: Option<String>,
}

/// From when on events are looked through.
#[derive(Deserialize, ToSchema)]
pub struct RecoverRequest {
    /// Events are kept for 30 days, or less where the operator keeps recipients for less: what is
    /// earlier means all of them.
    #[schema(format = DateTime, example = "2025-12-31T23:00:00.000Z")]
    pub since: String,
}

described_words!(RecoveryStatus: "How a recovery stands.", ["started"]);

/// Events that are being looked through.
#[derive(Serialize, ToSchema)]
pub struct Recovery {
    webhook_id: String,
    /// From when on.
    #[schema(format = DateTime)]
    since: String,
    /// Always `started`; the log of the target shows what is delivered.
    #[schema(value_type = RecoveryStatus)]
    status: &'static str,
}

/// Send a test event.
///
/// It goes the way of all events: signed, in the log, to a public address only. No other target
/// gets it, and a disabled target gets it as well.
#[endpoints::path(
    post, path = "/v1/webhooks/{webhook_id}/test", tag = "Webhooks",
    params(
        ("webhook_id" = String, Path, description = "The target"),
    ),
    request_body = Option<TestRequest>,
    responses(
        (status = 200, body = DeliveryView, description = "The delivery, on its way"),
    ),
    security(("portal_token" = []))
)]
async fn test_webhook(
    caller: Caller<Portal>,
    State(app): State<App>,
    Posted { id, headers, body }: Posted<WebhookId>,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let mut fields = Fields::read(&body)?;
    let kind = take_kind(&mut fields);
    fields.finish(app.is_strict())?;
    let route = format!("POST /v1/webhooks/{id}/test");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let made = super::test(&app, account, &id, kind, &claim).await?;
        Ok(Json(view(made, Vec::new())))
    };
    let again = async |seen: Seen| repeat(&app, account, &seen).await;
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

fn take_kind(fields: &mut Fields) -> Kind {
    let Some(word) = fields.text("type") else { return Kind::WebhookTest };
    word.parse().unwrap_or_else(|_| {
        let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        let detail = format!("must be one of {}", known.join(", "));
        fields.fault("type", "invalid_enum", detail);
        Kind::WebhookTest
    })
}

/// List a webhook's deliveries.
///
/// Newest event first. A page of a filtered list may be shorter than `limit`, even empty, and still
/// lead on: go by the `Link` header.
#[endpoints::path(
    get, path = "/v1/webhooks/{webhook_id}/deliveries", tag = "Webhooks",
    params(
        ("webhook_id" = String, Path, description = "The target"),
        ("status" = Option<DeliveryStatus>, Query, description = "Only with this status"),
        ("type" = Option<Kind>, Query, description = "Only events of this type"),
        ("since" = Option<String>, Query, description = "At or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, body = Vec<DeliveryView>,
         description = "One page, without the bodies of answers; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_deliveries(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let query = Query::read(query.as_deref(), &[&FILTERS[..], &["limit", "cursor"]].concat())?;
    let id = WebhookId::parse(&id).ok_or(Code::NotFound)?;
    let path = query.path_with(&format!("/v1/webhooks/{id}/deliveries"), &FILTERS);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| DeliveryId::bound(at).into())?;
    let filter = filter(&query, since)?;
    webhooks::find(&app, account, &id).await?;
    let (rows, next) = log::page(&app, account, &id, &filter, &page).await?;
    let mut views = Vec::with_capacity(rows.len());
    for row in rows {
        views.push(show(&app, account, row, Detail::InShort).await?);
    }
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

fn filter(query: &Query, since: Since) -> Result<Filter, Problem> {
    let status = query.get("status").unwrap_or("").to_owned();
    if !status.is_empty() && !STATES.contains(&status.as_str()) {
        let detail = format!("must be one of {}", STATES.join(", "));
        return Err(Problem::bad_request("?status", "invalid_enum", detail));
    }
    let kind = query.get("type").unwrap_or("").to_owned();
    if !kind.is_empty() && kind.parse::<Kind>().is_err() {
        let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        return Err(Problem::bad_request("?type", "invalid_enum", one_of(&known)));
    }
    Ok(Filter { status, kind, since })
}

/// Recover missed events.
///
/// Every event since that instant which the target asks for is delivered, unless it was delivered
/// or is on its way. It happens in the background, in the order of the events, and goes on after a
/// restart; a disabled target gets it when it is enabled.
#[endpoints::path(
    post, path = "/v1/webhooks/{webhook_id}/recover", tag = "Webhooks",
    params(
        ("webhook_id" = String, Path, description = "The target"),
    ),
    request_body = RecoverRequest,
    responses(
        (status = 200, body = Recovery, description = "It has begun"),
    ),
    security(("portal_token" = []))
)]
async fn recover_webhook(
    caller: Caller<Portal>,
    State(app): State<App>,
    Posted { id, headers, body }: Posted<WebhookId>,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let mut fields = Fields::read(&body)?;
    webhooks::find(&app, account, &id).await?;
    let since = take_since(&app, &mut fields);
    fields.finish(app.is_strict())?;
    let since = since.ok_or(Code::InternalError)?;
    let route = format!("POST /v1/webhooks/{id}/recover");
    let answer = Json(Recovery {
        webhook_id: id.as_str().to_owned(),
        since: since.to_string(),
        status: "started",
    });
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let asked = Asked { by: caller.by(), claim: &claim };
        Ok(webhooks::recover(&app, account, &id, since, asked).await?)
    };
    let done = idempotency::once(&app, request, fresh, async |_| Ok(())).await?;
    Ok(done.map(|()| answer).into_response())
}

fn take_since(app: &App, fields: &mut Fields) -> Option<Millis> {
    let text = fields.required("since")?;
    let Some(since) = Millis::parse(&text) else {
        fields.fault(
            "since",
            "invalid_type",
            "must be an RFC 3339 timestamp, like those of events",
        );
        return None;
    };
    let now = app.now();
    if since > now {
        fields.fault("since", "out_of_range", "must be in the past");
        return None;
    }
    Some(since.max(now - KEPT))
}

/// Read a delivery.
///
/// With its tries, the newest 100 of them.
#[endpoints::path(
    get, path = "/v1/webhook-deliveries/{delivery_id}", tag = "Webhooks",
    params(("delivery_id" = String, Path, description = "The delivery")),
    responses(
        (status = 200, body = DeliveryView, description = "The delivery"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_delivery(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<DeliveryView>, Problem> {
    let id = DeliveryId::parse(&id).ok_or(Code::NotFound)?;
    let found = super::delivery_of(&app, &caller.account.id, &id).await?;
    Ok(Json(show(&app, &caller.account.id, found, Detail::Whole).await?))
}

/// Retry a delivery.
///
/// Now. Also one that was delivered: the receiver sees the same `webhook-id`. If it fails, the
/// schedule begins anew. A disabled target gets this one try.
#[endpoints::path(
    post, path = "/v1/webhook-deliveries/{delivery_id}/retry", tag = "Webhooks",
    params(
        ("delivery_id" = String, Path, description = "The delivery"),
    ),
    request_body = Option<EmptyRequest>,
    responses(
        (status = 200, body = DeliveryView, description = "The delivery, on its way"),
    ),
    security(("portal_token" = []))
)]
async fn retry_delivery(
    caller: Caller<Portal>,
    State(app): State<App>,
    posted: Posted,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    Fields::read(&body)?.finish(app.is_strict())?;
    idempotency::check(&headers)?;
    let account = &caller.account.id;
    let id = DeliveryId::parse(&id).ok_or(Code::NotFound)?;
    let route = format!("POST /v1/webhook-deliveries/{id}/retry");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let found = super::retry(&app, account, &id, &claim).await?;
        // Nothing that fails behind the commit hides it.
        let attempts = log::attempts(&app, account, &found, Detail::Whole).await;
        Ok(Json(view(found, attempts.unwrap_or_default())))
    };
    let again = async |seen: Seen| repeat(&app, account, &seen).await;
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

async fn repeat(
    app: &App,
    account: &crate::kit::id::AccountId,
    seen: &Seen,
) -> Result<Json<DeliveryView>, Problem> {
    let id = DeliveryId::parse(&seen.object_id).ok_or(Code::NotFound)?;
    let found = super::delivery_of(app, account, &id).await?;
    Ok(Json(show(app, account, found, Detail::Whole).await?))
}

async fn show(
    app: &App,
    account: &crate::kit::id::AccountId,
    delivery: Delivery,
    detail: Detail,
) -> Result<DeliveryView, Problem> {
    let attempts = log::attempts(app, account, &delivery, detail).await?;
    Ok(view(delivery, attempts))
}

fn view(delivery: Delivery, attempts: Vec<Attempt>) -> DeliveryView {
    DeliveryView {
        attempts: attempts.into_iter().map(AttemptView::of).collect(),
        created_at: delivery.event.time().to_string(),
        id: delivery.id.into(),
        webhook_id: delivery.webhook.into(),
        event_id: delivery.event.into(),
        r#type: delivery.kind,
        status: delivery.state,
        attempt_count: delivery.attempts,
        next_attempt_at: delivery.due_at.map(|at| at.to_string()),
        settled_at: delivery.settled_at.map(|at| at.to_string()),
    }
}

described_words!(
    DeliveryStatus: "What became of a delivery.",
    STATES.iter().copied()
);
