//! `estafette playground`: simulated upstreams on this machine.

use std::process::ExitCode;

use anyhow::Context;
use clock::Clock;
use playground::cloud_api::{self, CloudApi};
use playground::smsc::{IdStyle, Smsc, SmscOptions};
use playground::{Received, Signature, WebhookSink};
use serde_json::json;
use tokio::net::TcpListener;

use super::commands::{PlaygroundArgs, SmscIds};
use super::output::Output;

/// Runs until it is told to stop.
pub(super) async fn run(args: &PlaygroundArgs, output: Output) -> anyhow::Result<ExitCode> {
    let sink = WebhookSink::bind(args.webhook_sink)
        .await
        .with_context(|| format!("cannot listen on {}", args.webhook_sink))?
        .with_secrets(&args.webhook_secret)
        .context("--webhook-secret must be a signing secret (whsec_…)")?;
    let centre = Smsc::bind(args.smsc, options(args), Clock::system())
        .await
        .with_context(|| format!("cannot listen on {}", args.smsc))?;
    let control = TcpListener::bind(args.smsc_control)
        .await
        .with_context(|| format!("cannot listen on {}", args.smsc_control))?;
    let cloud = CloudApi::start(args.cloud_api)
        .await
        .with_context(|| format!("cannot listen on {}", args.cloud_api))?;
    cloud.be_strict();
    cloud.call_back(args.service);
    let cloud_url = format!("http://{}", cloud.address());
    let url = format!("http://{}", sink.address());
    let (smsc, told) = (centre.address()?, format!("http://{}", control.local_addr()?));
    let shown = json!({
        "webhook_sink": url, "requests": format!("{url}/requests"),
        "smsc": smsc.to_string(), "smsc_control": told,
        "cloud_api": cloud_url, "phone_number_id": cloud_api::PHONE_NUMBER_ID,
        "waba_id": cloud_api::WABA_ID, "access_token": cloud_api::ACCESS_TOKEN,
        "app_secret": cloud_api::APP_SECRET, "verify_token": cloud_api::VERIFY_TOKEN,
    });
    output.answer(&shown, || {
        format!(
            "Webhook sink on {url}: takes any POST and shows it; GET {url}/requests lists the last \
             ones.\n  \
             curl -X PUT {url}/secrets -d whsec_… lets it look at signatures.\n\
             SMPP message centre on {smsc}: any login; numbers that end in 9001 to 9019 script \
             what happens (see --help).\n  \
             GET {told}/messages lists what arrived; POST {told}/mo with from, to and text makes a \
             phone write.\n\
             Cloud API on {cloud_url}, calling back to {}. Settings of the service:\n  \
             [chatapp]\n  base_url = \"{cloud_url}\"\n  phone_number_id = \"{}\"\n  \
             waba_id = \"{}\"\n  access_token = \"{}\"\n  app_secret = \"{}\"\n  \
             verify_token = \"{}\"\n  \
             GET {cloud_url}/messages lists what arrived; POST {cloud_url}/write with from and \
             text, or payload, makes a person write or tap.\n\
             Ctrl-C stops.",
            args.service,
            cloud_api::PHONE_NUMBER_ID,
            cloud_api::WABA_ID,
            cloud_api::ACCESS_TOKEN,
            cloud_api::APP_SECRET,
            cloud_api::VERIFY_TOKEN
        )
    })?;
    let report = move |received: &Received| output.tell(&line(received));
    let handsets = centre.handsets();
    tokio::select! {
        served = sink.serve(Clock::system(), report) => served?,
        () = centre.serve() => {}
        served = Smsc::serve_control(handsets, control) => served?,
        () = super::signals::told_to_stop() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn options(args: &PlaygroundArgs) -> SmscOptions {
    let ids = match args.smsc_ids {
        SmscIds::Decimal => IdStyle::Decimal,
        SmscIds::Hex => IdStyle::Hexadecimal,
        SmscIds::Mixed => IdStyle::Mixed,
    };
    SmscOptions { ids, receipt_ms: args.smsc_receipt_ms, ..SmscOptions::default() }
}

fn line(received: &Received) -> String {
    let id = received.webhook_id.as_deref().unwrap_or("no webhook-id");
    let Received { received_at, method, path, size, body, .. } = received;
    // What is not what was signed may differ in a space: then it is shown as it came.
    let is_readable = received.signature != Signature::Wrong;
    let read = is_readable.then(|| serde_json::from_str::<serde_json::Value>(body).ok());
    let shown = read.flatten().and_then(|body| serde_json::to_string_pretty(&body).ok());
    let shown = tame(shown.as_ref().unwrap_or(body)).replace('\n', "\n    ");
    let signature = received.verdict();
    format!("{received_at} {method} {path} {id} {size} bytes, {signature}\n    {shown}")
}

/// Text of strangers as a terminal may show it: control characters could rewrite what is on it.
fn tame(text: &str) -> String {
    let is_wild = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_wild(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use playground::{Received, Signature};

    use super::{line, tame};

    #[test]
    fn a_body_whose_signature_is_wrong_is_shown_as_it_came() {
        let received = |signature| Received {
            received_at: "2026-01-01T00:00:00.000Z".to_owned(),
            method: "POST".to_owned(),
            path: "/".to_owned(),
            webhook_id: None,
            webhook_timestamp: None,
            webhook_signature: None,
            signature,
            stale_s: None,
            size: 9,
            body: "{\"b\":1 }".to_owned(),
        };
        assert!(line(&received(Signature::Wrong)).contains("{\"b\":1 }"));
        assert!(line(&received(Signature::Right)).contains("{\n      \"b\": 1\n    }"));
    }

    #[test]
    fn control_characters_of_a_body_do_not_reach_the_terminal() {
        let shown = tame("a\u{1b}[2J\r\u{9b}31m\n\té");
        assert_eq!(shown, "a\\u{1b}[2J\\u{d}\\u{9b}31m\n\té");
    }
}
