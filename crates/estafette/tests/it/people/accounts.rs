//! What an account may do: before the operator has looked at it, when it is suspended, and with
//! which credentials.

use estafette::app::Env;
use estafette::config::Config;
use serde_json::{Value, json};

use super::login_from;
use crate::on_every_engine;
use crate::world::tenant::{PASSWORD, Tenant, phone};
use crate::world::{Answer, World};

on_every_engine!(
    who_signs_up_at_the_sandbox_waits_on_live_for_staff,
    what_staff_make_is_active_at_once,
    staff_find_accounts_by_time_and_email,
    an_open_sign_up_on_live_makes_active_accounts with open_to_all,
    a_suspended_account_can_only_be_read_and_only_by_its_owner,
    a_key_counts_in_either_header_but_not_two_of_them,
    a_key_that_may_read_the_account_sees_balance_and_ledger,
    an_account_has_a_hundred_active_keys,
    a_mailbox_is_one_user_however_its_domain_is_spelled,
    an_address_that_was_stored_in_unicode_still_opens_its_account,
);

/// Two spellings of the domain of one mailbox.
const UNICODE: &str = "dup@münchen.example";
const ASCII: &str = "dup@xn--mnchen-3ya.example";

fn open_to_all(config: &mut Config) {
    config.access.signup_live = true;
}

/// Everything that an owner writes.
async fn writes(tenant: &Tenant<'_>) -> Vec<Answer> {
    let calls: [(&str, &str, Value); 6] = [
        ("POST", "/v1/api-keys", json!({"name": "x"})),
        ("DELETE", "/v1/api-keys/key_01kdv00000000000000000000z", json!({})),
        ("POST", "/v1/webhooks", json!({"url": "https://127.0.0.1:9999/"})),
        ("PATCH", "/v1/webhooks/whk_01kdv00000000000000000000z", json!({})),
        ("POST", "/v1/webhooks/whk_01kdv00000000000000000000z/test", json!({})),
        ("POST", "/v1/senders", json!({"value": "ACME"})),
    ];
    let mut answers = vec![];
    for (method, path, body) in calls {
        answers.push(tenant.desk(method, path).json(body).await);
    }
    answers
}

const READS: [&str; 6] =
    ["/v1/me", "/v1/balance", "/v1/ledger", "/v1/api-keys", "/v1/webhooks", "/v1/senders"];

async fn who_signs_up_at_the_sandbox_waits_on_live_for_staff(world: &World) {
    let ada = world.account("ada").await;
    let mut live = Tenant { env: Env::Live, ..ada.clone() };
    let me = live.me().await;
    assert_eq!(me.word("status"), "pending");
    me.word("id").clone_into(&mut live.account_id);
    for path in READS {
        live.desk("GET", path).await.ok();
    }
    for answer in writes(&live).await {
        answer.problem("account_pending");
    }
    assert_eq!(ada.me().await.word("status"), "active", "the sandbox is open");
    let staff = world.staff().await;
    let waiting = world.get(Env::Live, "/v1/admin/accounts?status=pending").bearer(staff);
    let waiting = waiting.await.ok();
    assert_eq!(waiting.list().len(), 1);
    assert_eq!(waiting.list()[0]["id"], live.account_id.as_str());
    assert_eq!(waiting.list()[0]["email_verified"], false);
    world.set(&live, json!({"status": "pending"})).await.fault("/status", "invalid_enum");
    world.set(&live, json!({"status": "active"})).await.ok();
    assert_eq!(live.me().await.word("status"), "active");
    live.new_key("first", &["otp:send"]).await;
    // Whatever becomes of the account, its owner can log out.
    world.set(&live, json!({"status": "suspended"})).await.ok();
    live.desk("POST", "/v1/auth/logout").json(json!({})).await.ok();
}

async fn staff_find_accounts_by_time_and_email(world: &World) {
    let ada = world.account("ada").await;
    world.advance(3_600_000).await;
    let noon = world.now().to_string();
    let bob = world.account("bob").await;
    let staff = world.staff().await;
    for (query, found) in [
        ("env=sandbox".to_owned(), vec![&bob, &ada]),
        (format!("env=sandbox&since={noon}"), vec![&bob]),
        (format!("env=sandbox&until={noon}"), vec![&ada]),
        (format!("email=ada@example.com&since={noon}"), vec![]),
        (format!("since={noon}&until={noon}"), vec![]),
    ] {
        let path = format!("/v1/admin/accounts?{query}");
        let shown = world.get(Env::Live, &path).bearer(staff).await.ok();
        let ids: Vec<&str> = shown.list().iter().filter_map(|one| one["id"].as_str()).collect();
        let wanted: Vec<&str> = found.iter().map(|tenant| tenant.account_id.as_str()).collect();
        assert_eq!(ids, wanted, "{query}");
    }
    let plus = world.account("a+b").await;
    for email in ["a+b@example.com", "A%2Bb@example.com", "%20a+b@example.com%20"] {
        let path = format!("/v1/admin/accounts?env=sandbox&email={email}");
        let shown = world.get(Env::Live, &path).bearer(staff).await.ok();
        let [row] = shown.list() else { panic!("not one account: {}", shown.text) };
        assert_eq!(row["id"], plus.account_id.as_str());
    }
    for (query, pointer, code) in [
        ("since=noon", "?since", "invalid_type"),
        ("env=test", "?env", "invalid_enum"),
        ("status=open", "?status", "invalid_enum"),
    ] {
        let path = format!("/v1/admin/accounts?{query}");
        let refused = world.get(Env::Live, &path).bearer(staff).await.problem("invalid_request");
        assert_eq!(refused.item(pointer).as_deref(), Some(code), "{query}");
    }
}

async fn what_staff_make_is_active_at_once(world: &World) {
    let staff = world.staff().await;
    let body = json!({"email": "ada@example.com", "password": PASSWORD});
    let made = world.post(Env::Live, "/v1/admin/accounts").bearer(staff).json(&body).await.ok();
    for account in ["live", "sandbox"] {
        let id = made.field("accounts")[account].as_str().unwrap();
        let path = format!("/v1/admin/accounts/{id}");
        let shown = world.get(Env::Live, &path).bearer(staff).await.ok();
        assert_eq!(shown.word("status"), "active", "{account}");
    }
    let token = world.post(Env::Live, "/v1/auth/login").json(&body).await.ok();
    let key = world.post(Env::Live, "/v1/api-keys").bearer(token.word("token"));
    key.json(json!({"name": "first"})).await.ok();
}

async fn an_open_sign_up_on_live_makes_active_accounts(world: &World) {
    let ada = world.account("ada").await;
    let live = Tenant { env: Env::Live, ..ada.clone() };
    assert_eq!(live.me().await.word("status"), "active");
    live.new_key("first", &["otp:send"]).await;
}

async fn a_suspended_account_can_only_be_read_and_only_by_its_owner(world: &World) {
    let ada = world.account("ada").await;
    let narrow = ada.new_key("narrow", &["email:send"]).await;
    world.set(&ada, json!({"status": "suspended"})).await.ok();
    for path in READS {
        ada.desk("GET", path).await.ok();
    }
    for answer in writes(&ada).await {
        answer.problem("account_suspended");
    }
    for key in [ada.key.as_str(), narrow.word("api_key")] {
        let by_key = |method, path| world.call(method, Env::Sandbox, path).key(key);
        by_key("GET", "/v1/balance").await.problem("account_suspended");
        let send = by_key("POST", "/v1/otp/send").json(json!({"to": phone("5678")}));
        send.await.problem("account_suspended");
    }
    let reply = ada.desk("POST", &format!("/v1/sandbox/handsets/{}/replies", phone("5678")));
    reply.json(json!({"text": "hello"})).await.problem("account_suspended");
    world.set(&ada, json!({"status": "active"})).await.ok();
    ada.send_to(&phone("5678")).await.ok();
}

async fn a_key_counts_in_either_header_but_not_two_of_them(world: &World) {
    let ada = world.account("ada").await;
    let send = || world.post(Env::Sandbox, "/v1/otp/send").json(json!({"to": phone("5678")}));
    let sent = send().bearer(&ada.key).await.ok();
    let path = format!("/v1/otp/{}", sent.word("challenge_id"));
    world.get(Env::Sandbox, &path).bearer(&ada.key).await.ok();
    send().key(&ada.key).bearer(&ada.key).await.ok();
    let other = ada.new_key("other", &["otp:send"]).await;
    let both = send().key(&ada.key).bearer(other.word("api_key")).await;
    let both = both.problem("invalid_request");
    assert!(both.word("detail").contains("X-API-Key"), "{}", both.text);
    assert!(!both.text.contains(&ada.key));
    let typo = format!("{}x", &ada.key[..ada.key.len() - 1]);
    send().bearer(&typo).await.problem("invalid_api_key");
    world.get(Env::Sandbox, "/v1/me").bearer(&ada.key).await.problem("missing_credentials");
    let live = world.post(Env::Live, "/v1/otp/send").bearer(&ada.key);
    live.json(json!({"to": phone("5678")})).await.problem("wrong_environment");
}

async fn a_key_that_may_read_the_account_sees_balance_and_ledger(world: &World) {
    let ada = world.account("ada").await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    world.settle().await;
    let may = ada.new_key("reader", &["account:read"]).await;
    let may_not = ada.new_key("sender", &["otp:send"]).await;
    let by = |key: &str, path| world.get(Env::Sandbox, path).key(key);
    let balance = by(may.word("api_key"), "/v1/balance").await.ok();
    assert_eq!(balance.names(), ["balance_credits", "billing_mode", "held_credits"]);
    assert_eq!(balance.number("balance_credits"), 1_000_000 - world.price("sms", "FR"));
    assert_eq!(balance.number("held_credits"), 0);
    assert_eq!(balance.word("billing_mode"), "prepaid");
    assert_eq!(ada.desk("GET", "/v1/balance").await.ok().body, balance.body);
    let ledger = by(may.word("api_key"), "/v1/ledger").await.ok();
    assert_eq!(ledger.body, ada.desk("GET", "/v1/ledger").await.ok().body);
    assert_eq!(ledger.list().len(), 3, "grant, hold, post");
    for path in ["/v1/balance", "/v1/ledger"] {
        by(may_not.word("api_key"), path).await.problem("insufficient_scope");
    }
}

async fn an_account_has_a_hundred_active_keys(world: &World) {
    let ada = world.account("ada").await;
    for number in 1..100 {
        ada.new_key(&format!("key {number}"), &["otp:send"]).await;
    }
    let one_more = || ada.desk("POST", "/v1/api-keys").json(json!({"name": "one more"}));
    let refused = one_more().await.problem("limit_reached");
    assert!(refused.word("detail").contains("100"), "{}", refused.text);
    ada.desk("DELETE", &format!("/v1/api-keys/{}", ada.key_id)).await.ok();
    one_more().await.ok();
    one_more().await.problem("limit_reached");
}

async fn a_mailbox_is_one_user_however_its_domain_is_spelled(world: &World) {
    for (first, second) in [(UNICODE, ASCII), ("two@xn--mnchen-3ya.example", "two@MÜNCHEN.example")]
    {
        let sign_up = |email: &str| {
            let body = json!({"email": email, "password": PASSWORD});
            world.post(Env::Sandbox, "/v1/auth/signup").json(body)
        };
        let made = sign_up(first).await.ok();
        sign_up(second).await.fault("/email", "invalid_email");
        sign_up(&format!("x{second}")).await.ok();
        for spelled in [first, second] {
            let login = login_from(world, "/v1/auth/login", spelled, (PASSWORD, "")).await.ok();
            assert_eq!(login.body["user"]["id"], made.body["user"]["id"], "{spelled}");
            let query = format!("/v1/admin/accounts?email={spelled}");
            let found = world.get(Env::Live, &query).bearer(world.staff().await).await.ok();
            assert_eq!(found.list().len(), 2, "{spelled}: {}", found.text);
        }
    }
    let staff = |email: &str| {
        let body = json!({"email": email, "password": PASSWORD});
        async {
            world.post(Env::Live, "/v1/admin/staff").bearer(world.staff().await).json(body).await
        }
    };
    staff(ASCII).await.ok();
    staff(UNICODE).await.fault("/email", "invalid_email");
    for spelled in [ASCII, UNICODE] {
        login_from(world, "/v1/admin/auth/login", spelled, (PASSWORD, "")).await.ok();
    }
}

/// As rows were written before domains were stored in ASCII.
async fn an_address_that_was_stored_in_unicode_still_opens_its_account(world: &World) {
    let ada = world.account("ada").await;
    let rename = store::Sql("UPDATE users SET email = $1 WHERE user_id = $2");
    let mut set = store::WriteSet::of(&ada.user_id);
    set.push(rename, store::args![UNICODE, ada.user_id.as_str()]);
    world.app(Env::Live).await.db.commit(set).await.unwrap();
    for spelled in [UNICODE, ASCII] {
        let login = login_from(world, "/v1/auth/login", spelled, (PASSWORD, "")).await.ok();
        assert_eq!(login.body["user"]["id"], ada.user_id.as_str(), "{spelled}");
        let body = json!({"email": spelled, "password": PASSWORD});
        let taken = world.post(Env::Sandbox, "/v1/auth/signup").json(body).await;
        taken.fault("/email", "invalid_email");
    }
}
