//! The bare stream of a connection. The client library resolves names, tries hosts, encrypts and
//! proves who connects; then the stream is taken from it, and what goes over it is ours.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Config, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::failure::Failure;

const PORT: u16 = 5432;

type Handshake = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// What a connection goes over.
pub(super) enum Stream {
    Plain(Socket),
    #[cfg(unix)]
    Local(UnixStream),
    Encrypted(Box<Encrypted>),
}

/// Connects, and proves who we are.
pub(super) async fn dial(address: &Address) -> Result<Stream, Failure> {
    #[cfg(unix)]
    if let Some(stream) = local(&address.config).await? {
        return Ok(stream);
    }
    let mut config = address.config.clone();
    if address.tls.is_none() {
        // Without a word about encryption: the library's "handshake" hands us the socket.
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        if config.get_hosts().is_empty() {
            for place in address.config.get_hostaddrs() {
                config.host(place.to_string());
            }
        }
    }
    let keeper = Keeper { tls: address.tls.clone(), kept: Arc::default() };
    let connected = config.connect(keeper.clone()).await;
    drop(connected.map_err(|error| Failure::of(&error))?);
    let kept = lock(&keeper.kept).take();
    kept.and_then(Shared::alone).ok_or_else(|| Failure::Lost("there is no stream".to_owned()))
}

/// Through the file system, where a host of the URL is a folder; the first that answers.
#[cfg(unix)]
async fn local(config: &Config) -> Result<Option<Stream>, Failure> {
    let mut failure = None;
    for (index, host) in config.get_hosts().iter().enumerate() {
        let Host::Unix(folder) = host else { continue };
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
        match local_one(config, &folder.join(format!(".s.PGSQL.{port}"))).await {
            Ok(stream) => return Ok(Some(stream)),
            Err(why) => failure = Some(why),
        }
    }
    failure.map_or(Ok(None), Err)
}

#[cfg(unix)]
async fn local_one(config: &Config, file: &std::path::Path) -> Result<Stream, Failure> {
    let socket = UnixStream::connect(file).await;
    let shared = Shared::of(Stream::Local(socket.map_err(|error| lost(&error))?));
    let connected = config.connect_raw(shared.clone(), tokio_postgres::NoTls).await;
    drop(connected.map_err(|error| Failure::of(&error))?);
    shared.alone().ok_or_else(|| Failure::Lost("there is no stream".to_owned()))
}

pub(super) fn lost(error: &io::Error) -> Failure {
    Failure::Lost(error.to_string())
}

/// A stream that the client library has while it connects, and we have afterwards.
#[derive(Clone)]
struct Shared(Arc<Mutex<Stream>>);

impl Shared {
    fn of(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// `None` while somebody else has it, too.
    fn alone(self) -> Option<Stream> {
        let stream = Arc::into_inner(self.0)?;
        Some(stream.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Stands in for encryption at the client library, and keeps the stream.
#[derive(Clone)]
struct Keeper {
    tls: Option<MakeRustlsConnect>,
    /// Of several hosts, the last one tried: that is the one which was fit.
    kept: Arc<Mutex<Option<Shared>>>,
}

struct KeeperOfOne {
    tls: Option<Handshake>,
    kept: Arc<Mutex<Option<Shared>>>,
}

impl MakeTlsConnect<Socket> for Keeper {
    type Stream = Shared;
    type TlsConnect = KeeperOfOne;
    type Error = std::convert::Infallible;

    fn make_tls_connect(&mut self, domain: &str) -> Result<KeeperOfOne, Self::Error> {
        let make = |tls| MakeTlsConnect::<Socket>::make_tls_connect(tls, domain);
        let tls = self.tls.as_mut().map(make).transpose()?;
        Ok(KeeperOfOne { tls, kept: Arc::clone(&self.kept) })
    }
}

impl TlsConnect<Socket> for KeeperOfOne {
    type Stream = Shared;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Shared>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = match self.tls {
                None => Stream::Plain(socket),
                Some(tls) => Stream::Encrypted(Box::new(tls.connect(socket).await?)),
            };
            let shared = Shared::of(stream);
            *lock(&self.kept) = Some(shared.clone());
            Ok(shared)
        })
    }
}

impl TlsStream for Shared {
    fn channel_binding(&self) -> ChannelBinding {
        match &*lock(&self.0) {
            Stream::Encrypted(stream) => stream.channel_binding(),
            _ => ChannelBinding::none(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same on whichever stream it is.
macro_rules! on {
    ($stream:expr, $one:ident => $done:expr) => {
        match $stream {
            Stream::Plain(socket) => {
                let $one = Pin::new(socket);
                $done
            }
            #[cfg(unix)]
            Stream::Local(socket) => {
                let $one = Pin::new(socket);
                $done
            }
            Stream::Encrypted(stream) => {
                let $one = Pin::new(&mut **stream);
                $done
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(&mut *self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on!(&mut *self, stream => stream.poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut *self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut *self, stream => stream.poll_shutdown(cx))
    }
}

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_read(cx, buf)
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(cx)
    }
}
