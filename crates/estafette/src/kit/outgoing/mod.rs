//! The one way to URLs that tenants gave us. The service must not become their way into the
//! operator's network (server-side request forgery, OWASP API7:2023), so each request: reads the
//! URL by strict rules, resolves the name, vets **every** address, and connects to exactly one of
//! those. Nothing is asked twice, so there is no moment in which the answer could change. Redirects
//! are answers like any other; proxies of the environment are not known here.

mod address;
mod connect;
mod names;
mod place;
mod pool;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use ipnet::IpNet;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout};

use address::Verdict;
use connect::{Connection, Dial};
use names::Names;
use pool::{Key, Pool};

pub use connect::trust;
pub use place::{Fault, LONGEST, Place};

/// Bytes of an answer's body that are read; the connection is closed when there is more.
const READ: usize = 64 * 1024;
/// Bytes of an answer's body that are kept.
pub const KEPT: usize = 4 * 1024;
/// Addresses of one name that are tried.
const TRIED: usize = 4;

/// What the operator decides.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Development: plain http is taken, too.
    pub allow_http: bool,
    /// Development: networks that may be reached although they are not public.
    pub allow_networks: Vec<IpNet>,
    /// Where names are asked for; none = the system's servers.
    pub dns_server: Option<SocketAddr>,
    /// Time for name, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Time for everything, the answer's body included.
    pub timeout: Duration,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The first [`KEPT`] bytes of its body.
    pub body: Vec<u8>,
}

/// Why there is no answer. What is shown of it may be read by the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The URL leads to an address that is not called. The words say what the address is; they
    /// are not shown, because tenants must not learn what names mean in the operator's network.
    NotAllowed(&'static str),
    /// The name was not resolved. The words finish "the name …".
    Name(String),
    /// No TCP connection.
    Connect(ErrorKind),
    /// No connection within the time for it.
    ConnectTimeout,
    /// No TLS; what the handshake said.
    Tls(Option<String>),
    /// No whole answer in time.
    Timeout,
    /// The connection ended before the answer did.
    Reset,
    /// What came back is no HTTP.
    Protocol,
}

impl Failure {
    /// For programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "address_not_allowed",
            Self::Name(_) => "dns_error",
            Self::Connect(_) => "connection_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls(_) => "tls_error",
            Self::Timeout => "timeout",
            Self::Reset => "connection_reset",
            Self::Protocol => "invalid_response",
        }
    }

    fn http(error: &hyper::Error) -> Self {
        let is_protocol = error.is_parse() || error.is_parse_too_large() || error.is_parse_status();
        if is_protocol { Self::Protocol } else { Self::Reset }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed(_) => f.write_str("the host is not public"),
            Self::Name(why) => write!(f, "the name {why}"),
            Self::Connect(kind) => write!(f, "no connection: {kind}"),
            Self::ConnectTimeout => f.write_str("no connection in time"),
            Self::Tls(None) => f.write_str("the host is not a valid TLS name"),
            Self::Tls(Some(why)) => write!(f, "TLS failed: {why}"),
            Self::Timeout => f.write_str("no complete answer in time"),
            Self::Reset => f.write_str("the connection ended before the answer did"),
            Self::Protocol => f.write_str("the answer is no HTTP"),
        }
    }
}

impl std::error::Error for Failure {}

/// The way out. Clones share connections and the memory of names.
#[derive(Clone)]
pub struct Outgoing {
    inner: Arc<Inner>,
}

struct Inner {
    rules: Rules,
    judge: fn(IpAddr, &[IpNet]) -> Verdict,
    dial: Dial,
    names: Names,
    tls: Arc<ClientConfig>,
    pool: Pool,
}

impl Outgoing {
    /// A way out by these rules. `ca_file` holds certificates (PEM) that are trusted besides the
    /// public authorities.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn new(rules: Rules, ca_file: Option<&Path>) -> Result<Self, String> {
        Ok(Self::with(rules, connect::tls(ca_file)?, address::judge, connect::tcp()))
    }

    /// A way out to upstreams that the operator names, wherever they are.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn to_upstreams(connect_timeout: Duration, timeout: Duration) -> Result<Self, String> {
        let everywhere = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok());
        let rules = Rules {
            allow_http: true,
            allow_networks: everywhere.collect(),
            dns_server: None,
            connect_timeout,
            timeout,
        };
        Self::new(rules, None)
    }

    fn with(
        rules: Rules,
        tls: Arc<ClientConfig>,
        judge: fn(IpAddr, &[IpNet]) -> Verdict,
        dial: Dial,
    ) -> Self {
        let names = Names::new(rules.dns_server);
        let pool = Pool::default();
        Self { inner: Arc::new(Inner { rules, judge, dial, names, tls, pool }) }
    }

    /// Reads a URL by the rules.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn place(&self, url: &str) -> Result<Place, Fault> {
        Place::parse(url, self.inner.rules.allow_http)
    }

    /// The addresses of a place, each of them vetted.
    ///
    /// # Errors
    /// [`Failure::NotAllowed`] when any of them may not be called, [`Failure::Name`].
    pub async fn vet(&self, place: &Place) -> Result<Vec<SocketAddr>, Failure> {
        let inner = &*self.inner;
        // In development, names of the networks that are open may be the ones that are meant.
        if place.is_local_name() && inner.rules.allow_networks.is_empty() {
            return Err(Failure::NotAllowed("a name of local networks"));
        }
        let found = match place.literal() {
            Some(ip) => vec![ip],
            None => inner.names.addresses(&place.server_name()).await.map_err(Failure::Name)?,
        };
        for ip in &found {
            match (inner.judge)(*ip, &inner.rules.allow_networks) {
                Verdict::Open => {}
                Verdict::Closed(what) | Verdict::Never(what) => {
                    return Err(Failure::NotAllowed(what));
                }
            }
        }
        if found.is_empty() {
            return Err(Failure::Name("has no address".to_owned()));
        }
        // A mapped address is dialled as what it is.
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip.to_canonical(), place.port)).collect())
    }

    /// Sends a POST and reads the answer, all within the time for everything.
    ///
    /// # Errors
    /// See [`Failure`]. The request may have reached its target all the same.
    pub async fn post(
        &self,
        place: &Place,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        self.send(&Method::POST, place, headers, body).await
    }

    /// The same with any method.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub async fn send(
        &self,
        method: &Method,
        place: &Place,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let limit = self.inner.rules.timeout;
        let request = request(method, place, headers, body)?;
        let done = timeout(limit, self.exchange(place, request)).await;
        done.unwrap_or(Err(Failure::Timeout))
    }

    /// Closes connections that were idle for too long.
    pub fn forget_idle(&self) {
        self.inner.pool.forget_idle();
    }

    async fn exchange(
        &self,
        place: &Place,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, Failure> {
        let begun = Instant::now();
        let connect_timeout = self.inner.rules.connect_timeout;
        let vetted = timeout(connect_timeout, self.vet(place)).await;
        let too_slow = || Failure::Name("was not resolved in time".to_owned());
        let addresses = vetted.unwrap_or_else(|_| Err(too_slow()))?;
        if let Some((key, mut connection)) = self.idle(place, &addresses).await {
            match connection.sender.send_request(request.clone()).await {
                Ok(response) => return self.answer(response, key, connection).await,
                Err(error) if Failure::http(&error) == Failure::Protocol => {
                    return Err(Failure::Protocol);
                }
                // The other side closed it while it was idle: a fresh one gets the request.
                Err(_) => {}
            }
        }
        let left = connect_timeout.saturating_sub(begun.elapsed());
        let (key, mut connection) = timeout(left, self.connect(place, &addresses, left))
            .await
            .unwrap_or(Err(Failure::ConnectTimeout))?;
        let sent = connection.sender.send_request(request).await;
        let response = sent.map_err(|error| Failure::http(&error))?;
        self.answer(response, key, connection).await
    }

    /// A connection that was used before and is alive as far as is known.
    async fn idle(&self, place: &Place, addresses: &[SocketAddr]) -> Option<(Key, Connection)> {
        for address in addresses {
            let key = key(place, *address);
            while let Some(mut connection) = self.inner.pool.take(&key) {
                if connection.sender.ready().await.is_ok() {
                    return Some((key, connection));
                }
            }
        }
        None
    }

    /// Tries the addresses in turn; one that does not answer leaves time for the next.
    async fn connect(
        &self,
        place: &Place,
        addresses: &[SocketAddr],
        limit: Duration,
    ) -> Result<(Key, Connection), Failure> {
        let tried = addresses.len().min(TRIED);
        let share = limit / u32::try_from(tried).unwrap_or(1).max(1);
        let mut last = Failure::ConnectTimeout;
        for address in addresses.iter().take(tried) {
            let opening = connect::open(&self.inner.dial, &self.inner.tls, place, *address);
            match timeout(share, opening).await {
                Ok(Ok(connection)) => return Ok((key(place, *address), connection)),
                Ok(Err(failure)) => last = failure,
                Err(_) => last = Failure::ConnectTimeout,
            }
        }
        Err(last)
    }

    /// Reads the body up to its bound. A connection whose body ended is kept for the next request.
    async fn answer(
        &self,
        response: Response<Incoming>,
        key: Key,
        connection: Connection,
    ) -> Result<Answer, Failure> {
        let (head, mut incoming) = response.into_parts();
        let mut body = Vec::new();
        let mut read = 0;
        while read <= READ {
            let Some(frame) = incoming.frame().await else {
                self.inner.pool.put(key, connection);
                break;
            };
            let frame = frame.map_err(|error| Failure::http(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            read += data.len();
            let room = KEPT - body.len();
            body.extend_from_slice(data.get(..room).unwrap_or(data));
        }
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

fn key(place: &Place, address: SocketAddr) -> Key {
    Key { is_tls: place.is_tls, name: place.authority.clone(), address }
}

fn request(
    method: &Method,
    place: &Place,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let host = HeaderValue::try_from(&place.authority).map_err(|_| Failure::Protocol)?;
    let mut request = Request::new(Full::new(body));
    request.method_mut().clone_from(method);
    *request.uri_mut() = place.path.clone().into();
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}
