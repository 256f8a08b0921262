//! The way to an address that was vetted: TCP to exactly that address, TLS with the name of the
//! URL, HTTP/1.1 on top.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::{Destination, NoAnswer};
use crate::kit::task;

/// Bytes of an answer's head, and of what is read ahead of its body.
const BUFFER: usize = 32 * 1024;
/// Header lines of an answer.
const MOST_HEADERS: usize = 100;

/// Opens a TCP connection; a test may put another one in its place.
pub(super) type Dial =
    Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> + Sync + Send>;

/// A connection that speaks HTTP. Dropping it closes it, whatever the other side is doing.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Connects, and makes sure that it arrived where it meant to.
pub(super) fn tcp() -> Dial {
    Arc::new(|address| {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            if stream.peer_addr()? != address {
                return Err(io::Error::other("connected to another address"));
            }
            Ok(stream)
        })
    })
}

/// TLS for webhooks.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn tls(ca_file: Option<&std::path::Path>) -> Result<Arc<ClientConfig>, String> {
    let mut config = trust(ca_file)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Trusts the built-in authorities and those of a PEM file.
///
/// # Errors
/// What is wrong with the file.
pub fn trust(ca_file: Option<&std::path::Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = ca_file {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
        let known = roots.len();
        for certificate in found {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        if roots.len() == known {
            return Err(wrong(&"there is no certificate in it"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| error.to_string())?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// A fresh connection to one vetted address.
pub(super) async fn open(
    dial: &Dial,
    config: &Arc<ClientConfig>,
    destination: &Destination,
    address: SocketAddr,
) -> Result<Connection, NoAnswer> {
    let stream = dial(address).await.map_err(|error| NoAnswer::Connect(error.kind()))?;
    // A request is one small write; waiting for more would only delay it.
    let _best_effort = stream.set_nodelay(true);
    if !destination.is_tls {
        return speak(stream).await;
    }
    let name = ServerName::try_from(destination.server_name()).map_err(|_| NoAnswer::Tls(None))?;
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| NoAnswer::Tls(Some(reason(&error))))?;
    speak(stream).await
}

/// Begins HTTP on a stream.
pub(super) async fn speak<T>(stream: T) -> Result<Connection, NoAnswer>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER).max_headers(MOST_HEADERS);
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| NoAnswer::http(&error))?;
    let driver = task::spawn(async move {
        // What went wrong reaches the request that waits, if one does.
        let _told_there = connection.await;
    });
    Ok(Connection { sender, driver: driver.abort_handle() })
}

/// What rustls says of the other side's certificate or handshake.
fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.map_or_else(|| error.kind().to_string(), ToString::to_string)
}
