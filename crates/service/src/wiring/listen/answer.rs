//! The body of an answer on its way out. It keeps its request open on the connection's watch until
//! all of it was handed over, and gives HTTP/2 one piece after the other.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::watch::Watch;
use crate::wiring::outgo::held;
use crate::wiring::shares::Share;

/// A request that is open on its connection's watch while this lives.
pub(super) struct Open(Arc<Watch>);

impl Open {
    pub(super) fn begin(watch: &Arc<Watch>) -> Self {
        watch.begin();
        Self(Arc::clone(watch))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What HTTP/2 gets at a time, bytes. It puts each piece whole into its own memory as soon as the
/// client has room for one byte of it, for each of its streams.
pub(super) const PIECE: usize = 16 * 1024;

/// A body that is being answered with.
pub(super) struct Answer {
    body: Body,
    rest: Bytes,
    piece: usize,
    hold: Option<Arc<Share>>,
    _open: Open,
}

impl Answer {
    /// `hold` goes with the bytes until the client has taken the last of them.
    pub(super) fn new(body: Body, open: Open, is_http2: bool, hold: Option<Arc<Share>>) -> Self {
        let piece = if is_http2 { PIECE } else { usize::MAX };
        Self { body, rest: Bytes::new(), piece, hold, _open: open }
    }

    fn next_piece(&mut self) -> Bytes {
        let length = self.rest.len().min(self.piece);
        self.rest.split_to(length)
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx)?);
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    this.rest = match &this.hold {
                        Some(hold) => held(data, Arc::clone(hold)),
                        None => data,
                    };
                }
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                None => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(this.next_piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, inner) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}
