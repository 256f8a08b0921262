//! The way to the centre: TCP, or TLS on it.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::Stream;

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

async fn open(place: &Place, tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let tcp = TcpStream::connect((place.host.as_str(), place.port)).await?;
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
