//! The chat-app live: the Cloud API over HTTP, on connections that are kept. One carrier serves
//! all numbers ([`numbers`]); which one sends is a matter of the account. What goes over the wire
//! is `crates/cloud-api`'s; here is who sends it, and what an answer means to the lane. An answer
//! that is lost is never asked for again: the upstream knows no idempotency, so only a status
//! tells.
//!
//! Callbacks are taken in elsewhere (`chatapp/upstream`), because they are stored first.

mod gate;
mod numbers;
mod pairs;
mod wire;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cloud_api::answer::{self, Answer, Class};
use cloud_api::business::{self, Declared, Deleted};
use futures_util::future::BoxFuture;
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::binds::Load;
use super::{Carrier, Content, Door, Outbound, Outcome, Pace, Refusal};
use crate::config;
use crate::kit::outgoing::{NoAnswer, Outgoing, Rules};

use gate::{Health, Wait, Who, Why};
use wire::Names;

pub(super) use wire::refuses;

pub use numbers::{Number, Numbers};

/// Its name, in attempts and for the operator.
pub const NAME: &str = "cloud-api";
/// Time for name, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(4);
/// The longest that the upstream is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the others wait when the upstream throttles, milliseconds.
const THROTTLED_MS: u64 = 1_000;
/// The longest that a passcode waits for its turn; then SMS is faster.
const PATIENT_MS: u64 = 2_000;
/// Submissions under way at the same time, of all numbers: room for many whose business account
/// hangs.
const WINDOW: usize = 1_024;
/// The languages in which a business account has the deployment's own templates.
pub const LANGUAGES: [&str; 2] = ["fr", "en"];
/// What of a template is asked for.
const FIELDS: &str = "id,name,language,status,category,rejected_reason";
/// What it is made of.
const PARTS: &str = ",components,message_send_ttl_seconds";
/// Templates on a page: an answer of so many is read whole.
const PAGE: usize = 50;
/// Longest cursor that is sent back, bytes.
const LONGEST_CURSOR: usize = 1_024;

/// Which templates of a business account are listed.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Those of one name.
    pub name: Option<&'a str>,
    /// Those in one language.
    pub language: Option<&'a str>,
    /// Those behind an earlier page.
    pub after: Option<&'a str>,
    /// With what they are made of.
    pub has_parts: bool,
}

/// Why a business account cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotOpen {
    /// It does not answer.
    #[error(transparent)]
    Silent(#[from] NoAnswer),
    /// By the upstream, with its code.
    #[error("error {0}")]
    Refused(String),
}

/// The way to the Cloud API.
pub struct CloudApi {
    outgoing: Outgoing,
    numbers: Numbers,
    settings: config::Chatapp,
    /// Where its callbacks go.
    door: Door,
    /// See [`Self::doubtful`].
    doubtful: Mutex<BTreeSet<String>>,
}

impl CloudApi {
    /// By the settings, which may name no number: accounts can be linked to their own.
    ///
    /// # Errors
    /// What of the settings cannot be used.
    pub fn new(settings: &config::Chatapp, door: Door) -> Result<Self, String> {
        // The operator's own address, wherever it leads.
        let everywhere = ["0.0.0.0/0", "::/0"].into_iter().filter_map(|net| net.parse().ok());
        let rules = Rules {
            allow_http: settings.base_url.starts_with("http://"),
            allow_networks: everywhere.collect(),
            dns_server: None,
            connect_timeout: CONNECT,
            timeout: PATIENCE,
            // A page of templates is longer than what is kept for people to look at.
            keeps_bodies: true,
        };
        Ok(Self {
            outgoing: Outgoing::new(rules, None)?,
            numbers: Numbers::new(Number::of(settings, 0)?),
            settings: settings.clone(),
            door,
            doubtful: Mutex::default(),
        })
    }

    /// Where what its callbacks tell is taken in.
    #[must_use]
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// The numbers that send.
    #[must_use]
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    async fn act(&self, message: &Outbound) -> Outcome {
        let Some(to) = message.to.phone() else {
            return refused(Refusal::BadRecipient, "no_phone");
        };
        let Some(number) = self.numbers.of(&message.account_id) else {
            return refused(Refusal::Temporary, "no_number");
        };
        let echo = echo(&message.account_id, &message.attempt_id);
        let names =
            Names { otp: &self.settings.otp_template, consent: &self.settings.consent_template };
        let Some(body) = wire::body(message, to.e164(), &echo, names) else {
            return refused(Refusal::Permanent, "email");
        };
        let is_passcode = matches!(message.content, Content::Passcode { .. });
        let is_own = names.is_own_passcode(&message.content);
        let to = digits(to.e164());
        let who = Who { account: &message.account_id, to, is_passcode };
        let gate = number.gate();
        let place = match gate.enter(who) {
            Ok(place) => place,
            Err(wait) => return held_back(wait, is_passcode),
        };
        place.turn().await;
        let (outcome, health) =
            match number.send(&self.outgoing, Bytes::from(body.to_string())).await {
                Ok(answer) => outcome(&answer::decode(answer.status, &answer.body)),
                Err(failure) => lost(&failure),
            };
        let is_template = matches!(outcome, Outcome::Refused { class: Refusal::Template, .. });
        // What an account wrongly asks for says nothing of what the deployment has.
        if is_own && is_template {
            self.doubt(&number.waba_id);
        }
        if gate.note(to, health) {
            tell_of(&number, health, &outcome);
        }
        outcome
    }

    /// Declares a template for an account that has this number.
    pub async fn declare(&self, number: &Number, body: &Value) -> Declared {
        match number.declare(&self.outgoing, Bytes::from(body.to_string())).await {
            Ok(answer) => business::read_declared(answer.status, &answer.body),
            Err(failure) => match lost(&failure).0 {
                Outcome::Refused { code, .. } => {
                    Declared::Refused { class: Class::Temporary, code, detail: String::new() }
                }
                _ => Declared::Unclear,
            },
        }
    }

    /// A page of a business account's templates; `None` = the upstream does not say.
    pub async fn list(&self, number: &Number, wanted: Wanted<'_>) -> Option<business::Page> {
        let Wanted { name, language, after, has_parts } = wanted;
        // Names and languages are of letters that a query may have as they are.
        let name = name.map(|name| format!("&name={name}")).unwrap_or_default();
        let language = language.map(|it| format!("&language={it}")).unwrap_or_default();
        let after = after.filter(|after| after.len() <= LONGEST_CURSOR);
        let after = after.map(|it| format!("&after={}", utf8_percent_encode(it, NON_ALPHANUMERIC)));
        let (parts, after) = (if has_parts { PARTS } else { "" }, after.unwrap_or_default());
        let query = format!("?fields={FIELDS}{parts}&limit={PAGE}{name}{language}{after}");
        let answer = number.list(&self.outgoing, &query).await.ok()?;
        business::read_page(answer.status, &answer.body)
    }

    /// Whether a number's token opens its business account. Nothing is sent or changed.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn probe(&self, number: &Number) -> Result<(), NotOpen> {
        let answer = number.list(&self.outgoing, "?fields=name&limit=1").await?;
        match answer::decode(answer.status, &answer.body) {
            Answer::Refused(why) => Err(NotOpen::Refused(why.code)),
            _ if answer.status < 300 => Ok(()),
            _ => Err(NotOpen::Refused(answer.status.to_string())),
        }
    }

    /// Puts other contents in the place of a template's.
    ///
    /// # Errors
    /// Why they are not there, or may not be.
    pub async fn edit(&self, number: &Number, id: &str, body: &Value) -> Result<(), String> {
        if id.is_empty() || !id.bytes().all(|it| it.is_ascii_digit()) {
            return Err("its id is no number".to_owned());
        }
        let answer = number.edit(&self.outgoing, id, Bytes::from(body.to_string())).await;
        let answer = answer.map_err(|failure| failure.to_string())?;
        business::read_edited(answer.status, &answer.body)
    }

    /// The business accounts whose own templates are in doubt, each once.
    #[must_use]
    pub fn doubtful(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.doubtful.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a business account's own templates may not be what they should be.
    pub fn doubt(&self, waba_id: &str) {
        let mut doubted = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
        if !doubted.contains(waba_id) {
            doubted.insert(waba_id.to_owned());
        }
    }

    /// Deletes a template in one language.
    pub async fn delete(&self, number: &Number, id: &str, name: &str) -> Deleted {
        let is_plain = |text: &str| {
            text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') && !text.is_empty()
        };
        if !is_plain(id) || !is_plain(name) {
            return Deleted::Missing;
        }
        match number.delete(&self.outgoing, &format!("?hsm_id={id}&name={name}")).await {
            Ok(answer) => business::read_deleted(answer.status, &answer.body),
            Err(_) => Deleted::Unclear,
        }
    }
}

/// Our ids, as they come back on every status.
#[must_use]
pub fn echo(account_id: &str, attempt_id: &str) -> String {
    format!("{account_id} {attempt_id}")
}

/// The ids in what came back.
#[must_use]
pub fn read_echo(echo: &str) -> Option<super::Echo> {
    let (account_id, attempt_id) = echo.split_once(' ')?;
    let (account_id, attempt_id) = (account_id.to_owned(), attempt_id.to_owned());
    Some(super::Echo { account_id, attempt_id })
}

/// What a class of the upstream's errors is to whoever sends.
#[must_use]
pub const fn refusal(class: Class) -> Refusal {
    match class {
        Class::Unreachable => Refusal::Unreachable,
        Class::BadRecipient => Refusal::BadRecipient,
        Class::WindowClosed => Refusal::WindowClosed,
        Class::OptedOut => Refusal::OptedOut,
        Class::Template => Refusal::Template,
        Class::Throttled => Refusal::Throttled { after_ms: THROTTLED_MS },
        // The pair is throttled, or the number: not the lane.
        Class::PairThrottled | Class::Temporary | Class::Sender => Refusal::Temporary,
        Class::Suppressed | Class::Params | Class::Request => Refusal::Permanent,
    }
}

/// What an answer is to the message, and what it says of the number.
fn outcome(answer: &Answer) -> (Outcome, Health) {
    let it = match answer {
        Answer::Accepted { id } => {
            return (Outcome::Accepted { provider_id: id.clone() }, Health::Well);
        }
        Answer::Refused(it) => it,
        Answer::Unclear => return (Outcome::Unknown, Health::Shaky),
    };
    let health = match it.class {
        Class::Throttled => Health::Throttled,
        Class::PairThrottled => Health::PairThrottled,
        Class::Sender => Health::Barred,
        Class::Temporary => Health::Shaky,
        _ => Health::Well,
    };
    // The number rests, or what it sends to this person: the message waits for that.
    let class = match it.class {
        Class::Throttled | Class::PairThrottled => Refusal::Later { after_ms: THROTTLED_MS },
        class => refusal(class),
    };
    (refused(class, &it.code), health)
}

/// There is no way through now. A passcode does not wait long: SMS takes over.
fn held_back(wait: Wait, is_passcode: bool) -> Outcome {
    let after_ms = u64::try_from(wait.after.as_millis()).unwrap_or(u64::MAX).max(1);
    let is_hopeless = is_passcode && (wait.why == Why::Broken || after_ms > PATIENT_MS);
    let class = if is_hopeless { Refusal::Temporary } else { Refusal::Later { after_ms } };
    let code = match wait.why {
        Why::Broken => "resting",
        Why::Full => "sender_rate",
        Why::Pair => "pair_rate",
    };
    refused(class, code)
}

/// Tells the operator that a number rests.
fn tell_of(number: &Number, health: Health, outcome: &Outcome) {
    let phone_number_id = &number.phone_number_id;
    let code = match outcome {
        Outcome::Refused { code, .. } => code.as_str(),
        _ => "no_answer",
    };
    if health == Health::Barred {
        let what = "the chat-app refuses this number's token or business account; it rests";
        tracing::error!(phone_number_id, code, "{what}");
    } else {
        tracing::warn!(phone_number_id, code, "a number of the chat-app does not work; it rests");
    }
}

/// A number as one; what is none is nobody.
fn digits(e164: &str) -> u64 {
    e164.trim_start_matches('+').parse().unwrap_or_default()
}

/// No answer. Only where no request can have arrived is that a refusal.
fn lost(failure: &NoAnswer) -> (Outcome, Health) {
    match failure {
        NoAnswer::Timeout | NoAnswer::Reset | NoAnswer::Protocol => {
            (Outcome::Unknown, Health::Shaky)
        }
        NoAnswer::NotAllowed(_)
        | NoAnswer::Name(_)
        | NoAnswer::Connect(_)
        | NoAnswer::ConnectTimeout
        | NoAnswer::Tls(_) => (refused(Refusal::Down, failure.as_str()), Health::Down),
    }
}

fn refused(class: Refusal, code: &str) -> Outcome {
    Outcome::Refused { class, code: code.to_owned() }
}

impl Carrier for CloudApi {
    fn name(&self) -> &str {
        NAME
    }

    /// Statuses bring our ids back; what people answer to names the upstream's own.
    fn echoes(&self) -> bool {
        false
    }

    fn pace(&self) -> Pace {
        // Rate and rest are those of each number.
        Pace { window: WINDOW, per_s: None, backs_off: false }
    }

    fn load(&self) -> Load {
        let linked = self.numbers.linked();
        let gates = self.numbers.shared().into_iter().chain(linked.values());
        gates.map(|number| number.gate()).fold(Load::default(), |load, gate| Load {
            is_resting: load.is_resting || gate.is_resting(),
            throttled: load.throttled + gate.throttled(),
            ..load
        })
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(self.act(message))
    }
}

#[cfg(test)]
mod tests {
    use super::{echo, lost, read_echo};
    use crate::carriers::Outcome;
    use crate::kit::outgoing::NoAnswer;

    #[test]
    fn our_ids_come_back() {
        let back = read_echo(&echo("acc_1", "att_2")).unwrap();
        assert_eq!((back.account_id.as_str(), back.attempt_id.as_str()), ("acc_1", "att_2"));
        assert!(read_echo("msg_01J").is_none());
    }

    #[test]
    fn only_what_cannot_have_arrived_is_a_refusal() {
        for failure in [NoAnswer::Timeout, NoAnswer::Reset, NoAnswer::Protocol] {
            assert_eq!(lost(&failure).0, Outcome::Unknown, "{failure}");
        }
        for failure in [NoAnswer::ConnectTimeout, NoAnswer::Tls(None), NoAnswer::Name("x".into())] {
            assert!(matches!(lost(&failure).0, Outcome::Refused { .. }), "{failure}");
        }
    }
}
