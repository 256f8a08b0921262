//! Lists of passcodes: who may read them, filters, pages, a status that is true when it is read.

use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, other_than, phone};

on_every_engine!(
    a_list_shows_each_passcode_as_its_read_does,
    filters_choose_passcodes,
    a_filter_by_status_says_what_is_shown,
    pages_lead_through_all_passcodes_once,
    pages_lead_through_all_passcodes_to_a_number_once,
    lists_of_passcodes_have_their_own_scopes,
);

async fn send(ada: &Tenant<'_>, ending: &str, reference: &str) -> String {
    let body = json!({"to": phone(ending), "reference": reference});
    ada.send(body).await.ok().word("challenge_id").to_owned()
}

fn ids(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["challenge_id"].as_str().unwrap().to_owned()).collect()
}

async fn found(ada: &Tenant<'_>, query: &str) -> Vec<String> {
    ids(ada.get(&format!("/v1/otp?{query}")).await.ok().list())
}

async fn a_list_shows_each_passcode_as_its_read_does(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (one, two) = (send(&ada, "5678", "a").await, send(&ada, "5679", "b").await);
    send(&eve, "5678", "a").await;
    let code = ada.code_on(&phone("5678")).await;
    ada.guess(&one, &other_than(&code)).await.problem("otp_code_invalid");
    ada.guess(&one, &code).await.ok();
    let page = ada.get("/v1/otp").await.ok();
    let expected = [ada.challenge(&two).await.ok().body, ada.challenge(&one).await.ok().body];
    assert_eq!(page.list(), expected, "newest first, and only the account's own");
    assert_eq!(page.list()[1]["status"], "verified");
    assert!(!page.text.contains(&code), "no code in a list");
}

async fn filters_choose_passcodes(world: &World) {
    let ada = world.account("ada").await;
    let one = send(&ada, "5678", "a").await;
    world.advance(clock::MINUTE).await;
    let noon = world.now().to_string();
    let two = send(&ada, "5679", "a").await;
    let three = send(&ada, "5678", "b").await;
    let to = &phone("5678")[1..];
    for (query, expected) in [
        (format!("to=%2B{to}"), vec![&three, &one]),
        ("reference=a".to_owned(), vec![&two, &one]),
        (format!("reference=a&to={to}"), vec![&one]),
        (format!("since={noon}"), vec![&three, &two]),
        (format!("until={noon}"), vec![&one]),
        (format!("since={noon}&to={to}"), vec![&three]),
        (format!("since={noon}&until={noon}"), vec![]),
        ("reference=c".to_owned(), vec![]),
    ] {
        assert_eq!(found(&ada, &query).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    for (query, pointer, code) in [
        ("status=queued", "?status", "invalid_enum"),
        ("to=12", "?to", "invalid_phone_number"),
        ("until=noon", "?until", "invalid_type"),
        ("phone=1", "?phone", "unknown_field"),
    ] {
        let refused = ada.get(&format!("/v1/otp?{query}")).await.problem("invalid_request");
        assert_eq!(refused.item(pointer).as_deref(), Some(code), "{query}: {}", refused.text);
    }
}

/// Nothing sweeps while the clock stands still: expiry is computed.
async fn a_filter_by_status_says_what_is_shown(world: &World) {
    let ada = world.account("ada").await;
    let (old, verified) = (send(&ada, "5678", "a").await, send(&ada, "5679", "b").await);
    let code = ada.code_on(&phone("5679")).await;
    ada.guess(&verified, &code).await.ok();
    world.stand_still_for(300_000).await;
    let young = send(&ada, "5680", "c").await;
    ada.until(&young, |now| now["status"] == "delivered").await;
    for (status, expected) in [("expired", &old), ("verified", &verified), ("delivered", &young)] {
        assert_eq!(found(&ada, &format!("status={status}")).await, [expected.as_str()]);
        assert_eq!(ada.challenge(expected).await.ok().word("status"), status);
    }
    assert!(found(&ada, "status=sent").await.is_empty());
}

async fn pages_lead_through_all_passcodes_once(world: &World) {
    let ada = world.account("ada").await;
    let mut sent = vec![];
    for index in 0..5 {
        sent.push(send(&ada, &format!("56{index:02}"), "r").await);
    }
    sent.reverse();
    for filter in ["", "&reference=r"] {
        let seen = ada.pages(&format!("/v1/otp?limit=2{filter}")).await;
        assert_eq!(ids(&seen), sent, "{filter}");
    }
}

/// Open and ended, with a reference and without, in any order.
async fn pages_lead_through_all_passcodes_to_a_number_once(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let mut sent = vec![];
    for (reference, is_ended) in [
        (None, true),
        (Some("a"), false),
        (Some("b"), true),
        (None, false),
        (Some("c"), true),
        (Some("d"), false),
    ] {
        let body = json!({"to": to, "code": "4821", "reference": reference});
        let id = ada.send(body).await.ok().word("challenge_id").to_owned();
        if is_ended {
            ada.guess(&id, "4821").await.ok();
        }
        sent.insert(0, id);
        let newest = ada.verify(json!({"to": to, "code": other_than("4821")})).await;
        assert_eq!(newest.body["challenge_id"].as_str().is_some(), !is_ended, "{}", newest.text);
        for limit in 1..=4 {
            let path = format!("/v1/otp?limit={limit}&to={}", &to[1..]);
            assert_eq!(ids(&ada.pages(&path).await), sent, "{path}");
        }
    }
    // A send to the same slot goes on with the open one, also behind younger ones.
    for (reference, id) in [(None, &sent[2]), (Some("a"), &sent[4]), (Some("d"), &sent[0])] {
        let again = ada.send(json!({"to": to, "reference": reference})).await.ok();
        assert_eq!(again.word("challenge_id"), id);
    }
}

async fn lists_of_passcodes_have_their_own_scopes(world: &World) {
    let ada = world.account("ada").await;
    ada.desk("GET", "/v1/otp").await.ok();
    for (scope, opens) in [("account:read", true), ("otp:verify", true), ("sms:send", false)] {
        let key = ada.new_key(scope, &[scope]).await;
        let answer = world.get(ada.env, "/v1/otp").key(key.word("api_key")).await;
        if opens {
            answer.ok();
        } else {
            answer.problem("insufficient_scope");
        }
    }
}
