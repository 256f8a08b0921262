//! Numbers that changed their network: who is asked, how long anybody waits for the answer, and
//! what it changes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use estafette::app::Env;
use playground::smsc::IdStyle;
use serde_json::json;
use tokio::time::Instant;

use super::{Centre, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Tenant, World, eventually};

on_every_engine!(
    a_ported_number_takes_the_other_carrier,
    a_slow_or_broken_look_up_is_in_nobodys_way,
    nobody_is_asked_where_no_route_depends_on_it,
    a_passcode_finds_a_route_that_only_its_network_has,
);

/// What it takes to answer, at most, beside what a busy machine takes.
const SOON: Duration = Duration::from_millis(1_500);

/// Who knows the networks of numbers.
#[derive(Clone, Default)]
struct Registry {
    asked: Arc<Mutex<Vec<(String, String)>>>,
    answer: Arc<Mutex<(u16, String, Duration)>>,
    answered: Arc<AtomicUsize>,
}

impl Registry {
    async fn open() -> (Self, SocketAddr) {
        let registry = Self::default();
        registry.says(200, r#"{"mcc": "208", "mnc": "15"}"#, Duration::ZERO);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (registry, address)
    }

    fn says(&self, status: u16, body: &str, after: Duration) {
        *self.answer.lock().unwrap() = (status, body.to_owned(), after);
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn answer(
    State(registry): State<Registry>,
    uri: Uri,
    headers: HeaderMap,
) -> (StatusCode, String) {
    let proof = headers.get("x-key").map(|value| value.to_str().unwrap().to_owned());
    registry.asked.lock().unwrap().push((uri.to_string(), proof.unwrap_or_default()));
    let (status, body, after) = registry.answer.lock().unwrap().clone();
    tokio::time::sleep(after).await;
    registry.answered.fetch_add(1, Ordering::SeqCst);
    (StatusCode::from_u16(status).unwrap(), body)
}

/// Two centres: `one` for all numbers, `two` for those of a network.
struct Scene<'w> {
    world: &'w World,
    ada: Tenant<'w>,
    one: Centre,
    two: Centre,
    registry: Registry,
}

async fn scene<'w>(world: &'w World, network: &str) -> Scene<'w> {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    let (registry, address) = Registry::open().await;
    let mut sms = settings(&[("one", one.address, ""), ("two", two.address, "")]);
    sms.routes = toml::from_str::<toml::Table>(&format!(
        "routes = [{{prefix = '+', carriers = ['one']}}, \
         {{prefix = '+33', network = '{network}', carriers = ['two']}}]"
    ))
    .unwrap()["routes"]
        .clone()
        .try_into()
        .unwrap();
    sms.lookup = toml::from_str(&format!(
        "url = 'http://{address}/mnp/{{number}}?full=1'\nheader = 'X-Key'\ntoken = 'key 1'\n\
         cache_s = 60"
    ))
    .unwrap();
    give(world, sms).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    Scene { world, ada: sender(world, "ada").await, one, two, registry }
}

impl Scene<'_> {
    async fn passcode(&self, to: &str) {
        self.ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    }

    /// Messages that came to a number, by each of the centres.
    fn came(&self, to: &str) -> (usize, usize) {
        (self.one.came_to(to).len(), self.two.came_to(to).len())
    }

    async fn lookups(&self, outcome: &str) -> usize {
        let figure = format!("estafette_sms_lookups_total{{outcome=\"{outcome}\"}} ");
        let figures = self.world.metrics().await.text;
        let line = figures.lines().find_map(|line| line.strip_prefix(&figure));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

async fn a_ported_number_takes_the_other_carrier(world: &World) {
    let scene = scene(world, "20815").await;
    let (ported, stayed) = (phone("5678"), phone("5679"));
    scene.passcode(&ported).await;
    assert_eq!(scene.came(&ported), (0, 1));
    let asked = scene.registry.asked.lock().unwrap()[0].clone();
    assert_eq!(asked, (format!("/mnp/{}?full=1", &ported[1..]), "key 1".to_owned()));
    // A second message to the number asks nobody, whatever its class.
    let id = scene.ada.text(json!({"to": ported, "text": "hi"})).await.ok();
    scene.ada.sms_until(id.word("id"), "delivered").await;
    assert_eq!((scene.came(&ported), scene.registry.count()), ((0, 2), 1));
    // Others stay with their prefix: of another network, or of none that is known.
    for (to, status, body) in [
        (stayed, 200, r#"{"mcc": 208, "mnc": "01"}"#),
        (phone("5680"), 200, r#"{"mcc": null}"#),
        (phone("5681"), 404, ""),
    ] {
        scene.registry.says(status, body, Duration::ZERO);
        scene.passcode(&to).await;
        assert_eq!(scene.came(&to), (1, 0), "{body}");
        let id = scene.ada.text(json!({"to": to, "text": "hi"})).await.ok();
        scene.ada.sms_until(id.word("id"), "delivered").await;
    }
    assert_eq!(scene.registry.count(), 4, "what has no network is remembered, too");
    assert_eq!((scene.lookups("answered").await, scene.lookups("known").await), (4, 4));
    // Later people may have moved.
    world.advance(61_000).await;
    scene.registry.says(200, r#"{"mcc": "208", "mnc": "01"}"#, Duration::ZERO);
    until_up(world, "one").await;
    scene.passcode(&ported).await;
    assert_eq!((scene.came(&ported), scene.registry.count()), ((1, 2), 5));
}

async fn a_slow_or_broken_look_up_is_in_nobodys_way(world: &World) {
    let scene = scene(world, "20815").await;
    let moved = r#"{"mcc": "208", "mnc": "15"}"#;
    // It is not waited for, and what it says then is known to the next message.
    scene.registry.says(200, moved, Duration::from_millis(1_800));
    let (to, begin) = (phone("5678"), Instant::now());
    scene.passcode(&to).await;
    assert_eq!(scene.came(&to), (1, 0));
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!(scene.lookups("late").await, 1);
    // No other question is open when the first has its answer, so none ends the rest below.
    let answered = &scene.registry.answered;
    eventually(async || (answered.load(Ordering::SeqCst) == 1).then_some(())).await;
    scene.registry.says(200, moved, Duration::ZERO);
    eventually(async || {
        let id = scene.ada.text(json!({"to": to, "text": "hi"})).await.ok();
        scene.ada.sms_until(id.word("id"), "delivered").await;
        (scene.came(&to).1 > 0).then_some(())
    })
    .await;
    // One that is broken is no fault of anybody's, and is left alone after a while.
    for (number, (status, body)) in
        [(500, moved), (200, "no JSON"), (200, r#"{"mcc": []}"#), (302, moved)].iter().enumerate()
    {
        scene.registry.says(*status, body, Duration::ZERO);
        let to = phone(&format!("570{number}"));
        scene.passcode(&to).await;
        assert_eq!(scene.came(&to), (1, 0), "{status} {body}");
    }
    scene.registry.says(500, "", Duration::ZERO);
    let before = scene.registry.count();
    for number in 0..6 {
        scene.passcode(&phone(&format!("580{number}"))).await;
    }
    assert!(scene.registry.count() <= before + 1, "it rests");
    assert!(scene.lookups("skipped").await >= 5);
    assert_eq!(scene.one.came_to(&phone("5805")).len(), 1);
}

async fn nobody_is_asked_where_no_route_depends_on_it(world: &World) {
    let scene = scene(world, "free mobile").await;
    let to = "+447400123456";
    scene.passcode(to).await;
    assert_eq!((scene.came(to), scene.registry.count()), ((1, 0), 0), "no route of +44 asks");
    scene.registry.says(200, r#"{"mcc": "Free ", "mnc": "Mobile"}"#, Duration::ZERO);
    scene.passcode(&phone("5678")).await;
    assert_eq!((scene.came(&phone("5678")), scene.registry.count()), ((0, 1), 1), "by name");
}

async fn a_passcode_finds_a_route_that_only_its_network_has(world: &World) {
    let scene = scene(world, "20815").await;
    let routes = json!({"routes": [{"prefix": "+44", "carriers": ["one"]},
        {"prefix": "+33", "network": "20815", "carriers": ["two"]}]});
    let put = world.put(Env::Live, "/v1/admin/routes").bearer(world.staff().await);
    put.json(routes).await.ok();
    let to = phone("5678");
    eventually(async || {
        let sent = scene.ada.send(json!({"to": to, "delivery_mode": "sms"})).await;
        (sent.status == 200).then_some(())
    })
    .await;
    assert_eq!(scene.came(&to), (0, 1));
    // Of another network, nobody carries it.
    scene.registry.says(200, r#"{"mcc": "208", "mnc": "01"}"#, Duration::ZERO);
    let other = json!({"to": phone("5679"), "delivery_mode": "sms"});
    scene.ada.send(other).await.problem("carrier_unavailable");
}
