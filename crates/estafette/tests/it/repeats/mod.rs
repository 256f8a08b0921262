//! `Idempotency-Key` on every POST: one table of all routes, held against the OpenAPI document, and
//! the same four questions to each. Nobody adds a POST that forgets the key.

mod desk;

use std::collections::BTreeSet;

use estafette::app::Env;
use serde_json::{Value, json};
use store::{Sql, args};

use crate::emails::noticing::{unused_proofs, writing};
use crate::on_every_engine;
use crate::support::files::png;
use crate::world::tenant::{PASSWORD, Tenant, phone};
use crate::world::{Answer, Call, World, eventually};

on_every_engine!(
    every_post_honours_its_key with writing,
    a_secret_is_repeated_for_ten_minutes_and_never_stored_in_the_clear,
    a_repeated_login_answers_no_token_that_has_ended,
    a_known_key_is_no_way_to_guess_a_password,
    a_key_of_one_address_is_free_at_another with behind_a_proxy,
);

fn behind_a_proxy(config: &mut estafette::config::Config) {
    config.server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
}

/// Who calls.
#[derive(Clone)]
enum By {
    Nobody,
    Key(String),
    Bearer(String),
}

/// One POST of the document, and a call of it.
struct Row {
    /// As in the document.
    route: &'static str,
    path: String,
    by: By,
    body: Body,
    /// The member that says that it is the same object.
    same: &'static str,
}

/// A body, and another one.
enum Body {
    Json(Value, Value),
    /// None is needed; an empty object is another one, by the letter.
    Empty,
    File,
}

impl Row {
    fn call(&self, world: &World, key: &str, is_other: bool) -> Call {
        let call = world.post(Env::Sandbox, &self.path).header("idempotency-key", key);
        let call = match &self.by {
            By::Nobody => call,
            By::Key(key) => call.key(key),
            By::Bearer(token) => call.bearer(token),
        };
        match (&self.body, is_other) {
            (Body::Json(body, _), false) | (Body::Json(_, body), true) => call.json(body),
            (Body::Empty, false) => call,
            (Body::Empty, true) => call.json(json!({})),
            (Body::File, _) => call.raw("multipart/form-data; boundary=b", form(is_other)),
        }
    }
}

fn form(is_other: bool) -> Vec<u8> {
    let said = if is_other { "other" } else { "this" };
    let part = "--b\r\nContent-Disposition: form-data; name=";
    let text = format!("{part}\"message\"\r\n\r\n{said}\r\n");
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\
                Content-Type: image/png\r\n\r\n";
    [text.as_bytes(), head.as_bytes(), &png(), b"\r\n--b--\r\n"].concat()
}

/// How many rows there are of what a request can make.
async fn rows(world: &World) -> Vec<(&'static str, i64)> {
    let tables = [
        ("users", Sql("SELECT COUNT(*) FROM users")),
        ("staff", Sql("SELECT COUNT(*) FROM staff")),
        ("tokens", Sql("SELECT COUNT(*) FROM tokens WHERE revoked_at IS NULL")),
        ("keys", Sql("SELECT COUNT(*) FROM api_keys")),
        ("audit log", Sql("SELECT COUNT(*) FROM audit_log")),
        ("transfers", Sql("SELECT COUNT(*) FROM transfers")),
        ("senders", Sql("SELECT COUNT(*) FROM senders")),
        ("challenges", Sql("SELECT COUNT(*) FROM challenges")),
        ("guesses", Sql("SELECT CAST(COALESCE(SUM(attempts), 0) AS BIGINT) FROM challenges")),
        // Those of notices are begun behind the answer.
        ("attempts", Sql("SELECT COUNT(*) FROM attempts WHERE kind <> 'notice'")),
        (
            "notices",
            Sql("SELECT (SELECT COUNT(*) FROM notices) + (SELECT COUNT(*) FROM reset_requests)"),
        ),
        ("SMS", Sql("SELECT COUNT(*) FROM sms_messages")),
        ("emails", Sql("SELECT COUNT(*) FROM emails")),
        ("email recipients", Sql("SELECT COUNT(*) FROM email_recipients")),
        ("email domains", Sql("SELECT COUNT(*) FROM email_domains")),
        ("email suppressions", Sql("SELECT COUNT(*) FROM email_suppressions")),
        ("chat-app messages", Sql("SELECT COUNT(*) FROM chatapp_messages")),
        ("templates", Sql("SELECT COUNT(*) FROM chatapp_templates")),
        ("sessions", Sql("SELECT COUNT(*) FROM chatapp_sessions")),
        ("inbound", Sql("SELECT COUNT(*) FROM inbound")),
        ("webhooks", Sql("SELECT COUNT(*) FROM webhooks")),
        ("deliveries", Sql("SELECT COUNT(*) FROM webhook_deliveries")),
        ("tickets", Sql("SELECT COUNT(*) FROM tickets")),
        ("ticket messages", Sql("SELECT COUNT(*) FROM ticket_messages")),
        ("ticket files", Sql("SELECT COUNT(*) FROM ticket_files")),
        ("ticket changes", Sql("SELECT COUNT(*) FROM ticket_changes")),
        ("ticket tokens", Sql("SELECT COUNT(*) FROM ticket_tokens")),
        ("canned replies", Sql("SELECT COUNT(*) FROM canned_replies")),
    ];
    let db = world.app(Env::Sandbox).await.db.clone();
    let mut found = vec![];
    for (name, sql) in tables {
        let count: Option<(i64,)> = db.row(sql, args![]).await.unwrap();
        found.push((name, count.unwrap().0));
    }
    found
}

async fn on_the_way(world: &World) -> i64 {
    let sql = Sql("SELECT COUNT(*) FROM attempts WHERE state IN ('queued', 'sending')");
    let count: Option<(i64,)> = world.app(Env::Sandbox).await.db.row(sql, args![]).await.unwrap();
    count.unwrap().0
}

async fn every_post_honours_its_key(world: &World) {
    let proofs = unused_proofs(world, "zoe").await;
    let ada = world.account("ada").await;
    let mut table = table(&ada).await;
    table.extend(of_recovery(&ada, &proofs));
    let document = world.get(Env::Sandbox, "/v1/openapi.json").await.ok();
    let paths = document.field("paths").as_object().unwrap();
    let posts = paths.iter().filter(|(_, operations)| operations.get("post").is_some());
    let documented: BTreeSet<&str> = posts.map(|(path, _)| path.as_str()).collect();
    let tried: BTreeSet<&str> = table.iter().map(|row| row.route).collect();
    assert_eq!(tried, documented, "the table has every POST of the document");
    for (number, row) in table.iter().enumerate() {
        let key = format!("key-{number}");
        let malformed = row.call(world, "caf\u{e9}", false).await;
        malformed.problem("invalid_idempotency_key");
        let first = row.call(world, &key, false).await;
        assert_eq!(first.status, 200, "{}: {}", row.route, first.text);
        assert_eq!(first.head("idempotent-replayed"), "", "{}", row.route);
        world.settle().await;
        // What its queue takes out comes after the answer.
        eventually(async || (on_the_way(world).await == 0).then_some(())).await;
        let before = rows(world).await;
        let again = row.call(world, &key, false).await;
        assert_eq!(again.status, 200, "{}: {}", row.route, again.text);
        assert_eq!(again.head("idempotent-replayed"), "true", "{}", row.route);
        assert_eq!(again.field(row.same), first.field(row.same), "{}", row.route);
        let other = row.call(world, &key, true).await;
        assert_eq!(other.word("code"), "idempotency_key_reused", "{}: {}", row.route, other.text);
        other.problem("idempotency_key_reused");
        world.settle().await;
        assert_eq!(rows(world).await, before, "a second effect of {}", row.route);
    }
}

/// A call of every POST, in an order in which each can be carried out.
async fn table(ada: &Tenant<'_>) -> Vec<Row> {
    let mut table = of_programs(ada).await;
    table.extend(of_emails(ada).await);
    table.extend(of_staff(ada).await);
    table.extend(of_users(ada).await);
    table.extend(desk::of_webhooks(ada).await);
    table.extend(desk::of_support(ada).await);
    table
}

fn json(body: Value, other: Value) -> Body {
    Body::Json(body, other)
}

async fn of_programs(ada: &Tenant<'_>) -> Vec<Row> {
    let sent = ada.send(json!({"to": phone("5677"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    let reported = ada.send_to(&phone("5676")).await.ok();
    let row = |route: &'static str, same, body| {
        let path = route.replace("{phone}", &phone("5678"));
        let path = path.replace("{challenge_id}", reported.word("challenge_id"));
        let path = path.replace("{name}", "known");
        Row { route, path, by: By::Key(ada.key.clone()), body, same }
    };
    let [to, other] = [phone("5678"), phone("5679")];
    let known = json!({"name": "known", "body": "Bonjour"});
    ada.call("POST", "/v1/chatapp/templates").json(known).await.ok();
    // Opens the window of the chat-app.
    let path = format!("/v1/sandbox/handsets/{to}/replies");
    ada.call("POST", &path).json(json!({"text": "hello"})).await.ok();
    let free = |text: &str| json!({"to": to, "text": text, "billing_mode": "direct"});
    let template = |name: &str| json!({"name": name, "body": "Bonjour"});
    vec![
        row("/v1/chatapp/messages", "id", json(free("one"), free("two"))),
        row("/v1/chatapp/templates", "name", json(template("one"), template("two"))),
        row("/v1/chatapp/templates/{name}/sync", "name", Body::Empty),
        row(
            "/v1/otp/send",
            "challenge_id",
            json(
                json!({"to": to, "reference": "a", "request_messaging_consent": false}),
                json!({"to": other, "reference": "a", "request_messaging_consent": false}),
            ),
        ),
        row(
            "/v1/chatapp/otp/send",
            "challenge_id",
            json(json!({"to": to, "code": "4821"}), json!({"to": to, "code": "4822"})),
        ),
        row(
            "/v1/otp/verify",
            "challenge_id",
            json(
                json!({"challenge_id": id, "code": "4821"}),
                json!({"challenge_id": id, "code": "4822"}),
            ),
        ),
        row("/v1/otp/{challenge_id}/verified", "challenge_id", Body::Empty),
        row(
            "/v1/messages",
            "id",
            json(json!({"to": to, "text": "one"}), json!({"to": to, "text": "two"})),
        ),
        row(
            "/v1/sandbox/handsets/{phone}/replies",
            "accepted",
            json(json!({"text": "yes"}), json!({"text": "no"})),
        ),
    ]
}

async fn of_emails(ada: &Tenant<'_>) -> Vec<Row> {
    let added = json!({"domain": "example.com"});
    let added = ada.desk("POST", "/v1/email-domains").json(added).await.ok();
    let row = |route: &'static str, same, by, body| {
        let path = route.replace("{domain_id}", added.word("id"));
        Row { route, path, by, body, same }
    };
    let key = || By::Key(ada.key.clone());
    let desk = || By::Bearer(ada.token.clone());
    let mail = |to: &str| {
        json!({
            "to": [to], "from_email": "shop@sandbox.estafette.test", "subject": "s", "text": "t",
        })
    };
    let [one, two] = ["ada@example.com", "bob@example.com"].map(mail);
    // Of what goes out the status moves on.
    let bulk = |label: &str| {
        let mail = mail(&format!("suppressed+{label}@sandbox.estafette.test"));
        json!({"messages": [mail, {}]})
    };
    vec![
        row("/v1/emails", "id", key(), json(one, two)),
        row("/v1/emails/bulk", "results", key(), json(bulk("one"), bulk("two"))),
        row(
            "/v1/email-domains",
            "id",
            desk(),
            json(json!({"domain": "one.example"}), json!({"domain": "two.example"})),
        ),
        row("/v1/email-domains/{domain_id}/verify", "verified_at", desk(), Body::Empty),
        row(
            "/v1/email-suppressions",
            "id",
            desk(),
            json(json!({"address": "a@example.com"}), json!({"address": "b@example.com"})),
        ),
    ]
}

async fn of_staff(ada: &Tenant<'_>) -> Vec<Row> {
    let world = ada.world;
    let staff = world.staff().await.to_owned();
    let another = login(world, "/v1/admin/auth/login", "staff@example.com").await;

    let row = |route: &'static str, same, by: &By, body| {
        let path = route.replace("{account_id}", &ada.account_id);
        Row { route, path, by: by.clone(), body, same }
    };
    let staff = By::Bearer(staff);
    let person = |email: &str| json!({"email": email});
    let login = |email: &str, password: &str| json!({"email": email, "password": password});
    let passwords = |new: &str| json!({"current": PASSWORD, "new": new});

    vec![
        row(
            "/v1/admin/accounts",
            "password",
            &staff,
            json(person("bea@example.com"), person("bob@example.com")),
        ),
        row(
            "/v1/admin/accounts/{account_id}/credits",
            "transfer_id",
            &staff,
            json(json!({"amount": 7, "reason": "a"}), json!({"amount": 8, "reason": "a"})),
        ),
        row(
            "/v1/admin/staff",
            "password",
            &staff,
            json(person("sue@example.com"), person("sam@example.com")),
        ),
        row(
            "/v1/admin/erasures",
            "challenges",
            &staff,
            json(json!({"phone": phone("5677")}), json!({"phone": phone("5678")})),
        ),
        row(
            "/v1/admin/auth/login",
            "token",
            &By::Nobody,
            json(
                login("staff@example.com", PASSWORD),
                login("staff@example.com", "another password 7"),
            ),
        ),
        row("/v1/admin/auth/logout", "ok", &By::Bearer(another), Body::Empty),
        row(
            "/v1/admin/auth/password",
            "ok",
            &staff,
            json(passwords("a new password of staff"), passwords("a third password of staff")),
        ),
    ]
}

fn of_recovery(ada: &Tenant<'_>, proofs: &[String]) -> Vec<Row> {
    let row = |route: &'static str, body, other| Row {
        route,
        path: route.to_owned(),
        by: By::Nobody,
        body: json(body, other),
        same: "ok",
    };
    let [verify, reset] = proofs else { panic!("{} proofs", proofs.len()) };
    let new = |password: &str| json!({"token": reset, "new": password});
    vec![
        row("/v1/auth/verify-email", json!({"token": verify}), json!({"token": reset})),
        row(
            "/v1/auth/password/reset",
            json!({"email": ada.email}),
            json!({"email": "eve@example.com"}),
        ),
        row(
            "/v1/auth/password/reset/confirm",
            new("another horse battery 43"),
            new("another horse battery 44"),
        ),
    ]
}

async fn of_users(ada: &Tenant<'_>) -> Vec<Row> {
    let leaving = login(ada.world, "/v1/auth/login", &ada.email).await;
    let desk = By::Bearer(ada.token.clone());
    let row = |route: &'static str, same, by: &By, body| Row {
        route,
        path: route.to_owned(),
        by: by.clone(),
        body,
        same,
    };
    let login = |email: &str, password: &str| json!({"email": email, "password": password});
    let passwords = |new: &str| json!({"current": PASSWORD, "new": new});
    vec![
        row(
            "/v1/auth/signup",
            "accounts",
            &By::Nobody,
            json(login("cid@example.com", PASSWORD), login("dan@example.com", PASSWORD)),
        ),
        row(
            "/v1/auth/login",
            "token",
            &By::Nobody,
            json(login(&ada.email, PASSWORD), login(&ada.email, "another password 7")),
        ),
        row("/v1/auth/logout", "ok", &By::Bearer(leaving), Body::Empty),
        row(
            "/v1/auth/password",
            "ok",
            &desk,
            json(passwords("a new password of hers"), passwords("a third password of hers")),
        ),
        row("/v1/api-keys", "api_key", &desk, json(json!({"name": "one"}), json!({"name": "two"}))),
        row(
            "/v1/senders",
            "id",
            &desk,
            json(json!({"value": "Estafette"}), json!({"value": "Relay"})),
        ),
    ]
}

async fn login(world: &World, path: &str, email: &str) -> String {
    let body = json!({"email": email, "password": PASSWORD});
    world.post(Env::Sandbox, path).json(body).await.ok().word("token").to_owned()
}

fn log_in(world: &World, email: &str, password: &str, key: &str) -> Call {
    let body = json!({"email": email, "password": password});
    world.post(Env::Sandbox, "/v1/auth/login").header("idempotency-key", key).json(body)
}

async fn a_secret_is_repeated_for_ten_minutes_and_never_stored_in_the_clear(world: &World) {
    let ada = world.account("ada").await;
    let log_in = || log_in(world, &ada.email, PASSWORD, "one");
    let first = log_in().await.ok();
    let token = first.word("token");
    let db = world.app(Env::Sandbox).await.db.clone();
    let sql = Sql("SELECT sealed FROM idempotency WHERE sealed IS NOT NULL");
    let sealed: Vec<(Vec<u8>,)> = db.rows(sql, args![]).await.unwrap();
    assert_eq!(sealed.len(), 1);
    assert!(!String::from_utf8_lossy(&sealed[0].0).contains(token), "readable");
    world.advance(9 * 60_000).await;
    assert_eq!(log_in().await.ok().word("token"), token);
    world.get(Env::Sandbox, "/v1/me").bearer(token).await.ok();
    world.advance(2 * 60_000).await;
    let again = log_in().await.ok();
    assert_ne!(again.word("token"), token, "shown for ten minutes only; then it is a new login");
    assert_eq!(again.field("user"), first.field("user"));
    for token in [token, again.word("token")] {
        world.get(Env::Sandbox, "/v1/me").bearer(token).await.ok();
    }
}

/// An answer that was good once opens nothing any more.
async fn a_repeated_login_answers_no_token_that_has_ended(world: &World) {
    let ada = world.account("ada").await;
    let log_in = || log_in(world, &ada.email, PASSWORD, "one");
    let first = log_in().await.ok();
    let leave = world.post(Env::Sandbox, "/v1/auth/logout").bearer(first.word("token"));
    leave.json(json!({})).await.ok();
    let second = log_in().await.ok();
    world.get(Env::Sandbox, "/v1/me").bearer(second.word("token")).await.ok();
    let change = json!({"current": PASSWORD, "new": "quite another horse battery"});
    let change = world.post(Env::Sandbox, "/v1/auth/password").json(change);
    change.bearer(second.word("token")).await.ok();
    log_in().await.problem("invalid_login");
}

async fn a_known_key_is_no_way_to_guess_a_password(world: &World) {
    let ada = world.account("ada").await;
    log_in(world, &ada.email, PASSWORD, "one").await.ok();
    let mut refusals = vec![];
    for number in 0..8 {
        let answer = log_in(world, &ada.email, &format!("not her password {number}"), "one").await;
        refusals.push(answer.word("code").to_owned());
    }
    assert_eq!(&refusals[..5], ["idempotency_key_reused"; 5]);
    assert_eq!(refusals[7], "too_many_logins", "{refusals:?}");
    // The right one is no better while its guesser has to wait.
    log_in(world, &ada.email, PASSWORD, "one").await.problem("too_many_logins");
}

async fn a_key_of_one_address_is_free_at_another(world: &World) {
    let ada = world.account("ada").await;
    let from = |address: &str| {
        let call = log_in(world, &ada.email, PASSWORD, "one");
        call.header("x-forwarded-for", address)
    };
    let first: Answer = from("198.51.100.7").await.ok();
    let other = from("198.51.100.8").await.ok();
    assert_eq!(other.head("idempotent-replayed"), "");
    assert_ne!(other.field("token"), first.field("token"));
}
