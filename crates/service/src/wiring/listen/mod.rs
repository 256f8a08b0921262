//! Where connections come in. One loop for each listener accepts them, keeps their number within
//! bounds, and ends them all gracefully when the service stops. What happens on one of them is in
//! `connection`; until when it may is in `watch`.

mod answer;
mod connection;
mod gate;
pub(super) mod life;
mod lines;
mod refusal;
mod reports;
mod stream;
mod taken;
mod tls;
mod watch;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use self::connection::Front;
use self::gate::{Admission, Gate, Limit, Share};
pub(super) use self::reports::serve_reports;
pub(crate) use self::taken::{CannotListen, remedy as remedy_of_listener};
use self::tls::Tls;
use crate::app::App;
use crate::config::Server;
use crate::kit::alarm::Alarm;
use crate::kit::client_address::ClientAddress;
use crate::kit::task;
use crate::metrics::Metrics;

/// Connections that may wait to be accepted. The system's bound, `net.core.somaxconn`, is usually
/// the same.
const BACKLOG: u32 = 4096;
/// Connections to the metrics listener: nobody but the operator is there.
const METRICS_PLACES: usize = 64;

/// First pause after a connection could not be accepted for want of files or memory; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What the listeners share.
pub(super) struct Entrance {
    gate: Gate,
    tls: Option<Arc<Tls>>,
}

/// A listener that does not accept yet.
pub(super) struct Listener {
    tcp: TcpListener,
    name: &'static str,
}

impl Entrance {
    /// By the settings.
    ///
    /// # Errors
    /// When the TLS files cannot be used.
    pub(super) fn open(server: &Server) -> anyhow::Result<Self> {
        Ok(Self { gate: Gate::new(server), tls: Tls::open(server)? })
    }

    /// Serves the API of one environment.
    pub(super) fn serve(
        &self,
        listener: Listener,
        app: &App,
        router: Router,
        stopped: Receiver<bool>,
    ) -> JoinHandle<()> {
        let front = Front::new(app, router, self.tls.clone());
        let metrics = app.metrics.clone();
        let gate = self.gate.clone();
        let accepting =
            Accepting { listener, gate, metrics, waiting: None, alarm: Alarm::default() };
        task::spawn(accepting.run(Arc::new(front), stopped))
    }

    /// Keeps the certificate fresh, where there is one.
    pub(super) fn keep_fresh(&self, stopped: Receiver<bool>) -> Option<JoinHandle<()>> {
        let tls = self.tls.clone()?;
        Some(task::spawn(tls.keep_fresh(stopped)))
    }
}

/// Serves the operator's figures: in the clear, with places of their own, so that they can be read
/// while the API is flooded.
pub(super) fn serve_metrics(
    listener: Listener,
    app: &App,
    router: Router,
    stopped: Receiver<bool>,
) -> JoinHandle<()> {
    let gate = Gate::with_places(METRICS_PLACES);
    Entrance { gate, tls: None }.serve(listener, app, router, stopped)
}

impl Listener {
    /// Takes an address.
    ///
    /// # Errors
    /// When it is in use or not of this machine; `key` is the setting to look at.
    pub(super) fn bind(address: SocketAddr, key: &str, name: &'static str) -> anyhow::Result<Self> {
        let tcp = listen(address).map_err(|why| CannotListen {
            address,
            setting: key.to_owned(),
            why,
        })?;
        Ok(Self { tcp, name })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// The usual queue has 128 places. A burst beyond them is answered with SYN cookies, and whoever
/// says nothing afterwards is neither accepted nor told.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What is left of a connection that is no HTTP any more. It goes on as a task of its own, which is
/// as small as it is: one for HTTP has room for all that a connection may go through.
type Rest = BoxFuture<'static, ()>;

fn go_on(connections: &mut JoinSet<Option<Rest>>, ended: Result<Option<Rest>, JoinError>) {
    if let Ok(Some(rest)) = ended {
        connections.spawn(async move {
            rest.await;
            None
        });
    }
}

/// The loop of one listener.
struct Accepting {
    listener: Listener,
    gate: Gate,
    metrics: Metrics,
    /// Who was accepted and waits for a place.
    waiting: Option<Accepted>,
    /// What happens to one connection may happen to thousands.
    alarm: Alarm,
}

/// A connection that may stay as soon as there is a place for it.
struct Accepted {
    tcp: TcpStream,
    peer: IpAddr,
    share: Share,
}

impl Accepting {
    /// Accepts until the stop, then waits for the connections that are open. Dropping this ends
    /// them at once.
    async fn run(mut self, front: Arc<Front>, mut stopped: Receiver<bool>) {
        let mut connections = JoinSet::new();
        loop {
            let (Accepted { tcp, peer, share }, place) = tokio::select! {
                biased;
                // An error means that the sender is gone: stop as well.
                _ = stopped.wait_for(|stop| *stop) => break,
                Some(ended) = connections.join_next() => {
                    go_on(&mut connections, ended);
                    continue;
                }
                next = self.next() => next,
            };
            let (front, stopped) = (Arc::clone(&front), stopped.clone());
            let counted = self.metrics.connection_opened(self.listener.name);
            connections.spawn(async move {
                let rest = front.serve(tcp, peer, stopped).await?;
                let rest: Rest = Box::pin(async move {
                    rest.await;
                    drop((share, place, counted));
                });
                Some(rest)
            });
        }
        drop(self);
        while let Some(ended) = connections.join_next().await {
            go_on(&mut connections, ended);
        }
    }

    /// The next connection and its place. May be given up and asked again.
    async fn next(&mut self) -> (Accepted, Admission) {
        loop {
            if self.waiting.is_none() {
                self.waiting = Some(self.accept().await);
            }
            // Only now: a listener without clients must not keep a place from the others.
            let place = self.gate.place().await;
            if let Some(accepted) = self.waiting.take() {
                return (accepted, place);
            }
        }
    }

    async fn accept(&mut self) -> Accepted {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.listener.tcp.accept().await {
                Ok((tcp, peer)) => {
                    // IPv4 in the disguise of IPv6, on a listener for both, is IPv4.
                    let peer = peer.ip().to_canonical();
                    match self.gate.admit(peer) {
                        Some(share) => return Accepted { tcp, peer, share },
                        None => self.refuse(tcp, peer),
                    }
                }
                Err(error) if concerns_only_the_client(&error) => {}
                Err(error) => {
                    self.metrics.connection_refused("accept_error");
                    if self.alarm.is_due() {
                        tracing::warn!(%error, "connections cannot be accepted; trying on");
                    }
                    // Without a pause this would spin: the connection still waits to be accepted.
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn refuse(&mut self, tcp: TcpStream, peer: IpAddr) {
        self.metrics.connection_refused("address_limit");
        if self.alarm.is_due() {
            let client = ClientAddress(peer);
            match self.gate.limit() {
                Limit::Setting => tracing::warn!(
                    %client,
                    "an address has server.max_connections_per_address connections, more are \
                     closed; if it is a proxy, add it to server.trusted_proxies"
                ),
                Limit::Listener => tracing::warn!(
                    %client,
                    "an address has all the connections that this listener gives to one; more are \
                     closed"
                ),
            }
        }
        drop(tcp);
    }
}

/// The client gave up while it waited to be accepted (accept(2), "Error handling").
fn concerns_only_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::TimedOut
    )
}

/// When the service's own certificate ends, if it can be read.
pub(super) fn certificate_ends(server: &Server) -> Option<clock::Millis> {
    tls::ends(server)
}

/// Whether the certificates can be used, as a start finds out.
///
/// # Errors
/// What is wrong with them.
pub(super) fn check_tls(server: &Server) -> anyhow::Result<()> {
    Tls::open(server).map(drop)
}
