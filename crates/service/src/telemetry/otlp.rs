//! The exporter: OTLP over HTTP, protobuf, in batches from a thread of its own. A collector that
//! is away costs the spans, never a request.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use super::SetupError;
use crate::config::Telemetry;

/// How long the collector may take for a batch, and for the last one.
const PATIENCE: Duration = Duration::from_secs(5);

/// For the end of the process: what is not sent by then is lost.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

pub(super) fn layer<S>(config: &Telemetry) -> Result<Box<dyn Layer<S> + Send + Sync>, SetupError>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", config.otlp_endpoint.trim_end_matches('/')))
        .with_timeout(PATIENCE)
        .build()
        .map_err(|error| SetupError(error.to_string()))?;
    // By the trace's id alone: what a caller says of sampling binds nobody here.
    let sampler = Sampler::TraceIdRatioBased(f64::from(config.sample_percent) / 100.0);
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(Resource::builder().with_service_name("estafette").build())
        .build();
    let tracer = provider.tracer("estafette");
    // A second call would be a second log, which the caller refuses.
    let _first = PROVIDER.set(provider);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false);
    Ok(layer.with_filter(Targets::new().with_target("otel", LevelFilter::TRACE)).boxed())
}

pub(super) fn follow(span: &Span, traceparent: &str) {
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract(&carrier);
    // A span that nobody records has no trace to follow.
    let _ignored = span.set_parent(context);
}

pub(super) fn flush() {
    if let Some(provider) = PROVIDER.get() {
        // The log may be closed already, and there is nobody left to tell.
        let _told = provider.shutdown_with_timeout(PATIENCE);
    }
}
