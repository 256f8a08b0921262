//! A webhook target that takes every POST, says whether its signature is right, remembers the last
//! ones and shows them at `GET /` and `GET /requests`, newest first. Whoever looks at it with a
//! browser or `curl` is told in words what it made of that.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::{Clock, Millis};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

/// Longest body that is taken, as for the service's own webhooks.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// How far a timestamp may be from now before receivers refuse it (Standard Webhooks), seconds.
const TOLERANCE_S: i64 = 300;
/// How many requests are remembered.
const REMEMBERED: usize = 1_000;

/// What a signing secret begins with.
const SECRET: &str = "whsec_";

/// What is to be said of the signature of a request (Standard Webhooks).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// One of the secrets made it.
    Right,
    /// None of the secrets made it.
    Wrong,
    /// There is none.
    Missing,
    /// No secret is known to look at it with.
    Unchecked,
}

impl Signature {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Right => "signature right",
            Self::Wrong => "signature WRONG",
            Self::Missing => "NOT signed",
            Self::Unchecked => "signature not checked: no secret is known",
        }
    }
}

/// One request that came in.
#[derive(Clone, Debug, Serialize)]
pub struct Received {
    /// When, RFC 3339.
    pub received_at: String,
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub path: String,
    /// The header `webhook-id`.
    pub webhook_id: Option<String>,
    /// The header `webhook-timestamp`.
    pub webhook_timestamp: Option<String>,
    /// The header `webhook-signature`.
    pub webhook_signature: Option<String>,
    /// Whether that is right.
    pub signature: Signature,
    /// How old the timestamp is, in seconds, where a receiver should refuse it: negative if it is
    /// of times to come.
    pub stale_s: Option<i64>,
    /// Size of the body in bytes.
    pub size: usize,
    /// The body; what is not UTF-8 is replaced.
    pub body: String,
}

impl Received {
    /// What is to be said of its signature, in words.
    #[must_use]
    pub fn verdict(&self) -> String {
        let words = self.signature.words();
        match (self.signature, self.stale_s) {
            (Signature::Right, Some(old @ 0..)) => format!("{words}, but {old} s old"),
            (Signature::Right, Some(ahead)) => format!("{words}, but {} s ahead", -ahead),
            _ => words.to_owned(),
        }
    }
}

type Report = dyn Fn(&Received) + Send + Sync;

#[derive(Clone)]
struct Sink {
    clock: Clock,
    last: Arc<Mutex<VecDeque<Received>>>,
    secrets: Arc<Mutex<Vec<Vec<u8>>>>,
    report: Arc<Report>,
}

impl Sink {
    fn last(&self) -> MutexGuard<'_, VecDeque<Received>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the signatures of a request: `v1,` and the HMAC of id, timestamp and body, several
    /// with spaces between them while a secret is replaced.
    fn judge(&self, headers: &HeaderMap, body: &[u8]) -> Signature {
        let header = |name| headers.get(name).map_or(&[][..], |value| value.as_bytes());
        let given = String::from_utf8_lossy(header("webhook-signature"));
        if given.is_empty() {
            return Signature::Missing;
        }
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if secrets.is_empty() {
            return Signature::Unchecked;
        }
        let signed = [header("webhook-id"), header("webhook-timestamp"), body].join(&b'.');
        let is_of = |secret: &Vec<u8>| {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
            mac.update(&signed);
            let made = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
            given.split(' ').any(|one| one == made)
        };
        if secrets.iter().any(is_of) { Signature::Right } else { Signature::Wrong }
    }
}

/// How old a timestamp is, where that is too far from now.
fn stale_s(timestamp: Option<&str>, now: Millis) -> Option<i64> {
    let at: i64 = timestamp?.parse().ok()?;
    let old = (now.0 / 1_000).saturating_sub(at);
    (old.saturating_abs() > TOLERANCE_S).then_some(old)
}

/// The key in a secret as the service shows it.
fn key_of(secret: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.trim().strip_prefix(SECRET)?).ok()
}

/// The server, bound but not yet answering.
pub struct WebhookSink {
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    secrets: Vec<Vec<u8>>,
}

impl WebhookSink {
    /// Takes the address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, secrets: Vec::new() })
    }

    /// Looks at signatures with these secrets (`whsec_…`); `None` if one of them is none.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &[String]) -> Option<Self> {
        self.secrets = secrets.iter().map(|secret| key_of(secret)).collect::<Option<_>>()?;
        Some(self)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the future is dropped; `report` is told of every POST.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        self,
        clock: Clock,
        report: impl Fn(&Received) + Send + Sync + 'static,
    ) -> std::io::Result<()> {
        let secrets = Arc::new(Mutex::new(self.secrets));
        let sink = Sink { clock, last: Arc::default(), secrets, report: Arc::new(report) };
        let router = Router::new()
            .route("/", get(list).post(take))
            .route("/requests", get(list).post(take))
            .route("/secrets", put(learn).post(take))
            .fallback(take)
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .with_state(sink);
        axum::serve(self.listener, router).await
    }
}

async fn list(State(sink): State<Sink>) -> Json<Vec<Received>> {
    Json(sink.last().iter().rev().cloned().collect())
}

/// One more secret to look at signatures with.
async fn learn(State(sink): State<Sink>, secret: String) -> (StatusCode, &'static str) {
    let Some(key) = key_of(&secret) else {
        let told =
            "This is no signing secret: it is whsec_ and base64, as the target was made with.\n";
        return (StatusCode::UNPROCESSABLE_ENTITY, told);
    };
    sink.secrets.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    (StatusCode::OK, "From now on signatures are looked at with this secret, too.\n")
}

async fn take(
    State(sink): State<Sink>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method != Method::POST {
        let told =
            "This takes any POST, and a secret at PUT /secrets; GET /requests shows what came.\n";
        return (StatusCode::METHOD_NOT_ALLOWED, told).into_response();
    }
    let header = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let now = sink.clock.now();
    let received = Received {
        received_at: now.to_string(),
        stale_s: stale_s(header("webhook-timestamp").as_deref(), now),
        method: method.to_string(),
        path: uri.to_string(),
        webhook_id: header("webhook-id"),
        webhook_timestamp: header("webhook-timestamp"),
        webhook_signature: header("webhook-signature"),
        signature: sink.judge(&headers, &body),
        size: body.len(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    (sink.report)(&received);
    let mut last = sink.last();
    if last.len() == REMEMBERED {
        last.pop_front();
    }
    last.push_back(received);
    StatusCode::NO_CONTENT.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn start() -> String {
        let sink = WebhookSink::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("http://{}", sink.address());
        tokio::spawn(sink.serve(Clock::system(), |_| {}));
        url
    }

    async fn requests(url: &str) -> Vec<serde_json::Value> {
        reqwest::get(format!("{url}/requests")).await.unwrap().json().await.unwrap()
    }

    #[tokio::test]
    async fn posts_are_taken_and_listed_newest_first() {
        let url = start().await;
        let http = reqwest::Client::new();
        for id in ["evt_1", "evt_2"] {
            let post = http.post(format!("{url}/hook?a=1")).header("webhook-id", id);
            assert_eq!(post.body("{\"x\":1}").send().await.unwrap().status(), 204);
        }
        let seen = requests(&url).await;
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0]["webhook_id"], "evt_2");
        assert_eq!(seen[0]["path"], "/hook?a=1");
        assert_eq!(seen[0]["body"], "{\"x\":1}");
        assert_eq!(seen[0]["size"], 7);
        let front = reqwest::get(&url).await.unwrap().text().await.unwrap();
        assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&front).unwrap(), seen);
    }

    #[tokio::test]
    async fn signatures_are_looked_at_with_the_secrets_that_are_known() {
        let url = start().await;
        let http = reqwest::Client::new();
        // The vector of the specification of Standard Webhooks.
        let (secret, made) = (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        );
        let post = async |body: &'static str, signature: Option<&str>| {
            let mut post = http.post(&url).header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek");
            post = post.header("webhook-timestamp", "1614265330").body(body);
            if let Some(signature) = signature {
                post = post.header("webhook-signature", signature);
            }
            post.send().await.unwrap();
            requests(&url).await[0]["signature"].clone()
        };
        let body = "{\"test\": 2432232314}";
        assert_eq!(post(body, Some(made)).await, "unchecked");
        let put = |secret| http.put(format!("{url}/secrets")).body(secret).send();
        let (refused, taken) = (put("MfKQ").await.unwrap(), put(secret).await.unwrap());
        assert_eq!((refused.status().as_u16(), taken.status().as_u16()), (422, 200));
        assert!(refused.text().await.unwrap().contains("no signing secret"));
        assert!(taken.text().await.unwrap().contains("looked at with this secret"));
        assert_eq!(post(body, Some(made)).await, "right");
        assert_eq!(post(body, Some(&format!("v1,AAAA {made}"))).await, "right");
        assert_eq!(post("{\"test\": 1}", Some(made)).await, "wrong");
        assert_eq!(post(body, None).await, "missing");
    }

    #[test]
    fn a_right_signature_of_long_ago_is_told_as_old() {
        let now = Millis(1_700_000_000_000);
        let old = |at: &str| stale_s(Some(at), now);
        assert_eq!((old("1699999700"), old("1700000300"), old("soon")), (None, None, None));
        assert_eq!((old("1699999000"), old("1700001000")), (Some(1_000), Some(-1_000)));
        let told = |signature, stale_s| {
            let received = Received {
                received_at: now.to_string(),
                method: "POST".to_owned(),
                path: "/".to_owned(),
                webhook_id: None,
                webhook_timestamp: None,
                webhook_signature: None,
                signature,
                stale_s,
                size: 0,
                body: String::new(),
            };
            received.verdict()
        };
        assert_eq!(told(Signature::Right, None), "signature right");
        assert_eq!(told(Signature::Right, Some(1_000)), "signature right, but 1000 s old");
        assert_eq!(told(Signature::Right, Some(-1_000)), "signature right, but 1000 s ahead");
        assert_eq!(told(Signature::Wrong, Some(1_000)), "signature WRONG");
    }

    #[tokio::test]
    async fn other_methods_and_long_bodies_are_refused_and_not_remembered() {
        let url = start().await;
        let http = reqwest::Client::new();
        let put = http.put(format!("{url}/hook")).send().await.unwrap();
        assert_eq!(put.status(), 405);
        assert!(put.text().await.unwrap().contains("any POST"));
        let long = http.post(format!("{url}/hook")).body(vec![b'x'; MAX_BODY_BYTES + 1]);
        assert_eq!(long.send().await.unwrap().status(), 413);
        assert!(requests(&url).await.is_empty());
    }

    #[tokio::test]
    async fn only_the_last_thousand_are_remembered() {
        let url = start().await;
        let http = reqwest::Client::new();
        for at in 0..=REMEMBERED {
            http.post(format!("{url}/{at}")).send().await.unwrap();
        }
        let seen = requests(&url).await;
        assert_eq!(seen.len(), REMEMBERED);
        assert_eq!(seen.last().unwrap()["path"], "/1");
    }
}
