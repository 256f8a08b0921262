//! A network between the engine and PostgreSQL that fails on demand: at a COMMIT, at a text that is
//! to be prepared, or altogether.
//! It reads the frames of the protocol (PostgreSQL manual, "Message Formats"): a byte for the
//! kind, four for the length, which counts itself. Only the first frame has no kind.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// What happens at the next COMMIT, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCommit {
    /// The connection ends and COMMIT never arrives.
    Lost,
    /// COMMIT arrives and happens, but the connection ends before its answer.
    Unanswered,
    /// The connection ends; COMMIT arrives so much later.
    Late(Duration),
    /// COMMIT does not arrive, and nothing ends, until the server has had enough.
    Stuck,
}

/// The state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Up,
    /// Every connection ends, none begins.
    Down,
    /// Connections stay and begin, but nothing passes.
    Silent,
}

/// A text whose preparation is answered late, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What its text has in it.
    pub text: &'static str,
    /// For how long nothing that the server says passes.
    pub delay: Duration,
}

#[derive(Clone)]
pub struct Proxy {
    address: SocketAddr,
    network: Arc<watch::Sender<Network>>,
    at_commit: Arc<Mutex<Option<AtCommit>>>,
    hold: Arc<Mutex<Option<Hold>>>,
    breaks: Arc<AtomicBool>,
    connections: Arc<AtomicU32>,
    commits: Arc<AtomicU32>,
    asks: Arc<AtomicU32>,
}

impl Proxy {
    /// In front of a server given as `postgres://USER@HOST:PORT`.
    pub async fn start(server: &str) -> Self {
        let upstream = server.rsplit('@').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            network: Arc::new(watch::Sender::new(Network::Up)),
            at_commit: Arc::default(),
            hold: Arc::default(),
            breaks: Arc::default(),
            connections: Arc::default(),
            commits: Arc::default(),
            asks: Arc::default(),
        };
        let served = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(served.clone().carry(client, upstream.clone()));
            }
        });
        proxy
    }

    /// The server's URL through this network.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://estafette@{}/{database}", self.address)
    }

    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }

    pub fn at_next_commit(&self, fate: AtCommit) {
        *self.at_commit.lock().unwrap() = Some(fate);
    }

    /// Whether the fate of a COMMIT has been met.
    pub fn is_met(&self) -> bool {
        self.at_commit.lock().unwrap().is_none()
    }

    pub fn hold(&self, hold: Hold) {
        *self.hold.lock().unwrap() = Some(hold);
    }

    /// From now on the server fails each BEGIN that is prepared, or not any more.
    pub fn break_begin(&self, breaks: bool) {
        self.breaks.store(breaks, Ordering::SeqCst);
    }

    /// Whether an answer has been held back.
    pub fn has_held(&self) -> bool {
        self.hold.lock().unwrap().is_none()
    }

    /// How many connections were made.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many COMMITs came by.
    pub fn commits(&self) -> u32 {
        self.commits.load(Ordering::SeqCst)
    }

    /// How often the server was asked for an answer: each is a write to its socket, at least.
    pub fn asks(&self) -> u32 {
        self.asks.load(Ordering::SeqCst)
    }

    async fn carry(self, client: TcpStream, upstream: String) {
        let mut network = self.network.subscribe();
        if *network.borrow_and_update() == Network::Down {
            return;
        }
        self.connections.fetch_add(1, Ordering::SeqCst);
        let server = TcpStream::connect(upstream).await.unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        tokio::select! {
            () = self.pass(client, server) => {}
            _ = network.wait_for(|network| *network == Network::Down) => {}
        }
    }

    async fn pass(&self, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let mut network = self.network.subscribe();
        let mut answers = self.network.subscribe();
        // While this is locked no answer passes.
        let gate = tokio::sync::Mutex::new(());
        // And none before this.
        let (held, until) = watch::channel(Instant::now());
        let up = async {
            let mut is_first = true;
            while let Some(mut frame) = frame(&mut from_client, is_first).await {
                if self.breaks.load(Ordering::SeqCst) {
                    broken(&mut frame);
                }
                let is_ask = !is_first && matches!(frame.first(), Some(b'S' | b'Q'));
                self.asks.fetch_add(is_ask.into(), Ordering::SeqCst);
                is_first = false;
                if let Some(delay) = self.holds(&frame) {
                    held.send_replace(Instant::now() + delay);
                }
                up(&mut network).await;
                let fate = if is_commit(&frame) { self.fate() } else { None };
                let _shut = match fate {
                    None => None,
                    Some(_) => Some(gate.lock().await),
                };
                match fate {
                    None => {}
                    Some(AtCommit::Lost) => return None,
                    Some(AtCommit::Late(delay)) => return Some((frame, delay)),
                    Some(AtCommit::Stuck) => std::future::pending().await,
                    Some(AtCommit::Unanswered) => return Some((frame, Duration::ZERO)),
                }
                if to_server.write_all(&frame).await.is_err() {
                    return None;
                }
            }
            None
        };
        let down = async {
            let mut bytes = vec![0; 16 << 10];
            while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                up_again(&mut answers).await;
                let until = *until.borrow();
                tokio::time::sleep_until(until).await;
                let _open = gate.lock().await;
                if to_client.write_all(&bytes[..read]).await.is_err() {
                    return;
                }
            }
        };
        let left = tokio::select! { left = up => left, () = down => None };
        drop(to_client);
        drop(from_client);
        if let Some((frame, delay)) = left {
            tokio::time::sleep(delay).await;
            to_server.write_all(&frame).await.unwrap();
            // Its answer shows that it happened.
            from_server.read_u8().await.unwrap();
        }
    }

    /// For how long the answer to a frame is held back.
    fn holds(&self, frame: &[u8]) -> Option<Duration> {
        let mut hold = self.hold.lock().unwrap();
        let is_it = |it: &Hold| {
            let text = it.text.as_bytes();
            frame.first() == Some(&b'P') && frame.windows(text.len()).any(|part| part == text)
        };
        hold.take_if(|it| is_it(it)).map(|it| it.delay)
    }

    fn fate(&self) -> Option<AtCommit> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.at_commit.lock().unwrap().take()
    }
}

async fn up(network: &mut watch::Receiver<Network>) {
    let _dropped = network.wait_for(|network| *network != Network::Silent).await;
}

async fn up_again(network: &mut watch::Receiver<Network>) {
    up(network).await;
}

/// The next frame; `None` at the end.
async fn frame(from: &mut OwnedReadHalf, is_first: bool) -> Option<Vec<u8>> {
    let mut frame = vec![0; if is_first { 4 } else { 5 }];
    from.read_exact(&mut frame).await.ok()?;
    let head = frame.len();
    let length = u32::from_be_bytes(frame[head - 4..].try_into().unwrap());
    frame.resize(head - 4 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut frame[head..]).await.ok()?;
    Some(frame)
}

/// Puts what fails in the place of BEGIN.
fn broken(frame: &mut [u8]) {
    const BEGIN: &[u8] = b"BEGIN ISOLATION LEVEL READ COMMITTED";
    let at = frame.windows(BEGIN.len()).position(|part| part == BEGIN);
    if let (Some(b'P'), Some(at)) = (frame.first(), at) {
        let failing = format!("{:<1$}", "SELECT 1 / 0", BEGIN.len());
        frame[at..at + BEGIN.len()].copy_from_slice(failing.as_bytes());
    }
}

fn is_commit(frame: &[u8]) -> bool {
    frame.first() == Some(&b'Q') && frame.get(5..) == Some(b"COMMIT\0")
}
