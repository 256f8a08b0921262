//! The only place of this crate that asks the machine for the time: a measuring tool must not
//! measure with a clock that tests can hold.
#![expect(clippy::disallowed_methods, reason = "latencies are measured on the real clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The monotonic time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of the day in UTC, milliseconds: enough to tell how old a recent instant is.
pub(crate) fn ms_of_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() % 86_400 * 1_000 + u64::from(since.subsec_millis())
}

/// A seed that differs between runs, so that two runs do not send to the same recipients.
pub(crate) fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // 32 bits are enough to differ and short enough to type again.
    u64::from(since.subsec_nanos()) ^ (since.as_secs() & 0xffff_ffff)
}
