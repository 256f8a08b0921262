//! Callbacks of gateways: how much one may bring, and to which names they go.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri};
use clock::Clock;
use estafette::app::Env;
use estafette::carriers::{Carriers, Door};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::gateways::{self, Far, HOME};
use super::rude::{Manners, Rude};
use super::{PRICE, START, carrier, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

on_every_engine!(
    a_callback_of_a_thousand_reports_is_taken_whole,
    a_name_that_nobody_calls_back_is_like_one_that_there_is_not,
    a_phone_that_has_it_outweighs_what_the_gateway_answers,
    a_gateway_has_no_say_in_what_another_carrier_has,
    a_receipt_that_overtakes_a_lost_answer_counts,
    a_receipt_finds_the_message_whose_answer_was_lost,
    a_receipt_of_one_segment_says_nothing_of_a_long_message_whose_answer_was_lost,
);

/// More than are taken at once anywhere on the way.
const REPORTS: usize = 1_001;

async fn a_callback_of_a_thousand_reports_is_taken_whole(world: &World) {
    let taken = r#"{"messages": [{"messageId": "ours", "status": {"groupName": "PENDING"}}]}"#;
    let (_far, address) = Far::open(200, taken).await;
    gateways::give(world, "infobip", address).await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    let report = |id: String| json!({"messageId": id, "status": {"groupName": "DELIVERED"}});
    let strange = (1..REPORTS).map(|number| report(format!("nobody{number}")));
    // The last of them is of a message that there is.
    let all: Vec<Value> = strange.chain([report("ours".to_owned())]).collect();
    assert_eq!(all.len(), REPORTS);
    let orphans = async || carrier(world, "main").await["receipts"]["orphan"].clone();
    assert_eq!(orphans().await, 0);
    let call = world.post(Env::Live, "/v1/upstream/sms/main?token=token+1");
    call.json(json!({"results": all})).await.ok();
    assert_eq!(orphans().await, REPORTS - 1, "each is kept");
    ada.sms_until(&id, "delivered").await;
    assert_eq!(ada.balance().await, START - PRICE);
}

/// Gives live a gateway, and a centre for what it does not take.
async fn give_both(world: &World, preset: &str, gateway: SocketAddr, centre: SocketAddr) {
    let mut sms = settings(&[("gate", gateway, ""), ("centre", centre, "")]);
    let text = format!(
        "kind = 'http'\npreset = '{preset}'\nbase_url = 'http://{gateway}'\nusername = 'AC1'\n\
         password = 'secret'\ncallback_token = 'token 1'\n"
    );
    sms.carriers.insert("gate".to_owned(), toml::from_str(&text).unwrap());
    let make = move |clock: &Clock, door: &Door| {
        Carriers::none().with_sms(&sms, clock, HOME, door).unwrap()
    };
    world.give_live(Box::new(make)).await;
}

async fn a_name_that_nobody_calls_back_is_like_one_that_there_is_not(world: &World) {
    let (_far, address) = Far::open(200, "").await;
    give_both(world, "vonage", address, "127.0.0.1:1".parse().unwrap()).await;
    let report = "messageId=A1&status=delivered";
    for proof in ["", "token=token+1&", "token=no&"] {
        let get = async |name: &str| {
            world.get(Env::Live, &format!("/v1/upstream/sms/{name}?{proof}{report}")).await
        };
        let (none, centre) = (get("nobody").await, get("centre").await);
        let (none, centre) = (none.problem("not_found"), centre.problem("not_found"));
        assert_eq!(none.word("detail"), centre.word("detail"));
        // The control: the gateway's own name takes its callback, if it is proved.
        let gate = get("gate").await;
        if proof.contains("token+1") {
            gate.ok()
        } else {
            gate.problem("invalid_token")
        };
    }
    let post = world.post(Env::Live, "/v1/upstream/sms/centre?token=token+1");
    post.raw("application/x-www-form-urlencoded", report).await.problem("not_found");
}

/// Where a gateway is to call back about its last message, saying so.
async fn receipt_of(far: &Far, status: &str) -> String {
    receipt_for(&eventually(async || far.asked.lock().unwrap().last().cloned()).await.0, status)
}

/// The same about what it was asked so.
fn receipt_for(asked: &str, status: &str) -> String {
    let asked = url::Url::parse(&format!("http://h{asked}")).unwrap();
    let (_, given) = asked.query_pairs().find(|(name, _)| name == "dlr-url").unwrap();
    given.strip_prefix(HOME).unwrap().replace("%d", status).replace("%A", "x")
}

/// It refused the message, and knows the id under which the next one has it.
async fn a_gateway_has_no_say_in_what_another_carrier_has(world: &World) {
    let (far, gateway) = Far::open(503, "Temporal failure, try again later.").await;
    let centre = Rude::open(Manners::Good).await;
    give_both(world, "kannel", gateway, centre.address).await;
    until_up(world, "centre").await;
    let ada = sender(world, "ada").await;
    let body = json!({"to": phone("5678"), "text": "hi"});
    let id = ada.text(&body).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    assert_eq!(centre.submissions(), 1);
    for status in ["2", "16", "1"] {
        world.get(Env::Live, &receipt_of(&far, status).await).await.ok();
    }
    let read = ada.sms(&id).await.ok();
    assert_eq!((read.word("status"), ada.balance().await), ("submitted", START - PRICE));
    // Control: of what it took it may tell.
    *far.answer.lock().unwrap() = (202, "0: Accepted for delivery".to_owned());
    world.advance(31_000).await;
    let id = ada.text(&body).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    assert_eq!(centre.submissions(), 1);
    world.get(Env::Live, &receipt_of(&far, "2").await).await.ok();
    ada.sms_until(&id, "undelivered").await;
}

async fn a_phone_that_has_it_outweighs_what_the_gateway_answers(world: &World) {
    let (asked, may_answer) = (Arc::new(Mutex::new(None)), Arc::new(Notify::new()));
    let (asks, answers) = (Arc::clone(&asked), Arc::clone(&may_answer));
    let refuse = async move |uri: Uri| {
        *asks.lock().unwrap() = Some(uri.to_string());
        answers.notified().await;
        (StatusCode::BAD_REQUEST, "no")
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    gateways::give(world, "kannel", listener.local_addr().unwrap()).await;
    tokio::spawn(axum::serve(listener, Router::new().fallback(refuse)).into_future());
    let ada = sender(world, "ada").await;
    let passcode =
        async { ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok() };
    let gateway = async {
        let path: String = eventually(async || asked.lock().unwrap().clone()).await;
        let receipt = receipt_for(&path, "1");
        let answer = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            may_answer.notify_one();
        };
        let (told, ()) = tokio::join!(world.get(Env::Live, &receipt), answer);
        told.ok();
    };
    let (sent, ()) = tokio::join!(passcode, gateway);
    assert_eq!(sent.word("status"), "delivered", "{}", sent.text);
    assert!(ada.balance().await < START, "it is charged");
}

/// The id of a message whose answer was lost, and where its receipts go.
async fn lost(world: &World, far: &Far, ada: &Tenant<'_>, text: &str) -> (String, String) {
    let id = ada.text(json!({"to": phone("5678"), "text": text})).await.ok().word("id").to_owned();
    let unknown = "SELECT COUNT(*) FROM attempts WHERE state = 'unknown'";
    eventually(async || (crate::due::count(world, unknown).await == 1).then_some(())).await;
    let (_, body) = far.asked.lock().unwrap()[0].clone();
    let form = url::form_urlencoded::parse(body.as_bytes());
    let given = form.into_owned().find(|(name, _)| name == "callback").unwrap().1;
    (id, given.strip_prefix(HOME).unwrap().to_owned())
}

async fn a_receipt_finds_the_message_whose_answer_was_lost(world: &World) {
    let (far, address) = Far::open(500, "").await;
    gateways::give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    let (id, back) = lost(world, &far, &ada, "hi").await;
    world.get(Env::Live, &format!("{back}&messageId=Z9&status=delivered")).await.ok();
    ada.sms_until(&id, "delivered").await;
    world.advance(10_000).await;
    world.settle().await;
    assert_eq!(far.asked.lock().unwrap().len(), 1, "it is not sent again");
    assert_eq!(ada.balance().await, START - PRICE);
}

/// The gateway says what became of a message before it answers, and its answer is lost.
async fn a_receipt_that_overtakes_a_lost_answer_counts(world: &World) {
    let (asked, may_answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (asks, answers) = (Arc::clone(&asked), Arc::clone(&may_answer));
    let hang = async move |body: String| {
        asks.lock().unwrap().push(body);
        answers.notified().await;
        StatusCode::INTERNAL_SERVER_ERROR
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    gateways::give(world, "vonage", listener.local_addr().unwrap()).await;
    tokio::spawn(axum::serve(listener, Router::new().fallback(hang)).into_future());
    let ada = sender(world, "ada").await;
    for (count, (status, shown)) in (1..).zip([("delivered", "delivered"), ("rejected", "failed")])
    {
        let body = json!({"to": phone(&format!("567{count}")), "text": "hi"});
        let id = ada.text(&body).await.ok().word("id").to_owned();
        let form = eventually(async || asked.lock().unwrap().get(count - 1).cloned()).await;
        let form = url::form_urlencoded::parse(form.as_bytes());
        let given = form.into_owned().find(|(name, _)| name == "callback").unwrap().1;
        let back = given.strip_prefix(HOME).unwrap();
        let receipt = format!("{back}&messageId=Z{count}&status={status}");
        world.get(Env::Live, &receipt).await.ok();
        assert_eq!(ada.sms(&id).await.ok().word("status"), "queued", "it may be anything's");
        may_answer.notify_one();
        ada.sms_until(&id, shown).await;
        world.advance(10_000).await;
        world.settle().await;
        assert_eq!(asked.lock().unwrap().len(), count, "it is not sent again");
    }
    assert_eq!(ada.balance().await, START - PRICE, "one arrived");
}

async fn a_receipt_of_one_segment_says_nothing_of_a_long_message_whose_answer_was_lost(
    world: &World,
) {
    let (far, address) = Far::open(500, "").await;
    gateways::give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    let (id, back) = lost(world, &far, &ada, &"x".repeat(200)).await;
    for status in ["delivered", "rejected"] {
        world.get(Env::Live, &format!("{back}&messageId=Z9&status={status}")).await.ok();
    }
    world.settle().await;
    let unknown = "SELECT COUNT(*) FROM attempts WHERE state = 'unknown'";
    assert_eq!(crate::due::count(world, unknown).await, 1);
    assert_eq!(ada.sms(&id).await.ok().field("error"), &Value::Null);
    assert_eq!(ada.balance().await, START - 2 * PRICE, "held");
}
