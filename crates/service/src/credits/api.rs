//! The ledger over HTTP, and what the errors of the credits room are to a caller.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use super::{Error, Transfer, TransferKind};
use crate::access::caller::{Caller, ReadAccount};
use crate::app::App;
use crate::kit::id::TransferId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::{Item, Problem, sentence};
use crate::kit::problem_code::Code;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(read_balance, list_ledger)
}

/// What an account has.
#[derive(Debug, Serialize, ToSchema)]
pub struct BalanceView {
    /// Credits that can be spent now, without the credit limit: below zero, what is owed.
    #[schema(example = 988)]
    pub balance_credits: i64,
    /// Credits held for messages whose fate is open.
    #[schema(example = 12)]
    pub held_credits: i64,
    /// `prepaid` or `postpaid`.
    #[schema(value_type = crate::app::BillingMode)]
    pub billing_mode: String,
}

/// Read the balance.
#[endpoints::path(
    get, path = "/v1/balance", tag = "Credits",
    responses(
        (status = 200, body = BalanceView, description = "The balance"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_balance(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    _: NoQuery,
) -> Result<Json<BalanceView>, Problem> {
    let balance = super::balance(&app, &caller.account.id).await?;
    Ok(Json(BalanceView {
        balance_credits: balance.own(),
        held_credits: balance.held,
        billing_mode: balance.billing_mode,
    }))
}

/// One movement of credits.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransferView {
    /// Its id.
    #[schema(example = "txn_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// `topup`, `correction`, `hold`, `post`, `void` or `refund`.
    #[schema(value_type = TransferKind)]
    pub kind: String,
    /// What it did to the credits that can be spent: top-ups, voids and refunds add, holds and
    /// corrections take, and a post changes nothing, because its hold took the credits already.
    #[schema(example = -12)]
    pub amount: i64,
    /// Why: `otp.sms`, `otp.chatapp`, `sms`, or the operator's words.
    #[schema(example = "otp.sms")]
    pub reason: String,
    /// What it is about: a challenge, a message, or the account itself.
    pub object_id: String,
    /// The hold that a post or void resolves, or the post that a refund returns; else null.
    #[schema(required = true)]
    pub of: Option<String>,
    /// When.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
}

impl From<Transfer> for TransferView {
    fn from(transfer: Transfer) -> Self {
        Self {
            amount: transfer.effect(),
            id: transfer.id.into(),
            kind: transfer.kind,
            reason: transfer.reason,
            object_id: transfer.object_id,
            of: transfer.of.map(String::from),
            created_at: transfer.created_at.to_string(),
        }
    }
}

/// List movements of credits.
///
/// Newest first; a post, void or refund stands directly above the hold that it belongs to, and
/// counts as of that moment for `since` and `until`.
#[endpoints::path(
    get, path = "/v1/ledger", tag = "Credits",
    params(
        ("since" = Option<String>, Query, description = "At or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, body = Vec<TransferView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_ledger(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let path = query.path_with("/v1/ledger", &["since", "until"]);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| TransferId::bound(at).into())?;
    let rows = super::ledger(&app, &caller.account.id, &page).await?;
    let rows = since.keep(rows, |row| row.id.as_str());
    let views: Vec<TransferView> = rows.into_iter().map(TransferView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            error @ Error::Insufficient { .. } => {
                Self::new(Code::InsufficientCredits).detail(sentence(&error.to_string()))
            }
            Error::NotAvailable => {
                let detail = "must not exceed the credits that are neither held nor spent";
                Self::invalid(vec![Item::at("/amount", "out_of_range", detail)])
            }
            error @ Error::NoPrice { .. } => {
                Self::new(Code::CarrierUnavailable).detail(sentence(&error.to_string()))
            }
            Error::NoAccount => Self::new(Code::NotFound),
            // No request seals.
            Error::SealsGone { .. } | Error::ChainGone => Self::new(Code::InternalError),
            Error::Db(error) => error.into(),
            Error::Commit(::store::CommitError::Rejected(super::INSUFFICIENT)) => {
                Self::new(Code::InsufficientCredits)
            }
            Error::Commit(error) => error.into(),
        }
    }
}
