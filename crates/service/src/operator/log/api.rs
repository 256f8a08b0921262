//! The audit log over HTTP.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use super::{Filter, LogLine};
use crate::access::caller::Staff;
use crate::app::App;
use crate::kit::described::described_words;
use crate::kit::id::AuditId;
use crate::kit::page::{self, Query};
use crate::kit::problem::Problem;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_audit_log)
}

described_words!(
    pub(crate) ActorKind: "Who did something.",
    ["key", "user", "staff", "cli", "service", "stranger"]
);

/// One line of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogView {
    /// Its id.
    #[schema(example = "aud_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// When.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub at: String,
    /// `staff`, `user`, `key`, or the command line.
    #[schema(value_type = ActorKind)]
    pub actor_kind: String,
    /// Who did it.
    pub actor_id: String,
    /// What was done.
    #[schema(example = "account.update")]
    pub action: String,
    /// What it was done to.
    pub object_id: String,
    /// The account that it concerns.
    #[schema(required = true)]
    pub account_id: Option<String>,
    /// The request; empty for the command line.
    pub request_id: String,
    /// What else is known; never a secret.
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

impl From<LogLine> for LogView {
    fn from(line: LogLine) -> Self {
        Self {
            id: line.id.into(),
            at: line.at.to_string(),
            actor_kind: line.actor_kind,
            actor_id: line.actor_id,
            action: line.action,
            object_id: line.object_id,
            account_id: line.account_id,
            request_id: line.request_id,
            detail: serde_json::from_str(&line.detail).unwrap_or_default(),
        }
    }
}

/// List the audit log.
///
/// What staff and accounts changed, newest first.
#[endpoints::path(
    get, path = "/v1/admin/audit-log", tag = "Operator",
    params(
        ("account_id" = Option<String>, Query, description = "Only what concerns this account"),
        ("actor_id" = Option<String>, Query, description = "Only what this actor did"),
        ("action" = Option<String>, Query, description = "Only this action"),
        ("since" = Option<String>, Query, description = "At or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<LogView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_audit_log(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let filters = ["account_id", "actor_id", "action", "since", "until"];
    let known = ["account_id", "actor_id", "action", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with("/v1/admin/audit-log", &filters);
    let mut page = query.page(&app.vault, &path)?;
    let since = query.between(&mut page, |at| AuditId::bound(at).into())?;
    let text = |name| query.get(name).unwrap_or("").to_owned();
    let filter =
        Filter { account: text("account_id"), actor: text("actor_id"), action: text("action") };
    let lines = super::list(&app, &filter, &page).await?;
    let lines = since.keep(lines, |line| line.id.as_str());
    let views: Vec<LogView> = lines.into_iter().map(LogView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}
