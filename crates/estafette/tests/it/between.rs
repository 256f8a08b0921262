//! Lists with times: `since` and `until` cut each of them at an instant, and lose nothing.

use std::collections::BTreeSet;

use estafette::app::Env;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::tenant::{PASSWORD, Tenant, phone};
use crate::world::{Answer, World};

on_every_engine!(
    every_list_with_times_is_cut_at_an_instant,
    a_time_that_is_none_is_named_on_every_list,
    an_empty_filter_is_named_and_shows_nothing_by_accident,
);

/// Lists of an account's program, of its owner, and of staff. On those of the first column that
/// are `true`, the story makes something before and after.
const LISTS: &[(bool, Who, &str)] = &[
    (true, Who::Program, "/v1/otp"),
    (true, Who::Program, "/v1/messages"),
    (true, Who::Program, "/v1/emails"),
    (true, Who::Program, "/v1/chatapp/messages"),
    (true, Who::Program, "/v1/events"),
    (true, Who::Program, "/v1/inbound-notifications"),
    (true, Who::Owner, "/v1/ledger"),
    (true, Who::Owner, "/v1/webhooks"),
    (true, Who::Owner, "/v1/senders"),
    (true, Who::Owner, "/v1/api-keys"),
    (true, Who::Owner, "/v1/auth/sessions"),
    (true, Who::Owner, "/v1/support/tickets"),
    (false, Who::Owner, "/v1/chatapp/sessions"),
    (true, Who::Owner, "/v1/email-domains"),
    (true, Who::Owner, "/v1/email-suppressions"),
    (true, Who::Staff, "/v1/admin/accounts"),
    (true, Who::Staff, "/v1/admin/accounts/{account}/ledger"),
    (true, Who::Staff, "/v1/admin/accounts/{account}/api-keys"),
    (true, Who::Staff, "/v1/admin/audit-log"),
    (true, Who::Staff, "/v1/admin/senders"),
    (true, Who::Staff, "/v1/admin/staff"),
    (true, Who::Staff, "/v1/admin/support/tickets"),
    (false, Who::Staff, "/v1/admin/inbound-notifications"),
];

#[derive(Clone, Copy)]
enum Who {
    Program,
    Owner,
    Staff,
}

async fn read(ada: &Tenant<'_>, who: Who, path: &str) -> Answer {
    let path = &path.replace("{account}", &ada.account_id);
    match who {
        Who::Program => ada.get(path).await,
        Who::Owner => ada.desk("GET", path).await,
        Who::Staff => {
            let staff = ada.world.staff().await;
            ada.world.get(Env::Live, path).bearer(staff).await
        }
    }
}

async fn rows(ada: &Tenant<'_>, who: Who, path: &str, query: &str) -> BTreeSet<String> {
    let page = read(ada, who, &format!("{path}?limit=200&{query}")).await.ok();
    page.list().iter().map(Value::to_string).collect()
}

/// One of everything that a list shows.
async fn make(world: &World, ada: &Tenant<'_>, run: &str) {
    let to = phone(&format!("567{run}"));
    ada.send_to(&to).await.ok();
    ada.text(json!({"to": to, "text": "Bonjour"})).await.ok();
    let reply = format!("/v1/sandbox/handsets/{to}/replies");
    ada.call("POST", &reply).json(json!({"text": "Bonjour"})).await.ok();
    let chat = json!({"to": to, "text": "Bonjour", "billing_mode": "direct"});
    ada.call("POST", "/v1/chatapp/messages").json(chat).await.ok();
    ada.call("POST", "/v1/emails")
        .json(crate::emails::mail(&format!("ana{run}@example.com")))
        .await
        .ok();
    ada.desk("POST", "/v1/webhooks")
        .json(json!({"url": format!("http://127.0.0.1:9999/{run}"), "events": ["sms.delivery"]}))
        .await
        .ok();
    ada.desk("POST", "/v1/senders").json(json!({"value": format!("ACME{run}")})).await.ok();
    let domain = json!({"domain": format!("shop{run}.example")});
    ada.desk("POST", "/v1/email-domains").json(domain).await.ok();
    let gone = json!({"address": format!("gone{run}@example.com")});
    ada.desk("POST", "/v1/email-suppressions").json(gone).await.ok();
    ada.new_key(run, &["otp:send"]).await;
    let login = json!({"email": ada.email, "password": PASSWORD});
    world.post(Env::Sandbox, "/v1/auth/login").json(login).await.ok();
    crate::support::open(ada, "x", "x").await;
    world.account(&format!("eve{run}")).await;
    let staff = world.staff().await;
    let colleague = json!({"email": format!("staff{run}@example.com"),
        "password": "correct horse battery staple"});
    world.call("POST", Env::Live, "/v1/admin/staff").bearer(staff).json(colleague).await.ok();
}

async fn every_list_with_times_is_cut_at_an_instant(world: &World) {
    let ada = world.account("ada").await;
    world.staff().await;
    make(world, &ada, "1").await;
    world.settle().await;
    world.advance(clock::MINUTE).await;
    let noon = world.now().to_string();
    make(world, &ada, "2").await;
    world.settle().await;
    for (has_both, who, path) in LISTS {
        // What is told of the first half meanwhile is news of the second.
        let all = rows(&ada, *who, path, "").await;
        let after = rows(&ada, *who, path, &format!("since={noon}")).await;
        let before = rows(&ada, *who, path, &format!("until={noon}")).await;
        assert_eq!(&before | &after, all, "{path}");
        assert!(before.is_disjoint(&after), "{path}");
        assert!(!has_both || (!before.is_empty() && !after.is_empty()), "{path}: {all:?}");
        let none = rows(&ada, *who, path, &format!("since={noon}&until={noon}")).await;
        assert!(none.is_empty(), "{path}: {none:?}");
        // What was made at an instant is since it. A line of the ledger counts by its hold.
        for row in all.iter().filter(|_| !path.ends_with("/ledger")) {
            let row: Value = serde_json::from_str(row).unwrap();
            let Some(made_at) = row["created_at"].as_str() else { continue };
            let since = read(&ada, *who, &format!("{path}?limit=200&since={made_at}")).await.ok();
            let is_it = |other: &Value| other["created_at"] == *made_at;
            assert!(since.list().iter().any(is_it), "{path} since {made_at}: {row}");
        }
    }
}

async fn a_time_that_is_none_is_named_on_every_list(world: &World) {
    let ada = world.account("ada").await;
    for (_, who, path) in LISTS {
        for name in ["since", "until"] {
            let answer = read(&ada, *who, &format!("{path}?{name}=yesterday")).await;
            let answer = answer.problem("invalid_request");
            assert_eq!(answer.item(&format!("?{name}")), Some("invalid_type".to_owned()), "{path}");
        }
    }
}

async fn an_empty_filter_is_named_and_shows_nothing_by_accident(world: &World) {
    let ada = world.account("ada").await;
    for (who, path, filter) in [
        (Who::Program, "/v1/otp", "reference"),
        (Who::Program, "/v1/events", "type"),
        (Who::Owner, "/v1/senders", "status"),
        (Who::Owner, "/v1/chatapp/sessions", "recipient"),
        (Who::Staff, "/v1/admin/accounts", "email"),
        (Who::Staff, "/v1/admin/audit-log", "account_id"),
        (Who::Staff, "/v1/admin/prices", "channel"),
        (Who::Staff, "/v1/admin/inbound-notifications", "sender"),
    ] {
        let answer = read(&ada, who, &format!("{path}?{filter}=")).await;
        let answer = answer.problem("invalid_request");
        assert_eq!(answer.item(&format!("?{filter}")), Some("too_short".to_owned()), "{path}");
    }
    for (path, filter) in [
        ("/v1/admin/prices?channel=fax", "channel"),
        ("/v1/admin/prices?category=x", "category"),
        ("/v1/admin/prices?country=XX", "country"),
    ] {
        let answer = read(&ada, Who::Staff, path).await.problem("invalid_request");
        assert_eq!(answer.item(&format!("?{filter}")), Some("invalid_enum".to_owned()), "{path}");
    }
}
