//! The way to the centre: TCP, or TLS on it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::connection::Stream;
use crate::session::{Ended, TlsFault};

/// How long an address may take while there are others.
const EACH: Duration = Duration::from_secs(2);
/// Addresses of a name that are tried.
const MOST: usize = 4;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A name or an address.
    pub host: String,
    /// 2775 by custom, 3550 with TLS.
    pub port: u16,
}

/// TLS to the centre.
#[derive(Clone)]
pub struct Tls {
    /// Which certificates are believed, and our own where the centre wants one.
    pub config: Arc<rustls::ClientConfig>,
    /// The name in the centre's certificate; `None` = the host.
    pub name: Option<ServerName<'static>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Connects to the first place that answers.
pub(super) async fn connect(places: &[Place], tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for place in places {
        match open(place, tls).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Connects to the first address of a place that answers. One of several may be silent: none but
/// the last is waited for longer than [`EACH`].
async fn reach(place: &Place) -> io::Result<TcpStream> {
    let found = lookup_host((place.host.as_str(), place.port)).await.map_err(named)?;
    let addresses: Vec<SocketAddr> = found.take(MOST).collect();
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
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

/// A name that leads nowhere has a kind of error of its own: the standard library has none that is
/// stable, and tells no error of the system either.
fn named(error: io::Error) -> io::Error {
    let is_known = error.raw_os_error().is_some() || error.kind() == io::ErrorKind::TimedOut;
    if is_known { error } else { io::Error::new(io::ErrorKind::NotFound, error) }
}

/// Why there is no connection.
pub(super) fn why_not(error: &io::Error) -> Ended {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.map_or(Ended::Disconnected(error.kind()), |error| Ended::NoTls(fault(error)))
}

fn fault(error: &rustls::Error) -> TlsFault {
    use rustls::{CertificateError as Fault, Error};
    match error {
        Error::InvalidMessage(_) => TlsFault::Plain,
        Error::InvalidCertificate(Fault::UnknownIssuer) => TlsFault::Issuer,
        Error::InvalidCertificate(
            Fault::NotValidForName | Fault::NotValidForNameContext { .. },
        ) => TlsFault::Name,
        Error::InvalidCertificate(
            Fault::Expired
            | Fault::ExpiredContext { .. }
            | Fault::NotValidYet
            | Fault::NotValidYetContext { .. },
        ) => TlsFault::Time,
        // rustls has no variant of its own for it.
        Error::InvalidCertificate(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            TlsFault::SelfSigned
        }
        _ => TlsFault::Other,
    }
}

async fn open(place: &Place, tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let tcp = reach(place).await?;
    // Requests are small and answered at once: waiting to fill packets costs most of the rate.
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(tcp)) };
    let name = match &tls.name {
        Some(name) => name.clone(),
        None => ServerName::try_from(place.host.clone())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
    };
    let connector = TlsConnector::from(Arc::clone(&tls.config));
    Ok(Box::new(connector.connect(name, tcp).await?))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::{Place, connect};

    #[tokio::test]
    async fn a_name_that_leads_nowhere_is_told_from_a_port_that_is_closed() {
        // RFC 6761 §6.4.
        for (host, kind) in
            [("nowhere.invalid", ErrorKind::NotFound), ("127.0.0.1", ErrorKind::ConnectionRefused)]
        {
            let place = Place { host: host.to_owned(), port: 1 };
            let failed = connect(&[place], None).await.err().map(|error| error.kind());
            assert_eq!(failed, Some(kind), "{host}");
        }
    }
}
