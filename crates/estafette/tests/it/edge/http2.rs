//! HTTP/2, with and without manners: frames written by hand (RFC 9113) where a library would
//! refuse to write them.

use std::future::poll_fn;
use std::time::Duration;

use axum::body::Bytes;
use estafette::app::Env;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::wire::{Decent, IDLE, PATIENCE, Raw, SHORT, SLACK, figure, hasty, hurry};
use crate::world::{Engine, World, eventually};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Error codes.
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A head in HPACK (RFC 7541): method and scheme from the static table, the path spelled out.
fn head(post: bool, path: &str) -> Vec<u8> {
    let mut block = vec![if post { 0x83 } else { 0x82 }, 0x86];
    block.extend([0x04, u8::try_from(path.len()).unwrap()]);
    block.extend(path.as_bytes());
    block.extend([0x01, 0x01, b'x']);
    if post {
        block.extend([0x0f, 0x10, 16]);
        block.extend(b"application/json");
    }
    block
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(false, path))
}

fn begin() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A frame that came in: kind, stream, and the number that ends its payload or stands in it.
#[derive(Debug, PartialEq)]
struct Came {
    kind: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Came {
    /// The error code of a reset or a farewell.
    fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Came> {
    let mut all = vec![];
    while bytes.len() >= 9 {
        let length =
            usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        let Some(payload) = bytes.get(9..9 + length) else { break };
        all.push(Came { kind: bytes[3], stream, payload: payload.to_vec() });
        bytes = &bytes[9 + length..];
    }
    all
}

/// A client with manners, and the task that moves its frames.
async fn client(world: &World) -> h2::client::SendRequest<Bytes> {
    let tcp = TcpStream::connect(world.address(Env::Sandbox)).await.unwrap();
    let (client, connection) = h2::client::handshake(tcp).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

fn request(method: &str, path: &str) -> http::Request<()> {
    http::Request::builder()
        .method(method)
        .uri(format!("http://x{path}"))
        .header("content-type", "application/json")
        .body(())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_is_served_without_asking() {
    let world = World::new(Engine::Lite).await;
    let mut client = client(&world).await;
    for _ in 0..3 {
        let (response, _) = client.send_request(request("GET", "/docs/"), true).unwrap();
        let mut response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers().contains_key("x-request-id"));
        let mut length = 0;
        while let Some(data) = response.body_mut().data().await {
            length += data.unwrap().len();
        }
        assert!(length > 100);
    }
    let (response, mut body) =
        client.send_request(request("POST", "/v1/auth/login"), false).unwrap();
    body.send_data(Bytes::from_static(b"{\"email\": \"x@example.com\", "), false).unwrap();
    body.send_data(Bytes::from_static(b"\"password\": \"wrong\"}"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 401);
    drop(client);
    world.finish().await;
}

/// What a POST to sign in is answered with over HTTP/2: of this body, which comes after the head,
/// and with this type.
async fn signed_in(world: &World, kind: Option<&str>, body: Option<&'static str>) -> u16 {
    let mut asked = request("POST", "/v1/auth/login");
    asked.headers_mut().remove("content-type");
    if let Some(kind) = kind {
        asked.headers_mut().insert("content-type", kind.parse().unwrap());
    }
    let mut client = client(world).await;
    let (response, mut stream) = client.send_request(asked, body.is_none()).unwrap();
    if let Some(body) = body {
        stream.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
    }
    response.await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_a_type_is_refused_over_either_protocol() {
    const LOGIN: &str = r#"{"email": "x@example.com", "password": "wrong"}"#;
    let world = World::new(Engine::Lite).await;
    assert_eq!(signed_in(&world, Some("application/json"), Some(LOGIN)).await, 401);
    assert_eq!(signed_in(&world, None, Some(LOGIN)).await, 415);
    let head =
        format!("POST /v1/auth/login HTTP/1.1\r\nhost: x\r\ncontent-length: {}", LOGIN.len());
    let typed = format!("{head}\r\ncontent-type: application/json\r\n\r\n{LOGIN}");
    assert!(first_line(&world, &typed).await.contains(" 401 "));
    assert!(first_line(&world, &format!("{head}\r\n\r\n{LOGIN}")).await.contains(" 415 "));
    // Where there is no body, there is no type, however its end is told.
    assert_eq!(signed_in(&world, None, None).await, 422);
    assert_eq!(signed_in(&world, None, Some("")).await, 422);
    let empty = "POST /v1/auth/login HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    assert!(first_line(&world, empty).await.contains(" 422 "));
    let chunked = "POST /v1/auth/login HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    assert!(first_line(&world, &format!("{chunked}0\r\n\r\n")).await.contains(" 422 "));
    let late = format!("{chunked}{:x}\r\n{LOGIN}\r\n0\r\n\r\n", LOGIN.len());
    assert!(first_line(&world, &late).await.contains(" 415 "));
    world.finish().await;
}

/// What a request of HTTP/1.1 is answered with.
async fn first_line(world: &World, request: &str) -> String {
    let mut stream = TcpStream::connect(world.address(Env::Sandbox)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_comes_whole_over_http2() {
    let world = World::new(Engine::Lite).await;
    let path = "/docs/openapi.json";
    let expected = world.get(Env::Sandbox, path).await.ok().text;
    let mut client = client(&world).await;
    let (response, _) = client.send_request(request("GET", path), true).unwrap();
    let mut response = response.await.unwrap();
    assert_eq!(response.headers()["content-length"], expected.len().to_string().as_str());
    let mut got = vec![];
    while let Some(data) = response.body_mut().data().await {
        let data = data.unwrap();
        response.body_mut().flow_control().release_capacity(data.len()).unwrap();
        got.extend(data);
    }
    assert!(got == expected.as_bytes(), "{} of {} bytes", got.len(), expected.len());
    drop(client);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_may_be_taken_as_slowly_over_http2_as_any_bytes() {
    let world = World::with(Engine::Lite, |config| {
        let server = &mut config.server;
        (server.body_timeout_ms, server.request_timeout_ms) = (100, 300);
        (server.write_timeout_ms, server.slowest_bytes_per_s) = (1_000, 120_000);
    });
    let world = world.await;
    let tcp = TcpStream::connect(world.address(Env::Sandbox)).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (client, connection) =
        builder.initial_window_size(16 * 1024).handshake::<_, Bytes>(tcp).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let (response, _) = client.send_request(request("GET", "/docs/openapi.json"), true).unwrap();
    let mut response = response.await.unwrap();
    let (begun, mut got) = (Instant::now(), 0);
    while let Some(data) = response.body_mut().data().await {
        let length = data.expect("the stream is not reset").len();
        got += length;
        // A tenth faster than the slowest pace.
        let earliest = Duration::from_millis(u64::try_from(got).unwrap() * 1_000 / 132_000);
        tokio::time::sleep_until(begun + earliest).await;
        response.body_mut().flow_control().release_capacity(length).unwrap();
    }
    assert_eq!(response.headers()["content-length"], got.to_string().as_str());
    // A stream with a short answer is reset by then.
    assert!(begun.elapsed() > Duration::from_millis(3_800), "{:?}", begun.elapsed());
    drop(client);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http2_client_without_a_request_is_ended() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let half_head = frame(HEADERS, END_STREAM, 1, &head(false, "/livez"));
    for said in [begin(), [begin(), half_head].concat()] {
        let mut raw = Raw::open(&world).await;
        let since = raw.since;
        raw.send(said).await;
        raw.since = since;
        raw.ends_after(SHORT).await;
    }
    for said in [vec![], frame(HEADERS, END_STREAM, 3, &head(false, "/livez"))] {
        let mut raw = Raw::open(&world).await;
        raw.send([begin(), get(1, "/livez")].concat()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        raw.send(said).await;
        let (bytes, after) = raw.rest().await;
        let farewell = frames(&bytes).iter().any(|came| came.kind == GOAWAY);
        assert!(farewell, "{:?}", frames(&bytes));
        // A second to answer the farewell.
        let most = Duration::from_millis(IDLE + SLACK + 1_000);
        assert!(after > Duration::from_millis(IDLE - 100) && after < most, "{after:?}");
    }
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_are_no_requests() {
    let world = hasty().await;
    let mut raw = Raw::open(&world).await;
    raw.send([begin(), get(1, "/livez")].concat()).await;
    let mut pings = 0;
    while raw.try_send(&frame(PING, 0, 0, &[0; 8])).await {
        pings += 1;
        assert!(pings < 60, "it is still there after {pings} pings");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(pings >= 15, "{pings}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_ends_its_stream_only() {
    let world = hasty().await;
    let mut client = client(&world).await;
    let (late, mut body) = client.send_request(request("POST", "/v1/auth/login"), false).unwrap();
    body.send_data(Bytes::from_static(b"{\"email\""), false).unwrap();
    let (other, _) = client.send_request(request("GET", "/livez"), true).unwrap();
    assert_eq!(other.await.unwrap().status(), 200);
    let late = timeout(PATIENCE, late).await.unwrap().unwrap();
    assert_eq!(late.status(), 408);
    assert_eq!(late.headers()["content-type"], "application/problem+json");
    let (after, _) = client.send_request(request("GET", "/livez"), true).unwrap();
    assert_eq!(after.await.unwrap().status(), 200);
    drop(client);
    world.finish().await;
}

/// Opens so many streams that wait for the rest of their body, whatever the service allows, and
/// counts those that it refuses.
async fn flood(world: &World, streams: u32) -> usize {
    let mut raw = Raw::open(world).await;
    let mut said = begin();
    for number in 0..streams {
        let stream = number * 2 + 1;
        said.extend(frame(HEADERS, END_HEADERS, stream, &head(true, "/v1/auth/login")));
        said.extend(frame(DATA, 0, stream, b"{"));
    }
    raw.send(said).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (bytes, _) = raw.rest().await;
    let is_refusal = |came: &&Came| came.kind == RST_STREAM && came.error() == REFUSED_STREAM;
    frames(&bytes).iter().filter(is_refusal).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_has_so_many_streams_and_no_more() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    assert_eq!(flood(&world, 200).await, 200 - 128);
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_that_limit_all_streams_are_taken() {
    let world = World::with(Engine::Lite, |config| {
        hurry(&mut config.server);
        config.server.http2_streams = 10_000;
    })
    .await;
    assert_eq!(flood(&world, 200).await, 0);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_opened_and_reset_end_the_connection() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    let mut said = begin();
    for number in 0..2_000_u32 {
        let stream = number * 2 + 1;
        said.extend(get(stream, "/readyz"));
        said.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    raw.try_send(&said).await;
    let (bytes, after) = raw.rest().await;
    let calm = frames(&bytes).iter().any(|c| c.kind == GOAWAY && c.error() == ENHANCE_YOUR_CALM);
    assert!(calm && after < Duration::from_secs(3), "{after:?}: {:?}", frames(&bytes).last());
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_whose_answer_gets_no_room_is_reset() {
    let world = World::with(Engine::Lite, |config| {
        hurry(&mut config.server);
        config.server.request_timeout_ms = 500;
        config.server.slowest_bytes_per_s = 1_000_000_000;
        config.otp.receipt_wait_ms = 0;
    })
    .await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    // SETTINGS_INITIAL_WINDOW_SIZE = 0: no byte of a body may come.
    let closed = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    raw.send([PREFACE, &closed, &get(1, "/docs/viewer.js")].concat()).await;
    let (bytes, after) = raw.rest().await;
    let all = frames(&bytes);
    assert!(all.iter().any(|came| came.kind == RST_STREAM && came.stream == 1), "{all:?}");
    assert!(all.iter().all(|came| came.kind != DATA));
    // Body, handling and answer may take this long together; then the connection idles.
    let least = Duration::from_millis(500 + 500 + SHORT);
    assert!(after >= least && after < least + PATIENCE / 2, "{after:?}");
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http2_client_that_does_not_read_is_ended() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    // All the room that there can be, for each stream and for the connection.
    let mut said = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff])].concat();
    said.extend(frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    for number in 0..20 {
        said.extend(get(number * 2 + 1, "/docs/viewer.js"));
    }
    raw.send(said).await;
    let cut = "estafette_connections_cut_total{reason=\"write\"}";
    eventually(async || (figure(&world, cut).await >= 1).then_some(())).await;
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_body_may_still_be_sent_for_a_while() {
    let world = World::new(Engine::Lite).await;
    let client = client(&world).await;
    let refused = || {
        http::Request::post("http://x/v1/messages").header("content-type", "text/plain").body(())
    };
    let ask = async |mut client: h2::client::SendRequest<Bytes>| {
        let (answer, mut body) = client.send_request(refused().unwrap(), false).unwrap();
        body.send_data(Bytes::from_static(b"half"), false).unwrap();
        assert_eq!(answer.await.unwrap().status(), 415);
        body
    };
    // A reset right after the answer makes some clients throw it away.
    let mut body = ask(client.clone()).await;
    let is_reset = poll_fn(|cx| body.poll_reset(cx));
    assert!(timeout(Duration::from_millis(500), is_reset).await.is_err(), "reset at once");
    body.send_data(Bytes::from_static(b" and half"), true).unwrap();
    // Whoever never comes to an end is reset all the same.
    let mut endless = ask(client).await;
    let reset = timeout(PATIENCE, poll_fn(|cx| endless.poll_reset(cx))).await.unwrap();
    assert_eq!(reset.unwrap(), h2::Reason::NO_ERROR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_the_authority_is_refused() {
    let world = World::new(Engine::Lite).await;
    let client = client(&world).await;
    for (uri, host, status) in [
        ("http://x/livez", None, 200),
        ("http://x/livez", Some("x"), 200),
        ("http://x:80/livez", Some("X"), 200),
        ("http://x/livez", Some("y"), 400),
        ("http://u:p@x/livez", None, 400),
    ] {
        let mut request = http::Request::get(uri);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let mut client = client.clone();
        let (answer, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
        assert_eq!(answer.await.unwrap().status(), status, "{uri} {host:?}");
    }
}
