//! The chat-app live, against the playground's Cloud API: passcodes with their fallback, messages,
//! callbacks whole, doubled, shuffled and forged, and whom an answer is for.

use std::net::SocketAddr;

use estafette::app::Env;
use estafette::kit::secret::Secret;
use playground::cloud_api::{self, CloudApi};
use serde_json::{Value, json};

use super::{read_as, told, write};
use crate::world::tenant::{Tenant, phone};
use crate::world::{Engine, World, eventually};

/// A world whose live chat-app is the playground's, and that.
pub(super) async fn world(engine: Engine) -> (World, CloudApi) {
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
    a_template_is_submitted_judged_and_sent,
    the_deployments_own_templates_are_made,
    an_account_is_linked_to_a_number_of_its_own,
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
    for ending in ["0001", "0008"] {
        let body = json!({"to": phone(ending), "delivery_mode": "chatapp"});
        let answer = ada.send(body).await;
        // One is refused by the answer, the other by a callback while the request waits.
        assert!([422, 200].contains(&answer.status), "{}", answer.text);
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
    let shown = ask(cloud_api::VERIFY_TOKEN).await;
    assert_eq!((shown.status, shown.text.as_str()), (200, "1158"));
    assert_eq!(ask("other").await.status, 403);
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
    eve.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
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
    let eves = upstream.messages()[0]["biz_opaque_callback_data"].clone();
    assert!(eves.as_str().unwrap().starts_with(&eve.account_id));
    let context = json!({"context": {"id": "wamid.PLAY000000000001"}, "type": "text",
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

async fn a_template_is_submitted_judged_and_sent(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"name": "order", "body": "Bonjour {{1}}, c'est prêt.", "footer": "ACME",
        "category": "UTILITY"});
    let declared = ada.call("POST", "/v1/chatapp/templates").json(&body).await.ok();
    assert_eq!(declared.word("status"), "PENDING");
    let known = upstream.templates();
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
    // Rejected, which a sync finds out as well.
    let body = json!({"name": "no", "body": "x", "language": "en"});
    ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    // Another account may have a template of the same name.
    let eve = world.live_account("eve", 100).await;
    let body = json!({"name": "order", "body": "Hello", "submit": true});
    eve.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    assert_eq!(upstream.templates().len(), 3);
}

async fn the_deployments_own_templates_are_made(world: &World, upstream: &CloudApi) {
    world.housekeep().await;
    let made = eventually(async || Some(upstream.templates()).filter(|all| all.len() == 4)).await;
    let mut names: Vec<String> =
        made.iter().map(|it| format!("{} {}", it["name"], it["language"])).collect();
    names.sort();
    let expected = ["consent", "verification_code"]
        .map(|name| ["en", "fr"].map(|language| format!("\"{name}\" \"{language}\"")));
    assert_eq!(names, expected.concat());
    let consent = made.iter().find(|it| it["name"] == "consent" && it["language"] == "fr").unwrap();
    assert_eq!(consent["components"][1]["buttons"][0]["text"], "Oui");
    // Six hours later nothing is missing.
    world.advance(7 * clock::HOUR).await;
    world.housekeep().await;
    assert_eq!(upstream.templates().len(), 4);
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
    // The playground knows neither token nor number: nothing of Ada's goes out, Eve's does.
    let body = json!({"to": phone("5678"), "delivery_mode": "chatapp"});
    let refused = ada.send(&body).await;
    assert!([422, 502].contains(&refused.status), "{}", refused.text);
    assert_eq!(ada.balance().await, 100, "what is refused costs nothing");
    eve.send(&body).await.ok();
    assert_eq!(upstream.messages().len(), 1);
    let word = "hub.mode=subscribe&hub.verify_token=adas-word&hub.challenge=7";
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
    let mut bad = own.clone();
    bad["waba_id"] = json!("../x");
    link(&bad).await.fault("/waba_id", "invalid_type");
    let sandbox = world.account("cid").await;
    let path = format!("/v1/admin/accounts/{}/chatapp", sandbox.account_id);
    let other = world.call("PUT", Env::Live, &path).bearer(staff).json(&own).await;
    other.problem("not_found");
    ada.desk("PUT", &path).json(&own).await.problem("invalid_token");
}
