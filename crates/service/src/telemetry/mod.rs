//! Rank 2: traces for OpenTelemetry: what a request waited for. The spans are everywhere in the
//! code and cost next to nothing while nobody listens; who listens is behind the feature `otlp`.
//!
//! Only spans with the target `otel` leave, and nothing else is written under that target: methods,
//! route patterns, ids that name nobody, channels, outcomes. Never a number, a code or a text.

#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
mod silent;

#[cfg(feature = "otlp")]
use otlp as inner;
#[cfg(not(feature = "otlp"))]
use silent as inner;

use tracing::Span;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::config::Telemetry;

/// Why there are no traces although there should be.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.otlp_endpoint: {0}")]
pub struct SetupError(String);

/// What takes the spans out of the process; `None` while no collector is set.
///
/// # Errors
/// When the endpoint is no address.
pub fn layer<S>(config: &Telemetry) -> Result<Option<Box<dyn Layer<S> + Send + Sync>>, SetupError>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    if config.otlp_endpoint.is_empty() { Ok(None) } else { inner::layer(config).map(Some) }
}

/// Puts a span into the caller's trace (W3C Trace Context, header `traceparent`). What is no trace
/// context is ignored, as the standard asks.
pub fn follow(span: &Span, traceparent: Option<&str>) {
    if let Some(traceparent) = traceparent.filter(|_| !span.is_none()) {
        inner::follow(span, traceparent);
    }
}

/// Sends what is still here. Blocks, for five seconds at most.
pub fn flush() {
    inner::flush();
}
