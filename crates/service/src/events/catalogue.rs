//! The catalogue of events: every kind with its meaning and an example. The OpenAPI document, the
//! names that webhooks may ask for, and the test event are made from it.

use crate::kit::described::described;
use crate::kit::words::words;
use serde_json::{Value, json};

words! {
    /// What kind of thing happened.
    pub enum Kind {
        /// A passcode's status changed.
        OtpStatus = "otp.status",
        /// A budget of unverified passcodes is used up.
        OtpFraud = "otp.fraud",
        /// An SMS's status changed.
        SmsDelivery = "sms.delivery",
        /// An SMS came in.
        SmsInbound = "sms.inbound",
        /// A chat-app message's status changed.
        ChatappStatus = "chatapp.status",
        /// A chat-app message or button came in.
        ChatappInbound = "chatapp.inbound",
        /// A consent session changed.
        ChatappConsent = "chatapp.consent",
        /// An email's status changed.
        EmailDelivery = "email.delivery",
        /// A support ticket has a new message.
        SupportMessage = "support.message",
        /// A support ticket changed.
        SupportTicket = "support.ticket",
        /// A webhook target was disabled.
        WebhookDisabled = "webhook.disabled",
        /// Somebody tries a webhook target.
        WebhookTest = "webhook.test",
    }
}

impl Kind {
    /// When it happens, in a sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::OtpStatus => "A passcode was sent, delivered, verified, expired or failed.",
            Self::OtpFraud => {
                "Too few of the passcodes to a country or a range of numbers are verified."
            }
            Self::SmsDelivery => "The delivery status of an SMS changed.",
            Self::SmsInbound => "Somebody sent an SMS to a number of the account.",
            Self::ChatappStatus => "A chat-app message was sent, delivered, read or failed.",
            Self::ChatappInbound => "Somebody replied on the chat-app, with text or a button.",
            Self::ChatappConsent => "A consent session was opened, declined, ended or failed.",
            Self::EmailDelivery => {
                "The delivery status of an email changed for one of its recipients."
            }
            Self::SupportMessage => "Somebody wrote in a support ticket.",
            Self::SupportTicket => {
                "A support ticket was opened, changed its status, assignee or priority, was rated \
                 or merged, or one of its targets is near or missed."
            }
            Self::WebhookDisabled => "A webhook target of the account was disabled.",
            Self::WebhookTest => {
                "Somebody asked for a test of this webhook target; only it is told."
            }
        }
    }

    /// The `data` of an example: the object as its endpoint shows it, and what the event adds.
    #[must_use]
    pub fn example(self) -> Value {
        match self {
            Self::OtpStatus => otp_status(),
            Self::OtpFraud => otp_fraud(),
            Self::SmsDelivery => sms_delivery(),
            Self::SmsInbound => inbound("sms", "Thank you"),
            Self::ChatappStatus => chatapp_status(),
            Self::ChatappInbound => chatapp_inbound(),
            Self::ChatappConsent => chatapp_consent(),
            Self::EmailDelivery => email_delivery(),
            Self::SupportMessage => support_message(),
            Self::SupportTicket => support_ticket(),
            Self::WebhookDisabled => webhook_disabled(),
            Self::WebhookTest => json!({
                "webhook_id": "whk_01kdvqh7e8fzsrxcf7mmwb7n3a",
                "message": "This is a test. Nothing happened.",
                "test": true,
                "sequence": 1,
            }),
        }
    }

    /// The whole JSON of the example.
    #[must_use]
    pub fn example_event(self) -> Value {
        json!({
            "id": "evt_01kdvqh7gp2b4rz9k8ynxm5t6c",
            "type": self.as_str(),
            "timestamp": "2026-01-01T00:00:01.750Z",
            "account_id": "acc_01kdvqh5zr8pq4rfm2v7c6x9da",
            "data": self.example(),
        })
    }
}

fn otp_status() -> Value {
    json!({
        "challenge_id": "otp_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "channel": "chatapp",
        "provider": "svc",
        "to": "+33612345678",
        "reference": "signup-4711",
        "status": "delivered",
        "provider_message_id": "sim.4f1d2c7a90be3358d16a07c2",
        "attempts": 0,
        "max_attempts": 5,
        "expires_at": "2026-01-01T00:05:00.000Z",
        "verified_at": null,
        "created_at": "2026-01-01T00:00:00.000Z",
        "sequence": 2,
    })
}

fn otp_fraud() -> Value {
    json!({
        "country": null,
        "prefix": "+3361234",
        "window": "hour",
        "sent": 12,
        "verified": 1,
        "budget": 3,
        "action": "watched",
        "sequence": 1_767_225_600_000_i64,
    })
}

fn sms_delivery() -> Value {
    json!({
        "id": "sms_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "status": "undelivered",
        "to": "+33612345678",
        "sender": "Estafette",
        "reference": "order-4711",
        "segments": 1,
        "encoding": "gsm7",
        "charged_credits": 8,
        "created_at": "2026-01-01T00:00:00.000Z",
        "error": {
            "code": "undelivered",
            "detail": "The network could not deliver the message.",
            "carrier_code": "UNDELIV",
        },
        "updated_at": "2026-01-01T00:00:01.500Z",
        "sequence": 2,
    })
}

fn inbound(channel: &str, message: &str) -> Value {
    json!({
        "id": "inb_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "provider": "svc",
        "channel": channel,
        "sender": "+33612345678",
        "recipient": "+33757000000",
        "message": message,
        "received_at": "2026-01-01T00:00:01.000Z",
        "created_at": "2026-01-01T00:00:01.250Z",
        "sequence": 1,
    })
}

fn chatapp_status() -> Value {
    json!({
        "id": "msg_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "channel": "chatapp",
        "provider": "svc",
        "billing_mode": "direct",
        "to": "33612345678",
        "country": "FR",
        "status": "read",
        "template": "order_update",
        "language": "fr",
        "billing_kind": "utility",
        "charged_credits": 3,
        "session_id": null,
        "created_at": "2026-01-01T00:00:00.000Z",
        "sequence": 4,
    })
}

fn chatapp_inbound() -> Value {
    let mut data = inbound("chatapp", "Yes");
    if let Some(data) = data.as_object_mut() {
        data.insert("button".to_owned(), "yes".into());
    }
    data
}

fn chatapp_consent() -> Value {
    json!({
        "id": "ses_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "recipient": "+33612345678",
        "country": "FR",
        "consent_status": "yes",
        "status": "active",
        "billed_credits": 10,
        "expires_at": "2026-01-02T00:00:01.500Z",
        "consent_at": "2026-01-01T00:00:01.500Z",
        "reason": "consent_given",
        "sequence": 2,
    })
}

fn email_delivery() -> Value {
    let recipient = json!({
        "address": "ada@example.com",
        "status": "bounced",
        "error": { "code": "mailbox_unavailable", "detail": "550 5.1.1 no such user" },
    });
    json!({
        "id": "eml_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "status": "bounced",
        "from_email": "shop@example.com",
        "to": ["ada@example.com"],
        "cc": [],
        "bcc": [],
        "reply_to": null,
        "subject": "Your order",
        "reference": "order-4711",
        "size_bytes": 1_234,
        "charged_credits": 1,
        "recipients": [recipient],
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:01.500Z",
        "recipient": recipient,
        "sequence": 2,
    })
}

fn support_message() -> Value {
    json!({
        "id": "tmg_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "ticket_id": "tkt_01kdvqh6m4e5s8w2t9zb3y7n1a",
        "seq": 2,
        "sender_type": "admin",
        "message": "We have looked into it.",
        "client_message_id": null,
        "attachments": [],
        "created_at": "2026-01-01T00:00:01.500Z",
        "sequence": 1,
    })
}

fn support_ticket() -> Value {
    json!({
        "id": "tkt_01kdvqh6m4e5s8w2t9zb3y7n1a",
        "subject": "No receipts since noon",
        "category": "delivery",
        "priority": "high",
        "status": "resolved",
        "assignee": "stf_01kdvqh6m4e5s8w2t9zb3y7n1d",
        "last_seq": 4,
        "read_seq": 3,
        "rating": null,
        "merged_into": null,
        "follows": null,
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:01.750Z",
        "resolved_at": "2026-01-01T00:00:01.750Z",
        "closed_at": null,
        "reason": "status",
        "sequence": 3,
    })
}

fn webhook_disabled() -> Value {
    json!({
        "id": "whk_01kdvqh7e8fzsrxcf7mmwb7n3a",
        "url": "https://hooks.example.com/estafette",
        "events": ["otp.status"],
        "active": false,
        "disabled_reason": "failing",
        "disabled_at": "2026-01-01T00:00:01.750Z",
        "failing_since": "2025-12-27T00:00:01.750Z",
        "last_success_at": "2025-12-26T21:10:44.016Z",
        "created_at": "2025-11-30T08:15:12.402Z",
        "reason": "failing",
        "sequence": 1,
    })
}

described!(
    Kind as "EventType": "What kind of thing happened.",
    Self::ALL.iter().map(|kind| kind.as_str())
);

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn every_kind_has_a_name_of_two_words_and_an_example_with_a_sequence() {
        for kind in Kind::ALL {
            let word = kind.as_str();
            let parts: Vec<&str> = word.split('.').collect();
            assert_eq!(parts.len(), 2, "{word}");
            let is_plain = |part: &&str| part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(parts.iter().all(is_plain), "{word}");
            assert_eq!(word.parse(), Ok(*kind));
            assert!(kind.example()["sequence"].is_u64(), "{word}");
            assert!(kind.meaning().ends_with('.'), "{word}");
        }
    }

    #[test]
    fn no_example_holds_a_passcode() {
        for kind in Kind::ALL {
            assert!(kind.example().get("code").is_none(), "{}", kind.as_str());
        }
    }
}
