//! Lines of callbacks, one for each signer whose are taken in.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

/// Signers whose callbacks are taken in at the same time, beside the deployment's own: a
/// callback may be of megabytes.
const LINES: usize = 8;

/// The lines that are worked on. Each answers whose it was.
pub(super) struct Lines<F> {
    running: FuturesUnordered<F>,
    /// Whose they are.
    served: BTreeSet<String>,
}

impl<F> Default for Lines<F> {
    fn default() -> Self {
        Self { running: FuturesUnordered::new(), served: BTreeSet::new() }
    }
}

impl<F: Future<Output = String>> Lines<F> {
    /// The deployment's own always has a line.
    pub(super) fn has_room_for(&self, signer: &str) -> bool {
        let linked = self.served.iter().filter(|served| !served.is_empty()).count();
        !self.served.contains(signer) && (signer.is_empty() || linked < LINES)
    }

    pub(super) fn begin(&mut self, signer: &str, line: F) {
        self.served.insert(signer.to_owned());
        self.running.push(line);
    }

    /// Waits until a line is done; `None` = there is none.
    pub(super) async fn end_of_one(&mut self) -> Option<()> {
        let signer = self.running.next().await?;
        self.served.remove(&signer);
        Some(())
    }

    /// Waits for something else while the lines go on. One that stood still could hold what the
    /// other waits for: a turn at the database, for one.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(()) = self.end_of_one() => {}
            }
        }
    }
}
