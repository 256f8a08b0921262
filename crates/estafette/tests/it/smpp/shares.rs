//! How carriers of one route share what goes by it, what a passcode is told whose carrier
//! throttles, and that nobody waits behind messages that a carrier throttles alone.

use std::pin::pin;
use std::time::Duration;

use playground::smsc::IdStyle;
use serde_json::{Value, json};

use super::rude::{Manners, Rude};
use super::{Centre, START, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Answer, World, eventually};

on_every_engine!(
    carriers_share_by_weight,
    a_bare_name_goes_in_its_place,
    a_passcode_that_is_throttled_throughout_is_refused_in_time,
    nobody_waits_behind_messages_that_are_throttled_alone,
);

async fn put(world: &World, carriers: Value) -> Answer {
    let routes = json!({"routes": [{"prefix": "+", "carriers": carriers}]});
    super::routes::put(world, routes).await.await
}

async fn carriers_share_by_weight(world: &World) {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", one.address, ""), ("two", two.address, "")])).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let mut number = 5_000;
    // The count begins anew when a node reads the table again.
    for (first, second, share) in [(1, 1, 7..=9), (3, 1, 10..=14), (1, 3, 2..=6)] {
        let carriers = json!([{"name": "one", "weight": first}, {"name": "two", "weight": second}]);
        put(world, carriers).await.ok();
        for is_passcode in [false, true] {
            let (mut by_one, mut by_two) = (0, 0);
            for _ in 0..16 {
                number += 1;
                let to = phone(&number.to_string());
                if is_passcode {
                    ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
                } else {
                    let sent = ada.text(json!({"to": to, "text": "hi"})).await.ok();
                    ada.sms_until(sent.word("id"), "delivered").await;
                }
                by_one += one.came_to(&to).len();
                by_two += two.came_to(&to).len();
            }
            let told = format!("{first}:{second}, passcodes: {is_passcode}, {by_one}:{by_two}");
            assert!(share.contains(&by_one) && by_one + by_two == 16, "{told}");
        }
    }
}

async fn a_bare_name_goes_in_its_place(world: &World) {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", one.address, ""), ("two", two.address, "")])).await;
    for (carriers, priorities) in [
        (json!(["one", {"name": "two", "weight": 5}]), [1, 2]),
        (json!([{"name": "one"}, "two"]), [1, 2]),
        (json!([{"name": "one", "priority": 3}, "two"]), [3, 2]),
        (json!([{"name": "one", "weight": 2}, {"name": "two", "weight": null}]), [0, 0]),
        (json!([{"name": "one", "priority": null, "weight": 2}, {"name": "two"}]), [0, 0]),
    ] {
        let shown = put(world, carriers.clone()).await.ok();
        let all = shown.list()[0]["carriers"].as_array().unwrap().clone();
        // What says no more than names is shown as names, the first choice first.
        let priority = |(at, one): (i64, &Value)| one["priority"].as_i64().unwrap_or(at);
        let found: Vec<i64> = (1..).zip(&all).map(priority).collect();
        assert_eq!(found, priorities, "{carriers}");
    }
}

async fn a_passcode_that_is_throttled_throughout_is_refused_in_time(world: &World) {
    let rude = Rude::open(Manners::Good).await;
    give(world, settings(&[("main", rude.address, "")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    for number in 0..5 {
        let body = json!({"to": phone(&format!("510{number}")), "delivery_mode": "sms"});
        ada.send(body).await.ok();
    }
    let spent = START - ada.balance().await;
    rude.behave(Manners::Throttles);
    let body = json!({"to": phone("5200"), "delivery_mode": "sms"});
    let mut asked = pin!(async { ada.send(&body).await });
    let mut waited_ms = 0;
    let refused = loop {
        // The connection holds it up by the service's clock.
        match tokio::time::timeout(Duration::from_millis(100), &mut asked).await {
            Ok(refused) => break refused,
            Err(_) => world.advance(100).await,
        }
        waited_ms += 100;
    };
    refused.problem("carrier_error");
    assert!(waited_ms < 13_000, "its lease was nearly over: {waited_ms}");
    assert_eq!(ada.balance().await, START - spent, "it cost nothing");
}

async fn nobody_waits_behind_messages_that_are_throttled_alone(world: &World) {
    let rude = Rude::open(Manners::ThrottlesTo("77")).await;
    give(world, settings(&[("main", rude.address, "window = 8")])).await;
    until_up(world, "main").await;
    let (ada, ben) = (sender(world, "ada").await, sender(world, "ben").await);
    let mut hers = vec![];
    for number in 10..22 {
        let body = json!({"to": phone(&format!("{number}77")), "text": "hi"});
        hers.push(ada.text(body).await.ok().word("id").to_owned());
    }
    eventually(async || (rude.submissions() >= 1).then_some(())).await;
    let to_be_sent = json!({"to": phone("5300"), "text": "hi"});
    let his = ben.text(to_be_sent).await.ok().word("id").to_owned();
    let (mut waited_ms, mut longest_ms) = (0, 0);
    for number in 0..6 {
        let body = json!({"to": phone(&format!("540{number}")), "delivery_mode": "sms"});
        let mut asked = pin!(async { ben.send(&body).await });
        let before_ms = waited_ms;
        let sent = loop {
            match tokio::time::timeout(Duration::from_millis(50), &mut asked).await {
                Ok(sent) => break sent,
                Err(_) => world.advance(100).await,
            }
            waited_ms += 100;
        };
        assert_eq!(sent.ok().word("status"), "sent");
        longest_ms = longest_ms.max(waited_ms - before_ms);
    }
    assert!(longest_ms <= 2_500, "{longest_ms}");
    ben.sms_until(&his, "submitted").await;
    // From now on hers keep nobody at all waiting.
    for round in 0..4 {
        world.advance(500).await;
        let body = json!({"to": phone(&format!("550{round}")), "text": "hi"});
        let his = ben.text(body).await.ok().word("id").to_owned();
        ben.sms_until(&his, "submitted").await;
    }
    for id in &hers {
        assert_eq!(ada.sms(id).await.ok().word("status"), "queued");
    }
    assert_eq!(ada.balance().await, START - 12 * super::PRICE, "held");
    rude.behave(Manners::Good);
    for id in &hers {
        eventually(async || {
            world.advance(100).await;
            (ada.sms(id).await.ok().word("status") == "submitted").then_some(())
        })
        .await;
    }
    assert_eq!(ada.balance().await, START - 12 * super::PRICE, "each is charged once");
}
