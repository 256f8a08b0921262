//! Where a sender waits for the receipt of what it just submitted, so that both become durable in
//! one commit. A receipt that nobody waits for takes the way through the database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

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
    /// Who got the submission. Nobody else has anything to say about it.
    carrier: String,
    tray: Arc<Tray>,
}

/// Where receipts lie until their sender takes them. There is one for each message under way, so it
/// is small: a channel of tokio's has room for 32 of them, in a block of 5 KB.
struct Tray {
    /// `None` once the sender is gone.
    offers: Mutex<Option<VecDeque<HeldReceipt>>>,
    news: Notify,
}

impl Tray {
    fn empty() -> Arc<Self> {
        Arc::new(Self { offers: Mutex::new(Some(VecDeque::new())), news: Notify::new() })
    }

    /// Puts a receipt there, unless nobody takes it or too many lie there.
    fn put(&self, receipt: HeldReceipt) -> bool {
        let mut offers = self.lock();
        let Some(offers) = offers.as_mut().filter(|offers| offers.len() < OFFERS) else {
            return false;
        };
        offers.push_back(receipt);
        self.news.notify_one();
        true
    }

    fn take(&self) -> Option<HeldReceipt> {
        self.lock().as_mut()?.pop_front()
    }

    /// What lies there goes the other way.
    fn close(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<HeldReceipt>>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The senders that wait. Clones share them.
#[derive(Clone, Default)]
pub struct Inbox {
    waiting: Arc<Mutex<HashMap<String, Sender>>>,
}

/// One sender's place; it is given up when dropped.
pub struct Waiter {
    attempt_id: String,
    tray: Arc<Tray>,
    inbox: Inbox,
}

impl Inbox {
    /// Takes a place before the submission, so that no receipt can be too early.
    #[must_use]
    pub fn expect(&self, attempt_id: &str, carrier: &str, asker: Asker) -> Waiter {
        let tray = Tray::empty();
        let sender = Sender { asker, carrier: carrier.to_owned(), tray: Arc::clone(&tray) };
        self.lock().insert(attempt_id.to_owned(), sender);
        Waiter { attempt_id: attempt_id.to_owned(), tray, inbox: self.clone() }
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
        let tray = {
            let waiting = self.lock();
            let sender = waiting.get(&echo.attempt_id);
            let sender = sender.filter(|sender| sender.carrier == receipt.carrier);
            sender.map(|sender| Arc::clone(&sender.tray))
        };
        let Some(tray) = tray else { return false };
        let (done, durable) = oneshot::channel();
        tray.put(HeldReceipt { receipt: receipt.clone(), done }) && durable.await.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Sender>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// The next receipt, if it is there already.
    pub fn first(&mut self) -> Option<HeldReceipt> {
        self.tray.take()
    }

    /// The next receipt, if one comes within `wait`.
    pub async fn next(&mut self, wait: Duration) -> Option<HeldReceipt> {
        let news = async {
            loop {
                if let Some(receipt) = self.tray.take() {
                    return receipt;
                }
                self.tray.news.notified().await;
            }
        };
        tokio::time::timeout(wait, news).await.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.inbox.lock();
        // Another carrier may have taken the message over meanwhile.
        if waiting.get(&self.attempt_id).is_some_and(|own| Arc::ptr_eq(&own.tray, &self.tray)) {
            waiting.remove(&self.attempt_id);
        }
        drop(waiting);
        self.tray.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Asker, Inbox};
    use crate::carriers::{Echo, Fate, Receipt};

    fn receipt() -> Receipt {
        Receipt {
            hint: None,
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
        let mut waiter = inbox.expect("att", "simulated-sms", Asker::Request);
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

    #[tokio::test]
    async fn only_the_carrier_that_has_the_submission_is_heard() {
        let inbox = Inbox::default();
        let mut waiter = inbox.expect("att", "another", Asker::Request);
        assert!(!inbox.offer(&receipt()).await);
        assert!(waiter.first().is_none());
    }

    #[tokio::test]
    async fn what_a_sender_has_not_taken_goes_the_other_way_when_it_leaves() {
        let inbox = Inbox::default();
        let waiter = inbox.expect("att", "simulated-sms", Asker::Nobody);
        let offer = || {
            let inbox = inbox.clone();
            tokio::spawn(async move { inbox.offer(&receipt()).await })
        };
        let offers: Vec<_> = (0..=super::OFFERS).map(|_| offer()).collect();
        while !offers.iter().any(tokio::task::JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
        assert_eq!(offers.iter().filter(|offer| offer.is_finished()).count(), 1, "one too many");
        drop(waiter);
        for offer in offers {
            assert!(!offer.await.unwrap());
        }
        assert!(inbox.is_empty());
    }
}
