//! The chat-app's upstream at its worst: it is down, cuts its answers off, loses the token, tells
//! before it answers and a week later, and sends what no database takes. Each story says what the
//! tenant sees and what it costs.

use std::time::Duration;

use clock::{Clock, DAY, MINUTE};
use playground::cloud_api::{self, Chaos, CloudApi};
use serde_json::{Value, json};

use super::live::{heard, stored, stories, text_message, world};
use super::{read_as, session_as, text, told};
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, World, eventually};

stories!(
    who_told_the_upstream_is_not_written_to_until_they_say_start,
    who_told_the_upstream_so_is_asked_nothing_more,
    an_upstream_that_is_down_gets_the_message_when_it_is_back,
    an_answer_that_is_cut_off_is_told_by_the_callback,
    what_nobody_knows_is_not_sent_again_and_costs_nothing_after_a_day,
    statuses_before_the_answer_and_a_week_late_are_one_message,
    an_expired_token_costs_nothing_and_rests_the_number,
    a_business_account_that_hangs_keeps_no_other_waiting,
    what_is_throttled_waits_and_is_sent_once,
    a_poisonous_item_keeps_no_other_away,
    receipts_in_any_order_lower_no_status_and_charge_once,
);

/// Credits at the start of a story, and the default prices.
const GRANT: i64 = 1_000;
const PASSCODE: i64 = 4;

/// An account that may write to a phone: a passcode reached it, and its person wrote.
async fn in_touch<'w>(world: &'w World, upstream: &CloudApi, ending: &str) -> Tenant<'w> {
    let ada = world.live_account("ada", GRANT).await;
    ada.send(json!({"to": phone(ending), "delivery_mode": "chatapp"})).await.ok();
    upstream.write(&phone(ending), text_message("Bonjour")).await.unwrap();
    heard(&ada, 1).await;
    ada
}

/// What a message cost: the holds and charges of its ledger, and what was given back.
async fn spent(ada: &Tenant<'_>) -> i64 {
    GRANT - PASSCODE - ada.balance().await
}

async fn status_of(ada: &Tenant<'_>, sent: &Answer) -> String {
    let path = format!("/v1/chatapp/messages/{}", sent.word("id"));
    ada.get(&path).await.ok().word("status").to_owned()
}

/// A status of the last message that the upstream took.
pub(super) fn status(upstream: &CloudApi, word: &str) -> Value {
    let last = upstream.messages().last().unwrap().clone();
    status_for(&last["biz_opaque_callback_data"], word)
}

fn status_for(echo: &Value, word: &str) -> Value {
    let mut told = json!({"id": "wamid.late", "status": word, "timestamp": "1767225600",
        "biz_opaque_callback_data": echo});
    if word == "failed" {
        told["errors"] = json!([{"code": 131_026, "title": "Message undeliverable"}]);
    }
    envelope(&json!({"statuses": [told]}))
}

fn envelope(value: &Value) -> Value {
    json!({"object": "whatsapp_business_account", "entry": [{"id": cloud_api::WABA_ID,
        "changes": [{"field": "messages", "value": value}]}]})
}

async fn who_told_the_upstream_is_not_written_to_until_they_say_start(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = in_touch(world, upstream, "0003").await;
    let send = async || {
        let (before, sent) = (upstream.messages().len(), text(&ada, "0003").await.ok());
        eventually(async || (upstream.messages().len() > before).then_some(())).await;
        sent
    };
    let refused = || {
        let mut told = status(upstream, "failed");
        let error = json!([{"code": 131_050, "title": "Unable to deliver the message"}]);
        told["entry"][0]["changes"][0]["value"]["statuses"][0]["errors"] = error;
        told
    };
    let first = send().await;
    upstream.tell(&refused()).await.unwrap();
    read_as(&ada, first.word("id"), "failed").await;
    text(&ada, "0003").await.problem("recipient_opted_out");
    world.advance(2_000).await;
    upstream.write(&phone("0003"), text_message("START")).await.unwrap();
    heard(&ada, 2).await;
    // What comes late of a message from before another START is older than it.
    let second = send().await;
    let late = refused();
    world.advance(2_000).await;
    upstream.write(&phone("0003"), text_message("START")).await.unwrap();
    heard(&ada, 3).await;
    upstream.tell(&late).await.unwrap();
    read_as(&ada, second.word("id"), "failed").await;
    text(&ada, "0003").await.ok();
}

async fn who_told_the_upstream_so_is_asked_nothing_more(world: &World, upstream: &CloudApi) {
    let ada = in_touch(world, upstream, "0003").await;
    world.advance(31_000).await;
    let body = json!({"to": phone("0003"), "delivery_mode": "chatapp",
        "request_messaging_consent": true});
    ada.send(body).await.ok();
    // A prompt follows a passcode that arrived.
    upstream.tell(&status(upstream, "delivered")).await.unwrap();
    session_as(&ada, "pending").await;
    let before = upstream.messages().len();
    let sent = text(&ada, "0003").await.ok();
    eventually(async || (upstream.messages().len() > before).then_some(())).await;
    let mut told = status(upstream, "failed");
    let error = json!([{"code": 131_050, "title": "Unable to deliver the message"}]);
    told["entry"][0]["changes"][0]["value"]["statuses"][0]["errors"] = error;
    upstream.tell(&told).await.unwrap();
    read_as(&ada, sent.word("id"), "failed").await;
    let ended = session_as(&ada, "declined").await;
    assert_eq!(ended["billed_credits"], 0);
    let news = super::told(&ada, "chatapp.consent").await;
    assert_eq!(news.last().unwrap()["reason"], "stop");
}

async fn an_upstream_that_is_down_gets_the_message_when_it_is_back(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = in_touch(world, upstream, "5678").await;
    upstream.misbehave(Some(Chaos::Down));
    let before = upstream.asked();
    let sent = text(&ada, "5678").await.ok();
    eventually(async || (upstream.asked() > before).then_some(())).await;
    world.settle().await;
    assert_eq!(status_of(&ada, &sent).await, "submitted");
    let price = spent(&ada).await;
    assert!(price > 0, "its price is held");
    upstream.misbehave(None);
    world.advance(16_000).await;
    read_as(&ada, sent.word("id"), "delivered").await;
    assert_eq!((upstream.messages().len(), spent(&ada).await), (2, price));
}

async fn an_answer_that_is_cut_off_is_told_by_the_callback(world: &World, upstream: &CloudApi) {
    let ada = in_touch(world, upstream, "5678").await;
    upstream.misbehave(Some(Chaos::Cut));
    let sent = text(&ada, "5678").await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    let price = spent(&ada).await;
    world.advance(30 * MINUTE).await;
    assert_eq!(upstream.messages().len(), 2, "it went out once");
    let charged = ada.get(&format!("/v1/chatapp/messages/{}", sent.word("id"))).await.ok();
    assert_eq!(charged.number("charged_credits"), price);
}

async fn what_nobody_knows_is_not_sent_again_and_costs_nothing_after_a_day(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = in_touch(world, upstream, "5678").await;
    upstream.misbehave(Some(Chaos::Opaque));
    let before = upstream.asked();
    let sent = text(&ada, "5678").await.ok();
    eventually(async || (upstream.asked() > before).then_some(())).await;
    upstream.misbehave(None);
    world.advance(60 * MINUTE).await;
    assert_eq!(status_of(&ada, &sent).await, "submitted");
    world.advance(DAY).await;
    let over = read_as(&ada, sent.word("id"), "failed").await;
    assert_eq!(over.field("error")["code"], "no_receipt");
    assert_eq!((upstream.asked(), spent(&ada).await), (before + 1, 0));
}

async fn statuses_before_the_answer_and_a_week_late_are_one_message(
    world: &World,
    upstream: &CloudApi,
) {
    let ada = in_touch(world, upstream, "5678").await;
    upstream.misbehave(Some(Chaos::Overtaken));
    let sent = text(&ada, "5678").await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    let price = spent(&ada).await;
    // The answer comes now, and takes nothing back.
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.settle().await;
    assert_eq!(status_of(&ada, &sent).await, "delivered");
    world.advance(7 * DAY).await;
    for word in ["failed", "sent", "read", "failed", "delivered"] {
        upstream.tell(&status(upstream, word)).await.unwrap();
        eventually(async || (stored(world).await == 0).then_some(())).await;
    }
    assert_eq!((status_of(&ada, &sent).await.as_str(), spent(&ada).await), ("read", price));
    let statuses = told(&ada, "chatapp.status").await;
    let words: Vec<&Value> = statuses.iter().map(|data| &data["status"]).collect();
    assert_eq!(words, ["sent", "delivered", "read"]);
}

async fn an_expired_token_costs_nothing_and_rests_the_number(world: &World, upstream: &CloudApi) {
    let ada = in_touch(world, upstream, "5678").await;
    upstream.misbehave(Some(Chaos::TokenExpired));
    let before = upstream.asked();
    for ending in ["5679", "5680", "5681"] {
        let body = json!({"to": phone(ending), "delivery_mode": "chatapp"});
        ada.send(body).await.problem("carrier_error");
    }
    assert_eq!((upstream.asked(), spent(&ada).await), (before + 1, 0), "the others do not try");
    // A message waits for the number to be well again.
    let sent = text(&ada, "5678").await.ok();
    world.settle().await;
    assert_eq!(status_of(&ada, &sent).await, "submitted");
}

async fn a_business_account_that_hangs_keeps_no_other_waiting(world: &World, upstream: &CloudApi) {
    let ada = world.live_account("ada", GRANT).await;
    let bob = world.live_account("bob", GRANT).await;
    upstream.add_number("777", "888");
    let path = format!("/v1/admin/accounts/{}/chatapp", bob.account_id);
    let link = json!({"phone_number_id": "777", "waba_id": "888", "app_secret": "s",
        "access_token": cloud_api::ACCESS_TOKEN, "verify_token": "v"});
    world.put(ada.env, &path).bearer(world.staff().await).json(link).await.ok();
    let mut words = cloud_api::message_body(&phone("5678"), "wamid.B", text_message("Bonjour"));
    words["entry"][0]["id"] = "888".into();
    words["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "777".into();
    upstream.tell(&words).await.unwrap();
    heard(&bob, 1).await;
    upstream.misbehave_at("777", Some(Chaos::Hang));
    let before = upstream.asked();
    let mut sent = Vec::new();
    for _ in 0..40 {
        sent.push(text(&bob, "5678").await.ok());
    }
    eventually(async || (upstream.asked() - before == 32).then_some(())).await;
    let mut took = Vec::new();
    for number in 6_000..6_040 {
        let begun = tokio::time::Instant::now();
        let body = json!({"to": phone(&number.to_string()), "delivery_mode": "chatapp"});
        assert_eq!(ada.send(body).await.ok().word("status"), "delivered");
        took.push(begun.elapsed());
    }
    took.sort();
    // A call that hangs is given up after ten seconds: none of these waited for one.
    assert!(took[39] < Duration::from_secs(8), "{took:?}");
    // Nobody knows whether the first has arrived: it is not sent again, and costs nothing.
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    assert!(upstream.asked() <= before + 40 + 40, "no message goes out twice");
    let price = sent[0].number("charged_credits");
    assert_eq!(bob.balance().await, GRANT - 40 * price, "held");
    world.advance(DAY + MINUTE).await;
    let over = read_as(&bob, sent[0].word("id"), "failed").await;
    assert_eq!(over.field("error")["code"], "no_receipt");
    eventually(async || (bob.balance().await == GRANT).then_some(())).await;
}

async fn what_is_throttled_waits_and_is_sent_once(world: &World, upstream: &CloudApi) {
    let ada = in_touch(world, upstream, "5678").await;
    let mut price = 0;
    for (chaos, pause_ms) in [(Chaos::Throttled, 1_100), (Chaos::PairThrottled, 4_100)] {
        upstream.misbehave(Some(chaos));
        let (asked, taken) = (upstream.asked(), upstream.messages().len());
        let sent = text(&ada, "5678").await.ok();
        eventually(async || (upstream.asked() > asked).then_some(())).await;
        world.advance(500).await;
        assert_eq!(status_of(&ada, &sent).await, "submitted");
        assert_eq!(upstream.asked(), asked + 1, "{chaos:?}: it is given time");
        price += sent.number("charged_credits");
        assert_eq!(spent(&ada).await, price, "its price is held");
        upstream.misbehave(None);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        eventually(async || {
            world.advance(5_000).await;
            (status_of(&ada, &sent).await == "delivered").then_some(())
        })
        .await;
        assert_eq!((upstream.messages().len(), spent(&ada).await), (taken + 1, price));
    }
}

async fn a_poisonous_item_keeps_no_other_away(world: &World, upstream: &CloudApi) {
    let ada = in_touch(world, upstream, "5678").await;
    let sent = text(&ada, "5678").await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    let echo = upstream.messages().last().unwrap()["biz_opaque_callback_data"].clone();
    let person = phone("5678").trim_start_matches('+').to_owned();
    let words = |id: &str, text: &str| {
        json!({"from": person, "id": id, "timestamp": "1767225600", "type": "text",
            "text": {"body": text}, "new_field": {"a": [1]}})
    };
    let body = envelope(&json!({
        "statuses": [
            7, {"id": "wamid.n", "status": "teleported", "biz_opaque_callback_data": echo},
            {"id": "nul \u{0}", "status": "read", "biz_opaque_callback_data": "a\u{0} b\u{0}"},
            {"id": "wamid.never", "status": "failed", "errors": "none"},
            {"id": "wamid.x", "status": "read", "biz_opaque_callback_data": "acc_none att_none"},
            {"id": "wamid.x", "status": "read", "biz_opaque_callback_data": echo},
        ],
        "messages": [
            null, {"id": [1]}, {"from": {}, "id": "wamid.P1", "type": "text"},
            words("wamid.P2", "nul \u{0} nul"),
            {"from": "x\u{0}", "id": "p\u{0}", "context": {"id": "c\u{0}"}, "type": "button",
             "button": {"payload": "c1:\u{0}:y", "text": "\u{0}"}},
            words("wamid.P3", &"long ".repeat(40_000)),
            {"from": person, "id": "wamid.P4", "timestamp": "1767225600", "type": "location",
             "location": {"latitude": 1.5}},
            words("wamid.P5", "the neighbour"),
        ],
    }));
    upstream.tell(&body).await.unwrap();
    read_as(&ada, sent.word("id"), "read").await;
    let seen = heard(&ada, 5).await;
    let said: Vec<&str> = seen.iter().map(|data| data["message"].as_str().unwrap()).collect();
    for expected in ["nul \u{fffd} nul", "[location]", "the neighbour"] {
        assert!(said.contains(&expected), "{expected}");
    }
    eventually(async || (stored(world).await == 0).then_some(())).await;
    // Fields, entries and objects of another time.
    for strange in [
        json!({"entry": [{"changes": [{"field": "account_update", "value": 7}]}, null, []]}),
        json!({"object": "page", "entry": {"id": 1}}),
        json!({"entry": [{"id": "\u{0}", "changes": [{"field": "message_template_status_update",
            "value": {"event": "\u{0}", "message_template_id": "\u{0}",
            "message_template_name": "\u{0}", "message_template_language": "\u{0}"}}]}]}),
    ] {
        upstream.tell(&strange).await.unwrap();
    }
    eventually(async || (stored(world).await == 0).then_some(())).await;
    assert_eq!(heard(&ada, 5).await.len(), 5);
}

/// A sequence of words that a seed stands for.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, most: usize) -> usize {
        // xorshift64: the shuffle has to be told from its seed, not to be secret.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).unwrap()).unwrap()
    }
}

async fn receipts_in_any_order_lower_no_status_and_charge_once(world: &World, upstream: &CloudApi) {
    // Each failure names it.
    let seed = u64::try_from(Clock::system().now().0).unwrap();
    let mut chance = Chance::new(seed);
    // The upstream itself says nothing about this number.
    let ada = in_touch(world, upstream, "0003").await;
    let first = text(&ada, "0003").await.ok();
    let price = first.number("charged_credits");
    // Below, messages are told apart by the order in which the upstream had them.
    read_as(&ada, first.word("id"), "sent").await;
    let mut due = price;
    for _ in 0..12 {
        let before = upstream.messages().len();
        let sent = text(&ada, "0003").await.ok();
        let echo = eventually(async || {
            upstream.messages().get(before).map(|it| it["biz_opaque_callback_data"].clone())
        })
        .await;
        read_as(&ada, sent.word("id"), "sent").await;
        let words = ["sent", "delivered", "read", "failed"];
        let order: Vec<&str> = (0..6).map(|_| words[chance.below(words.len())]).collect();
        for word in &order {
            upstream.tell(&status_for(&echo, word)).await.unwrap();
            eventually(async || (stored(world).await == 0).then_some(())).await;
        }
        // What counts is the first receipt that decides; a read may follow a delivery.
        let first = order.iter().copied().find(|word| *word != "sent");
        let expected = match first {
            None => "sent",
            Some("failed") => "failed",
            Some(_) if order.contains(&"read") => "read",
            Some(_) => "delivered",
        };
        let now = ada.get(&format!("/v1/chatapp/messages/{}", sent.word("id"))).await.ok();
        assert_eq!(now.word("status"), expected, "seed {seed}: {order:?}");
        due += if expected == "failed" { 0 } else { price };
        assert_eq!(spent(&ada).await, due, "seed {seed}: {order:?}");
        let rank = |word: &Value| {
            ["sent", "failed", "delivered", "read"].iter().position(|it| *it == word)
        };
        let all = told(&ada, "chatapp.status").await;
        let own = all.iter().filter(|data| data["id"] == sent.word("id"));
        let ranks: Vec<_> = own.map(|data| rank(&data["status"])).collect();
        assert!(!ranks.is_empty() && ranks.is_sorted(), "seed {seed}: {order:?} {ranks:?}");
    }
}
