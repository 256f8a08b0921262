//! Starts the log: one line per event on the error output, as text or JSON.

use std::io::IsTerminal;

use anyhow::{Context, anyhow};
use tracing_subscriber::EnvFilter;

use crate::config::Log;

/// Starts it for the whole process.
///
/// # Errors
/// When `log.level` cannot be understood, or a log was started before.
pub(super) fn start(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.level).context("log.level")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if log.format == "json" {
        builder.json().flatten_event(true).with_current_span(false).try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
    started.map_err(|e| anyhow!("cannot start the log: {e}"))
}
