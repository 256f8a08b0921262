//! The simulated carriers of the sandbox: every number works, and its last four digits script what
//! happens. Receipts come through the same door as everybody's.

mod mail;
mod script;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use clock::Clock;
use futures_util::future::BoxFuture;

use super::handsets::Received;
use super::{
    Carrier, Channel, Content, Door, Echo, Fate, Handsets, Inbound, Outbound, Outcome, Pace,
    QuickReply, Receipt, Refusal, cloud_api,
};
use crate::kit::id::{HandsetMessageId, HandsetReplyId};
use crate::kit::msisdn::Msisdn;
use crate::kit::task;
use script::{Answer, Step, ending};

pub(super) use mail::script_of;
pub use mail::{DOMAIN, Script, SimulatedMail};
pub use script::Rehearsed;

/// Most throttled numbers remembered; beyond that the memory starts afresh.
const THROTTLED: usize = 10_000;
/// The sender of messages that name none.
const NOBODY: &str = "estafette";
/// Submissions under way at the same time.
const WINDOW: usize = 256;

const fn name(channel: Channel) -> &'static str {
    match channel {
        Channel::Chatapp => "simulated-chatapp",
        Channel::Sms => "simulated-sms",
        Channel::Email => "simulated-email",
    }
}

/// The refusal that a number scripts, where there is one.
pub(super) fn rehearsed(to: &Msisdn) -> Option<Rehearsed> {
    script::rehearsed(to.ending())
}

/// The quick replies under a message.
fn replies(message: &Outbound) -> &[QuickReply] {
    match &message.content {
        Content::Template { replies, .. } | Content::Question { replies, .. } => replies,
        Content::Passcode { .. } | Content::Text { .. } | Content::Email(_) => &[],
    }
}

/// One simulated carrier.
pub struct Simulated {
    channel: Channel,
    clock: Clock,
    door: Door,
    handsets: Handsets,
    throttled: Mutex<HashMap<String, u8>>,
}

impl Simulated {
    /// A carrier for one channel, bringing its receipts to `door`.
    #[must_use]
    pub fn new(channel: Channel, clock: Clock, door: Door, handsets: Handsets) -> Self {
        Self { channel, clock, door, handsets, throttled: Mutex::default() }
    }

    /// Whether this submission is one of the two that are throttled before one is taken.
    fn is_throttled(&self, attempt_id: &str) -> bool {
        let mut throttled = self.throttled.lock().unwrap_or_else(PoisonError::into_inner);
        if throttled.len() > THROTTLED {
            throttled.clear();
        }
        let seen = throttled.entry(attempt_id.to_owned()).or_default();
        *seen += 1;
        let again = *seen <= 2;
        if !again {
            throttled.remove(attempt_id);
        }
        again
    }

    async fn hand_over(&self, message: &Outbound, to: &Msisdn) {
        let code = match &message.content {
            Content::Passcode { code, .. } => Some(code.expose().to_owned()),
            Content::Template { .. }
            | Content::Question { .. }
            | Content::Text { .. }
            | Content::Email(_) => None,
        };
        let replies = replies(message);
        let payloads = replies.iter().filter(|reply| !reply.payload.is_empty());
        let received = Received {
            id: HandsetMessageId::new(&self.clock).into(),
            channel: self.channel.as_str(),
            sender: if message.sender.is_empty() { NOBODY } else { &message.sender }.into(),
            text: message.content.text().map(|text| text.expose().to_owned()).unwrap_or_default(),
            code,
            buttons: replies.iter().map(|reply| reply.label.clone()).collect(),
            payloads: payloads.map(|reply| reply.payload.clone()).collect(),
            received_at: self.clock.now(),
        };
        // A phone that is out of order does not change what its carrier says.
        if let Err(error) = self.handsets.deliver(&message.account_id, to.e164(), received).await {
            tracing::warn!(%error, attempt = message.attempt_id, "not shown on the handset");
        }
    }

    /// What the person says to a prompt, if their number scripts it.
    fn answer(&self, message: &Outbound) -> Option<Inbound> {
        let to = message.to.phone()?;
        let replies = replies(message);
        let is_prompt = replies.iter().any(|reply| !reply.payload.is_empty());
        let answer = script::answer(to.ending()).filter(|_| is_prompt)?;
        let (text, button) = match answer {
            Answer::Button(place) => {
                let reply = replies.get(place)?;
                (reply.label.clone(), Some(reply.payload.clone()))
            }
            Answer::Text(text) => (text.to_owned(), None),
        };
        let id = HandsetReplyId::new(&self.clock).as_str().to_owned();
        let raw = serde_json::json!({
            "id": id, "channel": self.channel.as_str(), "from": to.e164(), "text": text,
            "payload": button,
        });
        Some(Inbound {
            carrier: name(self.channel).to_owned(),
            upstream_id: id,
            channel: self.channel,
            account_id: Some(message.account_id.clone()),
            sender: to.e164().to_owned(),
            recipient: NOBODY.to_owned(),
            text,
            is_words: true,
            button,
            context: None,
            received_at: self.clock.now(),
            raw,
        })
    }

    async fn act(&self, message: &Outbound) -> Outcome {
        let Some(to) = message.to.phone() else {
            let code = "no_phone".to_owned();
            return Outcome::Refused { class: Refusal::BadRecipient, code };
        };
        // The real one reads what tenants write, and so does this one.
        if self.channel == Channel::Chatapp
            && !matches!(message.content, Content::Passcode { .. })
            && let Some(code) = cloud_api::refuses(message, to.e164())
        {
            return Outcome::Refused { class: Refusal::Permanent, code };
        }
        let ending = ending(self.channel, to.ending());
        if ending.throttled_first && self.is_throttled(&message.attempt_id) {
            let class = Refusal::Throttled { after_ms: 50 };
            return Outcome::Refused { class, code: "130429".to_owned() };
        }
        if let Some(code) = ending.refused {
            return Outcome::Refused { class: Refusal::Unreachable, code: code.to_owned() };
        }
        let mut random = [0_u8; 12];
        self.clock.fill(&mut random);
        let provider_id = format!("sim.{}", crate::kit::seal::hex(&random));
        if ending.arrives {
            self.hand_over(message, to).await;
        }
        let to_come = ToCome {
            carrier: name(self.channel),
            provider_id: &provider_id,
            steps: ending.receipts,
            answer: self.answer(message),
        };
        bring(&self.clock, &self.door, message, to_come);
        if ending.answer_lost { Outcome::Unknown } else { Outcome::Accepted { provider_id } }
    }
}

/// Receipts to come, and what the person says then.
struct ToCome<'a> {
    carrier: &'static str,
    provider_id: &'a str,
    steps: &'static [Step],
    answer: Option<Inbound>,
}

/// Brings what a script says, in the background, as a carrier would.
fn bring(clock: &Clock, door: &Door, message: &Outbound, to_come: ToCome<'_>) {
    let ToCome { carrier, provider_id, steps, answer } = to_come;
    if steps.is_empty() {
        return;
    }
    let (clock, door) = (clock.clone(), door.clone());
    let receipt = Receipt {
        hint: None,
        carrier: carrier.to_owned(),
        echo: Some(Echo {
            account_id: message.account_id.clone(),
            attempt_id: message.attempt_id.clone(),
        }),
        provider_id: Some(provider_id.to_owned()),
        fate: Fate::Sent,
        error: None,
    };
    task::spawn(async move {
        let start = clock.now();
        for step in steps {
            if step.after_ms > 0 {
                clock.sleep_until(start + step.after_ms).await;
            }
            // Real upstreams bring a receipt again until it is acknowledged.
            for _ in 0..20 {
                let error = step.error.map(str::to_owned);
                let news = Receipt { fate: step.fate, error, ..receipt.clone() };
                if door.receipt(news).await.is_ok() {
                    break;
                }
                clock.tick(500).await;
            }
        }
        if let Some(answer) = answer {
            // A handset that cannot answer now does not answer later.
            let _lost = door.inbound(vec![answer]).await;
        }
    });
}

impl Carrier for Simulated {
    fn name(&self) -> &str {
        name(self.channel)
    }

    /// It throttles single numbers, by their script.
    fn pace(&self) -> Pace {
        Pace { window: WINDOW, per_s: None, backs_off: false }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(self.act(message))
    }
}
