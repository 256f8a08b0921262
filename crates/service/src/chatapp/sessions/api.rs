//! The endpoints of consent sessions.

use ::store::Error as DbError;
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, routes};

use super::view::{self, SessionDetail, SessionRow};
use super::{Session, Status, store as sql};
use crate::access::caller::{Caller, ReadAccount};
use crate::app::App;
use crate::kit::id::ConsentId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/chatapp/sessions";
const KNOWN: [&str; 6] = ["recipient", "status", "since", "until", "limit", "cursor"];

/// The routes of consent sessions.
pub fn routes() -> ApiRouter<App> {
    routes!(list_sessions, read_session)
}

/// List consent sessions.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/chatapp/sessions", operation_id = "list_consent_sessions", tag = "Chat-app",
    params(
        ("recipient" = Option<String>, Query, description = "Only with this person"),
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<SessionRow>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_sessions(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let account = &caller.account.id;
    let path = query.path_with(PATH, &KNOWN[..4]);
    let mut page = query.page_of(&app.vault, account.as_str(), &path)?;
    let since = query.between(&mut page, |at| ConsentId::bound(at).into())?;
    let person = query.phone("recipient")?.map(|person| person.e164().to_owned());
    let (status, now) = (query.word::<Status>("status")?, app.now());
    let read = async |after: String, limit| {
        let rows = match &person {
            Some(person) => sql::stretch_with(&app, account, person, &after, limit).await?,
            None => sql::stretch(&app, account, &after, limit).await?,
        };
        Ok::<_, DbError>(since.keep(rows, |session: &Session| session.id.as_str()))
    };
    let keeps = |session: &Session| status == Some(session.shown_status(now));
    let keep = status.map(|_| &keeps as &(dyn Fn(&Session) -> bool + Sync));
    let id_of = |session: &Session| session.id.as_str().to_owned();
    let (rows, next) = page::sift(&page, read, id_of, keep).await?;
    let shown: Vec<SessionRow> = rows.iter().map(|session| view::row(session, now)).collect();
    Ok(page::answer_until(&app.vault, &path, &page, &shown, next.as_deref()))
}

/// Read a consent session.
#[endpoints::path(
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
