//! Many emails in one request, each on its own: one that is refused keeps no other from going out.
//! Their ids follow from the id of the request, so that a repeat under the same `Idempotency-Key`
//! finds those that were taken, is told again why others were refused, and takes those that the
//! first request did not come to.

use endpoints::ToSchema;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::Value;
use store::{CommitError, WriteSet};
use uuid::Uuid;

use super::parse::Order;
use super::send::{Taking, send};
use super::store as sql;
use super::{Error, Letter, MOST_IN_BULK, Status};
use crate::access::idempotency::{Claim, Seen};
use crate::app::{Account, App};
use crate::carriers::Priority;
use crate::kit::described::described_words;
use crate::kit::id::EmailId;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

/// Emails of one request that are stored at the same time.
const AT_ONCE: usize = 8;

described_words!(
    BulkStatus: "Where an email of many stands; `rejected` = it was refused.",
    Status::ALL.iter().map(|status| status.as_str()).chain(["rejected"])
);

/// What became of one of many emails.
#[derive(Serialize, ToSchema)]
pub(super) struct BulkResult {
    /// Its place in the request, from 0.
    #[schema(minimum = 0, example = 0)]
    index: usize,
    /// Its id; null when it was refused.
    #[schema(required = true, example = "eml_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: Option<String>,
    /// Where it stands; `rejected` when it was refused.
    #[schema(value_type = BulkStatus)]
    status: &'static str,
    /// Why it was refused, as it would be refused alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BulkError>, nullable = false)]
    error: Option<Value>,
}

/// Why one of many emails was refused.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is stored as JSON; this describes it")]
struct BulkError {
    /// Stable, for programs.
    code: Code,
    /// What happened this time, for people.
    detail: String,
    /// The fields at fault, the first 20 of them.
    #[schema(max_items = 20, nullable = false)]
    errors: Option<Vec<Item>>,
}

/// What became of many emails, in the order of the request.
#[derive(Serialize, ToSchema)]
pub(super) struct BulkResults {
    /// One for each email.
    results: Vec<BulkResult>,
}

/// A request, as far as a key makes it the same one again.
pub(super) struct Batch {
    /// From which the ids of its emails follow.
    first: EmailId,
    /// Of a request that is new.
    claim: Option<Claim>,
    /// What was refused for good, as stored, by its place in the request.
    refused: BTreeMap<usize, String>,
}

impl Batch {
    /// A new one: the key stands for it before any of its emails.
    pub(super) async fn begin(app: &App, account: &Account, claim: Claim) -> Result<Self, Problem> {
        let first = EmailId::new(&app.clock);
        if !claim.is_empty() {
            let mut set = WriteSet::of(account.id.as_str());
            claim.add_to(&mut set, first.as_str(), None, app.now());
            app.db.commit(set).await?;
        }
        Ok(Self { first, claim: Some(claim), refused: BTreeMap::new() })
    }

    /// One that came before.
    pub(super) fn of(seen: Seen) -> Self {
        let refused = seen.answer.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let first = EmailId::stored(seen.object_id);
        Self { first, claim: None, refused: refused.unwrap_or_default() }
    }

    /// Takes its emails that are not taken yet, and keeps why others are not.
    pub(super) async fn take(
        &self,
        app: &App,
        account: &Account,
        orders: Vec<Result<Order, Problem>>,
    ) -> BulkResults {
        let takings = orders.into_iter().enumerate().map(|(index, order)| async move {
            let done = match order {
                Ok(order) => self.one(app, account, order, index).await,
                Err(refusal) => Err(refusal),
            };
            (index, done)
        });
        let done: Vec<_> = stream::iter(takings).buffered(AT_ONCE).collect().await;
        // What is taken is taken: a repeat then tries the others anew.
        if let Err(error) = self.keep(app, account, &done).await {
            tracing::warn!(%error, "the refusals of a bulk request are not kept");
        }
        let results = done.into_iter().map(|(index, done)| result(index, done));
        BulkResults { results: results.collect() }
    }

    async fn one(
        &self,
        app: &App,
        account: &Account,
        order: Order,
        index: usize,
    ) -> Result<Letter, Problem> {
        let id = id_of(&self.first, index);
        let known = sql::letter(app, &account.id, &id).await.map_err(Error::from)?;
        if let Some(letter) = known {
            return Ok(letter);
        }
        // What is taken goes before: a repeat can take it before the refusal of an earlier request
        // is kept.
        let stored = self.refused.get(&index).and_then(|text| Problem::stored(text));
        if let Some(refusal) = stored {
            return Err(refusal);
        }
        let none = Claim::default();
        let taking = Taking { id, priority: Priority::Bulk, claim: &none };
        Ok(send(app, account, order, taking).await?)
    }

    async fn keep(
        &self,
        app: &App,
        account: &Account,
        done: &[(usize, Result<Letter, Problem>)],
    ) -> Result<(), CommitError> {
        let Some(claim) = self.claim.as_ref().filter(|claim| !claim.is_empty()) else {
            return Ok(());
        };
        let refused = done
            .iter()
            .filter_map(|(index, done)| Some((*index, done.as_ref().err()?.to_stored()?)));
        let refused: BTreeMap<usize, String> = refused.collect();
        if refused.is_empty() {
            return Ok(());
        }
        let mut set = WriteSet::of(account.id.as_str());
        claim.add_answer(&mut set, &serde_json::json!(refused).to_string());
        app.db.commit(set).await.map(drop)
    }
}

fn id_of(first: &EmailId, index: usize) -> EmailId {
    let place = u128::try_from(index).unwrap_or_default();
    EmailId::of(Uuid::from_u128(first.uuid().as_u128().wrapping_add(place)))
}

/// Whether the request whose first email this is may have one of these emails.
pub(super) fn may_have(first: &str, emails: &BTreeSet<Uuid>) -> bool {
    EmailId::parse(first).is_some_and(|first| {
        let after = id_of(&first, MOST_IN_BULK);
        emails.range(first.uuid()..after.uuid()).next().is_some()
    })
}

fn result(index: usize, done: Result<Letter, Problem>) -> BulkResult {
    match done {
        Ok(letter) => BulkResult {
            index,
            id: Some(letter.id.as_str().to_owned()),
            status: letter.tally.status().as_str(),
            error: None,
        },
        Err(problem) => {
            let place = format!("/messages/{index}");
            BulkResult { index, id: None, status: "rejected", error: Some(problem.part(&place)) }
        }
    }
}
