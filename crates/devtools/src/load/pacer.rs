//! The open loop's schedule: operation `k` is intended at `begin + k / rate`, whatever the service
//! does. A thread of its own grants the due ones, because the runtime's timers are too coarse.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;

use crate::stopwatch;

/// Sleeping shorter than this costs more CPU than the precision is worth.
const NAP: Duration = Duration::from_micros(200);

/// Hands out operations at a fixed rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    due: Arc<Semaphore>,
    next: AtomicU64,
    schedule: Schedule,
}

/// When each operation is intended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    begin: Instant,
    rate: u64,
    total: u64,
}

impl Schedule {
    /// Operations at `rate` per second from `begin` for `span`.
    pub(crate) fn new(rate: u64, begin: Instant, span: Duration) -> Self {
        Self { begin, rate, total: due_after(span, rate) }
    }

    /// The intended start of operation `index`; `None` behind the end.
    pub(crate) fn intended(&self, index: u64) -> Option<Instant> {
        let whole = index.checked_div(self.rate)?;
        let nanos = (index % self.rate) * 1_000_000_000 / self.rate;
        let offset = Duration::from_secs(whole) + Duration::from_nanos(nanos);
        (index < self.total).then(|| self.begin + offset)
    }

    /// How many operations are due at `now`.
    pub(crate) fn due(&self, now: Instant) -> u64 {
        // The first is due at once, so one more than whole intervals have passed.
        let passed = now.saturating_duration_since(self.begin);
        (due_after(passed, self.rate) + 1).min(self.total)
    }
}

fn due_after(span: Duration, rate: u64) -> u64 {
    let due = span.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(due).unwrap_or(u64::MAX)
}

impl Pacer {
    /// Starts granting; at the end each of `clients` is let go.
    pub(crate) fn start(rate: u64, begin: Instant, span: Duration, clients: u64) -> Self {
        let schedule = Schedule::new(rate, begin, span);
        let due = Arc::new(Semaphore::new(0));
        let grants = Arc::clone(&due);
        thread::spawn(move || grant(&grants, &schedule, clients));
        Self { due, next: AtomicU64::new(0), schedule }
    }

    /// Waits for the next operation; its index and intended start, or `None` at the end.
    pub(crate) async fn turn(&self) -> Option<(u64, Instant)> {
        self.due.acquire().await.ok()?.forget();
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        Some((index, self.schedule.intended(index)?))
    }
}

fn grant(grants: &Semaphore, schedule: &Schedule, clients: u64) {
    let mut granted = 0;
    while let Some(next) = schedule.intended(granted) {
        let now = stopwatch::now();
        let due = schedule.due(now);
        grants.add_permits(usize::try_from(due - granted).unwrap_or(0));
        granted = due;
        thread::sleep(next.saturating_duration_since(now).max(NAP));
    }
    grants.add_permits(usize::try_from(clients).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pacer, Schedule};
    use crate::stopwatch;

    #[test]
    fn operations_are_intended_at_even_distances_and_end() {
        let begin = stopwatch::now();
        let schedule = Schedule::new(400, begin, Duration::from_millis(500));
        let at = |index| schedule.intended(index).map(|at| at.duration_since(begin));
        assert_eq!(at(0), Some(Duration::ZERO));
        assert_eq!(at(1), Some(Duration::from_micros(2500)));
        assert_eq!(at(199), Some(Duration::from_micros(497_500)));
        assert_eq!(at(200), None);
    }

    #[test]
    fn what_is_due_is_what_was_intended_by_then() {
        let begin = stopwatch::now();
        let schedule = Schedule::new(1000, begin, Duration::from_secs(1));
        for passed in [0_u64, 1, 999, 1000, 1001, 500_500, 999_999, 5_000_000] {
            let now = begin + Duration::from_micros(passed);
            let intended = (0..1000).filter(|k| schedule.intended(*k).unwrap() <= now).count();
            assert_eq!(schedule.due(now), intended as u64, "after {passed} µs");
        }
    }

    #[tokio::test]
    async fn a_late_client_still_gets_the_intended_start() {
        let begin = stopwatch::now();
        let pacer = Pacer::start(100, begin, Duration::from_millis(50), 1);
        tokio::time::sleep(Duration::from_millis(120)).await;
        for index in 0..5_u64 {
            let (turn, intended) = pacer.turn().await.unwrap();
            assert_eq!(turn, index);
            assert_eq!(intended, begin + Duration::from_millis(10 * index));
        }
        assert!(pacer.turn().await.is_none());
    }
}
