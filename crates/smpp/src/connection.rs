//! A session and the stream it runs on: one task reads, writes and keeps time.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use clock::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::session::{Event, Session};

/// Who does not read gets no more answers than this, octets; then it is not read either.
const MOST_UNREAD: usize = 256 * 1024;
/// Octets that are read at a time.
const READ: usize = 16 * 1024;
/// How long the last octets of a session may take, milliseconds.
const FAREWELL_MS: i64 = 1_000;

/// What a session runs on.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A session on its stream.
pub struct Connection<S> {
    /// The session: send and answer through it, then go on with [`Connection::next`].
    pub session: Session,
    stream: S,
    clock: Clock,
    input: BytesMut,
    /// Something was written that TLS may still hold.
    is_unflushed: bool,
    /// The end of the session, which is told once the farewell is over.
    ended: Option<Event>,
}

impl<S> std::fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl<S: Stream> Connection<S> {
    /// Nothing happens until [`Connection::next`].
    pub fn new(session: Session, stream: S, clock: Clock) -> Self {
        Self { session, stream, clock, input: BytesMut::new(), is_unflushed: false, ended: None }
    }

    /// The next event. Nothing is lost if the future is dropped. After [`Event::Ended`] the stream
    /// is closed, and there is none.
    pub async fn next(&mut self) -> Event {
        loop {
            if self.ended.is_some() {
                self.say_farewell().await;
                if let Some(ended) = self.ended.take() {
                    return ended;
                }
            }
            match self.session.event() {
                Some(ended @ Event::Ended(_)) => {
                    self.ended = Some(ended);
                    continue;
                }
                Some(event) => return event,
                None => {}
            }
            if self.session.is_ended() {
                std::future::pending::<()>().await;
            }
            let (clock, wake_at) = (self.clock.clone(), self.session.wake_at());
            let alarm = async move {
                match wake_at {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                read = self.transfer() => match read {
                    Ok(()) => self.session.receive(self.clock.now(), &mut self.input),
                    Err(why) => self.session.disconnected(why),
                },
                () = alarm => self.session.tick(self.clock.now()),
            }
        }
    }

    /// Writes what there is and reads something.
    async fn transfer(&mut self) -> Result<(), ErrorKind> {
        poll_fn(|cx| {
            if let Poll::Ready(Err(why)) = self.poll_write(cx) {
                return Poll::Ready(Err(why));
            }
            if self.session.output().len() > MOST_UNREAD {
                return Poll::Pending;
            }
            self.input.reserve(READ / 2);
            let read = pin!(self.stream.read_buf(&mut self.input));
            read.poll(cx).map(|read| match read {
                Ok(0) => Err(ErrorKind::UnexpectedEof),
                Ok(_) => Ok(()),
                Err(error) => Err(error.kind()),
            })
        })
        .await
    }

    /// Ready when nothing is left to write.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorKind>> {
        let output = self.session.output();
        while !output.is_empty() {
            let stream = Pin::new(&mut self.stream);
            match std::task::ready!(stream.poll_write(cx, output)) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero)),
                Ok(count) => output.advance(count),
                Err(error) => return Poll::Ready(Err(error.kind())),
            }
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            let flushed = std::task::ready!(Pin::new(&mut self.stream).poll_flush(cx));
            self.is_unflushed = false;
            return Poll::Ready(flushed.map_err(|error| error.kind()));
        }
        Poll::Ready(Ok(()))
    }

    async fn say_farewell(&mut self) {
        let clock = self.clock.clone();
        let parting = async {
            let written = poll_fn(|cx| self.poll_write(cx)).await;
            if written.is_ok() {
                let _closed = self.stream.shutdown().await;
            }
        };
        tokio::select! { () = parting => {}, () = clock.sleep(FAREWELL_MS) => {} }
    }
}
