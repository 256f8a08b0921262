//! How replies of handsets are listed, read and told of, and by whom.

use estafette::carriers::handsets::Received;
use estafette::config::Config;
use playground::ReceiverZoo;
use serde_json::json;

use super::{PATH, bring, reply, reply_by_sms, sms_for, texts};
use crate::on_every_engine;
use crate::webhooks::{hook, json_of, like_its_example, visited};
use crate::world::World;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::phone;

on_every_engine!(
    a_reply_reads_as_the_contract_says,
    a_reply_is_told_as_it_is_listed,
    a_provider_is_a_channel,
    a_key_for_the_chatapp_alone_reads_only_that,
    replies_come_in_pages_and_by_filters,
    a_reply_is_sent_once_for_its_key,
    a_button_needs_a_prompt,
    faulty_replies_are_refused,
    an_accounts_handsets_reply_so_often_in_an_hour with few_replies,
);

fn few_replies(config: &mut Config) {
    config.limits.handset_replies_per_hour = 3;
}

async fn a_reply_reads_as_the_contract_says(world: &World) {
    let ada = world.account("ada").await;
    let (ana, text) = (phone("5678"), "Merci \u{1f64f} \"quoted\"");
    ada.send(json!({"to": ana, "delivery_mode": "sms"})).await.ok();
    let taken = reply_by_sms(&ada, &ana, text).await;
    assert_eq!(taken.body, json!({"accepted": true, "channel": "sms"}));
    let list = ada.get(PATH).await.ok();
    assert_eq!(list.list().len(), 1);
    let row = &list.list()[0];
    let id = row["id"].as_str().unwrap();
    assert!(is_id("inb", id), "{id}");
    for name in ["received_at", "created_at"] {
        assert!(is_instant(row[name].as_str().unwrap()), "{row}");
    }
    let expected = json!({
        "id": id, "provider": "svc", "channel": "sms", "sender": ana, "recipient": "estafette",
        "message": text, "received_at": row["received_at"], "created_at": row["created_at"],
    });
    assert_eq!(row, &expected);
    let one = ada.get(&format!("{PATH}/{id}")).await.ok();
    let raw_json = one.word("raw_json");
    let expected = json!({
        "id": id, "provider": "svc", "channel": "sms", "sender": ana, "message": text,
        "created_at": row["created_at"], "raw_json": raw_json,
    });
    assert_eq!(one.body, expected);
    let raw: serde_json::Value = serde_json::from_str(raw_json).unwrap();
    assert_eq!((&raw["text"], &raw["from"]), (&json!(text), &json!(ana)));
    assert_eq!(ada.desk("GET", PATH).await.ok().body, list.body, "the portal reads the same");
    ada.get(&format!("{PATH}/inb_01kdv00000000000000000000z")).await.problem("not_found");
    ada.get(&format!("{PATH}/none")).await.problem("not_found");
    world.get(ada.env, PATH).await.problem("missing_credentials");
}

async fn a_reply_is_told_as_it_is_listed(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    hook(&ada, &zoo.url("/ok"), &["sms.inbound"]).await;
    for text in ["Thank you", "STOP", "start"] {
        reply_by_sms(&ada, &phone("5678"), text).await;
    }
    reply(&ada, &phone("5678"), json!({"text": "not by SMS"})).await.ok();
    let mut told: Vec<_> = visited(&zoo, "/ok", 3).await.iter().map(json_of).collect();
    told.sort_by_key(|event| event["id"].as_str().unwrap().to_owned());
    like_its_example(&told[0]);
    let rows = ada.get(&format!("{PATH}?provider=ngh")).await.ok();
    for (event, row) in told.iter().zip(rows.list().iter().rev()) {
        let mut plain = event["data"].clone();
        let plain = plain.as_object_mut().unwrap();
        assert_eq!(plain.remove("sequence"), Some(json!(1)));
        let keyword = plain.remove("opt_out");
        let expected = match row["message"].as_str().unwrap() {
            "STOP" => Some(json!(true)),
            "start" => Some(json!(false)),
            _ => None,
        };
        assert_eq!(keyword, expected, "{event}");
        assert_eq!(json!(plain), *row);
    }
    let events = ada.get("/v1/events?type=sms.inbound").await.ok();
    let mut listed = events.list().to_vec();
    listed.reverse();
    assert_eq!(listed, told, "what is read is what was pushed, and three of them");
}

async fn a_provider_is_a_channel(world: &World) {
    let ada = world.account("ada").await;
    reply_by_sms(&ada, &phone("5678"), "by SMS").await;
    let by_default = reply(&ada, &phone("5678"), json!({"text": "by chat-app"})).await.ok();
    assert_eq!(by_default.word("channel"), "chatapp");
    for (query, expected) in [
        ("?provider=ngh", vec!["sms"]),
        ("?provider=chatapp", vec!["chatapp"]),
        ("?provider=svc", vec!["chatapp", "sms"]),
        ("", vec!["chatapp", "sms"]),
    ] {
        let page = ada.get(&format!("{PATH}{query}")).await.ok();
        let channels: Vec<_> = page.list().iter().map(|row| row["channel"].clone()).collect();
        assert_eq!(json!(channels), json!(expected), "{query}");
        assert!(page.list().iter().all(|row| row["provider"] == "svc"));
    }
    let wrong = ada.get(&format!("{PATH}?provider=twilio")).await.problem("invalid_request");
    assert_eq!(wrong.item("?provider").as_deref(), Some("invalid_enum"));
    let events = ada.get("/v1/events?type=chatapp.inbound").await.ok();
    assert_eq!(events.list()[0]["data"]["message"], "by chat-app");
}

async fn a_key_for_the_chatapp_alone_reads_only_that(world: &World) {
    let ada = world.account("ada").await;
    reply_by_sms(&ada, &phone("5678"), "by SMS").await;
    reply(&ada, &phone("5678"), json!({"text": "by chat-app"})).await.ok();
    let all = ada.get(PATH).await.ok();
    let id = |at: usize| all.list()[at]["id"].as_str().unwrap().to_owned();
    let (chatapp, sms) = (id(0), id(1));
    let narrow = ada.new_key("narrow", &["chatapp:receive"]).await.word("api_key").to_owned();
    let read = |rest: &str| world.get(ada.env, &format!("{PATH}{rest}")).key(&narrow);
    for rest in ["", "?provider=ngh", "?provider=svc", &format!("/{sms}")] {
        let refused = read(rest).await.problem("insufficient_scope");
        assert!(refused.word("detail").contains("account:read"), "{}", refused.text);
    }
    assert_eq!(read("?provider=chatapp").await.ok().list().len(), 1);
    read(&format!("/{chatapp}")).await.ok();
    // What a list needs is taken with one as well.
    read(&format!("/{chatapp}?provider=chatapp")).await.ok();
    read(&format!("/{sms}?provider=chatapp")).await.problem("not_found");
    ada.get(&format!("{PATH}/{sms}?provider=ngh")).await.ok();
    for (scopes, is_open) in [
        (&["account:read"][..], true),
        (&["account:read", "chatapp:receive"], true),
        (&["sms:send", "otp:send"], false),
    ] {
        let key = ada.new_key("other", scopes).await.word("api_key").to_owned();
        let answer = world.get(ada.env, PATH).key(&key).await;
        if is_open {
            assert_eq!(answer.ok().list().len(), 2, "{scopes:?}");
        } else {
            answer.problem("insufficient_scope");
        }
    }
}

async fn replies_come_in_pages_and_by_filters(world: &World) {
    let ada = world.account("ada").await;
    let (ana, ben) = (phone("5678"), phone("5679"));
    for number in 0..7 {
        let from = if number % 2 == 0 { &ana } else { &ben };
        reply_by_sms(&ada, from, &format!("{number}")).await;
        world.clock().advance(1_000);
    }
    let path = format!("{PATH}?limit=3&sender={}", ana.replace('+', "%2B"));
    let seen = ada.pages(&path).await;
    let seen: Vec<&str> = seen.iter().map(|row| row["message"].as_str().unwrap()).collect();
    assert_eq!(seen, ["6", "4", "2", "0"]);
    let all = ada.get(PATH).await.ok();
    let created = |at: usize| all.list()[at]["created_at"].as_str().unwrap().to_owned();
    let between = format!("{PATH}?since={}&until={}", created(5), created(2));
    let page = ada.get(&between).await.ok();
    assert_eq!(page.body, json!(all.list()[3..=5]), "from `since` on, before `until`");
    assert_eq!(ada.get(&format!("{PATH}?recipient=estafette")).await.ok().list().len(), 7);
    assert!(ada.get(&format!("{PATH}?recipient=other")).await.ok().list().is_empty());
    for bad in ["since=yesterday", "until=1"] {
        let name = bad.split('=').next().unwrap();
        let wrong = ada.get(&format!("{PATH}?{bad}")).await.problem("invalid_request");
        assert!(wrong.item(&format!("?{name}")).is_some(), "{}", wrong.text);
    }
    ada.get(&format!("{PATH}?cursor=x")).await.problem("invalid_cursor");
}

async fn a_reply_is_sent_once_for_its_key(world: &World) {
    let ada = world.account("ada").await;
    let send = |text: &str| {
        let body = json!({"text": text, "channel": "sms"});
        reply(&ada, &phone("5678"), body).header("idempotency-key", "one")
    };
    let first = send("hello").await.ok();
    assert_eq!(first.head("idempotent-replayed"), "");
    let again = send("hello").await.ok();
    assert_eq!((again.head("idempotent-replayed"), &again.body), ("true", &first.body));
    send("another").await.problem("idempotency_key_reused");
    assert_eq!(texts(&ada).await, ["hello"]);
    // Without a key, people may well say the same twice.
    reply_by_sms(&ada, &phone("5678"), "hello").await;
    assert_eq!(texts(&ada).await, ["hello", "hello"]);
}

async fn a_button_needs_a_prompt(world: &World) {
    let ada = world.account("ada").await;
    let ana = phone("5678");
    ada.send_to(&ana).await.ok();
    let tap = || reply(&ada, &ana, json!({"button": "no"}));
    let refused = tap().await.fault("/button", "invalid_enum");
    assert!(refused.word("detail").contains("received none"), "{}", refused.text);
    assert!(texts(&ada).await.is_empty());
    let prompt = Received {
        id: "hms_7zzzzzzzzzzzzzzzzzzzzzzzzz".to_owned(),
        channel: "chatapp",
        sender: "Boutique".to_owned(),
        text: "May we write to you?".to_owned(),
        code: None,
        buttons: vec!["Oui".to_owned(), "Non".to_owned()],
        payloads: vec!["a".to_owned(), "b".to_owned()],
        received_at: world.now(),
    };
    let app = world.app(ada.env).await;
    let handsets = app.carriers.handsets().unwrap();
    handsets.deliver(&ada.account_id, &ana, prompt).await.unwrap();
    tap().await.ok();
    let row = ada.get(PATH).await.ok().list()[0].clone();
    assert_eq!((&row["message"], &row["recipient"]), (&json!("Non"), &json!("Boutique")));
}

async fn faulty_replies_are_refused(world: &World) {
    let ada = world.account("ada").await;
    let ana = phone("5678");
    let long = "x".repeat(4_097);
    for (body, pointer, item) in [
        (json!({}), "/text", "required"),
        (json!({"text": ""}), "/text", "too_short"),
        (json!({"text": long}), "/text", "too_long"),
        (json!({"text": "a\u{0}b"}), "/text", "invalid_type"),
        (json!({"text": 7}), "/text", "invalid_type"),
        (json!({"text": "yes", "button": "yes"}), "/button", "invalid_enum"),
        (json!({"button": "maybe"}), "/button", "invalid_enum"),
        (json!({"button": "yes", "channel": "sms"}), "/button", "invalid_enum"),
        (json!({"text": "x", "channel": "email"}), "/channel", "invalid_enum"),
        (json!({"text": "x", "colour": "red"}), "/colour", "unknown_field"),
    ] {
        reply(&ada, &ana, body).await.fault(pointer, item);
    }
    reply(&ada, "12", json!({"text": "x"})).await.problem("invalid_request");
    assert!(texts(&ada).await.is_empty());
    let live = ada.on_live().await;
    reply(&live, &ana, json!({"text": "x"})).await.problem("route_not_found");
    bring(world, &[sms_for(&ada, "1", &ana, "the longest is taken")]).await.unwrap();
    reply_by_sms(&ada, &ana, &long[1..]).await;
    assert_eq!(texts(&ada).await.len(), 2);
}

async fn an_accounts_handsets_reply_so_often_in_an_hour(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    for last in ["5670", "5671", "5672"] {
        reply_by_sms(&ada, &phone(last), "hi").await;
    }
    let more = || reply(&ada, &phone("5673"), json!({"text": "hi", "channel": "sms"}));
    more().header("Idempotency-Key", "one").await.problem("rate_limited");
    more().header("Idempotency-Key", "one").await.problem("rate_limited");
    assert_eq!(ada.get(PATH).await.ok().list().len(), 3);
    reply_by_sms(&eve, &phone("5670"), "hi").await;
}
