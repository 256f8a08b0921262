//! Receipts that overtake the carrier's answer: a gateway calls the URL that was made for an
//! attempt while the answer to that attempt is still waited for. Until the answer is there, nobody
//! knows whether the id that such a receipt brings is the attempt's, so it is parked, under the
//! attempt's id as well. When the answer is lost, it says what became of the message, which must
//! not go out again.

use ::store::Error;

use super::Attempt;
use super::parked::{self, Parked};
use crate::app::App;
use crate::carriers::{Echo, Fate, Receipt};

/// A receipt that came before the answer was given up.
pub(super) struct Early {
    pub(super) receipt: Receipt,
    parked: Parked,
}

/// The first of those about an attempt whose answer is lost.
pub(super) async fn first(app: &App, attempt: &Attempt) -> Result<Option<Early>, Error> {
    let mut all = parked::of(app, &attempt.carrier, attempt.id.as_str()).await?;
    all.sort_by_key(|parked| parked.received_at);
    Ok(all.into_iter().find_map(|parked| Early::about(attempt, parked)))
}

impl Early {
    /// `None` = it may be about an earlier try or another copy, and this one may arrive.
    fn about(attempt: &Attempt, parked: Parked) -> Option<Self> {
        let fate = Fate::of_stored(&parked.fate).unwrap_or(Fate::Sent);
        let is_only_one = attempt.tries <= 1 && attempt.resends == 0;
        if matches!(fate, Fate::Failed(_)) && !is_only_one {
            return None;
        }
        let echo = Echo {
            account_id: attempt.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
        };
        let receipt = Receipt {
            hint: None,
            carrier: parked.carrier.clone(),
            echo: Some(echo),
            // The row under the attempt's id names the carrier's beside it.
            provider_id: parked.siblings.first().cloned(),
            fate,
            error: parked.error.clone(),
        };
        Some(Self { receipt, parked })
    }

    /// It is durable. A row that stays changes nothing, and goes with age.
    pub(super) async fn done(self, app: &App) {
        if let Err(error) = parked::unpark(app, &self.parked).await {
            tracing::warn!(%error, "a parked receipt stays");
        }
    }
}
