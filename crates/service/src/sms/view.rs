//! What the API and events show of a message.

use clock::Millis;
use endpoints::ToSchema;
use futures_util::future::BoxFuture;
use serde::Serialize;
use store::Error;

use super::{Cause, Encoding, Message, Status, store as sql};
use crate::app::{App, EventRef};
use crate::dispatch::recipients::shown;
use crate::kit::id::SmsId;

/// An SMS, as its send is answered.
#[derive(Serialize, ToSchema)]
pub(super) struct SentSms {
    /// Its id.
    #[schema(example = "sms_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// Where it stands.
    status: Status,
    /// The recipient, E.164; empty once it is forgotten.
    #[schema(example = "+33612345678")]
    to: String,
    /// The sender as the recipient sees it; null = the carrier's own (sandbox only).
    #[schema(required = true, example = "Estafette")]
    sender: Option<String>,
    /// Yours.
    #[schema(required = true, example = "order-4711")]
    reference: Option<String>,
    /// Segments: what is charged for.
    #[schema(minimum = 1, maximum = 10, example = 1)]
    segments: i64,
    /// The alphabet that its text needs.
    encoding: Encoding,
    /// What it costs: held until a carrier has it, then charged; 0 once it cost nothing.
    #[schema(example = 8)]
    charged_credits: i64,
    /// When it was taken.
    #[schema(format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    created_at: String,
}

/// An SMS as it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct SmsMessage {
    #[serde(flatten)]
    sms: SentSms,
    /// Why it did not arrive; else null.
    #[schema(required = true)]
    error: Option<SmsError>,
    /// When its status changed last.
    #[schema(format = DateTime, example = "2026-01-01T00:00:01.500Z")]
    updated_at: String,
}

/// Why an SMS did not arrive.
#[derive(Serialize, ToSchema)]
pub(super) struct SmsError {
    /// Stable, for programs.
    code: Cause,
    /// For people.
    #[schema(example = "The network could not deliver the message.")]
    detail: &'static str,
    /// The carrier's own word, where it said one: for support.
    #[schema(required = true, example = "UNDELIV")]
    carrier_code: Option<String>,
}

impl From<Message> for SentSms {
    fn from(message: Message) -> Self {
        Self {
            id: message.id.into(),
            status: message.status,
            to: shown(message.recipient),
            sender: (!message.sender.is_empty()).then_some(message.sender),
            reference: message.reference,
            segments: message.segments,
            encoding: message.encoding,
            charged_credits: message.charged_credits,
            created_at: message.created_at.to_string(),
        }
    }
}

impl From<Message> for SmsMessage {
    fn from(mut message: Message) -> Self {
        let error = message.cause.map(|cause| SmsError {
            code: cause,
            detail: cause.sentence(),
            carrier_code: message.carrier_code.take(),
        });
        Self { error, updated_at: message.updated_at.to_string(), sms: message.into() }
    }
}

/// What was so at an event, in words that [`as_of`] reads. The carrier's code comes last, because
/// it may hold anything.
pub(super) fn state_of(message: &Message) -> String {
    let (cause, code) = (message.cause.map_or("-", Cause::as_str), message.carrier_code.as_deref());
    let Millis(updated_at) = message.updated_at;
    let (status, charged) = (message.status.as_str(), message.charged_credits);
    format!("{status} {charged} {updated_at} {cause} {}", code.unwrap_or_default())
}

/// The message as `state` says. Without it (somebody was erased): as it stands now.
fn as_of(message: Message, state: &str) -> Message {
    let mut words = state.splitn(5, ' ');
    let mut word = || words.next().unwrap_or_default();
    let Ok(status) = word().parse() else { return message };
    Message {
        status,
        charged_credits: word().parse().unwrap_or_default(),
        updated_at: Millis(word().parse().unwrap_or_default()),
        cause: word().parse().ok(),
        carrier_code: Some(word().to_owned()).filter(|code| !code.is_empty()),
        ..message
    }
}

/// A message as its endpoint shows it now.
pub(super) fn json(message: &Message) -> Option<String> {
    serde_json::to_string(&SmsMessage::from(message.clone())).ok()
}

/// A message as its endpoint shows it, as of an event.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = SmsId::parse(news.object_id) else { return Ok(None) };
        let found = sql::message(app, news.account, &id).await?;
        Ok(found.and_then(|message| json(&as_of(message, news.state))))
    })
}
