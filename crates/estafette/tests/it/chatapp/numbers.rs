//! Whose number a person wrote to.

use estafette::app::Env;
use playground::cloud_api::{self, CloudApi};
use serde_json::json;

use super::live::{heard, stories, text_message, world};
use super::told;
use crate::world::World;
use crate::world::tenant::phone;

stories!(
    who_has_a_number_of_its_own_is_not_answered_on_the_shared_one,
    what_is_answered_goes_to_whoever_asked,
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
