//! How much time has passed, whatever the clock was set to.

/// Milliseconds since the machine was started, its sleep included.
#[cfg(target_os = "linux")]
pub(crate) fn of_the_machine() -> i64 {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000)
}

/// Milliseconds since this was first asked. Most systems do not count sleep.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
pub(crate) fn of_the_machine() -> i64 {
    static SINCE: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let passed = SINCE.get_or_init(std::time::Instant::now).elapsed();
    i64::try_from(passed.as_millis()).unwrap_or(i64::MAX)
}
