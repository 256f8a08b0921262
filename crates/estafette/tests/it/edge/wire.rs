//! Connections in the raw, and a decent client that is served meanwhile.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use estafette::app::Env;
use estafette::config::Server;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::world::{Engine, World, eventually};

/// Deadlines of a world whose clients have little time, milliseconds.
pub const SHORT: u64 = 400;
/// The same for connections without a request: told apart from the others.
pub const IDLE: u64 = 900;
/// What a loaded machine may add to a deadline.
pub const SLACK: u64 = 600;
/// Longer than any answer takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A service with short deadlines.
pub async fn hasty() -> World {
    World::with(Engine::Lite, |config| hurry(&mut config.server)).await
}

pub fn hurry(server: &mut Server) {
    server.header_timeout_ms = SHORT;
    server.body_timeout_ms = SHORT;
    server.write_timeout_ms = SHORT;
    server.idle_timeout_ms = IDLE;
    server.slowest_bytes_per_s = 100_000;
}

/// A connection of a client that does as it likes.
pub struct Raw<S = TcpStream> {
    pub stream: S,
    pub since: Instant,
}

impl Raw {
    pub async fn open(world: &World) -> Self {
        Self::to(world.address(Env::Sandbox)).await
    }

    pub async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, since: Instant::now() }
    }

    /// From 127.0.0.`last`.
    pub async fn from(world: &World, last: u8) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        socket.bind(SocketAddr::new(ip, 0)).unwrap();
        let stream = socket.connect(world.address(Env::Sandbox)).await.unwrap();
        Self { stream, since: Instant::now() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, since: Instant::now() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.since = Instant::now();
    }

    /// Sends without minding that the other side may be gone.
    pub async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Everything until the end, and how long after the last sent byte the end was.
    pub async fn rest(&mut self) -> (Vec<u8>, Duration) {
        let mut bytes = vec![];
        // A reset is an end, too.
        let _end = timeout(PATIENCE, self.stream.read_to_end(&mut bytes)).await.expect("an end");
        (bytes, self.since.elapsed())
    }

    /// The end must come when this many milliseconds have passed. Answers what came until then.
    #[track_caller]
    pub fn ends_after(&mut self, ms: u64) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            let (bytes, after) = self.rest().await;
            let (least, most) = (ms.saturating_sub(30), ms + SLACK);
            let after = u64::try_from(after.as_millis()).unwrap();
            assert!((least..=most).contains(&after), "ended after {after} ms, not {ms}: {place}");
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    /// Nothing must come, and no end, for so many milliseconds.
    #[track_caller]
    pub fn stays_for(&mut self, ms: u64) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let read = timeout(Duration::from_millis(ms), self.stream.read_u8()).await;
            assert!(read.is_err(), "not left alone for {ms} ms: {read:?}: {place}");
        }
    }

    /// One answer with a `content-length`: its head and its body.
    pub async fn answer(&mut self) -> (String, String) {
        let mut bytes = vec![];
        let whole = async {
            loop {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = header(head, "content-length").parse::<usize>().unwrap();
                    if body.len() >= length {
                        return (head.to_owned(), body.to_owned());
                    }
                }
                let byte = self.stream.read_u8().await.expect("a whole answer");
                bytes.push(byte);
            }
        };
        timeout(PATIENCE, whole).await.expect("an answer")
    }
}

/// The value of a header, empty when it is missing.
pub fn header<'h>(head: &'h str, name: &str) -> &'h str {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let line = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
    line.map_or("", |(_, value)| value.trim())
}

/// An answer must be this problem, in the one shape, and the last on its connection.
#[track_caller]
pub fn is_last_problem(text: &str, status: u16, code: &str) {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    assert_eq!(header(head, "content-type"), "application/problem+json", "{text}");
    assert_eq!(header(head, "connection"), "close", "{text}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["code"], code);
    assert_eq!(body["status"], status);
    assert_eq!(body["request_id"], header(head, "x-request-id"));
    assert!(body["type"].as_str().unwrap().ends_with(&format!("/errors/{code}")), "{text}");
}

/// A client that connects, asks, and is answered, again and again, until it is told to stop.
pub struct Decent {
    task: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
}

impl Decent {
    pub fn begin(world: &World) -> Self {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (Arc::clone(&stop), Arc::clone(&served));
        let address = world.address(Env::Sandbox);
        let task = tokio::spawn(async move {
            while !told.load(Ordering::SeqCst) {
                let mut raw = Raw::to(address).await;
                raw.send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
                let (head, body) = raw.answer().await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                assert_eq!(body, "ready\n");
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        Self { task, stop, served }
    }

    /// It must have been served all the time.
    pub async fn end(self) {
        let served = || self.served.load(Ordering::SeqCst);
        let enough = served() + 3;
        eventually(async || (served() >= enough || self.task.is_finished()).then_some(())).await;
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.expect("every decent request is served");
    }
}

/// A figure of the metrics listener: the sum of all lines that begin so.
pub async fn figure(world: &World, name: &str) -> u64 {
    let page = world.metrics().await.ok().text;
    let lines = page.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}
