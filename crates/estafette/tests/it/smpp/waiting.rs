//! What its carrier cannot take at once: it waits in the database, and for a connection.

use std::net::SocketAddr;
use std::time::Duration;

use ::smpp::Status;
use serde_json::json;
use tokio::net::TcpListener;

use super::rude::{Manners, Rude};
use super::{Centre, START, carrier, give, sender, settings, until_up};
use crate::due::count;
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};
use playground::smsc::IdStyle;

on_every_engine!(
    a_passcode_without_room_waits_where_no_crash_forgets_it,
    a_passcode_waits_for_a_connection_that_is_cut,
    a_passcode_without_a_carrier_in_reach_leaves_nothing,
    what_has_waited_longest_is_told_after_a_restart_as_well,
    what_a_node_took_out_and_could_not_read_goes_out_once,
    what_a_bind_has_not_written_at_a_stop_goes_out_once,
);

/// Where nobody listens until the story does: the system hands out no such port to others.
async fn unused_address() -> SocketAddr {
    for offset in 0..1_000 {
        let port = 20_000 + (std::process::id() + offset) % 12_000;
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).unwrap()));
        if TcpListener::bind(address).await.is_ok() {
            return address;
        }
    }
    panic!("a thousand ports are taken");
}

const MESSAGE: &str = "FROM sms_messages WHERE account_id = $1 AND sms_id = $2";
const OPT_OUT: &str = "SELECT said_at FROM opt_outs";
const UNDECIDED: &str = "SELECT COUNT(*) FROM attempts WHERE state IN ('queued', 'sending')";

async fn a_passcode_without_room_waits_where_no_crash_forgets_it(world: &World) {
    let rude = Rude::open(Manners::AnswersLate).await;
    give(world, settings(&[("main", rude.address, "window = 1")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let bulk = json!({"to": phone("1000"), "text": "hi", "class": "bulk"});
    ada.text(bulk).await.ok();
    eventually(async || (rude.submissions() == 1).then_some(())).await;

    let (to, body) = (phone("1001"), json!({"to": phone("1001"), "delivery_mode": "sms"}));
    let asked = async { ada.send(&body).await.ok() };
    let looked = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let row = "SELECT COUNT(*) FROM attempts WHERE queued_at IS NOT NULL AND state = 'queued'";
        assert_eq!(count(world, row).await, 1, "it is in the database while the request waits");
    };
    let (sent, ()) = tokio::join!(asked, looked);
    assert_eq!((sent.word("status"), sent.word("channel")), ("sent", "sms"), "{}", sent.text);
    assert_eq!(rude.submissions(), 1, "there is no room for {to}");

    rude.behave(Manners::Good);
    rude.answer_late(Status::ROK);
    eventually(async || (rude.submissions() == 2).then_some(())).await;
    let id = sent.word("challenge_id");
    eventually(async || (count(world, UNDECIDED).await == 0).then_some(())).await;
    assert_eq!(ada.challenge(id).await.ok().word("status"), "sent");
}

async fn a_passcode_waits_for_a_connection_that_is_cut(world: &World) {
    let at = unused_address().await;
    give(world, settings(&[("main", at, "")])).await;
    let ada = sender(world, "ada").await;
    assert_eq!(carrier(world, "main").await["state"], "down");
    let to = phone("1001");
    let body = json!({"to": to, "delivery_mode": "sms"});
    let back = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let centre = Centre::at(at, IdStyle::Decimal).await;
        eventually(async || {
            // The pause before the next bind is one of the service's clock.
            world.advance(1_000).await;
            (carrier(world, "main").await["state"] == "up").then_some(())
        })
        .await;
        centre
    };
    let (sent, centre) = tokio::join!(async { ada.send(&body).await.ok() }, back);
    assert_eq!(sent.word("channel"), "sms", "{}", sent.text);
    eventually(async || (centre.came_to(&to).len() == 1).then_some(())).await;
}

async fn a_passcode_without_a_carrier_in_reach_leaves_nothing(world: &World) {
    let at = unused_address().await;
    give(world, settings(&[("main", at, "")])).await;
    let ada = sender(world, "ada").await;
    let to = phone("1001");
    let body = json!({"to": to, "delivery_mode": "sms"});
    let asked = || ada.send(&body).header("idempotency-key", "night");
    let refused = asked().await.problem("carrier_unavailable");
    assert_eq!(refused.head("retry-after"), "5");
    assert_eq!(ada.balance().await, START);
    assert_eq!(count(world, "SELECT COUNT(*) FROM challenges").await, 0);

    // The same request goes out once there is one.
    let centre = Centre::at(at, IdStyle::Decimal).await;
    eventually(async || {
        world.advance(2_000).await;
        (carrier(world, "main").await["state"] == "up").then_some(())
    })
    .await;
    asked().await.ok();
    eventually(async || (centre.came_to(&to).len() == 1).then_some(())).await;
}

async fn what_has_waited_longest_is_told_after_a_restart_as_well(world: &World) {
    let rude = Rude::open(Manners::HangsAtBind).await;
    give(world, settings(&[("main", rude.address, "")])).await;
    let ada = sender(world, "ada").await;
    assert_eq!(carrier(world, "main").await["oldest_queued_s"], 0);
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    world.advance(40_000).await;
    ada.text(json!({"to": phone("5679"), "text": "hi"})).await.ok();
    let waited = || async { carrier(world, "main").await["oldest_queued_s"].as_u64().unwrap() };
    assert!((40..60).contains(&waited().await), "{}", waited().await);
    world.restart().await;
    let after = waited().await;
    assert!((40..90).contains(&after), "{after}");
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(2_000).await;
        (ada.sms(&id).await.ok().word("status") == "submitted").then_some(())
    })
    .await;
    eventually(async || (waited().await == 0).then_some(())).await;
}

async fn what_a_node_took_out_and_could_not_read_goes_out_once(world: &World) {
    let at = unused_address().await;
    give(world, settings(&[("main", at, "")])).await;
    let ada = sender(world, "ada").await;
    let bulk = json!({"to": phone("1000"), "text": "hi", "class": "bulk", "validity_s": 3_600});
    let id = ada.text(bulk).await.ok().word("id").to_owned();
    // It has waited, so its recipient is asked about as well.
    world.advance(5_000).await;
    world.faults.plan_reads(MESSAGE, 2);
    world.faults.plan_reads(OPT_OUT, 1);
    let centre = Centre::at(at, IdStyle::Decimal).await;
    eventually(async || {
        world.advance(1_000).await;
        (world.faults.reads_left() == 0).then_some(())
    })
    .await;
    ada.sms_until(&id, "delivered").await;
    assert_eq!(centre.came_to(&phone("1000")).len(), 1);
    assert_eq!(ada.balance().await, START - super::PRICE);
}

async fn what_a_bind_has_not_written_at_a_stop_goes_out_once(world: &World) {
    let centre = Centre::new(IdStyle::Decimal).await;
    // The rate goes by the service's clock, which stands still.
    give(world, settings(&[("main", centre.address(), "window = 10\nrate = 1")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let numbers: Vec<String> = (0..5).map(|number| phone(&format!("100{number}"))).collect();
    let mut ids = vec![];
    for to in &numbers {
        let bulk = json!({"to": to, "text": "hi", "class": "bulk"});
        ids.push(ada.text(bulk).await.ok().word("id").to_owned());
    }
    let came = || numbers.iter().map(|to| centre.came_to(to).len()).sum::<usize>();
    let sending = "SELECT COUNT(*) FROM attempts WHERE state = 'sending'";
    let are_taken = async || {
        let waits = count(world, sending).await;
        (came() > 0 && usize::try_from(waits).unwrap() + came() == 5).then_some(())
    };
    eventually(are_taken).await;
    assert!(came() < 5, "some wait for the rate");
    world.restart().await;
    eventually(async || {
        world.advance(1_000).await;
        (came() == 5).then_some(())
    })
    .await;
    for (id, to) in ids.iter().zip(&numbers) {
        ada.sms_until(id, "delivered").await;
        assert_eq!(centre.came_to(to).len(), 1);
    }
}
