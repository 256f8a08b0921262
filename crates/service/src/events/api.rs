//! Events over HTTP: the same JSON that webhooks push, for whoever was down or cannot be pushed to.

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;
use store::args;

use super::store::BEFORE;
use super::{Kind, Stored, render};
use crate::access::caller::{Caller, ReadAccount};
use crate::app::App;
use crate::kit::id::EventId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::words::one_of;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_events, read_event)
}

/// Something that happened.
#[derive(Serialize, ToSchema)]
pub struct EventView {
    /// Its id, and `webhook-id` of every delivery: seen twice means delivered twice.
    #[schema(example = "evt_01kdvqh7gp2b4rz9k8ynxm5t6c")]
    id: String,
    /// What kind of thing.
    #[schema(value_type = super::Kind)]
    r#type: String,
    /// When it happened.
    #[schema(format = DateTime)]
    timestamp: String,
    /// Whose it is.
    account_id: String,
    /// The object as its own endpoint shows it, what the event adds (`reason`, `error`, `button`),
    /// and `sequence`, which rises with every event of the object.
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

/// List events.
///
/// Newest first. A page of a filtered list may be shorter than `limit`, even empty, and still lead
/// on: go by the `Link` header. Events of one moment may become visible a little later than newer
/// ones, so a program that polls should look back over the last minute again.
#[endpoints::path(
    get, path = "/v1/events", tag = "Events",
    params(
        ("type" = Option<super::Kind>, Query, description = "Only events of this type"),
        ("since" = Option<String>, Query, description = "At or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<EventView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_events(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["type", "since", "until", "limit", "cursor"])?;
    let path = query.path_with("/v1/events", &["type", "since", "until"]);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| EventId::bound(at).into())?;
    let kind = query.get("type").unwrap_or("");
    if !kind.is_empty() && !Kind::ALL.iter().any(|known| known.as_str() == kind) {
        let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        let detail = one_of(&known);
        return Err(Problem::bad_request("?type", "invalid_enum", detail));
    }
    let account = &caller.account.id;
    let read = async |after: String, limit| {
        let rows = app.db.rows(BEFORE, args![account, after, limit]).await?;
        Ok::<_, store::Error>(since.keep(rows, |row: &Stored| row.id.as_str()))
    };
    let keep = |row: &Stored| row.kind == kind;
    let keep: Option<&(dyn Fn(&Stored) -> bool + Sync)> =
        if kind.is_empty() { None } else { Some(&keep) };
    let id_of = |row: &Stored| row.id.as_str().to_owned();
    let (rows, next) = page::sift(&page, read, id_of, keep).await?;
    let mut bodies = Vec::with_capacity(rows.len());
    for row in &rows {
        bodies.push(render(&app, row).await?);
    }
    let whole = json(format!("[{}]", bodies.join(",")));
    Ok(page::leading_on(&app.vault, &path, &page, whole, next.as_deref()))
}

/// JSON that is made already: the bytes that are pushed are the bytes that are read.
fn json(text: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Read an event.
#[endpoints::path(
    get, path = "/v1/events/{event_id}", tag = "Events",
    params(("event_id" = String, Path, description = "The event; `webhook-id` of a delivery")),
    responses(
        (status = 200, body = EventView, description = "The event, as it was or would be pushed"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_event(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = EventId::parse(&id).ok_or(Code::NotFound)?;
    let found = super::find(&app, &caller.account.id, &id).await?.ok_or(Code::NotFound)?;
    Ok(json(render(&app, &found).await?))
}
