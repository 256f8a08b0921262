//! The operator's staff: they come and go, and somebody always remains.

use estafette::app::Env;
use serde_json::{Value, json};

use super::{login_from, noted};
use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::{PASSWORD, phone};

on_every_engine!(
    staff_come_and_go,
    staff_who_give_a_taken_email_are_told_where_it_is,
    staff_who_show_a_key_are_told_where_a_token_is,
    two_who_remove_each_other_do_not_both_succeed,
    staff_change_their_password,
    staff_see_and_end_the_keys_of_an_account,
);

const LOGIN: &str = "/v1/admin/auth/login";

async fn list(world: &World, token: &str) -> Vec<Value> {
    world.get(Env::Live, "/v1/admin/staff").bearer(token).await.ok().list().to_vec()
}

/// Adds a member of staff and logs in: their id and token.
async fn hire(world: &World, email: &str) -> (String, String) {
    let body = json!({"email": email, "password": PASSWORD});
    let made = world.post(Env::Live, "/v1/admin/staff").bearer(world.staff().await).json(body);
    let id = made.await.ok().word("staff_id").to_owned();
    let login = login_from(world, LOGIN, email, (PASSWORD, "")).await.ok();
    (id, login.word("token").to_owned())
}

async fn staff_who_give_a_taken_email_are_told_where_it_is(world: &World) {
    let ada = world.account("ada").await;
    hire(world, "mia@example.com").await;
    for (path, email, whereabouts) in [
        ("/v1/admin/staff", "mia@example.com", "`GET /v1/admin/staff`"),
        ("/v1/admin/accounts", &*ada.email, "`GET /v1/admin/accounts?email=…`"),
    ] {
        let body = json!({"email": email, "password": PASSWORD});
        let made = world.post(Env::Live, path).bearer(world.staff().await).json(body).await;
        let taken = made.fault("/email", "invalid_email");
        assert!(taken.word("detail").contains(whereabouts), "{path}: {}", taken.text);
        assert!(!taken.word("detail").contains("log in"), "{path}: {}", taken.text);
    }
    let body = json!({"email": ada.email, "password": PASSWORD});
    let again = world.post(Env::Sandbox, "/v1/auth/signup").json(body).await;
    assert!(again.word("detail").contains("log in"), "{}", again.text);
}

async fn staff_who_show_a_key_are_told_where_a_token_is(world: &World) {
    let ada = world.account("ada").await;
    let shown = ada.call("GET", "/v1/admin/staff").await.problem("missing_credentials");
    let detail = shown.word("detail");
    for part in ["This is an API key", "POST /v1/admin/auth/login"] {
        assert!(detail.contains(part), "{detail}");
    }
    let none = world.get(Env::Sandbox, "/v1/admin/staff").await.problem("missing_credentials");
    assert!(!none.word("detail").contains("This is"), "{}", none.text);
}

async fn staff_come_and_go(world: &World) {
    let ann = world.staff().await;
    let me = list(world, ann).await[0]["id"].as_str().unwrap().to_owned();
    let remove = |token: &str, id: &str| {
        world.delete(Env::Live, &format!("/v1/admin/staff/{id}")).bearer(token)
    };
    remove(ann, &me).await.problem("limit_reached");
    let add = |body: Value| world.post(Env::Live, "/v1/admin/staff").bearer(ann).json(body);
    let made = add(json!({"email": "Bob@example.com"})).await.ok();
    let (bob, password) = (made.word("staff_id"), made.word("password"));
    assert!(is_id("stf", bob));
    assert_eq!(made.word("id"), bob);
    add(json!({"email": "bob@example.com"})).await.fault("/email", "invalid_email");
    let login = login_from(world, LOGIN, "bob@example.com", (password, "")).await.ok();
    let token = login.word("token");
    let listed = list(world, token).await;
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[0]["id"], &listed[0]["email"]), (&json!(bob), &json!("bob@example.com")));
    assert!(is_instant(listed[0]["created_at"].as_str().unwrap()));
    assert!(is_instant(listed[0]["last_login_at"].as_str().unwrap()));
    remove(ann, bob).await.ok();
    let after = world.get(Env::Live, "/v1/admin/staff").bearer(token).await;
    after.problem("invalid_token");
    login_from(world, LOGIN, "bob@example.com", (password, "")).await.problem("invalid_login");
    remove(ann, bob).await.problem("not_found");
    assert_eq!(noted(world, "staff.remove").await[0]["object_id"], bob);
    // An email is free again, and who is not the last may leave.
    let (carol, token) = hire(world, "bob@example.com").await;
    remove(&token, &carol).await.ok();
    remove(ann, &me).await.problem("limit_reached");
}

async fn two_who_remove_each_other_do_not_both_succeed(world: &World) {
    let ann = world.staff().await;
    let mut me = list(world, ann).await[0]["id"].as_str().unwrap().to_owned();
    let mut token = ann.to_owned();
    for round in 0..5 {
        let body = json!({"email": format!("bob{round}@example.com"), "password": PASSWORD});
        let made = world.post(Env::Live, "/v1/admin/staff").bearer(&token).json(&body).await.ok();
        let bob = made.word("staff_id").to_owned();
        let email = format!("bob{round}@example.com");
        let bobs = login_from(world, LOGIN, &email, (PASSWORD, "")).await.ok();
        let bobs = bobs.word("token").to_owned();
        let remove = |token: &str, id: &str| {
            let path = format!("/v1/admin/staff/{id}");
            let call = world.delete(Env::Live, &path).bearer(token);
            async move { call.await }
        };
        let (one, other) = tokio::join!(remove(&token, &bob), remove(&bobs, &me));
        let gone = [one.status, other.status].into_iter().filter(|status| *status == 200).count();
        assert_eq!(gone, 1, "{} {}", one.text, other.text);
        if other.status == 200 {
            (me, token) = (bob, bobs);
        }
        assert_eq!(list(world, &token).await.len(), 1);
    }
}

async fn staff_change_their_password(world: &World) {
    world.staff().await;
    let (_, old) = hire(world, "bob@example.com").await;
    let other = login_from(world, LOGIN, "bob@example.com", (PASSWORD, "")).await.ok();
    let new = "another horse battery 43";
    let change = |current: &str, new: &str| {
        let call = world.post(Env::Live, "/v1/admin/auth/password").bearer(&old);
        call.json(json!({"current": current, "new": new}))
    };
    let wrong = change("not the password", new).await.problem("invalid_login");
    assert!(wrong.word("detail").starts_with("`current` is not the password"), "{}", wrong.text);
    change(PASSWORD, PASSWORD).await.fault("/new", "out_of_range");
    change(PASSWORD, "bob@example.com").await.fault("/new", "out_of_range");
    change(PASSWORD, new).await.ok();
    let gone = world.get(Env::Live, "/v1/admin/staff").bearer(other.word("token")).await;
    gone.problem("invalid_token");
    list(world, &old).await;
    login_from(world, LOGIN, "bob@example.com", (PASSWORD, "")).await.problem("invalid_login");
    login_from(world, LOGIN, "bob@example.com", (new, "")).await.ok();
    assert_eq!(noted(world, "staff.password").await.len(), 1);
}

async fn staff_see_and_end_the_keys_of_an_account(world: &World) {
    let (ada, bob) = (world.account("ada").await, world.account("bob").await);
    let staff = world.staff().await;
    let path = format!("/v1/admin/accounts/{}/api-keys", ada.account_id);
    let keys = world.get(Env::Live, &path).bearer(staff).await.ok();
    assert_eq!(keys.body, ada.desk("GET", "/v1/api-keys").await.ok().body);
    assert!(!keys.text.contains(&ada.key));
    let unknown = path.replace(&ada.account_id, "acc_01kdv00000000000000000000z");
    world.get(Env::Live, &unknown).bearer(staff).await.problem("not_found");
    let end = |account: &str, key: &str| {
        let path = format!("/v1/admin/accounts/{account}/api-keys/{key}");
        world.delete(Env::Live, &path).bearer(staff)
    };
    end(&bob.account_id, &ada.key_id).await.problem("not_found");
    ada.send_to(&phone("5678")).await.ok();
    let ended = end(&ada.account_id, &ada.key_id).await.ok();
    assert_eq!(ended.body, json!({"id": ada.key_id, "active": false}));
    end(&ada.account_id, &ada.key_id).await.ok();
    ada.send_to(&phone("5679")).await.problem("invalid_api_key");
    bob.send_to(&phone("5678")).await.ok();
    let line = &noted(world, "api_key.disable").await[0];
    assert_eq!((&line["actor_kind"], &line["object_id"]), (&json!("staff"), &json!(ada.key_id)));
}
