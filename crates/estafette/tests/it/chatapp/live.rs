//! The chat-app live, against the playground's Cloud API: passcodes with their fallback, messages,
//! callbacks whole, doubled, shuffled and forged, and whom an answer is for.

use std::net::SocketAddr;

use estafette::app::Env;
use estafette::config::Config;
use estafette::kit::secret::Secret;
use playground::cloud_api::{self, CloudApi};
use serde_json::{Value, json};

use super::{read_as, told, write};
use crate::world::tenant::{Tenant, phone};
use crate::world::{Engine, World, eventually};

/// A world whose live chat-app is the playground's, and that.
pub(super) async fn world(engine: Engine) -> (World, CloudApi) {
    world_with(engine, |_| {}).await
}

/// The same with more settings.
pub(super) async fn world_with(
    engine: Engine,
    more: impl FnOnce(&mut Config),
) -> (World, CloudApi) {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let upstream = CloudApi::start(anywhere).await.unwrap();
    let address = upstream.address();
    let world = World::with(engine, |config| {
        let chatapp = &mut config.chatapp;
        chatapp.base_url = format!("http://{address}");
        cloud_api::PHONE_NUMBER_ID.clone_into(&mut chatapp.phone_number_id);
        cloud_api::WABA_ID.clone_into(&mut chatapp.waba_id);
        chatapp.access_token = Secret::new(cloud_api::ACCESS_TOKEN.to_owned());
        chatapp.app_secret = Secret::new(cloud_api::APP_SECRET.to_owned());
        chatapp.verify_token = Secret::new(cloud_api::VERIFY_TOKEN.to_owned());
        "consent".clone_into(&mut chatapp.consent_template);
        config.otp.receipt_wait_ms = 2_000;
        more(config);
    })
    .await;
    upstream.call_back(world.address(Env::Live));
    (world, upstream)
}

macro_rules! stories {
    ($($story:ident),+ $(,)?) => { $(
        mod $story {
            use crate::world::Engine;

            async fn run(engine: Engine) {
                let (world, upstream) = super::world(engine).await;
                super::$story(&world, &upstream).await;
                world.finish().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn lite() {
                run(Engine::Lite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                run(Engine::Postgres).await;
            }
        }
    )+ };
}

pub(super) use stories;

stories!(
    a_passcode_goes_out_as_a_template_and_is_delivered,
    who_is_not_on_the_chatapp_costs_nothing,
    the_handshake_and_the_signature_are_checked,
    a_person_writes_and_is_answered,
    callbacks_doubled_shuffled_and_batched_have_one_effect_each,
    a_prompt_is_tapped_by_its_payload,
    an_open_window_is_asked_with_buttons,
    a_template_is_submitted_judged_and_sent,
    many_templates_are_compared_page_by_page,
    an_account_is_linked_to_a_number_of_its_own,
    a_linked_business_account_speaks_for_its_own_number_only,
);

async fn a_passcode_goes_out_as_a_template_and_is_delivered(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    assert_eq!((sent.word("channel"), sent.word("status")), ("chatapp", "delivered"));
    let taken = upstream.messages();
    assert_eq!(taken.len(), 1);
    let template = &taken[0]["template"];
    assert_eq!(
        (&template["name"], &template["language"]["code"]),
        (&json!("verification_code"), &json!("fr"))
    );
    assert_eq!(template["components"][1]["parameters"][0]["text"], "4821");
    assert_eq!(ada.balance().await, 100 - world.price("chatapp", "FR"));
    assert!(sent.word("provider_message_id").starts_with("wamid."), "{}", sent.text);
}

async fn who_is_not_on_the_chatapp_costs_nothing(world: &World, _: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    // One is refused by the answer, the other by a callback while the request waits.
    for ending in ["0001", "0008"] {
        let body = json!({"to": phone(ending), "delivery_mode": "chatapp"});
        ada.send(body).await.problem("recipient_unreachable");
        assert_eq!(ada.balance().await, 100);
    }
    let body = json!({"to": phone("0001"), "delivery_mode": "chatapp", "reference": "again"});
    world.advance(31_000).await;
    ada.send(body).await.problem("recipient_unreachable");
}

async fn the_handshake_and_the_signature_are_checked(world: &World, upstream: &CloudApi) {
    let ask = |word: &str| {
        let path = format!(
            "/v1/upstream/chatapp?hub.mode=subscribe&hub.verify_token={word}&hub.challenge=1158"
        );
        world.get(Env::Live, &path)
    };
    // What the upstream tells of the deployment's own templates is taken in.
    eventually(async || {
        let all = upstream.templates();
        (all.len() == 4 && all.iter().all(|it| it["status"] == "APPROVED")).then_some(())
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    eventually(async || (stored(world).await == 0).then_some(())).await;
    let shown = ask(cloud_api::VERIFY_TOKEN).await;
    assert_eq!((shown.status, shown.text.as_str()), (200, "1158"));
    ask("other").await.problem("invalid_token");
    let bare = format!("hub.mode=subscribe&hub.verify_token={}", cloud_api::VERIFY_TOKEN);
    let bare = world.get(Env::Live, &format!("/v1/upstream/chatapp?{bare}")).await;
    bare.problem("invalid_request");
    let service = world.address(Env::Live);
    let body = cloud_api::message_body(
        "33612345678",
        "wamid.1",
        json!({"type": "text",
        "text": {"body": "hello"}}),
    );
    let text = body.to_string();
    let bad = cloud_api::post_signed(service, "other secret", text.as_bytes()).await.unwrap();
    assert_eq!(bad, 401);
    assert_eq!(stored(world).await, 0);
    upstream.tell(&body).await.unwrap();
    let long = format!("{{\"entry\":[],\"x\":\"{}\"}}", "y".repeat(2 * 1024 * 1024));
    let secret = cloud_api::APP_SECRET;
    assert_eq!(cloud_api::post_signed(service, secret, long.as_bytes()).await.unwrap(), 200);
    // What nobody can read is dropped, and nothing waits behind it.
    assert_eq!(cloud_api::post_signed(service, secret, b"no json").await.unwrap(), 200);
    eventually(async || (stored(world).await == 0).then_some(())).await;
    world.get(Env::Sandbox, "/v1/upstream/chatapp").await.problem("route_not_found");
}

/// Callbacks that are not taken in yet.
pub(super) async fn stored(world: &World) -> i64 {
    let db = world.app(Env::Live).await.db.clone();
    let count = store::Sql("SELECT COUNT(*) FROM chatapp_callbacks");
    db.row::<(i64,)>(count, store::args![]).await.unwrap().unwrap().0
}

pub(super) fn text_message(text: &str) -> Value {
    json!({"type": "text", "text": {"body": text}})
}

pub(super) async fn heard(ada: &Tenant<'_>, count: usize) -> Vec<Value> {
    eventually(async || Some(told(ada, "chatapp.inbound").await).filter(|all| all.len() == count))
        .await
}

async fn a_person_writes_and_is_answered(world: &World, upstream: &CloudApi) {
    let (ada, eve) = (world.live_account("ada", 100).await, world.live_account("eve", 100).await);
    // Eve wrote to the person before, Ada last: what they write is for Ada.
    let eves = eve.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    ada.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    upstream.write(&phone("5678"), text_message("Bonjour")).await.unwrap();
    let seen = heard(&ada, 1).await;
    assert_eq!(
        (&seen[0]["message"], &seen[0]["sender"]),
        (&json!("Bonjour"), &json!(phone("5678")))
    );
    let body = json!({"to": phone("5678"), "text": "Salut", "billing_mode": "direct"});
    write(&eve, &body).await.problem("messaging_window_closed");
    let sent = write(&ada, &body).await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    let last = upstream.messages().last().unwrap().clone();
    assert_eq!((&last["type"], &last["text"]["body"]), (&json!("text"), &json!("Salut")));
    // A read, after it was delivered, and brought twice.
    let attempt = last["biz_opaque_callback_data"].clone();
    let read = json!({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [
        {"field": "messages", "value": {"statuses": [{"id": "wamid.x", "status": "read",
            "timestamp": "1", "biz_opaque_callback_data": attempt}]}}]}]});
    upstream.tell(&read).await.unwrap();
    upstream.tell(&read).await.unwrap();
    read_as(&ada, sent.word("id"), "read").await;
    let statuses = told(&ada, "chatapp.status").await;
    let words: Vec<&Value> = statuses.iter().map(|data| &data["status"]).collect();
    assert_eq!(words, ["sent", "delivered", "read"]);
    // Who answers Eve's message by name answers Eve.
    let context = json!({"context": {"id": eves.word("provider_message_id")}, "type": "text",
        "text": {"body": "for eve"}});
    upstream.write(&phone("5678"), context).await.unwrap();
    assert_eq!(heard(&eve, 1).await[0]["message"], "for eve");
}

async fn callbacks_doubled_shuffled_and_batched_have_one_effect_each(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    let message = |number: usize| {
        let id = format!("wamid.BATCH{number}");
        let text = json!({"type": "text", "text": {"body": format!("number {number}")}});
        cloud_api::message_body(&phone("5678"), &id, text)
    };
    // One body with forty messages, two of which are no messages, then each of them by itself.
    let mut batch = message(0);
    let all: Vec<Value> = (0..40)
        .map(|number| {
            let one = message(number);
            one["entry"][0]["changes"][0]["value"]["messages"][0].clone()
        })
        .chain([json!(7), json!({"id": [1]})])
        .collect();
    batch["entry"][0]["changes"][0]["value"]["messages"] = json!(all);
    upstream.tell(&batch).await.unwrap();
    for number in (0..40).rev().step_by(3) {
        upstream.tell(&message(number)).await.unwrap();
    }
    upstream.tell(&batch).await.unwrap();
    eventually(async || (stored(world).await == 0).then_some(())).await;
    assert_eq!(heard(&ada, 40).await.len(), 40);
    // One that does not say when is of now.
    let mut timeless = message(40);
    timeless["entry"][0]["changes"][0]["value"]["messages"][0]["timestamp"] = json!("soon");
    upstream.tell(&timeless).await.unwrap();
    let newest = heard(&ada, 41).await[0].clone();
    let year = |at: &str| at[..4].to_owned();
    assert_eq!(year(newest["received_at"].as_str().unwrap()), year(&world.now().to_string()));
}

async fn a_prompt_is_tapped_by_its_payload(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"to": phone("5678"), "request_messaging_consent": true});
    ada.send(body).await.ok();
    let prompt = eventually(async || {
        upstream.messages().into_iter().find(|one| one["template"]["name"] == "consent")
    })
    .await;
    let payload = prompt["template"]["components"][0]["parameters"][0]["payload"].clone();
    let tap = json!({"type": "button", "button": {"payload": payload, "text": "Oui"}});
    upstream.write(&phone("5678"), tap.clone()).await.unwrap();
    super::session_as(&ada, "active").await;
    assert_eq!(ada.balance().await, 100 - world.price("chatapp", "FR") - 10);
    assert_eq!(heard(&ada, 1).await[0]["button"], "yes");
    upstream.write(&phone("5678"), tap).await.unwrap();
    heard(&ada, 2).await;
    assert_eq!(ada.balance().await, 100 - world.price("chatapp", "FR") - 10);
}

/// Whoever wrote within a day is asked with buttons: no template is needed, nor its category.
async fn an_open_window_is_asked_with_buttons(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let quiet = json!({"to": phone("5678"), "request_messaging_consent": false});
    ada.send(quiet).await.ok();
    upstream.write(&phone("5678"), text_message("Bonjour")).await.unwrap();
    heard(&ada, 1).await;
    world.advance(31_000).await;
    let body = json!({"to": phone("5678"), "request_messaging_consent": true, "reference": "2"});
    ada.send(body).await.ok();
    let prompt = eventually(async || {
        upstream.messages().into_iter().find(|one| one["type"] == "interactive")
    })
    .await;
    let buttons = &prompt["interactive"]["action"]["buttons"];
    assert_eq!(
        (&buttons[0]["reply"]["title"], &buttons[1]["reply"]["title"]),
        (&json!("Oui"), &json!("Non"))
    );
    let tap = json!({"type": "interactive", "interactive": {"type": "button_reply",
        "button_reply": {"id": buttons[0]["reply"]["id"], "title": "Oui"}}});
    upstream.write(&phone("5678"), tap).await.unwrap();
    super::session_as(&ada, "active").await;
    // Long after that, only a template reaches them.
    world.advance(31 * clock::DAY).await;
    let body = json!({"to": phone("5678"), "request_messaging_consent": true, "reference": "3"});
    ada.send(body).await.ok();
    eventually(async || {
        upstream.messages().into_iter().find(|one| one["template"]["name"] == "consent")
    })
    .await;
}

async fn a_template_is_submitted_judged_and_sent(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"name": "order", "body": "Bonjour {{1}}, c'est prêt.", "footer": "ACME",
        "category": "UTILITY"});
    let declared = ada.call("POST", "/v1/chatapp/templates").json(&body).await.ok();
    assert_eq!(declared.word("status"), "PENDING");
    let known = of_tenants(upstream);
    assert_eq!(declared.word("provider_template_id"), known[0]["id"].as_str().unwrap());
    let name = known[0]["name"].as_str().unwrap();
    assert!(name.starts_with("order_") && ada.account_id.ends_with(&name[6..]), "{name}");
    assert_eq!(known[0]["components"][0]["example"]["body_text"], json!([["exemple 1"]]));
    // A callback says that it is approved.
    let path = "/v1/chatapp/templates/order";
    eventually(async || {
        Some(ada.get(path).await.ok()).filter(|now| now.word("status") == "APPROVED")
    })
    .await;
    ada.call("POST", "/v1/chatapp/templates").json(&body).await.problem("template_exists");
    let synced = ada.call("POST", &format!("{path}/sync")).await.ok();
    assert_eq!(synced.word("status"), "APPROVED");
    let body = json!({"to": phone("5678"), "template_name": "order", "template_params": ["Ana"],
        "billing_mode": "direct"});
    let sent = write(&ada, &body).await.ok();
    assert_eq!(sent.word("template"), "order");
    read_as(&ada, sent.word("id"), "delivered").await;
    let last = upstream.messages().last().unwrap()["template"].clone();
    assert_eq!(last["name"], name);
    assert_eq!(last["components"][0]["parameters"][0]["text"], "Ana");
    // The longest name that the upstream takes with its ending, and one that it is not asked for.
    let named = |length: usize| json!({"name": "n".repeat(length), "body": "x"});
    let declare = |body: Value| ada.call("POST", "/v1/chatapp/templates").json(body);
    declare(named(500)).await.fault("/name", "too_long");
    assert_eq!(of_tenants(upstream).len(), 1);
    declare(named(499)).await.ok();
    assert_eq!(of_tenants(upstream).len(), 2);
    let longest = format!("/v1/chatapp/templates/{}", "n".repeat(499));
    ada.call("DELETE", &longest).await.ok();
    // Rejected, which a sync finds out as well.
    let body = json!({"name": "no", "body": "x", "language": "en"});
    ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    // Another account may have a template of the same name.
    let eve = world.live_account("eve", 100).await;
    let body = json!({"name": "order", "body": "Hello", "submit": true});
    eve.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    assert_eq!(of_tenants(upstream).len(), 3);
    // Eve deletes hers, there as well; Ada's of the same name stays.
    let gone = eve.call("DELETE", path).await.ok();
    assert_eq!((gone.word("name"), gone.word("language")), ("order", "fr"));
    eve.get(path).await.problem("not_found");
    eve.call("DELETE", path).await.problem("not_found");
    assert_eq!(ada.get(path).await.ok().word("status"), "APPROVED");
    assert_eq!(of_tenants(upstream).len(), 2);
    // The name is free again, and one that somebody deleted at the provider cannot be sent.
    let body = json!({"name": "order", "body": "Hello"});
    eve.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    upstream.forget_templates();
    let synced = ada.call("POST", &format!("{path}/sync")).await.ok();
    assert_eq!(synced.word("status"), "REJECTED");
    assert_eq!(ada.get(path).await.ok().word("provider_status"), "DELETED");
    assert_eq!(ada.call("DELETE", path).await.ok().word("name"), "order");
}

/// The templates there that are none of the deployment's own.
fn of_tenants(upstream: &CloudApi) -> Vec<Value> {
    let mut all = upstream.templates();
    all.retain(|it| it["name"] != "consent" && it["name"] != "verification_code");
    all
}

/// What a business account has more of than fits into what is kept of other answers.
async fn many_templates_are_compared_page_by_page(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    for number in 0..60 {
        let body = json!({"name": format!("t{number}"), "body": "x".repeat(200)});
        ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    }
    let count = async |status: &str| {
        let all = ada.get(&format!("/v1/chatapp/templates?status={status}")).await.ok();
        all.field("templates").as_array().unwrap().len()
    };
    // What is judged, or heard of, afterwards would be approved again.
    eventually(async || (count("APPROVED").await == 60).then_some(())).await;
    upstream.retire_templates("PAUSED");
    world.advance(7 * clock::HOUR).await;
    world.housekeep().await;
    assert_eq!(count("REJECTED").await, 60);
}

async fn an_account_is_linked_to_a_number_of_its_own(world: &World, upstream: &CloudApi) {
    let (ada, eve) = (world.live_account("ada", 100).await, world.live_account("eve", 100).await);
    let staff = world.staff().await;
    let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    let link = |body: &Value| world.call("PUT", Env::Live, &path).bearer(staff).json(body);
    let own = json!({"phone_number_id": "777", "waba_id": "888", "access_token": "another token",
        "app_secret": "adas-secret", "verify_token": "adas-word"});
    let linked = link(&own).await.ok();
    let names = ["account_id", "callback_url", "linked_at", "phone_number_id", "waba_id"];
    assert_eq!(linked.names(), names);
    for secret in ["another token", "adas-secret", "adas-word"] {
        assert!(!linked.text.contains(secret), "{}", linked.text);
    }
    // A new business account is given the templates of the deployment at once.
    upstream.add_number("555", "556");
    let fresh = json!({"phone_number_id": "555", "waba_id": "556",
        "access_token": cloud_api::ACCESS_TOKEN, "app_secret": "s", "verify_token": "v"});
    link(&fresh).await.ok();
    eventually(async || {
        let all = upstream.templates();
        (all.iter().filter(|it| it["waba_id"] == "556").count() == 4).then_some(())
    })
    .await;
    link(&own).await.ok();
    // The playground knows neither token nor number: nothing of Ada's goes out, Eve's does.
    let body = json!({"to": phone("5678"), "delivery_mode": "chatapp"});
    ada.send(&body).await.problem("carrier_error");
    assert_eq!(ada.balance().await, 100, "what is refused costs nothing");
    eve.send(&body).await.ok();
    assert_eq!(upstream.messages().len(), 1);
    let word = "hub.mode=subscribe&hub.verify_token=adas-word&hub.challenge=7&via=proxy";
    let shown = world.get(Env::Live, &format!("/v1/upstream/chatapp?{word}")).await;
    assert_eq!((shown.status, shown.text.as_str()), (200, "7"));
    // What her secret signs is for her alone, and only about her business account.
    let service = world.address(Env::Live);
    let text = |waba_id: &str, id: &str| {
        let mut body = cloud_api::message_body(&phone("5678"), id, text_message("for Ada"));
        body["entry"][0]["id"] = waba_id.into();
        body["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "777".into();
        body.to_string()
    };
    let post = async |body: String| {
        cloud_api::post_signed(service, "adas-secret", body.as_bytes()).await.unwrap()
    };
    assert_eq!(post(text("888", "wamid.A1")).await, 200);
    assert_eq!(heard(&ada, 1).await[0]["message"], "for Ada");
    assert_eq!(post(text(cloud_api::WABA_ID, "wamid.A2")).await, 401);
    assert!(told(&eve, "chatapp.inbound").await.is_empty());
    // With the playground's own number and token she sends again.
    let shared = json!({"phone_number_id": cloud_api::PHONE_NUMBER_ID,
        "waba_id": cloud_api::WABA_ID, "access_token": cloud_api::ACCESS_TOKEN,
        "app_secret": "adas-secret", "verify_token": "adas-word"});
    link(&shared).await.ok();
    ada.send(json!({"to": phone("5679"), "delivery_mode": "chatapp"})).await.ok();
    assert_eq!(upstream.messages().len(), 2);
    // Staff see what she is linked to, without secrets, and take her back.
    let call = |method: &str| world.call(method, Env::Live, &path).bearer(staff);
    let seen = call("GET").await.ok();
    assert_eq!((seen.names(), seen.word("waba_id")), (names.to_vec(), cloud_api::WABA_ID));
    assert!(!seen.text.contains("adas-secret"), "{}", seen.text);
    assert_eq!(call("DELETE").await.ok().word("waba_id"), cloud_api::WABA_ID);
    call("GET").await.problem("not_found");
    call("DELETE").await.problem("not_found");
    ada.desk("GET", &path).await.problem("invalid_token");
    ada.send(json!({"to": phone("5670"), "delivery_mode": "chatapp"})).await.ok();
    assert_eq!(upstream.messages().len(), 3);
    let mut bad = own.clone();
    bad["waba_id"] = json!("../x");
    link(&bad).await.fault("/waba_id", "invalid_type");
    let sandbox = world.account("cid").await;
    let path = format!("/v1/admin/accounts/{}/chatapp", sandbox.account_id);
    let other = world.call("PUT", Env::Live, &path).bearer(staff).json(&own).await;
    other.problem("not_found");
    ada.desk("PUT", &path).json(&own).await.problem("invalid_token");
}

async fn a_linked_business_account_speaks_for_its_own_number_only(world: &World, _: &CloudApi) {
    let (ada, eve) = (world.live_account("ada", 100).await, world.live_account("eve", 100).await);
    let staff = world.staff().await;
    let link = |whose: &Tenant<'_>, body: &Value| {
        let path = format!("/v1/admin/accounts/{}/chatapp", whose.account_id);
        world.call("PUT", Env::Live, &path).bearer(staff).json(body)
    };
    let own = json!({"phone_number_id": "777", "waba_id": "888", "access_token": "another token",
        "app_secret": "adas-secret", "verify_token": "adas-word"});
    link(&ada, &own).await.ok();
    // Eve's customer, who has a passcode from the number that is everybody's.
    eve.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    let service = world.address(Env::Live);
    let bring = async |number: &str, id: &str, words: &str| {
        let mut body = cloud_api::message_body(&phone("5678"), id, text_message(words));
        body["entry"][0]["id"] = "888".into();
        body["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = number.into();
        let body = body.to_string();
        cloud_api::post_signed(service, "adas-secret", body.as_bytes()).await.unwrap()
    };
    for (id, words) in [("wamid.F1", "forged"), ("wamid.F2", "STOP")] {
        assert_eq!(bring(cloud_api::PHONE_NUMBER_ID, id, words).await, 200);
    }
    // Control: the same to her own number is heard. It came later, so the others were looked at.
    assert_eq!(bring("777", "wamid.O1", "for Ada").await, 200);
    assert_eq!(heard(&ada, 1).await[0]["message"], "for Ada");
    assert!(told(&eve, "chatapp.inbound").await.is_empty());
    let inbox = eve.get("/v1/inbound-notifications").await.ok();
    assert!(inbox.list().is_empty(), "{}", inbox.text);
    // One number is one business's.
    let taken = json!({"phone_number_id": "777", "waba_id": "999", "access_token": "t",
        "app_secret": "s", "verify_token": "v"});
    link(&eve, &taken).await.fault("/phone_number_id", "invalid_enum");
    link(&eve, &own).await.ok();
}
