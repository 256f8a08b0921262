//! The door for receipts: a sender that waits takes them, else they are settled here.

use std::sync::{PoisonError, RwLock};

use super::carry::{self, Leg, Next, Unwritten, write};
use super::settle::{self, Failure};
use super::{Attempt, Challenge, retention, store as sql};
use crate::app::App;
use crate::carriers::{Door, Fate, Inbound, NotNow, Receipt};
use crate::inbound;
use crate::kit::id::{AccountId, AttemptId};
use futures_util::future::BoxFuture;

/// The door of one environment. It is made before the app that it leads to.
#[derive(Default)]
pub struct ReceiptDoor {
    app: RwLock<Option<App>>,
}

impl ReceiptDoor {
    /// Opens the door, or shuts it with `None`: then carriers keep their receipts.
    pub fn lead_to(&self, app: Option<App>) {
        *self.app.write().unwrap_or_else(PoisonError::into_inner) = app;
    }
}

impl Door for ReceiptDoor {
    fn receipt(&self, receipt: Receipt) -> BoxFuture<'_, Result<(), NotNow>> {
        let app = self.app.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            let app = app.ok_or(NotNow)?;
            if app.carriers.inbox().offer(&receipt).await {
                return Ok(());
            }
            match take_in(&app, &receipt).await {
                Ok(taken) => taken.map_err(|_| NotNow),
                Err(error) => {
                    tracing::warn!(%error, attempt = receipt.attempt_id, "receipt not stored");
                    Err(NotNow)
                }
            }
        })
    }

    fn inbound(&self, messages: Vec<Inbound>) -> BoxFuture<'_, Result<(), NotNow>> {
        let app = self.app.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move { inbound::take_in(&app.ok_or(NotNow)?, &messages).await })
    }
}

/// Makes a receipt durable. News that changes nothing (late, double, out of order) is dropped. A
/// sender or due work may move the attempt meanwhile: look again later.
async fn take_in(app: &App, receipt: &Receipt) -> Result<Result<(), Unwritten>, ::store::Error> {
    let (Some(account), Some(attempt)) =
        (AccountId::parse(&receipt.account_id), AttemptId::parse(&receipt.attempt_id))
    else {
        return Ok(Ok(()));
    };
    let Some(a) = sql::attempt(app, &account, &attempt).await? else { return Ok(Ok(())) };
    if !a.state.is_undecided() {
        return Ok(Ok(()));
    }
    let Some(c) = sql::challenge(app, &account, &a.challenge).await? else { return Ok(Ok(())) };
    Ok(become_durable(app, c, a, receipt).await)
}

async fn become_durable(
    app: &App,
    c: Challenge,
    a: Attempt,
    receipt: &Receipt,
) -> Result<(), Unwritten> {
    // A carrier's id can hold the recipient's number: nothing may bring it back once it is erased.
    let provider_id = receipt.provider_id.as_deref().filter(|_| retention::is_number(&c.recipient));
    let is_current = c.attempt == a.id;
    match receipt.fate {
        Fate::Delivered => write(app, &c, settle::delivered(app, &c, &a, provider_id)).await,
        Fate::Sent if a.state.is_held() && is_current => {
            let provider_id = provider_id.unwrap_or(a.id.as_str());
            write(app, &c, settle::accepted(app, &c, &a, provider_id)).await
        }
        Fate::Sent => Ok(()),
        Fate::Failed if is_current => {
            let mut leg = Leg::new(c, a);
            let why = Failure::receipt(receipt.error.clone());
            if let Next::Attempt = carry::failed(app, &mut leg, &why).await? {
                // The receipt is durable; the next attempt is its own work.
                let app = app.clone();
                tokio::spawn(async move { carry::run(&app, &mut leg).await });
            }
            Ok(())
        }
        Fate::Failed => {
            let why = Failure::receipt(receipt.error.clone());
            write(app, &c, settle::give_back(app, &c, &a, &why)).await
        }
    }
}
