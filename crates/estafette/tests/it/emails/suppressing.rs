//! Addresses that an account does not write to.

use clock::MINUTE;
use serde_json::json;

use super::{fixed, mail, mailbox, read, send, until};
use crate::on_every_engine;
use crate::world::{World, contract, eventually};

on_every_engine!(
    a_suppressed_address_gets_nothing_and_costs_nothing,
    an_address_is_looked_up_again_before_it_goes_out,
    suppressions_are_listed_and_lifted,
);

async fn a_suppressed_address_gets_nothing_and_costs_nothing(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"address": "Carl@Example.com"});
    let listed = ada.desk("POST", "/v1/email-suppressions").json(body).await.ok();
    assert_eq!((listed.word("address"), listed.word("reason")), ("carl@example.com", "manual"));
    assert!(contract::is_instant(listed.word("created_at")));
    let sent = send(&ada, mail("Carl <carl@example.com>")).await.ok();
    assert_eq!((sent.word("status"), sent.number("charged_credits")), ("suppressed", 0));
    let mut body = mail("carl@example.com");
    body["cc"] = json!(["ada@example.com"]);
    let sent = send(&ada, body).await.ok();
    let now = until(&ada, sent.word("id"), "delivered").await;
    let carl = &now.field("recipients")[0];
    assert_eq!(
        (&carl["status"], &carl["error"]["code"]),
        (&json!("suppressed"), &json!("suppressed"))
    );
    assert_eq!(mailbox(&ada, "ada@example.com").await.len(), 1);
    assert!(mailbox(&ada, "carl@example.com").await.is_empty());
    assert_eq!(ada.balance().await, 1_000_000 - 1);
    // Other accounts have lists of their own.
    let eve = world.account("eve").await;
    let sent = send(&eve, mail("carl@example.com")).await.ok();
    until(&eve, sent.word("id"), "delivered").await;
}

async fn an_address_is_looked_up_again_before_it_goes_out(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, mail(&fixed("deferred"))).await.ok();
    let is_put_off =
        store::Sql("SELECT error FROM attempts WHERE state = 'queued' AND next_at > $1");
    eventually(async || {
        let app = world.app(ada.env).await;
        let rows = app.db.rows::<(Option<String>,)>(is_put_off, store::args![app.now() + MINUTE]);
        (rows.await.unwrap().len() == 1).then_some(())
    })
    .await;
    let body = json!({"address": fixed("deferred")});
    ada.desk("POST", "/v1/email-suppressions").json(body).await.ok();
    world.advance(6 * MINUTE).await;
    let now = until(&ada, sent.word("id"), "suppressed").await;
    assert_eq!(now.number("charged_credits"), 0);
    assert!(mailbox(&ada, &fixed("deferred")).await.is_empty());
    assert_eq!(ada.balance().await, 1_000_000);
}

async fn suppressions_are_listed_and_lifted(world: &World) {
    let ada = world.account("ada").await;
    for name in ["a", "b", "c"] {
        let body = json!({"address": format!("{name}@example.com")});
        for _ in 0..2 {
            ada.desk("POST", "/v1/email-suppressions").json(&body).await.ok();
        }
    }
    let list = ada.get("/v1/email-suppressions?limit=2").await.ok();
    let addresses: Vec<_> =
        list.list().iter().map(|row| row["address"].as_str().unwrap()).collect();
    assert_eq!(addresses, ["c@example.com", "b@example.com"]);
    assert!(list.head("link").contains("rel=\"next\""));
    let one = ada.get("/v1/email-suppressions?address=A@example.com").await.ok();
    assert_eq!(one.list()[0]["address"], "a@example.com");
    // A plus is a space in a query, and no address has one.
    assert!(ada.get("/v1/email-suppressions?address=a+b@example.com").await.ok().list().is_empty());
    assert!(ada.get("/v1/emails?to=a+b@example.com").await.ok().list().is_empty());
    let path = "/v1/email-suppressions/A@example.com";
    let removed = ada.desk("DELETE", path).await.ok();
    assert_eq!(removed.word("address"), "a@example.com");
    let gone = ada.desk("DELETE", path).await.problem("not_found");
    assert!(gone.word("detail").contains("not on the account's list"), "{}", gone.text);
    // The audit log says who did it, once for each change, and names no address.
    let log = world.get(ada.env, "/v1/admin/audit-log?limit=200").bearer(world.staff().await);
    let log = log.await.ok();
    let count = |action: &str| log.list().iter().filter(|line| line["action"] == action).count();
    assert_eq!((count("email_suppression.add"), count("email_suppression.remove")), (3, 1));
    assert!(!log.text.contains("a@example.com"), "{}", log.text);
    let sent = send(&ada, mail("a@example.com")).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    let fault = ada.desk("POST", "/v1/email-suppressions").json(json!({"address": "x"})).await;
    fault.fault("/address", "invalid_email");
    // Reading is open to keys, writing is not.
    let call = ada.call("POST", "/v1/email-suppressions").json(json!({"address": "a@b.example"}));
    call.await.problem("missing_credentials");
    drop(read(&ada, sent.word("id")).await.ok());
}
