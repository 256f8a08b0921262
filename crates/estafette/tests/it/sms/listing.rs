//! Lists and reads of messages: filters, pages, other accounts.

use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    a_list_shows_each_message_as_its_read_does,
    filters_choose_by_recipient_reference_status_and_time,
    pages_lead_through_all_messages_once,
    what_is_no_filter_is_refused,
    other_accounts_messages_do_not_exist,
);

async fn send(ada: &Tenant<'_>, ending: &str, reference: &str) -> String {
    let body = json!({"to": phone(ending), "text": "x", "reference": reference});
    ada.text(body).await.ok().word("id").to_owned()
}

async fn ids(ada: &Tenant<'_>, query: &str) -> Vec<String> {
    let page = ada.get(&format!("/v1/messages?{query}")).await.ok();
    page.list().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

async fn a_list_shows_each_message_as_its_read_does(world: &World) {
    let ada = world.account("ada").await;
    let (one, two) = (send(&ada, "0004", "a").await, send(&ada, "5678", "b").await);
    let failed = ada.sms_until(&one, "failed").await;
    let delivered = ada.sms_until(&two, "delivered").await;
    let page = ada.get("/v1/messages").await.ok();
    assert_eq!(page.list(), [delivered.body, failed.body], "newest first");
}

async fn filters_choose_by_recipient_reference_status_and_time(world: &World) {
    let ada = world.account("ada").await;
    let one = send(&ada, "5678", "a").await;
    world.advance(clock::MINUTE).await;
    let noon = world.now().to_string();
    let two = send(&ada, "5679", "a").await;
    let three = send(&ada, "0004", "b").await;
    ada.sms_until(&one, "delivered").await;
    ada.sms_until(&two, "delivered").await;
    ada.sms_until(&three, "failed").await;
    let to = phone("5678");
    for (query, expected) in [
        (format!("to={}", to.replace('+', "%2B")), vec![&one]),
        (format!("to={}", &to[1..]), vec![&one]),
        ("reference=a".to_owned(), vec![&two, &one]),
        (format!("reference=a&to={}", &to[1..]), vec![&one]),
        (format!("reference=b&to={}", &to[1..]), vec![]),
        ("status=failed".to_owned(), vec![&three]),
        ("status=delivered&reference=a".to_owned(), vec![&two, &one]),
        (format!("since={noon}"), vec![&three, &two]),
        (format!("until={noon}"), vec![&one]),
        (format!("since={noon}&status=delivered"), vec![&two]),
        ("reference=c".to_owned(), vec![]),
    ] {
        let found = ids(&ada, &query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

async fn pages_lead_through_all_messages_once(world: &World) {
    let ada = world.account("ada").await;
    let mut sent = vec![];
    for index in 0..7 {
        sent.push(send(&ada, &format!("56{index:02}"), "r").await);
    }
    sent.reverse();
    for filter in ["", "&reference=r"] {
        let seen = ada.pages(&format!("/v1/messages?limit=3{filter}")).await;
        let seen: Vec<&str> = seen.iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(seen, sent, "{filter}");
    }
}

async fn what_is_no_filter_is_refused(world: &World) {
    let ada = world.account("ada").await;
    for (query, pointer, code) in [
        ("status=sent", "?status", "invalid_enum"),
        ("to=12", "?to", "invalid_phone_number"),
        ("since=yesterday", "?since", "invalid_type"),
        ("limit=0", "?limit", "out_of_range"),
        ("sender=ACME", "?sender", "unknown_field"),
    ] {
        let refused = ada.get(&format!("/v1/messages?{query}")).await.problem("invalid_request");
        assert_eq!(refused.item(pointer).as_deref(), Some(code), "{query}: {}", refused.text);
    }
    ada.get("/v1/messages?cursor=abc").await.problem("invalid_cursor");
}

async fn other_accounts_messages_do_not_exist(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let id = send(&ada, "5678", "r").await;
    eve.sms(&id).await.problem("not_found");
    assert!(ids(&eve, "reference=r").await.is_empty());
    assert!(ids(&eve, &format!("to={}", &phone("5678")[1..])).await.is_empty());
    assert!(eve.handset(&phone("5678")).await.is_empty());
    for id in ["sms_nonsense", "otp_01kdvqh6m4e5s8w2t9zb3y7n1f", "%00"] {
        ada.sms(id).await.problem("not_found");
    }
}
