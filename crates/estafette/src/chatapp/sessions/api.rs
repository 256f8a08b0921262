//! The endpoints of consent sessions.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::store as sql;
use super::view::{self, SessionDetail, SessionRow};
use crate::access::caller::{Caller, ReadAccount};
use crate::app::App;
use crate::kit::id::ConsentId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/chatapp/sessions";

/// The routes of consent sessions.
#[must_use]
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_sessions)).routes(routes!(read_session))
}

/// Lists the account's consent sessions, newest first.
#[utoipa::path(
    get, path = "/v1/chatapp/sessions", operation_id = "list_consent_sessions", tag = "Chat-app",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<SessionRow>, description = "One page; `Link` leads on"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_sessions(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["limit", "cursor"])?;
    let page = query.page_of(&app.vault, caller.account.id.as_str(), PATH)?;
    let account = &caller.account.id;
    let rows = sql::stretch(&app, account, &page.after, page.limit.saturating_add(1)).await?;
    let now = app.now();
    let rows: Vec<(String, SessionRow)> =
        rows.iter().map(|s| (s.id.as_str().to_owned(), view::row(s, now))).collect();
    let next = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let last = rows.get(next.saturating_sub(1)).filter(|_| rows.len() > next);
    let last = last.map(|(id, _)| id.clone());
    let shown: Vec<SessionRow> = rows.into_iter().take(next).map(|(_, row)| row).collect();
    Ok(page::answer_until(&app.vault, PATH, &page, &shown, last.as_deref()))
}

/// Reads a consent session.
#[utoipa::path(
    get, path = "/v1/chatapp/sessions/{session_id}", operation_id = "read_consent_session",
    tag = "Chat-app",
    params(("session_id" = String, Path, description = "From the list or an event")),
    responses(
        (status = 200, body = SessionDetail, description = "The session as it stands"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_session(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<SessionDetail>, Problem> {
    let id = ConsentId::parse(&id).ok_or(Code::NotFound)?;
    let found = sql::session(&app, &caller.account.id, &id).await?;
    let session = found.filter(|session| session.event_count > 0).ok_or(Code::NotFound)?;
    let status = session.shown_status(app.now());
    Ok(Json(view::detail(&session, status)))
}
