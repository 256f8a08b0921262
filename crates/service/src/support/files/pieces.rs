//! The body of an upload, put together before it is parsed: the parser looks through all that it
//! holds whenever more comes, so that single bytes would keep a core busy for minutes. It also
//! keeps whatever belongs to no part, so that is bounded.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{Stream, StreamExt, stream};
use hyper::body::Bytes;

/// The least that the parser gets at once, bytes, unless the body ends. It then looks some hundred
/// times at most.
const PIECE: usize = 64 * 1024;
/// The most that the parser gets while it gives nothing: what comes before the first part, and the
/// head of a part.
const MOST_HELD: usize = 256 * 1024;

/// More came than the parser may hold.
#[derive(Debug, thiserror::Error)]
#[error("more than {} KiB belong to no part", MOST_HELD / 1024)]
pub(super) struct Loose;

/// What the parser was given since it gave something, bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<AtomicUsize>);

impl Held {
    /// It gave a part, or some of one.
    pub(super) fn gave(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn takes(&self, bytes: usize) -> Result<(), Loose> {
        let held = self.0.fetch_add(bytes, Ordering::Relaxed);
        if held > MOST_HELD { Err(Loose) } else { Ok(()) }
    }
}

type Failed = Box<dyn Error + Send + Sync>;

/// What has come, and why nothing follows.
struct Coming<S> {
    body: S,
    failed: Option<Failed>,
    is_over: bool,
    held: Held,
}

/// The same bytes in pieces.
pub(super) fn pieces<E: Into<Failed> + Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    held: &Held,
) -> impl Stream<Item = Result<Bytes, Failed>> + Send + 'static {
    let body = Box::pin(body.fuse());
    let coming = Coming { body, failed: None, is_over: false, held: held.clone() };
    stream::unfold(coming, async |mut coming| {
        let next = coming.next().await?;
        Some((next, coming))
    })
}

impl<S: Stream<Item = Result<Bytes, E>> + Unpin, E: Into<Failed>> Coming<S> {
    async fn next(&mut self) -> Option<Result<Bytes, Failed>> {
        // The parser takes all that is there before it gives anything: one piece at a time.
        tokio::task::yield_now().await;
        if self.is_over {
            return None;
        }
        let mut piece = Vec::new();
        while self.failed.is_none() && piece.len() < PIECE {
            match self.body.next().await {
                Some(Ok(frame)) => {
                    piece.extend_from_slice(&frame);
                    self.failed = self.held.takes(frame.len()).err().map(Into::into);
                }
                Some(Err(failed)) => self.failed = Some(failed.into()),
                None => break,
            }
        }
        if piece.is_empty() {
            self.is_over = true;
            return self.failed.take().map(Err);
        }
        Some(Ok(piece.into()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{Stream, StreamExt, stream};
    use hyper::body::Bytes;

    use super::{Failed, Held, MOST_HELD, PIECE, pieces};

    /// Ten megabytes that are all there at once are one part, and no loose ends.
    #[tokio::test]
    async fn a_large_part_that_is_there_at_once_is_taken() {
        let file = vec![b'a'; 10 * 1024 * 1024];
        let head = b"--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
        let whole = Bytes::from([&head[..], &file, b"\r\n--B--\r\n"].concat());
        let size = whole.len();
        let frames = (0..size).step_by(16 * 1024);
        let frames: Vec<Result<Bytes, Failed>> =
            frames.map(|at| Ok(whole.slice(at..size.min(at + 16 * 1024)))).collect();
        let held = Held::default();
        let mut parts = multer::Multipart::new(pieces(stream::iter(frames), &held), "B");
        let mut part = parts.next_field().await.unwrap().unwrap();
        held.gave();
        let mut read = 0;
        while let Some(chunk) = part.chunk().await.unwrap() {
            held.gave();
            read += chunk.len();
        }
        assert_eq!(read, file.len());
    }

    fn single_bytes(count: usize) -> impl Stream<Item = Result<Bytes, Failed>> {
        stream::iter(0..count).map(|_| Ok(Bytes::from_static(b"a")))
    }

    #[tokio::test]
    async fn single_bytes_come_in_large_pieces_and_all_of_them() {
        let body = single_bytes(2 * PIECE + 5).chain(stream::iter([Err("cut".into())]));
        let found: Vec<_> = pieces(body, &Held::default())
            .map(|piece| piece.map(|piece| piece.len()).map_err(|error| error.to_string()))
            .collect()
            .await;
        assert_eq!(found, [Ok(PIECE), Ok(PIECE), Ok(5), Err("cut".to_owned())]);
    }

    #[tokio::test]
    async fn a_parser_that_gives_nothing_gets_no_more() {
        let read = async |gives: bool| {
            let held = Held::default();
            let mut coming = Box::pin(pieces(single_bytes(3 * MOST_HELD), &held));
            let (mut read, mut error) = (0, None);
            while let Some(piece) = coming.next().await {
                match piece {
                    Ok(piece) => read += piece.len(),
                    Err(failed) => error = Some(failed.to_string()),
                }
                if gives {
                    held.gave();
                }
            }
            (read, error)
        };
        let refused = "more than 256 KiB belong to no part".to_owned();
        assert_eq!(read(false).await, (MOST_HELD + 2, Some(refused)));
        assert_eq!(read(true).await, (3 * MOST_HELD, None));
    }
}
