//! Ids as types of their own, so that a key's id cannot be passed for a challenge's.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $crate::kit::posted::PathPart for $name {
            fn read(part: String) -> Result<Self, $crate::kit::problem::Problem> {
                Self::parse(&part).ok_or($crate::kit::problem_code::Code::NotFound.into())
            }
        }

        impl $name {
            /// The part before the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A new one.
            #[must_use]
            pub fn new(clock: &clock::Clock) -> Self {
                Self(clock.id(Self::PREFIX))
            }

            /// A new one that is above another, also where the clock says otherwise.
            #[must_use]
            pub fn above(clock: &clock::Clock, floor: &Self) -> Self {
                Self::of(clock.uuid_above(floor.uuid()))
            }

            /// The one of this UUID.
            #[must_use]
            pub fn of(uuid: uuid::Uuid) -> Self {
                Self(clock::typeid(Self::PREFIX, uuid))
            }

            /// Less than every one that is made from `at` on, and more than all before: a bound for
            /// rows by age, and no id itself.
            #[must_use]
            pub fn bound(at: clock::Millis) -> Self {
                let unix_ms = u128::try_from(at.0).unwrap_or(0);
                Self::of(uuid::Uuid::from_u128(unix_ms << 80))
            }

            /// Reads one from outside; `None` when it is not well formed.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                clock::typeid_uuid(Self::PREFIX, text).map(|_| Self(text.to_owned()))
            }

            /// One that comes from our own database.
            #[must_use]
            pub fn stored(text: String) -> Self {
                Self(text)
            }

            /// The instant in it (UUID version 7, RFC 9562 §5.7).
            #[must_use]
            pub fn time(&self) -> clock::Millis {
                let unix_ms = self.uuid().as_u128() >> 80;
                clock::Millis(i64::try_from(unix_ms).unwrap_or(0))
            }

            /// The UUID inside.
            #[must_use]
            pub fn uuid(&self) -> uuid::Uuid {
                clock::typeid_uuid(Self::PREFIX, &self.0).unwrap_or_default()
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&$name> for store::Val {
            fn from(id: &$name) -> Self {
                Self::from(id.0.as_str())
            }
        }

        impl store::FromVal for $name {
            fn from_val(value: store::Val) -> Option<Self> {
                String::from_val(value).map(Self)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    )* };
}

ids! {
    /// An account: one user in one environment.
    AccountId = "acc";
    /// A user: an email and a password.
    UserId = "usr";
    /// A member of the operator's staff.
    StaffId = "stf";
    /// A login: a portal token as its owner sees it.
    SessionId = "lgn";
    /// An API key.
    KeyId = "key";
    /// A passcode challenge.
    ChallengeId = "otp";
    /// An SMS.
    SmsId = "sms";
    /// An email.
    EmailId = "eml";
    /// An email that the service writes itself.
    NoticeId = "ntc";
    /// A domain that emails come from.
    EmailDomainId = "edm";
    /// An address that an account does not write to.
    SuppressionId = "sup";
    /// An email in a mailbox of the sandbox.
    MailId = "mbx";
    /// A message over the chat-app.
    MessageId = "msg";
    /// What an upstream told us.
    CallbackId = "cbk";
    /// A consent session.
    ConsentId = "ses";
    /// One submission to a carrier.
    AttemptId = "att";
    /// A transfer in the ledger.
    TransferId = "txn";
    /// A price.
    PriceId = "prc";
    /// A sender of SMS.
    SenderId = "snd";
    /// A line of the audit log.
    AuditId = "aud";
    /// Something that happened.
    EventId = "evt";
    /// A webhook target.
    WebhookId = "whk";
    /// An event on its way to a webhook target.
    DeliveryId = "dlv";
    /// A support ticket.
    TicketId = "tkt";
    /// A message in a support ticket.
    TicketMessageId = "tmg";
    /// An attachment of a support ticket.
    FileId = "fil";
    /// A line in the history of a support ticket.
    TicketChangeId = "tch";
    /// An answer that staff keep at hand.
    CannedReplyId = "cnd";
    /// A message that a virtual handset received.
    HandsetMessageId = "hms";
    /// A message that a virtual handset sent.
    HandsetReplyId = "hrp";
    /// A message that a person sent.
    InboundId = "inb";
    /// A request.
    RequestId = "req";
}

#[cfg(test)]
mod tests {
    use super::ChallengeId;
    use clock::{Clock, Millis};

    #[test]
    fn a_bound_lies_between_the_ids_of_before_and_after() {
        let clock = Clock::held(Millis(1_700_000_000_000), 3);
        let before = ChallengeId::new(&clock);
        clock.advance(1);
        let bound = ChallengeId::bound(clock.now());
        let after = ChallengeId::new(&clock);
        assert!(before < bound && bound < after, "{before} {bound} {after}");
    }
}
