//! What the API and events show of a message.

use clock::Millis;
use endpoints::ToSchema;
use futures_util::future::BoxFuture;
use serde::Serialize;
use store::Error;

use super::{BillingKind, BillingMode, Cause, Message, Status, store as sql};
use crate::app::{App, EventRef};
use crate::chatapp::PROVIDER;
use crate::dispatch::recipients::shown;
use crate::kit::id::MessageId;

/// A chat-app message.
#[derive(Serialize, ToSchema)]
pub(super) struct ChatappMessage {
    /// Its id.
    #[schema(example = "msg_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// Always `chatapp`.
    #[schema(example = "chatapp")]
    channel: &'static str,
    /// Always `svc`.
    #[schema(example = "svc")]
    provider: &'static str,
    /// How it is paid.
    billing_mode: BillingMode,
    /// The recipient, digits without a plus; empty once it is forgotten.
    #[schema(example = "33612345678")]
    to: String,
    /// The recipient's country, ISO 3166.
    #[schema(example = "FR")]
    country: String,
    /// Where it stands.
    status: Status,
    /// The template; null for a text.
    #[schema(required = true, example = "order_update")]
    template: Option<String>,
    /// The template's language; null for a text.
    #[schema(required = true, example = "fr")]
    language: Option<String>,
    /// What the price is of.
    billing_kind: BillingKind,
    /// What it costs: held until the chat-app has it, then charged; 0 within a session, and once it
    /// failed.
    #[schema(example = 3)]
    charged_credits: i64,
    /// The session that covered it.
    #[schema(required = true, example = "ses_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    session_id: Option<String>,
    /// When it was taken.
    #[schema(format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    created_at: String,
    /// Yours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "order-4711")]
    reference: Option<String>,
    /// Yours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "shop-17")]
    client_id: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ChatappError>,
}

/// Why a chat-app message failed.
#[derive(Serialize, ToSchema)]
pub(super) struct ChatappError {
    /// Stable, for programs.
    code: Cause,
    /// For people.
    #[schema(example = "The recipient cannot be reached on the chat-app.")]
    detail: &'static str,
    /// The carrier's own code, where it said one: for support.
    #[schema(required = true, example = "131026")]
    carrier_code: Option<String>,
}

impl From<Message> for ChatappMessage {
    fn from(message: Message) -> Self {
        let carrier_code = message.carrier_code;
        let error = message.cause.map(|cause| ChatappError {
            code: cause,
            detail: cause.sentence(),
            carrier_code,
        });
        Self {
            id: message.id.into(),
            channel: "chatapp",
            provider: PROVIDER,
            billing_mode: message.billing_mode,
            to: shown(message.recipient).trim_start_matches('+').to_owned(),
            country: message.country,
            status: message.status,
            template: message.template,
            language: message.language,
            billing_kind: message.billing_kind,
            charged_credits: message.charged_credits,
            session_id: message.session.map(Into::into),
            created_at: message.created_at.to_string(),
            reference: message.reference,
            client_id: message.client_id,
            error,
        }
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
    serde_json::to_string(&ChatappMessage::from(message.clone())).ok()
}

/// A message as its endpoint shows it, as of an event.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = MessageId::parse(news.object_id) else { return Ok(None) };
        let found = sql::message(app, news.account, &id).await?;
        Ok(found.and_then(|message| json(&as_of(message, news.state))))
    })
}
