//! What a connection is at, and until when it may be. The stream and the requests note what
//! happens, which costs them a few stores; one timer of the connection asks [`Watch::judge`] now
//! and then. No request starts or stops a timer.
//!
//! A connection is judged by the first of these that fits:
//!
//! | it is at | for so long |
//! |---|---|
//! | an answer that the client does not take | the pace of answers, from the first stuck write |
//! | a request | its own limits, which the edge keeps |
//! | its first head | the header limit, from the start |
//! | a later head (HTTP/1) | the header limit, from the head's first byte |
//! | nothing | the idle limit, from the last answer |

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use tokio::time::Instant;

use super::super::pace::Pace;

/// What a connection may take its time for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For a head.
    pub(super) header: Duration,
    /// Without a request.
    pub(super) idle: Duration,
    /// For an answer.
    pub(super) answers: Pace,
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// A head did not come, or not to its end.
    Header,
    /// An answer was not taken.
    Write,
    /// There was no request.
    Idle,
}

/// The finding of [`Watch::judge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Look again then.
    LookAt(Instant),
    /// A limit is over.
    End(Overdue),
}

/// Microseconds after the start; 0 says that there is no such moment.
type Moment = AtomicU64;

/// The notes on one connection. All in its tasks share it.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    limits: Limits,
    is_http2: AtomicBool,
    has_asked: AtomicBool,
    /// Requests that are not handed over to be written.
    open: AtomicU32,
    /// Whether any answer is not all out.
    owes: AtomicBool,
    /// When the last request ended.
    idle: Moment,
    /// When the first byte of a later head came.
    head: Moment,
    /// Until when an answer that is stuck is waited for.
    stuck: Moment,
}

impl Watch {
    /// Of a connection that begins now.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            begun: Instant::now(),
            limits,
            is_http2: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
            open: AtomicU32::new(0),
            owes: AtomicBool::new(false),
            idle: AtomicU64::new(0),
            head: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
        }
    }

    /// It speaks HTTP/2: bytes between requests are not always the beginning of a head.
    pub(super) fn speaks_http2(&self) {
        self.is_http2.store(true, Relaxed);
    }

    /// Whether it speaks HTTP/1.
    pub(super) fn is_http1(&self) -> bool {
        !self.is_http2.load(Relaxed)
    }

    /// Whether no request is open.
    pub(super) fn is_idle(&self) -> bool {
        self.open.load(Relaxed) == 0
    }

    /// Bytes came in.
    pub(super) fn came(&self) {
        let is_between = self.open.load(Relaxed) == 0 && self.head.load(Relaxed) == 0;
        if is_between && !self.is_http2.load(Relaxed) {
            self.note(&self.head, Instant::now());
        }
    }

    /// A request begins.
    pub(super) fn begin(&self) {
        self.open.fetch_add(1, Relaxed);
        self.has_asked.store(true, Relaxed);
        self.head.store(0, Relaxed);
        self.owes.store(true, Relaxed);
    }

    /// A request ends: its answer was handed over to be written, or it was given up.
    pub(super) fn end(&self) {
        // The time first: whoever sees no request must see since when.
        self.note(&self.idle, Instant::now());
        self.open.fetch_sub(1, Relaxed);
    }

    /// Bytes went out: `taken` of `offered`.
    pub(super) fn went(&self, taken: usize, offered: usize) {
        if taken == offered {
            self.stuck.store(0, Relaxed);
            return;
        }
        self.waits();
        if let Some(due) = self.read(&self.stuck) {
            self.note(&self.stuck, self.limits.answers.after(due, taken, Instant::now()));
        }
    }

    /// Nothing goes out now.
    pub(super) fn waits(&self) {
        if self.stuck.load(Relaxed) == 0 {
            self.note(&self.stuck, Instant::now() + self.limits.answers.pause);
        }
    }

    /// Whether an answer waits for its client.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed) != 0
    }

    /// All that there was went out.
    pub(super) fn flushed(&self) {
        self.stuck.store(0, Relaxed);
        if self.open.load(Relaxed) == 0 {
            self.owes.store(false, Relaxed);
        }
    }

    /// Whether whatever is written now answers no request: on HTTP/1, where a connection carries
    /// nothing but answers, the HTTP library is about to refuse what it could not read.
    pub(super) fn is_unasked(&self) -> bool {
        !self.owes.load(Relaxed) && !self.is_http2.load(Relaxed)
    }

    /// Whether a limit is over, or when to look again.
    pub(super) fn judge(&self, now: Instant) -> Finding {
        // Another state may begin at any time. Its end is not missed when no pause between two
        // looks is longer than the shortest limit.
        let latest = now + self.shortest();
        match self.due() {
            Some((due, overdue)) if due <= now => Finding::End(overdue),
            Some((due, _)) => Finding::LookAt(due.min(latest)),
            None => Finding::LookAt(latest),
        }
    }

    /// When the connection is looked at first.
    pub(super) fn first_look(&self) -> Instant {
        self.begun + self.shortest()
    }

    fn due(&self) -> Option<(Instant, Overdue)> {
        let Limits { header, idle, .. } = self.limits;
        if let Some(due) = self.read(&self.stuck) {
            return Some((due, Overdue::Write));
        }
        if self.open.load(Relaxed) > 0 {
            return None;
        }
        if !self.has_asked.load(Relaxed) {
            return Some((self.begun + header, Overdue::Header));
        }
        match self.read(&self.head) {
            Some(since) => Some((since + header, Overdue::Header)),
            None => Some((self.read(&self.idle).unwrap_or(self.begun) + idle, Overdue::Idle)),
        }
    }

    fn shortest(&self) -> Duration {
        self.limits.header.min(self.limits.idle).min(self.limits.answers.pause)
    }

    fn note(&self, moment: &Moment, at: Instant) {
        let micros = at.saturating_duration_since(self.begun).as_micros();
        moment.store(u64::try_from(micros).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    fn read(&self, moment: &Moment) -> Option<Instant> {
        let micros = moment.load(Relaxed);
        (micros != 0).then(|| self.begun + Duration::from_micros(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Finding, Instant, Limits, Overdue, Watch};
    use crate::config;
    use crate::wiring::pace::Pace;

    fn watch() -> Watch {
        let flags = config::Flags::default();
        let mut server = config::load(None, std::iter::empty(), flags).unwrap().server;
        (server.write_timeout_ms, server.slowest_bytes_per_s) = (10_000, 1000);
        let (header, idle) = (Duration::from_secs(5), Duration::from_mins(1));
        Watch::new(Limits { header, idle, answers: Pace::of_answers(&server) })
    }

    async fn wait(seconds: f64) {
        tokio::time::advance(Duration::from_secs_f64(seconds)).await;
    }

    fn end(watch: &Watch) -> Option<Overdue> {
        match watch.judge(Instant::now()) {
            Finding::End(overdue) => Some(overdue),
            Finding::LookAt(then) => {
                assert!(then > Instant::now() && then <= Instant::now() + Duration::from_secs(5));
                None
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_head_is_due_from_the_start_whatever_comes() {
        let watch = watch();
        wait(3.0).await;
        watch.came();
        wait(1.999).await;
        assert_eq!(end(&watch), None);
        wait(0.001).await;
        assert_eq!(end(&watch), Some(Overdue::Header));
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_head_is_due_from_its_first_byte_and_idling_from_the_last_answer() {
        let watch = watch();
        watch.came();
        watch.begin();
        wait(20.0).await;
        assert_eq!(end(&watch), None, "the edge limits requests");
        watch.end();
        wait(59.999).await;
        assert_eq!(end(&watch), None);
        watch.came();
        wait(4.0).await;
        watch.came();
        assert_eq!(end(&watch), None);
        wait(1.0).await;
        assert_eq!(end(&watch), Some(Overdue::Header));
        watch.begin();
        watch.end();
        wait(60.0).await;
        assert_eq!(end(&watch), Some(Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_of_http2_between_requests_are_no_head() {
        let watch = watch();
        watch.speaks_http2();
        watch.begin();
        watch.end();
        watch.came();
        wait(59.0).await;
        assert_eq!(end(&watch), None);
        wait(1.001).await;
        assert_eq!(end(&watch), Some(Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_has_time_as_long_as_it_reads() {
        let watch = watch();
        watch.begin();
        wait(1.0).await;
        watch.went(1_000_000, 9_000_000);
        watch.end();
        wait(9.0).await;
        assert_eq!(end(&watch), None);
        watch.went(500, 8_000_000);
        wait(1.499).await;
        assert_eq!(end(&watch), None);
        wait(0.001).await;
        assert_eq!(end(&watch), Some(Overdue::Write));
        watch.went(1000, 1000);
        assert_eq!(end(&watch), None);
        wait(10.0).await;
        assert_eq!(end(&watch), None, "all is written: it only idles");
        watch.waits();
        wait(9.999).await;
        watch.waits();
        assert_eq!(end(&watch), None);
        wait(0.001).await;
        assert_eq!(end(&watch), Some(Overdue::Write));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_answers_a_request_until_it_is_flushed() {
        let watch = watch();
        assert!(watch.is_unasked());
        watch.begin();
        watch.flushed();
        assert!(!watch.is_unasked(), "only 100 Continue went out");
        watch.end();
        assert!(!watch.is_unasked());
        watch.flushed();
        assert!(watch.is_unasked());
    }
}
