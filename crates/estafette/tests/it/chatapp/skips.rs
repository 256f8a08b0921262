//! Who is not asked for consent, and what asking costs a passcode.

use std::future::IntoFuture;

use clock::DAY;
use futures_util::future::join_all;
use serde_json::json;

use super::{ask, prompt_on, reply, session_as, told};
use crate::on_every_engine;
use crate::world::faults::How;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

on_every_engine!(
    nobody_is_asked_without_being_meant,
    nobody_is_asked_after_sms,
    nobody_is_asked_twice,
    who_declined_is_asked_again_after_a_month,
    who_said_stop_is_not_asked,
    a_person_who_is_erased_is_asked_no_more,
    asking_costs_a_passcode_one_statement,
    a_prompt_outlives_a_crash,
    taps_at_the_same_time_are_all_taken,
);

/// What asks.
const ASKS: &str = "INSERT INTO chatapp_sessions";

async fn sessions(ada: &Tenant<'_>) -> usize {
    ada.get("/v1/chatapp/sessions").await.ok().list().len()
}

async fn nobody_is_asked_without_being_meant(world: &World) {
    let ada = world.account("ada").await;
    ada.send(json!({"to": phone("5678"), "request_messaging_consent": false})).await.ok();
    let body = json!({"to": phone("5679"), "code": "4821"});
    ada.call("POST", "/v1/chatapp/otp/send").json(body).await.ok();
    world.advance(60_000).await;
    assert_eq!(sessions(&ada).await, 0);
    // The contract's default.
    ada.call("POST", "/v1/otp/send").json(json!({"to": phone("5680")})).await.ok();
    prompt_on(&ada, "5680").await;
    session_as(&ada, "pending").await;
}

async fn nobody_is_asked_after_sms(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["0001", "0002", "0003", "0008"] {
        ask(&ada, ending).await;
    }
    let by_sms = json!({"to": phone("5678"), "delivery_mode": "sms",
        "request_messaging_consent": true});
    ada.send(by_sms).await.ok();
    world.advance(30_000).await;
    assert_eq!(sessions(&ada).await, 0);
}

async fn nobody_is_asked_twice(world: &World) {
    let ada = world.account("ada").await;
    for reference in ["a", "b", "c"] {
        let body = json!({"to": phone("5678"), "reference": reference,
            "request_messaging_consent": true});
        ada.send(body).await.ok();
        world.settle().await;
    }
    session_as(&ada, "pending").await;
    reply(&ada, "5678", &json!({"button": "yes"})).await.ok();
    session_as(&ada, "active").await;
    ask(&ada, "5678").await;
    world.settle().await;
    assert_eq!(sessions(&ada).await, 1);
}

async fn who_declined_is_asked_again_after_a_month(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    prompt_on(&ada, "5678").await;
    reply(&ada, "5678", &json!({"button": "no"})).await.ok();
    session_as(&ada, "declined").await;
    world.advance(29 * DAY).await;
    let sent = ask(&ada, "5678").await;
    // One that did not arrive would send the next one by SMS, after which nobody is asked.
    ada.until(sent.word("challenge_id"), |now| now["status"] == "delivered").await;
    world.settle().await;
    assert_eq!(sessions(&ada).await, 1);
    world.advance(2 * DAY).await;
    ask(&ada, "5678").await;
    // Chores may have removed the old one meanwhile.
    eventually(async || {
        let sessions = ada.get("/v1/chatapp/sessions").await.ok();
        sessions.list().iter().any(|one| one["status"] == "pending").then_some(())
    })
    .await;
}

async fn who_said_stop_is_not_asked(world: &World) {
    let ada = world.account("ada").await;
    reply(&ada, "5678", &json!({"text": "STOP"})).await.ok();
    ask(&ada, "5678").await;
    world.settle().await;
    assert_eq!(sessions(&ada).await, 0);
    reply(&ada, "5678", &json!({"text": "START"})).await.ok();
    world.advance(31_000).await;
    ask(&ada, "5678").await;
    prompt_on(&ada, "5678").await;
}

async fn a_person_who_is_erased_is_asked_no_more(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    session_as(&ada, "pending").await;
    let staff = world.staff().await;
    let body = json!({"phone": phone("5678")});
    world.post(ada.env, "/v1/admin/erasures").bearer(staff).json(body).await.ok();
    let over = session_as(&ada, "expired").await;
    assert_eq!(over["recipient"], "");
    let told = told(&ada, "chatapp.consent").await;
    assert_eq!(told.last().unwrap()["recipient"], "");
}

async fn asking_costs_a_passcode_one_statement(world: &World) {
    let ada = world.account("ada").await;
    world.faults.write_down();
    ada.send(json!({"to": phone("5678"), "request_messaging_consent": false})).await.ok();
    assert_eq!(world.faults.statements_with(ASKS), Vec::<usize>::new());
    ask(&ada, "5679").await;
    // It rides in the set that says that the passcode was delivered, and in no other.
    assert_eq!(world.faults.statements_with(ASKS).len(), 1);
    prompt_on(&ada, "5679").await;
}

async fn a_prompt_outlives_a_crash(world: &World) {
    let ada = world.account("ada").await;
    world.faults.plan("UPDATE chatapp_sessions SET next_at", How::Unavailable, 1);
    ask(&ada, "5678").await;
    eventually(async || (world.faults.left() == 0).then_some(())).await;
    world.restart().await;
    prompt_on(&ada, "5678").await;
    session_as(&ada, "pending").await;
}

/// As a person with a bad connection taps: each tap is a message of its own.
async fn taps_at_the_same_time_are_all_taken(world: &World) {
    let ada = world.account("ada").await;
    for round in 0..3 {
        let to = format!("56{round:02}");
        ask(&ada, &to).await;
        prompt_on(&ada, &to).await;
        let yes = json!({"button": "yes"});
        let taps = join_all((0..12).map(|_| reply(&ada, &to, &yes).into_future())).await;
        for tap in taps {
            tap.ok();
        }
    }
}
