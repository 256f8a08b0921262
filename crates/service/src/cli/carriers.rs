//! `estafette carriers`: what the carriers of the settings are like, seen from here.

use std::process::ExitCode;

use anyhow::{anyhow, bail, ensure};
use clock::Clock;
use serde_json::{Value, json};
use smpp::{BindKind, Ended, LinkSettings, Probe, Status};
use sms_http::{Message, Request};
use sms_text::{Encoding, Reference, Segments};

use super::commands::CarriersCommand;
use super::output::Output;
use crate::carriers::Echo;
use crate::carriers::smpp::link_settings;
use crate::carriers::sms_http::{callback_query, request, usable};
use crate::config::{BindMode, Config, Smpp, SmsCarrier, SmsHttp};
use crate::kit::msisdn::{self, Msisdn};
use crate::kit::secret::Secret;

/// Runs a command.
pub(super) async fn run(
    config: &Config,
    command: &CarriersCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let CarriersCommand::Check { name, to, text } = command;
    let carriers = config.sms.all();
    let found = carriers.iter().find(|(known, _)| known == name);
    let Some((_, carrier)) = found else {
        let known: Vec<&str> = carriers.iter().map(|(name, _)| *name).collect();
        if known.is_empty() {
            bail!(
                "the settings have no carriers; add [sms.carriers.{name}] (sms.md), and name \
                 the file with --config"
            );
        }
        bail!(
            "there is no carrier {name} under sms.carriers; known carriers: {}",
            known.join(", ")
        );
    };
    match carrier {
        SmsCarrier::Smpp(settings) => check_smpp(name, settings, output).await,
        SmsCarrier::Http(settings) => {
            let to = Msisdn::parse(to).map_err(|fault| anyhow!("--to {to} {fault}"))?;
            ensure!(!text.trim().is_empty(), "--text is empty");
            let fits = Segments::of(text, Reference::Octet).is_ok();
            ensure!(
                fits,
                "--text is longer than a message may be; POST /v1/messages would refuse it"
            );
            let place = format!("{}/v1/upstream/sms/{name}", config.server.live_url);
            let to_national = msisdn::national(to.e164()).unwrap_or_default();
            let sample = sample(&place);
            let from = if settings.sender.is_empty() { sample.from } else { &settings.sender };
            let message =
                Message { to: to.e164(), to_national: &to_national, text, from, ..sample };
            dry_run(name, (**settings).clone(), &message, output)
        }
    }
}

/// Whose message the sample would be.
const ACCOUNT: &str = "acc_1";
/// Its attempt.
const ATTEMPT: &str = "att_1";

fn sample(callback_url: &str) -> Message<'_> {
    let (to, text) = ("+33612345678", "hello");
    Message {
        to,
        text,
        callback_url,
        from: "ACME",
        id: ATTEMPT,
        validity_s: 86_400,
        class: "transactional",
        ..Message::default()
    }
}

/// Shows the request that a message would make. Nothing is sent.
fn dry_run(
    name: &str,
    settings: SmsHttp,
    message: &Message<'_>,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let made = made(settings, message);
    let request = made.as_ref().ok();
    // The same members whatever came of it: scripts rely on them.
    let object = json!({
        "carrier": name, "kind": "http", "ok": made.is_ok(), "error": made.as_ref().err(),
        "method": request.map(|request| request.method),
        "url": request.map(|request| &request.url),
        "headers": request.map_or(&[][..], |request| &request.headers),
        "body": request.map(|request| &request.body),
    });
    output.answer(&object, || match &made {
        Ok(Request { method, url, headers, body }) => {
            let lines: Vec<String> =
                headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            format!("{method} {url}\n{}\n\n{body}\n\nNothing was sent.", lines.join("\n"))
        }
        Err(why) => format!("{name}: no request can be made: {why}"),
    })?;
    Ok(if made.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The request that a message would make, without the secrets.
fn made(settings: SmsHttp, message: &Message<'_>) -> Result<Request, String> {
    let gateway = usable(&settings)?;
    // Replaced before it is encoded: a password in a query or a body has other letters there.
    // One that is missing stays so, and is named.
    let hide = |secret: &Secret| Secret::new(if secret.is_empty() { "" } else { "***" }.to_owned());
    let (password, callback_token) = (hide(&settings.password), hide(&settings.callback_token));
    let hidden = SmsHttp { password, callback_token, ..settings };
    let found = Segments::of(message.text, Reference::Octet).ok();
    let encoding = found.as_ref().map(Segments::encoding);
    let segments = found.map_or(1, |found| found.count());
    let echo = Echo { account_id: ACCOUNT.to_owned(), attempt_id: ATTEMPT.to_owned() };
    let query = callback_query(&hidden, &gateway, &echo, segments);
    let callback_url = format!("{}?{query}", message.callback_url);
    let is_unicode = encoding != Some(Encoding::Gsm7);
    let message = Message { is_unicode, segments, callback_url: &callback_url, ..*message };
    let mut request = request(&hidden, &gateway, &message)?;
    for (name, value) in &mut request.headers {
        if name.eq_ignore_ascii_case("authorization") {
            "***".clone_into(value);
        }
    }
    Ok(request)
}

/// Binds as the service does: of a pair, first the one that sends.
async fn check_smpp(name: &str, settings: &Smpp, output: Output) -> anyhow::Result<ExitCode> {
    let kinds: &[BindKind] = match settings.bind {
        BindMode::Transceiver => &[BindKind::Transceiver],
        BindMode::Pair => &[BindKind::Transmitter, BindKind::Receiver],
    };
    let place = format!("{}:{}", settings.host, settings.port);
    let link = link_settings(settings).map_err(|why| format!("ca_file: {why}"));
    let mut probed = Vec::new();
    for kind in kinds {
        probed.push((*kind, probe(link.clone(), *kind).await));
    }
    let is_ok = probed.iter().all(|(_, probed)| fault(probed).is_none());
    let binds: Vec<Value> = probed.iter().map(|(kind, probed)| bind(*kind, probed)).collect();
    output.answer(&object(name, is_ok, &binds), || {
        let line = |(kind, probed): &(BindKind, Result<Probe, String>)| match probed {
            Ok(probe) => shown(name, &format!("{place} as {}", word(*kind)), probe),
            Err(why) => format!("{name}: no bind at {place} as {}: {why}", word(*kind)),
        };
        probed.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn probe(link: Result<LinkSettings, String>, kind: BindKind) -> Result<Probe, String> {
    let link = LinkSettings { kind, ..link? };
    smpp::probe(&link, &Clock::system()).await.map_err(|why| match why {
        Ended::BindRefused(Status::RALYBND) => {
            format!(
                "{why}. While the service runs, it holds what the carrier allows: stop it first"
            )
        }
        why => why.to_string(),
    })
}

/// Why the service could not work with such a bind.
fn fault(probed: &Result<Probe, String>) -> Option<String> {
    match probed {
        Ok(probe) if probe.answers_enquiries => None,
        Ok(_) => Some("enquire_link is not answered: the connection is taken for dead".to_owned()),
        Err(why) => Some(why.clone()),
    }
}

const fn word(kind: BindKind) -> &'static str {
    match kind {
        BindKind::Receiver => "receiver",
        BindKind::Transmitter => "transmitter",
        BindKind::Transceiver => "transceiver",
    }
}

/// All binds, and beside them what the first one found, or why one was not made.
fn object(name: &str, is_ok: bool, binds: &[Value]) -> Value {
    let mut object = json!({ "carrier": name, "kind": "smpp", "ok": is_ok, "error": null });
    let failed = binds.iter().find(|bind| !bind["error"].is_null());
    let told = failed.or(binds.first()).and_then(Value::as_object).cloned().unwrap_or_default();
    if let Value::Object(members) = &mut object {
        members.extend(told);
        members.remove("as");
        members.insert("binds".to_owned(), Value::Array(binds.to_vec()));
    }
    object
}

/// The same members whatever came of it: scripts rely on them.
fn bind(kind: BindKind, probed: &Result<Probe, String>) -> Value {
    let probe = probed.as_ref().ok();
    json!({
        "as": word(kind), "error": fault(probed),
        "system_id": probe.map(|probe| probe.system_id.to_string()),
        "version": probe.and_then(|probe| probe.version).map(version),
        "bind_ms": probe.map(|probe| probe.bind_ms),
        "answers_enquire_link": probe.map(|probe| probe.answers_enquiries),
        "deliveries": probe.map(|probe| probe.deliveries),
        "fields": probe.map_or_else(Vec::new, fields),
    })
}

/// What else its answer has.
fn fields(probe: &Probe) -> Vec<String> {
    probe.tlvs.iter().map(|(tag, _)| format!("{tag:#06x}")).collect()
}

fn shown(name: &str, place: &str, probe: &Probe) -> String {
    let Probe { bind_ms, deliveries, .. } = probe;
    // Whatever it is, it is not for the terminal to obey.
    let system_id = probe.system_id.to_string().escape_debug().to_string();
    let says = probe.version.map_or("does not say".to_owned(), version);
    let enquiries = if probe.answers_enquiries {
        "answered"
    } else {
        "NOT answered: the service takes the connection for dead, and binds again"
    };
    let fields = fields(probe);
    let fields = if fields.is_empty() { "none".to_owned() } else { fields.join(", ") };
    let waiting = if *deliveries > 0 {
        format!("\n  waiting        {deliveries} receipts or messages, left for the service")
    } else {
        String::new()
    };
    format!(
        "{name}: bound at {place} in {bind_ms} ms\n  \
         calls itself   {system_id}\n  \
         speaks SMPP    {says}\n  \
         fields         {fields}\n  \
         enquire_link   {enquiries}{waiting}"
    )
}

/// SMPP 3.4 §5.2.4: 0x34 is 3.4.
fn version(octet: u8) -> String {
    format!("{}.{}", octet >> 4, octet & 0x0F)
}
