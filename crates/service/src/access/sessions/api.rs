//! Logins over HTTP.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use super::Session;
use crate::access::api::DoneView;
use crate::access::{Caller, Myself};
use crate::app::App;
use crate::kit::id::SessionId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const SESSIONS: &str = "/v1/auth/sessions";

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_sessions, end_sessions, read_session, end_session)
}

/// A login of the user, without its token.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionView {
    /// Its id.
    #[schema(example = "lgn_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// Whether it is the login of this request.
    pub current: bool,
    /// When the user logged in.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
    /// When its token ends.
    #[schema(format = DateTime, example = "2026-03-02T12:00:00.000Z")]
    pub expires_at: String,
}

impl SessionView {
    fn of(session: &Session, token: Option<[u8; 32]>) -> Self {
        Self {
            id: session.id.to_string(),
            current: session.is_of(token),
            created_at: session.created_at.to_string(),
            expires_at: session.expires_at.to_string(),
        }
    }
}

/// List logins.
///
/// Where the user is logged in, newest first. What has ended is not listed.
#[endpoints::path(get, path = "/v1/auth/sessions", tag = "Account",
    security(("portal_token" = [])),
    params(
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200, default 50"),
        ("cursor" = Option<String>, Query, description = "From the `Link` of the page before"),
    ),
    responses(
        (status = 200, body = Vec<SessionView>, description = "One page; `Link` leads to the next"),
    ))]
async fn list_sessions(
    caller: Caller<Myself>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let path = query.path_with(SESSIONS, &["since", "until"]);
    let mut page = query.page_of(&app.vault, caller.who.id(), &path)?;
    let since = query.between(&mut page, |at| SessionId::bound(at).into())?;
    let sessions = super::list(&app, caller.who.id(), &page).await?;
    let sessions = since.keep(sessions, |session| session.id.as_str());
    let views = sessions.iter().map(|session| SessionView::of(session, caller.token)).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view: &SessionView| view.id.clone()))
}

/// Read a login.
#[endpoints::path(get, path = "/v1/auth/sessions/{session_id}", tag = "Account",
    security(("portal_token" = [])),
    params(("session_id" = String, Path, description = "The login's id")),
    responses(
        (status = 200, body = SessionView, description = "The login"),
    ))]
async fn read_session(
    caller: Caller<Myself>,
    State(app): State<App>,
    Path(session_id): Path<String>,
    _: NoQuery,
) -> Result<Json<SessionView>, Problem> {
    let id = SessionId::parse(&session_id).ok_or(Code::NotFound)?;
    let session = super::find(&app, caller.who.id(), &id).await?;
    Ok(Json(SessionView::of(&session, caller.token)))
}

/// End a login.
///
/// Its token is disabled.
#[endpoints::path(delete, path = "/v1/auth/sessions/{session_id}", tag = "Account",
    security(("portal_token" = [])),
    params(("session_id" = String, Path, description = "The login's id")),
    responses(
        (status = 200, body = DoneView, description = "The login has ended"),
    ))]
async fn end_session(
    caller: Caller<Myself>,
    State(app): State<App>,
    Path(session_id): Path<String>,
    _: NoQuery,
) -> Result<Json<DoneView>, Problem> {
    let id = SessionId::parse(&session_id).ok_or(Code::NotFound)?;
    super::end(&app, &id, caller.by()).await?;
    Ok(Json(DoneView { ok: true }))
}

/// End all logins.
///
/// Ends every login, including the one that makes this request, and every password reset that was
/// mailed and not used.
#[endpoints::path(delete, path = "/v1/auth/sessions", tag = "Account",
    security(("portal_token" = [])),
    responses(
        (status = 200, body = DoneView, description = "All logins have ended"),
    ))]
async fn end_sessions(
    caller: Caller<Myself>,
    State(app): State<App>,
    _: NoQuery,
) -> Result<Json<DoneView>, Problem> {
    super::end_all(&app, caller.by()).await?;
    Ok(Json(DoneView { ok: true }))
}
