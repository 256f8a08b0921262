//! What a receiver of webhooks answers after a person was erased from what it was told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use estafette::app::Env;
use estafette::carriers::{Carrier, Carriers, Door, Fate, Outbound, Outcome, Receipt};
use futures_util::future::BoxFuture;
use playground::smsc::IdStyle;
use playground::{ReceiverZoo, Visit};
use serde_json::json;

use super::{digits, echoes, erased, holding};
use crate::emails;
use crate::on_every_engine;
use crate::smpp::{Centre, give, settings, until_up};
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    what_a_receiver_answers_late_brings_nothing_back,
    what_is_answered_late_to_an_event_in_hand_brings_nothing_back,
    a_receipt_that_comes_after_it_names_nobody,
    a_receipt_whose_id_names_the_person_is_not_kept_after_it,
    what_an_event_said_before_it_is_not_kept_after_it,
    what_somebody_wrote_is_not_kept_after_it,
    an_erasure_goes_on_behind_its_request with impatient,
);

/// A second for each request.
fn impatient(config: &mut estafette::config::Config) {
    config.server.request_timeout_ms = 1_000;
    config.otp.receipt_wait_ms = 200;
}

async fn what_a_receiver_answers_late_brings_nothing_back(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    let (to, other) = (phone("5678"), phone("9999"));
    let hook = json!({"url": zoo.url("/echo/1000"), "events": ["otp.status"]});
    ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    ada.send_to(&other).await.ok();
    eventually(async || (echoes(world, &other).await > 0).then_some(())).await;
    let before = zoo.visits().len();
    ada.send_to(&to).await.ok();
    let asked = || {
        zoo.visits()
            .iter()
            .skip(before)
            .any(|v| String::from_utf8_lossy(&v.body).contains(digits(&to)))
    };
    eventually(async || asked().then_some(())).await;
    assert_eq!(echoes(world, &to).await, 0, "the receiver takes its time");
    erased(world, &to).await;
    // Everything that was under way has been answered by then, and delivered in its new form.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let deliveries = "SELECT delivery_id FROM webhook_deliveries WHERE due_at IS NOT NULL";
    let db = world.app(Env::Live).await.db.clone();
    eventually(async || {
        let due = db.rows::<(String,)>(store::Sql(deliveries), store::args![]).await.unwrap();
        due.is_empty().then_some(())
    })
    .await;
    assert_eq!(echoes(world, &to).await, 0);
    assert!(echoes(world, &other).await > 0, "others are not erased");
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
}

async fn what_is_answered_late_to_an_event_in_hand_brings_nothing_back(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    let (to, other) = (phone("5678"), phone("9999"));
    let hook = json!({"url": zoo.url("/echo/1500"), "events": ["sms.delivery"]});
    ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    ada.text(json!({"to": other, "text": "x"})).await.ok();
    eventually(async || (echoes(world, &other).await > 0).then_some(())).await;
    // Those of this one keep the lane busy; those of the next are in hand.
    ada.text(json!({"to": other, "text": "x"})).await.ok();
    let shown = |number: &str| {
        let holds = |visit: &Visit| String::from_utf8_lossy(&visit.body).contains(digits(number));
        zoo.visits().iter().filter(|visit| holds(visit)).count()
    };
    eventually(async || (shown(&other) > 2).then_some(())).await;
    let sent = ada.text(json!({"to": to, "text": "x"})).await.ok();
    eventually(async || (shown(&to) > 0).then_some(())).await;
    erased(world, &to).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(echoes(world, &to).await, 0);
    // They are told again, in their new form.
    world.advance(3_000).await;
    eventually(async || (shown_nameless(&zoo, sent.word("id"), &to) > 0).then_some(())).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(echoes(world, &to).await, 0);
    assert!(echoes(world, &other).await > 0, "others are not erased");
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
}

/// How often a message was told of without its recipient.
fn shown_nameless(zoo: &ReceiverZoo, id: &str, to: &str) -> usize {
    let is_nameless = |visit: &Visit| {
        let body = String::from_utf8_lossy(&visit.body);
        body.contains(id) && !body.contains(digits(to))
    };
    zoo.visits().iter().filter(|visit| is_nameless(visit)).count()
}

async fn a_receipt_that_comes_after_it_names_nobody(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let centre = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("main", centre.address(), "")])).await;
    until_up(world, "main").await;
    let ada = world.live_sender("ada", 1_000).await;
    let hook = json!({"url": zoo.url("/ok"), "events": ["sms.delivery"]});
    ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    // Numbers that the centre sends no receipts for by itself.
    let (to, other) = ("+33612349006", "+33612359006");
    let told = |number: &str, status: &str| {
        let holds = |visit: &Visit| {
            let body = String::from_utf8_lossy(&visit.body).into_owned();
            body.contains(digits(number)) && body.contains(status)
        };
        zoo.visits().iter().filter(|visit| holds(visit)).count()
    };
    let mut ids = vec![];
    for number in [to, other] {
        let id = ada.text(json!({"to": number, "text": "x"})).await.ok().word("id").to_owned();
        ada.sms_until(&id, "submitted").await;
        eventually(async || (told(number, "submitted") == 1).then_some(())).await;
        ids.push(id);
    }
    erased(world, to).await;
    for number in [to, other] {
        let carried = centre.came_to(number).pop().unwrap();
        assert!(centre.deliver(&carried.id));
    }
    ada.sms_until(&ids[1], "delivered").await;
    eventually(async || (told(other, "delivered") == 1).then_some(())).await;
    eventually(async || (centre.acknowledged() == 2).then_some(())).await;
    // Time enough for what names the person to be told: without a number it may be told or not.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(told(to, "delivered"), 0);
    assert_eq!(holding(world, to).await, Vec::<String>::new());
}

/// A carrier that makes its ids of the recipients' numbers.
struct Namer;

impl Carrier for Namer {
    fn name(&self) -> &'static str {
        "namer"
    }

    fn echoes(&self) -> bool {
        false
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        let provider_id = format!("{}-1", digits(message.to.as_str()));
        Box::pin(async { Outcome::Accepted { provider_id } })
    }
}

async fn a_receipt_whose_id_names_the_person_is_not_kept_after_it(world: &World) {
    let door: Arc<Mutex<Option<Door>>> = Arc::default();
    let shared = Arc::clone(&door);
    let make = move |_: &clock::Clock, door: &Door| {
        *shared.lock().unwrap() = Some(door.clone());
        Carriers::of(vec![], vec![Arc::new(Namer)])
    };
    world.give_live(Box::new(make)).await;
    let ada = world.live_sender("ada", 1_000).await;
    let (to, other) = (phone("5678"), phone("9999"));
    let mut ids = vec![];
    for number in [&to, &other] {
        ids.push(ada.text(json!({"to": number, "text": "x"})).await.ok().word("id").to_owned());
        ada.sms_until(ids.last().unwrap(), "submitted").await;
    }
    // Another node, which remembers nothing of it.
    world.restart().await;
    // Twice: what is hidden stays so.
    erased(world, &to).await;
    erased(world, &to).await;
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
    let door = door.lock().unwrap().clone().unwrap();
    let stray = "+33612340000".to_owned();
    for number in [&to, &other, &stray] {
        let receipt = Receipt {
            hint: None,
            carrier: "namer".to_owned(),
            echo: None,
            provider_id: Some(format!("{}-1", digits(number))),
            fate: Fate::Delivered,
            error: None,
        };
        door.receipt(receipt).await.unwrap();
    }
    ada.sms_until(&ids[1], "delivered").await;
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
    // One that may be early is kept.
    assert!(!holding(world, &stray).await.is_empty());
}

/// Time in which what failed is tried again.
async fn minutes(world: &World) {
    for _ in 0..40 {
        world.advance(5_000).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An event that is tried again is kept as it was made.
async fn what_an_event_said_before_it_is_not_kept_after_it(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    let hook = json!({"url": zoo.url("/status/500"), "events": ["email.delivery"]});
    ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    let staff = world.staff().await.to_owned();
    for (whom, is_erased) in [("dan@example.com", true), ("eve@example.com", false)] {
        let kept = world.faults.hold("UPDATE events SET body = $1");
        let sent = emails::send(&ada, emails::mail(whom)).await.ok();
        emails::until(&ada, sent.word("id"), "delivered").await;
        let between = async {
            kept.came().await;
            if is_erased {
                let erase = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(&staff);
                erase.json(json!({"email": whom})).await.ok();
            }
            kept.let_go();
        };
        tokio::join!(minutes(world), between);
        let held = holding(world, whom).await;
        assert_eq!(held.contains(&"events.body".to_owned()), !is_erased, "{whom}: {held:?}");
    }
}

/// What an ordinary message says has no state of its own in its event.
async fn what_somebody_wrote_is_not_kept_after_it(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    let hook = json!({"url": zoo.url("/status/500"), "events": ["sms.inbound"]});
    ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    for (ending, is_erased) in [("5678", true), ("9999", false)] {
        let person = phone(ending);
        ada.text(json!({"to": person, "text": "x"})).await.ok();
        let kept = world.faults.hold("UPDATE events SET body = $1");
        let path = format!("/v1/sandbox/handsets/{person}/replies");
        ada.call("POST", &path).json(json!({"text": "Hello", "channel": "sms"})).await.ok();
        let between = async {
            kept.came().await;
            if is_erased {
                erased(world, &person).await;
            }
            kept.let_go();
        };
        tokio::join!(minutes(world), between);
        let held = holding(world, &person).await;
        assert_eq!(held.contains(&"events.body".to_owned()), !is_erased, "{person}: {held:?}");
    }
}

async fn an_erasure_goes_on_behind_its_request(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    ada.send_to(&to).await.ok();
    let path = format!("/v1/sandbox/handsets/{to}/replies");
    ada.call("POST", &path).json(json!({"text": "Hello", "channel": "sms"})).await.ok();
    let staff = world.staff().await.to_owned();
    let erase = async || {
        let call = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(&staff);
        call.header("idempotency-key", "forget").json(json!({"phone": to})).await
    };
    let held = world.faults.hold("UPDATE events SET body = NULL");
    assert_eq!(erase().await.status, 504);
    assert!(!holding(world, &to).await.is_empty(), "it has only begun");
    // Whoever asks again waits for it, and keeps nobody else from their turn.
    for _ in 0..5 {
        assert_eq!(erase().await.status, 504);
    }
    erased(world, &phone("9999")).await;
    held.let_go();
    eventually(async || holding(world, &to).await.is_empty().then_some(())).await;
    let told = eventually(async || {
        let told = erase().await.ok();
        told.headers.contains_key("idempotent-replayed").then_some(told)
    });
    assert_eq!(told.await.number("challenges"), 1);
}
