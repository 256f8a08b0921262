//! A webhook target that takes every POST, remembers the last ones and shows them at
//! `GET /requests`, newest first.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use clock::Clock;
use serde::Serialize;

/// Longest body that is taken, as for the service's own webhooks.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// How many requests are remembered.
const REMEMBERED: usize = 1_000;

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
    /// Size of the body in bytes.
    pub size: usize,
    /// The body; what is not UTF-8 is replaced.
    pub body: String,
}

type Report = dyn Fn(&Received) + Send + Sync;

#[derive(Clone)]
struct Sink {
    clock: Clock,
    last: Arc<Mutex<VecDeque<Received>>>,
    report: Arc<Report>,
}

impl Sink {
    fn last(&self) -> MutexGuard<'_, VecDeque<Received>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server, bound but not yet answering.
pub struct WebhookSink {
    listener: tokio::net::TcpListener,
    address: SocketAddr,
}

impl WebhookSink {
    /// Takes the address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
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
        let sink = Sink { clock, last: Arc::default(), report: Arc::new(report) };
        let router = Router::new()
            .route("/requests", get(list).post(take))
            .fallback(take)
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .with_state(sink);
        axum::serve(self.listener, router).await
    }
}

async fn list(State(sink): State<Sink>) -> Json<Vec<Received>> {
    Json(sink.last().iter().rev().cloned().collect())
}

async fn take(
    State(sink): State<Sink>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let header = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let received = Received {
        received_at: sink.clock.now().to_string(),
        method: method.to_string(),
        path: uri.to_string(),
        webhook_id: header("webhook-id"),
        webhook_timestamp: header("webhook-timestamp"),
        webhook_signature: header("webhook-signature"),
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
    }

    #[tokio::test]
    async fn other_methods_and_long_bodies_are_refused_and_not_remembered() {
        let url = start().await;
        let http = reqwest::Client::new();
        let put = http.put(format!("{url}/hook")).send().await.unwrap();
        assert_eq!(put.status(), 405);
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
