//! Callbacks as the upstream's documentation shows them, one by one, doubled, shuffled and in one
//! body: each has exactly one effect.

use clock::Clock;
use playground::cloud_api::{self, CloudApi};
use serde_json::{Value, json};

use super::faults::Chance;
use super::live::{stored, stories, world};
use super::{read_as, text, told};
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

stories!(examples_have_one_effect_each_however_they_come);

/// Everything that people send, with what is shown of it.
fn messages(person: &str, run: &str) -> Vec<(Value, &'static str)> {
    let one = |number: usize, kind: &str, content: Value| {
        json!({"from": person, "from_user_id": "US.13491208655302741918",
            "id": format!("wamid.EX{run}{number}"), "timestamp": "1749416383", "type": kind,
            kind: content})
    };
    let mut context = one(2, "button", json!({"payload": "order-12", "text": "Suivre"}));
    context["context"] = json!({"from": cloud_api::DISPLAY_NUMBER, "id": "wamid.unknown"});
    let reply = json!({"type": "button_reply", "button_reply": {"id": "b1", "title": "Non merci"}});
    let mut unsupported = one(6, "unsupported", json!({}));
    unsupported["errors"] = json!([{"code": 131_051, "title": "Message type unknown",
        "error_data": {"details": "Message type is currently not supported."}}]);
    let image = json!({"caption": "le colis", "mime_type": "image/jpeg", "sha256": "x", "id": "1"});
    let place = json!({"latitude": 48.85, "longitude": 2.35, "name": "Paris"});
    let file = json!({"filename": "facture.pdf", "mime_type": "application/pdf", "id": "2"});
    let reaction = json!({"message_id": "wamid.unknown", "emoji": "👍"});
    vec![
        (
            one(1, "text", json!({"body": "Does it come in another color?"})),
            "Does it come in another color?",
        ),
        (context, "Suivre"),
        (one(3, "interactive", reply), "Non merci"),
        (one(4, "image", image), "le colis"),
        (one(5, "location", place), "[location]"),
        (unsupported, "[unsupported]"),
        (one(7, "document", file), "[document]"),
        (one(8, "reaction", reaction), "[reaction]"),
    ]
}

/// Statuses of a message, in the order in which they happened.
fn statuses(echo: &Value) -> Vec<Value> {
    let one = |word: &str| {
        json!({"id": "wamid.EXS", "status": word, "timestamp": "1750030073",
            "recipient_id": "16505551234", "recipient_user_id": "US.13491208655302741918",
            "biz_opaque_callback_data": echo})
    };
    let mut sent = one("sent");
    sent["pricing"] = json!({"billable": true, "pricing_model": "PMP", "type": "regular",
        "category": "service"});
    let mut stranger = one("failed");
    stranger["id"] = "wamid.nobodys".into();
    stranger["biz_opaque_callback_data"] = Value::Null;
    stranger["errors"] = json!([{"code": 131_026, "title": "Message undeliverable",
        "message": "Message undeliverable", "error_data": {"details": "Message Undeliverable."},
        "href": "/documentation/business-messaging/whatsapp/support/error-codes"}]);
    vec![sent, one("delivered"), one("read"), stranger]
}

fn change(field: &str, value: Value) -> Value {
    let mut change = json!({"field": field});
    change["value"] = value;
    change
}

/// Everything that is told about people and messages, each as a change of its own.
fn changes(person: &str, run: &str, echo: &Value) -> Vec<Value> {
    let metadata = json!({"display_phone_number": cloud_api::DISPLAY_NUMBER,
        "phone_number_id": cloud_api::PHONE_NUMBER_ID});
    let value = |name: &str, one: Value| {
        change(
            "messages",
            json!({"messaging_product": "whatsapp", "metadata": metadata,
            "contacts": [{"profile": {"name": "Sheena Nelson"}, "wa_id": person}], name: [one]}),
        )
    };
    let said = messages(person, run).into_iter().map(|(message, _)| value("messages", message));
    let statuses = statuses(echo).into_iter().map(|status| value("statuses", status));
    said.chain(statuses)
        .chain([
            change(
                "account_update",
                json!({"event": "ACCOUNT_RESTRICTION", "restriction_info":
            [{"restriction_type": "RESTRICTED_BIZ_INITIATED_MESSAGING", "expiration": "1"}]}),
            ),
            change(
                "phone_number_quality_update",
                json!({"event": "THROUGHPUT_UPGRADE",
            "display_phone_number": "15550783881", "current_limit": "TIER_UNLIMITED"}),
            ),
            change(
                "message_template_quality_update",
                json!({"previous_quality_score": "GREEN",
            "new_quality_score": "YELLOW", "message_template_id": 7,
            "message_template_name": "welcome", "message_template_language": "en-US"}),
            ),
            change(
                "message_template_status_update",
                json!({"event": "REJECTED",
            "message_template_id": 1_689_556_908_129_835_i64, "reason": "INVALID_FORMAT",
            "message_template_name": "abandoned_cart", "message_template_language": "en-US"}),
            ),
            change("a_field_of_tomorrow", json!({"x": [1, {"y": null}]})),
        ])
        .collect()
}

fn body(changes: &[Value]) -> Value {
    json!({"object": "whatsapp_business_account", "entry": [
        {"id": cloud_api::WABA_ID, "time": 1_751_247_548, "changes": changes}]})
}

/// A message of which nothing is known but that the upstream has it, and its echo.
async fn on_its_way(ada: &Tenant<'_>, upstream: &CloudApi) -> (String, Value) {
    let before = upstream.messages().len();
    let sent = text(ada, "0003").await.ok().word("id").to_owned();
    let echo = eventually(async || {
        upstream.messages().get(before).map(|it| it["biz_opaque_callback_data"].clone())
    })
    .await;
    read_as(ada, &sent, "sent").await;
    (sent, echo)
}

async fn examples_have_one_effect_each_however_they_come(world: &World, upstream: &CloudApi) {
    // Each failure names it.
    let seed = u64::try_from(Clock::system().now().0).unwrap();
    let mut chance = Chance::new(seed);
    let ada = world.live_account("ada", 1_000).await;
    let person = phone("0003").trim_start_matches('+').to_owned();
    ada.send(json!({"to": phone("0003"), "delivery_mode": "chatapp"})).await.ok();
    let hello = json!({"type": "text", "text": {"body": "Bonjour"}});
    upstream.write(&phone("0003"), hello).await.unwrap();
    eventually(async || (told(&ada, "chatapp.inbound").await.len() == 1).then_some(())).await;
    let mut expected: Vec<&str> = vec!["Bonjour"];
    for run in ["whole", "doubled", "shuffled", "batched"] {
        let (sent, echo) = on_its_way(&ada, upstream).await;
        let balance = ada.balance().await;
        let all = changes(&person, run, &echo);
        let mut bodies: Vec<Value> = match run {
            "batched" => vec![body(&all), body(&all)],
            _ => all.iter().map(|one| body(std::slice::from_ref(one))).collect(),
        };
        if run != "whole" {
            bodies = bodies.iter().flat_map(|one| [one.clone(), one.clone()]).collect();
        }
        if run == "shuffled" {
            for at in (1..bodies.len()).rev() {
                bodies.swap(at, chance.below(at + 1));
            }
        }
        for body in &bodies {
            upstream.tell(body).await.unwrap();
        }
        eventually(async || (stored(world).await == 0).then_some(())).await;
        expected.extend(messages(&person, run).iter().map(|(_, shown)| *shown));
        expected.sort_unstable();
        let heard = told(&ada, "chatapp.inbound").await;
        let mut said: Vec<&str> =
            heard.iter().map(|data| data["message"].as_str().unwrap()).collect();
        said.sort_unstable();
        assert_eq!(said, expected, "{run}, seed {seed}");
        read_as(&ada, &sent, "read").await;
        let news = told(&ada, "chatapp.status").await;
        let own = news.iter().filter(|data| data["id"] == *sent);
        let statuses: Vec<&str> = own.map(|data| data["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["sent", "delivered", "read"], "{run}, seed {seed}");
        assert_eq!(ada.balance().await, balance, "{run}: it is charged once");
    }
}
