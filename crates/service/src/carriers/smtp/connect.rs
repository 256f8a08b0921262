//! The way to a relay: TCP, TLS that is verified, a login. Mail and passwords travel in the clear
//! only to this machine itself.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use smtp::{Client, Error, Transcript};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::kit::secret::Secret;

/// A connection, encrypted or not.
pub(super) type Stream = Box<dyn Both>;

/// What can be read and written.
pub(super) trait Both: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Both for T {}

/// Why a URL leads to no relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be smtp://host:port or smtps://host:port, credentials in the URL")]
pub struct BadUrl;

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
    host: String,
    port: u16,
    server: ServerName<'static>,
    /// TLS from the first byte on (`smtps`).
    is_implicit: bool,
    /// The relay is on this machine.
    is_here: bool,
    login: Option<(String, Secret)>,
    own_name: String,
    tls: TlsConnector,
}

impl Way {
    pub(super) fn read(text: &str, own_name: &str) -> Result<Self, BadUrl> {
        let url = Url::parse(text).map_err(|_| BadUrl)?;
        let is_implicit = match url.scheme() {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(BadUrl),
        };
        let host = url.host_str().ok_or(BadUrl)?.trim_matches(['[', ']']).to_owned();
        let server = ServerName::try_from(host.clone()).map_err(|_| BadUrl)?;
        let is_here = host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let decoded = |text: &str| {
            percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).ok()
        };
        let login = match (url.username(), url.password()) {
            ("", _) => None,
            (user, password) => Some((
                decoded(user).ok_or(BadUrl)?,
                Secret::new(decoded(password.unwrap_or_default()).ok_or(BadUrl)?),
            )),
        };
        let port = url.port().unwrap_or(if is_implicit { 465 } else { 587 });
        let own_name = own_name.to_owned();
        let tls = tls().ok_or(BadUrl)?;
        Ok(Self { host, port, server, is_implicit, is_here, login, own_name, tls })
    }

    /// For logs, without the login.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
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
        let tcp = timeout(patience, TcpStream::connect((self.host.as_str(), self.port))).await;
        let tcp = tcp.map_err(|_elapsed| NoConnection::Silent(patience))?;
        let tcp = tcp.map_err(NoConnection::Unreachable)?;
        drop(tcp.set_nodelay(true));
        let stream: Stream = Box::new(tcp);
        let mut client = if self.is_implicit {
            let stream = self.encrypted(stream, patience).await?;
            Client::greet(stream, patience, transcript.clone()).await?
        } else {
            Client::greet(stream, patience, transcript.clone()).await?
        };
        let mut offered = client.hello(&self.own_name).await?;
        if !self.is_implicit && !self.is_here {
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
        if let Some((user, password)) = &self.login {
            client.login(&offered, user, password.expose()).await?;
        }
        Ok(client)
    }

    async fn encrypted(&self, stream: Stream, patience: Duration) -> Result<Stream, NoConnection> {
        let done = timeout(patience, self.tls.connect(self.server.clone(), stream)).await;
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

#[cfg(test)]
mod tests {
    use super::Way;

    #[test]
    fn urls_say_host_port_and_login() {
        let way = Way::read("smtps://a%40b:p%3Aw@mail.example.com", "x").unwrap();
        let (user, password) = way.login.as_ref().unwrap();
        assert_eq!((user.as_str(), password.expose()), ("a@b", "p:w"));
        assert_eq!((way.port, way.is_implicit, way.is_here), (465, true, false));
        let way = Way::read("smtp://127.0.0.1:2525", "x").unwrap();
        assert_eq!((way.port, way.is_implicit, way.is_here), (2525, false, true));
        assert!(way.login.is_none());
        for bad in ["", "mail.example.com", "http://mail.example.com", "smtp://"] {
            assert!(Way::read(bad, "x").is_err(), "{bad}");
        }
    }
}
