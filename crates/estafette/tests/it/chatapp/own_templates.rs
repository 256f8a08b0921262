//! The deployment's own templates on live: made, kept as the settings say, and made again when the
//! upstream has lost them.

use clock::MINUTE;
use estafette::app::Env;
use playground::cloud_api::{self, Chaos, CloudApi};
use serde_json::{Value, json};

use super::live::{stories, world};
use super::write;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

stories!(
    the_deployments_own_templates_are_made,
    a_passcode_that_lives_too_long_is_changed_and_a_prompt_is_not,
    templates_that_somebody_deleted_are_made_when_a_passcode_is_refused,
    a_business_account_gets_its_templates_once_its_token_works,
    a_template_that_nobody_confirmed_is_submitted_again_within_minutes,
    another_business_account_judges_the_templates_anew,
    a_template_that_is_there_already_is_taken_over_only_if_it_says_the_same,
    a_template_of_ones_own_business_account_is_taken_over_by_a_sync,
    a_template_that_its_owner_edits_there_is_sent_as_it_is_then,
);

/// A number on a business account of its own.
fn own_number() -> Value {
    json!({"phone_number_id": "555", "waba_id": "556", "access_token": cloud_api::ACCESS_TOKEN,
        "app_secret": cloud_api::APP_SECRET, "verify_token": "v"})
}

/// What one business account approved, another may not have.
async fn another_business_account_judges_the_templates_anew(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"name": "order", "body": "Bonjour {{1}}", "category": "UTILITY"});
    ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    let path = "/v1/chatapp/templates/order";
    let approved = async || {
        eventually(async || {
            world.advance(10 * MINUTE).await;
            world.housekeep().await;
            Some(ada.get(path).await.ok()).filter(|now| now.word("status") == "APPROVED")
        })
        .await
    };
    let first = approved().await;
    upstream.add_number("555", "556");
    let staff = world.staff().await;
    let link = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    let own = own_number();
    world.call("PUT", Env::Live, &link).bearer(staff).json(&own).await.ok();
    let order = json!({"to": phone("5678"), "template_name": "order", "template_params": ["Ana"],
        "billing_mode": "direct"});
    write(&ada, &order).await.problem("template_not_approved");
    let second = approved().await;
    assert_ne!(second.word("provider_template_id"), first.word("provider_template_id"));
    write(&ada, &order).await.ok();
    // The same number with another token has the same templates.
    world.call("PUT", Env::Live, &link).bearer(staff).json(&own).await.ok();
    write(&ada, &order).await.ok();
    world.call("DELETE", Env::Live, &link).bearer(staff).await.ok();
    write(&ada, &order).await.problem("template_not_approved");
}

/// Whoever declares a text must not find out from recipients that another one was sent.
async fn a_template_that_is_there_already_is_taken_over_only_if_it_says_the_same(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    upstream.add_number("555", "556");
    let staff = world.staff().await;
    let link = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    world.call("PUT", Env::Live, &link).bearer(staff).json(own_number()).await.ok();
    let declare = async |name: &str, text: &str| {
        let body = json!({"name": name, "body": text, "category": "UTILITY"});
        ada.call("POST", "/v1/chatapp/templates").json(body).await
    };
    upstream.make_template("556", "order", "fr", "Bonjour {{1}}");
    let refused = declare("order", "Au revoir {{1}}").await.problem("template_exists");
    assert!(refused.word("detail").contains("with another text"), "{}", refused.text);
    let path = "/v1/chatapp/templates/order";
    assert_eq!(ada.get(path).await.ok().word("status"), "PENDING", "it is a draft");
    assert_eq!(declare("order", "Bonjour  {{1}} ").await.ok().word("status"), "APPROVED");
    // One whose submission was not answered, and which somebody made meanwhile, is not hers either.
    upstream.misbehave(Some(Chaos::Down));
    upstream.misbehave_at("555", Some(Chaos::Down));
    declare("bill", "Dix euros").await.ok();
    upstream.misbehave(None);
    upstream.misbehave_at("555", None);
    upstream.make_template("556", "bill", "fr", "Vingt euros");
    world.advance(6 * MINUTE).await;
    world.housekeep().await;
    let path = "/v1/chatapp/templates/bill";
    let bill = ada.get(path).await.ok();
    assert_eq!(bill.word("status"), "REJECTED", "{}", bill.text);
    assert!(bill.word("rejection_reason").contains("with another text"), "{}", bill.text);
    ada.call("POST", &format!("{path}/sync")).await.problem("template_exists");
    ada.call("DELETE", path).await.ok();
    let is_there = |it: &Value| it["name"] == "bill";
    assert!(upstream.templates().iter().any(is_there), "what she did not make stays");
}

async fn a_template_of_ones_own_business_account_is_taken_over_by_a_sync(
    world: &World,
    upstream: &CloudApi,
) {
    let (ada, ben) = (world.live_account("ada", 100).await, world.live_account("ben", 100).await);
    upstream.add_number("555", "556");
    upstream.add_number("557", cloud_api::WABA_ID);
    let staff = world.staff().await;
    for (account, number) in [
        (&ada, own_number()),
        // A number of her own, and names that meet those of others.
        (
            &ben,
            json!({"phone_number_id": "557", "waba_id": cloud_api::WABA_ID,
            "access_token": cloud_api::ACCESS_TOKEN, "app_secret": cloud_api::APP_SECRET,
            "verify_token": "v"}),
        ),
    ] {
        let link = format!("/v1/admin/accounts/{}/chatapp", account.account_id);
        world.call("PUT", Env::Live, &link).bearer(staff).json(number).await.ok();
    }
    let parts = json!([{"type": "BODY", "text": "Facture {{1}} de {{2}}"},
        {"type": "FOOTER", "text": "STOP"},
        {"type": "BUTTONS", "buttons": [{"type": "QUICK_REPLY", "text": "Oui"}]}]);
    upstream.make_template_of("556", "bill", "fr", &parts);
    let picture = json!([{"type": "HEADER", "format": "IMAGE"}, {"type": "BODY", "text": "x"}]);
    upstream.make_template_of("556", "picture", "fr", &picture);
    upstream.make_template("556", "greeting", "en", "Hi {{1}}");
    upstream.make_template(cloud_api::WABA_ID, "bill", "fr", "Bonjour");
    let path = "/v1/chatapp/templates";
    let sync = |of: &str| ada.call("POST", &format!("{path}/{of}"));
    ada.get(&format!("{path}/bill")).await.problem("not_found");
    let synced = sync("bill/sync").await.ok();
    assert_eq!((synced.word("status"), synced.word("language")), ("APPROVED", "fr"));
    let bill = ada.get(&format!("{path}/bill")).await.ok();
    assert_eq!((bill.word("status"), bill.number("body_param_count")), ("APPROVED", 2));
    let message = json!({"to": phone("5678"), "template_name": "bill",
        "template_params": ["7", "Ana"], "billing_mode": "direct"});
    write(&ada, &message).await.ok();
    for _ in 0..2 {
        let synced = sync("greeting/sync?language=en_GB").await.ok();
        assert_eq!((synced.word("status"), synced.word("language")), ("APPROVED", "en"));
    }
    // The one of the very language comes all the same, once there is one.
    upstream.make_template("556", "greeting", "en_GB", "Hello {{1}}");
    let synced = sync("greeting/sync?language=en_GB").await.ok();
    assert_eq!(synced.word("language"), "en_GB");
    ada.call("DELETE", &format!("{path}/greeting?language=en_GB")).await.ok();
    for (name, why) in [
        ("picture", "a picture or a catalogue"),
        ("none", "no template"),
        ("consent", "no template"),
        ("a%26b", "no template"),
    ] {
        let refused = sync(&format!("{name}/sync")).await.problem("not_found");
        assert!(refused.word("detail").contains(why), "{name}: {}", refused.text);
    }
    let all = ada.get(path).await.ok();
    let names: Vec<&str> = all.body["templates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["bill", "greeting"]);
    ben.call("POST", &format!("{path}/bill/sync")).await.problem("not_found");
    // As any other, it follows what the upstream says, and is none of hers that is gone there.
    upstream.retire_templates("PENDING_DELETION");
    assert_eq!(sync("bill/sync").await.ok().word("status"), "REJECTED");
    ada.call("DELETE", &format!("{path}/greeting?language=en")).await.ok();
    sync("greeting/sync?language=en").await.problem("not_found");
}

async fn a_template_that_its_owner_edits_there_is_sent_as_it_is_then(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    upstream.add_number("555", "556");
    let link = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    let staff = world.staff().await;
    world.call("PUT", Env::Live, &link).bearer(staff).json(own_number()).await.ok();
    upstream.make_template("556", "bill", "fr", "Facture {{1}} de {{2}}");
    let path = "/v1/chatapp/templates/bill";
    let sync = || ada.call("POST", &format!("{path}/sync"));
    let stands = async || {
        let bill = ada.get(path).await.ok();
        (bill.word("status").to_owned(), bill.number("body_param_count"))
    };
    sync().await.ok();
    assert_eq!(stands().await, ("APPROVED".to_owned(), 2));
    upstream.change_templates("components", &json!([{"type": "BODY", "text": "Facture {{1}}"}]));
    sync().await.ok();
    assert_eq!(stands().await, ("APPROVED".to_owned(), 1));
    let picture = json!([{"type": "HEADER", "format": "IMAGE"}, {"type": "BODY", "text": "x"}]);
    upstream.change_templates("components", &picture);
    // It has a place for a picture now, which nobody here can fill.
    let refused = sync().await.ok();
    assert!(refused.word("message").contains("a picture or a catalogue"), "{}", refused.text);
    assert_eq!(stands().await.0, "REJECTED");
    ada.call("DELETE", path).await.ok();
}

async fn the_deployments_own_templates_are_made(world: &World, upstream: &CloudApi) {
    // At once: no chore has run, nobody has asked.
    let made = eventually(async || Some(upstream.templates()).filter(|all| all.len() == 4)).await;
    let mut names: Vec<String> =
        made.iter().map(|it| format!("{} {}", it["name"], it["language"])).collect();
    names.sort();
    let expected = ["consent", "verification_code"]
        .map(|name| ["en", "fr"].map(|language| format!("\"{name}\" \"{language}\"")));
    assert_eq!(names, expected.concat());
    let consent = made.iter().find(|it| it["name"] == "consent" && it["language"] == "fr").unwrap();
    assert_eq!(consent["components"][1]["buttons"][0]["text"], "Oui");
    for passcode in made.iter().filter(|it| it["name"] == "verification_code") {
        // The shortest that there is, since SMS follows after 20 s.
        assert_eq!(passcode["message_send_ttl_seconds"], 30);
        assert_eq!(passcode["components"][1]["code_expiration_minutes"], 5);
    }
    // Six hours later nothing is missing.
    world.advance(7 * clock::HOUR).await;
    world.housekeep().await;
    assert_eq!(upstream.templates().len(), 4);
}

async fn are_made(upstream: &CloudApi, waba_id: &str) {
    eventually(async || {
        let all = upstream.templates();
        let own = all.iter().filter(|it| it["waba_id"] == waba_id && it["status"] == "APPROVED");
        (own.count() == 4).then_some(())
    })
    .await;
}

async fn a_passcode_that_lives_too_long_is_changed_and_a_prompt_is_not(
    world: &World,
    upstream: &CloudApi,
) {
    are_made(upstream, cloud_api::WABA_ID).await;
    // The upstream forgets the time to live when it changes a category by itself.
    upstream.change_templates("message_send_ttl_seconds", &json!(600));
    upstream.change_templates("category", &json!("MARKETING"));
    world.advance(7 * clock::HOUR).await;
    world.housekeep().await;
    let lives = |name: &str| {
        let all = upstream.templates();
        let found = all.iter().filter(|it| it["name"] == name);
        found.map(|it| it["message_send_ttl_seconds"].clone()).collect::<Vec<Value>>()
    };
    eventually(async || (lives("verification_code") == [30, 30]).then_some(())).await;
    assert_eq!(lives("consent"), [600, 600], "how people are asked is the operator's");
    are_made(upstream, cloud_api::WABA_ID).await;
}

async fn templates_that_somebody_deleted_are_made_when_a_passcode_is_refused(
    world: &World,
    upstream: &CloudApi,
) {
    upstream.be_strict();
    are_made(upstream, cloud_api::WABA_ID).await;
    let ada = world.live_account("ada", 100).await;
    let body = |ending: &str| json!({"to": phone(ending), "delivery_mode": "chatapp"});
    assert_eq!(ada.send(body("5671")).await.ok().word("status"), "delivered");
    // What may be wrong is named where the caller chose it.
    let mut other = body("5674");
    other["template_name"] = json!("no_such");
    let refused = ada.send(other).await.problem("carrier_error");
    assert!(refused.word("detail").contains("Check `template_name`:"), "{}", refused.text);
    upstream.forget_templates();
    world.advance(61_000).await;
    let refused = ada.send(body("5672")).await.problem("carrier_error");
    assert!(!refused.text.contains("template_"), "{}", refused.text);
    are_made(upstream, cloud_api::WABA_ID).await;
    assert_eq!(ada.send(body("5673")).await.ok().word("status"), "delivered");
    assert_eq!(ada.balance().await, 100 - 2 * world.price("chatapp", "FR"));
}

async fn a_business_account_gets_its_templates_once_its_token_works(
    world: &World,
    upstream: &CloudApi,
) {
    upstream.be_strict();
    upstream.add_number("555", "556");
    let ada = world.live_account("ada", 100).await;
    let staff = world.staff().await;
    let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    let link = |token: &str| {
        let body = json!({"phone_number_id": "555", "waba_id": "556", "access_token": token,
            "app_secret": "s", "verify_token": "v"});
        world.call("PUT", Env::Live, &path).bearer(staff).json(body)
    };
    link("a token of another time").await.ok();
    let body = |ending: &str| json!({"to": phone(ending), "delivery_mode": "chatapp"});
    ada.send(body("5671")).await.problem("carrier_error");
    let of_ada = || upstream.templates().iter().filter(|it| it["waba_id"] == "556").count();
    assert_eq!(of_ada(), 0);
    link(cloud_api::ACCESS_TOKEN).await.ok();
    // The clock stands still: it is not a retry that makes them.
    are_made(upstream, "556").await;
    assert_eq!(ada.send(body("5672")).await.ok().word("channel"), "chatapp");
    assert_eq!(ada.balance().await, 100 - world.price("chatapp", "FR"));
}

async fn a_template_that_nobody_confirmed_is_submitted_again_within_minutes(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    upstream.misbehave(Some(Chaos::Down));
    let body = json!({"name": "order", "body": "Bonjour"});
    let declared = ada.call("POST", "/v1/chatapp/templates").json(&body).await.ok();
    assert_eq!((declared.word("status"), declared.word("provider_template_id")), ("PENDING", ""));
    assert!(declared.word("message").contains("has not confirmed"), "{}", declared.text);
    let path = "/v1/chatapp/templates/order";
    world.advance(6 * MINUTE).await;
    world.housekeep().await;
    assert_eq!(ada.get(path).await.ok().word("provider_status"), "", "it is still down");
    upstream.misbehave(None);
    world.advance(6 * MINUTE).await;
    world.housekeep().await;
    let approved =
        async || Some(ada.get(path).await.ok()).filter(|now| now.word("status") == "APPROVED");
    eventually(approved).await;
    let known = upstream.templates();
    let known = known.iter().filter(|it| it["name"].as_str().unwrap().starts_with("order_"));
    assert_eq!(known.count(), 1);
}
