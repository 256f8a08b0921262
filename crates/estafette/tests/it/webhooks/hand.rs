//! Events in hand: their deliveries are tried before they are written down, and a change of the
//! target holds for all that has not begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use estafette::events::{self, Kind};
use estafette::kit::id::AccountId;
use playground::ReceiverZoo;
use serde_json::json;
use store::WriteSet;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Notify};

use super::{ada, happen, hook, log, quiet, settled, visited};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{Answer, World, eventually};

on_every_engine!(
    what_is_in_hand_arrives_once_and_is_logged_once,
    a_delivery_that_takes_long_is_seen_as_pending,
    what_is_on_its_way_is_not_recovered,
    what_waits_goes_to_the_new_url,
    a_target_that_is_switched_off_gets_nothing_more,
    what_waits_is_signed_by_a_new_secret_too,
);

/// A receiver that answers once it may.
#[derive(Clone, Default)]
struct Doorman {
    is_shut: Arc<AtomicBool>,
    opens: Arc<Notify>,
    /// The signatures of each request.
    came: Arc<Mutex<Vec<String>>>,
}

impl Doorman {
    async fn start() -> (Self, String) {
        let doorman = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().fallback(Self::answer).with_state(doorman.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        (doorman, url)
    }

    async fn answer(State(this): State<Self>, headers: HeaderMap) -> StatusCode {
        let signature = headers["webhook-signature"].to_str().unwrap().to_owned();
        this.came.lock().await.push(signature);
        let opens = this.opens.notified();
        if this.is_shut.load(Ordering::SeqCst) {
            opens.await;
        }
        StatusCode::OK
    }

    fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
    }

    fn open(&self) {
        self.is_shut.store(false, Ordering::SeqCst);
        self.opens.notify_waiters();
    }

    async fn seen(&self) -> usize {
        self.came.lock().await.len()
    }

    async fn sees(&self, count: usize) {
        eventually(async || (self.seen().await >= count).then_some(())).await;
    }
}

/// A target that is known to work, and whose lane has one delivery under way.
async fn busy(ada: &Tenant<'_>, doorman: &Doorman, url: &str) -> Answer {
    let made = hook(ada, url, &["*"]).await;
    happen(ada, Kind::SmsDelivery, 1).await;
    settled(ada, &made, |one| one["status"] == "delivered").await;
    doorman.shut();
    happen(ada, Kind::SmsDelivery, 1).await;
    doorman.sees(2).await;
    made
}

/// Many more deliveries for it, all of them made, 16 of them under way.
async fn crowd(ada: &Tenant<'_>, doorman: &Doorman, made: &Answer) {
    happen(ada, Kind::SmsDelivery, 40).await;
    doorman.sees(17).await;
    eventually(async || (log(ada, made).await.len() == 42).then_some(())).await;
}

/// Has the database looked through for events that are due.
async fn look(ada: &Tenant<'_>) {
    let mut set = WriteSet::of(&ada.account_id);
    events::listen(&mut set, &AccountId::parse(&ada.account_id).unwrap());
    set.ring(events::BELL);
    ada.world.app(ada.env).await.db.commit(set).await.unwrap();
}

/// How many of its deliveries stand so.
async fn logged(ada: &Tenant<'_>, made: &Answer, status: &str) -> usize {
    log(ada, made).await.iter().filter(|one| one["status"] == status).count()
}

async fn change(ada: &Tenant<'_>, made: &Answer, change: serde_json::Value) {
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(change).await.ok();
}

async fn what_is_in_hand_arrives_once_and_is_logged_once(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let mut ids = happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 1).await;
    for _ in 0..20 {
        ids.extend(happen(&ada, Kind::SmsDelivery, 5).await);
        look(&ada).await;
    }
    visited(&zoo, "/ok", ids.len()).await;
    assert_eq!(quiet(&zoo, "/ok").await, ids.len(), "each once");
    let mut came: Vec<_> = zoo.visits().iter().map(|v| v.headers["webhook-id"].clone()).collect();
    came.sort();
    ids.sort();
    assert_eq!(came, ids);
    let logged = log(&ada, &made).await;
    assert_eq!(logged.len(), ids.len());
    for one in logged {
        assert_eq!((&one["status"], &one["attempt_count"]), (&json!("delivered"), &json!(1)));
        assert_eq!(one["attempts"][0]["number"], 1, "{one}");
        assert_eq!(one["attempts"][0]["status"], 200, "{one}");
    }
    // Nothing is left for whoever looks after what others left.
    world.advance(10_000).await;
    assert_eq!(quiet(&zoo, "/ok").await, ids.len());
}

async fn a_delivery_that_takes_long_is_seen_as_pending(world: &World) {
    let (doorman, url) = Doorman::start().await;
    let ada = ada(world).await;
    let made = busy(&ada, &doorman, &url).await;
    happen(&ada, Kind::SmsDelivery, 3).await;
    doorman.sees(5).await;
    let pending = async || logged(&ada, &made, "pending").await;
    eventually(async || (pending().await == 4).then_some(())).await;
    doorman.open();
    eventually(async || (pending().await == 0).then_some(())).await;
    let logged = log(&ada, &made).await;
    assert!(logged.iter().all(|one| one["attempt_count"] == 1), "{logged:?}");
    assert_eq!((logged.len(), doorman.seen().await), (5, 5));
}

async fn what_is_on_its_way_is_not_recovered(world: &World) {
    let (doorman, url) = Doorman::start().await;
    let ada = ada(world).await;
    let made = busy(&ada, &doorman, &url).await;
    happen(&ada, Kind::SmsDelivery, 3).await;
    doorman.sees(5).await;
    let path = format!("/v1/webhooks/{}/recover", made.word("id"));
    ada.desk("POST", &path).json(json!({"since": "2025-12-31T00:00:00Z"})).await.ok();
    tokio::time::sleep(Duration::from_millis(150)).await;
    doorman.open();
    let delivered = async || logged(&ada, &made, "delivered").await;
    eventually(async || (delivered().await == 5).then_some(())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((log(&ada, &made).await.len(), doorman.seen().await), (5, 5));
}

async fn what_waits_goes_to_the_new_url(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let (doorman, url) = Doorman::start().await;
    let ada = ada(world).await;
    let made = busy(&ada, &doorman, &url).await;
    crowd(&ada, &doorman, &made).await;
    change(&ada, &made, json!({"url": zoo.url("/ok")})).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    doorman.open();
    visited(&zoo, "/ok", 25).await;
    assert_eq!(quiet(&zoo, "/ok").await, 25);
    assert_eq!(doorman.seen().await, 17, "only what was under way");
}

async fn a_target_that_is_switched_off_gets_nothing_more(world: &World) {
    let (doorman, url) = Doorman::start().await;
    let ada = ada(world).await;
    let made = busy(&ada, &doorman, &url).await;
    crowd(&ada, &doorman, &made).await;
    change(&ada, &made, json!({"active": false})).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    doorman.open();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(doorman.seen().await, 17, "only what was under way");
    // What waited is still there.
    change(&ada, &made, json!({"active": true})).await;
    doorman.sees(42).await;
}

async fn what_waits_is_signed_by_a_new_secret_too(world: &World) {
    let (doorman, url) = Doorman::start().await;
    let ada = ada(world).await;
    let made = busy(&ada, &doorman, &url).await;
    crowd(&ada, &doorman, &made).await;
    let path = format!("/v1/webhooks/{}/rotate-secret", made.word("id"));
    ada.desk("POST", &path).await.ok();
    tokio::time::sleep(Duration::from_millis(600)).await;
    doorman.open();
    doorman.sees(42).await;
    let signatures = doorman.came.lock().await.clone();
    let count = |signature: &String| signature.split(' ').count();
    assert!(signatures[..17].iter().all(|one| count(one) == 1));
    assert!(signatures[17..].iter().all(|one| count(one) == 2), "{signatures:?}");
}
