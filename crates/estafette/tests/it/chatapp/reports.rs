//! What people tell the upstream and not us: that they did not ask for a passcode, and that they
//! want no more messages.

use clock::MINUTE;
use playground::cloud_api::{self, CloudApi};
use serde_json::{Value, json};

use super::live::{heard, stored, stories, text_message, world};
use super::write;
use super::{read_as, text, told};
use crate::world::tenant::phone;
use crate::world::{Answer, Tenant, World, eventually};

stories!(
    a_passcode_that_nobody_asked_for_is_reported,
    what_people_tell_the_upstream_is_kept,
    words_from_before_the_question_are_no_answer,
    who_is_called_otherwise_upstream_is_known_all_the_same,
    what_is_written_to_another_number_is_for_nobody_here,
    the_last_wish_of_a_second_holds,
    a_template_that_a_message_is_refused_for_is_not_sent_again,
    a_verdict_that_overtakes_the_answer_is_taken_in,
    what_was_asked_first_does_not_undo_what_is_known_of_a_template,
    who_says_stop_while_a_prompt_waits_is_not_asked,
);

async fn a_passcode_that_nobody_asked_for_is_reported(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let send = async |reference: &str| {
        let body = json!({"to": phone("5678"), "delivery_mode": "chatapp", "code": "4821",
            "reference": reference, "request_messaging_consent": false});
        ada.send(body).await.ok()
    };
    let first = send("one").await;
    world.advance(31_000).await;
    let second = send("two").await;
    let spent = ada.balance().await;
    let context = first.word("provider_message_id");
    let tap = json!({"type": "button", "context": {"id": context}, "button":
        {"payload": "DID_NOT_REQUEST_CODE", "text": "Je n'ai pas demandé ce code"}});
    upstream.write(&phone("5678"), tap.clone()).await.unwrap();
    assert_eq!(heard(&ada, 1).await[0]["button"], "did_not_request_code");
    let read =
        async |sent: &Answer| ada.get(&format!("/v1/otp/{}", sent.word("challenge_id"))).await.ok();
    let reported = read(&first).await;
    assert_eq!(reported.word("status"), "failed");
    assert_eq!(reported.word("failure_reason"), "reported_by_user");
    assert_eq!(read(&second).await.word("status"), "delivered", "the other one stays good");
    let news = told(&ada, "otp.status").await;
    let last = news.iter().rfind(|data| data["challenge_id"] == *first.word("challenge_id"));
    assert_eq!(last.unwrap()["failure_reason"], "reported_by_user");
    let guess = json!({"challenge_id": first.word("challenge_id"), "code": "4821"});
    ada.call("POST", "/v1/otp/verify").json(guess).await.problem("otp_expired");
    // Again, and without saying under which: the newest. It arrived, so it is not given back.
    upstream.write(&phone("5678"), tap).await.unwrap();
    heard(&ada, 2).await;
    let bare =
        json!({"type": "button", "button": {"payload": "DID_NOT_REQUEST_CODE", "text": "?"}});
    upstream.write(&phone("5678"), bare).await.unwrap();
    heard(&ada, 3).await;
    assert_eq!(read(&second).await.word("status"), "failed");
    let failed = told(&ada, "otp.status").await;
    assert_eq!(failed.iter().filter(|data| data["status"] == "failed").count(), 2);
    assert_eq!(ada.balance().await, spent);
}

/// A passcode that a prompt follows.
fn with_prompt() -> Value {
    json!({"to": phone("5678"), "delivery_mode": "chatapp", "request_messaging_consent": true})
}

async fn what_people_tell_the_upstream_is_kept(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    ada.send(with_prompt()).await.ok();
    upstream.write(&phone("5678"), text_message("Bonjour")).await.unwrap();
    heard(&ada, 1).await;
    let digits = phone("5678").trim_start_matches('+').to_owned();
    let wish = |value: &str, at: i64| {
        json!({"object": "whatsapp_business_account", "entry": [{"id": cloud_api::WABA_ID,
            "changes": [{"field": "user_preferences", "value": {"messaging_product": "whatsapp",
            "metadata": {"display_phone_number": cloud_api::DISPLAY_NUMBER,
                "phone_number_id": cloud_api::PHONE_NUMBER_ID},
            "user_preferences": [{"wa_id": digits, "category": "marketing_messages",
                "value": value, "timestamp": at}]}}]}]})
    };
    let sessions = async || ada.get("/v1/chatapp/sessions").await.ok().list().to_vec();
    eventually(async || (sessions().await.len() == 1).then_some(())).await;
    let now_s = world.now().0 / 1_000;
    upstream.tell(&wish("stop", now_s)).await.unwrap();
    eventually(async || (stored(world).await == 0).then_some(())).await;
    text(&ada, "5678").await.problem("recipient_opted_out");
    // It has the effect of STOP on what they were asked, too.
    assert_eq!(sessions().await[0]["status"], "declined");
    upstream.tell(&wish("resume", now_s + 1)).await.unwrap();
    world.advance(2_000).await;
    eventually(async || (stored(world).await == 0).then_some(())).await;
    text(&ada, "5678").await.ok();
}

async fn words_from_before_the_question_are_no_answer(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    ada.send(with_prompt()).await.ok();
    let asked = async |status: &'static str| {
        eventually(async || {
            let sessions = ada.get("/v1/chatapp/sessions").await.ok();
            sessions.list().iter().any(|session| session["status"] == status).then_some(())
        })
        .await;
    };
    asked("pending").await;
    let spent = ada.balance().await;
    let said = |ago_s: i64| {
        let at = (world.now().0 / 1_000 - ago_s).to_string();
        json!({"type": "text", "text": {"body": "Oui"}, "timestamp": at})
    };
    // Brought only now, as after a failure.
    upstream.write(&phone("5678"), said(600)).await.unwrap();
    heard(&ada, 1).await;
    asked("pending").await;
    assert_eq!(ada.balance().await, spent);
    // Control: said now, it is one.
    upstream.write(&phone("5678"), said(0)).await.unwrap();
    asked("active").await;
    assert!(ada.balance().await < spent);
}

/// Brazil's mobile numbers have nine digits; the upstream calls people by eight.
async fn who_is_called_otherwise_upstream_is_known_all_the_same(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    let to = "+5511987654388";
    ada.send(json!({"to": to, "delivery_mode": "chatapp"})).await.ok();
    upstream.write("+551187654388", text_message("ola")).await.unwrap();
    let seen = heard(&ada, 1).await;
    assert_eq!(seen[0]["sender"], to);
    let answer = json!({"to": to, "text": "Bom dia", "billing_mode": "direct"});
    write(&ada, &answer).await.ok();
    upstream.write("+551187654388", text_message("STOP")).await.unwrap();
    heard(&ada, 2).await;
    write(&ada, &answer).await.problem("recipient_opted_out");
}

async fn what_is_written_to_another_number_is_for_nobody_here(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    let digits = phone("5678").trim_start_matches('+').to_owned();
    let to_number = |number: &str, id: &str, text: &str| {
        json!({"object": "whatsapp_business_account", "entry": [{"id": cloud_api::WABA_ID,
            "changes": [{"field": "messages", "value": {"messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "4930999", "phone_number_id": number},
            "messages": [{"from": digits, "id": id, "type": "text", "text": {"body": text},
                "timestamp": (world.now().0 / 1_000).to_string()}]}}]}]})
    };
    upstream.tell(&to_number("99999", "wamid.other", "STOP")).await.unwrap();
    eventually(async || (stored(world).await == 0).then_some(())).await;
    text(&ada, "5678").await.problem("messaging_window_closed");
    // The same to our own number opens it.
    upstream.tell(&to_number(cloud_api::PHONE_NUMBER_ID, "wamid.own", "hi")).await.unwrap();
    assert_eq!(heard(&ada, 1).await[0]["message"], "hi");
    text(&ada, "5678").await.ok();
}

/// The upstream tells time in seconds.
async fn the_last_wish_of_a_second_holds(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "chatapp"})).await.ok();
    let at = (world.now().0 / 1_000).to_string();
    for (count, (wish, is_silent)) in (1..).zip([("STOP", true), ("START", false), ("STOP", true)])
    {
        let said = json!({"type": "text", "text": {"body": wish}, "timestamp": at});
        upstream.write(&phone("5678"), said).await.unwrap();
        heard(&ada, count).await;
        let answer = text(&ada, "5678").await;
        if is_silent {
            answer.problem("recipient_opted_out");
        } else {
            answer.ok();
        }
    }
}

const ORDER: &str = "/v1/chatapp/templates/order";

/// Declares a template, and waits until the upstream has approved it.
async fn approve_order(ada: &Tenant<'_>) {
    let body = json!({"name": "order", "body": "Bonjour {{1}}", "category": "UTILITY"});
    ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    eventually(async || {
        Some(ada.get(ORDER).await.ok()).filter(|now| now.word("status") == "APPROVED")
    })
    .await;
}

async fn a_template_that_a_message_is_refused_for_is_not_sent_again(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    approve_order(&ada).await;
    // It is gone there, and no callback says so.
    upstream.refuse_once(132_001);
    let body = json!({"to": phone("5678"), "template_name": "order", "template_params": ["Ana"],
        "billing_mode": "direct"});
    let sent = write(&ada, &body).await.ok();
    let failed = read_as(&ada, sent.word("id"), "failed").await;
    assert_eq!(failed.field("error")["code"], "template_not_approved");
    write(&ada, &body).await.problem("template_not_approved");
    let template = ada.get(ORDER).await.ok();
    assert_eq!(template.word("status"), "REJECTED");
    assert!(template.word("rejection_reason").contains("132001"), "{}", template.text);
    assert_eq!(ada.balance().await, 100);
    // The chat-app is asked, and says that it stands.
    world.advance(6 * MINUTE).await;
    world.housekeep().await;
    assert_eq!(ada.get(ORDER).await.ok().word("status"), "APPROVED");
    let sent = write(&ada, &body).await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
}

async fn a_verdict_that_overtakes_the_answer_is_taken_in(world: &World, _: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let body = json!({"name": "order", "body": "Bonjour {{1}}", "category": "UTILITY"});
    let keep = world.faults.hold("UPDATE chatapp_templates SET category");
    let judged = async {
        keep.came().await;
        // The verdict is here while nobody knows the template's id.
        eventually(async || (stored(world).await > 0).then_some(())).await;
        keep.let_go();
    };
    let declared = async { ada.call("POST", "/v1/chatapp/templates").json(body).await.ok() };
    assert_eq!(tokio::join!(declared, judged).0.word("status"), "PENDING");
    eventually(async || {
        world.advance(2_000).await;
        Some(ada.get(ORDER).await.ok()).filter(|now| now.word("status") == "APPROVED")
    })
    .await;
}

async fn what_was_asked_first_does_not_undo_what_is_known_of_a_template(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = world.live_account("ada", 100).await;
    approve_order(&ada).await;
    let status = async || ada.get(ORDER).await.ok().word("status").to_owned();
    let sync = || ada.call("POST", &format!("{ORDER}/sync"));
    world.advance(1_000).await;
    upstream.retire_templates("PAUSED");
    let keep = world.faults.hold("UPDATE chatapp_templates SET category");
    let between = async {
        keep.came().await;
        upstream.retire_templates("APPROVED");
        sync().await.ok();
        keep.let_go();
    };
    let first = tokio::join!(sync(), between).0.ok();
    assert_eq!(first.word("status"), "APPROVED", "it answers what is known by then");
    assert_eq!(status().await, "APPROVED");
    // One that nothing crosses is kept.
    upstream.retire_templates("PAUSED");
    assert_eq!(sync().await.ok().word("status"), "REJECTED");
    assert_eq!(status().await, "REJECTED");
}

async fn who_says_stop_while_a_prompt_waits_is_not_asked(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", 100).await;
    let (quiet, patient) = (phone("5678"), phone("5679"));
    for person in [&quiet, &patient] {
        let prompt = world.faults.hold("INSERT INTO chatapp_sessions");
        let body =
            json!({"to": person, "delivery_mode": "chatapp", "request_messaging_consent": true});
        let between = async {
            prompt.came().await;
            upstream.refuse_once(131_056);
            let asked = upstream.asked();
            prompt.let_go();
            asked
        };
        let (sent, asked) = tokio::join!(ada.send(body), between);
        sent.ok();
        eventually(async || (upstream.asked() > asked).then_some(())).await;
    }
    upstream.write(&quiet, text_message("STOP")).await.unwrap();
    heard(&ada, 1).await;
    let taken = |person: &str| {
        let digits = person.trim_start_matches('+');
        upstream.messages().iter().filter(|one| one["to"] == digits).count()
    };
    eventually(async || {
        world.advance(5_000).await;
        (taken(&patient) == 2).then_some(())
    })
    .await;
    let sessions = ada.get("/v1/chatapp/sessions").await.ok();
    let declined = sessions.list().iter().filter(|one| one["status"] == "declined").count();
    assert_eq!(declined, 1, "{}", sessions.text);
    assert_eq!(taken(&quiet), 1, "the passcode alone");
}
