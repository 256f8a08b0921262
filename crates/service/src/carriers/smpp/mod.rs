//! Message centres by SMPP 3.4. A message becomes its parts (`parts`), which go out by a link
//! (`link`) of the binds that this node holds slots for (`bound`); receipts and what phones write
//! come back by the same links (`news`), and are acknowledged once they are durable.

mod bound;
mod link;
mod news;
mod parts;
mod references;
mod verdict;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::smpp::{Lane as Urgency, Link, NotSent, Submission, message_id};
use clock::{Clock, Millis};
use futures_util::future::{BoxFuture, join_all};

use super::binds::{BindLimits, Binds, Load, Presence, Slots};
use super::{Carrier, Content, Door, Outbound, Outcome, Pace, Refusal};
use crate::config::{self, MessageId};
use bound::Bound;
use parts::Part;
use references::References;
use verdict::{NOT_SENT, Verdict};

pub use link::settings as link_settings;

/// How long a passcode waits for the window, the rate, or a link that was lost, milliseconds. Then
/// another carrier takes it, or whoever waits for it is told.
const PASSCODE_PATIENCE_MS: i64 = 5_000;
/// The same of what nobody waits for.
const PATIENCE_MS: i64 = 60_000;

/// Which submission a late answer is about.
#[derive(Clone, Debug)]
struct Key {
    account_id: String,
    attempt_id: String,
    place: Place,
}

/// Where a part is in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is all of it.
    Whole,
    /// Nothing of it is out before, and others follow.
    First,
    /// It follows.
    Rest,
}

/// A message centre.
pub struct Smpp {
    inner: Arc<Inner>,
}

/// What the centre's tasks share.
struct Inner {
    name: String,
    settings: config::Smpp,
    link: ::smpp::LinkSettings,
    clock: Clock,
    door: Door,
    references: References,
    bound: Mutex<Bound>,
}

impl Smpp {
    /// A centre by its settings. Nothing is connected until it holds slots.
    ///
    /// # Errors
    /// The file of authorities cannot be used.
    pub fn new(
        name: &str,
        settings: config::Smpp,
        clock: Clock,
        door: Door,
    ) -> Result<Self, String> {
        let link = link::settings(&settings)?;
        let start = u16::try_from(clock.below(1 << 16)).unwrap_or(0);
        let inner = Inner {
            name: name.to_owned(),
            settings,
            link,
            clock,
            door,
            references: References::begin_at(start),
            bound: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Inner {
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn submit(&self, message: &Outbound) -> Outcome {
        let Some(link) = self.bound().least_busy() else {
            return refused(Refusal::Down, "no_bind");
        };
        let reference = || self.references.next(message.to.as_str());
        let parts = match parts::of(&self.settings, message, reference) {
            Ok(parts) => parts,
            Err((class, code)) => return refused(class, code),
        };
        let [first, rest @ ..] = parts.as_slice() else {
            return refused(Refusal::Permanent, "empty");
        };
        // What is refused is refused with its first part: no half of it arrives.
        let place = if rest.is_empty() { Place::Whole } else { Place::First };
        match self.submit_part(&link, message, first, place).await {
            Verdict::Accepted(provider_id) if place == Place::Whole => {
                Outcome::Accepted { provider_id }
            }
            Verdict::Accepted(id) => self.submit_rest(&link, message, id, rest).await,
            Verdict::Refused(class, code) => Outcome::Refused { class, code },
            Verdict::Unknown => Outcome::Unknown,
        }
    }

    async fn submit_rest(
        &self,
        link: &Link<Key>,
        message: &Outbound,
        first: String,
        rest: &[Part],
    ) -> Outcome {
        let sent = rest.iter().map(|part| self.submit_part(link, message, part, Place::Rest));
        let (mut provider_ids, mut failed, mut is_known) = (vec![first], None, true);
        for verdict in join_all(sent).await {
            match verdict {
                Verdict::Accepted(id) => provider_ids.push(id),
                Verdict::Unknown => {
                    is_known = false;
                    provider_ids.push(String::new());
                }
                Verdict::Refused(class, code) => {
                    // It has no id, and is one of the parts: not all of it can arrive.
                    provider_ids.push(String::new());
                    failed = Some((class, code));
                }
            }
        }
        match failed {
            None if is_known => Outcome::InParts { provider_ids },
            // A receipt of the part would lead nowhere, so nobody would say that all of it arrived.
            None => Outcome::Unknown,
            // All of it goes again: the phone puts together only what came whole.
            Some((class, code)) if class.is_passing() => {
                Outcome::Refused { class: Refusal::Halfway, code }
            }
            // The phone shows nothing of it.
            Some((Refusal::Expired, code)) => Outcome::Refused { class: Refusal::Expired, code },
            Some((_, code)) => {
                self.tell_undelivered(message, code);
                Outcome::InParts { provider_ids }
            }
        }
    }

    async fn submit_part(
        &self,
        link: &Link<Key>,
        message: &Outbound,
        part: &Part,
        place: Place,
    ) -> Verdict {
        let is_passcode = matches!(message.content, Content::Passcode { .. });
        let (lane, patience_ms) = if is_passcode {
            (Urgency::Urgent, PASSCODE_PATIENCE_MS)
        } else {
            (Urgency::Normal, PATIENCE_MS)
        };
        let until = match place {
            // Without it, all that went out before it went out in vain.
            Place::Rest if !is_passcode => message.valid_until,
            _ => message.valid_until.min(self.clock.now() + patience_ms),
        };
        let is_relative = self.settings.validity == config::ValidityForm::Relative;
        let submission = Submission {
            key: Key {
                account_id: message.account_id.clone(),
                attempt_id: message.attempt_id.clone(),
                place,
            },
            owner: message.account_id.clone(),
            operation: ::smpp::Operation::Submit,
            message: part.message.clone(),
            segments: part.segments,
            lane,
            follows: place == Place::Rest,
            expires_at: until,
            valid_until: is_relative.then_some(message.valid_until),
        };
        match link.submit(submission).await {
            // Its own time was over before its turn came, which says nothing of the carrier.
            ::smpp::Outcome::NotSent(NotSent::Expired) if self.now() >= message.valid_until => {
                Verdict::Refused(Refusal::Expired, NOT_SENT.to_owned())
            }
            outcome => Verdict::of(&self.settings, outcome),
        }
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }
}

fn refused(class: Refusal, code: &str) -> Outcome {
    Outcome::Refused { class, code: code.to_owned() }
}

impl Carrier for Smpp {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn echoes(&self) -> bool {
        false
    }

    /// The link keeps the rate, in segments, and pauses when the centre asks for it.
    fn pace(&self) -> Pace {
        let config::Smpp { window, binds, .. } = &self.inner.settings;
        Pace { window: window * binds, per_s: None, backs_off: true }
    }

    fn key_of(&self, provider_id: &str) -> String {
        message_id::key(&provider_id.into())
    }

    fn presence(&self) -> Presence {
        self.inner.bound().presence()
    }

    fn binds(&self) -> Option<&dyn Binds> {
        Some(self)
    }

    fn trouble(&self) -> Option<String> {
        self.inner.bound().trouble()
    }

    fn load(&self) -> Load {
        let window = self.inner.settings.window;
        self.inner.bound().load(window)
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(self.inner.submit(message))
    }
}

impl Binds for Smpp {
    fn limits(&self) -> BindLimits {
        let config::Smpp { binds, max_binds, .. } = &self.inner.settings;
        BindLimits { everywhere: *max_binds, here: *binds }
    }

    fn hold(&self, slots: &Slots) {
        bound::hold(&self.inner, slots);
    }

    fn failing(&self) -> std::collections::BTreeSet<i64> {
        self.inner.bound().failing()
    }

    fn refused(&self) -> std::collections::BTreeSet<i64> {
        self.inner.bound().refused()
    }

    fn is_closed(&self) -> bool {
        self.inner.bound().is_closed()
    }

    fn cut(&self) {
        self.inner.bound().cut();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let links = self.inner.bound().take_all();
        Box::pin(async move {
            join_all(links.iter().map(Link::close)).await;
        })
    }
}

/// How receipts write ids, for the codec.
const fn id_form(message_id: MessageId) -> message_id::IdForm {
    match message_id {
        MessageId::Auto => message_id::IdForm::Auto,
        MessageId::Hex => message_id::IdForm::Hexadecimal,
        MessageId::Decimal => message_id::IdForm::Decimal,
        MessageId::Text => message_id::IdForm::Text,
    }
}

/// What the settings call a form.
const fn word(form: message_id::IdForm) -> &'static str {
    match form {
        message_id::IdForm::Auto => "auto",
        message_id::IdForm::Text => "text",
        message_id::IdForm::Hexadecimal => "hex",
        message_id::IdForm::Decimal => "decimal",
    }
}
