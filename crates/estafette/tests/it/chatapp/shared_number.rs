//! The number that is everybody's: an account that is linked to it, or to another one of the same
//! business account, takes nothing from the others; and nobody uses the business account up alone.

use playground::cloud_api::{self, CloudApi};
use serde_json::{Value, json};

use super::live::{heard, stories, text_message, world};
use super::{read_as, write};
use crate::world::World;
use crate::world::eventually;
use crate::world::tenant::{Tenant, phone};

stories!(
    who_is_linked_to_the_shared_number_gets_nobody_elses_answers,
    a_link_within_the_business_account_begins_templates_anew,
    one_account_does_not_use_up_what_the_chatapp_answers,
);

async fn link(world: &World, ada: &Tenant<'_>, method: &str) {
    let staff = world.staff().await;
    let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    let shared = json!({"phone_number_id": cloud_api::PHONE_NUMBER_ID,
        "waba_id": cloud_api::WABA_ID, "access_token": cloud_api::ACCESS_TOKEN,
        "app_secret": "adas-secret", "verify_token": "adas-word"});
    let call = world.call(method, estafette::app::Env::Live, &path).bearer(staff);
    if method == "PUT" {
        call.json(&shared).await.ok()
    } else {
        call.await.ok()
    };
}

async fn who_is_linked_to_the_shared_number_gets_nobody_elses_answers(
    world: &World,
    upstream: &CloudApi,
) {
    let (ada, bob) = (world.live_account("ada", 100).await, world.live_account("bob", 100).await);
    link(world, &ada, "PUT").await;
    bob.send(json!({"to": phone("5678"), "request_messaging_consent": true})).await.ok();
    let prompt = eventually(async || {
        upstream.messages().into_iter().find(|one| one["template"]["name"] == "consent")
    })
    .await;
    let payload = prompt["template"]["components"][0]["parameters"][0]["payload"].clone();
    let tap = json!({"type": "button", "button": {"payload": payload, "text": "Oui"}});
    upstream.write(&phone("5678"), tap).await.unwrap();
    super::session_as(&bob, "active").await;
    upstream.write(&phone("5678"), text_message("for Bob")).await.unwrap();
    heard(&bob, 2).await;
    // Control: who wrote to nobody here is the owner's.
    upstream.write(&phone("5679"), text_message("a stranger")).await.unwrap();
    let all = heard(&ada, 1).await;
    assert_eq!(all[0]["message"], "a stranger", "{all:?}");
}

async fn a_link_within_the_business_account_begins_templates_anew(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"name": "order", "body": "Bonjour {{1}}.", "category": "UTILITY"});
    ada.call("POST", "/v1/chatapp/templates").json(&body).await.ok();
    let path = "/v1/chatapp/templates/order";
    let until_approved = async || {
        eventually(async || {
            ada.call("POST", &format!("{path}/sync")).await.ok();
            Some(ada.get(path).await.ok()).filter(|now| now.word("status") == "APPROVED")
        })
        .await
    };
    until_approved().await;
    let says_what_is_sent = async |to: &str| {
        let body = json!({"to": phone(to), "template_name": "order", "template_params": ["Ana"],
            "billing_mode": "direct"});
        let sent = write(&ada, &body).await.ok();
        read_as(&ada, sent.word("id"), "delivered").await;
        let sent = upstream.messages().last().unwrap()["template"]["name"].clone();
        sent.as_str().unwrap().to_owned()
    };
    let named = says_what_is_sent("5671").await;
    assert!(named.starts_with("order_"), "{named}");
    link(world, &ada, "PUT").await;
    assert_eq!(ada.get(path).await.ok().word("status"), "PENDING", "it has another name there");
    until_approved().await;
    assert_eq!(says_what_is_sent("5672").await, "order");
    // Whoever had the deployment's own there could delete it for everybody.
    let own = json!({"name": "verification_code", "body": "x", "category": "AUTHENTICATION"});
    ada.call("POST", "/v1/chatapp/templates").json(&own).await.problem("template_exists");
    link(world, &ada, "DELETE").await;
    assert_eq!(ada.get(path).await.ok().word("status"), "PENDING");
    until_approved().await;
    assert_eq!(says_what_is_sent("5673").await, named);
}

async fn one_account_does_not_use_up_what_the_chatapp_answers(world: &World, _: &CloudApi) {
    let (ada, bob) = (world.live_account("ada", 100).await, world.live_account("bob", 100).await);
    for one in [&ada, &bob] {
        let body: Value = json!({"name": "order", "body": "Bonjour"});
        one.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    }
    let sync = "/v1/chatapp/templates/order/sync";
    let mut taken = 0;
    let refused = loop {
        let answer = ada.call("POST", sync).await;
        if answer.status != 200 {
            break answer.problem("rate_limited");
        }
        taken += 1;
        assert!(taken < 250, "without end");
    };
    assert!((195..=205).contains(&taken), "{taken}");
    assert!(!refused.head("retry-after").is_empty());
    bob.call("POST", sync).await.ok();
    ada.get("/v1/chatapp/templates/order").await.ok();
}
