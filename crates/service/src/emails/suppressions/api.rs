//! The endpoints of suppressions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};
use store::WriteSet;

use super::{Reason, Suppression};
use crate::access::audit;
use crate::access::caller::{Caller, Portal, ReadAccount};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::SuppressionId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/email-suppressions";

/// The routes of this part.
pub(in crate::emails) fn routes() -> ApiRouter<App> {
    routes!(list_suppressions, add_suppression, remove_suppression)
}

/// An address that the account does not write to.
#[derive(Serialize, ToSchema)]
pub(super) struct SuppressionView {
    /// Its id.
    #[schema(example = "sup_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// The address in lower case; empty once the person is forgotten.
    #[schema(example = "ada@example.com")]
    address: String,
    /// Why.
    reason: Reason,
    /// Since when.
    #[schema(format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    created_at: String,
}

impl From<Suppression> for SuppressionView {
    fn from(found: Suppression) -> Self {
        Self {
            id: found.id.into(),
            address: found.address,
            reason: found.reason,
            created_at: found.created_at.to_string(),
        }
    }
}

/// An address to be suppressed.
#[derive(Deserialize, ToSchema)]
pub struct NewSuppression {
    /// The address.
    #[schema(format = Email, example = "ada@example.com")]
    pub address: String,
}

/// List suppressed addresses.
///
/// Those that the account does not write to, newest first.
#[endpoints::path(
    get, path = "/v1/email-suppressions", tag = "Email",
    params(
        ("address" = Option<String>, Query, description = "Only this address"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<SuppressionView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_suppressions(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let known = ["address", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with(PATH, &known[..3]);
    let account = &caller.account.id;
    let mut page = query.page_of(&app.vault, account.as_str(), &path)?;
    let since = query.between(&mut page, |at| SuppressionId::bound(at).into())?;
    let rows = match query.address("address")? {
        None => super::page(&app, account, &page).await?,
        Some(address) => {
            let found = super::find(&app, account, &address).await?;
            found.into_iter().filter(|row| row.id.as_str() < page.after.as_str()).collect()
        }
    };
    let rows = since.keep(rows, |row| row.id.as_str());
    let views: Vec<SuppressionView> = rows.into_iter().map(Into::into).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

/// Suppress an address.
///
/// Emails to it are answered with the status `suppressed`, and cost nothing. An address already
/// listed is left unchanged.
#[endpoints::path(
    post, path = "/v1/email-suppressions", tag = "Email",
    request_body = NewSuppression,
    extensions(("x-codes" = json!([Code::NotFound]))),
    responses(
        (status = 200, body = SuppressionView, description = "The address is on the list"),
    ),
    security(("portal_token" = []))
)]
async fn add_suppression(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let address = fields.required("address").and_then(|text| {
        let read = email::Address::parse(&text);
        read.map_err(|error| fields.fault("address", "invalid_email", error.to_string())).ok()
    });
    fields.finish(app.is_strict())?;
    let address = address.ok_or(Code::InternalError)?;
    let account = &caller.account.id;
    let request = Repeatable::by_tenant(account, &headers, "POST /v1/email-suppressions", &body);
    let fresh = async |claim: Claim| {
        let is_new = super::find(&app, account, &address).await?.is_none();
        let mut set = WriteSet::of(account.as_str());
        let id = super::add(&app, &mut set, account, &address, Reason::Manual);
        if is_new {
            let entry = super::entry(account, &id, caller.by(), "email_suppression.add");
            audit::record(&app, &mut set, &entry);
        }
        claim.add_to(&mut set, id.as_str(), None, app.now());
        app.db.commit(set).await?;
        Ok(super::find(&app, account, &address).await?.ok_or(Code::InternalError)?)
    };
    // The same request names the same address.
    let again =
        async |_: Seen| Ok(super::find(&app, account, &address).await?.ok_or(Code::NotFound)?);
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|found| Json(SuppressionView::from(found))).into_response())
}

/// Remove a suppression.
///
/// From now on emails to it go out again.
#[endpoints::path(
    delete, path = "/v1/email-suppressions/{address}", tag = "Email",
    params(("address" = String, Path, description = "The address")),
    responses(
        (status = 200, body = SuppressionView, description = "The address is off the list"),
    ),
    security(("portal_token" = []))
)]
async fn remove_suppression(
    caller: Caller<Portal>,
    State(app): State<App>,
    Path(address): Path<String>,
    _: NoQuery,
) -> Result<Json<SuppressionView>, Problem> {
    let account = &caller.account.id;
    let unknown =
        || Problem::new(Code::NotFound).detail("The address is not on the account's list.");
    let address = email::Address::parse(&address).map_err(|_| unknown())?;
    let found = super::find(&app, account, &address).await?.ok_or_else(unknown)?;
    let mut set = WriteSet::of(account.as_str());
    super::remove(&app, &mut set, account, &address);
    let entry = super::entry(account, &found.id, caller.by(), "email_suppression.remove");
    audit::record(&app, &mut set, &entry);
    app.db.commit(set).await?;
    Ok(Json(found.into()))
}
