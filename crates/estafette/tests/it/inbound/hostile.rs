//! What carriers bring by mistake or in bad faith: twice, out of order, too much, too strange.

use estafette::carriers::Inbound;
use serde_json::{Value, json};

use super::{PATH, bring, counted, sms, sms_for, texts};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    a_message_that_is_brought_again_is_one,
    the_same_id_of_two_carriers_is_two_messages,
    without_an_id_what_is_said_and_when_is_the_id,
    a_thousand_come_in_at_once_with_strange_ones_among_them,
    strange_letters_do_no_harm,
    what_is_too_long_is_cut,
    what_cannot_be_stored_now_is_asked_for_again,
);

async fn a_message_that_is_brought_again_is_one(world: &World) {
    let ada = world.account("ada").await;
    let eve = world.account("eve").await;
    let by_sms = json!({"to": phone("5678"), "delivery_mode": "sms"});
    ada.send(&by_sms).await.ok();
    let message = sms(world, "1", ("33612345678", "36180"), "hello");
    bring(world, &[message.clone(), message.clone(), message.clone()]).await.unwrap();
    let again = async || bring(world, std::slice::from_ref(&message)).await;
    let (one, two, three) = tokio::join!(again(), again(), again());
    assert_eq!((one, two, three), (Ok(()), Ok(()), Ok(())));
    // By now it would be for somebody else.
    eve.send(&by_sms).await.ok();
    again().await.unwrap();
    assert_eq!(texts(&ada).await, ["hello"]);
    assert!(texts(&eve).await.is_empty());
    assert_eq!(ada.get("/v1/events?type=sms.inbound").await.ok().list().len(), 1);
    assert_eq!(counted(world, "sms", "stored").await, 1);
    assert_eq!(counted(world, "sms", "known").await, 6);
}

async fn the_same_id_of_two_carriers_is_two_messages(world: &World) {
    let ada = world.account("ada").await;
    let one = sms_for(&ada, "1", &phone("5678"), "one");
    let two = Inbound { carrier: "other".to_owned(), ..sms_for(&ada, "1", &phone("5678"), "two") };
    bring(world, &[one]).await.unwrap();
    bring(world, &[two]).await.unwrap();
    assert_eq!(texts(&ada).await, ["two", "one"]);
}

async fn without_an_id_what_is_said_and_when_is_the_id(world: &World) {
    let ada = world.account("ada").await;
    let message = sms_for(&ada, "", &phone("5678"), "hello");
    let later = super::at(message.clone(), message.received_at + 1);
    world.advance(1_000).await;
    bring(world, &[message.clone(), message.clone(), later]).await.unwrap();
    bring(world, &[message]).await.unwrap();
    assert_eq!(texts(&ada).await, ["hello", "hello"]);
}

/// A message of every kind that nobody should send.
fn strange(ada: &Tenant<'_>) -> Vec<Inbound> {
    let long = "x".repeat(1_000_000);
    let mut found = vec![
        sms_for(ada, "no-sender", "", "a"),
        sms_for(ada, "nul", "+336\u{0}12345678", "a\u{0}b"),
        sms_for(ada, "short", "38000", ""),
        sms_for(ada, "name", "Böse & Söhne '; DROP TABLE inbound; --", "'"),
        sms_for(ada, "long", &long, &long),
        sms_for(ada, &long, "\u{202e}\u{feff}", "\u{1b}[2J"),
        sms_for(ada, "digits", &"9".repeat(500), "1"),
    ];
    let mut deep = Value::Null;
    for _ in 0..100 {
        deep = json!([deep, "\u{0}"]);
    }
    found.push(Inbound { raw: deep, ..sms_for(ada, "deep", "x", "deep") });
    found.push(Inbound { raw: json!(long), ..sms_for(ada, "huge", "x", "huge") });
    found
}

async fn a_thousand_come_in_at_once_with_strange_ones_among_them(world: &World) {
    let ada = world.account("ada").await;
    let strange = strange(&ada);
    let mut batch = vec![];
    for number in 0..1_000 {
        let from = format!("+3361234{:04}", 5_000 + number);
        batch.push(sms_for(&ada, &format!("m{number}"), &from, &format!("{number}")));
        if number % 150 == 0 {
            batch.extend(strange.iter().cloned());
        }
    }
    bring(world, &batch).await.unwrap();
    let expected = 1_000 + strange.len() as u64;
    assert_eq!(counted(world, "sms", "stored").await, expected);
    assert_eq!(counted(world, "sms", "failed").await, 0);
    let db = world.app(ada.env).await.db.clone();
    for table in ["inbound", "events", "inbound_seen"] {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let found = db.row::<(i64,)>(store::Sql(sql.leak()), store::args![]).await.unwrap();
        assert_eq!(found.map(|(count,)| count.cast_unsigned()), Some(expected), "{table}");
    }
}

async fn strange_letters_do_no_harm(world: &World) {
    let ada = world.account("ada").await;
    let text = "a\u{0}b\u{7}\u{1b}[31m\r\n\u{202e}\u{feff}é\u{10ffff}";
    bring(world, &[sms_for(&ada, "1", "IN\u{0}FO", text)]).await.unwrap();
    let row = ada.get(PATH).await.ok().list()[0].clone();
    assert_eq!(row["message"], text.replace('\0', "\u{fffd}"), "nothing but NUL is replaced");
    assert_eq!(row["sender"], "IN\u{fffd}FO");
    let one = ada.get(&format!("{PATH}/{}", row["id"].as_str().unwrap())).await.ok();
    let raw: Value = serde_json::from_str(one.word("raw_json")).unwrap();
    assert_eq!(raw["text"], text, "the payload is as the carrier brought it");
}

async fn what_is_too_long_is_cut(world: &World) {
    let ada = world.account("ada").await;
    let long = "é".repeat(60_000);
    let message = Inbound {
        recipient: long.clone(),
        raw: json!({ "text": long }),
        ..sms_for(&ada, &long, &long, &long)
    };
    bring(world, &[message]).await.unwrap();
    let row = ada.get(PATH).await.ok().list()[0].clone();
    let length = |name: &str| row[name].as_str().unwrap().chars().count();
    let lengths = [length("message"), length("sender"), length("recipient")];
    assert_eq!(lengths, [10_000, 64, 64]);
    let one = ada.get(&format!("{PATH}/{}", row["id"].as_str().unwrap())).await.ok();
    let raw: Value = serde_json::from_str(one.word("raw_json")).unwrap();
    assert_eq!(raw, json!({"truncated": true, "bytes": 120_011}));
    // The ends of ids count, although they are not kept.
    for end in ["1", "2", "2"] {
        bring(world, &[sms_for(&ada, &format!("{long}{end}"), "x", end)]).await.unwrap();
    }
    assert_eq!(texts(&ada).await[..2], ["2", "1"]);
    assert_eq!(texts(&ada).await.len(), 3);
}

async fn what_cannot_be_stored_now_is_asked_for_again(world: &World) {
    let ada = world.account("ada").await;
    let app = world.app(ada.env).await;
    let broken = "ALTER TABLE inbound RENAME TO elsewhere";
    let mended = "ALTER TABLE elsewhere RENAME TO inbound";
    let change = async |sql: &'static str| {
        let mut set = store::WriteSet::of("story");
        set.push(store::Sql(sql), store::args![]);
        app.db.commit(set).await.unwrap();
    };
    let batch =
        [sms_for(&ada, "1", &phone("5678"), "one"), sms_for(&ada, "2", &phone("5678"), "two")];
    change(broken).await;
    assert!(bring(world, &batch).await.is_err());
    assert_eq!(counted(world, "sms", "failed").await, 2);
    change(mended).await;
    bring(world, &batch).await.unwrap();
    let mut found = texts(&ada).await;
    found.sort();
    assert_eq!(found, ["one", "two"]);
}
