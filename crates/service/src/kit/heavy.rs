//! Work on contents of megabytes, such as emails with files: beside the threads that answer
//! requests, so that nobody waits behind it.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Contents up to this size, bytes, are worked on at once.
pub const SMALL: usize = 256 * 1024;

/// Whether contents of this size, bytes, are worked on beside the rest.
#[must_use]
pub const fn is_large(bytes: usize) -> bool {
    bytes > SMALL
}

/// Where large contents are worked on, one after the other, in the order in which they came: all of
/// them together take a core at most.
pub struct Bench(Semaphore);

impl Bench {
    /// A free one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is made in statics, too")]
    pub const fn new() -> Self {
        Self(Semaphore::const_new(1))
    }

    /// Works on contents of this size, bytes; on large ones when it is their turn.
    pub async fn work<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if !is_large(bytes) {
            return work();
        }
        // It is never closed.
        let _place = self.0.acquire().await;
        beside(bytes, work)
    }
}

/// The same for work that cannot wait for a turn.
pub fn beside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if is_large(bytes) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::{Bench, SMALL};

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_contents_take_turns_and_keep_nobody_waiting() {
        static BENCH: Bench = Bench::new();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all: Vec<_> = (0..4)
            .map(|_| {
                let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(BENCH.work(SMALL + 1, move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(100));
                    now.fetch_sub(1, Ordering::SeqCst);
                }))
            })
            .collect();
        // The only thread that answers is free meanwhile.
        let since = Instant::now();
        for _ in 0..10 {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(since.elapsed() < Duration::from_millis(90), "{:?}", since.elapsed());
        BENCH.work(SMALL, || assert!(since.elapsed() < Duration::from_millis(90))).await;
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 1, "one at a time");
        assert!(since.elapsed() >= Duration::from_millis(390));
    }

    #[tokio::test]
    async fn a_single_thread_works_itself() {
        assert_eq!(Bench::new().work(SMALL + 1, || 7).await, 7);
    }
}
