//! Stories of users, tokens, keys and scopes.

use estafette::app::Env;
use estafette::config::Config;
use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::{PASSWORD, SCOPES, phone};

on_every_engine!(
    a_user_signs_up_logs_in_and_out,
    one_login_serves_both_addresses,
    signing_up_on_live_is_off,
    faulty_sign_ups_are_named,
    a_wrong_login_tells_nothing,
    failed_logins_make_the_next_one_wait,
    a_changed_password_counts_at_once,
    a_token_expires,
    the_profile_has_the_fields_of_the_contract,
    a_key_is_shown_once_and_listed_without_its_secret,
    a_disabled_key_is_refused_at_once,
    keys_of_the_other_environment_are_refused,
    a_credential_of_the_other_kind_is_told_apart,
    malformed_keys_are_refused,
    missing_credentials_are_named,
    each_scope_opens_only_its_endpoints,
    a_key_without_scopes_and_with_unknown_ones,
    portal_tokens_never_open_staff_routes_nor_the_reverse,
    a_repeated_key_creation_replays_the_raw_key_for_ten_minutes,
    signing_up_may_be_switched_off_and_on with the_other_way_round,
);

async fn login(world: &World, env: Env, email: &str, password: &str) -> crate::world::Answer {
    let body = json!({"email": email, "password": password});
    world.post(env, "/v1/auth/login").json(body).await
}

async fn a_user_signs_up_logs_in_and_out(world: &World) {
    let ada = world.account("ada").await;
    let answer = login(world, Env::Sandbox, &ada.email, PASSWORD).await.ok();
    assert_eq!(answer.names(), ["expires_at", "token", "user"]);
    assert_eq!(answer.field("user")["id"], ada.user_id.as_str());
    assert_eq!(answer.field("user")["email"], ada.email.as_str());
    assert!(is_instant(answer.word("expires_at")));
    assert!(is_id("usr", &ada.user_id) && is_id("acc", &ada.account_id));
    let token = answer.word("token");
    assert!(token.len() >= 43, "256 bits");
    world.get(Env::Sandbox, "/v1/me").bearer(token).await.ok();
    world.post(Env::Sandbox, "/v1/auth/logout").bearer(token).await.ok();
    world.get(Env::Sandbox, "/v1/me").bearer(token).await.problem("invalid_token");
    ada.me().await;
    let twice = json!({"email": ada.email, "password": PASSWORD});
    let twice = world.post(Env::Sandbox, "/v1/auth/signup").json(twice).await;
    assert!((400..500).contains(&twice.status), "an email has one user: {}", twice.text);
}

async fn one_login_serves_both_addresses(world: &World) {
    let ada = world.account("ada").await;
    let token = login(world, Env::Live, &ada.email, PASSWORD).await.ok();
    let token = token.word("token");
    let live = world.get(Env::Live, "/v1/me").bearer(token).await.ok();
    let sandbox = world.get(Env::Sandbox, "/v1/me").bearer(token).await.ok();
    assert_ne!(live.field("id"), sandbox.field("id"));
    assert_eq!(live.number("balance_credits"), 0);
    assert_eq!(sandbox.number("balance_credits"), 1_000_000);
    assert_eq!(live.field("email"), sandbox.field("email"));
}

async fn signing_up_on_live_is_off(world: &World) {
    let body = json!({"email": "ada@example.com", "password": PASSWORD});
    let answer = world.post(Env::Live, "/v1/auth/signup").json(body).await;
    let closed = answer.problem("signup_disabled");
    let detail = closed.word("detail");
    assert!(detail.contains("sign up at the sandbox, http://127.0.0.1:8081"), "{detail}");
    let answer = login(world, Env::Live, "ada@example.com", PASSWORD).await;
    answer.problem("invalid_login");
}

async fn faulty_sign_ups_are_named(world: &World) {
    let sign_up = async |body| world.post(Env::Sandbox, "/v1/auth/signup").json(body).await;
    let cases = [
        (json!({"password": PASSWORD}), "/email", "required"),
        (json!({"email": "ada@example.com"}), "/password", "required"),
        (json!({"email": 1, "password": PASSWORD}), "/email", "invalid_type"),
        (json!({"email": "ada", "password": PASSWORD}), "/email", "invalid_email"),
        (json!({"email": "ada@example.com", "password": "short"}), "/password", "too_short"),
        (json!({"email": "a@b.cd", "password": PASSWORD, "x": 1}), "/x", "unknown_field"),
    ];
    for (body, pointer, item) in cases {
        let answer = sign_up(body).await;
        assert!(!answer.text.contains(PASSWORD));
        answer.fault(pointer, item);
    }
}

async fn a_wrong_login_tells_nothing(world: &World) {
    let ada = world.account("ada").await;
    let wrong = login(world, Env::Sandbox, &ada.email, "not the password").await;
    let wrong = wrong.problem("invalid_login");
    let unknown = login(world, Env::Sandbox, "nobody@example.com", PASSWORD).await;
    let unknown = unknown.problem("invalid_login");
    for member in ["type", "title", "status", "code", "detail"] {
        assert_eq!(wrong.field(member), unknown.field(member), "{member}");
    }
    assert_eq!(wrong.names(), unknown.names());
    assert!(wrong.word("detail").starts_with("Check the email and the password"));
    let mixed = ada.email.to_uppercase();
    login(world, Env::Sandbox, &mixed, PASSWORD).await.ok();
}

async fn failed_logins_make_the_next_one_wait(world: &World) {
    let ada = world.account("ada").await;
    let mut waits = None;
    for _ in 0..20 {
        let answer = login(world, Env::Sandbox, &ada.email, "not the password").await;
        if answer.status == 429 {
            let answer = answer.problem("too_many_logins");
            waits = answer.head("retry-after").parse::<i64>().ok();
            break;
        }
        answer.problem("invalid_login");
    }
    let wait_s = waits.expect("twenty failures are too many");
    // The right password does not help before the wait is over.
    login(world, Env::Sandbox, &ada.email, PASSWORD).await.problem("too_many_logins");
    login(world, Env::Live, &ada.email, PASSWORD).await.problem("too_many_logins");
    ada.me().await;
    world.advance(wait_s * 1_000).await;
    login(world, Env::Sandbox, &ada.email, PASSWORD).await.ok();
}

async fn a_changed_password_counts_at_once(world: &World) {
    let ada = world.account("ada").await;
    let change = |current: &str, new: &str| {
        let body = json!({"current": current, "new": new});
        ada.desk("POST", "/v1/auth/password").json(body)
    };
    let wrong = change("not the password", "another horse battery 43").await;
    assert!((400..500).contains(&wrong.status), "{}", wrong.text);
    let short = change(PASSWORD, "short").await;
    short.fault("/new", "too_short");
    let other = login(world, Env::Sandbox, &ada.email, PASSWORD).await.ok();
    change(PASSWORD, "another horse battery 43").await.ok();
    login(world, Env::Sandbox, &ada.email, PASSWORD).await.problem("invalid_login");
    login(world, Env::Sandbox, &ada.email, "another horse battery 43").await.ok();
    let before = world.get(Env::Sandbox, "/v1/me").bearer(other.word("token")).await;
    before.problem("invalid_token");
}

async fn a_token_expires(world: &World) {
    let ada = world.account("ada").await;
    let life_ms = world.config().access.portal_token_s * 1_000;
    world.advance(life_ms - 60_000).await;
    ada.me().await;
    world.advance(60_000).await;
    ada.desk("GET", "/v1/me").await.problem("token_expired");
}

async fn the_profile_has_the_fields_of_the_contract(world: &World) {
    let ada = world.account("ada").await;
    let me = ada.me().await;
    assert_eq!(me.word("id"), ada.account_id);
    assert_eq!(me.word("email"), ada.email);
    assert_eq!(me.word("billing_mode"), "prepaid");
    assert_eq!(me.number("balance_credits"), 1_000_000);
    assert_eq!(me.word("status"), "active");
}

async fn a_key_is_shown_once_and_listed_without_its_secret(world: &World) {
    let ada = world.account("ada").await;
    let made = ada.new_key("shop", &["otp:send"]).await;
    assert_eq!(made.names(), ["api_key", "key"]);
    let (raw, key) = (made.word("api_key"), made.field("key"));
    assert!(raw.starts_with("est_test_") && raw.len() == "est_test_".len() + 36, "{raw}");
    assert_eq!(key["active"], true);
    assert!(is_id("key", key["id"].as_str().unwrap()));
    let checksum = crc32(&raw[.."est_test_".len() + 30]);
    assert_eq!(raw[raw.len() - 6..], base62(checksum), "a scanner can check it");
    let list = ada.desk("GET", "/v1/api-keys").await.ok();
    assert!(!list.text.contains(raw));
    let shown = list.list().iter().find(|shown| shown["id"] == key["id"]).expect("listed");
    assert_eq!(shown["name"], "shop");
    assert_eq!(shown["active"], true);
    assert_eq!(shown["key_prefix"], raw[.."est_test_".len() + 8]);
    assert_eq!(shown["scopes"], json!(["otp:send"]));
    let live = ada.on_live().await;
    assert!(live.key.starts_with("est_live_"));
}

/// CRC-32 (IEEE 802.3), bit by bit, so that the product's own is checked by another.
fn crc32(text: &str) -> u32 {
    let mut crc = u32::MAX;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn base62(mut value: u32) -> String {
    let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut letters = vec![];
    for _ in 0..6 {
        letters.push(alphabet[usize::try_from(value % 62).unwrap()]);
        value /= 62;
    }
    letters.reverse();
    String::from_utf8(letters).unwrap()
}

async fn a_disabled_key_is_refused_at_once(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    let path = format!("/v1/api-keys/{}", ada.key_id);
    let gone = ada.desk("DELETE", &path).await.ok();
    assert_eq!(gone.word("id"), ada.key_id);
    assert_eq!(gone.field("active"), false);
    ada.send_to(&phone("5679")).await.problem("invalid_api_key");
    ada.desk("DELETE", &path).await.ok();
    let list = ada.desk("GET", "/v1/api-keys").await.ok();
    let shown = list.list().iter().find(|key| key["id"] == ada.key_id.as_str()).unwrap();
    assert_eq!(shown["active"], false);
}

async fn a_credential_of_the_other_kind_is_told_apart(world: &World) {
    let ada = world.account("ada").await;
    let detail = |answer: &crate::world::Answer| answer.word("detail").to_owned();
    let keys = world.post(ada.env, "/v1/api-keys").bearer(&ada.key).json(json!({"name": "x"}));
    let said = detail(&keys.await.problem("missing_credentials"));
    assert!(said.contains("an API key, and this endpoint takes a portal token"), "{said}");
    let send = world.post(ada.env, "/v1/otp/send").bearer(&ada.token).json(json!({}));
    let said = detail(&send.await.problem("missing_credentials"));
    assert!(said.contains("a token, and this endpoint takes an API key"), "{said}");
    // Where nothing was shown, nothing is said of it.
    let bare = world.post(ada.env, "/v1/otp/send").json(json!({}));
    let said = detail(&bare.await.problem("missing_credentials"));
    assert!(said.starts_with("This endpoint takes an API key"), "{said}");
}

async fn keys_of_the_other_environment_are_refused(world: &World) {
    let ada = world.account("ada").await;
    let live = ada.on_live().await;
    let body = json!({"to": phone("5678")});
    let send = |env, key: &str| world.post(env, "/v1/otp/send").key(key).json(&body);
    for (env, key, home) in [
        (Env::Live, &ada.key, "http://127.0.0.1:8081"),
        (Env::Sandbox, &live.key, "http://127.0.0.1:8080"),
    ] {
        let refused = send(env, key).await.problem("wrong_environment");
        let detail = refused.word("detail");
        assert!(detail.contains(&format!("it works at {home}.")), "where it belongs: {detail}");
    }
}

async fn malformed_keys_are_refused(world: &World) {
    let ada = world.account("ada").await;
    let last = if ada.key.ends_with('A') { "B" } else { "A" };
    let wrong_sum = format!("{}{last}", &ada.key[..ada.key.len() - 1]);
    let long = "x".repeat(4_000);
    for key in ["", "x", "est_test_", "est_test_abc", wrong_sum.as_str(), long.as_str()] {
        let body = json!({"to": phone("5678")});
        let answer = world.post(Env::Sandbox, "/v1/otp/send").key(key).json(body).await;
        assert!(key.is_empty() || !answer.text.contains(&wrong_sum));
        let code = if key.is_empty() { answer.word("code").to_owned() } else { String::new() };
        if code != "missing_credentials" {
            answer.problem("invalid_api_key");
        }
    }
}

async fn missing_credentials_are_named(world: &World) {
    let ada = world.account("ada").await;
    let post = |path| world.post(Env::Sandbox, path).json(json!({"to": phone("5678")}));
    post("/v1/otp/send").await.problem("missing_credentials");
    post("/v1/otp/send").bearer(&ada.token).await.problem("missing_credentials");
    for misspelt in ["est_tset_abc", "nonsense"] {
        post("/v1/otp/send").bearer(misspelt).await.problem("invalid_api_key");
    }
    ada.get("/v1/api-keys").await.problem("missing_credentials");
    world.get(Env::Sandbox, "/v1/me").await.problem("missing_credentials");
    world.get(Env::Sandbox, "/v1/me").bearer("nonsense").await.problem("invalid_token");
    let basic = world.get(Env::Sandbox, "/v1/me").header("authorization", "Basic YTpi").await;
    assert_eq!(basic.status, 401, "{}", basic.text);
    // What is offered is what the endpoint takes.
    assert!(!basic.headers["www-authenticate"].to_str().unwrap().contains("ApiKey"));
    let send = post("/v1/otp/send").await;
    assert!(send.headers["www-authenticate"].to_str().unwrap().contains("ApiKey"));
}

async fn each_scope_opens_only_its_endpoints(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    let read = format!("/v1/otp/{id}");
    for scope in SCOPES {
        let key = ada.new_key(scope, &[scope]).await;
        let key = key.word("api_key");
        let send = |path| {
            let body = json!({"to": phone("5679"), "code": "1234"});
            world.post(Env::Sandbox, path).key(key).json(body)
        };
        for path in ["/v1/otp/send", "/v1/chatapp/otp/send"] {
            if ["otp:send", "sms:send"].contains(&scope) {
                send(path).await.ok();
            } else {
                let answer = send(path).await.problem("insufficient_scope");
                assert!(answer.word("detail").contains("otp:send"), "{}", answer.text);
                assert!(answer.word("detail").contains("sms:send"), "{}", answer.text);
            }
        }
        let guess = json!({"challenge_id": id, "code": "0000"});
        let guess = world.post(Env::Sandbox, "/v1/otp/verify").key(key).json(guess).await;
        let status = world.get(Env::Sandbox, &read).key(key).await;
        if ["otp:verify", "sms:send", "account:read"].contains(&scope) {
            guess.problem("otp_code_invalid");
            status.ok();
        } else {
            let answer = guess.problem("insufficient_scope");
            for accepted in ["otp:verify", "sms:send", "account:read"] {
                assert!(answer.word("detail").contains(accepted), "{}", answer.text);
            }
            status.problem("insufficient_scope");
        }
    }
}

async fn a_key_without_scopes_and_with_unknown_ones(world: &World) {
    let ada = world.account("ada").await;
    let make = |body| ada.desk("POST", "/v1/api-keys").json(body);
    let unknown = make(json!({"name": "x", "scopes": ["otp:send", "root"]})).await;
    unknown.fault("/scopes/1", "invalid_enum");
    let mixed = json!({"name": "a", "scopes": [5, "otp:send", "bogus"]});
    let mixed = ada.desk("POST", "/v1/api-keys").json(mixed).await.problem("validation_failed");
    let items = ["/scopes/0", "/scopes/1", "/scopes/2"].map(|at| mixed.item(at));
    let wanted = [Some("invalid_type".to_owned()), None, Some("invalid_enum".to_owned())];
    assert_eq!(items, wanted, "{}", mixed.text);
    make(json!({"scopes": ["otp:send"]})).await.fault("/name", "required");
    make(json!({"name": 1})).await.fault("/name", "invalid_type");
    make(json!({"name": "x", "scopes": "otp:send"})).await.fault("/scopes", "invalid_type");
    make(json!({"name": "x".repeat(5_000)})).await.fault("/name", "too_long");
    let plain = make(json!({"name": "plain"})).await.ok();
    assert!(plain.word("api_key").starts_with("est_test_"));
}

async fn portal_tokens_never_open_staff_routes_nor_the_reverse(world: &World) {
    let ada = world.account("ada").await;
    let staff = world.staff().await;
    for env in [Env::Sandbox, Env::Live] {
        world.get(env, "/v1/admin/accounts").bearer(staff).await.ok();
        let portal = world.get(env, "/v1/admin/accounts").bearer(&ada.token).await;
        portal.problem("invalid_token");
        world.get(env, "/v1/me").bearer(staff).await.problem("invalid_token");
        world.get(env, "/v1/ledger").bearer(staff).await.problem("invalid_token");
    }
    let key = world.get(Env::Sandbox, "/v1/admin/accounts").key(&ada.key).await;
    key.problem("missing_credentials");
    let login = json!({"email": ada.email, "password": PASSWORD});
    let login = world.post(Env::Sandbox, "/v1/admin/auth/login").json(login).await;
    login.problem("invalid_login");
}

async fn a_repeated_key_creation_replays_the_raw_key_for_ten_minutes(world: &World) {
    let ada = world.account("ada").await;
    let make = || {
        let body = json!({"name": "shop", "scopes": ["otp:send"]});
        ada.desk("POST", "/v1/api-keys").header("idempotency-key", "k-1").json(body)
    };
    let first = make().await.ok();
    world.advance(9 * 60_000).await;
    let again = make().await.ok();
    assert_eq!(again.body, first.body);
    assert_eq!(again.head("idempotent-replayed"), "true");
    world.advance(61_000).await;
    let late = make().await.ok();
    assert!(late.body.get("api_key").is_none_or(serde_json::Value::is_null), "{}", late.text);
    assert_eq!(late.field("key")["id"], first.field("key")["id"]);
    let list = ada.desk("GET", "/v1/api-keys").await.ok();
    assert_eq!(list.list().iter().filter(|key| key["name"] == "shop").count(), 1);
}

fn the_other_way_round(config: &mut Config) {
    config.access.signup_live = true;
    config.access.signup_sandbox = false;
}

async fn signing_up_may_be_switched_off_and_on(world: &World) {
    let body = json!({"email": "ada@example.com", "password": PASSWORD});
    let refused = world.post(Env::Sandbox, "/v1/auth/signup").json(&body).await;
    let refused = refused.problem("signup_disabled");
    assert!(!refused.word("detail").contains("sign up"), "{}", refused.text);
    world.post(Env::Live, "/v1/auth/signup").json(&body).await.ok();
}
