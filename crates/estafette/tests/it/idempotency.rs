//! Stories of the Idempotency-Key: a repeat never has a second effect.

use serde_json::json;

use estafette::app::Env;
use estafette::config::Config;
use estafette::kit::seal::sha256;

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, Call, World};

on_every_engine!(
    a_repeat_answers_with_the_same_challenge,
    a_repeat_shows_the_state_of_now,
    another_body_is_refused,
    malformed_keys_are_refused,
    parallel_twins_make_one_challenge_and_one_charge,
    a_key_is_new_again_after_a_day,
    a_key_belongs_to_its_account,
    a_faulty_request_does_not_use_the_key_up,
    a_send_that_was_never_recorded_repeats_its_refusal,
    a_send_that_was_asked_to_wait_goes_out_at_its_repeat,
    kept_refusals_are_bounded with slow_senders,
    a_repeated_verification_is_not_a_second_one,
    a_repeated_guess_burns_one_attempt,
    a_repeat_survives_a_restart,
    a_repeated_chatapp_send_answers_the_same,
    a_wrong_guess_stays_wrong_when_it_is_repeated,
    a_last_guess_and_a_right_one_are_told_as_at_first,
    staff_and_tenants_have_keys_of_their_own,
    a_send_that_failed_after_its_answer_is_repeated_as_it_stands,
    a_send_that_was_refused_repeats_its_refusal,
    a_code_is_not_found_from_what_is_stored_of_its_request,
    a_key_of_a_version_without_keyed_hashes_still_stands,
);

fn send(ada: &Tenant<'_>, key: &str, ending: &str) -> Call {
    let body = json!({"to": phone(ending), "reference": "r"});
    ada.send(body).header("idempotency-key", key)
}

async fn a_repeat_answers_with_the_same_challenge(world: &World) {
    let ada = world.account("ada").await;
    let first = send(&ada, "one", "5678").await.ok();
    assert_eq!(first.head("idempotent-replayed"), "");
    let again = send(&ada, "one", "5678").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.body, first.body);
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1);
    assert_eq!(ada.balance().await, 1_000_000 - world.price("chatapp", "FR"));
    let fallen = send(&ada, "two", "0001").await.ok();
    let again = send(&ada, "two", "0001").await.ok();
    for name in ["challenge_id", "channel", "fallback_used", "chatapp_available", "to"] {
        assert_eq!(again.field(name), fallen.field(name), "{name}");
    }
}

async fn a_repeat_shows_the_state_of_now(world: &World) {
    let ada = world.account("ada").await;
    let first = send(&ada, "one", "5678").await.ok();
    let code = ada.code_on(&phone("5678")).await;
    ada.guess(first.word("challenge_id"), &code).await.ok();
    let again = send(&ada, "one", "5678").await.ok();
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(again.word("status"), "verified");
    assert_eq!(again.names(), first.names());
}

async fn another_body_is_refused(world: &World) {
    let ada = world.account("ada").await;
    send(&ada, "one", "5678").await.ok();
    send(&ada, "one", "5679").await.problem("idempotency_key_reused");
    assert!(ada.handset(&phone("5679")).await.is_empty());
}

async fn malformed_keys_are_refused(world: &World) {
    let ada = world.account("ada").await;
    let long = "k".repeat(256);
    for key in ["", long.as_str(), "caf\u{e9}", "tab\there"] {
        let answer = send(&ada, key, "5678").await.problem("invalid_idempotency_key");
        assert!(answer.item("header:Idempotency-Key").is_some(), "{}", answer.text);
    }
    assert!(ada.handset(&phone("5678")).await.is_empty());
    send(&ada, &"k".repeat(255), "5678").await.ok();
    send(&ada, "!~ 0-9_A.z", "5678").await.ok();
}

async fn parallel_twins_make_one_challenge_and_one_charge(world: &World) {
    let ada = world.account("ada").await;
    let calls = (0..16).map(|_| std::future::IntoFuture::into_future(send(&ada, "one", "5678")));
    let answers: Vec<Answer> = futures_util::future::join_all(calls).await;
    let mut ids = vec![];
    for answer in &answers {
        if answer.status == 200 {
            ids.push(answer.word("challenge_id"));
        } else {
            answer.clone().problem("idempotency_in_progress");
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1);
    assert_eq!(ada.balance().await, 1_000_000 - world.price("chatapp", "FR"));
}

async fn a_key_is_new_again_after_a_day(world: &World) {
    let ada = world.account("ada").await;
    let first = send(&ada, "one", "5678").await.ok();
    world.advance(24 * 3_600_000 - 60_000).await;
    let again = send(&ada, "one", "5678").await.ok();
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(again.word("status"), "expired");
    world.advance(120_000).await;
    let fresh = send(&ada, "one", "5678").await.ok();
    assert_ne!(fresh.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(fresh.head("idempotent-replayed"), "");
}

async fn a_key_belongs_to_its_account(world: &World) {
    let ada = world.account("ada").await;
    let eve = world.account("eve").await;
    let hers = send(&ada, "one", "5678").await.ok();
    let other = send(&eve, "one", "5678").await.ok();
    assert_ne!(other.field("challenge_id"), hers.field("challenge_id"));
    assert_eq!(other.head("idempotent-replayed"), "");
}

async fn a_faulty_request_does_not_use_the_key_up(world: &World) {
    let ada = world.account("ada").await;
    let bad = ada.send(json!({"to": "12"})).header("idempotency-key", "one").await;
    bad.problem("validation_failed");
    let sent = send(&ada, "one", "5678").await.ok();
    assert_eq!(sent.head("idempotent-replayed"), "");
}

async fn a_send_that_was_never_recorded_repeats_its_refusal(world: &World) {
    let ada = world.account("ada").await;
    let text = |text: &str| {
        let body = json!({"to": phone("5678"), "text": text, "sender": "Relay"});
        ada.text(body).header("idempotency-key", "text")
    };
    let unapproved = text("hello").await.problem("sender_not_approved");
    world.credit(&ada, -1_000_000).await.ok();
    let first = send(&ada, "one", "5678").await.problem("insufficient_credits");
    assert_eq!(first.head("idempotent-replayed"), "");
    // What was wrong is mended; the request was refused all the same.
    world.credit(&ada, 100).await.ok();
    let asked = ada.desk("POST", "/v1/senders").json(json!({"value": "Relay"})).await.ok();
    let path = format!("/v1/admin/senders/{}", asked.word("id"));
    let staff = world.staff().await;
    let approve = world.patch(Env::Live, &path).bearer(staff).json(json!({"status": "approved"}));
    approve.await.ok();
    let again = send(&ada, "one", "5678").await.problem("insufficient_credits");
    assert_eq!(again.head("idempotent-replayed"), "true");
    for name in ["title", "detail", "status"] {
        assert_eq!(again.field(name), first.field(name), "{name}");
    }
    let again = text("hello").await.problem("sender_not_approved");
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.field("detail"), unapproved.field("detail"));
    text("another").await.problem("idempotency_key_reused");
    send(&ada, "one", "5679").await.problem("idempotency_key_reused");
    assert!(ada.handset(&phone("5678")).await.is_empty(), "nothing was sent");
    // Under a new key it goes out, and a day later so does the old one.
    send(&ada, "two", "5678").await.ok();
    world.advance(24 * 3_600_000 + 60_000).await;
    let sent = send(&ada, "one", "5678").await.ok();
    assert_eq!(sent.head("idempotent-replayed"), "");
}

async fn a_send_that_was_asked_to_wait_goes_out_at_its_repeat(world: &World) {
    world.give_live_carriers().await;
    let ada = world.live_account("ada", 100).await;
    send(&ada, "one", "5678").await.ok();
    let resend = || send(&ada, "two", "5678");
    resend().await.problem("resend_too_soon");
    world.advance(31_000).await;
    let sent = resend().await.ok();
    assert_eq!(sent.head("idempotent-replayed"), "");
    assert_eq!(ada.balance().await, 100 - 2 * world.price("chatapp", "FR"));
}

/// One refusal in a second is kept, and two at once.
fn slow_senders(config: &mut Config) {
    config.limits.send_per_s = 10;
}

async fn kept_refusals_are_bounded(world: &World) {
    let ada = world.account("ada").await;
    let mut codes = vec![];
    for number in 0..8 {
        let refused = send(&ada, &format!("key {number}"), "0031").await;
        codes.push(refused.word("code").to_owned());
    }
    assert_eq!(codes[..2], ["insufficient_credits"; 2]);
    assert!(codes[2..].iter().any(|code| code == "rate_limited"), "{codes:?}");
    let db = world.app(ada.env).await.db.clone();
    let sql = store::Sql("SELECT COUNT(*) FROM idempotency WHERE account_id = $1");
    let kept: Option<(i64,)> = db.row(sql, store::args![&ada.account_id]).await.unwrap();
    let told = codes.iter().filter(|code| *code == "insufficient_credits").count();
    assert_eq!(kept.unwrap().0, i64::try_from(told).unwrap(), "each that was told is kept");
}

async fn a_repeated_verification_is_not_a_second_one(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let guess = || ada.guess(sent.word("challenge_id"), "4821").header("idempotency-key", "v");
    let first = guess().await.ok();
    let again = guess().await.ok();
    assert_eq!(again.body, first.body);
    assert_eq!(again.head("idempotent-replayed"), "true");
    ada.guess(sent.word("challenge_id"), "4821").await.problem("otp_already_verified");
}

async fn a_repeated_guess_burns_one_attempt(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    for _ in 0..3 {
        ada.guess(id, "0000").header("idempotency-key", "v").await.problem("otp_code_invalid");
    }
    assert_eq!(ada.challenge(id).await.ok().number("attempts"), 1);
    let other = ada.guess(id, "0001").header("idempotency-key", "v").await;
    other.problem("idempotency_key_reused");
}

async fn a_repeat_survives_a_restart(world: &World) {
    let ada = world.account("ada").await;
    let first = send(&ada, "one", "5678").await.ok();
    world.restart().await;
    // In memory they are gone by now, in the database they are not.
    let before = ada.handset(&phone("5678")).await;
    let again = send(&ada, "one", "5678").await.ok();
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(ada.handset(&phone("5678")).await, before, "nothing was sent again");
}

async fn a_repeated_chatapp_send_answers_the_same(world: &World) {
    let ada = world.account("ada").await;
    let send = || {
        let body = json!({"to": phone("5678"), "code": "4821", "client_id": "c"});
        ada.call("POST", "/v1/chatapp/otp/send").header("idempotency-key", "one").json(body)
    };
    let first = send().await.ok();
    let again = send().await.ok();
    assert_eq!(again.body, first.body);
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1);
}

async fn a_wrong_guess_stays_wrong_when_it_is_repeated(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    let wrong = |key: &'static str| ada.guess(id, "0000").header("idempotency-key", key);
    let first = wrong("a").await.problem("otp_code_invalid");
    assert_eq!((first.number("attempts"), first.number("attempts_remaining")), (1, 4));
    wrong("b").await.problem("otp_code_invalid");
    let again = wrong("a").await.problem("otp_code_invalid");
    assert_eq!(again.number("attempts"), 1, "as it was told at first");
    assert_eq!(again.head("idempotent-replayed"), "true");
    ada.guess(id, "4821").await.ok();
    for (key, attempts) in [("a", 1), ("b", 2)] {
        let again = wrong(key).await.problem("otp_code_invalid");
        assert_eq!(again.field("verified"), false);
        assert_eq!(again.number("attempts"), attempts);
        assert_eq!(again.word("challenge_status"), "delivered");
    }
    world.advance(400_000).await;
    assert_eq!(wrong("b").await.problem("otp_code_invalid").number("attempts"), 2);
}

async fn a_last_guess_and_a_right_one_are_told_as_at_first(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    for _ in 0..4 {
        ada.guess(id, "0000").await.problem("otp_code_invalid");
    }
    let last = || ada.guess(id, "0001").header("idempotency-key", "last");
    last().await.problem("otp_attempts_exhausted");
    last().await.problem("otp_attempts_exhausted");
    let sent = ada.send(json!({"to": phone("5679"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    let right = || ada.guess(id, "4821").header("idempotency-key", "right");
    let first = right().await.ok();
    world.advance(400_000).await;
    assert_eq!(right().await.ok().body, first.body);
}

async fn staff_and_tenants_have_keys_of_their_own(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "one", "5678").await.ok();
    let path = format!("/v1/admin/accounts/{}/credits", ada.account_id);
    let staff = world.staff().await;
    let grant = |key: &'static str| {
        let body = json!({"amount": 7, "reason": "a story"});
        world.post(ada.env, &path).bearer(staff).header("idempotency-key", key).json(body)
    };
    let before = ada.balance().await;
    let first = grant("one").await.ok();
    assert_eq!(first.head("idempotent-replayed"), "");
    let again = grant("one").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.field("transfer_id"), first.field("transfer_id"));
    assert_eq!(ada.balance().await, before + 7);
    // And the other way round.
    grant("two").await.ok();
    let other = send(&ada, "two", "5679").await.ok();
    assert_eq!(other.head("idempotent-replayed"), "");
    let again = send(&ada, "one", "5678").await.ok();
    assert_eq!(again.field("challenge_id"), sent.field("challenge_id"));
}

async fn a_send_that_failed_after_its_answer_is_repeated_as_it_stands(world: &World) {
    let ada = world.account("ada").await;
    let send = || {
        let body = json!({"to": phone("0002"), "delivery_mode": "chatapp"});
        ada.send(body).header("idempotency-key", "one")
    };
    let first = send().await.ok();
    assert_eq!(first.word("status"), "sent");
    world.advance(3_100).await;
    ada.until(first.word("challenge_id"), |now| now["status"] == "failed").await;
    let again = send().await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.word("status"), "failed");
    assert_eq!(again.field("chatapp_available"), false, "known by now");
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
}

async fn a_send_that_was_refused_repeats_its_refusal(world: &World) {
    let ada = world.account("ada").await;
    let chatapp = |key: &'static str| {
        let body = json!({"to": phone("0001"), "delivery_mode": "chatapp", "reference": key});
        ada.send(body).header("idempotency-key", key)
    };
    let first = chatapp("one").await.problem("recipient_unreachable");
    // Another send of the same passcode arrives; the first was refused all the same.
    let body = json!({"to": phone("0001"), "delivery_mode": "sms", "reference": "one"});
    ada.send(body).await.ok();
    assert_eq!(first.head("idempotent-replayed"), "");
    let again = chatapp("one").await.problem("recipient_unreachable");
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(ada.handset(&phone("0001")).await.len(), 1);
}

/// The bodies that an attacker tries who knows the request but for its code.
fn guesses(id: &str) -> impl Iterator<Item = (String, String)> {
    let id = id.to_owned();
    (0..10_000).map(move |code| {
        let code = format!("{code:04}");
        let body = json!({"challenge_id": id, "code": code}).to_string();
        (code, body)
    })
}

async fn a_code_is_not_found_from_what_is_stored_of_its_request(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    ada.guess(id, "4821").header("idempotency-key", "one").await.ok();
    let db = world.app(ada.env).await.db.clone();
    let sql = store::Sql("SELECT fingerprint FROM idempotency WHERE account_id = $1");
    let mut stored: Vec<Vec<u8>> = db
        .rows::<(Vec<u8>,)>(sql, store::args![&ada.account_id])
        .await
        .unwrap()
        .into_iter()
        .map(|(fingerprint,)| fingerprint)
        .collect();
    assert_eq!(stored.len(), 1);
    let hash = |body: &str| sha256(format!("POST /v1/otp/verify\u{1f}{body}").as_bytes());
    let found = |stored: &[Vec<u8>]| {
        let is_it = |(_, body): &(String, String)| stored.iter().any(|one| *one == hash(body));
        guesses(id).find(is_it).map(|(code, _)| code)
    };
    assert_eq!(found(&stored), None, "the code was found");
    // The attack works on a hash without a key.
    let body = json!({"challenge_id": id, "code": "4821"}).to_string();
    stored.push(hash(&body).to_vec());
    assert_eq!(found(&stored), Some("4821".to_owned()));
}

async fn a_key_of_a_version_without_keyed_hashes_still_stands(world: &World) {
    let ada = world.account("ada").await;
    let first = send(&ada, "one", "5678").await.ok();
    let guess = ada.send(json!({"to": phone("5679"), "code": "4821"})).await.ok();
    let id = guess.word("challenge_id");
    ada.guess(id, "0000").header("idempotency-key", "guess").await.problem("otp_code_invalid");
    ada.guess(id, "4821").await.ok();
    let mut set = store::WriteSet::of(&ada.account_id);
    let sql = "UPDATE idempotency SET fingerprint = NULL, answer = NULL WHERE account_id = $1";
    set.push(store::Sql(sql), store::args![&ada.account_id]);
    world.app(ada.env).await.db.commit(set).await.unwrap();
    let again = send(&ada, "one", "5678").await.ok();
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1, "nothing is sent twice");
    let again = ada.guess(id, "0000").header("idempotency-key", "guess").await;
    again.problem("otp_already_verified");
}
