//! Webhooks from outside: targets, what reaches them and how, and what happens when they fail.

mod delivery;
mod hand;
mod nodes;
mod outcomes;
mod recovery;
mod targets;
mod urls;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderName, StatusCode, header};
use estafette::app::Env;
use estafette::events::{self, Event, Kind};
use estafette::kit::id::{AccountId, EventId};
use playground::{ReceiverZoo, Visit};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use store::WriteSet;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::world::tenant::Tenant;
use crate::world::{Answer, World, eventually};

/// A receiver that keeps each request waiting until the story says what it answers.
pub struct SlowReceiver {
    pub url: String,
    came: Arc<Notify>,
    may_answer: Arc<Notify>,
    status: Arc<Mutex<StatusCode>>,
}

impl SlowReceiver {
    /// Each answer asks for a pause of so many seconds.
    pub async fn asking_for(retry_after_s: u32) -> Self {
        let (came, may_answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let status = Arc::new(Mutex::new(StatusCode::OK));
        let (comes, answers, says) =
            (Arc::clone(&came), Arc::clone(&may_answer), Arc::clone(&status));
        let answer = async move || -> (StatusCode, [(HeaderName, String); 1]) {
            comes.notify_one();
            answers.notified().await;
            let status = *says.lock().unwrap();
            (status, [(header::RETRY_AFTER, retry_after_s.to_string())])
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        Self { url, came, may_answer, status }
    }

    /// Until the next request has come.
    pub async fn comes(&self) {
        let patience = std::time::Duration::from_secs(20);
        tokio::time::timeout(patience, self.came.notified()).await.expect("a request");
    }

    /// The request that waits is answered.
    pub fn answers(&self, status: u16) {
        *self.status.lock().unwrap() = StatusCode::from_u16(status).unwrap();
        self.may_answer.notify_one();
    }
}

/// Names a target.
pub async fn hook(ada: &Tenant<'_>, url: &str, events: &[&str]) -> Answer {
    let body = json!({"url": url, "events": events});
    ada.desk("POST", "/v1/webhooks").json(body).await.ok()
}

/// Lets events happen to an account, all in one write set. Answers their ids.
pub async fn happen(ada: &Tenant<'_>, kind: Kind, count: usize) -> Vec<String> {
    let app = ada.world.app(ada.env).await;
    happen_by(&app, ada, kind, count).await
}

/// The same by another process.
pub async fn happen_by(
    app: &estafette::app::App,
    ada: &Tenant<'_>,
    kind: Kind,
    count: usize,
) -> Vec<String> {
    let account = AccountId::parse(&ada.account_id).unwrap();
    let mut ids = vec![];
    for _ in 0..count {
        let id = EventId::new(&app.clock);
        let mut set = WriteSet::of(account.as_str());
        let event = Event {
            account: &account,
            id: &id,
            kind,
            object_id: "obj_1",
            sequence: 1,
            data: kind.example(),
        };
        events::emit(app, &mut set, &event);
        app.db.commit(set).await.unwrap();
        ids.push(id.into());
    }
    ids
}

/// Waits until a path of the zoo was visited so often.
#[track_caller]
pub fn visited<'z>(
    zoo: &'z ReceiverZoo,
    path: &'z str,
    times: usize,
) -> impl Future<Output = Vec<Visit>> + 'z {
    eventually(move || async move {
        let visits = zoo.visits_to(path);
        (visits.len() >= times).then_some(visits)
    })
}

/// Waits until nothing comes any more; answers how many came to a path.
pub async fn quiet(zoo: &ReceiverZoo, path: &str) -> usize {
    let mut before = usize::MAX;
    loop {
        let now = zoo.visits().len();
        if now == before {
            return zoo.visits_to(path).len();
        }
        before = now;
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    }
}

/// The deliveries of a target, newest first.
pub async fn log(ada: &Tenant<'_>, hook: &Answer) -> Vec<Value> {
    let path = format!("/v1/webhooks/{}/deliveries?limit=200", hook.word("id"));
    ada.get(&path).await.ok().list().to_vec()
}

/// Waits until the newest delivery of a target reads so.
#[track_caller]
pub fn settled<'a>(
    ada: &'a Tenant<'_>,
    hook: &'a Answer,
    good: impl Fn(&Value) -> bool + 'a,
) -> impl Future<Output = Value> + 'a {
    let good = std::sync::Arc::new(good);
    eventually(move || {
        let good = std::sync::Arc::clone(&good);
        async move { log(ada, hook).await.into_iter().next().filter(|newest| good(newest)) }
    })
}

/// The target as it reads now.
pub async fn target(ada: &Tenant<'_>, hook: &Answer) -> Answer {
    ada.get(&format!("/v1/webhooks/{}", hook.word("id"))).await.ok()
}

/// Whether a visit carries the signature of a secret, by the official verifier. It compares with
/// the machine's time.
pub fn is_signed(visit: &Visit, secret: &str) -> bool {
    let mut headers = reqwest::header::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, visit.headers[name].parse().unwrap());
    }
    Webhook::new(secret).unwrap().verify(&visit.body, &headers).is_ok()
}

/// Moves a story to the machine's time, which the verifier insists on.
pub async fn to_the_present(world: &World) {
    let now = clock::Clock::system().now();
    world.advance(now - world.now()).await;
}

/// The JSON of a visit.
pub fn json_of(visit: &Visit) -> Value {
    serde_json::from_slice(&visit.body).unwrap()
}

/// Whether an event has the members of the example that is documented for its kind, and no others.
pub fn like_its_example(event: &Value) {
    let kind = event["type"].as_str().unwrap().parse::<Kind>().unwrap();
    let example = kind.example_event();
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(event), names(&example), "{}", kind.as_str());
    assert_eq!(names(&event["data"]), names(&example["data"]), "{}", kind.as_str());
}

/// The account that most stories need.
pub async fn ada(world: &World) -> Tenant<'_> {
    let ada = world.account("ada").await;
    assert_eq!(ada.env, Env::Sandbox);
    ada
}
