//! An inbound message: the common shape into which every driver turns its upstream's format.

use clock::Millis;
use serde_json::Value;

use super::Channel;

/// A message that a person sent. No `Debug`: it holds what they wrote.
#[derive(Clone)]
pub struct Inbound {
    /// The name of the carrier that brings it.
    pub carrier: String,
    /// The carrier's id of the message: brought again under the same one, it is the same message.
    /// Empty where the carrier has none; then what it says and when stands for it.
    pub upstream_id: String,
    /// The way it came.
    pub channel: Channel,
    /// Whose it is, where the carrier knows: the phones of the sandbox belong to one account.
    pub account_id: Option<String>,
    /// Who wrote: `+` and digits where the carrier says that the number is international, else as
    /// the carrier has it (short codes, names).
    pub sender: String,
    /// The number or name that was written to.
    pub recipient: String,
    /// What they wrote, whole.
    pub text: String,
    /// Whether these are their words, and not the name of something else that they sent.
    pub is_words: bool,
    /// The payload of the button that they tapped, if they did.
    pub button: Option<String>,
    /// The carrier's id of the message that it answers, if it says so.
    pub context: Option<String>,
    /// When the carrier received it. What lies ahead of our clock counts as now.
    pub received_at: Millis,
    /// The payload as the carrier brought it, for whoever looks into a complaint.
    pub raw: Value,
}

/// A message of a phone as a network brings it that gives it no id: in parts, and again until it is
/// acknowledged. No `Debug`: it holds what they wrote.
#[derive(Clone)]
pub struct InboundPart {
    /// The message, with the text of this part.
    pub message: Inbound,
    /// What the parts of one message share, besides sender and recipient.
    pub reference: String,
    /// Which part it is, from 1.
    pub number: u8,
    /// How many there are.
    pub total: u8,
}
