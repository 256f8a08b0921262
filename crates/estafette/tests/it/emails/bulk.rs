//! Many emails in one request.

use serde_json::{Value, json};

use super::{FROM, fixed, mail, mailbox, until};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::Tenant;

on_every_engine!(
    each_email_is_taken_or_refused_on_its_own_and_in_order,
    a_request_as_a_whole_is_bounded,
    a_repeated_bulk_sends_no_email_twice_and_repeats_its_refusals,
    an_email_that_a_repeat_sent_is_not_called_refused,
    emails_that_nobody_can_pay_are_refused_alone,
);

fn send(ada: &Tenant<'_>, messages: &[Value]) -> crate::world::Call {
    ada.call("POST", "/v1/emails/bulk").json(json!({"messages": messages}))
}

async fn each_email_is_taken_or_refused_on_its_own_and_in_order(world: &World) {
    let ada = world.account("ada").await;
    let mut foreign = mail("ada@example.com");
    foreign["from_email"] = json!("shop@example.com");
    let mut bad = mail("nobody");
    bad["attachments"] = json!([{"filename": "a"}]);
    let messages = vec![
        mail("ada@example.com"),
        bad,
        json!("text"),
        foreign,
        mail(&fixed("suppressed")),
        mail("bob@example.com"),
    ];
    let answer = send(&ada, &messages).await.ok();
    assert_eq!(answer.names(), ["results"]);
    let results = answer.field("results").as_array().unwrap();
    assert_eq!(results[2]["error"]["detail"], "The email must be an object.", "{}", answer.text);
    let stands: Vec<_> = results
        .iter()
        .map(|row| (row["index"].as_i64().unwrap(), row["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        stands,
        [
            (0, "queued"),
            (1, "rejected"),
            (2, "rejected"),
            (3, "rejected"),
            (4, "suppressed"),
            (5, "queued")
        ]
    );
    for place in [0, 4, 5] {
        assert!(results[place].get("error").is_none());
        let id = results[place]["id"].as_str().unwrap();
        if place != 4 {
            until(&ada, id, "delivered").await;
        }
    }
    for place in [1, 2, 3] {
        assert_eq!(results[place]["id"], json!(null));
    }
    let error = &results[1]["error"];
    assert_eq!(error["code"], "validation_failed");
    let pointers: Vec<_> =
        error["errors"].as_array().unwrap().iter().map(|item| &item["pointer"]).collect();
    assert_eq!(pointers, ["/messages/1/to/0", "/messages/1/attachments/0/content"]);
    assert_eq!(results[2]["error"]["errors"][0]["pointer"], "/messages/2");
    assert_eq!(results[3]["error"]["code"], "domain_not_verified");
    assert!(results[3]["error"]["detail"].as_str().unwrap().contains("example.com"));
    assert_eq!(ada.balance().await, 1_000_000 - 2);
}

async fn a_request_as_a_whole_is_bounded(world: &World) {
    let ada = world.account("ada").await;
    send(&ada, &[]).await.fault("/messages", "too_short");
    send(&ada, &vec![json!({}); 101]).await.fault("/messages", "too_long");
    let call = |body: Value| ada.call("POST", "/v1/emails/bulk").json(body);
    call(json!({})).await.fault("/messages", "required");
    call(json!({"messages": "x"})).await.fault("/messages", "invalid_type");
    call(json!({"messages": [{}], "x": 1})).await.fault("/x", "unknown_field");
    let answer = send(&ada, &vec![mail("ada@example.com"); 100]).await.ok();
    assert_eq!(answer.field("results").as_array().unwrap().len(), 100);
    for row in answer.field("results").as_array().unwrap() {
        until(&ada, row["id"].as_str().unwrap(), "delivered").await;
    }
    assert_eq!(mailbox(&ada, "ada@example.com").await.len(), 50, "one page");
}

async fn a_repeated_bulk_sends_no_email_twice_and_repeats_its_refusals(world: &World) {
    let ada = world.account("ada").await;
    let mut own = mail("ada@example.com");
    own["from_email"] = json!("shop@example.com");
    let messages = vec![mail("bob@example.com"), own];
    let first = send(&ada, &messages).header("idempotency-key", "k1").await.ok();
    assert_eq!(first.field("results")[1]["status"], "rejected");
    let id = first.field("results")[0]["id"].clone();
    until(&ada, id.as_str().unwrap(), "delivered").await;
    let domain =
        ada.desk("POST", "/v1/email-domains").json(json!({"domain": "example.com"})).await.ok();
    let path = format!("/v1/email-domains/{}/verify", domain.word("id"));
    ada.desk("POST", &path).await.ok();
    let again = send(&ada, &messages).header("idempotency-key", "k1").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(
        (&again.field("results")[0]["id"], &again.field("results")[0]["status"]),
        (&id, &json!("delivered"))
    );
    assert_eq!(again.field("results")[1], first.field("results")[1], "though it is verified now");
    let other_key = send(&ada, &messages).header("idempotency-key", "k2").await.ok();
    assert_eq!(other_key.field("results")[1]["status"], "queued");
    let sent = other_key.field("results").as_array().unwrap().iter();
    for row in sent {
        until(&ada, row["id"].as_str().unwrap(), "delivered").await;
    }
    for (address, got) in [("ada@example.com", 1), ("bob@example.com", 2)] {
        assert_eq!(mailbox(&ada, address).await.len(), got, "{address}");
    }
    let other = send(&ada, &[mail("carl@example.com")]).header("idempotency-key", "k1").await;
    other.problem("idempotency_key_reused");
}

/// A request finds no credits for an email; before it has written that down, there are some, and a
/// repeat sends the email.
async fn an_email_that_a_repeat_sent_is_not_called_refused(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -1_000_000).await.ok();
    let messages = vec![mail("ada@example.com")];
    let ask = async || send(&ada, &messages).header("idempotency-key", "k1").await.ok();
    let first = ask().await;
    assert_eq!(first.field("results")[0]["error"]["code"], "insufficient_credits");
    let db = world.app(ada.env).await.db.clone();
    let kept = store::Sql("SELECT answer FROM idempotency WHERE idem_key = 'k1'");
    let kept: (String,) = db.row(kept, store::args![]).await.unwrap().unwrap();
    let keep = async |answer: Option<String>| {
        let mut set = store::WriteSet::of("story");
        let sql = store::Sql("UPDATE idempotency SET answer = $1 WHERE idem_key = 'k1'");
        set.push(sql, store::args![answer]);
        db.commit(set).await.unwrap();
    };
    keep(None).await;
    world.credit(&ada, 10).await.ok();
    let second = ask().await;
    let id = second.field("results")[0]["id"].as_str().unwrap();
    until(&ada, id, "delivered").await;
    keep(Some(kept.0)).await;
    let third = ask().await;
    assert_eq!(third.field("results")[0]["id"], id, "{}", third.text);
    assert_eq!(third.field("results")[0]["status"], "delivered");
    assert_eq!((ada.balance().await, mailbox(&ada, "ada@example.com").await.len()), (9, 1));
}

async fn emails_that_nobody_can_pay_are_refused_alone(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -999_997).await.ok();
    let messages = vec![
        json!({"to": ["a@b.example", "c@d.example"], "from_email": FROM, "subject": "x",
            "text": "y"});
        3
    ];
    let answer = send(&ada, &messages).await.ok();
    let results = answer.field("results").as_array().unwrap();
    let is_taken = |row: &&Value| row["id"].is_string();
    assert_eq!(results.iter().filter(is_taken).count(), 1, "{}", answer.text);
    for row in results.iter().filter(|row| !is_taken(row)) {
        assert_eq!(row["error"]["code"], "insufficient_credits");
    }
    for row in results.iter().filter(is_taken) {
        until(&ada, row["id"].as_str().unwrap(), "delivered").await;
    }
    assert_eq!(ada.balance().await, 1);
}
