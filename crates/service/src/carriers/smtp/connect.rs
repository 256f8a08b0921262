//! The way to a relay: TCP, TLS that is verified, a login. Mail and passwords travel in the clear
//! only to this machine itself.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{CertificateError as Fault, ClientConfig, Error as TlsError};
use smtp::{Client, Error, Transcript};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::config::{BadRelay, RelayUrl};
use crate::kit::outgoing;

/// How long an address of a relay may take while there are others.
const EACH: Duration = Duration::from_secs(3);
/// Addresses of a relay that are tried.
const MOST: usize = 8;

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
    Unreachable(#[source] io::Error),
    /// Nobody answered in time.
    #[error("no connection in {} s", .0.as_secs())]
    Silent(Duration),
    /// No TLS that can be trusted.
    #[error("no TLS: {}", fault(.0))]
    Untrusted(#[source] io::Error),
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
        let tls = tls(None).map_err(|_| BadRelay::Form)?;
        Ok(Self { to: RelayUrl::read(url)?, own_name: own_name.to_owned(), tls })
    }

    /// From now on the authorities in a PEM file are trusted besides the public ones.
    pub(super) fn trust(&mut self, ca_file: &Path) -> Result<(), String> {
        self.tls = tls(Some(ca_file))?;
        Ok(())
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
        let tcp = timeout(patience, reach(&self.to.host, self.to.port)).await;
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

fn tls(ca_file: Option<&Path>) -> Result<TlsConnector, String> {
    let config: ClientConfig = outgoing::trust(ca_file)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Why there is no TLS, in words that name the setting.
fn fault(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    let says = match inner {
        None => return error.to_string(),
        Some(TlsError::InvalidMessage(_)) => {
            "what answers does not speak TLS; smtps:// is for port 465, smtp:// for 587"
        }
        Some(TlsError::InvalidCertificate(fault)) => match fault {
            Fault::UnknownIssuer => {
                "its certificate is signed by an authority that is not trusted; name it in \
                 email.ca_file"
            }
            Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
                "its certificate is for another name; see the host in email.relay_url"
            }
            Fault::Expired
            | Fault::ExpiredContext { .. }
            | Fault::NotValidYet
            | Fault::NotValidYetContext { .. } => {
                "its certificate has expired, or is not valid yet"
            }
            // rustls has no variant of its own for it.
            other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                "its certificate is self-signed, an authority's own and not one that it has \
                 signed: the relay needs one of its own, and email.ca_file the authority's"
            }
            other => return other.to_string(),
        },
        Some(other) => return other.to_string(),
    };
    says.to_owned()
}

/// Connects to the first address of a name that answers (RFC 5321 §5.1).
async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.take(MOST).collect();
    let last = addresses.len().saturating_sub(1);
    for (number, address) in addresses.into_iter().enumerate() {
        let patience = if number == last { Duration::MAX } else { EACH };
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_elapsed) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::{Arc, Fault, TlsError, fault, io};

    /// As webpki calls it, which is no dependency of ours.
    #[derive(Debug)]
    struct CaUsedAsEndEntity;

    impl fmt::Display for CaUsedAsEndEntity {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl std::error::Error for CaUsedAsEndEntity {}

    #[test]
    fn what_is_wrong_with_a_certificate_is_a_sentence_that_names_the_setting() {
        let says = |why: Fault| fault(&io::Error::other(TlsError::InvalidCertificate(why)));
        assert!(says(Fault::UnknownIssuer).contains("name it in email.ca_file"));
        assert!(says(Fault::NotValidForName).contains("see the host in email.relay_url"));
        assert!(says(Fault::Expired).contains("has expired"));
        let own = says(Fault::Other(rustls::OtherError(Arc::new(CaUsedAsEndEntity))));
        assert!(own.contains("is self-signed") && !own.contains("CaUsed"), "{own}");
        assert_eq!(fault(&io::ErrorKind::UnexpectedEof.into()), "unexpected end of file");
    }
}
