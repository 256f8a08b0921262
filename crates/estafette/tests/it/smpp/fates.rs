//! What becomes of messages: what the centre gets, what its answers and receipts mean, in whatever
//! form, order and number they come.

use std::sync::{Arc, Mutex};

use ::smpp::MessageState::{Delivered, Rejected, Undeliverable};
use clock::Clock;
use estafette::app::Env;
use estafette::carriers::{Carriers, Door, Fate, Receipt, Refusal};
use estafette::dispatch;
use playground::smsc::{IdStyle, Mobile};
use serde_json::json;

use super::{Centre, PRICE, START, scene, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    an_sms_goes_out_and_its_receipt_tells,
    a_passcode_goes_out_first_and_is_valid_no_longer_than_its_code,
    every_answer_and_receipt_means_what_it_says,
    of_two_receipts_that_come_together_the_first_holds,
    of_two_receipts_that_come_before_the_answer_the_first_holds,
    a_lost_answer_is_followed_by_one_more_submission,
    ids_written_in_another_way_lead_to_their_message,
    a_long_message_is_delivered_when_all_of_its_parts_are,
    a_centre_that_comes_back_gets_what_waited,
    what_is_given_back_after_the_end_is_not_shown_as_charged,
    an_answer_to_what_nobody_said_anything_of_is_for_its_sender,
);

async fn an_sms_goes_out_and_its_receipt_tells(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let to = phone("5678");
    let id = scene.text(&to, json!({"text": "Ça va? {1}", "validity_s": 3_600})).await;
    scene.until(&id, "delivered").await;
    let came = scene.centre.came_to(&to);
    assert_eq!(came.len(), 1);
    assert_eq!((came[0].text.as_str(), came[0].from.as_str()), ("Ça va? {1}", "ACME"));
    assert_eq!((came[0].registered_delivery, came[0].data_coding), (1, 0));
    // An hour, or a few milliseconds less.
    let validity = came[0].validity_period.as_str();
    assert!(["000000010000000R", "000000005959000R"].contains(&validity), "{validity}");
    assert_eq!(scene.ada.balance().await, START - PRICE);
    let events = scene.ada.get("/v1/events?type=sms.delivery").await.ok();
    assert_eq!(events.list().len(), 2, "{}", events.text);
    let seen = super::carrier(world, "main").await;
    assert_eq!((&seen["binds"], &seen["receipts"]["orphan"]), (&json!(1), &json!(0)));
}

async fn a_passcode_goes_out_first_and_is_valid_no_longer_than_its_code(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let to = phone("5678");
    let sent = scene.ada.send(json!({"to": to, "delivery_mode": "sms", "code": "4821"})).await;
    let sent = sent.ok();
    let came = scene.centre.came_to(&to);
    assert!(came[0].text.contains("4821"), "{}", came[0].text);
    let validity = &came[0].validity_period;
    assert!(["000000000459000R", "000000000500000R"].contains(&validity.as_str()), "{validity}");
    let id = sent.word("challenge_id");
    scene.ada.until(id, |challenge| challenge["status"] == "delivered").await;
    let shown = scene.ada.challenge(id).await.ok();
    assert_eq!(shown.word("provider_message_id"), came[0].id, "as the carrier says it");
    scene.ada.guess(id, "4821").await.ok();
    // What its carrier refuses costs nothing, and is said at once.
    let refused = json!({"to": phone("9002"), "delivery_mode": "sms"});
    scene.ada.send(refused).await.problem("recipient_unreachable");
}

async fn every_answer_and_receipt_means_what_it_says(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let mut spent = 0;
    for (ending, status, code, price) in [
        ("9002", "failed", "recipient_unreachable", 0),
        ("9011", "undelivered", "undelivered", PRICE),
        ("9012", "expired", "validity_ended", PRICE),
        ("9013", "failed", "carrier_rejected", 0),
        ("9014", "undelivered", "undelivered", PRICE),
        ("9016", "delivered", "", PRICE),
        ("9017", "delivered", "", PRICE),
        ("9018", "delivered", "", PRICE),
        ("9019", "delivered", "", PRICE),
    ] {
        let id = scene.text(&phone(ending), json!({})).await;
        let read = scene.until(&id, status).await;
        assert_eq!(read.field("error")["code"].as_str().unwrap_or(""), code, "{ending}");
        spent += price;
        eventually(async || (scene.ada.balance().await == START - spent).then_some(())).await;
    }
    // UNKNOWN says nothing, and neither does silence.
    for ending in ["9015", "9006"] {
        let id = scene.text(&phone(ending), json!({"validity_s": 60})).await;
        scene.until(&id, "submitted").await;
        world.advance(121_000).await;
        scene.until(&id, "expired").await;
    }
    let events = scene.ada.get("/v1/events?type=sms.delivery&limit=200").await.ok();
    let last = events.list().iter().filter(|event| event["data"]["to"] == phone("9019"));
    assert_eq!(last.count(), 2, "a contradiction changes nothing: {}", events.text);
}

async fn of_two_receipts_that_come_together_the_first_holds(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "window = 50").await;
    let mut sent = vec![];
    for number in 0..24 {
        // The centre sends no receipts of these by itself.
        let to = format!("+336{}9006", 1_000 + number);
        let id = scene.text(&to, json!({})).await;
        let states = [Delivered, Undeliverable];
        sent.push((to, id, if number % 2 == 0 { states } else { [states[1], states[0]] }));
    }
    for (_, id, _) in &sent {
        scene.until(id, "submitted").await;
    }
    // Who renames the carrier now loses their receipts: `estafette doctor` says so.
    let db = world.app(Env::Live).await.db.clone();
    let open = async |known: &[&str]| dispatch::open_elsewhere(&db, known).await.unwrap();
    assert_eq!((open(&["other"]).await, open(&["main"]).await), (vec!["main".to_owned()], vec![]));
    for (to, _, states) in &sent {
        let carried = scene.centre.came_to(to).pop().unwrap();
        for state in states {
            assert!(scene.centre.tell(&carried.id, *state));
        }
    }
    for (_, id, [first, _]) in &sent {
        let status = if *first == Delivered { "delivered" } else { "undelivered" };
        scene.until(id, status).await;
    }
    assert_eq!(open(&["other"]).await, Vec::<String>::new(), "none of them is open any more");
}

async fn of_two_receipts_that_come_before_the_answer_the_first_holds(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "window = 50").await;
    let mut behaviour = scene.centre.handsets.options();
    behaviour.answer_ms = 700;
    scene.centre.handsets.behave(behaviour);
    let mut sent = vec![];
    for number in 0..12 {
        let to = format!("+336{}9006", 1_000 + number);
        let id = scene.text(&to, json!({})).await;
        let states = [Delivered, Undeliverable];
        sent.push((to, id, if number % 2 == 0 { states } else { [states[1], states[0]] }));
    }
    for (to, _, states) in &sent {
        let carried = eventually(async || scene.centre.came_to(to).pop()).await;
        for state in states {
            assert!(scene.centre.tell(&carried.id, *state));
        }
    }
    for (_, id, [first, _]) in &sent {
        let status = if *first == Delivered { "delivered" } else { "undelivered" };
        scene.until(id, status).await;
    }
    assert_eq!(scene.ada.balance().await, START - 12 * PRICE, "undelivered is carried, too");
}

async fn a_lost_answer_is_followed_by_one_more_submission(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "response_s = 5").await;
    let to = phone("9004");
    let id = scene.text(&to, json!({"validity_s": 60})).await;
    eventually(async || (scene.centre.came_to(&to).len() == 1).then_some(())).await;
    // The answer's time is over, then the wait for a receipt.
    eventually(async || {
        world.advance(1_000).await;
        (scene.centre.came_to(&to).len() == 2).then_some(())
    })
    .await;
    scene.until(&id, "submitted").await;
    world.advance(120_000).await;
    scene.until(&id, "expired").await;
    assert_eq!(scene.centre.came_to(&to).len(), 2, "once more, and never a third time");
    assert_eq!(scene.ada.balance().await, START, "nobody knows that the carrier had it");
    // A connection that is cut instead is opened again, and its receipt is not lost.
    let to = phone("9005");
    scene.text(&to, json!({})).await;
    eventually(async || (scene.centre.came_to(&to).len() == 1).then_some(())).await;
    eventually(async || {
        world.advance(1_000).await;
        (scene.centre.came_to(&to).len() == 2).then_some(())
    })
    .await;
    eventually(async || {
        world.advance(1_000).await;
        (super::carrier(world, "main").await["state"] == "up").then_some(())
    })
    .await;
}

async fn ids_written_in_another_way_lead_to_their_message(world: &World) {
    let scene = scene(world, IdStyle::Mixed, "").await;
    for ending in ["5678", "9017", "9011"] {
        let id = scene.text(&phone(ending), json!({})).await;
        scene.until(&id, if ending == "9011" { "undelivered" } else { "delivered" }).await;
    }
    // Where it is said that they are the same, they lead nowhere.
    let centre = Centre::new(IdStyle::Mixed).await;
    super::give(world, settings(&[("main", centre.address, "message_id = 'text'")])).await;
    until_up(world, "main").await;
    let id = scene.text(&phone("5678"), json!({})).await;
    eventually(async || {
        (super::carrier(world, "main").await["receipts"]["orphan"] == 1).then_some(())
    })
    .await;
    scene.until(&id, "submitted").await;
}

async fn a_long_message_is_delivered_when_all_of_its_parts_are(world: &World) {
    let centre = Centre::new(IdStyle::Decimal).await;
    let door: Arc<Mutex<Option<Door>>> = Arc::default();
    let (shown, sms) = (Arc::clone(&door), settings(&[("main", centre.address, "")]));
    let make = move |clock: &Clock, door: &Door| {
        *shown.lock().unwrap() = Some(door.clone());
        Carriers::none().with_sms(&sms, clock, "http://127.0.0.1:1", door).unwrap()
    };
    world.give_live(Box::new(make)).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let door = door.lock().unwrap().clone().unwrap();
    let bring = async |id: &str, fate: Fate| {
        let receipt = Receipt {
            hint: None,
            carrier: "main".to_owned(),
            echo: None,
            provider_id: Some(id.to_owned()),
            fate,
            error: None,
        };
        door.receipt(receipt).await.unwrap();
    };
    let to = phone("9006");
    for (round, last, status) in
        [(0, Fate::Delivered, "delivered"), (1, Fate::Failed(Refusal::Undelivered), "undelivered")]
    {
        let text = "abcdefghi ".repeat(40);
        let id = ada.text(json!({"to": to, "text": text})).await.ok().word("id").to_owned();
        ada.sms_until(&id, "submitted").await;
        let parts = centre.came_to(&to).split_off(3 * round);
        assert_eq!(
            parts.iter().map(|part| part.part).collect::<Vec<_>>(),
            [(1, 3), (2, 3), (3, 3)]
        );
        assert_eq!(parts.iter().map(|part| part.text.as_str()).collect::<String>(), text);
        for part in &parts[..2] {
            bring(&part.id, Fate::Delivered).await;
            // Again, and contradicted: the first word counts.
            bring(&part.id, Fate::Delivered).await;
            bring(&part.id, Fate::Failed(Refusal::Undelivered)).await;
        }
        assert_eq!(ada.sms(&id).await.ok().word("status"), "submitted");
        bring(&parts[2].id, last).await;
        ada.sms_until(&id, status).await;
    }
    assert_eq!(ada.balance().await, START - 6 * PRICE);
    // The centre's own receipts for all parts say the same.
    let id = ada.text(json!({"to": phone("5678"), "text": "я".repeat(100)})).await.ok();
    ada.sms_until(id.word("id"), "delivered").await;
    // A part that a network rejects (REJECTD) is one that does not arrive: others may have.
    let id = ada.text(json!({"to": phone("9013"), "text": "я".repeat(100)})).await.ok();
    ada.sms_until(id.word("id"), "undelivered").await;
}

async fn a_centre_that_comes_back_gets_what_waited(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let address = scene.centre.address;
    scene.centre.handsets.unbind();
    let to = phone("5678");
    eventually(async || (super::carrier(world, "main").await["state"] == "down").then_some(()))
        .await;
    let id = scene.text(&to, json!({})).await;
    assert_eq!(scene.ada.sms(&id).await.ok().word("status"), "queued");
    let passcode = scene.ada.send(json!({"to": phone("4444"), "delivery_mode": "sms"})).await;
    passcode.problem("carrier_unavailable");
    assert_eq!(address, scene.centre.address);
    eventually(async || {
        scene.world.advance(1_000).await;
        (super::carrier(world, "main").await["state"] == "up").then_some(())
    })
    .await;
    scene.until(&id, "delivered").await;
    assert_eq!(scene.centre.came_to(&to).len(), 1);
    assert_eq!(scene.ada.balance().await, START - PRICE, "what was refused cost nothing");
}

/// A number to which the centre sends no receipts by itself.
const SILENT: &str = "+33612349006";

async fn what_is_given_back_after_the_end_is_not_shown_as_charged(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let id = scene.text(SILENT, json!({"validity_s": 60})).await;
    scene.until(&id, "submitted").await;
    world.advance(121_000).await;
    let over = scene.until(&id, "expired").await;
    assert_eq!((over.number("charged_credits"), scene.ada.balance().await), (PRICE, START - PRICE));
    let carried = scene.centre.came_to(SILENT).pop().unwrap();
    assert!(scene.centre.tell(&carried.id, Rejected));
    eventually(async || (scene.ada.balance().await == START).then_some(())).await;
    let read = scene.ada.sms(&id).await.ok();
    assert_eq!((read.word("status"), read.number("charged_credits")), ("expired", 0));
}

async fn an_answer_to_what_nobody_said_anything_of_is_for_its_sender(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    // Both may send as ACME; hers came last.
    let ben = sender(world, "ben").await;
    ben.text(json!({"to": SILENT, "text": "hi"})).await.ok();
    let id = scene.text(SILENT, json!({"validity_s": 60})).await;
    scene.until(&id, "submitted").await;
    world.advance(121_000).await;
    scene.until(&id, "expired").await;
    let (from, to, text) = (SILENT.to_owned(), "ACME".to_owned(), "STOP".to_owned());
    assert!(scene.centre.handsets.write(&Mobile { from, to, text }));
    eventually(async || {
        let hers = scene.ada.get("/v1/inbound-notifications").await.ok();
        (hers.list().len() == 1).then_some(())
    })
    .await;
    let again = json!({"to": SILENT, "text": "hi"});
    scene.ada.text(&again).await.problem("recipient_opted_out");
    ben.text(&again).await.ok();
}
