//! The way to a relay: TCP, TLS that is verified, a login. Mail and passwords travel in the clear
//! only to this machine itself.

use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use smtp::{Client, Error, Transcript};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::config::{BadRelay, RelayUrl};

/// A connection, encrypted or not.
pub(super) type Stream = Box<dyn Both>;

/// What can be read and written.
pub(super) trait Both: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Both for T {}

/// Why no connection to a relay is ready for messages.
#[derive(Debug, thiserror::Error)]
pub enum NoConnection {
    /// Its name has no address, or nothing listens there.
    #[error("no connection: {0}")]
    Unreachable(#[source] std::io::Error),
    /// Nobody answered in time.
    #[error("no connection in {} s", .0.as_secs())]
    Silent(Duration),
    /// No TLS that can be trusted.
    #[error("no TLS: {0}")]
    Untrusted(#[source] std::io::Error),
    /// What was said then.
    #[error(transparent)]
    Said(#[from] Error),
}

/// Where a relay is, and how it is spoken to.
pub(super) struct Way {
    to: RelayUrl,
    own_name: String,
    tls: TlsConnector,
}

impl Way {
    pub(super) fn read(url: &str, own_name: &str) -> Result<Self, BadRelay> {
        let tls = tls().ok_or(BadRelay::Form)?;
        Ok(Self { to: RelayUrl::read(url)?, own_name: own_name.to_owned(), tls })
    }

    /// For logs, without the login.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.to.host, self.to.port)
    }

    /// A new connection, ready for messages. What was said until then is in the transcript.
    pub(super) async fn connect(
        &self,
        patience: Duration,
        transcript: &Transcript,
    ) -> Result<Client<Stream>, NoConnection> {
        let connected = self.talk(patience, transcript).await;
        match &connected {
            // The dialogue tells of it already.
            Ok(_) | Err(NoConnection::Said(_)) => {}
            Err(error) => transcript.note(&error.to_string()),
        }
        connected
    }

    async fn talk(
        &self,
        patience: Duration,
        transcript: &Transcript,
    ) -> Result<Client<Stream>, NoConnection> {
        let tcp =
            timeout(patience, TcpStream::connect((self.to.host.as_str(), self.to.port))).await;
        let tcp = tcp.map_err(|_elapsed| NoConnection::Silent(patience))?;
        let tcp = tcp.map_err(NoConnection::Unreachable)?;
        drop(tcp.set_nodelay(true));
        let stream: Stream = Box::new(tcp);
        let mut client = if self.to.is_implicit {
            let stream = self.encrypted(stream, patience).await?;
            Client::greet(stream, patience, transcript.clone()).await?
        } else {
            Client::greet(stream, patience, transcript.clone()).await?
        };
        let mut offered = client.hello(&self.own_name).await?;
        if !self.to.is_implicit && !self.to.is_here() {
            if !offered.start_tls {
                let missing = Error::Missing("STARTTLS");
                transcript.note(&missing.to_string());
                return Err(missing.into());
            }
            let stream = self.encrypted(client.start_tls().await?, patience).await?;
            client = Client::resume(stream, patience, transcript.clone());
            // What was offered in the clear is forgotten (RFC 3207 §4.2).
            offered = client.hello(&self.own_name).await?;
        }
        if let Some((user, password)) = &self.to.login {
            client.login(&offered, user, password.expose()).await?;
        }
        Ok(client)
    }

    async fn encrypted(&self, stream: Stream, patience: Duration) -> Result<Stream, NoConnection> {
        let done = timeout(patience, self.tls.connect(self.to.server.clone(), stream)).await;
        let done = done.map_err(|_elapsed| NoConnection::Silent(patience))?;
        Ok(Box::new(done.map_err(NoConnection::Untrusted)?))
    }
}

fn tls() -> Option<TlsConnector> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Some(TlsConnector::from(Arc::new(config)))
}
