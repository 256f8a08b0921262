//! One connection from its first byte to its last: handshake, protocol, requests, and a proper end,
//! each with its deadline.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Response, Version};
use clock::Clock;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tower::Service as _;

use super::answer::{Answer, Open, PIECE};
use super::life;
use super::refusal::Refusals;
use super::stream::{Watched, Wire};
use super::tls::Tls;
use super::watch::{Finding, Limits, Overdue, Watch};
use crate::access::RequestNotes;
use crate::app::App;
use crate::config::Server;
use crate::kit::client_address::{ClientAddress, is_within};
use crate::kit::id::RequestId;
use crate::kit::takeover::{Duplex, Taken, Takeover};
use crate::kit::task;
use crate::metrics::Metrics;
use crate::wiring::intake::{BODY_LIMIT, LINGER};
use crate::wiring::pace::Pace;

/// Most bytes of a head that the protocol libraries read. The edge refuses much smaller ones, with
/// a better answer; this is where its memory ends.
const HEAD_LIMIT: u32 = 64 * 1024;

/// How long a client has to take a last word, and to notice the end of an idle connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// What all connections of one listener have in common.
pub(super) struct Front {
    router: Router,
    clock: Clock,
    refusals: Refusals,
    metrics: Metrics,
    limits: Limits,
    trusted: Vec<IpNet>,
    tls: Option<Arc<Tls>>,
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
}

/// What takes the connection over, once a handler has said so.
#[derive(Clone, Default)]
struct Heir(Arc<Mutex<Option<Takeover>>>);

impl Heir {
    fn is(&self, takeover: Takeover) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(takeover);
    }

    fn take(&self) -> Option<Takeover> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Why a connection ended.
enum End {
    /// The client or the protocol ended it, or it was told to and did.
    Done,
    /// A limit was over.
    Cut(Overdue),
}

impl Front {
    pub(super) fn new(app: &App, router: Router, tls: Option<Arc<Tls>>) -> Self {
        let server = &app.config.server;
        let limits = Limits {
            header: Duration::from_millis(server.header_timeout_ms),
            idle: Duration::from_millis(server.idle_timeout_ms),
            answers: Pace::of_answers(server),
        };
        Self {
            router,
            clock: app.clock.clone(),
            refusals: Refusals::new(app),
            metrics: app.metrics.clone(),
            limits,
            trusted: server.trusted_proxies.clone(),
            tls,
            http1: http1(),
            http2: http2(server),
        }
    }

    /// Serves a connection to its end.
    ///
    /// Answers what goes on with it, where a handler had it taken over: that needs none of this.
    pub(super) async fn serve(
        &self,
        tcp: TcpStream,
        peer: IpAddr,
        mut stopped: Receiver<bool>,
    ) -> Option<BoxFuture<'static, ()>> {
        // Small answers must not wait for more bytes.
        let _best_effort = tcp.set_nodelay(true);
        let opening = async {
            let wire = self.handshake(tcp).await?;
            let watch = Arc::new(Watch::new(self.limits));
            let mut stream = Watched::new(wire, Arc::clone(&watch), self.refusals.clone());
            let begin = Instant::now();
            let told = timeout_at(begin + self.limits.header, stream.is_http2()).await;
            let Ok(told) = told else {
                self.metrics.connection_cut("header");
                return None;
            };
            Some((stream, watch, told.ok()?))
        };
        let opened = tokio::select! {
            opened = opening => opened,
            // Nothing was asked yet, so nothing is owed.
            _ = stopped.wait_for(|stop| *stop) => return None,
        };
        let (stream, watch, is_http2) = opened?;
        if is_http2 {
            self.speak_http2(stream, &watch, peer, stopped).await;
            return None;
        }
        self.speak_http1(stream, &watch, peer, stopped).await
    }

    async fn handshake(&self, tcp: TcpStream) -> Option<Wire> {
        let Some(tls) = &self.tls else { return Some(Wire::Plain(tcp)) };
        match timeout(self.limits.header, tls.acceptor().accept(tcp)).await {
            Ok(Ok(stream)) => Some(Wire::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "no TLS handshake");
                None
            }
            Err(_elapsed) => {
                self.metrics.connection_cut("handshake");
                None
            }
        }
    }

    async fn speak_http1(
        &self,
        stream: Watched,
        watch: &Arc<Watch>,
        peer: IpAddr,
        mut stopped: Receiver<bool>,
    ) -> Option<BoxFuture<'static, ()>> {
        let heir = Heir::default();
        let service = self.service(watch, peer, Some(heir.clone()));
        let mut connection = self.http1.serve_connection(TokioIo::new(stream), service);
        let end = drive(&mut connection, watch, &mut stopped).await;
        let parts = connection.into_parts();
        let mut stream = parts.io.into_inner();
        // The answer 101 is out, and HTTP is over on this connection.
        if let (End::Done, Some(takeover)) = (&end, heir.take()) {
            stream.leave_http();
            let stream: Box<dyn Duplex> = Box::new(stream);
            return takeover.start(Taken { stream, read: parts.read_buf, stopped });
        }
        if let End::Cut(overdue) = end {
            self.metrics.connection_cut(overdue.as_str());
            if overdue != Overdue::Header || parts.read_buf.is_empty() {
                return None;
            }
            let said = timeout(FAREWELL, stream.say(&self.refusals.too_late())).await;
            if !matches!(said, Ok(Ok(()))) {
                return None;
            }
        }
        let _waited = timeout(LINGER, stream.linger(FAREWELL)).await;
        None
    }

    async fn speak_http2(
        &self,
        stream: Watched,
        watch: &Arc<Watch>,
        peer: IpAddr,
        mut stopped: Receiver<bool>,
    ) {
        watch.speaks_http2();
        let service = self.service(watch, peer, None);
        let mut connection = self.http2.serve_connection(TokioIo::new(stream), service);
        if let End::Cut(overdue) = drive(&mut connection, watch, &mut stopped).await {
            self.metrics.connection_cut(overdue.as_str());
        }
    }

    /// Hands requests to the routes, and marks each as open until its answer is handed over.
    fn service(
        &self,
        watch: &Arc<Watch>,
        peer: IpAddr,
        heir: Option<Heir>,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Answer>,
        Error = Infallible,
        Future: Send + 'static,
    > + use<> {
        let (watch, router, clock) = (Arc::clone(watch), self.router.clone(), self.clock.clone());
        // Only a proxy's requests are looked at more closely.
        let trusted = is_within(peer, &self.trusted).then(|| self.trusted.clone());
        service_fn(move |mut request: Request<Incoming>| {
            let open = Open::begin(&watch);
            let is_http2 = request.version() == Version::HTTP_2;
            let client = match &trusted {
                Some(trusted) => ClientAddress::behind(peer, request.headers(), trusted),
                None => ClientAddress(peer),
            };
            let notes = RequestNotes::of(RequestId::new(&clock), Some(client));
            request.extensions_mut().insert(Arc::new(notes));
            let answer = router.clone().call(request);
            let heir = heir.clone();
            async move {
                let mut response = answer.await?;
                let takeover = response.extensions_mut().remove::<Takeover>();
                if let (Some(heir), Some(takeover)) = (heir, takeover) {
                    heir.is(takeover);
                }
                let hold = response.extensions_mut().remove();
                Ok(response.map(|body| Answer::new(body, open, is_http2, hold)))
            }
        })
    }
}

impl Overdue {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Write => "write",
            Self::Idle => "idle",
        }
    }
}

fn http1() -> http1::Builder {
    let mut http1 = http1::Builder::new();
    // The watch has the deadline; a timer for each head would cost more than the head.
    let head_limit = usize::try_from(HEAD_LIMIT).unwrap_or(usize::MAX);
    http1.header_read_timeout(None).max_header_size(head_limit).max_buf_size(head_limit);
    // Most answers are short: copying them behind their head costs less than a vectored write.
    http1.writev(false);
    http1
}

fn http2(server: &Server) -> http2::Builder<Streams> {
    // One stream's life: its body, its handling, its answer.
    let longest = Pace::of_bodies(server).longest(BODY_LIMIT)
        + Duration::from_millis(server.request_timeout_ms)
        + Pace::of_answers(server).longest(PIECE);
    let mut http2 = http2::Builder::new(Streams { longest });
    http2
        .timer(TokioTimer::new())
        .max_concurrent_streams(server.http2_streams)
        .max_header_list_size(HEAD_LIMIT)
        // Room for one whole body on a stream, and for a few on the connection.
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(64 * 1024)
        // Streams that are opened and reset at once (CVE-2023-44487), and those that end in an
        // error of ours: so many are forgiven, then the connection ends.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(1024)
        // Finds clients that are gone without a word while an answer is on its way.
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    http2
}

/// Runs the streams of HTTP/2 connections. One that takes longer than all its parts may is reset:
/// its client does not give it room to be answered.
#[derive(Clone, Copy)]
struct Streams {
    longest: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        task::spawn(life::limited(self.longest, stream));
    }
}

/// Lets the protocol work until it is done or a limit is over. A stop, and the end of an idle
/// connection, are told to the client in the protocol's own way first.
async fn drive<C>(connection: &mut C, watch: &Watch, stopped: &mut Receiver<bool>) -> End
where
    C: GracefulConnection + Unpin,
{
    let mut alarm = pin!(sleep_until(watch.first_look()));
    let mut stop = pin!(stopped.wait_for(|stop| *stop));
    let (mut is_stopping, mut is_parting) = (false, false);
    loop {
        tokio::select! {
            biased;
            // An error concerns the client alone, and it has been told.
            _done = &mut *connection => return End::Done,
            _ = &mut stop, if !is_stopping => {
                is_stopping = true;
                part(connection);
            }
            () = &mut alarm => match watch.judge(Instant::now()) {
                Finding::LookAt(then) => alarm.as_mut().reset(then),
                Finding::End(Overdue::Idle) if !is_parting => {
                    is_parting = true;
                    part(connection);
                    alarm.as_mut().reset(Instant::now() + FAREWELL);
                }
                Finding::End(overdue) => return End::Cut(overdue),
            }
        }
    }
}

/// Tells the client that no further request is taken: by closing an idle HTTP/1 connection, or at
/// the end of the next answer; by GOAWAY on HTTP/2.
fn part<C: GracefulConnection + Unpin>(connection: &mut C) {
    Pin::new(connection).graceful_shutdown();
}
