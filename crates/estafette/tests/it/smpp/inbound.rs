//! What phones write: in parts, out of order, again, and never to its end.

use ::smpp::{Address, Body, EsmClass, Message, Operation, Pdu};
use estafette::app::Env;
use estafette::carriers::{Channel, Inbound, InboundPart};
use playground::smsc::{IdStyle, Mobile};
use serde_json::{Value, json};

use super::rude::{Manners, Rude, octets};
use super::{Scene, give, scene, sender, settings};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    what_a_phone_writes_comes_in_whole,
    parts_come_in_any_order_again_and_never,
    what_is_known_already_leaves_no_parts,
    parts_of_an_erased_person_are_gone,
    parts_of_a_person_are_gone_from_the_account_that_they_are_erased_from,
    what_is_in_another_alphabet_or_no_text_comes_in_as_well,
    stop_by_sms_is_an_opt_out,
);

/// Brings a part of a message of three to ACME, as a carrier does.
async fn bring(world: &World, reference: &str, number: u8, text: &str) {
    let app = world.app(Env::Live).await;
    let message = Inbound {
        carrier: "main".to_owned(),
        upstream_id: String::new(),
        channel: Channel::Sms,
        account_id: None,
        sender: phone("5678"),
        recipient: "ACME".to_owned(),
        text: text.to_owned(),
        is_words: true,
        button: None,
        context: None,
        received_at: world.now(),
        raw: serde_json::Value::Null,
    };
    let part = InboundPart { message, reference: reference.to_owned(), number, total: 3 };
    estafette::inbound::take_part(&app, &part).await.unwrap();
}

fn write(scene: &Scene<'_>, from: &str, text: &str) {
    let from = from.to_owned();
    let mobile = Mobile { from, to: "ACME".to_owned(), text: text.to_owned() };
    assert!(scene.centre.handsets.write(&mobile));
}

async fn texts(scene: &Scene<'_>) -> Vec<String> {
    let all = scene.ada.get("/v1/inbound-notifications").await.ok();
    all.list().iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect()
}

async fn until(scene: &Scene<'_>, expected: &[&str]) {
    eventually(async || {
        let found = texts(scene).await;
        (found == expected).then_some(())
    })
    .await;
}

async fn what_a_phone_writes_comes_in_whole(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let from = phone("5678");
    write(&scene, &from, "yes");
    until(&scene, &["yes"]).await;
    // Nobody can tell a repeat from what the network brings twice.
    write(&scene, &from, "yes");
    let long = "я".repeat(150);
    write(&scene, &from, &long);
    until(&scene, &[long.as_str(), "yes"]).await;
    world.advance(11 * clock::MINUTE).await;
    write(&scene, &from, "yes");
    until(&scene, &["yes", long.as_str(), "yes"]).await;
    let all = scene.ada.get("/v1/inbound-notifications").await.ok();
    assert_eq!(
        (&all.list()[0]["sender"], &all.list()[0]["recipient"]),
        (&json!(from), &json!("ACME"))
    );
    world.housekeep().await;
    until(&scene, &["yes", long.as_str(), "yes"]).await;
    assert!(crate::erasure::holding(world, &from).await.contains(&"inbound.sender".to_owned()));
    assert!(
        !crate::erasure::holding(world, &from)
            .await
            .iter()
            .any(|at| at.starts_with("inbound_parts"))
    );
}

async fn parts_come_in_any_order_again_and_never(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    for (number, text) in [(3, "c"), (1, "a"), (3, "c"), (2, "b"), (2, "b"), (1, "a")] {
        bring(world, "7", number, text).await;
    }
    until(&scene, &["abc"]).await;
    // The same reference again is another message, whose last part never comes.
    bring(world, "7", 1, "x").await;
    bring(world, "7", 3, "z").await;
    until(&scene, &["abc"]).await;
    world.advance(31 * clock::MINUTE).await;
    world.housekeep().await;
    until(&scene, &["xz", "abc"]).await;
    let all = scene.ada.get("/v1/inbound-notifications").await.ok();
    let path = format!("/v1/inbound-notifications/{}", all.list()[0]["id"].as_str().unwrap());
    let raw = scene.ada.get(&path).await.ok();
    assert!(raw.word("raw_json").contains("\"partial\":true"), "{}", raw.text);
    let events = scene.ada.get("/v1/events?type=sms.inbound").await.ok();
    assert_eq!(events.list().len(), 2);
}

/// Somebody writes the same twice while nobody is bound, and neither comes whole.
async fn what_is_known_already_leaves_no_parts(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    for reference in ["7", "8"] {
        bring(world, reference, 1, "x").await;
    }
    world.advance(31 * clock::MINUTE).await;
    world.housekeep().await;
    until(&scene, &["x"]).await;
    let held = crate::erasure::holding(world, &phone("5678")).await;
    assert!(held.iter().all(|at| !at.starts_with("inbound_parts")), "{held:?}");
    for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
        bring(world, "8", number, text).await;
    }
    until(&scene, &["abc", "x"]).await;
}

async fn what_is_in_another_alphabet_or_no_text_comes_in_as_well(world: &World) {
    let rude = Rude::open(Manners::Good).await;
    let written = |sequence: u32, data_coding: u8, text: &'static [u8]| {
        // SMPP 3.4 §5.2.12: the text begins with a header.
        let esm_class = EsmClass(if text.starts_with(&[5, 0, 3]) { 0x40 } else { 0 });
        let message = Message {
            source: Address { ton: 1, npi: 1, value: phone("5678")[1..].into() },
            destination: Address { ton: 5, npi: 0, value: "ACME".into() },
            esm_class,
            data_coding,
            short_message: text.into(),
            ..Message::default()
        };
        octets(&Pdu::request(sequence, Body::Message(Operation::Deliver, message)))
    };
    let all = [
        written(1, 0x06, b"\xC2\xD5\xE1\xE2"),
        written(2, 0x04, b"\x00\x01\xFF"),
        written(3, 0xF4, b"STOP"),
        // A pair that is cut between two parts.
        written(4, 0x08, b"\x05\x00\x03\x07\x02\x01\x00a\xD8\x3D"),
        written(5, 0x08, b"\x05\x00\x03\x07\x02\x02\xDE\x00\x00b"),
    ];
    rude.begin_with(all.concat());
    let ada = sender(world, "ada").await;
    give(world, settings(&[("main", rude.address, "")])).await;
    let texts = async || {
        let all = ada.get("/v1/inbound-notifications").await.ok();
        let text = |one: &Value| one["message"].as_str().unwrap().to_owned();
        let mut found: Vec<String> = all.list().iter().map(text).collect();
        found.sort();
        found
    };
    let expected = ["STOP", "[binary] 0001ff", "a😀b", "Тест"];
    eventually(async || (texts().await == expected).then_some(())).await;
    // The wish of a phone that writes so is heard, too.
    let body = json!({"to": phone("5678"), "text": "hi"});
    ada.text(&body).await.problem("recipient_opted_out");
}

async fn parts_of_an_erased_person_are_gone(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    bring(world, "7", 1, "my name is").await;
    let held = crate::erasure::holding(world, &phone("5678")).await;
    assert_eq!(held, ["inbound_parts.sender"]);
    let erase = world.post(Env::Live, "/v1/admin/erasures").bearer(world.staff().await);
    erase.json(json!({"phone": phone("5678")})).await.ok();
    assert!(crate::erasure::holding(world, &phone("5678")).await.is_empty());
    bring(world, "7", 2, "b").await;
    bring(world, "7", 3, "c").await;
    assert!(texts(&scene).await.is_empty());
}

async fn parts_of_a_person_are_gone_from_the_account_that_they_are_erased_from(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    // Both may send as ACME; hers came last, so what is written to it is for her.
    let ben = sender(world, "ben").await;
    for tenant in [&ben, &scene.ada] {
        tenant.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    }
    bring(world, "7", 1, "my name is").await;
    let parts = "inbound_parts.sender".to_owned();
    for (account_id, is_there) in [(&ben.account_id, true), (&scene.ada.account_id, false)] {
        let erase = world.post(Env::Live, "/v1/admin/erasures").bearer(world.staff().await);
        erase.json(json!({"phone": phone("5678"), "account_id": account_id})).await.ok();
        let held = crate::erasure::holding(world, &phone("5678")).await;
        assert_eq!(held.contains(&parts), is_there, "{held:?}");
    }
}

async fn stop_by_sms_is_an_opt_out(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let to = phone("5678");
    let id = scene.text(&to, json!({})).await;
    scene.until(&id, "delivered").await;
    write(&scene, &to, "Stop");
    until(&scene, &["Stop"]).await;
    scene.ada.text(json!({"to": to, "text": "more"})).await.problem("recipient_opted_out");
}
