//! The HTTP client of S3-compatible stores, on hyper and rustls with ring. One connection for each
//! request: attachments are few, and each is worth its handshake.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{Stream, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For a name, TCP and TLS.
const CONNECT: Duration = Duration::from_secs(5);
/// For a request and the head of its answer, then for each of its pieces: whoever uploads is told
/// before their patience ends (`server.request_timeout_ms`).
const ANSWER: Duration = Duration::from_secs(20);

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("{0}")]
    Words(&'static str),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

impl Connector {
    /// Trusts the public authorities.
    ///
    /// # Errors
    /// When ring does not have what TLS needs.
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut sender, driver) = timeout(CONNECT, self.connect(&request))
            .await
            .unwrap_or(Err(RequestError::Words("the store does not answer")))
            .map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?;
        tokio::spawn(driver);
        let (mut parts, body) = request.into_parts();
        if let Some(authority) = parts.uri.authority()
            && let Ok(host) = authority.as_str().parse()
        {
            parts.headers.entry(hyper::header::HOST).or_insert(host);
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        parts.uri = path.parse().unwrap_or_default();
        let request = hyper::Request::from_parts(parts, body);
        let answered = timeout(ANSWER, sender.send_request(request)).await;
        let response = answered
            .map_err(|_| {
                let late = RequestError::Words("the store is too slow");
                HttpError::new(HttpErrorKind::Timeout, late)
            })?
            .map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        let body = response.map(|body| in_time(body.map_err(broken)));
        Ok(body.map(|body| HttpResponseBody::new(StreamBody::new(body))))
    }

    async fn connect(&self, request: &HttpRequest) -> Result<Opened, RequestError> {
        let uri = request.uri();
        let host = uri.host().ok_or(RequestError::Words("the address of the store has no host"))?;
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let name = host.trim_matches(['[', ']']);
        let tcp = TcpStream::connect((name, port)).await?;
        tcp.set_nodelay(true)?;
        if !is_tls {
            return opened(tcp).await;
        }
        let server = ServerName::try_from(name.to_owned());
        let server =
            server.map_err(|_| RequestError::Words("the store's host is not a TLS name"))?;
        opened(self.tls.connect(server, tcp).await?).await
    }
}

/// A body each of whose frames comes in time, or none any more.
fn in_time<B>(body: B) -> impl Stream<Item = Result<Frame<Bytes>, HttpError>> + Send
where
    B: Body<Data = Bytes, Error = HttpError> + Send + 'static,
{
    stream::unfold(Some(Box::pin(body)), async |body| {
        let mut body = body?;
        match timeout(ANSWER, body.frame()).await {
            Ok(Some(Ok(frame))) => Some((Ok(frame), Some(body))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(_) => {
                let late = RequestError::Words("the store is too slow");
                Some((Err(HttpError::new(HttpErrorKind::Timeout, late)), None))
            }
        }
    })
}

/// What sends, and what must be driven for it.
type Opened = (http1::SendRequest<object_store::client::HttpRequestBody>, BoxFuture<'static, ()>);

async fn opened<S>(stream: S) -> Result<Opened, RequestError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its error is the error of the request.
    Ok((sender, Box::pin(async { drop(connection.await) })))
}

impl HttpService for Connector {
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.exchange(request))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}
