//! Consent: the prompt after a passcode, what a Yes, a No and STOP do, and what it costs.

use clock::{DAY, MINUTE};
use estafette::app::Env;
use estafette::carriers::{Channel, Inbound};
use serde_json::{Value, json};

use super::{ask, events, prompt_on, read_as, reply, session_as, text, told, write};
use crate::due::until_asked;
use crate::on_every_engine;
use crate::webhooks::like_its_example;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, contract, eventually};

on_every_engine!(
    a_yes_opens_a_session_and_is_charged_once,
    messages_within_a_session_cost_nothing,
    a_no_ends_it_and_a_later_yes_opens_it,
    a_word_ends_a_session_as_a_tap_does,
    what_a_person_said_last_counts_for_taps_and_words_alike,
    a_session_that_opens_again_lasts_as_long_as_was_paid_for,
    answers_that_come_out_of_order_and_twice_count_by_when_they_were_said,
    of_a_yes_and_a_no_of_the_same_second_the_no_counts,
    a_stop_ends_whatever_is_open,
    an_answer_that_a_number_scripts_comes_by_itself,
    nobody_answers_and_the_prompt_expires,
    a_session_ends_after_a_day,
    a_yes_without_credits_fails_and_charges_nothing,
    a_yes_to_a_suspended_account_charges_nothing,
    sessions_are_found_by_person_and_status,
    a_yes_that_comes_a_week_late_opens_nothing,
    a_yes_of_somebody_else_or_for_nothing_is_only_a_message,
    a_word_is_an_answer_where_one_is_asked_for,
    many_answers_at_once_charge_once,
    stop_that_overtakes_a_yes_wins,
);

const GRANT: i64 = 1_000_000;
/// The default prices of a passcode over the chat-app, and of a session.
const PASSCODE: i64 = 4;
const SESSION: i64 = 10;

/// Reasons and statuses of all that was told, oldest first.
async fn reasons(ada: &Tenant<'_>) -> Vec<String> {
    let told = told(ada, "chatapp.consent").await;
    let word = |data: &Value, name: &str| data[name].as_str().unwrap().to_owned();
    told.iter().map(|data| format!("{} {}", word(data, "status"), word(data, "reason"))).collect()
}

async fn tap(ada: &Tenant<'_>, ending: &str, button: &str) {
    prompt_on(ada, ending).await;
    reply(ada, ending, &json!({"button": button})).await.ok();
}

async fn a_yes_opens_a_session_and_is_charged_once(world: &World) {
    let ada = world.account("ada").await;
    let sent = ask(&ada, "5678").await;
    let prompt = prompt_on(&ada, "5678").await;
    assert_eq!((&prompt["buttons"], &prompt["code"]), (&json!(["Oui", "Non"]), &json!(null)));
    let pending = session_as(&ada, "pending").await;
    assert!(contract::is_id("ses", pending["id"].as_str().unwrap()));
    assert_eq!(pending["otp_challenge_id"], *sent.word("challenge_id"));
    assert_eq!((&pending["recipient"], &pending["country"]), (&json!(phone("5678")), &json!("FR")));
    assert_eq!(
        (&pending["consent_status"], &pending["billed_credits"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(ada.balance().await, GRANT - PASSCODE, "a prompt costs nothing");
    assert_eq!(ada.movements().await.len(), 2, "and is not in the ledger");
    for _ in 0..3 {
        tap(&ada, "5678", "yes").await;
    }
    let active = session_as(&ada, "active").await;
    assert_eq!(
        (&active["consent_status"], &active["billed_credits"]),
        (&json!("yes"), &json!(SESSION))
    );
    let path = format!("/v1/chatapp/sessions/{}", active["id"].as_str().unwrap());
    let read = ada.desk("GET", &path).await.ok();
    let names = [
        "billed_credits",
        "consent_at",
        "consent_status",
        "country",
        "expires_at",
        "id",
        "recipient",
        "status",
    ];
    assert_eq!(read.names(), names);
    let consent_at = clock::Millis::parse(read.word("consent_at")).unwrap();
    assert_eq!(clock::Millis::parse(read.word("expires_at")).unwrap(), consent_at + DAY);
    assert_eq!(ada.balance().await, GRANT - PASSCODE - SESSION);
    assert_eq!(reasons(&ada).await, ["pending prompt_sent", "active consent_given"]);
    like_its_example(events(&ada, "chatapp.consent").await.last().unwrap());
    let heard = told(&ada, "chatapp.inbound").await;
    assert_eq!(
        (heard.len(), &heard[0]["button"], &heard[0]["message"]),
        (3, &json!("yes"), &json!("Oui"))
    );
    like_its_example(&events(&ada, "chatapp.inbound").await[0]);
    let eve = world.account("eve").await;
    eve.get(&path).await.problem("not_found");
    assert!(eve.get("/v1/chatapp/sessions").await.ok().list().is_empty());
}

async fn messages_within_a_session_cost_nothing(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    tap(&ada, "5678", "yes").await;
    let session = session_as(&ada, "active").await;
    let balance = ada.balance().await;
    let body = json!({"to": phone("5678"), "text": "Salut", "billing_mode": "session"});
    let sent = write(&ada, &body).await.ok();
    assert_eq!((sent.word("billing_kind"), sent.number("charged_credits")), ("session", 0));
    assert_eq!(sent.field("session_id"), &session["id"]);
    read_as(&ada, sent.word("id"), "delivered").await;
    assert_eq!(ada.balance().await, balance);
    let direct = text(&ada, "5678").await.ok();
    assert_eq!(
        (direct.word("billing_kind"), direct.field("session_id")),
        ("service", &json!(null))
    );
    // Another account has no part in it.
    let eve = world.account("eve").await;
    write(&eve, &body).await.problem("no_active_session");
}

async fn a_no_ends_it_and_a_later_yes_opens_it(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    tap(&ada, "5678", "no").await;
    let declined = session_as(&ada, "declined").await;
    assert_eq!(declined["consent_status"], "no");
    assert_eq!(ada.balance().await, GRANT - PASSCODE);
    world.advance(1_000).await;
    tap(&ada, "5678", "yes").await;
    session_as(&ada, "active").await;
    tap(&ada, "5678", "no").await;
    let ended = session_as(&ada, "declined").await;
    assert_eq!(ended["billed_credits"], SESSION, "a session that was used is paid for");
    let expected =
        ["pending prompt_sent", "declined declined", "active consent_given", "declined withdrawn"];
    assert_eq!(reasons(&ada).await, expected);
    let body = json!({"to": phone("5678"), "text": "x", "billing_mode": "session"});
    write(&ada, &body).await.problem("no_active_session");
}

/// Taps or writes, a second after what was said before.
async fn say(world: &World, ada: &Tenant<'_>, word: &str) {
    world.advance(1_000).await;
    prompt_on(ada, "5678").await;
    let field = if ["yes", "no"].contains(&word) { "button" } else { "text" };
    reply(ada, "5678", &json!({field: word})).await.ok();
}

async fn a_word_ends_a_session_as_a_tap_does(world: &World) {
    let body = json!({"to": phone("5678"), "text": "x", "billing_mode": "session"});
    for (index, word) in ["Non", "no.", "no"].iter().enumerate() {
        let ada = world.account(&format!("ada{index}")).await;
        ask(&ada, "5678").await;
        say(world, &ada, "yes").await;
        say(world, &ada, "Non merci").await;
        session_as(&ada, "active").await;
        write(&ada, &body).await.ok();
        say(world, &ada, word).await;
        assert_eq!(session_as(&ada, "declined").await["consent_status"], "no");
        assert_eq!(reasons(&ada).await.last().unwrap(), "declined withdrawn");
        write(&ada, &body).await.problem("no_active_session");
        let heard = told(&ada, "chatapp.inbound").await;
        assert_eq!(heard.last().unwrap()["button"], "no", "{word}");
    }
}

async fn what_a_person_said_last_counts_for_taps_and_words_alike(world: &World) {
    let stories: [(&[&str], &str, i64); 9] = [
        (&["Non", "Oui"], "active", SESSION),
        (&["Non", "yes"], "active", SESSION),
        (&["no", "yes"], "active", SESSION),
        (&["no", "Oui"], "active", SESSION),
        (&["yes", "no", "yes"], "active", SESSION),
        (&["Oui", "Non", "Oui"], "active", SESSION),
        (&["Oui", "Oui", "no"], "declined", SESSION),
        (&["yes", "Non", "yes", "Non"], "declined", SESSION),
        (&["Non", "Non"], "declined", 0),
    ];
    for (index, (words, status, billed)) in stories.into_iter().enumerate() {
        let ada = world.account(&format!("ada{index}")).await;
        ask(&ada, "5678").await;
        for word in words {
            say(world, &ada, word).await;
        }
        let session = session_as(&ada, status).await;
        assert_eq!(session["billed_credits"], billed, "{words:?}");
        assert_eq!(ada.balance().await, GRANT - PASSCODE - billed, "{words:?}: charged once");
    }
}

async fn a_session_that_opens_again_lasts_as_long_as_was_paid_for(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    say(world, &ada, "yes").await;
    let first = session_as(&ada, "active").await;
    world.advance(60 * MINUTE).await;
    say(world, &ada, "Non").await;
    say(world, &ada, "Oui").await;
    assert_eq!(session_as(&ada, "active").await, first);
    world.advance(DAY - 60 * MINUTE).await;
    session_as(&ada, "expired").await;
    // The prompt may have gone from the handset, which keeps a day.
    reply(&ada, "5678", &json!({"text": "Oui"})).await.ok();
    world.advance(1_000).await;
    session_as(&ada, "expired").await;
    assert_eq!(ada.balance().await, GRANT - PASSCODE - SESSION);
}

async fn answers_that_come_out_of_order_and_twice_count_by_when_they_were_said(world: &World) {
    let orders = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
    // What is said in each of three seconds, and what it comes to in any order.
    let stories = [("yny", "active"), ("nyn", "declined"), ("nny", "active"), ("ynn", "declined")];
    for (index, order) in orders.into_iter().enumerate() {
        for (said, status) in stories {
            let ada = world.account(&format!("ada{said}{index}")).await;
            ask(&ada, "5678").await;
            let session = session_as(&ada, "pending").await;
            prompt_on(&ada, "5678").await;
            let start = world.now();
            world.advance(MINUTE).await;
            for second in order.into_iter().chain(order) {
                let answer = &said[second - 1..second];
                // One is written, the others are tapped.
                let text = if answer == "y" { "Oui" } else { "Non" };
                let payload = format!("c1:{}:{answer}", session["id"].as_str().unwrap());
                let button = (second != 2).then_some(payload);
                let said_at = start + i64::try_from(second).unwrap() * 1_000;
                let id = format!("{said}{index}{second}");
                bring(world, &ada, &id, (text, button), said_at).await;
            }
            let session = session_as(&ada, status).await;
            let billed = session["billed_credits"].as_i64().unwrap();
            assert!([0, SESSION].contains(&billed), "{said} {order:?}: {session}");
            assert_eq!(ada.balance().await, GRANT - PASSCODE - billed, "{said} {order:?}");
        }
    }
}

async fn of_a_yes_and_a_no_of_the_same_second_the_no_counts(world: &World) {
    for order in ["yn", "ny"] {
        let ada = world.account(&format!("ada{order}")).await;
        ask(&ada, "5678").await;
        let session = session_as(&ada, "pending").await;
        prompt_on(&ada, "5678").await;
        for answer in order.split("").filter(|answer| !answer.is_empty()) {
            let payload = format!("c1:{}:{answer}", session["id"].as_str().unwrap());
            bring(world, &ada, &format!("{order}{answer}"), ("x", Some(payload)), world.now())
                .await;
        }
        session_as(&ada, "declined").await;
    }
}

async fn a_stop_ends_whatever_is_open(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    tap(&ada, "5678", "yes").await;
    session_as(&ada, "active").await;
    reply(&ada, "5678", &json!({"text": "STOP", "channel": "sms"})).await.ok();
    let ended = session_as(&ada, "declined").await;
    assert_eq!(ended["consent_status"], "no");
    assert_eq!(reasons(&ada).await.last().unwrap(), "declined stop");
    text(&ada, "5678").await.problem("recipient_opted_out");
    // A Yes after STOP is no consent any more.
    tap(&ada, "5678", "yes").await;
    session_as(&ada, "declined").await;
    assert_eq!(ada.balance().await, GRANT - PASSCODE - SESSION);
}

async fn an_answer_that_a_number_scripts_comes_by_itself(world: &World) {
    for (ending, status, reason) in [
        ("0011", "active", "consent_given"),
        ("0012", "declined", "declined"),
        ("0013", "declined", "stop"),
    ] {
        let ada = world.account(&format!("ada{ending}")).await;
        ask(&ada, ending).await;
        session_as(&ada, status).await;
        assert_eq!(reasons(&ada).await.last().unwrap(), &format!("{status} {reason}"));
        let opted_out = text(&ada, ending).await;
        let expected = if ending == "0013" { 403 } else { 200 };
        assert_eq!(opted_out.status, expected, "{ending}: {}", opted_out.text);
    }
}

async fn nobody_answers_and_the_prompt_expires(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    until_asked(world).await;
    world.advance(DAY + MINUTE).await;
    let over = session_as(&ada, "expired").await;
    assert_eq!(over["consent_status"], "pending");
    let last = eventually(async || reasons(&ada).await.get(1).cloned()).await;
    assert_eq!(last, "expired no_answer");
    // The prompt may have gone from the virtual handset, though not from a phone.
    let payload = format!("c1:{}:y", over["id"].as_str().unwrap());
    bring(world, &ada, "late", ("Oui", Some(payload)), world.now()).await;
    world.advance(1_000).await;
    session_as(&ada, "expired").await;
    assert_eq!(ada.balance().await, GRANT - PASSCODE);
}

async fn a_session_ends_after_a_day(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    tap(&ada, "5678", "yes").await;
    session_as(&ada, "active").await;
    world.advance(DAY + MINUTE).await;
    session_as(&ada, "expired").await;
    let last = eventually(async || reasons(&ada).await.get(2).cloned()).await;
    assert_eq!(last, "expired window_ended");
    let body = json!({"to": phone("5678"), "text": "x", "billing_mode": "session"});
    write(&ada, &body).await.problem("no_active_session");
}

async fn a_yes_without_credits_fails_and_charges_nothing(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, PASSCODE + SESSION - 1 - GRANT).await.ok();
    ask(&ada, "5678").await;
    tap(&ada, "5678", "yes").await;
    let failed = session_as(&ada, "failed").await;
    assert_eq!((&failed["consent_status"], &failed["billed_credits"]), (&json!("yes"), &json!(0)));
    assert_eq!(reasons(&ada).await.last().unwrap(), "failed insufficient_credits");
    assert_eq!(ada.balance().await, SESSION - 1);
    // Nothing is charged later by itself.
    world.credit(&ada, 100).await.ok();
    tap(&ada, "5678", "yes").await;
    session_as(&ada, "failed").await;
    assert_eq!(ada.balance().await, SESSION - 1 + 100);
}

async fn a_yes_to_a_suspended_account_charges_nothing(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    let session = session_as(&ada, "pending").await;
    prompt_on(&ada, "5678").await;
    let before = ada.balance().await;
    world.set(&ada, json!({"status": "suspended"})).await.ok();
    let yes = format!("c1:{}:y", session["id"].as_str().unwrap());
    bring(world, &ada, "late", ("Oui", Some(yes)), world.now()).await;
    world.set(&ada, json!({"status": "active"})).await.ok();
    assert_eq!(session_as(&ada, "failed").await["billed_credits"], 0);
    assert_eq!(reasons(&ada).await.last().unwrap(), "failed account_suspended");
    assert_eq!(ada.balance().await, before);
}

async fn sessions_are_found_by_person_and_status(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "5679", "5680"] {
        ask(&ada, ending).await;
        prompt_on(&ada, ending).await;
    }
    tap(&ada, "5679", "yes").await;
    tap(&ada, "5680", "no").await;
    let found = async |query: &str| {
        let page = ada.desk("GET", &format!("/v1/chatapp/sessions?{query}")).await.ok();
        let all = page.list().iter().map(|row| row["recipient"].as_str().unwrap().to_owned());
        all.collect::<Vec<_>>()
    };
    let person = |ending: &str| phone(ending).replace('+', "%2B");
    assert_eq!(found("status=active").await, [phone("5679")]);
    assert_eq!(found("status=declined").await, [phone("5680")]);
    assert_eq!(found(&format!("recipient={}", person("5678"))).await, [phone("5678")]);
    let none = format!("recipient={}&status=active", person("5678"));
    assert!(found(&none).await.is_empty());
    let wrong = ada.desk("GET", "/v1/chatapp/sessions?status=open").await;
    wrong.problem("invalid_request");
}

/// An answer as a carrier brings it.
async fn bring(
    world: &World,
    ada: &Tenant<'_>,
    id: &str,
    answer: (&str, Option<String>),
    at: clock::Millis,
) {
    let (text, button) = answer;
    let message = Inbound {
        carrier: "story".to_owned(),
        upstream_id: id.to_owned(),
        channel: Channel::Chatapp,
        account_id: Some(ada.account_id.clone()),
        sender: phone("5678"),
        recipient: "estafette".to_owned(),
        text: text.to_owned(),
        is_words: true,
        button,
        context: None,
        received_at: at,
        raw: json!({}),
    };
    let app = world.app(Env::Sandbox).await;
    estafette::inbound::take_in(&app, &[message]).await.unwrap();
}

async fn a_yes_that_comes_a_week_late_opens_nothing(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    let session = session_as(&ada, "pending").await;
    prompt_on(&ada, "5678").await;
    let said_at = world.now() + MINUTE;
    world.advance(7 * DAY).await;
    let yes = format!("c1:{}:y", session["id"].as_str().unwrap());
    bring(world, &ada, "late", ("Oui", Some(yes)), said_at).await;
    let late = session_as(&ada, "expired").await;
    assert_eq!((&late["consent_status"], &late["billed_credits"]), (&json!("yes"), &json!(0)));
    assert_eq!(reasons(&ada).await.last().unwrap(), "expired answered_too_late");
    assert_eq!(ada.balance().await, GRANT - PASSCODE);
}

async fn a_yes_of_somebody_else_or_for_nothing_is_only_a_message(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5679").await;
    let session = session_as(&ada, "pending").await;
    let forged = format!("c1:{}:y", session["id"].as_str().unwrap());
    let unknown = "c1:ses_01kdvqh6m4e5s8w2t9zb3y7n1f:y".to_owned();
    for (id, payload) in [("a", forged), ("b", unknown), ("c", "DID_NOT_REQUEST_CODE".to_owned())] {
        bring(world, &ada, id, ("Oui", Some(payload)), world.now()).await;
    }
    session_as(&ada, "pending").await;
    let heard = told(&ada, "chatapp.inbound").await;
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|data| data.get("button").is_none()), "{heard:?}");
    reply(&ada, "5680", &json!({"button": "yes"})).await.fault("/button", "invalid_enum");
}

async fn a_word_is_an_answer_where_one_is_asked_for(world: &World) {
    let ada = world.account("ada").await;
    reply(&ada, "5678", &json!({"text": "Oui"})).await.ok();
    ask(&ada, "5678").await;
    prompt_on(&ada, "5678").await;
    session_as(&ada, "pending").await;
    reply(&ada, "5678", &json!({"text": "oui merci"})).await.ok();
    session_as(&ada, "pending").await;
    reply(&ada, "5678", &json!({"text": " Oui. "})).await.ok();
    session_as(&ada, "active").await;
}

async fn many_answers_at_once_charge_once(world: &World) {
    // All are said at the same moment, so one No among them counts.
    for (name, no_each, status, charges) in
        [("ada", 13, "active", vec![1]), ("eve", 4, "declined", vec![0, 1])]
    {
        let ada = world.account(name).await;
        ask(&ada, "5678").await;
        prompt_on(&ada, "5678").await;
        let answers = (1..=12).map(|index| {
            let button = if index % no_each == 0 { "no" } else { "yes" };
            let call = reply(&ada, "5678", &json!({"button": button}));
            async move { drop(call.await) }
        });
        futures_util::future::join_all(answers).await;
        session_as(&ada, status).await;
        let ledger = ada.ledger().await;
        let opened = ledger.iter().filter(|row| row["reason"] == "chatapp.session").count();
        assert!(opened % 2 == 0, "a hold and its post: {ledger:?}");
        let opened = i64::try_from(opened / 2).unwrap();
        assert!(charges.contains(&opened), "{name}: {ledger:?}");
        assert_eq!(ada.balance().await, GRANT - PASSCODE - opened * SESSION);
    }
}

async fn stop_that_overtakes_a_yes_wins(world: &World) {
    let ada = world.account("ada").await;
    ask(&ada, "5678").await;
    let session = session_as(&ada, "pending").await;
    prompt_on(&ada, "5678").await;
    let now = world.now();
    let yes = format!("c1:{}:y", session["id"].as_str().unwrap());
    world.advance(MINUTE).await;
    bring(world, &ada, "2", ("STOP", None), now + 2_000).await;
    bring(world, &ada, "1", ("Oui", Some(yes)), now + 1_000).await;
    session_as(&ada, "declined").await;
    assert_eq!(ada.balance().await, GRANT - PASSCODE);
}
