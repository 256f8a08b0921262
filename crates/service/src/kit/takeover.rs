//! A connection that stops being HTTP: a handler answers 101 and says what takes the connection
//! over. Whoever serves connections hands it the stream once that answer is out.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch::Receiver;

/// What the connection is made of.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A connection that was taken over.
pub struct Taken {
    /// Its bytes.
    pub stream: Box<dyn Duplex>,
    /// Those that were read already.
    pub read: Bytes,
    /// Becomes true when the process stops.
    pub stopped: Receiver<bool>,
}

type Work = Box<dyn FnOnce(Taken) -> BoxFuture<'static, ()> + Send>;

/// What takes a connection over; in the extensions of an answer 101. Whoever clones it shares the
/// one right to it.
#[derive(Clone)]
pub struct Takeover(Arc<Mutex<Option<Work>>>);

impl Takeover {
    /// By this.
    pub fn by<F>(work: impl FnOnce(Taken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(Mutex::new(Some(Box::new(|taken| Box::pin(work(taken)))))))
    }

    /// Starts it; `None` when that was done.
    #[must_use]
    pub fn start(&self, taken: Taken) -> Option<BoxFuture<'static, ()>> {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(work(taken))
    }
}
