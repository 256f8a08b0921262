//! The chat-app live: the Cloud API over HTTP, on connections that are kept. One carrier serves
//! all numbers ([`numbers`]); which one sends is a matter of the account. What goes over the wire
//! is `crates/cloud-api`'s; here is who sends it, and what an answer means to the lane. An answer
//! that is lost is never asked for again: the upstream knows no idempotency, so only a status
//! tells.
//!
//! Callbacks are taken in elsewhere (`chatapp/upstream`), because they are stored first.

mod numbers;

use std::time::Duration;

use cloud_api::answer::{self, Answer, Class};
use cloud_api::business::{self, Declared};
use cloud_api::message::{Content as Wire, Message, Template, encode};
use futures_util::future::BoxFuture;
use hyper::body::Bytes;
use serde_json::Value;

use super::{Carrier, Content, Outbound, Outcome, Pace, Refusal};
use crate::config;
use crate::kit::outgoing::{NoAnswer, Outgoing, Rules};
use crate::kit::secret::Secret;

pub use numbers::{Number, Numbers};

/// Its name, in attempts and for the operator.
pub const NAME: &str = "cloud-api";
/// Time for name, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(4);
/// The longest that the upstream is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the others wait when the upstream throttles, milliseconds.
const THROTTLED_MS: u64 = 1_000;
/// Messages a second (the upstream's default for one number).
const PER_S: u32 = 80;
/// Submissions under way at the same time, of all numbers.
const WINDOW: usize = 128;
/// What of a template is asked for.
const FIELDS: &str = "fields=id,name,language,status,category,rejected_reason&limit=100";

/// The way to the Cloud API.
pub struct CloudApi {
    outgoing: Outgoing,
    numbers: Numbers,
    settings: config::Chatapp,
}

impl CloudApi {
    /// By the settings, which may name no number: accounts can be linked to their own.
    ///
    /// # Errors
    /// What of the settings cannot be used.
    pub fn new(settings: &config::Chatapp) -> Result<Self, String> {
        // The operator's own address, wherever it leads.
        let everywhere = ["0.0.0.0/0", "::/0"].into_iter().filter_map(|net| net.parse().ok());
        let rules = Rules {
            allow_http: settings.base_url.starts_with("http://"),
            allow_networks: everywhere.collect(),
            dns_server: None,
            connect_timeout: CONNECT,
            timeout: PATIENCE,
        };
        Ok(Self {
            outgoing: Outgoing::new(rules, None)?,
            numbers: Numbers::new(Number::of(settings, 0)?),
            settings: settings.clone(),
        })
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
        let Some(_room) = number.enter() else { return refused(Refusal::Temporary, "resting") };
        let echo = echo(&message.account_id, &message.attempt_id);
        let Some(body) = self.body(message, to.e164(), &echo) else {
            return refused(Refusal::Permanent, "email");
        };
        let sent = number.send(&self.outgoing, body).await;
        match sent {
            Ok(answer) => outcome(&number, &answer::decode(answer.status, &answer.body)),
            Err(failure) => lost(&failure),
        }
    }

    /// Declares a template for an account that has this number.
    pub async fn declare(&self, number: &Number, body: &Value) -> Declared {
        match number.declare(&self.outgoing, Bytes::from(body.to_string())).await {
            Ok(answer) => business::read_declared(answer.status, &answer.body),
            Err(failure) => match lost(&failure) {
                Outcome::Refused { code, .. } => {
                    Declared::Refused { class: Class::Temporary, code, detail: String::new() }
                }
                _ => Declared::Unclear,
            },
        }
    }

    /// A page of a business account's templates, those of one name if it is given; `None` = the
    /// upstream does not say.
    pub async fn list(
        &self,
        number: &Number,
        (name, after): (Option<&str>, Option<&str>),
    ) -> Option<business::Page> {
        // Names and cursors are of letters that a query may have as they are.
        let name = name.map(|name| format!("&name={name}")).unwrap_or_default();
        let is_plain = |text: &&str| text.bytes().all(|it| it.is_ascii_alphanumeric());
        let after = after.filter(is_plain).map(|after| format!("&after={after}"));
        let query = format!("?{FIELDS}{name}{}", after.unwrap_or_default());
        let answer = number.list(&self.outgoing, &query).await.ok()?;
        business::read_page(answer.status, &answer.body)
    }

    /// `None`: it is nothing that a chat shows.
    fn body(&self, message: &Outbound, to: &str, echo: &str) -> Option<Bytes> {
        let named = |name: &'_ str, own: &'_ str| -> String {
            if name.is_empty() { own.to_owned() } else { name.to_owned() }
        };
        let json = match &message.content {
            Content::Text { text, .. } => {
                encode(&Message { to, echo, content: Wire::Text(text.expose()) })
            }
            Content::Passcode { code, template, .. } => {
                let name = named(&template.name, &self.settings.otp_template);
                let (name, language, code) = (name.as_str(), &*template.language, code.expose());
                encode(&Message { to, echo, content: Wire::Passcode { name, language, code } })
            }
            Content::Template { template, params, components, replies, .. } => {
                let params: Vec<&str> = params.iter().map(Secret::expose).collect();
                let payloads: Vec<&str> =
                    replies.iter().map(|reply| reply.payload.as_str()).collect();
                let template = Template {
                    name: &named(&template.name, &self.settings.consent_template),
                    language: &template.language,
                    params: &params,
                    payloads: &payloads,
                    components,
                };
                encode(&Message { to, echo, content: Wire::Template(template) })
            }
            Content::Email(_) => return None,
        };
        Some(Bytes::from(json.to_string()))
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

fn outcome(number: &Number, answer: &Answer) -> Outcome {
    match answer {
        Answer::Accepted { id } => Outcome::Accepted { provider_id: id.clone() },
        // Nothing of this number works. The others go on.
        Answer::Refused(it) if it.class == Class::Sender => {
            number.rest();
            tracing::error!(
                phone_number_id = number.phone_number_id,
                code = it.code,
                "the chat-app refuses this number's token or business account"
            );
            refused(Refusal::Temporary, &it.code)
        }
        Answer::Refused(it) => refused(refusal(it.class), &it.code),
        Answer::Unclear => Outcome::Unknown,
    }
}

/// No answer. Only where no request can have arrived is that a refusal.
fn lost(failure: &NoAnswer) -> Outcome {
    match failure {
        NoAnswer::Timeout | NoAnswer::Reset | NoAnswer::Protocol => Outcome::Unknown,
        NoAnswer::NotAllowed(_)
        | NoAnswer::Name(_)
        | NoAnswer::Connect(_)
        | NoAnswer::ConnectTimeout
        | NoAnswer::Tls(_) => refused(Refusal::Down, failure.as_str()),
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
        Pace { window: WINDOW, per_s: Some(PER_S), backs_off: true }
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
            assert_eq!(lost(&failure), Outcome::Unknown, "{failure}");
        }
        for failure in [NoAnswer::ConnectTimeout, NoAnswer::Tls(None), NoAnswer::Name("x".into())] {
            assert!(matches!(lost(&failure), Outcome::Refused { .. }), "{failure}");
        }
    }
}
