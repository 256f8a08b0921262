//! Emails that the service writes itself: proof of an address, a new password, news.

use clock::{HOUR, MINUTE};
use estafette::app::Env;
use estafette::config::Config;
use estafette::events::Kind;
use estafette::wiring;
use playground::ReceiverZoo;
use serde_json::json;

use super::relay::{Mx, give_relay, with_relay};
use crate::due::count;
use crate::on_every_engine;
use crate::people::command_line::run;
use crate::support::chat::Socket;
use crate::support::{answer, open, write};
use crate::webhooks::{happen, hook};
use crate::world::faults::How;
use crate::world::tenant::{PASSWORD, Tenant};
use crate::world::{Answer, Engine, World, eventually};

on_every_engine!(
    a_new_user_proves_their_email_once with writing,
    a_forgotten_password_is_replaced_and_ends_all_logins with writing,
    a_reset_answers_alike_for_everybody_and_reaches_only_users with writing,
    a_user_gets_three_resets_in_an_hour with writing,
    a_reset_that_is_too_old_opens_nothing with writing,
    a_reset_ends_with_the_password_that_it_was_for with writing,
    a_reset_ends_with_all_logins_and_no_other_does with writing,
    a_reset_ends_when_the_operator_sets_a_password with writing,
    a_reset_is_lost_by_no_fault_and_mailed_once_for_a_key with writing,
    a_letter_whose_answer_was_lost_goes_once_more with writing,
    the_owner_hears_of_a_disabled_webhook with writing,
    a_user_who_is_away_hears_of_an_answer_once_an_hour with writing,
    without_a_relay_nobody_is_written_to,
);

const NEW: &str = "another horse battery 43";

pub fn writing(config: &mut Config) {
    "mail.example".clone_into(&mut config.email.shared_domain);
    // Never connected to: the stories bring a relay of their own.
    config.email.relay_url = estafette::kit::secret::Secret::new("smtp://127.0.0.1:9".to_owned());
    "https://portal.example/reset#{token}".clone_into(&mut config.email.reset_url);
}

/// Proofs of both kinds that were mailed to a user, the first of them used; the world is one of
/// [`writing`].
pub async fn proofs(world: &World) -> Vec<String> {
    let mut all = unused_proofs(world, "bea").await;
    call(world, "verify-email", json!({"token": all[0]})).await.ok();
    let wrong = format!("{}x", &all[1][..49]);
    let body = json!({"token": wrong, "new": NEW});
    call(world, "password/reset/confirm", body).await.problem("invalid_token");
    all.extend([wrong, NEW.to_owned()]);
    all
}

/// A proof of each kind that was mailed to a user and not used; the world is one of [`writing`].
pub async fn unused_proofs(world: &World, user: &str) -> Vec<String> {
    let mx = give_relay(world).await;
    let user = world.account(user).await;
    call(world, "password/reset", json!({"email": user.email})).await.ok();
    let mut all = tokens(&mx, VERIFY, 1).await;
    all.extend(tokens(&mx, RESET, 1).await);
    all
}

/// What the relay got with these words in it; lines that were too long for it are whole again.
fn letters(mx: &Mx, words: &str) -> Vec<(String, String)> {
    let all = mx.taken().into_iter().map(|(to, message)| (to, message.replace("=\r\n", "")));
    all.filter(|(_, message)| message.contains(words)).collect()
}

/// The tokens of the letters about something, once there are so many.
async fn tokens(mx: &Mx, about: &str, count: usize) -> Vec<String> {
    let found =
        eventually(async || Some(letters(mx, about)).filter(|all| all.len() == count)).await;
    let token = |(_, message): &(String, String)| {
        let at = message.find("est_pf_").unwrap();
        message[at..at + 50].to_owned()
    };
    found.iter().map(token).collect()
}

/// Until every answer of the relay is written down: a clock that overtakes one makes it a lost one,
/// and the letter goes once more.
async fn until_settled(world: &World) {
    let open = store::Sql("SELECT COUNT(*) FROM attempts WHERE state IN ('queued', 'sending')");
    let db = world.app(Env::Live).await.db.clone();
    eventually(async || {
        let rows: Vec<(i64,)> = db.rows(open, store::args![]).await.unwrap();
        (rows == [(0,)]).then_some(())
    })
    .await;
}

const VERIFY: &str = " / Confirm your address";
const RESET: &str = " / Your password";

async fn call(
    world: &World,
    path: &str,
    body: impl std::borrow::Borrow<serde_json::Value>,
) -> Answer {
    world.post(Env::Sandbox, &format!("/v1/auth/{path}")).json(body).await
}

async fn is_verified(world: &World, ada: &Tenant<'_>) -> bool {
    let staff = world.staff().await;
    let path = format!("/v1/admin/accounts/{}", ada.account_id);
    let shown = world.get(Env::Live, &path).bearer(staff).await.ok();
    shown.field("email_verified").as_bool().unwrap()
}

async fn a_new_user_proves_their_email_once(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let token = tokens(&mx, VERIFY, 1).await.remove(0);
    let (to, message) = letters(&mx, VERIFY).remove(0);
    assert_eq!(to, ada.email);
    assert!(message.contains("no-reply@mail.example"), "{message}");
    assert_eq!(mx.return_paths(), ["no-reply@mail.example"]);
    assert_eq!(ada.balance().await, 100, "it is free");
    assert!(!is_verified(world, &ada).await);
    let wrong = format!("{}x", &token[..49]);
    call(world, "verify-email", json!({"token": wrong})).await.problem("invalid_token");
    // A proof of one kind is none of the other.
    let body = json!({"token": token, "new": NEW});
    call(world, "password/reset/confirm", body).await.problem("invalid_token");
    call(world, "verify-email", json!({"token": token})).await.ok();
    assert!(is_verified(world, &ada).await);
    call(world, "verify-email", json!({"token": token})).await.problem("invalid_token");
    // Neither the token nor the address is in a row of its own; the words of the mail are gone.
    let rows = store::Sql("SELECT sealed FROM notices WHERE state = 'sent' AND sealed IS NULL");
    let db = world.app(Env::Live).await.db.clone();
    eventually(async || {
        let rows: Vec<(Option<Vec<u8>>,)> = db.rows(rows, store::args![]).await.unwrap();
        (rows.len() == 1).then_some(())
    })
    .await;
    let copy = world.folder().join("copy.db");
    db.backup(&copy).await.unwrap();
    let bytes = std::fs::read(copy).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds(&ada.email), "the search finds things");
    assert!(!holds(&token));
}

async fn a_forgotten_password_is_replaced_and_ends_all_logins(world: &World) {
    let (mx, ada) = with_relay(world).await;
    call(world, "password/reset", json!({"email": ada.email})).await.ok();
    call(world, "password/reset", json!({"email": ada.email})).await.ok();
    let all = tokens(&mx, RESET, 2).await;
    let message = letters(&mx, RESET).remove(0).1;
    assert!(message.contains("https://portal.example/reset#"), "{message}");
    let weak = json!({"token": all[0], "new": "password1234"});
    call(world, "password/reset/confirm", weak).await.fault("/new", "out_of_range");
    let body = json!({"token": all[0], "new": NEW});
    let confirm = world.post(Env::Sandbox, "/v1/auth/password/reset/confirm").json(&body);
    confirm.header("idempotency-key", "once").await.ok();
    let again = world.post(Env::Sandbox, "/v1/auth/password/reset/confirm").json(&body);
    let again = again.header("idempotency-key", "once").await.ok();
    assert_eq!(again.headers["idempotent-replayed"], "true");
    for token in &all {
        let body = json!({"token": token, "new": PASSWORD});
        call(world, "password/reset/confirm", body).await.problem("invalid_token");
    }
    world.get(ada.env, "/v1/me").bearer(&ada.token).await.problem("invalid_token");
    let old = json!({"email": ada.email, "password": PASSWORD});
    call(world, "login", old).await.problem("invalid_login");
    call(world, "login", json!({"email": ada.email, "password": NEW})).await.ok();
    assert!(is_verified(world, &ada).await, "who got the mail has the address");
    let logged = store::Sql("SELECT actor_id FROM audit_log WHERE action = 'user.password_reset'");
    let db = world.app(Env::Live).await.db.clone();
    let rows: Vec<(String,)> = db.rows(logged, store::args![]).await.unwrap();
    assert_eq!(rows, [(ada.user_id.clone(),)]);
}

async fn a_reset_answers_alike_for_everybody_and_reaches_only_users(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let known = call(world, "password/reset", json!({"email": ada.email})).await.ok();
    let nobody = call(world, "password/reset", json!({"email": "nobody@example.com"})).await.ok();
    assert_eq!(known.text, nobody.text);
    let names = |answer: &Answer| {
        let mut names: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(names(&known), names(&nobody));
    tokens(&mx, RESET, 1).await;
    assert_eq!(letters(&mx, RESET)[0].0, ada.email);
    call(world, "password/reset", json!({"email": "no address"}))
        .await
        .fault("/email", "invalid_email");
}

async fn a_user_gets_three_resets_in_an_hour(world: &World) {
    let (mx, ada) = with_relay(world).await;
    for _ in 0..5 {
        call(world, "password/reset", json!({"email": ada.email})).await.ok();
    }
    tokens(&mx, RESET, 3).await;
    until_settled(world).await;
    world.advance(HOUR + MINUTE).await;
    call(world, "password/reset", json!({"email": ada.email})).await.ok();
    tokens(&mx, RESET, 4).await;
}

async fn a_reset_that_is_too_old_opens_nothing(world: &World) {
    let (mx, ada) = with_relay(world).await;
    call(world, "password/reset", json!({"email": ada.email})).await.ok();
    let token = tokens(&mx, RESET, 1).await.remove(0);
    world.advance(HOUR).await;
    let body = json!({"token": token, "new": NEW});
    call(world, "password/reset/confirm", body).await.problem("invalid_token");
    call(world, "login", json!({"email": ada.email, "password": PASSWORD})).await.ok();
    // A month later nothing is left of either notice.
    world.advance(31 * 24 * HOUR).await;
    world.housekeep().await;
    let count = store::Sql("SELECT COUNT(*) FROM notices");
    let db = world.app(Env::Live).await.db.clone();
    let rows: Vec<(i64,)> = db.rows(count, store::args![]).await.unwrap();
    assert_eq!(rows, [(0,)]);
}

/// Resets that were mailed to a user, who is about to end them, and to somebody else.
async fn resets<'a>(world: &'a World, user: &str) -> (Tenant<'a>, [String; 2]) {
    let mx = give_relay(world).await;
    let (user, bystander) = (world.account(user).await, world.account("bob").await);
    for person in [&user, &bystander] {
        call(world, "password/reset", json!({"email": person.email})).await.ok();
    }
    tokens(&mx, RESET, 2).await;
    let mut all = vec![];
    for person in [&user, &bystander] {
        let is_theirs = |(to, _): &(String, String)| *to == person.email;
        let (_, message) = letters(&mx, RESET).into_iter().find(is_theirs).unwrap();
        let at = message.find("est_pf_").unwrap();
        all.push(message[at..at + 50].to_owned());
    }
    (user, all.try_into().unwrap())
}

/// The first reset opens nothing any more, and the second one, of somebody else, does.
async fn only_the_other_opens(world: &World, [ended, other]: [String; 2]) {
    let confirm = |token: String| json!({"token": token, "new": "a thief's horse battery 44"});
    call(world, "password/reset/confirm", confirm(ended)).await.problem("invalid_token");
    call(world, "password/reset/confirm", confirm(other)).await.ok();
}

async fn a_reset_ends_with_the_password_that_it_was_for(world: &World) {
    let (ada, both) = resets(world, "ada").await;
    let body = json!({"current": PASSWORD, "new": NEW});
    ada.desk("POST", "/v1/auth/password").json(body).await.ok();
    only_the_other_opens(world, both).await;
    call(world, "login", json!({"email": ada.email, "password": NEW})).await.ok();
}

async fn a_reset_ends_with_all_logins_and_no_other_does(world: &World) {
    let (ada, both) = resets(world, "ada").await;
    let body = json!({"email": ada.email, "password": PASSWORD});
    let phone = call(world, "login", &body).await.ok();
    // To end one of them says nothing about the mailbox.
    let sessions = ada.desk("GET", "/v1/auth/sessions").await.ok();
    let one = format!("/v1/auth/sessions/{}", sessions.list()[0]["id"].as_str().unwrap());
    ada.desk("DELETE", &one).await.ok();
    world.get(ada.env, "/v1/me").bearer(phone.word("token")).await.problem("invalid_token");
    // What only its owner's address refuses was let in by the token.
    let weak = json!({"token": both[0], "new": ada.email});
    call(world, "password/reset/confirm", weak).await.fault("/new", "out_of_range");
    ada.desk("DELETE", "/v1/auth/sessions").await.ok();
    only_the_other_opens(world, both).await;
    call(world, "login", &body).await.ok();
}

async fn a_reset_ends_when_the_operator_sets_a_password(world: &World) {
    let (ada, both) = resets(world, "ada").await;
    let set = format!("account set-password --email {} --password-stdin", ada.email);
    run(world, &set, &format!("{NEW}\n")).unwrap();
    only_the_other_opens(world, both).await;
    call(world, "login", json!({"email": ada.email, "password": NEW})).await.ok();
}

async fn a_reset_is_lost_by_no_fault_and_mailed_once_for_a_key(world: &World) {
    let (mx, ada) = with_relay(world).await;
    world.faults.plan("DELETE FROM reset_requests", How::Unavailable, 2);
    let ask = || {
        let call = world.post(Env::Sandbox, "/v1/auth/password/reset");
        call.header("idempotency-key", "forgot").json(json!({"email": ada.email}))
    };
    let first = ask().await.ok();
    let again = ask().await.ok();
    assert_eq!((first.text, again.head("idempotent-replayed")), (again.text.clone(), "true"));
    tokens(&mx, RESET, 1).await;
    assert_eq!(world.faults.left(), 0);
    let rows = store::Sql("SELECT COUNT(*) FROM reset_requests");
    let db = world.app(Env::Live).await.db.clone();
    assert_eq!(db.rows::<(i64,)>(rows, store::args![]).await.unwrap(), [(0,)]);
    world.restart().await;
    ask().await.ok();
    call(world, "password/reset", json!({"email": ada.email})).await.ok();
    tokens(&mx, RESET, 2).await;
}

async fn a_letter_whose_answer_was_lost_goes_once_more(world: &World) {
    let mx = give_relay(world).await;
    let lost = world.account("lost").await;
    assert!(lost.email.starts_with("lost@"), "the relay hangs up on it: {}", lost.email);
    let unknown = "SELECT COUNT(*) FROM attempts WHERE state = 'unknown'";
    eventually(async || (count(world, unknown).await == 1).then_some(())).await;
    assert_eq!(letters(&mx, VERIFY).len(), 1);
    world.advance(2 * MINUTE).await;
    let both =
        eventually(async || Some(letters(&mx, VERIFY)).filter(|letters| letters.len() == 2)).await;
    assert_eq!(both[0], both[1], "the same bytes, hence the same Message-ID");
    until_settled(world).await;
    world.advance(HOUR).await;
    until_settled(world).await;
    assert_eq!(letters(&mx, VERIFY).len(), 2);
}

const WEBHOOK: &str = "does not work any more and was disabled";
const TICKET: &str = "Support has answered your ticket";

async fn the_owner_hears_of_a_disabled_webhook(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let (mx, ada) = with_relay(world).await;
    let gone = hook(&ada, &zoo.url("/status/410?key=k1"), &["sms.delivery"]).await;
    hook(&ada, &zoo.url("/ok"), &["sms.delivery"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let told = eventually(async || letters(&mx, WEBHOOK).pop()).await;
    assert_eq!(told.0, ada.email);
    assert_eq!(told.1.matches(gone.word("id")).count(), 2, "in both languages: {}", told.1);
    assert!(!told.1.contains("k1"), "{}", told.1);
    assert_eq!(letters(&mx, WEBHOOK).len(), 1);
    assert_eq!(ada.balance().await, 100, "it is free");
}

async fn a_user_who_is_away_hears_of_an_answer_once_an_hour(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (away, here) = (open(&ada, "Away", "m").await, open(&ada, "Here", "m").await);
    let mut socket = Socket::user(&ada, &here, &ada.token, "").await;
    write(&ada, &here, "Hello").await.ok();
    socket.frame().await;
    let said = json!({"message": "The answer is 42."});
    answer(world, &here, said.clone()).await.ok();
    answer(world, &away, json!({"message": "A note.", "internal": true})).await.ok();
    answer(world, &away, said.clone()).await.ok();
    answer(world, &away, said.clone()).await.ok();
    let told = eventually(async || letters(&mx, TICKET).pop()).await;
    assert_eq!(told.0, ada.email);
    assert_eq!(told.1.matches(&away).count(), 2, "in both languages: {}", told.1);
    assert!(!told.1.contains("42"), "what was said stays in the ticket: {}", told.1);
    world.advance(HOUR + MINUTE).await;
    answer(world, &away, said).await.ok();
    let all = eventually(async || Some(letters(&mx, TICKET)).filter(|all| all.len() > 1)).await;
    assert_eq!(all.len(), 2, "one for each hour, and none of the ticket that is on a screen");
    assert!(all.iter().all(|(_, message)| message.contains(&away)));
}

/// A user who has the ticket open at another node is not away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_open_at_another_node_is_not_mailed() {
    let world = World::with(Engine::Postgres, writing).await;
    let (mx, ada) = with_relay(&world).await;
    // The story's relay is at the world's node alone, so the other takes no mail out.
    let mut config = world.config().clone();
    config.email.relay_url = estafette::kit::secret::Secret::new(String::new());
    let service = wiring::open(config, world.clock().clone()).unwrap();
    let other = wiring::start(service).await.unwrap();
    let (away, there) = (open(&ada, "Away", "m").await, open(&ada, "There", "m").await);
    let path = format!("/v1/support/tickets/{there}/ws?token={}", ada.token);
    let mut socket = Socket::open(other.addresses.live, &path, None).await.unwrap();
    write(&ada, &there, "Hello").await.ok();
    socket.frame().await;
    let said = json!({"message": "The answer is 42."});
    answer(&world, &there, said.clone()).await.ok();
    answer(&world, &away, said.clone()).await.ok();
    eventually(async || letters(&mx, TICKET).pop()).await;
    let all = letters(&mx, TICKET);
    assert!(all.iter().all(|(_, message)| message.contains(&away)));
    assert_eq!(all.len(), 1);
    other.stop().await;
    world.finish().await;
}

async fn without_a_relay_nobody_is_written_to(world: &World) {
    let ada = world.account("ada").await;
    let asked = call(world, "password/reset", json!({"email": ada.email})).await;
    asked.problem("carrier_unavailable");
    call(world, "verify-email", json!({"token": "est_pf_x"})).await.problem("invalid_token");
    let count = store::Sql("SELECT COUNT(*) FROM notices");
    let db = world.app(Env::Live).await.db.clone();
    let rows: Vec<(i64,)> = db.rows(count, store::args![]).await.unwrap();
    assert_eq!(rows, [(0,)]);
}
