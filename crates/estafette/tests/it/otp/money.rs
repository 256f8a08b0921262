//! What a passcode costs, and that nobody spends what they do not have.

use serde_json::json;

use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Answer, World};

on_every_engine!(
    a_send_without_credits_keeps_nothing,
    credits_for_exactly_k_sends_are_spent_by_exactly_k_of_64_clients,
    a_resend_is_charged_again,
    a_fallback_without_credits_leaves_the_chatapp_its_time,
    parallel_sends_of_one_slot_make_one_challenge,
);

const GRANT: i64 = 1_000_000;

async fn a_send_without_credits_keeps_nothing(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -GRANT).await.ok();
    let body = json!({"to": phone("5678"), "reference": "r"});
    ada.send(body).await.problem("insufficient_credits");
    ada.verify(json!({"reference": "r", "code": "4821"})).await.problem("not_found");
    assert!(ada.handset(&phone("5678")).await.is_empty());
    assert_eq!(ada.balance().await, 0);
    assert!(ada.movements().await.iter().all(|(kind, _)| kind == "correction"));
}

async fn credits_for_exactly_k_sends_are_spent_by_exactly_k_of_64_clients(world: &World) {
    let ada = world.account("ada").await;
    let price = world.price("chatapp", "FR");
    let k = 23;
    world.credit(&ada, k * price + (price - 1) - GRANT).await.ok();
    let calls = (0..64).map(|client| {
        let call = ada.send_to(&phone(&format!("50{client:02}")));
        std::future::IntoFuture::into_future(call)
    });
    let answers: Vec<Answer> = futures_util::future::join_all(calls).await;
    let sent = answers.iter().filter(|answer| answer.status == 200).count();
    let poor = answers.iter().filter(|a| a.body["code"] == "insufficient_credits").count();
    assert_eq!((sent, poor), (23, 41));
    assert_eq!(ada.balance().await, price - 1);
}

async fn a_resend_is_charged_again(world: &World) {
    let ada = world.account("ada").await;
    let first = ada.send_to(&phone("5678")).await.ok();
    let again = ada.send_to(&phone("5678")).await.ok();
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(GRANT - ada.balance().await, 2 * world.price("chatapp", "FR"));
}

async fn a_fallback_without_credits_leaves_the_chatapp_its_time(world: &World) {
    let ada = world.account("ada").await;
    let chatapp = world.price("chatapp", "FR");
    assert!(chatapp < world.price("sms", "FR"), "else this story tells nothing");
    world.credit(&ada, chatapp - GRANT).await.ok();
    let sent = ada.send_to(&phone("0003")).await.ok();
    world.advance(20_100).await;
    let id = sent.word("challenge_id");
    let stands = async |status: &str| {
        let read = ada.challenge(id).await.ok();
        assert_eq!((read.word("status"), read.word("channel")), (status, "chatapp"));
    };
    stands("sent").await;
    assert!(ada.handset(&phone("0003")).await.is_empty());
    assert_eq!(ada.balance().await, 0, "the chat-app has it, which is paid for");
    world.advance(300_000).await;
    stands("expired").await;
    assert_eq!(ada.balance().await, 0);
    // What the chat-app refuses has no other way.
    world.credit(&ada, chatapp).await.ok();
    let refused = ada.send(json!({"to": phone("0001")})).await;
    refused.problem("insufficient_credits");
}

async fn parallel_sends_of_one_slot_make_one_challenge(world: &World) {
    let ada = world.account("ada").await;
    let calls = (0..12).map(|_| std::future::IntoFuture::into_future(ada.send_to(&phone("5678"))));
    let answers: Vec<Answer> = futures_util::future::join_all(calls).await;
    let mut ids: Vec<&str> =
        answers.iter().filter(|a| a.status == 200).map(|a| a.word("challenge_id")).collect();
    let sent = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let shown = ada.handset(&phone("5678")).await;
    assert_eq!(shown.len(), sent, "as many messages as answers that say so");
    assert!(shown.iter().all(|message| message["code"] == shown[0]["code"]), "one code");
}
