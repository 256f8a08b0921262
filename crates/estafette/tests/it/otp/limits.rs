//! What a recipient is protected from on live: too many messages, and too many guesses.

use clock::{DAY, HOUR, MINUTE};
use estafette::config::Config;
use serde_json::json;

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, World};

on_every_engine!(
    twenty_wrong_guesses_a_day_space_the_sends with many_sends_a_day,
    right_guesses_and_other_recipients_do_not_count with many_sends_a_day,
    the_sandbox_has_no_budget_of_guesses,
    a_fallback_counts_as_a_send,
    a_fallback_is_too_soon_for_another_sms,
    a_resend_waits_for_its_channel_only,
);

fn many_sends_a_day(config: &mut Config) {
    config.otp.recipient_per_10_min = 10;
}

async fn on_live<'w>(world: &'w World, name: &str) -> Tenant<'w> {
    world.give_live_carriers().await;
    world.live_account(name, 1_000_000).await
}

/// A passcode by SMS that is guessed wrong so often.
async fn guessed(ada: &Tenant<'_>, to: &str, reference: &str, guesses: usize) -> Answer {
    let body = json!({
        "to": to, "code": "482916", "reference": reference, "delivery_mode": "sms",
    });
    let sent = ada.send(body).await.ok();
    for _ in 0..guesses {
        ada.guess(sent.word("challenge_id"), "000000").await;
    }
    sent
}

async fn twenty_wrong_guesses_a_day_space_the_sends(world: &World) {
    let ada = on_live(world, "ada").await;
    let to = phone("5678");
    for round in 0..4 {
        guessed(&ada, &to, &format!("{round}"), 5).await;
        world.advance(11 * MINUTE).await;
    }
    // The last one was eleven minutes ago, and nobody guesses at anything for free now.
    let body = json!({"to": to, "code": "482916", "delivery_mode": "sms"});
    let refused = ada.send(&body).await.problem("rate_limited");
    let wait: i64 = refused.head("retry-after").parse().unwrap();
    assert!((48 * 60..=49 * 60).contains(&wait), "{wait}");
    world.advance(wait * 1_000).await;
    let sent = ada.send(&body).await.ok();
    ada.guess(sent.word("challenge_id"), "482916").await.ok();
    world.advance(59 * MINUTE).await;
    ada.send(&body).await.problem("rate_limited");
    world.advance(MINUTE).await;
    ada.send(&body).await.ok();
    world.advance(DAY).await;
    ada.send(&body).await.ok();
    world.advance(MINUTE).await;
    ada.send(&body).await.ok();
}

async fn right_guesses_and_other_recipients_do_not_count(world: &World) {
    let ada = on_live(world, "ada").await;
    let (to, other) = (phone("5678"), phone("5679"));
    for round in 0..3 {
        guessed(&ada, &to, &format!("{round}"), 5).await;
        world.advance(MINUTE).await;
    }
    let last = guessed(&ada, &to, "last", 4).await;
    ada.guess(last.word("challenge_id"), "482916").await.ok();
    ada.guess(last.word("challenge_id"), "000000").await.problem("otp_already_verified");
    guessed(&ada, &other, "other", 5).await;
    // Nineteen at this recipient so far.
    world.advance(MINUTE).await;
    let next = guessed(&ada, &to, "next", 1).await;
    world.advance(MINUTE).await;
    let body = json!({"to": to, "reference": "late", "delivery_mode": "sms"});
    ada.send(&body).await.problem("rate_limited");
    ada.guess(next.word("challenge_id"), "482916").await.ok();
    ada.send(json!({"to": other, "reference": "late", "delivery_mode": "sms"})).await.ok();
}

async fn the_sandbox_has_no_budget_of_guesses(world: &World) {
    let ada = world.account("ada").await;
    for round in 0..5 {
        guessed(&ada, &phone("5678"), &format!("{round}"), 5).await;
    }
    guessed(&ada, &phone("5678"), "last", 0).await;
}

async fn a_fallback_counts_as_a_send(world: &World) {
    let ada = on_live(world, "ada").await;
    let to = phone("0008");
    // Each is refused by a receipt, and falls back: after two there is room for one of five.
    for reference in ["a", "b"] {
        let chatapp = json!({"to": to, "reference": reference, "delivery_mode": "chatapp"});
        ada.send(chatapp).await.problem("recipient_unreachable");
        world.advance(31_000).await;
    }
    forget_unreachable(world, &ada, &to).await;
    let sent = ada.send(json!({"to": to, "reference": "c"})).await.ok();
    assert_eq!(sent.word("channel"), "sms", "the third and the fourth");
    world.advance(31_000).await;
    ada.send(json!({"to": to, "reference": "d", "delivery_mode": "sms"})).await.ok();
    world.advance(31_000).await;
    let body = json!({"to": to, "reference": "e", "delivery_mode": "sms"});
    ada.send(body).await.problem("rate_limited");
}

async fn a_fallback_is_too_soon_for_another_sms(world: &World) {
    let ada = on_live(world, "ada").await;
    let to = phone("0003");
    let sent = ada.send_to(&to).await.ok();
    world.advance(20_100).await;
    ada.until(sent.word("challenge_id"), |now| now["channel"] == "sms").await;
    world.advance(15_000).await;
    let body = json!({"to": to, "delivery_mode": "sms"});
    let refused = ada.send(&body).await.problem("resend_too_soon");
    let wait: i64 = refused.head("retry-after").parse().unwrap();
    assert!((10..=16).contains(&wait), "{wait}");
    world.advance(wait * 1_000).await;
    ada.send(&body).await.ok();
}

async fn a_resend_waits_for_its_channel_only(world: &World) {
    let ada = on_live(world, "ada").await;
    let to = phone("5678");
    ada.send_to(&to).await.ok();
    ada.send_to(&to).await.problem("resend_too_soon");
    ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    world.advance(HOUR).await;
    ada.send_to(&to).await.ok();
}

/// As a day later, but the sends stay counted.
async fn forget_unreachable(world: &World, ada: &Tenant<'_>, to: &str) {
    let mut set = store::WriteSet::of(&ada.account_id);
    let sql =
        "UPDATE recipients SET unreachable_until = 0 WHERE account_id = $1 AND recipient = $2";
    set.push(store::Sql(sql), store::args![&ada.account_id, to]);
    world.app(ada.env).await.db.commit(set).await.unwrap();
}
