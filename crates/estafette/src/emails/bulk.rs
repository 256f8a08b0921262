//! Many emails in one request, each on its own: one that is refused keeps no other from going out.
//! Their ids follow from the id of the request, so that a repeat under the same `Idempotency-Key`
//! finds those that were taken, and takes only the others.

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::Value;
use store::WriteSet;
use utoipa::ToSchema;
use uuid::Uuid;

use super::parse::Order;
use super::send::{Taking, send};
use super::store as sql;
use super::{Error, Letter};
use crate::access::idempotency::Claim;
use crate::app::{Account, App};
use crate::carriers::Priority;
use crate::kit::id::EmailId;
use crate::kit::problem::Problem;

/// Emails of one request that are stored at the same time.
const AT_ONCE: usize = 8;

/// What became of one of many emails.
#[derive(Serialize, ToSchema)]
pub(super) struct BulkResult {
    /// Its place in the request, from 0.
    #[schema(minimum = 0, example = 0)]
    index: usize,
    /// Its id; null when it was refused.
    #[schema(example = "eml_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: Option<String>,
    /// Where it stands; `rejected` when it was refused.
    #[schema(example = "queued")]
    status: &'static str,
    /// Why it was refused, as it would be refused alone: `code`, `detail`, and `errors` where
    /// fields are at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    error: Option<Value>,
}

/// What became of many emails, in the order of the request.
#[derive(Serialize, ToSchema)]
pub(super) struct BulkResults {
    /// One for each email.
    results: Vec<BulkResult>,
}

/// Makes a key stand for the request, before any of its emails.
pub(super) async fn claim(
    app: &App,
    account: &Account,
    claim: &Claim,
    first: &EmailId,
) -> Result<(), Problem> {
    if claim.is_empty() {
        return Ok(());
    }
    let mut set = WriteSet::of(account.id.as_str());
    claim.add_to(&mut set, first.as_str(), None, app.now());
    Ok(app.db.commit(set).await.map(drop)?)
}

/// Takes the emails of a request that are not taken yet.
pub(super) async fn take(
    app: &App,
    account: &Account,
    orders: Vec<Result<Order, Problem>>,
    first: &EmailId,
) -> BulkResults {
    let takings = orders.into_iter().enumerate().map(|(index, order)| async move {
        let done = match order {
            Ok(order) => one(app, account, order, id_of(first, index)).await,
            Err(problem) => Err(problem),
        };
        result(index, done)
    });
    BulkResults { results: stream::iter(takings).buffered(AT_ONCE).collect().await }
}

async fn one(app: &App, account: &Account, order: Order, id: EmailId) -> Result<Letter, Problem> {
    let known = async || sql::letter(app, &account.id, &id).await.map_err(Error::from);
    if let Some(letter) = known().await? {
        return Ok(letter);
    }
    let none = Claim::default();
    let taking = Taking { id: id.clone(), priority: Priority::Bulk, claim: &none };
    let letter = send(app, account, order, taking).await?;
    // Another request under the same key may have been faster.
    Ok(known().await?.unwrap_or(letter))
}

fn id_of(first: &EmailId, index: usize) -> EmailId {
    let place = u128::try_from(index).unwrap_or_default();
    EmailId::of(Uuid::from_u128(first.uuid().as_u128().wrapping_add(place)))
}

fn result(index: usize, done: Result<Letter, Problem>) -> BulkResult {
    match done {
        Ok(letter) => BulkResult {
            index,
            id: Some(letter.id.as_str().to_owned()),
            status: letter.tally.status().word(),
            error: None,
        },
        Err(problem) => {
            let place = format!("/messages/{index}");
            BulkResult { index, id: None, status: "rejected", error: Some(problem.part(&place)) }
        }
    }
}
