//! What answers show in the description where examples of their fields, put together, would say
//! what never happens: a passcode that is verified and only sent, a key of one name that was made
//! with another. By schema, and by operation where an answer follows from its request.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::events::Kind;

const CHALLENGE: &str = "otp_01kdvqh6m4e5s8w2t9zb3y7n1f";
const CARRIED: &str = "sim.4f1d2c7a90be3358d16a07c2";
const STAFF: &str = "stf_01h455vb4pex5vsknk084sn02q";
const BEGIN: &str = "2026-01-01T00:00:00.000Z";
const LATER: &str = "2026-01-01T00:00:42.000Z";
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// The whole example of a schema.
pub(super) fn whole(schema: &str) -> Option<&'static Value> {
    static ALL: LazyLock<BTreeMap<&'static str, Value>> =
        LazyLock::new(|| passcodes().into_iter().chain(messages()).chain(targets()).collect());
    ALL.get(schema)
}

/// What is otherwise in the example of a schema, or of an operation's answer.
pub(super) fn otherwise(name: &str) -> Option<&'static Value> {
    static ALL: LazyLock<BTreeMap<&'static str, Value>> =
        LazyLock::new(|| schemas().into_iter().chain(operations()).chain(desk()).collect());
    ALL.get(name)
}

/// An example of a part of a path.
pub(super) fn part_of_path(name: &str, operation: &str) -> Option<&'static str> {
    Some(match name {
        "account_id" => "acc_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "address" => "ada@example.com",
        "challenge_id" => CHALLENGE,
        "delivery_id" => "dlv_01kdvqh7gp2b4rz9k8ynxm5t6c",
        "domain_id" => "edm_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "email_id" => "eml_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "event_id" => "evt_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "file_id" => "fil_01h455vb4pex5vsknk084sn02q",
        "key_id" => "key_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "message_id" if operation.contains("chatapp") => "msg_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "message_id" => "sms_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "name" => "order_update",
        "notification_id" => "inb_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "phone" => "+33612345678",
        "reply_id" => "cnd_01h455vb4pex5vsknk084sn02q",
        "sender_id" => "snd_01h455vb4pex5vsknk084sn02q",
        "session_id" if operation.contains("consent") => "ses_01kdvqh6m4e5s8w2t9zb3y7n1f",
        "session_id" => "lgn_01h455vb4pex5vsknk084sn02q",
        "staff_id" => STAFF,
        "ticket_id" => "tkt_01h455vb4pex5vsknk084sn02q",
        "webhook_id" => "whk_01kdvqh7e8fzsrxcf7mmwb7n3a",
        _ => return None,
    })
}

/// Puts members into an example; those of a list into its first.
pub(super) fn merge(example: &mut Value, other: &Value) {
    match (example, other) {
        (Value::Array(items), Value::Object(_)) => {
            if let Some(first) = items.first_mut() {
                merge(first, other);
            }
        }
        (Value::Object(members), Value::Object(others)) => {
            for (name, other) in others {
                merge(members.entry(name).or_insert(Value::Null), other);
            }
        }
        (example, other) => *example = other.clone(),
    }
}

/// The object of an event, without what only the event has, and otherwise.
fn object(kind: Kind, without: &[&str], otherwise: &Value) -> Value {
    let mut object = kind.example();
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, _| name != "sequence" && !without.contains(&name.as_str()));
    }
    merge(&mut object, otherwise);
    object
}

fn passcodes() -> [(&'static str, Value); 5] {
    [
        (
            "SentView",
            json!({
                "challenge_id": CHALLENGE, "channel": "chatapp", "provider": "svc",
                "to": "+33612345678", "reference": "login-42", "status": "sent",
                "provider_message_id": CARRIED, "expires_at": "2026-01-01T00:05:00.000Z",
                "fallback_used": false, "chatapp_available": true,
            }),
        ),
        (
            "ChatappSentView",
            json!({
                "sent": true, "to": "+33612345678", "chatapp_message_id": CARRIED,
                "challenge_id": CHALLENGE, "client_id": null, "reference": "signup-7",
                "provider": "svc",
            }),
        ),
        (
            "VerifiedView",
            json!({
                "verified": true, "challenge_id": CHALLENGE, "status": "verified",
                "verified_at": LATER,
            }),
        ),
        ("ChallengeView", object(Kind::OtpStatus, &[], &json!({ "reference": "login-42" }))),
        ("EventView", Kind::OtpStatus.example_event()),
    ]
}

fn messages() -> [(&'static str, Value); 8] {
    let delivered = json!({ "status": "delivered", "error": null });
    let row = json!({ "otp_challenge_id": CHALLENGE });
    [
        ("SmsMessage", object(Kind::SmsDelivery, &[], &delivered)),
        (
            "ChatappMessage",
            object(
                Kind::ChatappStatus,
                &[],
                &json!({
                    "status": "delivered", "reference": "order-4711", "client_id": "shop-17",
                }),
            ),
        ),
        (
            "EmailView",
            object(
                Kind::EmailDelivery,
                &["recipient"],
                &json!({
                    "status": "delivered", "from_email": "Shop <shop@example.com>",
                    "recipients": delivered,
                }),
            ),
        ),
        ("SessionRow", object(Kind::ChatappConsent, &["reason", "consent_at"], &row)),
        ("SessionDetail", object(Kind::ChatappConsent, &["reason"], &json!({}))),
        (
            "TemplateView",
            json!({
                "name": "order_update", "language": "fr", "category": "UTILITY",
                "status": "APPROVED", "provider_status": "APPROVED",
                "provider_template_id": "1689556908129832", "has_url_button": false,
                "body_param_count": 2,
            }),
        ),
        (
            "BulkResult",
            json!({ "index": 0, "id": "eml_01kdvqh6m4e5s8w2t9zb3y7n1f", "status": "queued" }),
        ),
        (
            "RouteView",
            json!({
                "prefix": "+33", "account_id": null, "class": null, "network": null,
                "max_price": null, "carriers": ["main"],
            }),
        ),
    ]
}

fn targets() -> [(&'static str, Value); 1] {
    [(
        "WebhookView",
        json!({
            "id": "whk_01kdvqh7e8fzsrxcf7mmwb7n3a",
            "url": "https://hooks.example.com/estafette",
            "events": ["otp.status"], "active": true, "disabled_at": null,
            "disabled_reason": null, "failing_since": null, "last_success_at": null,
            "created_at": BEGIN,
        }),
    )]
}

fn schemas() -> [(&'static str, Value); 12] {
    let tried = json!({
        "number": 1, "at": BEGIN, "status": 200, "latency_ms": 48, "response": "ok",
    });
    [
        ("AdminAccountView", json!({ "status": "active", "email_verified": true })),
        ("ProfileView", json!({ "status": "active", "balance_credits": 988 })),
        ("TransferView", json!({ "kind": "hold" })),
        ("CarrierView", json!({ "channel": "sms" })),
        ("TicketChangeView", json!({ "actor_id": STAFF })),
        ("AdminTicketMessageView", json!({ "sender_type": "admin", "sender_id": STAFF })),
        ("TicketMessageView", json!({ "sender_type": "admin" })),
        (
            "LogView",
            json!({
                "actor_kind": "staff", "actor_id": STAFF, "detail": { "status": "suspended" },
                "account_id": "acc_01kdvqh6m4e5s8w2t9zb3y7n1f",
                "object_id": "acc_01kdvqh6m4e5s8w2t9zb3y7n1f",
            }),
        ),
        (
            "DomainView",
            json!({
                "status": "verified", "verified_at": LATER, "checked_at": LATER,
                "records": { "status": "verified" },
            }),
        ),
        ("HandsetMessage", json!({ "channel": "sms", "sender": "Estafette" })),
        (
            "MailboxMessage",
            json!({
                "from": "Shop <shop@sandbox.estafette.test>", "to": ["ada@example.com"],
                "subject": "Your order", "text": "It arrives today at 9.",
                "reply_to": "help@shop.example", "attachments": { "size": 48_211 },
            }),
        ),
        (
            "DeliveryView",
            json!({
                "status": "delivered", "attempts": tried, "created_at": BEGIN,
                "settled_at": "2026-01-01T00:00:00.048Z",
            }),
        ),
    ]
}

fn operations() -> [(&'static str, Value); 14] {
    let waits = json!({ "status": "pending", "settled_at": null, "next_attempt_at": LATER });
    let with = |mut base: Value, other: Value| {
        merge(&mut base, &other);
        base
    };
    [
        ("report_verified", json!({ "status": "verified", "verified_at": LATER })),
        ("send_chatapp_message", json!({ "status": "submitted" })),
        (
            "sync_template",
            json!({
                "status": "APPROVED",
                "message": "The template is approved and ready for delivery.",
            }),
        ),
        (
            "add_domain",
            json!({
                "status": "pending", "verified_at": null, "checked_at": null,
                "records": { "status": "pending", "seen": null },
            }),
        ),
        ("add_suppression", json!({ "reason": "manual" })),
        ("decide_sender", json!({ "status": "approved" })),
        ("decide_senders", json!({ "status": "approved" })),
        ("create_webhook", json!({ "secret": SECRET })),
        ("rotate_webhook_secret", json!({ "secret": SECRET })),
        (
            "test_webhook",
            with(
                waits.clone(),
                json!({ "type": "webhook.test", "attempt_count": 0, "attempts": [] }),
            ),
        ),
        (
            "retry_delivery",
            with(waits, json!({ "attempts": { "status": 503, "response": "busy" } })),
        ),
        ("list_deliveries", json!({ "attempts": { "response": null } })),
        ("recover_webhook", json!({ "since": "2025-12-31T23:00:00.000Z" })),
        (
            "create_api_key",
            json!({ "key": {
                "name": "backend", "key_prefix": "est_test_8GJ0xkq2",
                "scopes": ["otp:send", "otp:verify"],
            }}),
        ),
    ]
}

fn desk() -> [(&'static str, Value); 8] {
    // An hour after the ticket of the example was opened.
    let then = "2026-01-31T13:00:00.000Z";
    let resolved = json!({
        "status": "resolved", "resolved_at": then, "updated_at": then, "assignee": STAFF,
    });
    let rated =
        json!({ "status": "resolved", "resolved_at": then, "updated_at": then, "rating": 5 });
    [
        (
            "staff_login",
            json!({
                "token": "est_at_8GJ0xkq2mZr4Vd1Ws7Ty3Nb6Hc9Lf5Pa", "user": { "id": STAFF },
            }),
        ),
        ("change_ticket", resolved),
        ("rate_ticket", rated),
        ("mark_ticket_read", json!({ "read_seq": 1 })),
        (
            "merge_ticket",
            json!({
                "status": "closed", "closed_at": then, "updated_at": then,
                "merged_into": "tkt_01h455vb4pex5vsknk084sn02p",
            }),
        ),
        ("change_canned_reply", json!({ "title": "Receipts are late today" })),
        (
            "write_ticket_message",
            json!({
                "sender_type": "user", "message": "It works again, thank you.", "attachments": [],
            }),
        ),
        ("upload_ticket_file", json!({ "sender_type": "user", "message": "This is what I see." })),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::{desk, merge, messages, operations, passcodes, schemas, targets};

    #[test]
    fn what_is_shown_is_of_something_that_there_is() {
        let document = super::super::document();
        let mut known: BTreeSet<&str> = BTreeSet::new();
        known.extend(document["components"]["schemas"].as_object().unwrap().keys().map(|k| &**k));
        for item in document["paths"].as_object().unwrap().values() {
            let methods = item.as_object().unwrap().values();
            known.extend(methods.filter_map(|each| each["operationId"].as_str()));
        }
        let all = passcodes().into_iter().chain(messages()).chain(targets());
        let all: Vec<(&str, Value)> =
            all.chain(schemas()).chain(operations()).chain(desk()).collect();
        for (name, _) in &all {
            assert!(known.contains(name), "there is no {name}");
        }
        let names: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), all.len(), "one is shown twice");
    }

    #[test]
    fn members_are_put_into_objects_and_into_the_first_of_a_list() {
        let mut example = json!([{"a": 1, "b": {"c": [2, 3], "d": [{"e": 4}]}}]);
        merge(&mut example, &json!({"b": {"c": [], "d": {"e": 5}}, "f": null}));
        assert_eq!(example, json!([{"a": 1, "b": {"c": [], "d": [{"e": 5}]}, "f": null}]));
    }
}
