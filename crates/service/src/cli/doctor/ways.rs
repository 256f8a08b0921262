//! The ways out: carriers of each channel, webhooks, and the file storage.

use std::time::Duration;

use clock::Clock;
use smtp::Error;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use url::{Host, Url};

use super::Finding;
use crate::carriers::cloud_api::{CloudApi, NotOpen};
use crate::carriers::door::door;
use crate::carriers::smpp::link_settings;
use crate::carriers::sms_http;
use crate::carriers::smtp::{NoConnection, Relay};
use crate::config::{Config, Smpp, SmsCarrier, SmsHttp};
use crate::kit::dns::Dns;
use crate::kit::folder::{self, Folder};
use crate::support::{self, files::storage};
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
    findings.extend(webhooks(config).await);
    findings.push(files(config).await);
    findings.extend(scanner(config).await);
    // What none of these saw, and a start would.
    if !findings.iter().any(Finding::is_fault)
        && let Err(error) = wiring::check_carriers(config)
    {
        findings.push(Finding::fault("carriers", format!("{error:#}"), "correct this setting"));
    }
    findings
}

async fn sms(config: &Config) -> Vec<Finding> {
    let carriers = config.sms.all();
    if carriers.is_empty() {
        let found = "no carrier: live SMS are answered 503";
        return vec![Finding::warning("sms", found, "add one under [sms.carriers.NAME]")];
    }
    let mut findings = vec![];
    for (name, carrier) in carriers {
        findings.push(match carrier {
            SmsCarrier::Smpp(smpp) => centre(name, &smpp).await,
            SmsCarrier::Http(http) => gateway(name, &http).await,
        });
    }
    if config.sms.routes.is_empty() {
        let found = "no routes in the settings";
        let remedy =
            "name carriers for prefixes in [[sms.routes]], unless PUT /v1/admin/routes did";
        findings.push(Finding::warning("sms routes", found, remedy));
    }
    findings
}

/// A message centre. There is no bind: the carrier counts them, and the service may need it now.
async fn centre(name: &str, settings: &Smpp) -> Finding {
    let about = format!("sms {name}");
    let link = match link_settings(settings) {
        Ok(link) => link,
        Err(why) => {
            let remedy = format!("correct sms.carriers.{name}.ca_file");
            return Finding::fault(&about, why, remedy);
        }
    };
    let place = format!("{}:{}", settings.host, settings.port);
    let check = format!("`estafette carriers check {name}`");
    match smpp::reach(&link, &Clock::system()).await {
        Ok(()) => {
            let with = if settings.tls { " with TLS" } else { "" };
            Finding::fine(&about, format!("{place} can be reached{with}; {check} tries to bind"))
        }
        Err(error) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            let (why, remedy) = match inner {
                None => (
                    error.to_string(),
                    format!("see that {place} can be reached, then run {check}"),
                ),
                Some(rustls::Error::InvalidMessage(_)) => (
                    "what listens there does not speak TLS".to_owned(),
                    format!("correct port or tls of sms.carriers.{name}"),
                ),
                Some(untrusted) => (
                    untrusted.to_string(),
                    format!("correct host or ca_file of sms.carriers.{name}"),
                ),
            };
            Finding::warning(&about, format!("{place}: {why}"), remedy)
        }
    }
}

/// A gateway. Only a message would tell whether it takes the login.
async fn gateway(name: &str, settings: &SmsHttp) -> Finding {
    let about = format!("sms {name}");
    let place = match gateway_host(settings) {
        Ok(place) => place,
        Err(found) => {
            let remedy = format!("correct it under [sms.carriers.{name}]");
            return Finding::fault(&about, found, remedy);
        }
    };
    match reach(&place).await {
        Ok(()) => Finding::fine(&about, format!("{place} can be reached; no login was tried")),
        Err(why) => {
            let remedy = format!("see that {place} can be reached, or correct base_url");
            Finding::warning(&about, format!("{place}: {why}"), remedy)
        }
    }
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
        return Finding::warning(
            "chat-app",
            found,
            "fill in [chatapp]; see chatapp.md in the documentation",
        );
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
                      callback is believed; see chatapp.md in the documentation";
        return Finding::warning("chat-app", found, remedy);
    }
    let (door, _arrivals) = door();
    let cloud = match CloudApi::new(settings, door) {
        Ok(cloud) => cloud,
        Err(why) => return Finding::fault("chat-app", format!("chatapp.{why}"), "correct it"),
    };
    let Some(number) = cloud.numbers().shared() else {
        return Finding::warning("chat-app", "no number", "set chatapp.phone_number_id");
    };
    match cloud.probe(number).await {
        Ok(()) => Finding::fine("chat-app", "the token opens the business account"),
        Err(NotOpen::Silent(why)) => {
            let found = format!("{}: {why}", settings.base_url);
            Finding::warning("chat-app", found, "see that this machine may connect there")
        }
        Err(NotOpen::Refused(code)) => {
            let found = format!("the business account answers the token with error {code}");
            let remedy =
                "correct chatapp.access_token and waba_id; see chatapp.md in the documentation";
            Finding::warning("chat-app", found, remedy)
        }
    }
}

async fn email(config: &Config) -> Finding {
    let url = config.email.relay_url.expose();
    let relay = match Relay::of(&config.email, &config.mail_name()) {
        Ok(Some(relay)) => relay,
        Ok(None) => {
            let found = "no relay: live email answers 503, and no mail is sent";
            return Finding::warning(
                "email",
                found,
                "set email.relay_url; see email.md in the documentation",
            );
        }
        Err(error) => return Finding::fault("email", error, "correct this setting"),
    };
    let place = relay.place();
    match relay.probe().await {
        Ok(()) => Finding::fine("email", format!("{place} is ready for mail")),
        Err(error) => {
            let mut remedy = relay_remedy(&error, &place);
            let is_mute = matches!(
                error,
                NoConnection::Silent(_) | NoConnection::Said(Error::Broken | Error::TooLate)
            );
            if is_mute && url.starts_with("smtp://") {
                remedy += "; a port that takes TLS from the first byte (465) is smtps://";
            }
            Finding::warning("email", format!("{place}: {error}"), remedy)
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
             certificate must be valid for the name in the URL, and be signed by a public \
             authority or one of email.ca_file: {url}"
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

async fn webhooks(config: &Config) -> Vec<Finding> {
    if let Err(error) = wiring::trusted(config) {
        return vec![Finding::fault("webhooks", error.to_string(), "correct webhooks.ca_file")];
    }
    let opened = opened(config);
    let server = config.webhooks.dns_server.as_str();
    let has_names = if server.is_empty() {
        let resolved = timeout(PATIENCE, lookup_host((A_NAME, 443))).await;
        resolved.is_ok_and(|found| found.is_ok())
    } else {
        Dns::new(server).texts(A_NAME).await.is_ok()
    };
    if !has_names {
        let found =
            format!("host names cannot be looked up (tried {A_NAME}): no webhook can be delivered");
        let remedy = if server.is_empty() {
            "configure DNS on this machine"
        } else {
            "correct webhooks.dns_server, or leave it empty for this machine's"
        };
        let deaf = Finding::warning("webhooks", found, remedy);
        return [Some(deaf), opened].into_iter().flatten().collect();
    }
    let found = "names resolve; targets may have public addresses only, with https";
    vec![opened.unwrap_or_else(|| Finding::fine("webhooks", found))]
}

/// What tenants may reach that is open for tests alone.
fn opened(config: &Config) -> Option<Finding> {
    let networks = &config.webhooks.allow_networks;
    if networks.is_empty() && !config.webhooks.allow_http {
        return None;
    }
    let found = format!(
        "tenants may reach {}{}",
        if networks.is_empty() { "public addresses".to_owned() } else { networks.join(", ") },
        if config.webhooks.allow_http { ", without TLS" } else { "" },
    );
    let remedy = "for tests only: empty webhooks.allow_networks, webhooks.allow_http = false";
    Some(Finding::warning("webhooks", found, remedy))
}

async fn files(config: &Config) -> Finding {
    let about = "files";
    if let Some(place) = storage::folder(config) {
        let at = folder::shown(&place);
        let at = at.display();
        return match folder::look(&place) {
            Folder::Useless(why) => Finding::fault(about, why.found, why.remedy),
            Folder::Usable => Finding::fine(about, format!("attachments are kept in {at}")),
            Folder::Missing => Finding::fine(about, format!("attachments will be kept in {at}")),
            Folder::Closed(why) => {
                let remedy = format!("until then uploads answer 503: {}", why.remedy());
                Finding::warning(about, format!("{at} {}", why.words()), remedy)
            }
        };
    }
    let place = config.support.storage.as_str();
    match storage::probe(config).await {
        Ok(()) => Finding::fine(about, format!("{place} answers")),
        Err(error) => {
            let remedy = "until it answers, uploads answer 503: correct support.s3_*, or what the \
                          key may do";
            Finding::warning(about, format!("{place}: {error}"), remedy)
        }
    }
}

/// The virus scanner, where one is configured.
async fn scanner(config: &Config) -> Option<Finding> {
    let place = config.support.clamd.as_str();
    if place.is_empty() {
        return None;
    }
    let about = "virus scanner";
    Some(match support::files::scanner::probe(place, PATIENCE).await {
        Ok(()) => Finding::fine(about, format!("{place} answers")),
        Err(why) => {
            let remedy = "until it answers, uploads answer 503: start clamd, or correct \
                          support.clamd";
            Finding::warning(about, format!("{place}: {why}"), remedy)
        }
    })
}

/// Whether there is a connection, or why not.
async fn reach(place: &str) -> Result<(), String> {
    match timeout(PATIENCE, TcpStream::connect(place)).await {
        Ok(Ok(_connected)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err(format!("no connection in {} s", PATIENCE.as_secs())),
    }
}
