//! The door for receipts: a sender that waits takes them, else they are settled here.

use std::sync::{PoisonError, RwLock};

use futures_util::future::BoxFuture;
use store::CommitError;

use super::carry::{self, Next};
use super::settle::{self, Failure};
use super::{Error, retention, store as sql};
use crate::app::App;
use crate::carriers::{Door, Fate, Inbound, NotNow, Receipt};
use crate::inbound;
use crate::kit::id::{AccountId, AttemptId};

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
                Ok(()) => Ok(()),
                // A sender or the watchdog moved the attempt meanwhile: look again later.
                Err(Error::Commit(CommitError::Rejected(_))) => Err(NotNow),
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

/// Makes a receipt durable. News that changes nothing (late, double, out of order) is dropped.
async fn take_in(app: &App, receipt: &Receipt) -> Result<(), Error> {
    let (Some(account), Some(attempt)) =
        (AccountId::parse(&receipt.account_id), AttemptId::parse(&receipt.attempt_id))
    else {
        return Ok(());
    };
    let Some(a) = sql::attempt(app, &account, &attempt).await? else { return Ok(()) };
    if !settle::is_undecided(&a) {
        return Ok(());
    }
    let Some(c) = sql::challenge(app, &account, &a.challenge).await? else { return Ok(()) };
    // A carrier's id can hold the recipient's number: nothing may bring it back once it is erased.
    let provider_id = receipt.provider_id.as_deref().filter(|_| retention::is_number(&c.recipient));
    match receipt.fate {
        Fate::Delivered => {
            app.db.commit(settle::delivered(app, &c, &a, provider_id)).await?;
        }
        Fate::Sent if settle::is_held(&a) && c.attempt == a.id => {
            let provider_id = provider_id.unwrap_or(a.id.as_str());
            app.db.commit(settle::accepted(app, &c, &a, provider_id)).await?;
        }
        Fate::Sent => {}
        Fate::Failed if c.attempt == a.id => {
            let why = Failure::receipt(receipt.error.clone());
            let next = carry::failed(app, &c, &a, &why).await?;
            if let Next::Leg(challenge, leg) = next {
                // The receipt is durable; the next leg is its own work.
                let app = app.clone();
                tokio::spawn(async move {
                    if let Err(error) = carry::run(&app, challenge, leg).await {
                        tracing::warn!(%error, "fallback not finished; the watchdog goes on");
                    }
                });
            }
        }
        Fate::Failed => {
            let why = Failure::receipt(receipt.error.clone());
            app.db.commit(settle::give_back(app, &c, &a, &why)).await?;
        }
    }
    Ok(())
}
