//! Traces arrive at a collector: a program with the feature `otlp` is run as an operator runs it,
//! and a little collector reads what it sends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};

use crate::world::eventually;

type Batches = Arc<Mutex<Vec<Vec<u8>>>>;

/// Takes batches as `POST /v1/traces`, as the OTLP specification says.
async fn collector() -> (String, Batches) {
    async fn take(State(batches): State<Batches>, headers: HeaderMap, body: Bytes) {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        batches.lock().unwrap().push(body.to_vec());
    }
    let batches = Batches::default();
    let router = axum::Router::new().route("/v1/traces", post(take));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router.with_state(Arc::clone(&batches));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}"), batches)
}

/// A number in the wire format of protobuf.
fn varint(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// The fields of a protobuf message that are themselves bytes: number and content.
fn fields(mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut found = vec![];
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes),
            5 => 4,
            kind => panic!("no wire type: {kind}"),
        };
        let (content, rest) = bytes.split_at(length);
        if tag & 7 == 2 {
            found.push((tag >> 3, content));
        }
        bytes = rest;
    }
    found
}

fn sub(bytes: &[u8], number: usize) -> Vec<&[u8]> {
    fields(bytes).into_iter().filter(|(n, _)| *n == number).map(|(_, content)| content).collect()
}

/// A span as far as the story looks at it (opentelemetry-proto, trace.proto).
#[derive(Debug)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
}

/// The spans of a batch: `ExportTraceServiceRequest` > `ResourceSpans` > `ScopeSpans` > `Span`.
fn spans(batches: &Batches) -> Vec<Span> {
    let batches = batches.lock().unwrap();
    let mut found = vec![];
    for resource in batches.iter().flat_map(|batch| sub(batch, 1)) {
        for span in sub(resource, 2).into_iter().flat_map(|scope| sub(scope, 2)) {
            let first = |number| sub(span, number).first().map_or(vec![], |bytes| bytes.to_vec());
            let name = String::from_utf8(first(5)).unwrap();
            found.push(Span { trace: first(1), id: first(2), parent: first(4), name });
        }
    }
    found
}

/// The service as a process; ended with the story, whatever becomes of that.
struct Service {
    child: Child,
    sandbox: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn service(folder: &std::path::Path, collector: &str) -> Service {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estafette"));
    command.args(["serve", "--json"]).stdout(Stdio::piped());
    command.env("ESTAFETTE__DATA_DIR", folder);
    command.env("ESTAFETTE__TELEMETRY__OTLP_ENDPOINT", collector);
    for name in ["LIVE", "SANDBOX", "METRICS"] {
        command.env(format!("ESTAFETTE__SERVER__{name}"), "127.0.0.1:0");
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let places: Value = serde_json::from_str(&line).unwrap();
    Service { child, sandbox: places["sandbox"].as_str().unwrap().to_owned() }
}

async fn ask(request: reqwest::RequestBuilder, body: Value) -> Value {
    let answer = request.json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_is_one_trace_with_its_commits_and_its_carrier() {
    const TRACE: [u8; 16] = *b"\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36";
    const CALLER: [u8; 8] = *b"\x00\xf0\x67\xaa\x0b\xa9\x02\xb7";
    let folder = tempfile::tempdir().unwrap();
    let (endpoint, batches) = collector().await;
    let service = service(folder.path(), &endpoint);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("{}{path}", service.sandbox);
    let who = json!({"email": "ada@example.com", "password": "correct horse battery"});
    let token = ask(http.post(url("/v1/auth/signup")), who).await;
    let token = token["token"].as_str().unwrap();
    let made = ask(http.post(url("/v1/api-keys")).bearer_auth(token), json!({"name": "a"})).await;
    let key = made["api_key"].as_str().unwrap();
    let send = http.post(url("/v1/otp/send")).header("x-api-key", key);
    let send =
        send.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    ask(send, json!({"to": "+33612345678", "code": "80417731"})).await;
    let garbage = http.get(url("/v1/me")).bearer_auth(token).header("traceparent", "00-garbage");
    assert_eq!(garbage.send().await.unwrap().status(), 200);

    // What is not sent yet is sent when the service stops.
    let pid = service.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let found = eventually(|| async {
        let found = spans(&batches);
        found.iter().any(|span| span.name == "GET /v1/me").then_some(found)
    })
    .await;
    let named = |name: &str| found.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let request = named("POST /v1/otp/send");
    assert_eq!(request.len(), 1, "{found:?}");
    assert_eq!(
        (request[0].trace.as_slice(), request[0].parent.as_slice()),
        (&TRACE[..], &CALLER[..])
    );
    let within: Vec<&str> = found
        .iter()
        .filter(|span| span.parent == request[0].id && span.trace == TRACE)
        .map(|span| span.name.as_str())
        .collect();
    assert!(within.iter().filter(|name| **name == "commit").count() >= 2, "{within:?}");
    assert_eq!(within.iter().filter(|name| **name == "carrier.submit").count(), 1, "{within:?}");
    let other = named("GET /v1/me");
    assert!(other[0].trace != TRACE && other[0].parent.is_empty(), "{other:?}");

    tokio::time::sleep(Duration::from_millis(100)).await;
    let sent = batches.lock().unwrap().concat();
    let holds = |text: &str| sent.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("estafette") && holds("/v1/otp/send"), "the search finds what is there");
    for secret in ["612345678", "80417731", "ada@example.com", key, token] {
        assert!(!holds(secret), "a span holds {secret}");
    }
}
