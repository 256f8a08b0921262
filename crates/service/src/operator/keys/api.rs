//! An account's API keys over HTTP, for staff.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, routes};

use crate::access::api::{DisabledKeyView, KeyView};
use crate::access::caller::Staff;
use crate::access::{disable_key, list_keys};
use crate::app::App;
use crate::kit::id::{AccountId, KeyId};
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::operator::accounts;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_account_keys, disable_account_key)
}

/// List an account's API keys.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/admin/accounts/{account_id}/api-keys", tag = "Operator",
    params(
        ("account_id" = String, Path, description = "The account"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<KeyView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_account_keys(
    _staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let account = AccountId::parse(&id).ok_or(Code::NotFound)?;
    let path = format!("/v1/admin/accounts/{account}/api-keys");
    let path = query.path_with(&path, &["since", "until"]);
    let mut page = query.page(&app.vault, &path)?;
    let since = query.between(&mut page, |at| KeyId::bound(at).into())?;
    accounts::find(&app, &account).await?;
    let keys = list_keys(&app, &account, &page).await?;
    let keys = since.keep(keys, |key| key.id.as_str());
    let views: Vec<KeyView> = keys.into_iter().map(KeyView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

/// Disable an account's API key.
///
/// Repeating this has no effect.
#[endpoints::path(
    delete, path = "/v1/admin/accounts/{account_id}/api-keys/{key_id}", tag = "Operator",
    params(
        ("account_id" = String, Path, description = "The account"),
        ("key_id" = String, Path, description = "The key's id"),
    ),
    responses(
        (status = 200, body = DisabledKeyView, description = "The key is disabled"),
    ),
    security(("staff_token" = []))
)]
async fn disable_account_key(
    staff: Staff,
    State(app): State<App>,
    Path((account_id, key_id)): Path<(String, String)>,
    _: NoQuery,
) -> Result<Json<DisabledKeyView>, Problem> {
    let account = AccountId::parse(&account_id).ok_or(Code::NotFound)?;
    let key = KeyId::parse(&key_id).ok_or(Code::NotFound)?;
    disable_key(&app, &account, &key, staff.by()).await?;
    Ok(Json(DisabledKeyView { id: key.into(), active: false }))
}
