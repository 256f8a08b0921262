//! Receipts that overtake the carrier's answer: a gateway calls the URL that was made for an
//! attempt while the answer to that attempt is still waited for. Until the answer is there, nobody
//! knows whether the id that such a receipt brings is the attempt's, so it is parked, under the
//! attempt's id as well. When the answer is lost, it says what became of the message, which must
//! not go out again.

use super::parked;
use super::store as sql;
use super::{Attempt, Leg, Owner, Unwritten, door};
use crate::app::App;
use crate::carriers::{Echo, Fate, Receipt};

/// Takes in what came for an attempt whose answer is lost by now; answers whether anything did.
///
/// # Errors
/// When it cannot be written.
pub async fn take_in<O: Owner>(app: &App, attempt: &Attempt) -> Result<bool, Unwritten> {
    match early(app, attempt).await {
        Ok(all) => take_all_in::<O>(app, attempt, all).await,
        Err(error) => {
            let attempt = attempt.id.as_str();
            tracing::warn!(%error, attempt, "parked receipts not read");
            Err(Unwritten::Lost)
        }
    }
}

/// What is parked for it, the first first.
async fn early(app: &App, attempt: &Attempt) -> Result<Vec<parked::Parked>, ::store::Error> {
    let mut all = parked::of(app, &attempt.carrier, attempt.id.as_str()).await?;
    all.sort_by_key(|parked| parked.received_at);
    Ok(all)
}

async fn take_all_in<O: Owner>(
    app: &App,
    attempt: &Attempt,
    all: Vec<parked::Parked>,
) -> Result<bool, Unwritten> {
    let mut is_heard = false;
    for parked in all {
        let Some(leg) = lost::<O>(app, attempt).await.map_err(|_| Unwritten::Lost)? else { break };
        let fate = Fate::of_stored(&parked.fate).unwrap_or(Fate::Sent);
        // It may be about an earlier try or another copy, and this one may arrive.
        let is_only_one = leg.attempt.tries <= 1 && leg.attempt.resends == 0;
        if matches!(fate, Fate::Failed(_)) && !is_only_one {
            continue;
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
        door::take_in(app, leg, &receipt).await?;
        is_heard = true;
        // It is durable; one that stays changes nothing, and goes with age.
        if let Err(error) = parked::unpark(app, &parked).await {
            tracing::warn!(%error, "a parked receipt stays");
        }
    }
    Ok(is_heard)
}

/// The attempt as it stands, if its answer is lost and nothing else is known of it.
async fn lost<O: Owner>(app: &App, attempt: &Attempt) -> Result<Option<Leg<O>>, ::store::Error> {
    let now = sql::attempt(app, &attempt.account, &attempt.id).await?;
    let Some(now) = now.filter(Attempt::is_lost) else { return Ok(None) };
    let message = O::load(app, &now.account, &now.object_id).await?;
    Ok(message.map(|message| Leg::new(message, now)))
}
