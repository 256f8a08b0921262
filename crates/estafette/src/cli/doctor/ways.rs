//! The ways out: carriers of each channel, webhooks, and the file storage.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};
use smtp::Error;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use url::{Host, Url};

use super::Finding;
use crate::carriers::sms_http;
use crate::carriers::smtp::{NoConnection, Relay};
use crate::config::{Config, SmsCarrier, SmsHttp};
use crate::kit::dns::Dns;
use crate::support;
use crate::wiring;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A name that always exists (RFC 2606 §3).
const A_NAME: &str = "example.com";

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = sms(config).await;
    findings.push(chatapp(config).await);
    findings.push(email(config).await);
    findings.extend(email_names(config).await);
    findings.extend(callbacks(config));
    findings.push(webhooks(config).await);
    findings.push(files(config).await);
    if !config.support.clamd.is_empty() {
        let there = reach(&config.support.clamd).await;
        findings.push(reached("virus scanner", &config.support.clamd, there, "start clamd"));
    }
    findings
}

async fn sms(config: &Config) -> Vec<Finding> {
    let carriers = config.sms.all();
    if carriers.is_empty() {
        let found = "no carrier: live SMS answer 503";
        return vec![Finding::warning("sms", found, "add one under [sms.carriers.NAME]")];
    }
    let mut findings = vec![];
    for (name, carrier) in carriers {
        let place = match carrier {
            SmsCarrier::Smpp(smpp) => Ok(format!("{}:{}", smpp.host, smpp.port)),
            SmsCarrier::Http(http) => gateway_host(&http),
        };
        let place = match place {
            Ok(place) => place,
            Err(found) => {
                let remedy = format!("correct it under [sms.carriers.{name}]");
                findings.push(Finding::fault(&format!("sms {name}"), &found, &remedy));
                continue;
            }
        };
        let remedy = format!("see that {place} can be reached; `estafette carriers check {name}`");
        let there = reach(&place).await;
        findings.push(reached(&format!("sms {name}"), &place, there, &remedy));
    }
    if config.sms.routes.is_empty() {
        let found = "no routes in the settings";
        let remedy =
            "name carriers for prefixes in [[sms.routes]], unless PUT /v1/admin/routes did";
        findings.push(Finding::warning("sms routes", found, remedy));
    }
    findings
}

/// Whether those who call back would find the service.
fn callbacks(config: &Config) -> Option<Finding> {
    let is_gateway = |(_, carrier): &(&str, SmsCarrier)| matches!(carrier, SmsCarrier::Http(_));
    let has_gateway = config.sms.all().iter().any(is_gateway);
    let is_called = has_gateway || !config.chatapp.access_token.is_empty();
    let url = Url::parse(&config.server.live_url).ok().filter(|_| is_called)?;
    let is_near = match url.host()? {
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(ip) => ip.is_loopback() || ip.is_private(),
        Host::Ipv6(ip) => ip.is_loopback() || ip.is_unique_local(),
    };
    let about = "callbacks";
    Some(if is_near {
        let found = format!("carriers would call {url}, which only this network reaches");
        Finding::warning(about, found, "set server.live_url to the public https address")
    } else {
        Finding::fine(about, format!("carriers call {url}"))
    })
}

/// Where the requests of a gateway go, as its description makes them.
fn gateway_host(settings: &SmsHttp) -> Result<String, String> {
    let gateway = sms_http::usable(settings)?;
    let request = sms_http::request(settings, &gateway, &::sms_http::Message::default())?;
    let url = Url::parse(&request.url).ok();
    let place =
        url.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    place.ok_or_else(|| "base_url is not a URL".to_owned())
}

async fn chatapp(config: &Config) -> Finding {
    let settings = &config.chatapp;
    if settings.access_token.is_empty() {
        let found = "no business account: live chat-app messages answer 503";
        return Finding::warning("chat-app", found, "fill in [chatapp]; see docs/chatapp.md");
    }
    let missing: Vec<&str> = [
        ("phone_number_id", settings.phone_number_id.is_empty()),
        ("waba_id", settings.waba_id.is_empty()),
        ("app_secret", settings.app_secret.is_empty()),
        ("verify_token", settings.verify_token.is_empty()),
    ]
    .into_iter()
    .filter_map(|(key, is_empty)| is_empty.then_some(key))
    .collect();
    if !missing.is_empty() {
        let found = format!("[chatapp] lacks {}", missing.join(", "));
        let remedy = "fill them in; without the first nothing goes out, without the last two no \
                      callback is believed; see docs/chatapp.md";
        return Finding::warning("chat-app", found, remedy);
    }
    let place = Url::parse(&settings.base_url)
        .ok()
        .and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    let Some(place) = place else {
        return Finding::fault("chat-app", "chatapp.base_url is not a URL", "correct it");
    };
    reached("chat-app", &place, reach(&place).await, "see that this machine may connect there")
}

async fn email(config: &Config) -> Finding {
    let url = config.email.relay_url.expose();
    if url.is_empty() {
        let found = "no relay: live email answers 503, and nobody is written to";
        return Finding::warning("email", found, "set email.relay_url; see docs/email.md");
    }
    let relay = match Relay::new(url, &config.mail_name()) {
        Ok(relay) => relay,
        Err(error) => return Finding::fault("email", error.to_string(), "correct email.relay_url"),
    };
    let place = relay.place();
    match relay.probe().await {
        Ok(()) => Finding::fine("email", format!("{place} is ready for mail")),
        Err(error) => {
            Finding::warning("email", format!("{place}: {error}"), relay_remedy(&error, &place))
        }
    }
}

/// What to do about a relay that cannot be used.
fn relay_remedy(why: &NoConnection, place: &str) -> String {
    let url = "correct email.relay_url";
    match why {
        NoConnection::Unreachable(_) | NoConnection::Silent(_) => {
            format!("see that {place} can be reached from this machine, or {url}")
        }
        NoConnection::Untrusted(_) => format!(
            "smtps:// is TLS from the first byte (port 465), smtp:// is STARTTLS (587); the \
             certificate must be valid for the name in the URL: {url}"
        ),
        NoConnection::Said(Error::Missing(_)) => {
            "passwords and mail never go in the clear: turn TLS and logins on at the relay, or \
             use smtps://"
                .to_owned()
        }
        NoConnection::Said(Error::Refused(_)) => format!("see what it says; for a login, {url}"),
        NoConnection::Said(_) => format!("see that a mail server listens there, or {url}"),
    }
}

/// The name server that sending domains are looked up by.
async fn email_names(config: &Config) -> Option<Finding> {
    let server = config.email.dns_server.as_str();
    if server.is_empty() {
        return None;
    }
    let about = "email dns";
    let there = Dns::new(server).texts(A_NAME).await;
    Some(match there {
        Ok(_) => Finding::fine(about, format!("{server} answers")),
        Err(error) => {
            let remedy = "correct email.dns_server, or leave it empty for this machine's: until \
                          then no domain is verified";
            Finding::warning(about, format!("{server}: {error}"), remedy)
        }
    })
}

async fn webhooks(config: &Config) -> Finding {
    if let Err(error) = wiring::trusted(config) {
        return Finding::fault("webhooks", error.to_string(), "correct webhooks.ca_file");
    }
    let networks = &config.webhooks.allow_networks;
    let server = config.webhooks.dns_server.as_str();
    let has_names = if server.is_empty() {
        let resolved = timeout(PATIENCE, lookup_host((A_NAME, 443))).await;
        resolved.is_ok_and(|found| found.is_ok())
    } else {
        Dns::new(server).texts(A_NAME).await.is_ok()
    };
    if !has_names {
        let found = format!("{A_NAME} cannot be looked up, so no target can");
        let remedy = if server.is_empty() {
            "give this machine a DNS server"
        } else {
            "correct webhooks.dns_server, or leave it empty for this machine's"
        };
        return Finding::warning("webhooks", found, remedy);
    }
    if networks.is_empty() && !config.webhooks.allow_http {
        return Finding::fine("webhooks", "names resolve; https to public addresses only");
    }
    let found = format!(
        "tenants may reach {}{}",
        if networks.is_empty() { "public addresses".to_owned() } else { networks.join(", ") },
        if config.webhooks.allow_http { ", without TLS" } else { "" },
    );
    let remedy = "for tests only: empty webhooks.allow_networks, webhooks.allow_http = false";
    Finding::warning("webhooks", found, remedy)
}

async fn files(config: &Config) -> Finding {
    let place = config.support.storage.as_str();
    if !place.starts_with("s3://") {
        let own = config.data_dir.join("files");
        let folder = if place.is_empty() { own.as_path() } else { Path::new(place) };
        let is_usable =
            access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_ok();
        if folder.exists() && !is_usable {
            let found = format!("{} cannot be written by this user", folder.display());
            return Finding::warning("files", found, "chown it to the user of the service");
        }
        return Finding::fine("files", format!("attachments are kept in {}", folder.display()));
    }
    match support::files::storage::probe(config).await {
        Ok(()) => Finding::fine("files", format!("{place} answers")),
        Err(error) => {
            let found = format!("{place}: {error}");
            let remedy = "until it answers, uploads are 503: correct support.s3_*, or what the key \
                          may do";
            Finding::warning("files", found, remedy)
        }
    }
}

/// Milliseconds to a connection, or why there is none.
async fn reach(place: &str) -> Result<u128, String> {
    let began = Instant::now();
    match timeout(PATIENCE, TcpStream::connect(place)).await {
        Ok(Ok(_connected)) => Ok(began.elapsed().as_millis()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err(format!("no connection in {} s", PATIENCE.as_secs())),
    }
}

fn reached(about: &str, place: &str, there: Result<u128, String>, remedy: &str) -> Finding {
    match there {
        Ok(ms) => Finding::fine(about, format!("{place} answers in {ms} ms")),
        // The service starts without it, and tries again by itself.
        Err(why) => Finding::warning(about, format!("{place}: {why}"), remedy),
    }
}
