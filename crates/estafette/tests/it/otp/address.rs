//! Which challenge a verification means: by id, by reference, by recipient, or several of them.

use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::phone;

on_every_engine!(
    a_challenge_is_found_by_its_reference,
    a_challenge_is_found_by_its_recipient,
    the_newest_challenge_answers,
    several_ways_that_agree_find_it,
    several_ways_that_disagree_find_nothing,
    no_way_at_all_is_a_fault,
    the_newest_challenge_answers_though_the_clock_was_set_back,
    one_beside_an_open_one_is_the_newest_though_the_clock_was_set_back,
);

async fn a_challenge_is_found_by_its_reference(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "code": "4821", "reference": "order 7"});
    let sent = ada.send(body).await.ok();
    let right = ada.verify(json!({"reference": "order 7", "code": "4821"})).await.ok();
    assert_eq!(right.field("challenge_id"), sent.field("challenge_id"));
    ada.verify(json!({"reference": "order 8", "code": "4821"})).await.problem("not_found");
}

async fn a_challenge_is_found_by_its_recipient(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": "+33612345678", "code": "4821"})).await.ok();
    let wrong = ada.verify(json!({"to": "0033 612345678", "code": "1234"})).await;
    let wrong = wrong.problem("otp_code_invalid");
    assert_eq!(wrong.field("challenge_id"), sent.field("challenge_id"));
    ada.verify(json!({"to": "+33612345678", "code": "4821"})).await.ok();
    ada.verify(json!({"to": "+33612345679", "code": "4821"})).await.problem("not_found");
    let bad = ada.verify(json!({"to": "12", "code": "4821"})).await;
    bad.fault("/to", "invalid_phone_number");
    let empty = json!({"to": "+33612345678", "challenge_id": "", "code": "4821"});
    ada.verify(empty).await.fault("/challenge_id", "too_short");
}

async fn the_newest_challenge_answers(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "code": "1111", "reference": "r"});
    ada.send(body).await.ok();
    let other = json!({"to": phone("5679"), "code": "2222", "reference": "r"});
    let newest = ada.send(other).await.ok();
    let wrong = ada.verify(json!({"reference": "r", "code": "1111"})).await;
    let wrong = wrong.problem("otp_code_invalid");
    assert_eq!(wrong.field("challenge_id"), newest.field("challenge_id"));
    let third = json!({"to": phone("5678"), "code": "3333", "reference": "s"});
    let third = ada.send(third).await.ok();
    let right = ada.verify(json!({"to": phone("5678"), "code": "3333"})).await.ok();
    assert_eq!(right.field("challenge_id"), third.field("challenge_id"));
}

async fn several_ways_that_agree_find_it(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "code": "4821", "reference": "r"});
    let id = ada.send(body).await.ok().word("challenge_id").to_owned();
    let all = json!({"challenge_id": id, "reference": "r", "to": phone("5678"), "code": "0000"});
    ada.verify(all).await.problem("otp_code_invalid");
    let two = json!({"reference": "r", "to": phone("5678"), "code": "4821"});
    assert_eq!(ada.verify(two).await.ok().word("challenge_id"), id);
}

async fn several_ways_that_disagree_find_nothing(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "code": "4821", "reference": "r"});
    let id = ada.send(body).await.ok().word("challenge_id").to_owned();
    let other = json!({"to": phone("5679"), "code": "4821", "reference": "s"});
    ada.send(other).await.ok();
    for body in [
        json!({"challenge_id": id, "reference": "s", "code": "4821"}),
        json!({"challenge_id": id, "to": phone("5679"), "code": "4821"}),
        json!({"challenge_id": id, "reference": "r", "to": phone("5679"), "code": "4821"}),
        json!({"reference": "r", "to": phone("5679"), "code": "4821"}),
        json!({"challenge_id": id, "reference": "none", "code": "4821"}),
    ] {
        let answer = ada.verify(&body).await;
        assert_eq!(answer.body["code"], "not_found", "{body}: {}", answer.text);
        answer.problem("not_found");
    }
    assert_eq!(ada.challenge(&id).await.ok().number("attempts"), 0);
}

async fn no_way_at_all_is_a_fault(world: &World) {
    let ada = world.account("ada").await;
    let answer = ada.verify(json!({"code": "4821"})).await;
    answer.fault("/challenge_id", "required");
}

async fn the_newest_challenge_answers_though_the_clock_was_set_back(world: &World) {
    let ada = world.account("ada").await;
    let first = json!({"to": phone("5678"), "code": "1111", "reference": "r"});
    let first = ada.send(first).await.ok();
    ada.guess(first.word("challenge_id"), "1111").await.ok();
    world.clock().advance(-clock::HOUR);
    // What was handed out before is not known to a process that starts only now.
    world.restart().await;
    let by_reference = json!({"to": phone("5679"), "code": "2222", "reference": "r"});
    let by_reference = ada.send(by_reference).await.ok();
    let right = ada.verify(json!({"reference": "r", "code": "2222"})).await.ok();
    assert_eq!(right.field("challenge_id"), by_reference.field("challenge_id"));
    let by_recipient = json!({"to": phone("5678"), "code": "3333"});
    let by_recipient = ada.send(by_recipient).await.ok();
    let right = ada.verify(json!({"to": phone("5678"), "code": "3333"})).await.ok();
    assert_eq!(right.field("challenge_id"), by_recipient.field("challenge_id"));
    assert!(by_recipient.word("challenge_id") > first.word("challenge_id"));
    world.clock().advance(clock::HOUR);
}

async fn one_beside_an_open_one_is_the_newest_though_the_clock_was_set_back(world: &World) {
    let ada = world.account("ada").await;
    for (ending, first, second) in [("5678", None, Some("r")), ("5679", Some("s"), None)] {
        let to = phone(ending);
        let first = json!({"to": to, "code": "1111", "reference": first});
        let first = ada.send(first).await.ok();
        world.clock().advance(-clock::MINUTE);
        world.restart().await;
        let second = json!({"to": to, "code": "2222", "reference": second});
        let second = ada.send(second).await.ok();
        assert!(second.word("challenge_id") > first.word("challenge_id"));
        let right = ada.verify(json!({"to": to, "code": "2222"})).await.ok();
        assert_eq!(right.field("challenge_id"), second.field("challenge_id"));
        world.clock().advance(clock::MINUTE);
    }
}
