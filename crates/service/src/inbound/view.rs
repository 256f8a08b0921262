//! What a list and an event show of a message.

use endpoints::ToSchema;
use futures_util::future::BoxFuture;
use serde::Serialize;
use store::{Error, args};

use super::Notification;
use super::store as sql;
use crate::app::{App, EventRef};
use crate::kit::id::InboundId;
use crate::kit::keywords::Keyword;

/// The provider of every message, in the neutral word of the API.
pub(super) const PROVIDER: &str = "svc";

/// A message that a person sent.
#[derive(Serialize, ToSchema)]
pub(super) struct InboundNotification {
    /// Its id.
    #[schema(example = "inb_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    pub(super) id: String,
    /// Always `svc`.
    #[schema(example = "svc")]
    pub(super) provider: &'static str,
    /// `chatapp` or `sms`.
    #[schema(value_type = crate::carriers::Channel)]
    pub(super) channel: &'static str,
    /// Who wrote.
    #[schema(example = "+33612345678")]
    pub(super) sender: String,
    /// The number or name that was written to.
    #[schema(example = "+33757000000")]
    pub(super) recipient: String,
    /// What they wrote.
    #[schema(example = "Thank you")]
    pub(super) message: String,
    /// When the carrier received it.
    #[schema(format = DateTime, example = "2026-01-01T00:00:01.000Z")]
    pub(super) received_at: String,
    /// When it came in here.
    #[schema(format = DateTime, example = "2026-01-01T00:00:01.250Z")]
    pub(super) created_at: String,
}

impl From<Notification> for InboundNotification {
    fn from(row: Notification) -> Self {
        Self {
            id: row.id.into(),
            provider: PROVIDER,
            channel: row.channel.as_str(),
            sender: row.sender,
            recipient: row.recipient,
            message: row.message,
            received_at: row.received_at.to_string(),
            created_at: row.created_at.to_string(),
        }
    }
}

/// What the tap of a button can mean.
const BUTTONS: [&str; 3] = ["yes", "no", "did_not_request_code"];

/// The data of an event.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    notification: InboundNotification,
    /// Whether the message is STOP (true) or START (false); left out where it is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    opt_out: Option<bool>,
    /// The answer to a consent prompt, `yes` or `no`, or `did_not_request_code` under a passcode;
    /// left out where it is none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    button: Option<&'static str>,
}

/// A message as lists show it, with what its event adds.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = InboundId::parse(news.object_id) else { return Ok(None) };
        let found: Option<Notification> = app.db.row(sql::BY_ID, args![news.account, &id]).await?;
        let opt_out = news.state.parse().ok().map(|keyword: Keyword| keyword == Keyword::Stop);
        let button = BUTTONS.into_iter().find(|word| *word == news.state);
        let told = found.map(|row| Told { notification: row.into(), opt_out, button });
        Ok(told.and_then(|told| serde_json::to_string(&told).ok()))
    })
}
