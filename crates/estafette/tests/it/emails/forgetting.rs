//! What is forgotten of emails: what they say once nobody has to get it, who got them after a time
//! or when the person asks, the rest at last.

use clock::{DAY, MINUTE};
use estafette::app::Env;
use estafette::config::Config;
use serde_json::{Value, json};
use store::{FromVal, Sql, args};

use super::{fixed, mail, mailbox, read, send, until};
use crate::on_every_engine;
use crate::world::faults::How;
use crate::world::{World, eventually};

on_every_engine!(
    what_an_email_says_is_sealed_and_kept_only_while_somebody_has_to_get_it,
    old_emails_name_nobody_and_are_deleted_at_last with kept_as_on_live,
    an_erased_person_is_sent_nothing_and_is_in_no_row,
    an_email_whose_time_is_over_goes_with_its_person_all_the_same,
    a_repeat_after_an_erasure_sends_nothing_again,
    the_key_of_a_bulk_is_erased_with_each_of_its_people,
    the_others_of_an_email_stay_when_one_is_erased,
    what_names_an_erased_person_leaves_the_mailboxes_of_others,
    a_mailbox_keeps_its_mail_for_a_day,
    the_mailboxes_of_an_account_keep_so_many_bytes_the_newest_first,
);

const TEXT: &str = "The cat sat on the mat.";

fn kept_as_on_live(config: &mut Config) {
    config.retention.challenges_d = 120;
    config.retention.sandbox_d = 120;
}

async fn one<T: FromVal>(world: &World, sql: &'static str) -> T {
    let db = world.app(Env::Live).await.db.clone();
    db.row::<(T,)>(Sql(sql), args![]).await.unwrap().unwrap().0
}

const CONTENTS: &str = "SELECT COUNT(*) FROM email_contents";

async fn what_an_email_says_is_sealed_and_kept_only_while_somebody_has_to_get_it(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("ada@example.com");
    body["text"] = json!(TEXT);
    body["to"] = json!(["delivered", "deferred", "bounced", "suppressed"].map(fixed));
    let sent = send(&ada, &body).await.ok();
    eventually(async || {
        let now = read(&ada, sent.word("id")).await.ok();
        let stands = |place: usize| now.field("recipients")[place]["status"].clone();
        (stands(0) == "delivered" && stands(2) == "bounced").then_some(())
    })
    .await;
    let sealed: Vec<u8> = one(world, "SELECT sealed FROM email_contents").await;
    assert!(!sealed.windows(3).any(|window| window == b"cat"));
    world.advance(6 * MINUTE).await;
    until(&ada, sent.word("id"), "bounced").await;
    assert_eq!(one::<i64>(world, CONTENTS).await, 0);
    body["to"] = json!([fixed("suppressed")]);
    send(&ada, &body).await.ok();
    assert_eq!(one::<i64>(world, CONTENTS).await, 0);
}

async fn old_emails_name_nobody_and_are_deleted_at_last(world: &World) {
    let ada = world.account("ada").await;
    for (word, status) in
        [("delivered", "delivered"), ("bounced+ada", "bounced"), ("suppressed", "suppressed")]
    {
        let mut body = mail(&fixed(word));
        body["reference"] = json!("for ada");
        let sent = send(&ada, body).await.ok();
        until(&ada, sent.word("id"), status).await;
    }
    world.advance(91 * DAY).await;
    world.housekeep().await;
    let list = ada.get("/v1/emails").await.ok();
    assert_eq!(list.list().len(), 3);
    for row in list.list() {
        assert_eq!((&row["subject"], &row["reference"]), (&json!(""), &json!(null)));
        assert_eq!((&row["to"], &row["recipients"][0]["address"]), (&json!([]), &json!("")));
    }
    // What the account does not write to, it still does not.
    assert_eq!(ada.get("/v1/email-suppressions").await.ok().list().len(), 1);
    world.advance(31 * DAY).await;
    world.housekeep().await;
    for table in ["emails", "email_recipients", "email_contents", "attempts", "sandbox_mails"] {
        let sql: &'static str = format!("SELECT COUNT(*) FROM {table}").leak();
        assert_eq!(one::<i64>(world, sql).await, 0, "{table}");
    }
    let balance = ada.get("/v1/balance").await.ok();
    assert_eq!(balance.number("balance_credits"), 1_000_000 - 2);
}

async fn an_erased_person_is_sent_nothing_and_is_in_no_row(world: &World) {
    let ada = world.account("ada").await;
    let whom = "deferred+ada@sandbox.estafette.test";
    let mut body = mail(whom);
    body["cc"] = json!([fixed("deferred")]);
    let shared = send(&ada, &body).header("idempotency-key", whom).await.ok();
    let bounced = "bounced+ada@sandbox.estafette.test";
    let second = send(&ada, mail(bounced)).await.ok();
    until(&ada, second.word("id"), "bounced").await;
    eventually(async || {
        let sql = "SELECT COUNT(*) FROM attempts WHERE state = 'queued' AND error IS NOT NULL";
        (one::<i64>(world, sql).await == 2).then_some(())
    })
    .await;
    ada.get("/v1/events").await.ok();
    let erase = async |email: &str| {
        let call = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
        call.json(json!({"email": email})).await.ok()
    };
    let erased = erase(&whom.to_uppercase()).await;
    let counts = |answer: &crate::world::Answer| {
        (answer.number("emails"), answer.number("ended"), answer.number("idempotency_keys"))
    };
    assert_eq!(counts(&erased), (1, 1, 1), "{}", erased.text);
    assert_eq!(counts(&erase(bounced).await), (1, 0, 0));
    world.advance(6 * MINUTE).await;
    let now = until(&ada, shared.word("id"), "failed").await;
    let all = now.field("recipients");
    assert_eq!((&all[0]["address"], &all[0]["status"]), (&json!(""), &json!("failed")));
    // The other one gets it all the same.
    assert_eq!(all[1]["status"], "delivered");
    assert!(mailbox(&ada, whom).await.is_empty());
    assert_eq!(ada.balance().await, 1_000_000 - 2);
    assert_eq!(erase(whom).await.number("emails"), 0);
    // A bounce is remembered without the address.
    let list = ada.get("/v1/email-suppressions").await.ok();
    assert_eq!((&list.list()[0]["address"], list.list().len()), (&json!(""), 1));
    assert_eq!(send(&ada, mail(bounced)).await.ok().word("status"), "suppressed");
    erase(bounced).await;
    for address in [whom, bounced] {
        let found = crate::erasure::holding(world, address).await;
        assert!(found.is_empty(), "{address}: {found:?}");
    }
    let events = ada.get("/v1/events?limit=200").await.ok();
    assert!(!Value::from(events.list().to_vec()).to_string().contains("+ada@"));
    let call = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
    call.json(json!({"email": "x"})).await.fault("/email", "invalid_email");
}

async fn erase(world: &World, email: &str) -> crate::world::Answer {
    let call = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(world.staff().await);
    call.json(json!({"email": email})).await.ok()
}

/// As after an outage, when nothing has ended it yet.
async fn an_email_whose_time_is_over_goes_with_its_person_all_the_same(world: &World) {
    let ada = world.account("ada").await;
    let whom = "deferred+ada@sandbox.estafette.test";
    let sent = send(&ada, mail(whom)).await.ok();
    until(&ada, sent.word("id"), "queued").await;
    eventually(async || {
        let sql = "SELECT COUNT(*) FROM attempts WHERE state = 'queued' AND error IS NOT NULL";
        (one::<i64>(world, sql).await == 1).then_some(())
    })
    .await;
    world.faults.plan("UPDATE attempts SET next_at = $1", How::Unavailable, usize::MAX);
    world.stand_still_for(2 * DAY).await;
    let erased = erase(world, whom).await;
    assert_eq!((erased.number("emails"), erased.number("ended")), (1, 1), "{}", erased.text);
    assert_eq!(crate::erasure::holding(world, whom).await, Vec::<String>::new());
    assert_eq!(one::<i64>(world, CONTENTS).await, 0);
    world.faults.forget();
    assert_eq!(ada.balance().await, 1_000_000);
}

async fn a_repeat_after_an_erasure_sends_nothing_again(world: &World) {
    let ada = world.account("ada").await;
    let (dan, eve) = ("dan@example.com", "eve@example.com");
    let both = json!({"messages": [mail(dan), mail(eve)]});
    let bulk = async |body: &Value| {
        ada.call("POST", "/v1/emails/bulk").json(body).header("idempotency-key", dan).await
    };
    let first = bulk(&both).await.ok();
    let ids = [0, 1].map(|place| first.field("results")[place]["id"].clone());
    let mut shared = mail(dan);
    shared["to"] = json!([dan, eve]);
    let single = async || send(&ada, &shared).header("idempotency-key", "single").await.ok();
    let sent = single().await;
    for id in [ids[0].as_str().unwrap(), ids[1].as_str().unwrap(), sent.word("id")] {
        until(&ada, id, "delivered").await;
    }
    let balance = ada.balance().await;
    assert_eq!(erase(world, dan).await.number("idempotency_keys"), 2);
    // And again, as after an error: what is done stays done.
    assert_eq!(erase(world, dan).await.number("idempotency_keys"), 0);
    let again = bulk(&both).await.ok();
    assert_eq!([0, 1].map(|place| again.field("results")[place]["id"].clone()), ids);
    assert_eq!(single().await.word("id"), sent.word("id"));
    assert_eq!(ada.balance().await, balance);
    // What went to both names the one who is erased.
    assert_eq!((mailbox(&ada, dan).await.len(), mailbox(&ada, eve).await.len()), (0, 1));
    assert_eq!(crate::erasure::holding(world, dan).await, Vec::<String>::new());
    bulk(&json!({"messages": [mail(eve)]})).await.problem("idempotency_key_reused");
    // The key is free again when it would have been anyhow.
    world.advance(DAY + MINUTE).await;
    assert_ne!(bulk(&both).await.ok().field("results")[0]["id"], ids[0]);
}

async fn the_key_of_a_bulk_is_erased_with_each_of_its_people(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"messages": [mail("dan@example.com"), mail("eve@example.com")]});
    let bulk = ada.call("POST", "/v1/emails/bulk").json(&body);
    let sent = bulk.header("idempotency-key", "first-dan-then-the-other").await.ok();
    let second = sent.field("results")[1]["id"].clone();
    until(&ada, second.as_str().unwrap(), "delivered").await;
    assert_eq!(erase(world, "eve@example.com").await.number("idempotency_keys"), 1);
}

async fn the_others_of_an_email_stay_when_one_is_erased(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("dan@example.com");
    body["cc"] = json!(["eve@example.com"]);
    body["reference"] = json!("order-1");
    let sent = send(&ada, &body).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    erase(world, "dan@example.com").await;
    let now = read(&ada, sent.word("id")).await.ok();
    assert_eq!((now.field("to"), now.field("cc")), (&json!([]), &json!(["eve@example.com"])));
    assert_eq!((now.word("subject"), now.word("reference")), ("Your order", "order-1"));
    let addresses = [0, 1].map(|place| now.field("recipients")[place]["address"].clone());
    assert_eq!(addresses, [json!(""), json!("eve@example.com")]);
    for (query, found) in
        [("to=eve@example.com", 1), ("reference=order-1", 1), ("to=dan@example.com", 0)]
    {
        let list = ada.get(&format!("/v1/emails?{query}")).await.ok();
        assert_eq!(list.list().len(), found, "{query}");
    }
    let events = ada.get("/v1/events?type=email.delivery").await.ok();
    let about = events.list().iter().map(|event| event["data"]["recipient"]["address"].clone());
    let mut about: Vec<Value> = about.collect();
    about.sort_by_key(Value::to_string);
    about.dedup();
    assert_eq!(about, [json!(""), json!("eve@example.com")]);
    // With the last one goes what the email was about.
    erase(world, "eve@example.com").await;
    let now = read(&ada, sent.word("id")).await.ok();
    assert_eq!((now.word("subject"), now.field("reference")), ("", &json!(null)));
}

async fn what_names_an_erased_person_leaves_the_mailboxes_of_others(world: &World) {
    let ada = world.account("ada").await;
    let alone = mail("eve@example.com");
    let mut shared = alone.clone();
    shared["cc"] = json!(["Dan@Example.com"]);
    let mut quoting = alone.clone();
    quoting["text"] = json!("On Monday,\ndan@example.com wrote:");
    let mut of_others = alone.clone();
    of_others["text"] = json!("jordan@example.com and dan@example.com.au wrote:");
    for body in [&alone, &of_others, &shared, &quoting] {
        let sent = send(&ada, body).await.ok();
        until(&ada, sent.word("id"), "delivered").await;
    }
    assert_eq!(mailbox(&ada, "eve@example.com").await.len(), 4);
    erase(world, "dan@example.com").await;
    let kept = mailbox(&ada, "eve@example.com").await;
    let texts: Vec<&Value> = kept.iter().map(|mail| &mail["text"]).collect();
    assert_eq!(kept.len(), 2, "{texts:?}");
    assert!(texts[0].as_str().unwrap().starts_with("jordan@"), "{texts:?}");
}

async fn a_mailbox_keeps_its_mail_for_a_day(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, mail("ada@example.com")).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    world.advance(23 * 60 * MINUTE).await;
    world.housekeep().await;
    assert_eq!(mailbox(&ada, "ada@example.com").await.len(), 1);
    world.advance(2 * 60 * MINUTE).await;
    world.housekeep().await;
    assert!(mailbox(&ada, "ada@example.com").await.is_empty());
}

async fn the_mailboxes_of_an_account_keep_so_many_bytes_the_newest_first(world: &World) {
    const MOST: i64 = 16 << 20;
    const SUM: &str = "SELECT CAST(COALESCE(SUM(LENGTH(sealed)), 0) AS BIGINT) FROM sandbox_mails";
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let sent = send(&eve, mail("eve@example.com")).await.ok();
    until(&eve, sent.word("id"), "delivered").await;
    let mut body = mail("ada@example.com");
    (body["text"], body["html"]) = (json!("x".repeat(256 << 10)), json!("y".repeat(256 << 10)));
    let mut most = 0;
    for number in 0..40 {
        body["subject"] = json!(number.to_string());
        let sent = send(&ada, &body).await.ok();
        until(&ada, sent.word("id"), "delivered").await;
        most = most.max(one::<i64>(world, SUM).await);
    }
    assert!(MOST < most && most < MOST + (3 << 20), "{most}");
    world.housekeep().await;
    let kept = one::<i64>(world, SUM).await;
    assert!(MOST - (1 << 20) < kept && kept <= MOST + 2_000, "{kept}");
    let mails = mailbox(&ada, "ada@example.com").await;
    let subjects: Vec<&str> = mails.iter().map(|mail| mail["subject"].as_str().unwrap()).collect();
    assert_eq!((subjects[0], subjects.contains(&"0")), ("39", false), "the oldest went");
    assert_eq!(mailbox(&eve, "eve@example.com").await.len(), 1, "another account's stays");
}
