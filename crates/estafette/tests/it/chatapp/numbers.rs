//! Whose number a person wrote to, and whose callbacks keep whose waiting.

use std::ops::Range;

use clock::{HOUR, MINUTE, Millis};
use estafette::app::Env;
use playground::cloud_api::{self, CloudApi};
use serde_json::json;
use store::{Sql, Stmt, Val, WriteSet, args};

use super::live::{heard, stored, stories, text_message, world};
use super::told;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Call, World, eventually};

stories!(
    who_has_a_number_of_its_own_is_not_answered_on_the_shared_one,
    what_is_answered_goes_to_whoever_asked,
    a_body_may_tell_of_two_business_accounts_of_one_secret,
    who_floods_with_callbacks_is_told_to_come_again_and_others_go_on,
    nobodys_callbacks_wait_behind_anothers,
);

async fn who_has_a_number_of_its_own_is_not_answered_on_the_shared_one(
    world: &World,
    upstream: &CloudApi,
) {
    upstream.add_number("777", "888");
    let (ada, bob) = (world.live_account("ada", 100).await, world.live_account("bob", 100).await);
    let link = json!({"phone_number_id": "777", "waba_id": "888", "app_secret": "s",
        "verify_token": "v", "access_token": cloud_api::ACCESS_TOKEN});
    let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    world.call("PUT", Env::Live, &path).bearer(world.staff().await).json(link).await.ok();
    let passcode = json!({"to": phone("5678"), "delivery_mode": "chatapp"});
    bob.send(&passcode).await.ok();
    // Hers is the later one.
    ada.send(&passcode).await.ok();
    upstream.write(&phone("5678"), text_message("for Bob")).await.unwrap();
    assert_eq!(heard(&bob, 1).await[0]["message"], "for Bob");
    upstream.write(&phone("5678"), text_message("STOP")).await.unwrap();
    heard(&bob, 2).await;
    assert!(told(&ada, "chatapp.inbound").await.is_empty());
    // It was him whom they asked to stop.
    let text = |body: &str| json!({"to": phone("5678"), "text": body, "billing_mode": "direct"});
    super::write(&bob, &text("hi")).await.problem("recipient_opted_out");
    super::write(&ada, &text("hi")).await.problem("messaging_window_closed");
}

/// Also where they have a number of their own since.
async fn what_is_answered_goes_to_whoever_asked(world: &World, upstream: &CloudApi) {
    upstream.add_number("777", "888");
    let (ada, bob) = (world.live_account("ada", 100).await, world.live_account("bob", 100).await);
    let passcode = json!({"to": phone("5678"), "delivery_mode": "chatapp"});
    let hers = ada.send(&passcode).await.ok();
    bob.send(&passcode).await.ok();
    let link = json!({"phone_number_id": "777", "waba_id": "888", "app_secret": "s",
        "verify_token": "v", "access_token": cloud_api::ACCESS_TOKEN});
    let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    world.call("PUT", Env::Live, &path).bearer(world.staff().await).json(link).await.ok();
    let mut said = text_message("STOP");
    said["context"] = json!({"id": hers.word("provider_message_id")});
    upstream.write(&phone("5678"), said).await.unwrap();
    assert_eq!(heard(&ada, 1).await[0]["message"], "STOP");
    let text = json!({"to": phone("5678"), "text": "hi", "billing_mode": "direct"});
    super::write(&ada, &text).await.problem("recipient_opted_out");
    super::write(&bob, &text).await.problem("messaging_window_closed");
}

async fn a_body_may_tell_of_two_business_accounts_of_one_secret(
    world: &World,
    upstream: &CloudApi,
) {
    let all = [("ada", "s"), ("bob", "s"), ("eve", "other")];
    let mut tenants = vec![];
    for (number, (name, secret)) in all.iter().enumerate() {
        let (own, waba_id) = (format!("77{number}"), format!("88{number}"));
        upstream.add_number(&own, &waba_id);
        let tenant = world.live_account(name, 100).await;
        let link = json!({"phone_number_id": own, "waba_id": waba_id, "app_secret": secret,
            "verify_token": "v", "access_token": cloud_api::ACCESS_TOKEN});
        let path = format!("/v1/admin/accounts/{}/chatapp", tenant.account_id);
        world.call("PUT", Env::Live, &path).bearer(world.staff().await).json(link).await.ok();
        tenants.push(tenant);
    }
    let told_of = |numbers: &[usize]| {
        let mut body = json!({"object": "whatsapp_business_account", "entry": []});
        for number in numbers {
            let id = format!("wamid.{number}.{}", numbers.len());
            let mut one = cloud_api::message_body(&phone("5678"), &id, text_message("hi"));
            let entry = &mut one["entry"][0];
            entry["id"] = format!("88{number}").into();
            entry["changes"][0]["value"]["metadata"]["phone_number_id"] =
                format!("77{number}").into();
            body["entry"].as_array_mut().unwrap().push(entry.take());
        }
        body.to_string()
    };
    let service = world.address(Env::Live);
    let post = async |text: String, secret: &str| {
        cloud_api::post_signed(service, secret, text.as_bytes()).await.unwrap()
    };
    assert_eq!(post(told_of(&[0, 1]), "s").await, 200);
    for tenant in &tenants[..2] {
        assert_eq!(heard(tenant, 1).await[0]["message"], "hi");
    }
    // Whoever has one secret says nothing of another's number.
    assert_eq!(post(told_of(&[0, 1, 2]), "s").await, 200);
    for tenant in &tenants[..2] {
        heard(tenant, 2).await;
    }
    assert_eq!(post(told_of(&[2]), "s").await, 401);
    assert!(told(&tenants[2], "chatapp.inbound").await.is_empty());
}

/// A live account with a business account of its own, whose secret is its name.
async fn linked<'w>(world: &'w World, upstream: &CloudApi, name: &str, id: &str) -> Tenant<'w> {
    let waba_id = format!("waba{id}");
    upstream.add_number(id, &waba_id);
    let tenant = world.live_account(name, 100).await;
    let link = json!({"phone_number_id": id, "waba_id": waba_id, "app_secret": name,
        "verify_token": "v", "access_token": cloud_api::ACCESS_TOKEN});
    let path = format!("/v1/admin/accounts/{}/chatapp", tenant.account_id);
    world.call("PUT", Env::Live, &path).bearer(world.staff().await).json(link).await.ok();
    tenant
}

/// What somebody writes to that number, as its business account signs it.
fn call_back(world: &World, tenant: &Tenant<'_>, secret: &str, id: &str) -> Call {
    let wamid = format!("wamid.{}.{}", tenant.account_id, world.now());
    let mut body = cloud_api::message_body(&phone("5678"), &wamid, text_message("hi"));
    body["entry"][0]["id"] = format!("waba{id}").into();
    body["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = id.into();
    let text = body.to_string();
    let signature = cloud_api::signature(secret, text.as_bytes());
    world
        .post(Env::Live, "/v1/upstream/chatapp")
        .header("X-Hub-Signature-256", &signature)
        .json(body)
}

/// Callbacks of a signer that are not taken in yet, due at that time. Nobody can read them.
async fn wait_for(world: &World, id: &str, numbers: Range<usize>, next_at: Millis) {
    const KEEP: Sql = Sql("INSERT INTO chatapp_callbacks (callback_id, waba_id, body_sealed, \
         received_at, next_at) VALUES ($1, $2, $3, $4, $5)");
    let mut set = WriteSet::of("story");
    for number in numbers {
        let (callback, waba_id) = (format!("{id}-{number}"), format!("waba{id}"));
        set.push(KEEP, args![callback, waba_id, vec![0_u8], next_at, next_at]);
    }
    world.app(Env::Live).await.db.commit(set).await.unwrap();
}

async fn who_floods_with_callbacks_is_told_to_come_again_and_others_go_on(
    world: &World,
    upstream: &CloudApi,
) {
    let eve = linked(world, upstream, "eve", "777").await;
    let ben = linked(world, upstream, "ben", "778").await;
    let later = world.now() + HOUR;
    wait_for(world, "777", 0..255, later).await;
    // One more may wait.
    call_back(world, &eve, "eve", "777").await.ok();
    heard(&eve, 1).await;
    wait_for(world, "777", 255..256, later).await;
    call_back(world, &eve, "eve", "777").await.problem("overloaded");
    assert_eq!(stored(world).await, 256);
    call_back(world, &ben, "ben", "778").await.ok();
    heard(&ben, 1).await;
    // They are taken in some time, and then she is heard.
    world.advance(HOUR).await;
    eventually(async || (stored(world).await == 0).then_some(())).await;
    call_back(world, &eve, "eve", "777").await.ok();
    heard(&eve, 2).await;
}

async fn nobodys_callbacks_wait_behind_anothers(world: &World, upstream: &CloudApi) {
    const MANY: usize = 240;
    linked(world, upstream, "eve", "777").await;
    linked(world, upstream, "ben", "778").await;
    world.faults.write_down();
    let due_at = world.now() + MINUTE;
    wait_for(world, "777", 0..MANY, due_at).await;
    wait_for(world, "778", 0..1, due_at + 1).await;
    world.advance(2 * MINUTE).await;
    eventually(async || (stored(world).await == 0).then_some(())).await;
    let commits = world.faults.seen().commits;
    let is_taken_in = |one: &&Stmt| one.sql.0.contains("DELETE FROM chatapp_callbacks");
    let deleted = commits.iter().flat_map(WriteSet::stmts).filter(is_taken_in);
    let before = deleted.take_while(|one| !one.args.contains(&Val::from("778-0"))).count();
    assert!(before < MANY / 4, "{before} of eve's were taken in before ben's");
}
