//! HTTP gateways: what they are asked, what their answers and callbacks mean, and who is believed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::Clock;
use estafette::app::Env;
use estafette::carriers::{Carriers, Door};
use serde_json::json;

use super::{PRICE, START, sender};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_gateway_takes_messages_and_tells_what_became_of_them,
    our_ids_come_back_by_the_url_of_a_receipt,
    what_a_gateway_refuses_is_told_and_costs_nothing,
    a_gateway_may_say_much,
    every_gateway_is_understood_both_ways,
    bad_answers_about_one_accounts_messages_hold_up_nobody_else,
    who_waits_for_a_rest_of_its_own_holds_up_nobodys_bulk,
    a_number_that_is_always_throttled_holds_up_no_other,
    a_gateway_that_is_away_is_not_shown_as_up,
    a_long_message_that_comes_in_parts_is_one,
    the_wish_of_the_gateways_clock_holds,
    receipts_of_one_moment_are_all_taken,
    one_number_is_one_recipient_however_it_is_written,
    a_signed_callback_is_believed_and_a_changed_one_is_not,
    a_gateway_of_a_file_is_believed_by_its_address,
);

pub(super) const HOME: &str = "https://otp.example";

/// A gateway that answers as it is told.
#[derive(Clone, Default)]
pub(super) struct Far {
    pub(super) asked: Arc<Mutex<Vec<(String, String)>>>,
    pub(super) answer: Arc<Mutex<(u16, String)>>,
    /// What it answers with this status instead: requests that hold the text.
    poison: Arc<Mutex<Option<(String, u16)>>>,
    /// How long it takes to answer.
    pub(super) takes: Arc<Mutex<Duration>>,
}

impl Far {
    pub(super) async fn open(status: u16, body: &str) -> (Self, SocketAddr) {
        let far = Self::default();
        *far.answer.lock().unwrap() = (status, body.to_owned());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(far.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (far, address)
    }

    async fn asked(&self) -> (String, String) {
        eventually(async || self.asked.lock().unwrap().last().cloned()).await
    }
}

async fn answer(State(far): State<Far>, uri: Uri, body: Bytes) -> (StatusCode, String) {
    let body = String::from_utf8_lossy(&body).into_owned();
    let asked = (uri.to_string(), body);
    let poison = far.poison.lock().unwrap().clone();
    let poison = poison.filter(|(text, _)| asked.0.contains(text) || asked.1.contains(text));
    far.asked.lock().unwrap().push(asked);
    let takes = *far.takes.lock().unwrap();
    tokio::time::sleep(takes).await;
    if let Some((_, status)) = poison {
        return (StatusCode::from_u16(status).unwrap(), "{}".to_owned());
    }
    let (status, body) = far.answer.lock().unwrap().clone();
    (StatusCode::from_u16(status).unwrap(), body)
}

pub(super) async fn give(world: &World, preset: &str, address: SocketAddr) {
    let text = format!(
        "routes = [{{prefix = '+', carriers = ['main']}}]\n[carriers.main]\nkind = 'http'\n\
         preset = '{preset}'\nbase_url = 'http://{address}'\nusername = 'AC1'\n\
         password = 'secret'\ncallback_token = 'token 1'\n"
    );
    let sms: estafette::config::Sms = toml::from_str(&text).unwrap();
    let make = move |clock: &Clock, door: &Door| {
        Carriers::none().with_sms(&sms, clock, HOME, door).unwrap()
    };
    world.give_live(Box::new(make)).await;
}

async fn a_gateway_takes_messages_and_tells_what_became_of_them(world: &World) {
    let vonage = r#"{"messages": [{"status": "0", "message-id": "A1"},
        {"status": "0", "message-id": "A2"}]}"#;
    let (far, address) = Far::open(200, vonage).await;
    give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    let body = json!({"to": phone("5678"), "text": "я".repeat(100)});
    let id = ada.text(body).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    let (path, asked) = far.asked().await;
    assert_eq!(path, "/sms/json");
    assert!(asked.contains("api_key=AC1&api_secret=secret&callback=https"), "{asked}");
    assert!(asked.contains("&from=ACME&") && asked.contains("&type=unicode"), "{asked}");
    let callback =
        async |query: &str| world.get(Env::Live, &format!("/v1/upstream/sms/main?{query}")).await;
    let proof = "token=token+1";
    for forged in ["", "token=no&", "token=&"] {
        callback(&format!("{forged}messageId=A1&status=failed")).await.problem("invalid_token");
    }
    world.get(Env::Live, "/v1/upstream/sms/nobody?token=token+1").await.problem("not_found");
    callback(&format!("{proof}&messageId=A1&status=delivered")).await.ok();
    assert_eq!(ada.sms(&id).await.ok().word("status"), "submitted", "one of two parts");
    callback(&format!("{proof}&messageId=A2&status=delivered")).await.ok();
    ada.sms_until(&id, "delivered").await;
    assert_eq!(ada.balance().await, START - 2 * PRICE);
    // What people wrote comes the same way.
    let written = format!("{proof}&msisdn={}&to=ACME&text=hello&messageId=V1", &phone("5678")[1..]);
    callback(&written).await.ok();
    callback(&written).await.ok();
    let all = ada.get("/v1/inbound-notifications").await.ok();
    assert_eq!((all.list().len(), &all.list()[0]["message"]), (1, &json!("hello")));
}

async fn our_ids_come_back_by_the_url_of_a_receipt(world: &World) {
    let (far, address) = Far::open(202, "0: Accepted for delivery").await;
    give(world, "kannel", address).await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    let (path, _) = far.asked().await;
    let asked = url::Url::parse(&format!("http://h{path}")).unwrap();
    let given = asked.query_pairs().find(|(name, _)| name == "dlr-url").unwrap().1.into_owned();
    let back = given.strip_prefix(HOME).unwrap().replace("%d", "1").replace("%A", "ok");
    world.get(Env::Live, &back).await.ok();
    ada.sms_until(&id, "delivered").await;
    let other = back.replace("attempt=att_", "attempt=att_0");
    world.get(Env::Live, &other).await.ok();
}

async fn a_gateway_may_say_much(world: &World) {
    let (far, address) = Far::open(201, "").await;
    give(world, "twilio", address).await;
    let ada = sender(world, "ada").await;
    // It says all of the text again, before what counts.
    let taken = json!({"body": "x".repeat(20_000), "sid": "SM1", "status": "queued"});
    far.answer.lock().unwrap().1 = taken.to_string();
    let body = json!({"to": phone("5678"), "text": "hi"});
    let id = ada.text(&body).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    world.advance(4_000).await;
    assert_eq!(far.asked.lock().unwrap().len(), 1, "its answer was understood");
}

async fn what_a_gateway_refuses_is_told_and_costs_nothing(world: &World) {
    let (far, address) = Far::open(400, r#"{"code": 21211, "status": 400}"#).await;
    give(world, "twilio", address).await;
    let ada = sender(world, "ada").await;
    let text = async |body: (u16, &str)| {
        *far.answer.lock().unwrap() = (body.0, body.1.to_owned());
        ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned()
    };
    let id = text((400, r#"{"code": 21211}"#)).await;
    let read = ada.sms_until(&id, "failed").await;
    assert_eq!(read.field("error")["carrier_code"], "21211");
    let id = text((400, r#"{"code": 21606}"#)).await;
    assert_eq!(ada.sms_until(&id, "failed").await.field("error")["code"], "sender_refused");
    assert_eq!(ada.balance().await, START);
    let id = text((429, r#"{"code": 20429}"#)).await;
    eventually(async || (far.asked.lock().unwrap().len() == 3).then_some(())).await;
    *far.answer.lock().unwrap() = (201, r#"{"sid": "SM1", "status": "queued"}"#.to_owned());
    eventually(async || {
        world.advance(2_000).await;
        (ada.sms(&id).await.ok().word("status") == "submitted").then_some(())
    })
    .await;
    // A receipt without its signature is nobody's.
    let forged = world.post(Env::Live, "/v1/upstream/sms/main");
    let forged =
        forged.raw("application/x-www-form-urlencoded", "MessageSid=SM1&MessageStatus=failed");
    forged.await.problem("invalid_token");
    assert_eq!(ada.sms(&id).await.ok().word("status"), "submitted");
}

async fn bad_answers_about_one_accounts_messages_hold_up_nobody_else(world: &World) {
    let (far, address) = Far::open(202, "0: Accepted for delivery").await;
    *far.poison.lock().unwrap() = Some(("poison".to_owned(), 500));
    give(world, "kannel", address).await;
    let (ada, ben) = (sender(world, "ada").await, sender(world, "ben").await);
    let state = async || super::carrier(world, "main").await["state"].clone();
    // Each bad answer more doubles the rest: at last it is one of seconds.
    for number in 0..5 {
        let to = phone(&format!("560{number}"));
        ada.text(json!({"to": to, "text": "poison", "class": "bulk"})).await.ok();
        eventually(async || (far.asked.lock().unwrap().len() > number).then_some(())).await;
    }
    eventually(async || (state().await == "resting").then_some(())).await;
    // It rests for her alone, and his good answer says nothing of her messages.
    let waiting = ada.text(json!({"to": phone("5679"), "text": "hi"})).await.ok();
    let his = ben.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    ben.sms_until(his.word("id"), "submitted").await;
    assert_eq!(state().await, "resting");
    assert_eq!(ada.sms(waiting.word("id")).await.ok().word("status"), "queued");
    // The next of hers asks how it does, and is told that it is well.
    ada.sms_until(waiting.word("id"), "submitted").await;
    assert_eq!(state().await, "up");
}

async fn who_waits_for_a_rest_of_its_own_holds_up_nobodys_bulk(world: &World) {
    let (far, address) = Far::open(202, "0: Accepted for delivery").await;
    *far.poison.lock().unwrap() = Some(("poison".to_owned(), 500));
    give(world, "kannel", address).await;
    let (ada, ben) = (sender(world, "ada").await, sender(world, "ben").await);
    // Some go out and are lost; the others wait for the end of the rest.
    let mut hers = Vec::new();
    for number in 0..40 {
        let to = phone(&format!("56{number:02}"));
        let sent = ada.text(json!({"to": to, "text": "poison"})).await.ok();
        hers.push(sent.word("id").to_owned());
    }
    let state = async || super::carrier(world, "main").await["state"].clone();
    eventually(async || (state().await == "resting").then_some(())).await;
    for number in 0..3 {
        let bulk = json!({"to": phone(&format!("577{number}")), "text": "hi", "class": "bulk"});
        let his = ben.text(bulk).await.ok();
        ben.sms_until(his.word("id"), "submitted").await;
    }
    let mut waiting = 0;
    for id in &hers {
        waiting += usize::from(ada.sms(id).await.ok().word("status") == "queued");
    }
    assert!(waiting > 0, "none of hers waited");
}

async fn a_gateway_that_is_away_is_not_shown_as_up(world: &World) {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    give(world, "kannel", closed).await;
    let ada = sender(world, "ada").await;
    let state = async || super::carrier(world, "main").await["state"].clone();
    assert_eq!(state().await, "up", "nothing is known of it yet");
    ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    eventually(async || (state().await == "resting").then_some(())).await;
    // Its rest is over after a second; that it is well nobody knows.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(state().await, "resting");
}

async fn a_number_that_is_always_throttled_holds_up_no_other(world: &World) {
    let (far, address) = Far::open(202, "0: Accepted for delivery").await;
    *far.poison.lock().unwrap() = Some(("poison".to_owned(), 429));
    give(world, "kannel", address).await;
    let ada = sender(world, "ada").await;
    let poison = ada.text(json!({"to": phone("5600"), "text": "poison"})).await.ok();
    eventually(async || (!far.asked.lock().unwrap().is_empty()).then_some(())).await;
    for number in 0..6 {
        let to = phone(&format!("567{number}"));
        let id = ada.text(json!({"to": to, "text": "hi"})).await.ok();
        ada.sms_until(id.word("id"), "submitted").await;
        world.advance(2_000).await;
    }
    let asked =
        far.asked.lock().unwrap().iter().filter(|(path, _)| path.contains("poison")).count();
    assert!(asked >= 3, "it is asked again and again: {asked}");
    assert_eq!(ada.sms(poison.word("id")).await.ok().word("status"), "queued");
    let seen = super::carrier(world, "main").await;
    assert!(seen["throttled"].as_u64().unwrap() >= 3, "{seen}");
    assert!(seen["round_trip_ms"].as_u64().unwrap() >= 1, "{seen}");
    assert_eq!(ada.balance().await, START - 7 * PRICE, "held, and charged");
}

/// A gateway's own words for a message that it took, and for its arrival.
struct Recorded {
    preset: &'static str,
    answer: (u16, &'static str),
    kind: &'static str,
    receipt: &'static str,
    written: &'static str,
}

const RECORDED: [Recorded; 3] = [
    Recorded {
        preset: "africastalking",
        answer: (
            201,
            r#"{"SMSMessageData": {"Recipients": [{"statusCode": 101, "messageId": "M1"}]}}"#,
        ),
        kind: FORM,
        receipt: "id=M1&status=Success&phoneNumber=%2B33612345678",
        written: "from=%2B33612345678&to=ACME&text=hello&id=W1",
    },
    Recorded {
        preset: "infobip",
        answer: (200, r#"{"messages": [{"messageId": "M1", "status": {"groupName": "PENDING"}}]}"#),
        kind: "application/json",
        receipt: r#"{"results": [{"messageId": "M1", "status": {"groupName": "DELIVERED"}}]}"#,
        written: r#"{"results": [{"messageId": "W2", "from": "33612345678", "to": "ACME",
            "text": "hello"}]}"#,
    },
    Recorded {
        preset: "jasmin",
        answer: (200, r#"Success "M1""#),
        kind: FORM,
        receipt: "id=M1&message_status=DELIVRD&level=3",
        written: "id=W3&from=33612345678&to=ACME&content=hello&coding=0",
    },
];
const FORM: &str = "application/x-www-form-urlencoded";

async fn every_gateway_is_understood_both_ways(world: &World) {
    for (number, Recorded { preset, answer, kind, receipt, written }) in RECORDED.iter().enumerate()
    {
        let (_far, address) = Far::open(answer.0, answer.1).await;
        give(world, preset, address).await;
        let ada = sender(world, &format!("ada{number}")).await;
        let to = "+33612345678";
        let id = ada.text(json!({"to": to, "text": "hi"})).await.ok().word("id").to_owned();
        ada.sms_until(&id, "submitted").await;
        let call = async |body: &'static str| {
            let place = "/v1/upstream/sms/main?token=token+1";
            world.post(Env::Live, place).raw(kind, body).await
        };
        call(receipt).await.ok();
        let read = ada.sms_until(&id, "delivered").await;
        assert_eq!(read.field("error"), &json!(null), "{preset}");
        call(written).await.ok();
        let all = ada.get("/v1/inbound-notifications").await.ok();
        assert_eq!(all.list()[0]["message"], "hello", "{preset}");
        assert_eq!(all.list()[0]["sender"], to, "{preset}");
        assert_eq!(ada.balance().await, START - PRICE, "{preset}");
    }
}

async fn a_signed_callback_is_believed_and_a_changed_one_is_not(world: &World) {
    let (far, address) = Far::open(201, r#"{"sid": "SM1", "status": "queued"}"#).await;
    give(world, "twilio", address).await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    let (_, asked) = far.asked().await;
    let fields = url::form_urlencoded::parse(asked.as_bytes());
    let given = fields.into_iter().find(|(name, _)| name == "StatusCallback").unwrap().1;
    let place = given.strip_prefix(HOME).unwrap();
    // Names in their order, each followed by its value: as Twilio signs a form.
    let signed = format!("{given}MessageSidSM1MessageStatusdelivered");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"secret");
    let proof = STANDARD.encode(ring::hmac::sign(&key, signed.as_bytes()));
    let call = async |body: &'static str| {
        let call = world.post(Env::Live, place).header("x-twilio-signature", &proof);
        call.raw(FORM, body).await
    };
    call("MessageSid=SM1&MessageStatus=failed").await.problem("invalid_token");
    assert_eq!(ada.sms(&id).await.ok().word("status"), "submitted");
    call("MessageSid=SM1&MessageStatus=delivered").await.ok();
    ada.sms_until(&id, "delivered").await;
}

/// What a phone wrote, as Vonage brings it.
async fn vonage_brings(world: &World, query: &str) {
    let place = format!("/v1/upstream/sms/main?token=token+1&{query}");
    world.get(Env::Live, &place).await.ok();
}

async fn a_long_message_that_comes_in_parts_is_one(world: &World) {
    let (_far, address) = Far::open(200, "").await;
    give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    let part = async |number: u8, text: &str| {
        let from = &phone("5678")[1..];
        let query = format!(
            "msisdn={from}&to=ACME&text={text}&messageId=V{number}&concat=true&concat-ref=7&\
             concat-total=2&concat-part={number}"
        );
        vonage_brings(world, &query).await;
    };
    part(2, "arrives").await;
    assert!(ada.get("/v1/inbound-notifications").await.ok().list().is_empty());
    part(1, "what%20").await;
    part(2, "arrives").await;
    let all = ada.get("/v1/inbound-notifications").await.ok();
    assert_eq!((all.list().len(), &all.list()[0]["message"]), (1, &json!("what arrives")));
}

async fn the_wish_of_the_gateways_clock_holds(world: &World) {
    let (_far, address) = Far::open(200, "").await;
    give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    let to = phone("5678");
    let may_write = async || ada.text(json!({"to": to, "text": "hi"})).await.status == 200;
    assert!(may_write().await);
    let now = world.now().0 / 1_000;
    let says = async |word: &str, id: &str, at: i64| {
        let from = &to[1..];
        let query =
            format!("msisdn={from}&to=ACME&text={word}&messageId={id}&message-timestamp={at}");
        vonage_brings(world, &query).await;
    };
    says("STOP", "V1", now - 90).await;
    assert!(!may_write().await);
    says("START", "V2", now - 30).await;
    assert!(may_write().await);
    // A STOP from before that, brought late.
    says("STOP", "V3", now - 60).await;
    assert!(may_write().await);
    let all = ada.get("/v1/inbound-notifications").await.ok();
    assert_eq!(all.list().len(), 3, "all of them are shown");
    says("STOP", "V4", now - 10).await;
    assert!(!may_write().await);
}

async fn one_number_is_one_recipient_however_it_is_written(world: &World) {
    let (_far, address) = Far::open(200, "").await;
    give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    // No numbering plan knows this one.
    for (number, to) in ["33700000001", "%2B33700000001", "38000"].iter().enumerate() {
        let from = &phone("5678")[1..];
        vonage_brings(world, &format!("msisdn={from}&to={to}&text={to}&messageId=V{number}")).await;
    }
    let to = async |filter: &str| {
        let path = format!("/v1/inbound-notifications?recipient={filter}");
        ada.get(&path).await.ok().list().len()
    };
    for form in ["33700000001", "%2B33700000001", "0033700000001"] {
        assert_eq!(to(form).await, 2, "{form}");
    }
    assert_eq!(to("38000").await, 1);
}

async fn receipts_of_one_moment_are_all_taken(world: &World) {
    let (far, address) = Far::open(200, "").await;
    give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    for round in 0..5 {
        let taken = format!(r#"{{"messages": [{{"status": "0", "message-id": "A{round}"}}]}}"#);
        *far.answer.lock().unwrap() = (200, taken);
        let id =
            ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
        ada.sms_until(&id, "submitted").await;
        let receipts = (0..10).map(|number| {
            let fate = if number % 2 == 0 { "delivered" } else { "failed" };
            let query = format!("token=token+1&messageId=A{round}&status={fate}");
            world.get(Env::Live, &format!("/v1/upstream/sms/main?{query}")).into_future()
        });
        for answer in futures_util::future::join_all(receipts).await {
            answer.ok();
        }
        let read = ada.sms(&id).await.ok();
        let is_final = ["delivered", "undelivered"].contains(&read.word("status"));
        assert!(is_final, "round {round}: {}", read.text);
    }
    assert_eq!(ada.balance().await, START - 5 * PRICE, "a carrier took them");
}

async fn a_gateway_of_a_file_is_believed_by_its_address(world: &World) {
    let (far, address) = Far::open(200, r#"{"id": "A1"}"#).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    let ada = sender(world, "ada").await;
    for (round, networks, status) in [(1, "127.0.0.0/8", 200), (2, "192.0.2.1", 401)] {
        let description = format!(
            "[request]\nmethod = 'POST'\nurl = '{{base_url}}/send'\n[request.fields]\n\
             n = '{{to_national}}'\nc = '{{class}}'\nparts = '{{segments}}'\ne = '{{encoding}}'\n\
             hex = '{{text_hex}}'\n[answer]\nid = '/id'\n[report]\nid = 'id'\nstatus = 'state'\n\
             states = {{ ok = 'delivered' }}\n[verify]\nby = 'addresses'\n\
             networks = ['{networks}']\n"
        );
        std::fs::write(&file, description).unwrap();
        let text = format!(
            "routes = [{{prefix = '+', carriers = ['main']}}]\n[carriers.main]\nkind = 'http'\n\
             description = '{}'\nbase_url = 'http://{address}'\n",
            file.display()
        );
        let sms: estafette::config::Sms = toml::from_str(&text).unwrap();
        let make = move |clock: &Clock, door: &Door| {
            Carriers::none().with_sms(&sms, clock, HOME, door).unwrap()
        };
        world.give_live(Box::new(make)).await;
        let body = json!({"to": phone(&format!("567{round}")), "text": "hi", "class": "bulk"});
        let id = ada.text(body).await.ok().word("id").to_owned();
        ada.sms_until(&id, "submitted").await;
        let (_, asked) = far.asked().await;
        assert_eq!(asked, format!("c=bulk&e=gsm7&hex=6869&n=61234567{round}&parts=1"));
        let answer = world.get(Env::Live, "/v1/upstream/sms/main?id=A1&state=ok").await;
        assert_eq!(answer.status, status, "{}", answer.text);
        ada.sms_until(&id, if status == 200 { "delivered" } else { "submitted" }).await;
    }
}
