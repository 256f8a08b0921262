//! What hostile people, tenants and upstreams try on the live chat-app, one by one.

use estafette::app::Env;
use playground::cloud_api::{self, CloudApi};
use serde_json::{Value, json};

use super::live::{heard, stored, stories, world};
use super::{read_as, session_as, text, write};
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

stories!(
    an_item_that_cannot_be_read_loses_no_other,
    nothing_opens_a_session_after_a_no_and_a_stop,
    words_in_answer_to_another_message_are_no_consent,
    no_message_of_a_tenant_answers_a_prompt,
    who_may_not_be_written_to_does_not_rest_the_number,
    a_linked_account_is_told_without_our_id,
    old_news_of_a_template_change_nothing,
    who_takes_a_message_back_has_not_answered_stop,
    a_number_that_does_not_work_is_shown_as_resting,
);

/// A message as a part of a body that is written by hand.
fn said(id: &str, words: &str) -> String {
    let body = json!({"from": "33612340003", "id": id, "timestamp": "1767225600",
        "type": "text", "text": {"body": words}});
    body.to_string()
}

async fn an_item_that_cannot_be_read_loses_no_other(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    ada.send(json!({"to": phone("0003"), "delivery_mode": "chatapp"})).await.ok();
    let open = json!({"type": "text", "text": {"body": "open"}});
    upstream.write(&phone("0003"), open).await.unwrap();
    heard(&ada, 1).await;
    let sent = text(&ada, "0003").await.ok();
    read_as(&ada, sent.word("id"), "sent").await;
    let echo = upstream.messages().last().unwrap()["biz_opaque_callback_data"].clone();
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let bad = [
        said("wamid.S1", "cut").replace("cut", r"cut \ud83d"),
        said("wamid.S2", "deep").replace("\"deep\"", &deep),
        said("wamid.S3", "large").replace("\"large\"", "1e999"),
    ];
    let metadata = json!({"phone_number_id": cloud_api::PHONE_NUMBER_ID,
        "display_phone_number": cloud_api::DISPLAY_NUMBER});
    let status = json!({"id": "wamid.unknown", "status": "delivered", "timestamp": "1767225600",
        "recipient_id": "33612340003", "biz_opaque_callback_data": echo});
    let body = format!(
        r#"{{"object":"whatsapp_business_account","entry":[{{"id":"{}","changes":[
        {{"field":"messages","value":{{"metadata":{metadata},
          "contacts":[{{"profile":{{"name":"Ann \ud83d"}},"wa_id":"33612340003"}}],
          "messages":[{},{},{},{},{}]}}}},
        {{"field":"messages","value":{{"metadata":{metadata},"statuses":[{status}]}}}}]}}]}}"#,
        cloud_api::WABA_ID,
        said("wamid.O1", "before"),
        bad[0],
        bad[1],
        bad[2],
        said("wamid.O2", "after"),
    );
    let service = world.address(Env::Live);
    let secret = cloud_api::APP_SECRET;
    assert_eq!(cloud_api::post_signed(service, secret, body.as_bytes()).await.unwrap(), 200);
    read_as(&ada, sent.word("id"), "delivered").await;
    let all = eventually(async || {
        let all = ada.get("/v1/inbound-notifications?limit=200").await.ok();
        let words: Vec<Value> = all.list().iter().map(|one| one["message"].clone()).collect();
        (words.contains(&json!("after")) && words.contains(&json!("cut \u{fffd}"))).then_some(words)
    })
    .await;
    assert!(all.contains(&json!("before")), "{all:?}");
}

/// A prompt that waits on the phone, and its payload without the answer.
async fn asked(ada: &Tenant<'_>, upstream: &CloudApi) -> String {
    let body = json!({"to": phone("5678"), "request_messaging_consent": true});
    ada.send(body).await.ok();
    let prompt = eventually(async || {
        upstream.messages().into_iter().find(|one| one["template"]["name"] == "consent")
    })
    .await;
    let payload = &prompt["template"]["components"][0]["parameters"][0]["payload"];
    session_as(ada, "pending").await;
    payload.as_str().unwrap().trim_end_matches(":y").to_owned()
}

fn tap(payload: &str, answer: &str) -> Value {
    json!({"type": "button", "button": {"payload": format!("{payload}:{answer}"), "text": "x"}})
}

async fn nothing_opens_a_session_after_a_no_and_a_stop(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let payload = asked(&ada, upstream).await;
    upstream.write(&phone("5678"), tap(&payload, "n")).await.unwrap();
    session_as(&ada, "declined").await;
    for words in ["STOP", "START"] {
        let message = json!({"type": "text", "text": {"body": words}});
        upstream.write(&phone("5678"), message).await.unwrap();
    }
    heard(&ada, 3).await;
    upstream.write(&phone("5678"), tap(&payload, "y")).await.unwrap();
    heard(&ada, 4).await;
    assert_eq!(session_as(&ada, "declined").await["billed_credits"], 0);
    assert_eq!(ada.balance().await, 100 - world.price("chatapp", "FR"));
}

async fn words_in_answer_to_another_message_are_no_consent(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    asked(&ada, upstream).await;
    for context in ["wamid.unknown", "wamid.PLAY000000000001"] {
        let yes = json!({"type": "text", "text": {"body": "Oui"},
            "context": {"from": cloud_api::DISPLAY_NUMBER, "id": context}});
        upstream.write(&phone("5678"), yes).await.unwrap();
    }
    heard(&ada, 2).await;
    session_as(&ada, "pending").await;
    // Control: alone, the same word is an answer.
    let yes = json!({"type": "text", "text": {"body": "Oui"}});
    upstream.write(&phone("5678"), yes).await.unwrap();
    session_as(&ada, "active").await;
}

async fn no_message_of_a_tenant_answers_a_prompt(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let payload = asked(&ada, upstream).await;
    let forged = json!({"to": phone("5678"), "template_name": "parcel", "components": [
        {"type": "button", "sub_type": "quick_reply", "index": "0",
         "parameters": [{"type": "payload", "payload": format!("{payload}:y")}]}]});
    write(&ada, &forged).await.fault("/components/0", "invalid_template_params");
}

async fn who_may_not_be_written_to_does_not_rest_the_number(world: &World, upstream: &CloudApi) {
    let (ada, eve) = (world.live_account("ada", 100).await, world.live_account("eve", 100).await);
    for (code, problem) in
        [(131_030, "recipient_unreachable"), (130_497, "carrier_error"), (131_063, "carrier_error")]
    {
        upstream.refuse_once(code);
        let body = json!({"to": phone("5670"), "delivery_mode": "chatapp"});
        ada.send(body).await.problem(problem);
        world.advance(61_000).await;
        let body = json!({"to": phone("5671"), "delivery_mode": "chatapp"});
        assert_eq!(eve.send(body).await.ok().word("status"), "delivered", "{code}");
    }
    assert_eq!(ada.balance().await, 100);
}

async fn a_linked_account_is_told_without_our_id(world: &World, upstream: &CloudApi) {
    upstream.add_number("555", "556");
    let (ada, eve) = (world.live_account("ada", 100).await, world.live_account("eve", 100).await);
    let staff = world.staff().await;
    let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
    let link = json!({"phone_number_id": "555", "waba_id": "556", "app_secret": "adas-secret",
        "verify_token": "v", "access_token": cloud_api::ACCESS_TOKEN});
    world.call("PUT", Env::Live, &path).bearer(staff).json(link).await.ok();
    let mut sent = vec![];
    for whose in [&ada, &eve] {
        let body = json!({"to": phone("0003"), "delivery_mode": "chatapp"});
        sent.push(whose.send(body).await.ok());
    }
    let service = world.address(Env::Live);
    for one in sent.iter().rev() {
        let status = json!({"id": one.word("provider_message_id"), "status": "delivered",
            "timestamp": "1767225600", "recipient_id": "33612340003"});
        let metadata = json!({"phone_number_id": "555", "display_phone_number": "15550000555"});
        let change = json!({"field": "messages",
            "value": {"statuses": [status], "metadata": metadata}});
        let entry = json!({"id": "556", "changes": [change]});
        let body = json!({"object": "whatsapp_business_account", "entry": [entry]}).to_string();
        let answer = cloud_api::post_signed(service, "adas-secret", body.as_bytes()).await.unwrap();
        assert_eq!(answer, 200);
    }
    ada.until(sent[0].word("challenge_id"), |now| now["status"] == "delivered").await;
    // Control: Eve's, told before it, is not Ada's to tell of.
    assert_eq!(eve.challenge(sent[1].word("challenge_id")).await.ok().word("status"), "sent");
}

/// The name of what they sent is no word of theirs, though it may be one of those that end it all.
async fn who_takes_a_message_back_has_not_answered_stop(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    let say = async |message: Value| upstream.write(&phone("5678"), message).await.unwrap();
    say(json!({"type": "text", "text": {"body": "Hello"}})).await;
    say(json!({"type": "revoke", "revoke": {"original_message_id": "wamid.1"}})).await;
    heard(&ada, 2).await;
    let body = json!({"to": phone("5678"), "text": "Hi", "billing_mode": "direct"});
    write(&ada, &body).await.ok();
    // Control: the same as a word.
    say(json!({"type": "text", "text": {"body": "revoke"}})).await;
    heard(&ada, 3).await;
    write(&ada, &body).await.problem("recipient_opted_out");
}

async fn a_number_that_does_not_work_is_shown_as_resting(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let staff = world.staff().await;
    let state = async || {
        let all = world.get(Env::Live, "/v1/admin/carriers").bearer(staff).await.ok();
        let own = all.list().iter().find(|one| one["name"] == "cloud-api").cloned().unwrap();
        own["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state().await, "up");
    // The token is refused.
    upstream.refuse_once(190);
    let body = json!({"to": phone("5670"), "delivery_mode": "chatapp"});
    ada.send(&body).await.problem("carrier_error");
    assert_eq!(state().await, "resting");
}

async fn old_news_of_a_template_change_nothing(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"name": "parcel", "language": "fr", "category": "UTILITY",
        "body": "Votre colis est en route."});
    ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    let stands = async |status: &str| {
        let now = ada.get("/v1/chatapp/templates/parcel").await.ok();
        (now.word("status") == status).then_some(())
    };
    eventually(async || stands("APPROVED").await).await;
    let templates = upstream.templates();
    let own = templates.iter().find(|it| it["name"].as_str().unwrap().starts_with("parcel"));
    let id: u64 = own.unwrap()["id"].as_str().unwrap().parse().unwrap();
    let tell = async |event: &str, at_s: i64| {
        let value = json!({"event": event, "message_template_id": id, "reason": "NONE",
            "message_template_name": "parcel", "message_template_language": "fr"});
        let change = json!({"field": "message_template_status_update", "value": value});
        let entry = json!({"id": cloud_api::WABA_ID, "time": at_s, "changes": [change]});
        let body = json!({"object": "whatsapp_business_account", "entry": [entry]});
        upstream.tell(&body).await.unwrap();
        eventually(async || (stored(world).await == 0).then_some(())).await;
    };
    // What the upstream says when it is asked is none of this story.
    world.housekeep().await;
    let now_s = world.now().0 / 1_000;
    tell("PAUSED", now_s - 3_600).await;
    stands("APPROVED").await.expect("it was paused an hour before it was approved");
    tell("PAUSED", now_s).await;
    stands("REJECTED").await.expect("control: news of now count");
    tell("APPROVED", now_s - 7 * 86_400).await;
    stands("REJECTED").await.expect("repeats come for a week");
    // What could not be taken in when it was said counts in the order in which it was said.
    world.advance(300_000).await;
    tell("REINSTATED", now_s + 100).await;
    stands("APPROVED").await.expect("it is back");
    tell("PAUSED", now_s + 200).await;
    stands("REJECTED").await.expect("the newer news, though both came late");
}
