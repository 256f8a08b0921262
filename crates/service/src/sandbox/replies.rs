//! What the person at a virtual handset does: writes a text or taps a button. The message comes in
//! through the same door as a carrier's.

use clock::Millis;
use serde_json::json;
use store::Error;

use crate::app::{Account, App};
use crate::carriers::handsets::Received;
use crate::carriers::{Channel, Handsets, Inbound, NotNow};
use crate::inbound;
use crate::kit::msisdn::Msisdn;
use crate::kit::words::words;

/// The name under which handsets bring messages.
const CARRIER: &str = "handset";
/// To whom a phone writes that got no message yet.
const NOBODY_YET: &str = "estafette";

words! {
    /// A button of a prompt.
    pub(super) enum Button {
        /// Consents.
        Yes = "yes",
        /// Declines.
        No = "no",
    }
}

impl Button {
    /// Its place among the buttons of a prompt.
    const fn place(self) -> usize {
        match self {
            Self::Yes => 0,
            Self::No => 1,
        }
    }
}

/// What the person does.
pub(super) enum Said {
    /// Writes this.
    Text(String),
    /// Taps this button of the last prompt.
    Button(Button),
}

/// A reply of a handset.
pub(super) struct Reply<'a> {
    /// Whose handset.
    pub(super) phone: &'a Msisdn,
    /// The way it goes.
    pub(super) channel: Channel,
    /// What the person does.
    pub(super) said: &'a Said,
    /// Under what it is known: sent again under the same id, it is the same message.
    pub(super) id: &'a str,
    /// When the person did it.
    pub(super) at: Millis,
}

/// Why a phone did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// There is no button to tap.
    #[error("needs a prompt with buttons, and this phone has received none")]
    NoPrompt,
    /// The message could not be stored.
    #[error("the message was not stored")]
    NotNow,
    /// The handset cannot be read.
    #[error(transparent)]
    Db(#[from] Error),
}

impl From<NotNow> for Fault {
    fn from(_: NotNow) -> Self {
        Self::NotNow
    }
}

/// Whether a phone can do that.
///
/// # Errors
/// See [`Fault`].
pub(super) async fn check(
    handsets: &Handsets,
    account: &Account,
    phone: &Msisdn,
    said: &Said,
) -> Result<(), Fault> {
    let Said::Button(button) = said else { return Ok(()) };
    let received = handsets.messages(account.id.as_str(), phone.e164()).await?;
    tapped(&received, *button).map(drop).ok_or(Fault::NoPrompt)
}

/// Makes a phone answer.
///
/// # Errors
/// See [`Fault`].
pub(super) async fn send(
    app: &App,
    handsets: &Handsets,
    account: &Account,
    reply: Reply<'_>,
) -> Result<(), Fault> {
    let Reply { phone, channel, said, id, at } = reply;
    let received = handsets.messages(account.id.as_str(), phone.e164()).await?;
    let (text, payload) = match said {
        Said::Text(text) => (text.clone(), None),
        Said::Button(button) => {
            let (label, payload) = tapped(&received, *button).ok_or(Fault::NoPrompt)?;
            (label, Some(payload))
        }
    };
    let recipient = received
        .iter()
        .find(|message| message.channel == channel.as_str())
        .map(|message| message.sender.clone())
        .or_else(|| account.settings.default_sender.clone())
        .unwrap_or_else(|| NOBODY_YET.to_owned());
    let button = match said {
        Said::Button(button) => Some(button.as_str()),
        Said::Text(_) => None,
    };
    let raw = json!({
        "id": id,
        "channel": channel.as_str(),
        "from": phone.e164(),
        "to": recipient,
        "text": text,
        "button": button,
        "payload": payload,
    });
    let message = Inbound {
        carrier: CARRIER.to_owned(),
        upstream_id: id.to_owned(),
        channel,
        account_id: Some(account.id.as_str().to_owned()),
        sender: phone.e164().to_owned(),
        recipient,
        text,
        is_words: true,
        button: payload,
        context: None,
        received_at: at,
        raw,
    };
    Ok(inbound::take_in(app, &[message]).await?)
}

/// What is written on a button of the last prompt, and what it sends back.
fn tapped(received: &[Received], button: Button) -> Option<(String, String)> {
    let prompt = received.iter().find(|message| !message.payloads.is_empty())?;
    let label = prompt.buttons.get(button.place())?;
    Some((label.clone(), prompt.payloads.get(button.place())?.clone()))
}
