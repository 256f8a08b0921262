//! Passcodes over the live chat-app with SMS behind it: however the chat-app fails, the person gets
//! one SMS with the same code, and only that is paid for.

use estafette::app::Env;
use playground::cloud_api::{self, Chaos, CloudApi};
use playground::smsc::{IdStyle, SmscOptions};
use serde_json::{Value, json};

use super::faults::status;
use super::live::{stories, world_with};
use crate::smpp::{Centre, settings};
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, Engine, World, eventually};

/// The far sides of both channels.
struct Far {
    cloud: CloudApi,
    centre: Centre,
}

async fn world(engine: Engine) -> (World, Far) {
    let centre = Centre::new(IdStyle::Decimal).await;
    let sms = settings(&[("main", centre.address(), "")]);
    let (world, cloud) = world_with(engine, |config| config.sms = sms).await;
    (world, Far { cloud, centre })
}

stories!(
    who_is_not_reached_by_chat_gets_one_sms,
    every_fault_of_the_chatapp_ends_in_one_sms,
    a_code_that_the_chatapp_brought_late_outlives_the_sms_behind_it,
    a_code_that_the_chatapp_may_still_bring_outlives_the_sms_behind_it,
    a_code_that_failed_by_sms_and_then_by_chat_has_failed,
    a_silent_chat_has_all_the_time_where_no_sms_leads,
    an_sms_that_is_refused_behind_a_silent_chat_is_told_of,
    a_passcode_of_which_each_copy_failed_is_failed,
    who_did_not_ask_for_a_code_of_unknown_fate_ends_it,
);

const CODE: &str = "48213";

/// The same code came once by SMS, which is what was paid.
async fn came_by_sms(world: &World, far: &Far, ada: &Tenant<'_>, sent: &Answer, to: &str) {
    let id = sent.word("challenge_id");
    let is_there = |now: &Value| now["channel"] == "sms" && now["status"] == "delivered";
    ada.until(id, is_there).await;
    let came = far.centre.came_to(to);
    assert_eq!(came.len(), 1, "{to}");
    assert!(came[0].text.contains(CODE), "{to}: {}", came[0].text);
    let price = world.price("sms", "FR");
    let is_paid = async || (1_000 - ada.balance().await == price).then_some(());
    eventually(is_paid).await;
}

async fn who_is_not_reached_by_chat_gets_one_sms(world: &World, far: &Far) {
    for (name, ending, wait_ms) in [
        ("at_once", "0001", 0),
        ("by_a_status_at_once", "0008", 0),
        ("by_a_status_later", "0002", 0),
        ("never", "0003", 21_000),
    ] {
        let (ada, to) = (world.live_sender(name, 1_000).await, phone(ending));
        let sent = ada.send(json!({"to": to, "code": CODE})).await.ok();
        if wait_ms > 0 {
            assert_eq!(sent.word("channel"), "chatapp", "{name}");
            world.advance(wait_ms).await;
        }
        came_by_sms(world, far, &ada, &sent, &to).await;
        ada.guess(sent.word("challenge_id"), CODE).await.ok();
    }
}

async fn every_fault_of_the_chatapp_ends_in_one_sms(world: &World, far: &Far) {
    let staff = world.staff().await;
    let faults = [
        Chaos::Down,
        Chaos::Throttled,
        Chaos::PairThrottled,
        Chaos::TokenExpired,
        Chaos::Opaque,
        Chaos::Hang,
    ];
    for (number, chaos) in faults.into_iter().enumerate() {
        // A number of its own, so that no fault is hidden behind another one's rest.
        let (own, waba_id) = (format!("70{number}"), format!("80{number}"));
        far.cloud.add_number(&own, &waba_id);
        far.cloud.misbehave_at(&own, Some(chaos));
        let (ada, to) = (world.live_sender(&own, 1_000).await, phone(&format!("210{number}")));
        let link = json!({"phone_number_id": own, "waba_id": waba_id, "app_secret": "s",
            "verify_token": "v", "access_token": cloud_api::ACCESS_TOKEN});
        let path = format!("/v1/admin/accounts/{}/chatapp", ada.account_id);
        world.call("PUT", Env::Live, &path).bearer(staff).json(link).await.ok();
        let asked = far.cloud.asked();
        let sent = ada.send(json!({"to": to, "code": CODE})).await.ok();
        assert!(far.cloud.asked() > asked, "{chaos:?}: the chat-app was not asked");
        if sent.word("channel") == "chatapp" {
            // Nobody knows whether the chat-app has it: SMS follows when nothing is heard of it.
            assert!([Chaos::Opaque, Chaos::Hang].contains(&chaos), "{chaos:?}");
            world.advance(21_000).await;
        }
        came_by_sms(world, far, &ada, &sent, &to).await;
    }
}

async fn who_did_not_ask_for_a_code_of_unknown_fate_ends_it(world: &World, far: &Far) {
    let (ada, to) = (world.live_sender("ada", 1_000).await, phone("0003"));
    far.cloud.misbehave(Some(Chaos::Opaque));
    let body = json!({"to": to, "code": CODE, "delivery_mode": "chatapp"});
    let sent = ada.send(body).await.ok();
    let held = ada.balance().await;
    let tap = json!({"type": "button", "button": {"payload": "DID_NOT_REQUEST_CODE", "text": "?"}});
    far.cloud.write(&to, tap).await.unwrap();
    let id = sent.word("challenge_id");
    let ended = ada.until(id, |now| now["status"] == "failed").await;
    assert_eq!(ended.word("failure_reason"), "reported_by_user");
    let guess = json!({"challenge_id": id, "code": CODE});
    ada.call("POST", "/v1/otp/verify").json(guess).await.problem("otp_expired");
    world.advance(3_600_000).await;
    assert!(held < 1_000 && ada.balance().await == held, "it arrived, and is paid for");
}

/// A passcode of which the chat-app said nothing in time, so that SMS has it as well, in hand of a
/// centre that says what becomes of it when the story does.
struct Silent<'w> {
    ada: Tenant<'w>,
    id: String,
    by_sms: String,
}

impl<'w> Silent<'w> {
    async fn sent(world: &'w World, far: &Far, name: &str) -> Self {
        far.centre.behave(SmscOptions { receipt_ms: 3_600_000, ..far.centre.options() });
        let (ada, to) = (world.live_sender(name, 1_000).await, phone("0003"));
        let sent = ada.send(json!({"to": to, "code": CODE, "reference": name})).await.ok();
        let id = sent.word("challenge_id").to_owned();
        world.advance(21_000).await;
        // The centre has named it.
        let is_taken = |now: &Value| {
            let named = now["provider_message_id"].as_str().unwrap_or_default();
            now["channel"] == "sms" && now["status"] == "sent" && !named.starts_with("att_")
        };
        let by_sms = ada.until(&id, is_taken).await.word("provider_message_id").to_owned();
        Self { ada, id, by_sms }
    }

    /// The SMS did not arrive, and is given back as the message of the chat-app was.
    async fn fails_by_sms(&self, far: &Far) -> Answer {
        assert!(far.centre.tell(&self.by_sms, smpp::MessageState::Undeliverable));
        eventually(async || (self.ada.balance().await == 1_000).then_some(())).await;
        self.ada.challenge(&self.id).await.ok()
    }

    /// How it reads, told as often as this.
    async fn is_told(&self, status: &str, channel: &str, times: usize) {
        let all = self.ada.get("/v1/events?type=otp.status&limit=200").await.ok();
        let is_meant = |event: &&Value| {
            let data = &event["data"];
            data["challenge_id"] == self.id.as_str()
                && data["status"] == status
                && data["channel"] == channel
        };
        assert_eq!(all.list().iter().filter(is_meant).count(), times, "{}", all.text);
    }
}

async fn a_code_that_the_chatapp_brought_late_outlives_the_sms_behind_it(world: &World, far: &Far) {
    let silent = Silent::sent(world, far, "ada").await;
    far.cloud.tell(&status(&far.cloud, "delivered")).await.unwrap();
    let read = silent.ada.until(&silent.id, |now| now["status"] == "delivered").await;
    assert_eq!(read.word("channel"), "sms", "which has it now");
    let read = silent.fails_by_sms(far).await;
    assert_eq!((read.word("status"), read.word("channel")), ("delivered", "chatapp"));
    silent.ada.guess(&silent.id, CODE).await.ok();
    assert_eq!(silent.ada.balance().await, 1_000, "what was given back stays so");
}

async fn a_code_that_the_chatapp_may_still_bring_outlives_the_sms_behind_it(
    world: &World,
    far: &Far,
) {
    let guessed = Silent::sent(world, far, "guessed").await;
    let read = guessed.fails_by_sms(far).await;
    assert_eq!(read.word("status"), "sent", "nobody said that the chat-app failed: {}", read.text);
    guessed.ada.guess(&guessed.id, CODE).await.ok();
    let delivered = Silent::sent(world, far, "delivered").await;
    delivered.fails_by_sms(far).await;
    for _ in 0..2 {
        far.cloud.tell(&status(&far.cloud, "delivered")).await.unwrap();
    }
    let read = delivered.ada.until(&delivered.id, |now| now["status"] == "delivered").await;
    assert_eq!(read.word("channel"), "chatapp");
    delivered.is_told("delivered", "chatapp", 1).await;
    delivered.ada.guess(&delivered.id, CODE).await.ok();
    let silent = Silent::sent(world, far, "silent").await;
    silent.fails_by_sms(far).await;
    world.advance(300_000).await;
    silent.ada.until(&silent.id, |now| now["status"] == "expired").await;
    for tenant in [&guessed.ada, &delivered.ada, &silent.ada] {
        assert_eq!(tenant.balance().await, 1_000, "what was given back stays so");
    }
}

async fn a_code_that_failed_by_sms_and_then_by_chat_has_failed(world: &World, far: &Far) {
    let silent = Silent::sent(world, far, "ada").await;
    assert_eq!(silent.fails_by_sms(far).await.word("status"), "sent");
    far.cloud.tell(&status(&far.cloud, "failed")).await.unwrap();
    let read = silent.ada.until(&silent.id, |now| now["status"] == "failed").await;
    assert_eq!(read.word("failure_reason"), "unreachable");
    silent.is_told("failed", "sms", 1).await;
    assert_eq!(silent.ada.balance().await, 1_000);
    // What the chat-app said of the person is remembered, as if it had come in time.
    world.advance(31_000).await;
    let next = silent.ada.send(json!({"to": phone("0003"), "reference": "next"})).await.ok();
    assert_eq!(next.field("chatapp_available"), false);
}

async fn an_sms_that_is_refused_behind_a_silent_chat_is_told_of(world: &World, far: &Far) {
    far.centre.behave(SmscOptions { sysfail_rate: 1.0, ..far.centre.options() });
    let (ada, to) = (world.live_sender("ada", 1_000).await, phone("0003"));
    let sent = ada.send(json!({"to": to, "code": CODE})).await.ok();
    let (id, by_chat) = (sent.word("challenge_id").to_owned(), sent.word("provider_message_id"));
    world.advance(21_000).await;
    eventually(async || (ada.balance().await == 1_000).then_some(())).await;
    let read = ada.until(&id, |now| now["channel"] == "sms").await;
    assert_eq!(read.word("status"), "sent", "the chat-app may still bring it");
    let silent = Silent { ada, id, by_sms: String::new() };
    silent.is_told("sent", "sms", 1).await;
    // It did, and its receipt names it by the chat-app's id alone.
    let mut told = status(&far.cloud, "delivered");
    let only = told.pointer_mut("/entry/0/changes/0/value/statuses/0").unwrap();
    *only = json!({"id": by_chat, "status": "delivered", "timestamp": "1767225600"});
    far.cloud.tell(&told).await.unwrap();
    let read = silent.ada.until(&silent.id, |now| now["status"] == "delivered").await;
    assert_eq!((read.word("channel"), read.word("provider_message_id")), ("chatapp", by_chat));
    assert_eq!(silent.ada.balance().await, 1_000);
}

async fn a_silent_chat_has_all_the_time_where_no_sms_leads(world: &World, far: &Far) {
    let routes = json!({"routes": [{"prefix": "+1", "carriers": ["main"]}]});
    world.put(Env::Live, "/v1/admin/routes").bearer(world.staff().await).json(routes).await.ok();
    let ada = world.live_sender("ada", 1_000).await;
    let body = |name: &str| json!({"to": phone("0003"), "code": CODE, "reference": name});
    let guessed = ada.send(body("guessed")).await.ok();
    world.advance(31_000).await;
    let failed = ada.send(body("failed")).await.ok();
    world.advance(31_000).await;
    for sent in [&guessed, &failed] {
        let read = ada.challenge(sent.word("challenge_id")).await.ok();
        assert_eq!(
            (read.word("status"), read.word("channel")),
            ("sent", "chatapp"),
            "{}",
            read.text
        );
    }
    assert!(far.centre.came_to(&phone("0003")).is_empty());
    ada.guess(guessed.word("challenge_id"), CODE).await.ok();
    // What the chat-app says later still counts, of the last one.
    far.cloud.tell(&status(&far.cloud, "failed")).await.unwrap();
    let read = ada.until(failed.word("challenge_id"), |now| now["status"] == "failed").await;
    assert_eq!(read.word("failure_reason"), "unreachable");
}

async fn a_passcode_of_which_each_copy_failed_is_failed(world: &World, far: &Far) {
    let (ada, to) = (world.live_sender("ada", 1_000).await, phone("0003"));
    let send = async || ada.send(json!({"to": to, "delivery_mode": "chatapp"})).await.ok();
    let sent = send().await;
    let first = status(&far.cloud, "failed");
    world.advance(31_000).await;
    assert_eq!(send().await.field("challenge_id"), sent.field("challenge_id"));
    far.cloud.tell(&status(&far.cloud, "failed")).await.unwrap();
    let id = sent.word("challenge_id");
    let read = ada.challenge(id).await.ok();
    assert_eq!(read.word("status"), "sent", "the first may arrive: {}", read.text);
    far.cloud.tell(&first).await.unwrap();
    let read = ada.until(id, |now| now["status"] == "failed").await;
    assert_eq!(read.word("failure_reason"), "unreachable");
    assert_eq!(ada.balance().await, 1_000);
}
