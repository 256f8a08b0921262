//! Domains that an account may write from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use clock::DAY;
use playground::{NameServer, Record};
use serde_json::{Value, json};

use super::relay::with_relay;
use super::{mail, send, until};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{Answer, Engine, World, contract};

on_every_engine!(
    a_domain_is_written_from_once_it_is_verified,
    a_domain_that_publishes_nothing_stays_pending,
    domains_are_bounded_and_named_well,
    a_domain_that_is_added_twice_at_once_is_one,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_domain_is_verified_by_what_dns_says_and_signs_its_mail() {
    for engine in [Engine::Lite, Engine::Postgres] {
        Box::pin(verified_by_dns(engine)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_domain_that_loses_its_records_is_warned_of_and_then_not_written_from() {
    for engine in [Engine::Lite, Engine::Postgres] {
        Box::pin(lost_by_dns(engine)).await;
    }
}

async fn add(ada: &Tenant<'_>, domain: &str) -> Answer {
    ada.desk("POST", "/v1/email-domains").json(json!({"domain": domain})).await
}

async fn a_domain_that_is_added_twice_at_once_is_one(world: &World) {
    let ada = world.account("ada").await;
    let add = |key: usize| {
        let call =
            ada.desk("POST", "/v1/email-domains").header("idempotency-key", &format!("{key}"));
        async move { call.json(json!({"domain": "example.com"})).await.ok() }
    };
    let all = futures_util::future::join_all((0..8).map(add)).await;
    let id = all[0].word("id");
    for (key, first) in all.iter().enumerate() {
        assert_eq!((first.word("id"), add(key).await.word("id")), (id, id));
    }
    let list = ada.desk("GET", "/v1/email-domains").await.ok();
    assert_eq!(list.list().len(), 1, "{}", list.text);
    let lines = store::Sql("SELECT object_id FROM audit_log WHERE action = 'email_domain.add'");
    let db = world.app(ada.env).await.db.clone();
    let lines: Vec<(String,)> = db.rows(lines, store::args![]).await.unwrap();
    assert_eq!(lines, [(id.to_owned(),)], "what is written down was done");
}

async fn verify(ada: &Tenant<'_>, id: &str) -> Answer {
    ada.desk("POST", &format!("/v1/email-domains/{id}/verify")).await
}

async fn a_domain_is_written_from_once_it_is_verified(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("ada@example.com");
    body["from_email"] = json!("Büro <shop@Bücher.example>");
    let refused = send(&ada, &body).await.problem("domain_not_verified");
    assert!(refused.word("detail").contains("xn--bcher-kva.example"), "{}", refused.text);
    let domain = add(&ada, "Bücher.example").await.ok();
    assert!(contract::is_id("edm", domain.word("id")));
    assert_eq!(
        (domain.word("domain"), domain.word("status")),
        ("xn--bcher-kva.example", "pending")
    );
    let record = |record: &Value| {
        let word = |name: &str| record[name].as_str().unwrap().to_owned();
        assert_eq!(record["status"], "pending");
        (word("type"), word("name"), word("value"))
    };
    let records: Vec<_> = domain.field("records").as_array().unwrap().iter().map(record).collect();
    let names: Vec<_> = records.iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    let of = |front: &str| format!("{front}.xn--bcher-kva.example");
    assert_eq!(
        names,
        ["TXT _estafette", "TXT est1._domainkey", "TXT est2._domainkey", "CNAME rp", "TXT _dmarc"]
            .map(of)
    );
    assert!(records[0].2.starts_with("estafette-verify="));
    assert!(records[1].2.starts_with("v=DKIM1; k=rsa; p=MII"));
    send(&ada, &body).await.problem("domain_not_verified");
    let path = format!("/v1/email-domains/{}/verify", domain.word("id"));
    ada.desk("POST", &path).raw("application/json", "{").await.problem("invalid_json");
    ada.desk("POST", &path).json(json!({"a": 1})).await.fault("/a", "unknown_field");
    let verified = verify(&ada, domain.word("id")).await.ok();
    assert_eq!(verified.word("status"), "verified");
    let records = verified.field("records").as_array().unwrap();
    assert!(records.iter().all(|record| record["status"] == "verified"));
    assert!(contract::is_instant(verified.word("verified_at")));
    let sent = send(&ada, &body).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    // A name under it is another one, and so is everybody else's account.
    body["from_email"] = json!("shop@mail.bücher.example");
    send(&ada, &body).await.problem("domain_not_verified");
    body["from_email"] = json!("shop@bücher.example");
    let eve = world.account("eve").await;
    send(&eve, &body).await.problem("domain_not_verified");
    let again = add(&ada, "xn--bcher-kva.example").await.ok();
    assert_eq!(again.body, verified.body);
    let list = ada.get("/v1/email-domains").await.ok();
    assert_eq!(list.list(), [verified.body]);
    let path = format!("/v1/email-domains/{}", domain.word("id"));
    ada.desk("DELETE", &path).await.ok();
    send(&ada, &body).await.problem("domain_not_verified");
    ada.get(&path).await.problem("not_found");
}

async fn a_domain_that_publishes_nothing_stays_pending(world: &World) {
    let ada = world.account("ada").await;
    let domain = add(&ada, "nothing.invalid").await.ok();
    let looked = verify(&ada, domain.word("id")).await.ok();
    assert_eq!((looked.word("status"), looked.field("verified_at")), ("pending", &json!(null)));
    assert!(contract::is_instant(looked.word("checked_at")));
    let mut body = mail("ada@example.com");
    body["from_email"] = json!("shop@nothing.invalid");
    send(&ada, &body).await.problem("domain_not_verified");
    assert_eq!(ada.balance().await, 1_000_000);
}

async fn domains_are_bounded_and_named_well(world: &World) {
    let ada = world.account("ada").await;
    for bad in ["", "localhost", "a b.example", "127.0.0.1", "-a.example", "ada@example.com"] {
        add(&ada, bad).await.fault("/domain", "invalid_type");
    }
    for number in 0..50 {
        add(&ada, &format!("d{number}.example")).await.ok();
    }
    add(&ada, "more.example").await.problem("limit_reached");
    add(&ada, "d7.example").await.ok();
}

/// What is published, by name.
type Zone = Arc<Mutex<HashMap<String, Record>>>;

fn published(record: &Value) -> (String, Record) {
    let word = |name: &str| record[name].as_str().unwrap().to_owned();
    let value = match record["type"].as_str().unwrap() {
        "CNAME" => Record::Alias(word("value")),
        _ => Record::Text(word("value")),
    };
    (word("name"), value)
}

fn stands(domain: &Answer) -> Vec<&str> {
    let records = domain.field("records").as_array().unwrap();
    records.iter().map(|record| record["status"].as_str().unwrap()).collect()
}

/// A name server that answers what is in the zone at the moment.
async fn publish(zone: &Zone) -> NameServer {
    let seen = Arc::clone(zone);
    let names = NameServer::publish(move |name| {
        seen.lock().unwrap().get(name).map(|record| vec![record.clone()])
    });
    names.await.unwrap()
}

/// What was seen of each record.
fn seen(domain: &Answer) -> Vec<Value> {
    let records = domain.field("records").as_array().unwrap();
    records.iter().map(|record| record["seen"].clone()).collect()
}

async fn verified_by_dns(engine: Engine) {
    let zone = Zone::default();
    let names = publish(&zone).await;
    let server = names.address().to_string();
    let world = World::with(engine, |config| {
        config.email.dns_server = server;
        "mail.example".clone_into(&mut config.email.shared_domain);
    })
    .await;
    let (mx, ada) = with_relay(&world).await;
    let domain = add(&ada, "example.com").await.ok();
    let id = domain.word("id");
    let records = domain.field("records").as_array().unwrap();
    assert_eq!(records[3]["value"], "rp.mail.example");
    assert_eq!(seen(&domain), vec![Value::Null; 5], "nobody has looked yet");
    let looked = verify(&ada, id).await.ok();
    assert_eq!((stands(&looked), seen(&looked)), (vec!["pending"; 5], vec![json!([]); 5]));
    let mut body = mail("ada@example.org");
    body["from_email"] = json!("shop@example.com");
    send(&ada, &body).await.problem("domain_not_verified");
    // Somebody else's key, spread over strings in another way, is not the one.
    let (name, _) = published(&records[1]);
    let strange = "v=DKIM1; k=rsa; p=AAAA".to_owned();
    zone.lock().unwrap().insert(name.clone(), Record::Text(strange));
    zone.lock().unwrap().extend([0, 3].map(|place| published(&records[place])));
    let looked = verify(&ada, id).await.ok();
    assert_eq!(stands(&looked), ["verified", "pending", "pending", "verified", "pending"]);
    assert_eq!(looked.word("status"), "pending");
    let at_name = seen(&looked);
    assert_eq!(at_name[1], json!(["v=DKIM1; k=rsa; p=AAAA"]), "what stands in its place");
    assert_eq!((&at_name[3], &at_name[4]), (&json!(["rp.mail.example"]), &json!([])));
    let read = ada.get(&format!("/v1/email-domains/{id}")).await.ok();
    assert_eq!(seen(&read), at_name, "it is kept");
    // The order of tags and their spaces do not matter.
    let key = records[1]["value"].as_str().unwrap().rsplit("p=").next().unwrap().to_owned();
    let spaced = format!("p={} {}; k=rsa;v=DKIM1", &key[..100], &key[100..]);
    zone.lock().unwrap().insert(name, Record::Text(spaced));
    let looked = verify(&ada, id).await.ok();
    assert_eq!(looked.word("status"), "verified");
    let sent = send(&ada, &body).await.ok();
    until(&ada, sent.word("id"), "sent").await;
    let (_, message) = mx.taken().remove(0);
    for tag in
        ["a=rsa-sha256", "a=ed25519-sha256", "d=example.com; s=est1", "d=example.com; s=est2"]
    {
        assert!(message.contains(tag), "{tag}: {message}");
    }
    // Where no name server answers, nothing changes.
    drop(names);
    let looked = verify(&ada, id).await.ok();
    assert_eq!((looked.word("status"), seen(&looked)), ("verified", vec![Value::Null; 5]));
    world.finish().await;
}

async fn lost_by_dns(engine: Engine) {
    let zone = Zone::default();
    let names = publish(&zone).await;
    let server = names.address().to_string();
    let world = World::with(engine, |config| config.email.dns_server = server).await;
    let (_, ada) = with_relay(&world).await;
    let domain = add(&ada, "example.com").await.ok();
    let path = format!("/v1/email-domains/{}", domain.word("id"));
    let records = domain.field("records").as_array().unwrap();
    zone.lock().unwrap().extend(records.iter().map(published));
    let mut body = mail("ada@example.org");
    body["from_email"] = json!("shop@example.com");
    assert_eq!(verify(&ada, domain.word("id")).await.ok().word("status"), "verified");
    // Advice may go; what has to be there may be away for a while.
    let (dmarc, _) = published(&records[4]);
    let (key, kept) = published(&records[1]);
    zone.lock().unwrap().remove(&dmarc);
    next_day(&world).await;
    let looked = ada.get(&path).await.ok();
    assert_eq!(stands(&looked)[4], "pending");
    assert_eq!(looked.field("missing_since"), &Value::Null);
    zone.lock().unwrap().remove(&key);
    next_day(&world).await;
    let looked = ada.get(&path).await.ok();
    assert_eq!((looked.word("status"), stands(&looked)[1]), ("verified", "pending"));
    assert!(contract::is_instant(looked.word("missing_since")));
    // Whoever looks on such a day makes nothing worse.
    let asked = verify(&ada, domain.word("id")).await.ok();
    assert_eq!((asked.word("status"), stands(&asked)[1]), ("verified", "pending"));
    assert_eq!(asked.field("missing_since"), looked.field("missing_since"));
    zone.lock().unwrap().insert(key.clone(), kept);
    next_day(&world).await;
    assert_eq!(ada.get(&path).await.ok().field("missing_since"), &Value::Null, "it is back");
    zone.lock().unwrap().remove(&key);
    for _ in 0..3 {
        next_day(&world).await;
        assert_eq!(ada.get(&path).await.ok().word("status"), "verified");
        send(&ada, &body).await.ok();
    }
    next_day(&world).await;
    let lost = ada.get(&path).await.ok();
    assert_eq!(lost.word("status"), "pending");
    assert_eq!(lost.field("verified_at"), &Value::Null);
    send(&ada, &body).await.problem("domain_not_verified");
    world.finish().await;
}

async fn next_day(world: &World) {
    world.advance(DAY).await;
    world.housekeep().await;
}
