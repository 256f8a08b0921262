//! What one carrier does not take goes by another; what it may have taken never does.

use std::sync::Arc;
use std::time::Duration;

use ::smpp::Status;
use clock::Clock;
use estafette::app::Env;
use estafette::carriers::handsets::MemoryShelf;
use estafette::carriers::{Carriers, Door, Handsets};
use estafette::otp;
use playground::smsc::IdStyle;
use serde_json::json;

use super::rude::{Manners, Rude};
use super::{Centre, PRICE, START, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    what_a_centre_refuses_goes_by_the_next,
    what_every_centre_refuses_costs_nothing,
    what_waits_for_a_carrier_that_never_comes_goes_by_another,
    what_waits_for_a_carrier_that_is_no_more_goes_by_another,
    what_waits_in_vain_goes_as_soon_as_there_is_another_way,
    what_one_may_have_never_goes_by_another,
    a_repeat_while_the_fallback_is_on_its_way_tells_how_it_stands,
);

const NOWHERE: &str = "127.0.0.1:1";

async fn what_a_centre_refuses_goes_by_the_next(world: &World) {
    let one = Rude::open(Manners::Good).await;
    let two = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("one", one.address, ""), ("two", two.address(), "")])).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let mut spent = 0;
    // A fault of its own, a sender and a setting that it does not take.
    for (round, status) in
        [Status::RSYSERR, Status::RINVSRCADR, Status::RINVSERTYP].into_iter().enumerate()
    {
        one.behave(Manners::Refuses(status));
        let (to, other) = (phone(&format!("100{round}")), phone(&format!("200{round}")));
        let id = ada.text(json!({"to": to, "text": "hi"})).await.ok().word("id").to_owned();
        ada.sms_until(&id, "delivered").await;
        // There is no chat-app here whose place SMS would take.
        let passcode = json!({"to": other, "code": "4821"});
        let sent = ada.send(&passcode).await.ok();
        assert_eq!(sent.word("status"), "sent", "{status}: {}", sent.text);
        assert_eq!((sent.word("channel"), sent.field("fallback_used")), ("sms", &json!(false)));
        let challenge = sent.word("challenge_id");
        ada.until(challenge, |it| it["status"] == "delivered").await;
        assert_eq!(one.submissions(), 2 * (round + 1), "asked once for each: {status}");
        assert_eq!((two.came_to(&to).len(), two.came_to(&other).len()), (1, 1), "{status}");
        let told = ada.challenge(challenge).await.ok();
        assert_eq!(told.word("provider_message_id"), two.came_to(&other)[0].id);
        spent += PRICE + world.price("sms", "FR");
        assert_eq!(ada.balance().await, START - spent, "{status}");
    }
    // What is wrong with the recipient is so for everybody.
    one.behave(Manners::Refuses(Status::RINVDSTADR));
    let to = phone("3000");
    let id = ada.text(json!({"to": to, "text": "hi"})).await.ok().word("id").to_owned();
    ada.sms_until(&id, "failed").await;
    let passcode = json!({"to": to, "delivery_mode": "sms"});
    ada.send(&passcode).await.problem("recipient_unreachable");
    assert!(two.came_to(&to).is_empty());
    assert_eq!(ada.balance().await, START - spent);
}

async fn what_every_centre_refuses_costs_nothing(world: &World) {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", one.address(), ""), ("two", two.address(), "")])).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let text = json!({"to": phone("9003"), "text": "hi", "validity_s": 120});
    let id = ada.text(text).await.ok().word("id").to_owned();
    ada.send(json!({"to": phone("9003"), "delivery_mode": "sms"})).await.problem("carrier_error");
    assert_eq!(ada.balance().await, START - PRICE, "the SMS may go out yet");
    for _ in 0..5 {
        // Centres answer in real time: a clock that overtakes an answer makes it a lost one.
        tokio::time::sleep(Duration::from_millis(200)).await;
        world.advance(20_000).await;
        assert_eq!(ada.sms(&id).await.ok().word("status"), "queued");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.advance(21_000).await;
    let read = ada.sms_until(&id, "expired").await;
    assert_eq!(read.field("error")["code"], "not_submitted", "{}", read.text);
    assert_eq!(ada.balance().await, START);
}

async fn what_waits_for_a_carrier_that_never_comes_goes_by_another(world: &World) {
    let two = Rude::open(Manners::HangsAtBind).await;
    let nowhere = NOWHERE.parse().unwrap();
    give(world, settings(&[("one", nowhere, ""), ("two", two.address, "")])).await;
    let ada = sender(world, "ada").await;
    // At the start nobody is bound, so the first is to have it.
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    two.behave(Manners::Good);
    eventually(async || {
        world.advance(2_000).await;
        (super::carrier(world, "two").await["state"] == "up").then_some(())
    })
    .await;
    eventually(async || {
        world.advance(10_000).await;
        (ada.sms(&id).await.ok().word("status") == "submitted").then_some(())
    })
    .await;
    assert_eq!(two.submissions(), 1);
    assert_eq!(ada.balance().await, START - PRICE);
}

async fn what_waits_for_a_carrier_that_is_no_more_goes_by_another(world: &World) {
    let nowhere = NOWHERE.parse().unwrap();
    give(world, settings(&[("old", nowhere, "")])).await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    assert_eq!(ada.sms(&id).await.ok().word("status"), "queued");
    let new = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("new", new.address(), "")])).await;
    until_up(world, "new").await;
    eventually(async || {
        world.advance(10_000).await;
        (ada.sms(&id).await.ok().word("status") == "delivered").then_some(())
    })
    .await;
    assert_eq!(new.came_to(&phone("5678")).len(), 1);
    assert_eq!(ada.balance().await, START - PRICE);
}

async fn what_waits_in_vain_goes_as_soon_as_there_is_another_way(world: &World) {
    let (nowhere, two) = (NOWHERE.parse().unwrap(), Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", nowhere, ""), ("two", two.address(), "")])).await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    super::routes::put(world, json!([{"prefix": "+", "carriers": ["one"]}])).await.await.ok();
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    let moves_within_s = async |seconds: u32| {
        for _ in 0..seconds {
            world.advance(1_000).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            if ada.sms(&id).await.ok().word("status") != "queued" {
                return true;
            }
        }
        false
    };
    assert!(!moves_within_s(64).await, "there is no other way");
    let both = json!([{"prefix": "+", "carriers": ["one", "two"]}]);
    super::routes::put(world, both).await.await.ok();
    assert!(moves_within_s(10).await);
    assert_eq!(two.came_to(&phone("5678")).len(), 1);
}

async fn what_one_may_have_never_goes_by_another(world: &World) {
    let one = Rude::open(Manners::HangsAtSubmission).await;
    let two = Centre::new(IdStyle::Decimal).await;
    let more = "response_s = 1";
    give(world, settings(&[("one", one.address, more), ("two", two.address(), "")])).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let (to, other) = (phone("1000"), phone("2000"));
    let passcode = async || ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    let silence = async || {
        eventually(async || (one.submissions() == 1).then_some(())).await;
        world.advance(1_100).await;
    };
    let (sent, ()) = tokio::join!(passcode(), silence());
    assert_eq!(sent.word("status"), "sent", "nobody knows: {}", sent.text);
    // The copy of an SMS of unknown fate waits for the same carrier, however long that is away.
    one.behave(Manners::CutsItsAnswer);
    let text = json!({"to": other, "text": "hi", "validity_s": 300});
    let id = ada.text(text).await.ok().word("id").to_owned();
    eventually(async || (one.submissions() == 2).then_some(())).await;
    one.behave(Manners::RefusesBind);
    ada.sms_until(&id, "submitted").await;
    for _ in 0..28 {
        world.advance(10_000).await;
    }
    assert_eq!(ada.sms(&id).await.ok().word("status"), "submitted");
    world.advance(85_000).await;
    ada.sms_until(&id, "expired").await;
    assert_eq!((one.submissions(), two.came_to(&to).len(), two.came_to(&other).len()), (2, 0, 0));
    // Nothing is charged that nobody is known to have.
    eventually(async || (ada.balance().await == START).then_some(())).await;
}

async fn a_repeat_while_the_fallback_is_on_its_way_tells_how_it_stands(world: &World) {
    let centre = Rude::open(Manners::AnswersLate).await;
    let sms = settings(&[("one", centre.address, "")]);
    let make = move |clock: &Clock, door: &Door| {
        let handsets = Handsets::on(Arc::new(MemoryShelf::default()));
        let both = Carriers::simulated(clock, door, handsets);
        both.with_sms(&sms, clock, "http://127.0.0.1:1", door).unwrap()
    };
    world.give_live(Box::new(make)).await;
    until_up(world, "one").await;
    let ada = sender(world, "ada").await;
    // The chat-app takes it and says no more.
    let to = phone("0003");
    let send = || ada.send_to(&to).header("idempotency-key", "one");
    let first = send().await.ok();
    assert_eq!((first.word("channel"), first.word("status")), ("chatapp", "sent"));
    world.stand_still_for(20_100).await;
    let falls_back = {
        let app = world.app(Env::Live).await;
        tokio::spawn(async move { otp::run_due(&app).await })
    };
    eventually(async || (centre.submissions() == 1).then_some(())).await;
    // It was answered before: nothing of it runs any more.
    let again = send().await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!((again.word("channel"), again.word("status")), ("sms", "sent"));
    centre.answer_late(Status::ROK);
    falls_back.await.unwrap().unwrap();
    assert_eq!(ada.balance().await, START - world.price("sms", "FR"));
}
