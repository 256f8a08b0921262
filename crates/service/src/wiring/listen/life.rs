//! How long one stream of an HTTP/2 connection may live. It has as long as an ordinary request
//! takes at the slowest; one that says it is an upload gets more.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::timeout;

tokio::task_local! {
    /// Milliseconds that this stream asked for.
    static MORE: Arc<AtomicU64>;
}

/// Gives the stream that this task serves so much more. Without one there is nothing to extend.
pub(in crate::wiring) fn extend(more: Duration) {
    let ms = u64::try_from(more.as_millis()).unwrap_or(u64::MAX);
    // Only HTTP/2 has streams with a life of their own.
    let _no_stream = MORE.try_with(|asked| asked.fetch_max(ms, Relaxed));
}

/// Serves a stream until it is done or its life is over.
pub(super) async fn limited<F: Future>(life: Duration, stream: F) {
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&asked);
    let whole = async move {
        let mut stream = pin!(stream);
        if timeout(life, stream.as_mut()).await.is_ok() {
            return;
        }
        let more = Duration::from_millis(seen.load(Relaxed));
        // Reset when that is over, too.
        let _late = timeout(more, stream).await;
    };
    MORE.scope(asked, whole).await;
}
