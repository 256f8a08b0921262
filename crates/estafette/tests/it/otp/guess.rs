//! Verifying: right, wrong, too many, too late, all at once.

use estafette::app::Env;
use estafette::config::Config;
use serde_json::json;

use crate::on_every_engine;
use crate::world::tenant::{Tenant, other_than, phone};
use crate::world::{Answer, World, eventually};

on_every_engine!(
    a_wrong_code_says_how_many_guesses_are_left,
    the_fifth_guess_may_succeed,
    the_fifth_wrong_guess_ends_the_challenge,
    a_thousand_parallel_wrong_guesses_evaluate_exactly_five,
    sixteen_parallel_right_guesses_verify_exactly_once,
    an_expired_code_is_gone_before_any_sweep_and_after_it,
    the_last_millisecond_counts_and_the_next_does_not,
    validity_is_an_account_setting,
    the_right_code_of_a_failed_passcode_is_told_why,
    a_verified_code_works_once,
    a_verified_challenge_stays_verified,
    unknown_and_foreign_challenges_are_not_found,
    spaces_dashes_and_other_digits_are_read,
    a_malformed_code_burns_no_attempt,
    a_guess_at_what_was_over_is_none_at_the_next_when_it_is_repeated,
    what_happened_while_a_send_waited_is_in_its_answer with patient,
);

/// So that there is time to guess.
fn patient(config: &mut Config) {
    config.otp.receipt_wait_ms = 2_000;
}

async fn sent(ada: &Tenant<'_>, code: &str) -> String {
    let body = json!({"to": phone("5678"), "code": code});
    ada.send(body).await.ok().word("challenge_id").to_owned()
}

/// No receipt comes from these phones: their sends wait for all of the time.
async fn what_happened_while_a_send_waited_is_in_its_answer(world: &World) {
    let ada = world.account("ada").await;
    for (reference, guesses, status) in [("right", 1, "verified"), ("wrong", 5, "failed")] {
        let body = json!({"to": phone("0003"), "code": "482916", "reference": reference});
        let guess = async || {
            let list = format!("/v1/otp?reference={reference}");
            let open = async || Some(ada.get(&list).await.ok()).filter(|it| it.list().len() == 1);
            eventually(open).await;
            let code = if status == "verified" { "482916" } else { "482917" };
            for _ in 0..guesses {
                ada.verify(json!({"reference": reference, "code": code})).await;
            }
        };
        let (sent, ()) = tokio::join!(ada.send(body), guess());
        assert_eq!(sent.ok().word("status"), status);
    }
}

async fn a_wrong_code_says_how_many_guesses_are_left(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    for attempt in 1..=4 {
        let wrong = ada.guess(&id, "000000").await.problem("otp_code_invalid");
        assert_eq!(wrong.number("status"), 422);
        assert_eq!(wrong.field("verified"), false);
        assert_eq!(wrong.word("challenge_id"), id);
        assert_eq!(wrong.word("challenge_status"), "delivered");
        assert_eq!(wrong.number("attempts"), attempt);
        assert_eq!(wrong.number("max_attempts"), 5);
        assert_eq!(wrong.number("attempts_remaining"), 5 - attempt);
        assert!(!wrong.text.contains("482916"));
        assert_eq!(ada.challenge(&id).await.ok().number("attempts"), attempt);
    }
}

async fn the_fifth_guess_may_succeed(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    for _ in 0..4 {
        ada.guess(&id, "482917").await.problem("otp_code_invalid");
    }
    let right = ada.guess(&id, "482916").await.ok();
    assert_eq!(right.field("verified"), true);
    let read = ada.challenge(&id).await.ok();
    assert_eq!(read.word("status"), "verified");
    assert_eq!(read.word("verified_at"), right.word("verified_at"));
}

async fn the_fifth_wrong_guess_ends_the_challenge(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    for _ in 0..4 {
        ada.guess(&id, "482917").await.problem("otp_code_invalid");
    }
    for code in ["482917", "482916"] {
        // The members are those of the four before: a program reads them in one way.
        let over = ada.guess(&id, code).await.problem("otp_attempts_exhausted");
        assert_eq!((over.number("attempts"), over.number("attempts_remaining")), (5, 0));
        assert_eq!(over.word("challenge_id"), id);
        assert_eq!(over.word("challenge_status"), "failed");
        assert_eq!(over.field("verified"), false);
    }
    let read = ada.challenge(&id).await.ok();
    assert_eq!(read.word("status"), "failed");
    assert_eq!(read.word("failure_reason"), "attempts_exhausted");
    assert_eq!(read.number("attempts"), 5);
    world.advance(400_000).await;
    assert_eq!(ada.challenge(&id).await.ok().word("status"), "failed", "not expired");
    ada.guess(&id, "482916").await.problem("otp_attempts_exhausted");
}

/// All at the same time, on as many connections as the client opens.
async fn all_at_once(ada: &Tenant<'_>, id: &str, codes: Vec<String>) -> Vec<Answer> {
    let calls = codes.iter().map(|code| std::future::IntoFuture::into_future(ada.guess(id, code)));
    futures_util::future::join_all(calls).await
}

fn count(answers: &[Answer], code: &str) -> usize {
    answers.iter().filter(|answer| answer.body["code"] == code).count()
}

async fn a_thousand_parallel_wrong_guesses_evaluate_exactly_five(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    let codes = (0..1_000).map(|guess| format!("{guess:06}")).collect();
    let answers = all_at_once(&ada, &id, codes).await;
    assert_eq!(count(&answers, "otp_code_invalid"), 4);
    assert_eq!(count(&answers, "otp_attempts_exhausted"), 996);
    let mut attempts: Vec<_> = answers.iter().filter_map(|a| a.body["attempts"].as_i64()).collect();
    attempts.sort_unstable();
    attempts.dedup();
    assert!(attempts.starts_with(&[1, 2, 3, 4]), "each evaluated guess has its number");
    let read = ada.challenge(&id).await.ok();
    assert_eq!((read.number("attempts"), read.word("status")), (5, "failed"));
}

async fn sixteen_parallel_right_guesses_verify_exactly_once(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    let answers = all_at_once(&ada, &id, vec!["482916".to_owned(); 16]).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(count(&answers, "otp_already_verified"), 15);
}

async fn an_expired_code_is_gone_before_any_sweep_and_after_it(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    let late = ada.send(json!({"to": phone("5679"), "code": "1234"})).await.ok();
    world.stand_still_for(299_000).await;
    assert_eq!(ada.challenge(&id).await.ok().word("status"), "delivered");
    world.stand_still_for(1_000).await;
    assert_eq!(ada.challenge(&id).await.ok().word("status"), "expired");
    let gone = ada.guess(&id, "482916").await.problem("otp_expired");
    assert_eq!((gone.status, gone.field("verified")), (410, &json!(false)));
    assert_eq!((gone.word("challenge_id"), gone.word("challenge_status")), (&*id, "expired"));
    world.settle().await;
    let read = ada.challenge(&id).await.ok();
    assert_eq!(read.word("status"), "expired");
    assert_eq!(read.number("attempts"), 0, "a late guess is none");
    ada.guess(&id, "482916").await.problem("otp_expired");
    ada.guess(late.word("challenge_id"), "1234").await.problem("otp_expired");
}

async fn the_last_millisecond_counts_and_the_next_does_not(world: &World) {
    let ada = world.account("ada").await;
    for (early, code) in [(1, "verified"), (0, "otp_expired")] {
        let answer = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
        let end = clock::Millis::parse(answer.word("expires_at")).unwrap();
        // The guess itself moves the clock by one.
        world.stand_still_for(end - world.now() - early - 1).await;
        let guess = ada.guess(answer.word("challenge_id"), "4821").await;
        assert_eq!(world.now(), end - early);
        let found = if guess.status == 200 { guess.word("status") } else { guess.word("code") };
        assert_eq!(found, code, "{}", guess.text);
    }
}

async fn validity_is_an_account_setting(world: &World) {
    let ada = world.account("ada").await;
    world.set(&ada, json!({"settings": {"otp_validity_s": 60}})).await.ok();
    let answer = ada.send(json!({"to": phone("5678"), "code": "1234"})).await.ok();
    assert_eq!(answer.word("expires_at"), (world.now() + 60_000).to_string());
    world.advance(60_000).await;
    ada.guess(answer.word("challenge_id"), "1234").await.problem("otp_expired");
}

async fn the_right_code_of_a_failed_passcode_is_told_why(world: &World) {
    let ada = world.account("ada").await;
    let refused = ada.send(json!({"to": phone("0004"), "code": "4821"})).await;
    let id = refused.problem("recipient_unreachable").word("challenge_id").to_owned();
    for code in ["4821", "4822"] {
        let gone = ada.guess(&id, code).await.problem("otp_expired");
        let read = ada.challenge(&id).await.ok();
        assert_eq!((gone.word("challenge_id"), gone.field("verified")), (&*id, &json!(false)));
        assert_eq!(gone.field("challenge_status"), "failed");
        assert_eq!(gone.field("failure_reason"), read.field("failure_reason"));
        assert!(gone.word("detail").contains(read.word("failure_reason")), "{}", gone.text);
        assert_eq!(read.number("attempts"), 0);
    }
}

async fn a_verified_code_works_once(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    ada.guess(&id, "482916").await.ok();
    ada.guess(&id, "482916").await.problem("otp_already_verified");
    ada.guess(&id, "000000").await.problem("otp_already_verified");
    assert_eq!(ada.challenge(&id).await.ok().word("status"), "verified");
}

async fn a_verified_challenge_stays_verified(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    let right = ada.guess(&id, "482916").await.ok();
    world.advance(3_600_000).await;
    let read = ada.challenge(&id).await.ok();
    assert_eq!(read.word("status"), "verified");
    assert_eq!(read.field("verified_at"), right.field("verified_at"));
    ada.guess(&id, "482916").await.problem("otp_already_verified");
}

async fn unknown_and_foreign_challenges_are_not_found(world: &World) {
    let ada = world.account("ada").await;
    let eve = world.account("eve").await;
    let id = sent(&ada, "482916").await;
    let unknown = "otp_01kdv00000000000000000000z";
    for id in [id.as_str(), unknown, "otp_", "nonsense"] {
        eve.challenge(id).await.problem("not_found");
    }
    eve.challenge(&id).await.problem("not_found");
    eve.challenge(unknown).await.problem("not_found");
    eve.guess(&id, "482916").await.problem("not_found");
    eve.guess(unknown, "482916").await.problem("not_found");
    eve.verify(json!({"to": phone("5678"), "code": "482916"})).await.problem("not_found");
    let live = eve.on_live().await;
    assert_eq!(live.env, Env::Live);
    live.challenge(&id).await.problem("not_found");
    let read = ada.challenge(&id).await.ok();
    assert_eq!(read.number("attempts"), 0, "strangers' guesses do not count");
    ada.guess(&id, "482916").await.ok();
}

async fn spaces_dashes_and_other_digits_are_read(world: &World) {
    let ada = world.account("ada").await;
    for written in ["482 916", "482-916", " 4 8 2-9 1 6 ", "٤٨٢٩١٦", "４８２９１６", "४८२९१६"]
    {
        let id = sent(&ada, "482916").await;
        let answer = ada.guess(&id, written).await;
        assert_eq!(answer.status, 200, "{written}: {}", answer.text);
    }
}

async fn a_malformed_code_burns_no_attempt(world: &World) {
    let ada = world.account("ada").await;
    let id = sent(&ada, "482916").await;
    let long = format!("482916{}", " ".repeat(58));
    ada.guess(&id, &format!("{long}9")).await.fault("/code", "invalid_code");
    for code in ["", "12", "123", "123456789", "48291a", "482.916", "-", "١٢", "482916\u{0}"] {
        let answer = ada.guess(&id, code).await.problem("validation_failed");
        assert!(answer.item("/code").is_some(), "{}", answer.text);
    }
    ada.verify(json!({"challenge_id": id, "code": 482_916})).await.fault("/code", "invalid_type");
    ada.verify(json!({"challenge_id": id})).await.fault("/code", "required");
    assert_eq!(ada.challenge(&id).await.ok().number("attempts"), 0);
    let code = other_than("482916");
    assert_eq!(ada.guess(&id, &code).await.problem("otp_code_invalid").number("attempts"), 1);
}

async fn a_guess_at_what_was_over_is_none_at_the_next_when_it_is_repeated(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let id = sent(&ada, "482916").await;
    ada.guess(&id, "482916").await.ok();
    let body = json!({"to": to, "code": "111111"});
    let guess = || ada.call("POST", "/v1/otp/verify").json(&body).header("idempotency-key", "one");
    let first = guess().await.problem("otp_already_verified");
    assert_eq!(first.head("idempotent-replayed"), "");
    let next = sent(&ada, "482917").await;
    assert_ne!(id, next);
    let again = guess().await.problem("otp_already_verified");
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(ada.challenge(&next).await.ok().number("attempts"), 0);
    // Control: a guess of its own is one.
    ada.verify(&body).await.problem("otp_code_invalid");
}
