//! A gateway that does not know us: what it does not take goes by another carrier, and the operator
//! sees why.

use std::io::Write;
use std::sync::Mutex;

use clock::Clock;
use estafette::carriers::{Carriers, Door};
use playground::smsc::IdStyle;
use serde_json::json;

use super::gateways::{Far, HOME};
use super::{Centre, PRICE, START, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::phone;

on_every_engine!(a_gateway_that_does_not_know_us_is_passed_over);

/// The errors of this process's log.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps them from now on. Where stories share a process, one of them is the first.
fn keep_log() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::ERROR).with_ansi(false);
    let _kept_already = log.with_writer(|| Log).try_init();
}

/// Whether the log blames the settings of a carrier.
fn blames(carrier: &str) -> bool {
    let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    let is_it = |line: &str| {
        line.contains("the carrier refuses messages: see its settings")
            && line.contains(&format!("carrier=\"{carrier}\""))
            && line.contains("class=\"unfit\"")
    };
    log.lines().any(is_it)
}

/// What a carrier answered so, as its figure counts it.
async fn answered(world: &World, carrier: &str, outcome: &str) -> usize {
    let page = world.metrics().await.ok();
    let is_it = |line: &&str| {
        line.starts_with("estafette_submission_duration_seconds_count{")
            && line.contains(&format!("carrier=\"{carrier}\""))
            && line.contains(&format!("outcome=\"{outcome}\""))
    };
    let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap();
    page.text.lines().filter(is_it).map(count).sum()
}

async fn a_gateway_that_does_not_know_us_is_passed_over(world: &World) {
    keep_log();
    let (far, address) = Far::open(401, r#"{"code": 20003, "status": 401}"#).await;
    let two = Centre::new(IdStyle::Decimal).await;
    let mut sms = settings(&[("two", two.address(), "")]);
    let text = format!(
        "kind = 'http'\npreset = 'twilio'\nbase_url = 'http://{address}'\nusername = 'AC1'\n\
         password = 'wrong'\n"
    );
    sms.carriers.insert("one".to_owned(), toml::from_str(&text).unwrap());
    let routes = "routes = [{prefix = '+', carriers = ['one', 'two']}]";
    sms.routes =
        toml::from_str::<toml::Table>(routes).unwrap()["routes"].clone().try_into().unwrap();
    let make = move |clock: &Clock, door: &Door| {
        Carriers::none().with_sms(&sms, clock, HOME, door).unwrap()
    };
    world.give_live(Box::new(make)).await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let (to, other) = (phone("1000"), phone("2000"));
    let id = ada.text(json!({"to": to, "text": "hi"})).await.ok().word("id").to_owned();
    ada.sms_until(&id, "delivered").await;
    let passcode = ada.send(json!({"to": other, "delivery_mode": "sms"})).await.ok();
    ada.until(passcode.word("challenge_id"), |it| it["status"] == "delivered").await;
    assert_eq!((two.came_to(&to).len(), two.came_to(&other).len()), (1, 1));
    assert_eq!(far.asked.lock().unwrap().len(), 2, "it was asked once for each");
    let spent = PRICE + world.price("sms", "FR");
    assert_eq!(ada.balance().await, START - spent, "each is charged once");
    assert_eq!(
        (answered(world, "one", "refused").await, answered(world, "two", "accepted").await),
        (2, 2)
    );
    assert!(blames("one") && !blames("two"), "the operator reads whose settings are wrong");
    // What it says of the message is final: a status alone moves nothing to another carrier.
    *far.answer.lock().unwrap() = (404, r#"{"code": 21211, "status": 404}"#.to_owned());
    let refused = phone("3000");
    let id = ada.text(json!({"to": refused, "text": "hi"})).await.ok().word("id").to_owned();
    let read = ada.sms_until(&id, "failed").await;
    assert_eq!(read.field("error")["code"], "recipient_unreachable", "{}", read.text);
    assert!(two.came_to(&refused).is_empty());
    assert_eq!(ada.balance().await, START - spent);
}
