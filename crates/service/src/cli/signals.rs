//! Signals: which of them end the program in good order, and which it outlives.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Returns at Ctrl-C, SIGTERM, or SIGHUP: the terminal has gone, or somebody wants a reload that
/// there is none of. Either way running requests are to be finished.
pub(super) async fn told_to_stop() {
    #[cfg(unix)]
    tokio::select! { () = told_again() => {}, () = heard(hangup()) => {} }
    #[cfg(not(unix))]
    told_again().await;
}

/// Returns at Ctrl-C or SIGTERM. A terminal that goes says so twice, once by the shell and once by
/// the kernel: a second SIGHUP is no haste.
pub(super) async fn told_again() {
    #[cfg(unix)]
    let term = heard(signal(SignalKind::terminate()).ok());
    #[cfg(not(unix))]
    let term = std::future::pending();
    tokio::select! { () = term => {}, _ = tokio::signal::ctrl_c() => {} }
}

/// A file that may not grow (`ulimit -f`) is an error of its write from now on, and does not end
/// the process without a word.
pub(super) fn outlive_large_files() {
    #[cfg(unix)]
    {
        let too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        // Where it cannot be had, it is as it was.
        let _outlived = signal(too_large);
    }
}

#[cfg(unix)]
fn hangup() -> Option<Signal> {
    // Listening to it would undo `nohup`.
    if is_hangup_ignored() { None } else { signal(SignalKind::hangup()).ok() }
}

/// Whether whoever started this said that it is to outlive the terminal. Where it cannot be told,
/// the signal is left as it is.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 != 0)
}

#[cfg(unix)]
async fn heard(signal: Option<Signal>) {
    match signal {
        Some(mut signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
