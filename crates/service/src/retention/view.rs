//! What an erasure found, as the API shows it and keeps it for repeats.

use endpoints::ToSchema;
use serde::{Deserialize, Serialize};

use super::Erased;

/// What was found and is erased. The same request again finds nothing.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub(super) struct ErasureView {
    /// Passcodes that named the number.
    #[schema(example = 3)]
    pub(super) challenges: u64,
    /// SMS and chat-app messages to the number, and consent sessions with it.
    #[schema(example = 2)]
    pub(super) messages: u64,
    /// Emails to the address.
    #[schema(example = 0)]
    pub(super) emails: u64,
    /// Passcodes and sessions that were open, messages and emails that no carrier had: they are
    /// ended.
    #[schema(example = 1)]
    pub(super) ended: u64,
    /// `Idempotency-Key`s that stood for them.
    #[schema(example = 1)]
    pub(super) idempotency_keys: u64,
    /// Messages that the person sent.
    #[schema(example = 2)]
    pub(super) inbound_notifications: u64,
    /// Messages of support tickets that named the number or the address.
    #[schema(example = 0)]
    pub(super) ticket_messages: u64,
}

impl From<Erased> for ErasureView {
    fn from(erased: Erased) -> Self {
        let Erased { passcodes, sms, emails, chatapp, inbound, ticket_messages } = erased;
        Self {
            challenges: passcodes.challenges,
            messages: sms.messages + chatapp.messages,
            emails: emails.emails,
            ended: passcodes.ended + sms.ended + emails.ended + chatapp.ended,
            idempotency_keys: passcodes.idempotency_keys
                + sms.idempotency_keys
                + emails.idempotency_keys
                + chatapp.idempotency_keys
                + inbound.idempotency_keys,
            inbound_notifications: inbound.messages,
            ticket_messages,
        }
    }
}
