//! The body of an upload, put together before it is parsed: the parser looks through all that it
//! holds whenever more comes, so that single bytes would keep a core busy for minutes.

use futures_util::{Stream, StreamExt, stream};
use hyper::body::Bytes;

/// The least that the parser gets at once, bytes, unless the body ends. It then looks some hundred
/// times at most.
const PIECE: usize = 64 * 1024;

/// What has come, and why nothing follows.
struct Coming<S, E> {
    body: S,
    failed: Option<E>,
}

/// The same bytes in pieces.
pub(super) fn pieces<E: Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, E>> + Send + 'static {
    let body = Box::pin(body.fuse());
    stream::unfold(Coming { body, failed: None }, async |mut coming| {
        let next = coming.next().await?;
        Some((next, coming))
    })
}

impl<S: Stream<Item = Result<Bytes, E>> + Unpin, E> Coming<S, E> {
    async fn next(&mut self) -> Option<Result<Bytes, E>> {
        let mut piece = Vec::new();
        while self.failed.is_none() && piece.len() < PIECE {
            match self.body.next().await {
                Some(Ok(frame)) => piece.extend_from_slice(&frame),
                Some(Err(failed)) => self.failed = Some(failed),
                None => break,
            }
        }
        if piece.is_empty() { self.failed.take().map(Err) } else { Some(Ok(piece.into())) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};
    use hyper::body::Bytes;

    use super::{PIECE, pieces};

    #[tokio::test]
    async fn single_bytes_come_in_large_pieces_and_all_of_them() {
        let bytes = stream::iter(0..2 * PIECE + 5).map(|_| Ok(Bytes::from_static(b"a")));
        let body = bytes.chain(stream::iter([Err("cut")]));
        let found: Vec<_> =
            pieces(body).map(|piece| piece.map(|piece| piece.len())).collect().await;
        assert_eq!(found, [Ok(PIECE), Ok(PIECE), Ok(5), Err("cut")]);
    }
}
