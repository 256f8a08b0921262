//! Where a sender waits for the receipt of what it just submitted, so that both become durable in
//! one commit. A receipt that nobody waits for takes the way through the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Receipt;

/// Receipts that one sender may be offered before the others go through the database.
const OFFERS: usize = 4;

/// A receipt in hand. Dropping it sends it the other way; [`HeldReceipt::done`] once it is durable.
pub struct HeldReceipt {
    /// What it says.
    pub receipt: Receipt,
    done: oneshot::Sender<()>,
}

impl HeldReceipt {
    /// Tells the carrier's side that the receipt is durable.
    pub fn done(self) {
        // The other side may have given up; it will bring the receipt again.
        let _gone = self.done.send(());
    }
}

/// Who is told what comes of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A request, which has no answer yet.
    Request,
    /// Nobody: it goes out by itself, such as the fallback of a passcode whose request is over.
    Nobody,
}

struct Sender {
    asker: Asker,
    offers: mpsc::Sender<HeldReceipt>,
}

/// The senders that wait. Clones share them.
#[derive(Clone, Default)]
pub struct Inbox {
    waiting: Arc<Mutex<HashMap<String, Sender>>>,
}

/// One sender's place; it is given up when dropped.
pub struct Waiter {
    attempt_id: String,
    news: mpsc::Receiver<HeldReceipt>,
    inbox: Inbox,
}

impl Inbox {
    /// Takes a place before the submission, so that no receipt can be too early.
    #[must_use]
    pub fn expect(&self, attempt_id: &str, asker: Asker) -> Waiter {
        let (offers, news) = mpsc::channel(OFFERS);
        self.lock().insert(attempt_id.to_owned(), Sender { asker, offers });
        Waiter { attempt_id: attempt_id.to_owned(), news, inbox: self.clone() }
    }

    /// Whether a sender of this process waits for this submission's outcome.
    #[must_use]
    pub fn is_waiting(&self, attempt_id: &str) -> bool {
        self.lock().contains_key(attempt_id)
    }

    /// Whether a request of this process waits for this submission's outcome.
    #[must_use]
    pub fn is_asked_for(&self, attempt_id: &str) -> bool {
        self.lock().get(attempt_id).is_some_and(|sender| sender.asker == Asker::Request)
    }

    /// Whether no sender of this process waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Offers a receipt; `true` once its sender made it durable, `false` if nobody did.
    pub async fn offer(&self, receipt: &Receipt) -> bool {
        let Some(echo) = &receipt.echo else { return false };
        let sender = self.lock().get(&echo.attempt_id).map(|sender| sender.offers.clone());
        let Some(sender) = sender else { return false };
        let (done, durable) = oneshot::channel();
        if sender.try_send(HeldReceipt { receipt: receipt.clone(), done }).is_err() {
            return false;
        }
        drop(sender);
        durable.await.is_ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Sender>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// The next receipt, if one comes within `wait`.
    pub async fn next(&mut self, wait: Duration) -> Option<HeldReceipt> {
        tokio::time::timeout(wait, self.news.recv()).await.ok().flatten()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.inbox.lock().remove(&self.attempt_id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Asker, Inbox};
    use crate::carriers::{Echo, Fate, Receipt};

    fn receipt() -> Receipt {
        Receipt {
            carrier: "simulated-sms".into(),
            echo: Some(Echo { account_id: "acc".into(), attempt_id: "att".into() }),
            provider_id: None,
            fate: Fate::Delivered,
            error: None,
        }
    }

    #[tokio::test]
    async fn a_receipt_is_taken_only_by_a_sender_that_makes_it_durable() {
        let inbox = Inbox::default();
        assert!(!inbox.offer(&receipt()).await, "nobody waits");
        let mut waiter = inbox.expect("att", Asker::Request);
        let offer = tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.offer(&receipt()).await }
        });
        waiter.next(Duration::from_secs(5)).await.unwrap().done();
        assert!(offer.await.unwrap());
        let offer = tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.offer(&receipt()).await }
        });
        drop(waiter.next(Duration::from_secs(5)).await.unwrap());
        assert!(!offer.await.unwrap(), "dropped news goes the other way");
    }
}
