//! The one way to URLs that tenants gave us. The service must not become their way into the
//! operator's network (server-side request forgery, OWASP API7:2023), so each request: reads the
//! URL by strict rules, resolves the name, vets **every** address, and connects to exactly one of
//! those. Nothing is asked twice, so there is no moment in which the answer could change. Redirects
//! are answers like any other; proxies of the environment are not known here.

mod address;
mod connect;
mod destination;
pub(in crate::kit) mod names;
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
pub use destination::{Destination, Fault, LONGEST};

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
    /// Whether bodies of answers are kept as far as they are read; else the first [`KEPT`] bytes.
    pub keeps_bodies: bool,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The first bytes of its body: see [`Rules::keeps_bodies`].
    pub body: Vec<u8>,
}

/// Why there is no answer. What is shown of it may be read by the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
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

impl NoAnswer {
    /// For programs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
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

impl fmt::Display for NoAnswer {
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
            Self::Protocol => f.write_str("the answer is not valid HTTP"),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Whether a request that a connection lost goes out on a fresh one although it may have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

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
            // What they answer is read, and not only looked at.
            keeps_bodies: true,
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
    pub fn destination(&self, url: &str) -> Result<Destination, Fault> {
        Destination::parse(url, self.inner.rules.allow_http)
    }

    /// The addresses of a destination, each of them vetted.
    ///
    /// # Errors
    /// [`NoAnswer::NotAllowed`] when any of them may not be called, [`NoAnswer::Name`].
    pub async fn vet(&self, destination: &Destination) -> Result<Vec<SocketAddr>, NoAnswer> {
        let inner = &*self.inner;
        let allowed = &inner.rules.allow_networks;
        if destination.is_metadata_name() {
            return Err(NoAnswer::NotAllowed("a name of a metadata service"));
        }
        // In development, names of the networks that are open may be the ones that are meant: if
        // that is where they lead.
        let is_local = destination.is_local_name();
        if is_local && allowed.is_empty() {
            return Err(NoAnswer::NotAllowed("a name of local networks"));
        }
        let found = match destination.literal() {
            Some(ip) => vec![ip],
            None => {
                inner.names.addresses(&destination.server_name()).await.map_err(NoAnswer::Name)?
            }
        };
        for ip in &found {
            if is_local && !allowed.iter().any(|network| network.contains(&ip.to_canonical())) {
                return Err(NoAnswer::NotAllowed(
                    "a local name outside of the networks that are open",
                ));
            }
            match (inner.judge)(*ip, allowed) {
                Verdict::Open => {}
                Verdict::Closed(what) | Verdict::Never(what) => {
                    return Err(NoAnswer::NotAllowed(what));
                }
            }
        }
        if found.is_empty() {
            return Err(NoAnswer::Name("has no address".to_owned()));
        }
        // A mapped address is dialled as what it is.
        Ok(found
            .into_iter()
            .map(|ip| SocketAddr::new(ip.to_canonical(), destination.port))
            .collect())
    }

    /// Sends a POST and reads the answer, all within the time for everything.
    ///
    /// # Errors
    /// See [`NoAnswer`]. The request may have reached its target all the same.
    pub async fn post(
        &self,
        destination: &Destination,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, NoAnswer> {
        let request = request(destination, Method::POST, headers, body)?;
        self.in_time(destination, request, Again::Yes).await
    }

    /// Sends a GET and reads the answer, all within the time for everything.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub async fn get(
        &self,
        destination: &Destination,
        headers: HeaderMap,
    ) -> Result<Answer, NoAnswer> {
        let request = request(destination, Method::GET, headers, Bytes::new())?;
        self.in_time(destination, request, Again::Yes).await
    }

    /// Sends a DELETE and reads the answer, all within the time for everything.
    ///
    /// # Errors
    /// See [`NoAnswer`]. The request may have reached its target all the same.
    pub async fn delete(
        &self,
        destination: &Destination,
        headers: HeaderMap,
    ) -> Result<Answer, NoAnswer> {
        let request = request(destination, Method::DELETE, headers, Bytes::new())?;
        self.in_time(destination, request, Again::Yes).await
    }

    /// Sends a POST, and never on two connections: what may have been sent is not sent again.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub async fn post_once(
        &self,
        destination: &Destination,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, NoAnswer> {
        self.send_once(destination, Method::POST, headers, body).await
    }

    /// The same with any method.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub async fn send_once(
        &self,
        destination: &Destination,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, NoAnswer> {
        let request = request(destination, method, headers, body)?;
        self.in_time(destination, request, Again::No).await
    }

    /// The whole exchange, or [`NoAnswer::Timeout`].
    async fn in_time(
        &self,
        destination: &Destination,
        request: Request<Full<Bytes>>,
        again: Again,
    ) -> Result<Answer, NoAnswer> {
        let limit = self.inner.rules.timeout;
        let done = timeout(limit, self.exchange(destination, request, again)).await;
        done.unwrap_or(Err(NoAnswer::Timeout))
    }

    /// Closes connections that were idle for too long.
    pub fn forget_idle(&self) {
        self.inner.pool.forget_idle();
    }

    async fn exchange(
        &self,
        destination: &Destination,
        request: Request<Full<Bytes>>,
        again: Again,
    ) -> Result<Answer, NoAnswer> {
        let begun = Instant::now();
        let connect_timeout = self.inner.rules.connect_timeout;
        let vetted = timeout(connect_timeout, self.vet(destination)).await;
        let too_slow = || NoAnswer::Name("was not resolved in time".to_owned());
        let addresses = vetted.unwrap_or_else(|_| Err(too_slow()))?;
        if let Some((key, mut connection)) = self.idle(destination, &addresses).await {
            match connection.sender.send_request(request.clone()).await {
                Ok(response) => return self.answer(response, key, connection).await,
                Err(error) if NoAnswer::http(&error) == NoAnswer::Protocol => {
                    return Err(NoAnswer::Protocol);
                }
                // The other side had closed it: nothing of the request is on its way.
                Err(error) if again == Again::No && !error.is_canceled() => {
                    return Err(NoAnswer::http(&error));
                }
                // The other side closed it while it was idle: a fresh one gets the request.
                Err(_) => {}
            }
        }
        let left = connect_timeout.saturating_sub(begun.elapsed());
        // Boxed: a handshake is much larger than a request on a connection that is there.
        let connected = timeout(left, Box::pin(self.connect(destination, &addresses, left))).await;
        let (key, mut connection) = connected.unwrap_or(Err(NoAnswer::ConnectTimeout))?;
        let sent = connection.sender.send_request(request).await;
        let response = sent.map_err(|error| NoAnswer::http(&error))?;
        self.answer(response, key, connection).await
    }

    /// A connection that was used before and is alive as far as is known.
    async fn idle(
        &self,
        destination: &Destination,
        addresses: &[SocketAddr],
    ) -> Option<(Key, Connection)> {
        for address in addresses {
            let key = key(destination, *address);
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
        destination: &Destination,
        addresses: &[SocketAddr],
        limit: Duration,
    ) -> Result<(Key, Connection), NoAnswer> {
        let tried = addresses.len().min(TRIED);
        let (begun, mut last) = (Instant::now(), NoAnswer::ConnectTimeout);
        for (before, address) in addresses.iter().take(tried).enumerate() {
            // What the ones before left over is for those that follow.
            let left = u32::try_from(tried - before).unwrap_or(1).max(1);
            let share = limit.saturating_sub(begun.elapsed()) / left;
            let opening = connect::open(&self.inner.dial, &self.inner.tls, destination, *address);
            match timeout(share, opening).await {
                Ok(Ok(connection)) => return Ok((key(destination, *address), connection)),
                Ok(Err(failure)) => last = failure,
                Err(_) => last = NoAnswer::ConnectTimeout,
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
    ) -> Result<Answer, NoAnswer> {
        let (head, mut incoming) = response.into_parts();
        let mut body = Vec::new();
        let mut read = 0;
        while read <= READ {
            let Some(frame) = incoming.frame().await else {
                self.inner.pool.put(key, connection);
                break;
            };
            let frame = frame.map_err(|error| NoAnswer::http(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            read += data.len();
            let kept = if self.inner.rules.keeps_bodies { READ } else { KEPT };
            let room = kept - body.len();
            body.extend_from_slice(data.get(..room).unwrap_or(data));
        }
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

fn key(destination: &Destination, address: SocketAddr) -> Key {
    Key { is_tls: destination.is_tls, name: destination.authority.clone(), address }
}

fn request(
    destination: &Destination,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, NoAnswer> {
    let host = HeaderValue::try_from(&destination.authority).map_err(|_| NoAnswer::Protocol)?;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = destination.path.clone().into();
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}
