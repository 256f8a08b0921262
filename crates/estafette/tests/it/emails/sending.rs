//! An email on its way: what is answered, what arrives, what it costs and what is told of it.

use std::slice::from_ref;

use playground::ReceiverZoo;
use serde_json::{Value, json};

use super::{FROM, fixed, mail, mailbox, read, send, until};
use crate::on_every_engine;
use crate::webhooks::{hook, json_of, like_its_example, visited};
use crate::world::{World, contract};

on_every_engine!(
    an_email_is_answered_queued_and_arrives_as_it_was_written,
    a_blind_copy_is_in_no_header,
    each_recipient_is_paid_for_and_an_address_twice_only_once,
    a_repeat_under_a_key_sends_nothing,
    emails_are_listed_newest_first_and_by_what_they_have,
    every_change_of_a_recipient_is_told,
    without_a_relay_nothing_is_held,
    large_emails_are_taken_and_larger_ones_refused,
);

async fn an_email_is_answered_queued_and_arrives_as_it_was_written(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(
        &ada,
        json!({
            "to": ["Ada L. <ada@bücher.example>"], "cc": ["carl@example.com"],
            "from_email": FROM, "reply_to": "help@example.com", "subject": "Grüße 世界",
            "text": "Hello\nWörld", "html": "<p>Hello</p>", "headers": {"X-Order": "4711"},
            "attachments":
                [{"filename": "a.txt", "content": "aGVsbG8=", "content_type": "text/plain"}],
            "reference": "order-4711",
        }),
    );
    let sent = sent.await.ok();
    let names = ["charged_credits", "created_at", "id", "reference", "status"];
    assert_eq!(sent.names(), names);
    assert!(contract::is_id("eml", sent.word("id")));
    assert!(contract::is_instant(sent.word("created_at")));
    assert_eq!((sent.word("status"), sent.number("charged_credits")), ("queued", 2));
    let now = until(&ada, sent.word("id"), "delivered").await;
    let stands = |address: &str| json!({"address": address, "status": "delivered", "error": null});
    assert_eq!(
        now.field("recipients"),
        &json!([stands("ada@xn--bcher-kva.example"), stands("carl@example.com")])
    );
    assert_eq!(now.field("to"), &json!(["\"Ada L.\" <ada@xn--bcher-kva.example>"]));
    for address in ["ada@bücher.example", "carl@example.com"] {
        let found = mailbox(&ada, address).await;
        let [got] = found.as_slice() else { panic!("{address}: {found:?}") };
        assert_eq!(got["from"], "Shop <shop@sandbox.estafette.test>");
        assert_eq!(got["to"], json!(["Ada L. <ada@xn--bcher-kva.example>"]));
        assert_eq!(
            (&got["cc"], &got["reply_to"]),
            (&json!(["carl@example.com"]), &json!("help@example.com"))
        );
        assert_eq!(got["subject"], "Grüße 世界");
        assert_eq!(got["text"].as_str().unwrap().replace('\r', ""), "Hello\nWörld");
        assert_eq!(got["html"], "<p>Hello</p>");
        let file = json!({"filename": "a.txt", "content_type": "text/plain", "size": 5});
        assert_eq!(got["attachments"], json!([file]));
        let headers = got["headers"].as_array().unwrap();
        let of = |name: &str| headers.iter().find(|header| header["name"] == name);
        assert_eq!(of("X-Order").unwrap()["value"], "4711");
        let id = sent.word("id").trim_start_matches("eml_");
        assert!(of("Message-ID").unwrap()["value"].as_str().unwrap().contains(id));
    }
    assert!(mailbox(&ada, "nobody@example.com").await.is_empty());
}

async fn a_blind_copy_is_in_no_header(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("ada@example.com");
    body["bcc"] = json!(["secret@example.com"]);
    let sent = send(&ada, &body).await.ok();
    let now = until(&ada, sent.word("id"), "delivered").await;
    assert_eq!(now.field("bcc"), &json!(["secret@example.com"]));
    for address in ["ada@example.com", "secret@example.com"] {
        let found = mailbox(&ada, address).await;
        assert_eq!(found.len(), 1, "{address}");
        let mut shown = found[0].clone();
        shown["recipient"] = json!(null);
        assert!(!shown.to_string().contains("secret"), "{shown}");
    }
}

async fn each_recipient_is_paid_for_and_an_address_twice_only_once(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("ada@example.com");
    body["to"] = json!(["ada@example.com", "Ada@Example.com", fixed("rejected")]);
    body["cc"] = json!(["ada@example.com", "bob@example.com"]);
    let sent = send(&ada, &body).await.ok();
    assert_eq!(sent.number("charged_credits"), 3);
    let now = until(&ada, sent.word("id"), "bounced").await;
    assert_eq!(now.field("recipients").as_array().unwrap().len(), 3);
    // What the relay refused costs nothing.
    assert_eq!(now.number("charged_credits"), 2);
    assert_eq!(ada.balance().await, 1_000_000 - 2);
    let kinds = |kind: &str, all: &[(String, i64)]| all.iter().filter(|(k, _)| k == kind).count();
    let all = ada.movements().await;
    assert_eq!((kinds("hold", &all), kinds("post", &all), kinds("void", &all)), (3, 2, 1));
    assert_eq!(mailbox(&ada, "ada@example.com").await.len(), 1);
    world.credit(&ada, -(1_000_000 - 4)).await.ok();
    body["to"] = json!(["a@example.com", "b@example.com"]);
    send(&ada, &body).await.problem("insufficient_credits");
    assert_eq!(ada.balance().await, 2);
}

async fn a_repeat_under_a_key_sends_nothing(world: &World) {
    let ada = world.account("ada").await;
    let body = mail("ada@example.com");
    let first = send(&ada, &body).header("idempotency-key", "k1").await.ok();
    until(&ada, first.word("id"), "delivered").await;
    let again = send(&ada, &body).header("idempotency-key", "k1").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!((again.word("id"), again.word("status")), (first.word("id"), "delivered"));
    let other = send(&ada, mail("bob@example.com")).header("idempotency-key", "k1").await;
    other.problem("idempotency_key_reused");
    assert_eq!(mailbox(&ada, "ada@example.com").await.len(), 1);
    assert_eq!(ada.movements().await.len(), 2);
}

async fn emails_are_listed_newest_first_and_by_what_they_have(world: &World) {
    let ada = world.account("ada").await;
    let mut ids = vec![];
    for (to, reference) in
        [("ada@example.com", "one"), ("bob@example.com", "two"), (&*fixed("bounced"), "two")]
    {
        let mut body = mail(to);
        body["reference"] = json!(reference);
        ids.push(send(&ada, &body).await.ok().word("id").to_owned());
    }
    until(&ada, &ids[1], "delivered").await;
    until(&ada, &ids[2], "bounced").await;
    let found = async |query: &str| -> Vec<String> {
        let answer = ada.get(&format!("/v1/emails{query}")).await.ok();
        answer.list().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let [one, two, three] = [&ids[0], &ids[1], &ids[2]].map(Clone::clone);
    assert_eq!(found("").await, [three.clone(), two.clone(), one.clone()]);
    assert_eq!(found("?to=BOB@example.com").await, from_ref(&two));
    assert_eq!(found("?reference=two").await, [three.clone(), two.clone()]);
    assert_eq!(found("?status=bounced").await, from_ref(&three));
    assert_eq!(found("?reference=two&to=bob@example.com").await, from_ref(&two));
    assert!(found("?until=2025-01-01T00:00:00Z").await.is_empty());
    let page = ada.get("/v1/emails?limit=2").await.ok();
    assert!(page.head("link").contains("cursor="));
    let whole = read(&ada, &two).await.ok();
    assert_eq!(page.list()[1], whole.body);
    ada.get("/v1/emails?status=lost").await.problem("invalid_request");
    ada.get("/v1/emails?to=nobody").await.problem("invalid_request");
    read(&ada, "eml_01kdv00000000000000000000z").await.problem("not_found");
}

async fn every_change_of_a_recipient_is_told(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    hook(&ada, &zoo.url("/ok"), &["email.delivery"]).await;
    let mut body = mail("ada@example.com");
    body["cc"] = json!([fixed("bounced"), fixed("suppressed")]);
    body["text"] = json!("The cat sat on the mat.");
    let sent = send(&ada, &body).await.ok();
    let now = until(&ada, sent.word("id"), "bounced").await;
    let visits = visited(&zoo, "/ok", 5).await;
    for visit in &visits {
        let event = json_of(visit);
        like_its_example(&event);
        assert!(!event.to_string().contains("cat"));
    }
    let events = ada.get("/v1/events?type=email.delivery").await.ok();
    let told = |event: &Value| {
        let data = &event["data"];
        let recipient = &data["recipient"];
        let word =
            |name: &str| recipient[name].as_str().unwrap().split('@').next().unwrap().to_owned();
        (word("address"), word("status"))
    };
    let mut all: Vec<_> = events.list().iter().map(told).collect();
    all.sort();
    let expected = [
        ("ada", "delivered"),
        ("ada", "sent"),
        ("bounced", "bounced"),
        ("bounced", "sent"),
        ("suppressed", "suppressed"),
    ];
    assert_eq!(all, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let mut by_sequence = events.list().to_vec();
    by_sequence.sort_by_key(|event| event["data"]["sequence"].as_i64());
    let sequences: Vec<_> = by_sequence.iter().map(|e| e["data"]["sequence"].as_i64()).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5].map(Some));
    // The last one shows the email as it reads.
    let mut last = by_sequence[4]["data"].clone();
    last.as_object_mut().unwrap().retain(|name, _| name != "sequence" && name != "recipient");
    assert_eq!(last, now.body);
}

async fn without_a_relay_nothing_is_held(world: &World) {
    let ada = world.live_account("ada", 100).await;
    send(&ada, mail("ada@example.com")).await.problem("carrier_unavailable");
    assert_eq!(ada.balance().await, 100);
    assert!(ada.movements().await.is_empty());
}

async fn large_emails_are_taken_and_larger_ones_refused(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("ada@example.com");
    body["attachments"] = json!([{"filename": "big.bin", "content": "AAAA".repeat(1_500_000 / 4)}]);
    let sent = send(&ada, &body).await.ok();
    let now = until(&ada, sent.word("id"), "delivered").await;
    assert!(now.number("size_bytes") > 1_000_000);
    let found = mailbox(&ada, "ada@example.com").await;
    assert_eq!(found[0]["attachments"][0]["size"], 1_500_000 / 4 * 3);
    for path in ["/v1/emails", "/v1/emails/bulk"] {
        let huge = vec![b' '; 10 * 1024 * 1024 + 1];
        let call = ada.call("POST", path).raw("application/json", huge);
        call.await.problem("payload_too_large");
        let call = ada.call("POST", path).raw("text/plain", "{}");
        call.await.problem("unsupported_media_type");
    }
    // Nobody's large bodies are read before it is known who sends.
    let huge = vec![b' '; 1024 * 1024];
    let call = world.post(ada.env, "/v1/emails").raw("application/json", huge);
    call.await.problem("missing_credentials");
}
