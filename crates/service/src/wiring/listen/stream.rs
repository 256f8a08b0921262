//! The bytes of one connection: plain or TLS, watched for progress, with a look at the first of
//! them to tell HTTP/2 from HTTP/1.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::lines::Lines;
use super::refusal::Refusals;
use super::watch::Watch;
use crate::wiring::intake::LINGER_BYTES;

/// What an HTTP/2 connection begins with (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection below HTTP.
pub(super) enum Wire {
    /// As it comes.
    Plain(TcpStream),
    /// Behind a finished handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls the same method on whichever stream it is.
macro_rules! on {
    ($wire:expr, $stream:ident => $call:expr) => {
        match $wire {
            Wire::Plain($stream) => $call,
            Wire::Tls($stream) => $call,
        }
    };
}

/// A connection whose progress is noted.
pub(super) struct Watched {
    wire: Wire,
    watch: Arc<Watch>,
    lines: Lines,
    /// Bytes that were read to tell the protocol, and how many of them were handed on.
    seen: [u8; PREFACE.len()],
    filled: usize,
    given: usize,
    refusals: Refusals,
    /// An answer in the place of the HTTP library's, and how much of it is out.
    refusal: Option<(Vec<u8>, usize)>,
    /// Whether what is written is no HTTP any more.
    is_past_http: bool,
}

impl Watched {
    pub(super) fn new(wire: Wire, watch: Arc<Watch>, refusals: Refusals) -> Self {
        let seen = [0; PREFACE.len()];
        let lines = Lines::default();
        Self {
            wire,
            watch,
            lines,
            seen,
            filled: 0,
            given: 0,
            refusals,
            refusal: None,
            is_past_http: false,
        }
    }

    /// Whether the client speaks HTTP/2. Waits for the first byte that tells; may be given up and
    /// asked again.
    ///
    /// # Errors
    /// When the connection fails, or ends before it tells.
    pub(super) async fn is_http2(&mut self) -> io::Result<bool> {
        if let Wire::Tls(tls) = &self.wire
            && let Some(protocol) = tls.get_ref().1.alpn_protocol()
        {
            return Ok(protocol == b"h2");
        }
        loop {
            let space = self.seen.get_mut(self.filled..).unwrap_or_default();
            let count = on!(&mut self.wire, stream => stream.read(space).await)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += count;
            if self.seen.get(..self.filled) != PREFACE.get(..self.filled) {
                return Ok(false);
            }
            if self.filled == PREFACE.len() {
                return Ok(true);
            }
        }
    }

    /// From now on whatever is written goes out as it is: another protocol has the connection.
    pub(super) fn leave_http(&mut self) {
        self.is_past_http = true;
    }

    /// Says a last word past the HTTP library.
    ///
    /// # Errors
    /// When the connection fails.
    pub(super) async fn say(&mut self, word: &[u8]) -> io::Result<()> {
        self.wire.write_all(word).await
    }

    /// Closes our side, and reads until the client has closed its own. What it still sends is
    /// thrown away: closing with bytes unread would make the system reset the connection, and the
    /// client might lose the answer that says why. One that sends nothing for `patience` is left.
    pub(super) async fn linger(&mut self, patience: Duration) {
        // A client that is gone already has nothing to miss.
        let _gone = self.wire.shutdown().await;
        let mut rest = (&mut self.wire).take(LINGER_BYTES as u64);
        let mut sink = vec![0; 16 * 1024];
        while matches!(timeout(patience, rest.read(&mut sink)).await, Ok(Ok(1..))) {}
    }

    /// Bytes came in and are about to be handed on.
    fn came(&mut self, bytes: &mut [u8]) {
        if self.watch.is_http1() {
            if self.watch.is_idle() {
                self.lines.answered();
            }
            self.lines.pass(bytes);
        }
        self.watch.came();
    }

    /// The HTTP library answers on its own what it cannot read, without a body. The caller gets a
    /// problem instead, in the one shape; the library is told that its bytes went out.
    fn refuse(&mut self, cx: &mut Context<'_>, offer: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let (bytes, out) = self.refusal.get_or_insert_with(|| {
            let line = offer.iter().find(|part| !part.is_empty());
            (self.refusals.instead_of(line.map_or(&[], |part| &part[..])), 0)
        });
        while let Some(rest) = bytes.get(*out..).filter(|rest| !rest.is_empty()) {
            let Poll::Ready(count) = Pin::new(&mut self.wire).poll_write(cx, rest)? else {
                self.watch.waits();
                return Poll::Pending;
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *out += count;
        }
        Poll::Ready(Ok(offer.iter().map(|part| part.len()).sum()))
    }
}

/// What a client does not take while it can, it does not get afterwards: without a reset the system
/// would keep those bytes for it, and the connection, for minutes.
impl Drop for Watched {
    fn drop(&mut self) {
        if self.watch.is_stuck() {
            let tcp = match &self.wire {
                Wire::Plain(tcp) => tcp,
                Wire::Tls(tls) => tls.get_ref().0,
            };
            let _best_effort = tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_past_http {
            return Pin::new(&mut this.wire).poll_read(cx, buffer);
        }
        if buffer.remaining() >= 4
            && let Some(end) = this.lines.end()
        {
            buffer.put_slice(end);
            return Poll::Ready(Ok(()));
        }
        if let Some(rest) = this.seen.get(this.given..this.filled).filter(|rest| !rest.is_empty()) {
            let count = rest.len().min(buffer.remaining());
            let before = buffer.filled().len();
            buffer.put_slice(rest.get(..count).unwrap_or_default());
            this.given += count;
            this.came(buffer.filled_mut().get_mut(before..).unwrap_or_default());
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.wire).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.came(buffer.filled_mut().get_mut(before..).unwrap_or_default());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        offer: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.watch.is_unasked() && !this.is_past_http {
            return this.refuse(cx, offer);
        }
        let wire = Pin::new(&mut this.wire);
        let written = match offer {
            [only] => wire.poll_write(cx, only),
            offer => wire.poll_write_vectored(cx, offer),
        };
        let Poll::Ready(count) = written? else {
            this.watch.waits();
            return Poll::Pending;
        };
        this.watch.went(count, offer.iter().map(|part| part.len()).sum());
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Poll::Ready(()) = Pin::new(&mut this.wire).poll_flush(cx)? else {
            this.watch.waits();
            return Poll::Pending;
        };
        this.watch.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        offer: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, offer))
    }

    fn is_write_vectored(&self) -> bool {
        on!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
