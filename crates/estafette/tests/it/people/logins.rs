//! Passwords and those who guess them: nobody is locked out by a stranger, and nobody keeps staff
//! out by making the service hash.

use std::sync::atomic::{AtomicUsize, Ordering};

use clock::{HOUR, MINUTE};
use estafette::access::idempotency::Claim;
use estafette::access::password::{self, Asker};
use estafette::access::token::Kind;
use estafette::access::{self, Newcomer, Terms};
use estafette::app::Env;
use estafette::config::Config;
use estafette::kit::secret::Secret;
use futures_util::future::join_all;
use serde_json::json;
use store::{Sql, args};

use super::{behind_a_proxy, login_from, noted};
use crate::on_every_engine;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::PASSWORD;
use crate::world::{World, eventually};

on_every_engine!(
    ninety_users_at_the_hashers_leave_room_for_staff with behind_a_proxy,
    a_login_does_not_stand_behind_password_changes with behind_a_proxy,
    one_address_signs_up_few_users with few_sign_ups,
    one_address_does_not_fill_the_line,
    a_users_password_changes_have_a_budget,
    a_new_password_is_new_and_nobody_elses_and_not_the_email,
    a_stranger_locks_nobody_out with behind_a_proxy,
    waiting_does_not_tell_which_emails_exist,
    signing_up_tells_one_address_only_a_few_times_which_emails_are_taken with behind_a_proxy,
    failed_logins_are_forgotten_after_an_hour,
    failed_logins_of_staff_are_noted_without_a_flood,
    a_user_sees_and_ends_their_logins,
    a_logout_under_the_key_of_another_says_that_nothing_ended,
);

const ANOTHER: &str = "another horse battery 43";
const LOGIN: &str = "/v1/auth/login";
const STAFF_LOGIN: &str = "/v1/admin/auth/login";

/// Tokens of so many new users, whose passwords are hashed once for all of them.
async fn crowd(world: &World, many: usize) -> Vec<String> {
    let app = world.app(Env::Sandbox).await;
    let password = Secret::new(PASSWORD.to_owned());
    let hash = password::hash(&app, &Asker::command_line(), &password).await.unwrap();
    let mut tokens = vec![];
    for number in 0..many {
        let email = format!("user{number}@example.com");
        let newcomer = Newcomer {
            email: &email,
            password_hash: &hash,
            live: Terms::PREPAID,
            maker: None,
            request_id: "",
        };
        let (new, mut set) = access::new_user_set(&app, &newcomer);
        let who = access::Identity { id: new.id.to_string(), email: new.email };
        let login = access::admit(&app, &mut set, Kind::Portal, who, &Claim::default());
        app.db.commit(set).await.unwrap();
        tokens.push(login.token.expose().to_owned());
    }
    tokens
}

/// Ninety users change their passwords at once; once they are turned away, somebody logs in, and is
/// let in before they are done.
async fn let_in_beside_a_crowd(world: &World, path: &str, email: &str) {
    let tokens = crowd(world, 90).await;
    let turned_away = AtomicUsize::new(0);
    let changes = tokens.iter().enumerate().map(|(number, token)| {
        let body = json!({"current": "not the password", "new": ANOTHER});
        let call = world.post(Env::Sandbox, "/v1/auth/password").bearer(token).json(body);
        let call = call.header("x-forwarded-for", &format!("198.51.100.{number}"));
        let turned_away = &turned_away;
        async move {
            if call.await.status == 503 {
                turned_away.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let newcomer = async {
        // They come once the line is full.
        eventually(async || (turned_away.load(Ordering::SeqCst) > 0).then_some(())).await;
        login_from(world, path, email, (PASSWORD, "203.0.113.9")).await
    };
    tokio::select! {
        answer = newcomer => answer.ok(),
        _ = join_all(changes) => panic!("the line was never full, so the story shows nothing"),
    };
}

async fn ninety_users_at_the_hashers_leave_room_for_staff(world: &World) {
    world.staff().await;
    let_in_beside_a_crowd(world, STAFF_LOGIN, "staff@example.com").await;
}

async fn a_login_does_not_stand_behind_password_changes(world: &World) {
    world.account("ada").await;
    let_in_beside_a_crowd(world, LOGIN, "ada@example.com").await;
}

/// One new user in a minute, and two at once.
fn few_sign_ups(config: &mut Config) {
    behind_a_proxy(config);
    config.limits.signup_per_min = 1;
}

async fn one_address_signs_up_few_users(world: &World) {
    let sign_up = async |name: &str, address: &str| {
        let body = json!({"email": format!("{name}@example.com"), "password": PASSWORD});
        let call = world.post(Env::Sandbox, "/v1/auth/signup").json(body);
        call.header("x-forwarded-for", address).await
    };
    for name in ["ann", "bob"] {
        sign_up(name, "198.51.100.7").await.ok();
    }
    let refused = sign_up("cid", "198.51.100.7").await.problem("rate_limited");
    assert!(refused.head("ratelimit-policy").starts_with("\"signup\""), "{:?}", refused.headers);
    sign_up("cid", "198.51.100.8").await.ok();
    login_from(world, LOGIN, "ann@example.com", (PASSWORD, "198.51.100.7")).await.ok();
}

async fn one_address_does_not_fill_the_line(world: &World) {
    let tries = (0..40).map(|number| {
        let email = format!("nobody{number}@example.com");
        async move { login_from(world, LOGIN, &email, (PASSWORD, "")).await }
    });
    let answers = join_all(tries).await;
    let codes: Vec<&str> = answers.iter().map(|answer| answer.word("code")).collect();
    assert!(codes.contains(&"rate_limited"), "{codes:?}");
    assert!(codes.iter().all(|code| ["rate_limited", "invalid_login"].contains(code)), "{codes:?}");
}

async fn a_users_password_changes_have_a_budget(world: &World) {
    let (ada, bob) = (world.account("ada").await, world.account("bob").await);
    let same = json!({"current": PASSWORD, "new": PASSWORD});
    for _ in 0..20 {
        let answer = ada.desk("POST", "/v1/auth/password").json(&same).await;
        answer.fault("/new", "out_of_range");
    }
    let other = json!({"current": PASSWORD, "new": ANOTHER});
    ada.desk("POST", "/v1/auth/password").json(&other).await.problem("rate_limited");
    bob.desk("POST", "/v1/auth/password").json(&other).await.ok();
}

async fn a_new_password_is_new_and_nobody_elses_and_not_the_email(world: &World) {
    let sign_up = async |email: &str, password: &str| {
        let body = json!({"email": email, "password": password});
        world.post(Env::Sandbox, "/v1/auth/signup").json(body).await
    };
    for common in ["123456789012", "PasswordPassword", "qwerty123456"] {
        let answer = sign_up("ann@example.com", common).await;
        answer.fault("/password", "out_of_range");
    }
    for same in ["ann.longname@example.com", "Ann.LongName"] {
        sign_up("ann.longname@example.com", same).await.fault("/password", "out_of_range");
    }
    let ada = world.account("ada").await;
    let change = async |new: &str| {
        let body = json!({"current": PASSWORD, "new": new});
        ada.desk("POST", "/v1/auth/password").json(body).await
    };
    for bad in [PASSWORD, "123456789012", "ada@example.com"] {
        change(bad).await.fault("/new", "out_of_range");
    }
    change(ANOTHER).await.ok();
    let staff = world.staff().await;
    for path in ["/v1/admin/accounts", "/v1/admin/staff"] {
        let body = json!({"email": "new@example.com", "password": "123456789012"});
        let answer = world.post(Env::Live, path).bearer(staff).json(body).await;
        answer.fault("/password", "out_of_range");
    }
}

async fn a_stranger_locks_nobody_out(world: &World) {
    let ada = world.account("ada").await;
    world.staff().await;
    for (path, email) in [(LOGIN, ada.email.as_str()), (STAFF_LOGIN, "staff@example.com")] {
        let stranger =
            async || login_from(world, path, email, ("not the password", "198.51.100.7")).await;
        for _ in 0..5 {
            stranger().await.problem("invalid_login");
        }
        stranger().await.problem("too_many_logins");
        let guessed = login_from(world, path, email, (PASSWORD, "198.51.100.7")).await;
        guessed.problem("too_many_logins");
        login_from(world, path, email, (PASSWORD, "203.0.113.9")).await.ok();
    }
}

async fn waiting_does_not_tell_which_emails_exist(world: &World) {
    let ada = world.account("ada").await;
    world.staff().await;
    for (path, known) in [(LOGIN, ada.email.as_str()), (STAFF_LOGIN, "staff@example.com")] {
        let mut told = vec![];
        for email in [known, "nobody@example.com", "no email at all"] {
            let mut codes = vec![];
            for _ in 0..7 {
                let answer = login_from(world, path, email, ("not the password", "")).await;
                codes.push((answer.word("code").to_owned(), answer.head("retry-after").to_owned()));
            }
            assert!(codes.iter().any(|(code, _)| code == "too_many_logins"), "{codes:?}");
            told.push(codes);
        }
        assert!(told.iter().all(|codes| *codes == told[0]), "{told:?}");
    }
}

async fn signing_up_tells_one_address_only_a_few_times_which_emails_are_taken(world: &World) {
    let ada = world.account("ada").await;
    let probe = async |email: &str, from: &str| {
        let body = json!({"email": email, "password": ANOTHER});
        let call = world.post(Env::Sandbox, "/v1/auth/signup").header("x-forwarded-for", from);
        call.json(body).await
    };
    for _ in 0..5 {
        probe(&ada.email, "198.51.100.7").await.fault("/email", "invalid_email");
    }
    // From now on it tells neither.
    probe(&ada.email, "198.51.100.7").await.problem("too_many_logins");
    probe("free@example.com", "198.51.100.7").await.problem("too_many_logins");
    probe("free@example.com", "198.51.100.8").await.ok();
}

async fn failed_logins_are_forgotten_after_an_hour(world: &World) {
    let rows = async || {
        let db = world.app(Env::Live).await.db.clone();
        let count = Sql("SELECT COUNT(*) FROM failed_logins");
        let rows: Vec<(i64,)> = db.rows(count, args![]).await.unwrap();
        rows[0].0
    };
    let ada = world.account("ada").await;
    for email in ["one@example.com", "two@example.com", &ada.email] {
        login_from(world, LOGIN, email, ("not the password", "")).await.problem("invalid_login");
    }
    assert_eq!(rows().await, 3);
    login_from(world, LOGIN, &ada.email, (PASSWORD, "")).await.ok();
    assert_eq!(rows().await, 2, "who proves it is forgiven");
    world.advance(HOUR + MINUTE).await;
    world.housekeep().await;
    assert_eq!(rows().await, 0);
}

async fn failed_logins_of_staff_are_noted_without_a_flood(world: &World) {
    world.staff().await;
    let guess =
        async |email: &str| login_from(world, STAFF_LOGIN, email, ("not the password", "")).await;
    for _ in 0..5 {
        guess("staff@example.com").await.problem("invalid_login");
    }
    guess("staff@example.com").await.problem("too_many_logins");
    // Behind the answers, whose time would tell who is one of them.
    let failed = eventually(async || {
        Some(noted(world, "staff.login_failed").await).filter(|failed| failed.len() == 5)
    })
    .await;
    assert!(is_id("stf", failed[0]["object_id"].as_str().unwrap()));
    assert_eq!(failed[0]["actor_kind"], "stranger");
    assert_eq!(failed[0]["detail"]["network"], "127.0.0.0/24");
    eventually(async || (noted(world, "staff.login_refused").await.len() == 1).then_some(())).await;
    for number in 0..40 {
        guess(&format!("nobody{number}@example.com")).await.problem("invalid_login");
    }
    let all = noted(world, "staff.login_failed").await.len();
    assert!((6..=20).contains(&all), "{all} lines");
}

async fn a_user_sees_and_ends_their_logins(world: &World) {
    let (ada, bob) = (world.account("ada").await, world.account("bob").await);
    let phone = login_from(world, LOGIN, &ada.email, (PASSWORD, "")).await.ok();
    let phone = phone.word("token");
    let path = "/v1/auth/sessions";
    let listed = ada.desk("GET", path).await.ok();
    assert_eq!(listed.list().len(), 2, "newest first: {}", listed.text);
    assert!(!listed.text.contains(phone));
    let [newest, oldest] = [&listed.list()[0], &listed.list()[1]];
    assert_eq!((&newest["current"], &oldest["current"]), (&json!(false), &json!(true)));
    let id = newest["id"].as_str().unwrap();
    assert!(is_id("lgn", id) && is_instant(newest["expires_at"].as_str().unwrap()));
    let one = format!("{path}/{id}");
    assert_eq!(ada.desk("GET", &one).await.ok().body, *newest);
    bob.desk("GET", &one).await.problem("not_found");
    bob.desk("DELETE", &one).await.problem("not_found");
    world.get(Env::Live, "/v1/me").bearer(phone).await.ok();
    ada.desk("DELETE", &one).await.ok();
    world.get(Env::Live, "/v1/me").bearer(phone).await.problem("invalid_token");
    ada.desk("DELETE", &one).await.problem("not_found");
    let page = ada.desk("GET", "/v1/auth/sessions?limit=1").await.ok();
    assert_eq!((page.list().len(), page.head("link")), (1, ""));
    ada.desk("DELETE", path).await.ok();
    ada.desk("GET", "/v1/me").await.problem("invalid_token");
    bob.me().await;
}

async fn a_logout_under_the_key_of_another_says_that_nothing_ended(world: &World) {
    let ada = world.account("ada").await;
    world.staff().await;
    let users = (LOGIN, "/v1/auth", ada.email.as_str(), "/v1/auth/sessions");
    let staff = (STAFF_LOGIN, "/v1/admin/auth", "staff@example.com", "/v1/admin/accounts");
    for (path, auth, email, open) in [users, staff] {
        let logout = format!("{auth}/logout");
        let leave = |token: &str, key: &str| {
            world.post(Env::Sandbox, &logout).bearer(token).header("idempotency-key", key)
        };
        let one = login_from(world, path, email, (PASSWORD, "")).await.ok();
        let other = login_from(world, path, email, (PASSWORD, "")).await.ok();
        let (one, other) = (one.word("token"), other.word("token"));
        leave(one, "out1").await.ok();
        assert_eq!(leave(one, "out1").await.ok().head("idempotent-replayed"), "true");
        leave(other, "out1").await.problem("idempotency_key_reused");
        world.get(Env::Sandbox, open).bearer(other).await.ok();
        leave(other, "out2").await.ok();
        leave(other, "out1").await.problem("invalid_token");
        world.get(Env::Sandbox, open).bearer(other).await.problem("invalid_token");
    }
}
