//! One-click unsubscribe, for emails of a bulk request.

use estafette::app::Env;
use serde_json::{Value, json};

use super::{mail, mailbox, send, until};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::Tenant;

on_every_engine!(a_post_unsubscribes_and_a_get_only_asks, only_bulk_emails_to_one_person_offer_it,);

async fn bulk(ada: &Tenant<'_>, message: &Value) {
    let body = json!({"messages": [message]});
    let answer = ada.call("POST", "/v1/emails/bulk").json(body).await.ok();
    until(ada, answer.field("results")[0]["id"].as_str().unwrap(), "delivered").await;
}

/// The value of a header of the newest email in a mailbox.
async fn header(ada: &Tenant<'_>, address: &str, name: &str) -> Option<String> {
    let mails = mailbox(ada, address).await;
    let headers = mails[0]["headers"].as_array().unwrap();
    let is_it = |header: &&Value| header["name"].as_str().unwrap().eq_ignore_ascii_case(name);
    let found = headers.iter().find(is_it);
    found.map(|header| header["value"].as_str().unwrap().trim().to_owned())
}

async fn a_post_unsubscribes_and_a_get_only_asks(world: &World) {
    let ada = world.account("ada").await;
    bulk(&ada, &mail("bob@example.com")).await;
    let value = header(&ada, "bob@example.com", "List-Unsubscribe").await.unwrap();
    let base = &world.config().server.sandbox_url;
    let path = value.strip_prefix(&format!("<{base}")).unwrap().strip_suffix('>').unwrap();
    let one_click = header(&ada, "bob@example.com", "List-Unsubscribe-Post").await;
    assert_eq!(one_click.as_deref(), Some("List-Unsubscribe=One-Click"));
    for forged in [
        path.replace('.', ""),
        format!("{path}0"),
        path[..path.len() - 1].to_owned(),
        format!("{path}.x"),
        "/unsubscribe/x".to_owned(),
    ] {
        world.post(ada.env, &forged).await.problem("not_found");
    }
    world.post(Env::Live, path).await.problem("not_found");
    let asked = world.get(ada.env, path).await;
    assert_eq!(asked.status, 200);
    assert!(asked.text.contains("<form method=\"post\">"), "{}", asked.text);
    // The same address on live leads nowhere.
    world.get(Env::Live, path).await.problem("not_found");
    world.post(Env::Live, path).await.problem("not_found");
    assert!(ada.get("/v1/email-suppressions").await.ok().list().is_empty(), "it only asked");
    for _ in 0..2 {
        let done = world.post(ada.env, path);
        let done = done.raw("application/x-www-form-urlencoded", "List-Unsubscribe=One-Click");
        assert_eq!(done.await.status, 200);
    }
    let list = ada.get("/v1/email-suppressions").await.ok();
    let [listed] = list.list() else { panic!("{}", list.text) };
    assert_eq!(listed["address"], "bob@example.com");
    assert_eq!(listed["reason"], "unsubscribed");
    let refused = send(&ada, mail("bob@example.com")).await.ok();
    assert_eq!(refused.word("status"), "suppressed");
    // It is between this account and this person.
    let eve = world.account("eve").await;
    let sent = send(&eve, mail("bob@example.com")).await.ok();
    until(&eve, sent.word("id"), "delivered").await;
}

async fn only_bulk_emails_to_one_person_offer_it(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, mail("bob@example.com")).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    assert_eq!(header(&ada, "bob@example.com", "List-Unsubscribe").await, None, "sent alone");
    let mut two = mail("bob@example.com");
    two["cc"] = json!(["carl@example.com"]);
    bulk(&ada, &two).await;
    assert_eq!(header(&ada, "carl@example.com", "List-Unsubscribe").await, None, "whose link?");
    let mut own = mail("dan@example.com");
    own["headers"] = json!({"list-unsubscribe": "<https://shop.example/stop>"});
    bulk(&ada, &own).await;
    let value = header(&ada, "dan@example.com", "list-unsubscribe").await;
    assert_eq!(value.as_deref(), Some("<https://shop.example/stop>"));
    assert_eq!(header(&ada, "dan@example.com", "List-Unsubscribe-Post").await, None);
}
