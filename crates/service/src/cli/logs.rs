//! Starts the log: one line per event on the error output, as text or JSON. And the traces, where a
//! collector is set.

use std::io::IsTerminal;

use anyhow::{Context, anyhow};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogFormat};
use crate::telemetry;

/// Starts both for the whole process.
///
/// # Errors
/// When `log.level` or `telemetry.otlp_endpoint` cannot be understood, or a log was started before.
pub(super) fn start(config: &Config) -> anyhow::Result<()> {
    let filter: Targets = config.log.level.replace(' ', "").parse().context("log.level")?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if config.log.format == LogFormat::Json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(filter));
    let started = log.with(telemetry::layer(&config.telemetry)?).try_init();
    started.map_err(|e| anyhow!("cannot start the log: {e}"))
}
