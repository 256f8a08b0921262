//! How long to wait for a client that is slow. It has a while to begin with; waiting uses it up,
//! and every byte that moves gives some of it back, as much as that byte may take at the slowest
//! pace. One rule ends who stops and who drips, and leaves those alone that are merely far away.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Server;

/// What a client's bytes may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long nothing may move.
    pub(super) pause: Duration,
    bytes_per_s: u32,
}

impl Pace {
    /// For the body of a request.
    pub(super) fn of_bodies(server: &Server) -> Self {
        Self::of(server.body_timeout_ms, server)
    }

    /// For answers.
    pub(super) fn of_answers(server: &Server) -> Self {
        Self::of(server.write_timeout_ms, server)
    }

    fn of(pause_ms: u64, server: &Server) -> Self {
        let bytes_per_s = server.slowest_bytes_per_s.max(1);
        Self { pause: Duration::from_millis(pause_ms), bytes_per_s }
    }

    /// Until when to wait, after bytes moved now that were waited for until `due`.
    pub(super) fn after(&self, due: Instant, bytes: usize, now: Instant) -> Instant {
        (due + self.time_for(bytes)).min(now + self.pause)
    }

    /// The longest time that so many bytes can take.
    pub(super) fn longest(&self, bytes: usize) -> Duration {
        self.pause + self.time_for(bytes)
    }

    fn time_for(&self, bytes: usize) -> Duration {
        let micros = (bytes as u64).saturating_mul(1_000_000) / u64::from(self.bytes_per_s);
        Duration::from_micros(micros)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Pace};

    /// How long somebody lasts that moves so many bytes every so many milliseconds.
    fn lasts(bytes: usize, every_ms: u64) -> Option<u64> {
        let pace = Pace { pause: Duration::from_secs(5), bytes_per_s: 1000 };
        let begin = Instant::now();
        let mut due = begin + pace.pause;
        for turn in 1..10_000 {
            let now = begin + Duration::from_millis(every_ms * turn);
            if now >= due {
                return Some((due - begin).as_millis().try_into().unwrap());
            }
            due = pace.after(due, bytes, now);
        }
        None
    }

    #[test]
    fn who_stops_or_drips_is_ended_and_who_keeps_the_pace_is_not() {
        assert_eq!(lasts(0, 100), Some(5000));
        assert_eq!(lasts(1, 100), Some(5050));
        assert_eq!(lasts(50, 100), Some(9900));
        assert_eq!(lasts(100, 100), None);
        assert_eq!(lasts(4900, 4900), None);
        assert_eq!(lasts(1_000_000, 4999), None);
        assert_eq!(lasts(1_000_000, 5000), Some(5000), "no byte buys a longer pause");
    }

    #[test]
    fn a_body_is_bounded_as_a_whole() {
        let pace = Pace { pause: Duration::from_secs(5), bytes_per_s: 1000 };
        assert_eq!(pace.longest(10_000), Duration::from_secs(15));
    }
}
