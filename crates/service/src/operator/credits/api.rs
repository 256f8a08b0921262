//! An account's credits over HTTP: staff tops up, corrects, and reads the ledger.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};
use store::WriteSet;

use crate::access::audit::{Entry, record};
use crate::access::caller::Staff;
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::credits::api::TransferView;
use crate::credits::{self, Error};
use crate::kit::body::Fields;
use crate::kit::id::{AccountId, TransferId};
use crate::kit::page::{self, Query};
use crate::kit::posted::Posted;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The most in one go, either way.
const MOST: i64 = 1_000_000_000_000;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(add_credits, account_ledger)
}

/// A top-up or a correction.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewCredits {
    /// Credits to add, or to take back when negative; not 0.
    #[schema(minimum = -1_000_000_000_000_i64, maximum = 1_000_000_000_000_i64, example = 1000)]
    pub amount: i64,
    /// Why, 1 to 200 characters; the account sees it in its ledger.
    #[schema(min_length = 1, max_length = 200, example = "invoice 2026-014")]
    pub reason: String,
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreditsView {
    /// The account.
    #[schema(example = "acc_01h455vb4pex5vsknk084sn02q")]
    pub account_id: String,
    /// Credits that can be spent now, without the credit limit: below zero, what is owed.
    #[schema(example = 1000)]
    pub balance_credits: i64,
    /// The transfer in the ledger.
    #[schema(example = "txn_01h455vb4pex5vsknk084sn02q")]
    pub transfer_id: String,
}

/// Add or take back credits.
///
/// A negative amount takes back what is neither held nor spent. A repeat with the same
/// `Idempotency-Key` moves nothing, and answers the first transfer and the balance of now.
#[endpoints::path(
    post, path = "/v1/admin/accounts/{account_id}/credits", tag = "Operator",
    params(
        ("account_id" = String, Path, description = "The account"),
    ),
    request_body = NewCredits,
    responses(
        (status = 200, body = CreditsView, description = "The transfer and the balance"),
    ),
    security(("staff_token" = []))
)]
async fn add_credits(
    staff: Staff,
    State(app): State<App>,
    posted: Posted,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    let (amount, reason) = read(&app, &body)?;
    let account = AccountId::parse(&id).ok_or(Code::NotFound)?;
    // Unknown accounts are told apart before a key is looked up in their scope.
    credits::balance(&app, &account).await?;
    let route = format!("POST /v1/admin/accounts/{account}/credits");
    let request = Repeatable::by_staff(&account, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let mut effect = WriteSet::of(account.as_str());
        let transfer = if amount > 0 {
            credits::grant(&app, &mut effect, &account, amount, &reason)
        } else {
            credits::correct(&app, &mut effect, &account, amount.saturating_neg(), &reason)
        };
        let mut set = WriteSet::of(account.as_str());
        claim.add_to(&mut set, transfer.as_str(), None, app.now());
        set.append(effect);
        let entry = Entry {
            actor: &staff.who,
            action: "credits.add",
            object_id: transfer.as_str(),
            account: Some(&account),
            request_id: &staff.request_id,
            detail: serde_json::json!({ "amount": amount, "reason": reason }),
        };
        record(&app, &mut set, &entry);
        // Nothing is read behind the commit: credits that were moved must not be answered with 5xx.
        let done = app.db.commit(set).await.map_err(Error::from)?;
        let (own,): (i64,) = done.only()?;
        Ok(Json(CreditsView::of(&account, own, transfer.into())))
    };
    let again = async |seen: Seen| {
        let balance = credits::balance(&app, &account).await?;
        Ok(Json(CreditsView::of(&account, balance.own(), seen.object_id)))
    };
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

fn read(app: &App, body: &[u8]) -> Result<(i64, String), Problem> {
    let mut fields = Fields::read(body)?;
    let amount = fields.required_integer("amount", -MOST, MOST);
    if amount == Some(0) {
        fields.fault("amount", "out_of_range", "must not be 0");
    }
    let reason = fields.required_line("reason", 200);
    fields.finish(app.is_strict())?;
    let (Some(amount), Some(reason)) = (amount, reason) else {
        return Err(Problem::from(Code::InternalError));
    };
    Ok((amount, reason))
}

impl CreditsView {
    fn of(account: &AccountId, balance_credits: i64, transfer_id: String) -> Self {
        Self { account_id: account.to_string(), balance_credits, transfer_id }
    }
}

/// List an account's movements of credits.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/admin/accounts/{account_id}/ledger", tag = "Operator",
    params(
        ("account_id" = String, Path, description = "The account"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<TransferView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn account_ledger(
    _staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let account = AccountId::parse(&id).ok_or(Code::NotFound)?;
    let path = format!("/v1/admin/accounts/{account}/ledger");
    let path = query.path_with(&path, &["since", "until"]);
    let mut page = query.page(&app.vault, &path)?;
    let since = query.between(&mut page, |at| TransferId::bound(at).into())?;
    credits::balance(&app, &account).await?;
    let rows = credits::ledger(&app, &account, &page).await?;
    let rows = since.keep(rows, |row| row.id.as_str());
    let views: Vec<TransferView> = rows.into_iter().map(TransferView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}
