//! `estafette playground`: simulated upstreams on this machine.

use std::process::ExitCode;

use anyhow::Context;
use clock::Clock;
use playground::{Received, WebhookSink};
use serde_json::json;

use super::commands::PlaygroundArgs;
use super::output::Output;

/// Runs until it is told to stop.
pub(super) async fn run(args: &PlaygroundArgs, output: Output) -> anyhow::Result<ExitCode> {
    let sink = WebhookSink::bind(args.webhook_sink)
        .await
        .with_context(|| format!("cannot listen on {}", args.webhook_sink))?;
    let url = format!("http://{}", sink.address());
    output.answer(&json!({ "webhook_sink": url, "requests": format!("{url}/requests") }), || {
        format!(
            "Webhook sink on {url}: takes any POST, GET {url}/requests lists the last ones.\n\
             Further simulated upstreams come with their carriers. Ctrl-C stops."
        )
    });
    let report = move |received: &Received| output.tell(&line(received));
    tokio::select! {
        served = sink.serve(Clock::system(), report) => served?,
        () = super::serve::told_to_stop() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn line(received: &Received) -> String {
    let id = received.webhook_id.as_deref().unwrap_or("no webhook-id");
    let Received { received_at, method, path, size, .. } = received;
    format!("{received_at} {method} {path} {id} {size} bytes")
}
