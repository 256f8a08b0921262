//! The simulated mail relay of the sandbox: every address works, and those of one domain script
//! what happens by the part before the `@`.

use clock::Clock;
use email::Address as Mailbox;
use futures_util::future::BoxFuture;

use super::script::{Step, failure, step};
use super::{Channel, THROTTLED, ToCome, WINDOW, bring, name};
use crate::carriers::mailboxes::ReceivedMail;
use crate::carriers::{
    Address, Carrier, Content, Door, Fate, Mail, Mailboxes, Outbound, Outcome, Pace, Refusal,
};
use crate::kit::heavy::{self, Bench};
use crate::kit::id::MailId;
use crate::kit::seal::hex;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The domain whose addresses script an outcome, and that every account of the sandbox may write
/// from.
pub const DOMAIN: &str = "sandbox.estafette.test";

/// What an address scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// The relay takes it, then a report says that there is no such mailbox.
    Bounced,
    /// The relay takes it, then a report says that the mailbox is full.
    Full,
    /// The relay refuses the recipient at once.
    Rejected,
    /// The relay refuses the message at once.
    Failed,
    /// The relay puts it off at first.
    Deferred,
    /// The relay's answer is lost at first.
    Lost,
    /// It arrives, and the person calls it unwanted.
    Complained,
    /// It is as if it were on the suppression list.
    Suppressed,
}

/// What an address scripts, if anything: `bounced@` and `bounced+label@` alike.
pub(in crate::carriers) fn script_of(to: &Mailbox) -> Option<Script> {
    if to.domain() != DOMAIN {
        return None;
    }
    let word = to.local().split('+').next().unwrap_or_default();
    Some(match word.to_ascii_lowercase().as_str() {
        "bounced" => Script::Bounced,
        "full" => Script::Full,
        "rejected" => Script::Rejected,
        "failed" => Script::Failed,
        "deferred" => Script::Deferred,
        "lost" => Script::Lost,
        "complained" => Script::Complained,
        "suppressed" => Script::Suppressed,
        _ => return None,
    })
}

const DELIVERED: &[Step] = &[step(0, Fate::Delivered)];
const BOUNCED: &[Step] = &[failure(0, Refusal::BadRecipient, "550 5.1.1 no such user")];
const FULL: &[Step] = &[failure(0, Refusal::Undelivered, "552 5.2.2 mailbox full")];

/// The simulated relay.
pub struct SimulatedMail {
    clock: Clock,
    door: Door,
    mailboxes: Mailboxes,
    seen: Mutex<HashMap<String, u8>>,
    bench: Bench,
    /// The last large message, as it was read: its other recipients get the same.
    last: Mutex<Option<(Weak<Vec<u8>>, ReceivedMail)>>,
}

impl SimulatedMail {
    /// A relay that delivers to these mailboxes and brings its receipts to `door`.
    #[must_use]
    pub fn new(clock: Clock, door: Door, mailboxes: Mailboxes) -> Self {
        let (seen, last) = (Mutex::default(), Mutex::default());
        Self { clock, door, mailboxes, seen, bench: Bench::new(), last }
    }

    /// Whether it is the first submission of this attempt.
    fn is_first(&self, attempt_id: &str) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() > THROTTLED {
            seen.clear();
        }
        if seen.remove(attempt_id).is_some() {
            return false;
        }
        seen.insert(attempt_id.to_owned(), 1);
        true
    }

    /// A message as its recipient sees it; `None` when it is none.
    fn read(&self, mail: &Mail, to: &Mailbox) -> Option<ReceivedMail> {
        let (id, now) = (MailId::new(&self.clock).into(), self.clock.now());
        if !heavy::is_large(mail.message.len()) || !mail.front.is_empty() {
            let whole = [mail.front.as_slice(), &mail.message].concat();
            return ReceivedMail::of(id, to.as_str(), &whole, now);
        }
        let this = Arc::downgrade(&mail.message);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((message, read)) = &*last
            && message.ptr_eq(&this)
        {
            let recipient = to.as_str().to_owned();
            return Some(ReceivedMail { id, recipient, received_at: now.0, ..read.clone() });
        }
        let read = ReceivedMail::of(id, to.as_str(), &mail.message, now)?;
        *last = Some((this, read.clone()));
        Some(read)
    }

    async fn hand_over(&self, message: &Outbound, to: &Mailbox) {
        let Content::Email(mail) = &message.content else { return };
        let read = self.bench.work(mail.message.len(), || self.read(mail, to)).await;
        let Some(received) = read else {
            return tracing::warn!(attempt = message.attempt_id, "an email that cannot be read");
        };
        // A mailbox that is out of order does not change what the relay says.
        if let Err(error) = self.mailboxes.deliver(&message.account_id, to, &received).await {
            tracing::warn!(%error, attempt = message.attempt_id, "not shown in the mailbox");
        }
    }

    async fn act(&self, message: &Outbound) -> Outcome {
        let refused = |class, code: &str| Outcome::Refused { class, code: code.to_owned() };
        let Address::Email(to) = &message.to else {
            return refused(Refusal::BadRecipient, "no_address");
        };
        let script = script_of(to);
        let mut random = [0_u8; 12];
        self.clock.fill(&mut random);
        let provider_id = format!("sim.{}", hex(&random));
        let receipts = match script {
            Some(Script::Rejected) => {
                return refused(Refusal::BadRecipient, "550 5.1.1 no such user");
            }
            Some(Script::Failed) => return refused(Refusal::Permanent, "554 5.7.1 not wanted"),
            Some(Script::Deferred) if self.is_first(&message.attempt_id) => {
                return refused(Refusal::Temporary, "451 4.7.1 come back later");
            }
            Some(Script::Lost) if self.is_first(&message.attempt_id) => return Outcome::Unknown,
            Some(Script::Bounced) => BOUNCED,
            Some(Script::Full) => FULL,
            _ => DELIVERED,
        };
        if receipts.iter().any(|step| step.fate == Fate::Delivered) {
            self.hand_over(message, to).await;
        }
        let carrier = name(Channel::Email);
        let (provider, steps) = (provider_id.as_str(), receipts);
        let to_come = ToCome { carrier, provider_id: provider, steps, answer: None };
        bring(&self.clock, &self.door, message, to_come);
        Outcome::Accepted { provider_id }
    }
}

impl Carrier for SimulatedMail {
    fn name(&self) -> &str {
        name(Channel::Email)
    }

    /// It refuses single addresses, by their script.
    fn pace(&self) -> Pace {
        Pace { window: WINDOW / 4, per_s: None, backs_off: false }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(self.act(message))
    }
}
