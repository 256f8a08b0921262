//! SMS gateways over HTTP. What is particular to each is in its description (`crates/sms-http`);
//! here is what makes the requests, and brings what callbacks say.

use std::time::Duration;

use ::sms_http::{
    Answer, Gateway, Incoming, Meaning, Message, Part, Report, Request, Secrets, Written,
};
use bytes::Bytes;
use clock::{Clock, Millis};
use futures_util::future::BoxFuture;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use sms_text::{Encoding, Reference, Segments};

use super::routes::Class;
use super::upstream::{Called, Taken};
use super::{
    Carrier, Channel, Door, Echo, Fate, Inbound, InboundPart, NotNow, Outbound, Outcome, Pace,
    Receipt, Refusal, code_of,
};
use crate::config;
use crate::kit::alarm::Alarm;
use crate::kit::msisdn;
use crate::kit::outgoing::{Destination, NoAnswer, Outgoing};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a message waits where a gateway throttles and does not say for how long, and at most.
const AGAIN_MS: u64 = 1_000;
const LONGEST_AGAIN_S: u64 = 30;

/// Nothing that it calls back with would be believed, so no message would ever be delivered.
const NO_TOKEN: &str = "callback_token is needed: it proves the gateway's callbacks";

/// A gateway.
pub struct SmsHttp {
    name: String,
    settings: config::SmsHttp,
    gateway: Gateway,
    outgoing: Outgoing,
    clock: Clock,
    door: Door,
    /// Where it calls back.
    callback_url: String,
    /// Of callbacks that prove nothing.
    alarm: Alarm,
}

/// The description that the settings name.
///
/// # Errors
/// The file cannot be read, or describes nothing.
pub fn described(settings: &config::SmsHttp) -> Result<Gateway, String> {
    if settings.description.is_empty() {
        return Gateway::preset(&settings.preset).map_err(|fault| fault.to_string());
    }
    let place = &settings.description;
    let text = std::fs::read_to_string(place).map_err(|error| format!("{place}: {error}"))?;
    Gateway::read_description(&text).map_err(|fault| format!("{place}: {fault}"))
}

/// What the settings name, if a carrier can be made of it.
///
/// # Errors
/// The description cannot be used, or a setting is missing that it needs.
pub fn usable(settings: &config::SmsHttp) -> Result<Gateway, String> {
    let gateway = described(settings)?;
    // What is missing is said at the start, not at the first message.
    request(settings, &gateway, &Message::default())?;
    if gateway.needs_token() && settings.callback_token.is_empty() {
        return Err(NO_TOKEN.to_owned());
    }
    Ok(gateway)
}

/// The request that a message makes.
///
/// # Errors
/// A setting is missing.
pub fn request(
    settings: &config::SmsHttp,
    gateway: &Gateway,
    message: &Message<'_>,
) -> Result<Request, String> {
    let values = [
        ("base_url", settings.base_url.as_str()),
        ("username", settings.username.as_str()),
        ("password", settings.password.expose()),
    ];
    gateway.request(&values, message).map_err(|fault| fault.to_string())
}

/// The query of the URL where the gateway tells what becomes of a message. It proves itself by the
/// token, and brings our ids back.
#[must_use]
pub fn callback_query(
    settings: &config::SmsHttp,
    gateway: &Gateway,
    echo: &Echo,
    segments: usize,
) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    if !settings.callback_token.is_empty() {
        query.append_pair("token", settings.callback_token.expose());
    }
    query.append_pair("account", &echo.account_id);
    query.append_pair("attempt", &echo.attempt_id);
    if segments > 1 && gateway.reports_segments() {
        query.append_pair("segments", &segments.to_string());
    }
    query.finish()
}

impl SmsHttp {
    /// A gateway by its settings.
    ///
    /// # Errors
    /// Its description cannot be used, or a setting is missing that it needs.
    pub fn new(
        name: &str,
        settings: config::SmsHttp,
        clock: Clock,
        callback_url: String,
        door: Door,
    ) -> Result<Self, String> {
        let gateway = usable(&settings).map_err(|fault| format!("{name}: {fault}"))?;
        let limit = Duration::from_secs(settings.timeout_s);
        let outgoing = Outgoing::to_upstreams(CONNECT.min(limit), limit)?;
        let (name, alarm) = (name.to_owned(), Alarm::default());
        Ok(Self { name, settings, gateway, outgoing, clock, door, callback_url, alarm })
    }

    async fn act(&self, outbound: &Outbound) -> Outcome {
        let Some(to) = outbound.to.phone() else {
            return refused(Refusal::BadRecipient, "no_phone");
        };
        let Some(text) = outbound.content.text() else {
            return refused(Refusal::Permanent, "no_text");
        };
        let text = text.expose();
        let segments = Segments::of(text, Reference::Octet).ok();
        let encoding = segments.as_ref().map(Segments::encoding);
        let national = msisdn::national(to.e164()).unwrap_or_default();
        let segments = segments.map_or(1, |segments| segments.count());
        let callback_url = self.callback_url(outbound, segments);
        let message = Message {
            to: to.e164(),
            from: if outbound.sender.is_empty() { &self.settings.sender } else { &outbound.sender },
            text,
            id: &outbound.attempt_id,
            callback_url: &callback_url,
            validity_s: ((outbound.valid_until - self.clock.now()) / 1_000).max(1),
            is_unicode: encoding != Some(Encoding::Gsm7),
            to_national: &national,
            class: Class::of(outbound.priority).as_str(),
            segments,
        };
        match request(&self.settings, &self.gateway, &message) {
            Ok(request) => self.exchange(outbound, request).await,
            Err(_) => refused(Refusal::Permanent, "description"),
        }
    }

    async fn exchange(&self, outbound: &Outbound, request: Request) -> Outcome {
        let Ok(place) = Destination::parse_long(&request.url, true) else {
            return refused(Refusal::Permanent, "url");
        };
        let method = if request.method == "GET" { Method::GET } else { Method::POST };
        let headers = headers(&request);
        // An answer that was lost may have been a yes: what may be on its way never goes twice.
        let sent = self.outgoing.send_once(&place, method, headers, Bytes::from(request.body));
        match sent.await {
            Ok(answer) => {
                let after_s = answer.headers.get("retry-after");
                let after_s = after_s.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
                let read = self.gateway.read(answer.status, &answer.body);
                let code = code_of(&read.code).filter(|code| !outbound.quotes(code));
                let code = code.unwrap_or_else(|| format!("http {}", answer.status));
                self.outcome(outbound, Answer { code, ..read }, after_s)
            }
            // What never got there was not taken. Of the rest nobody can tell.
            Err(NoAnswer::Timeout | NoAnswer::Reset | NoAnswer::Protocol) => Outcome::Unknown,
            Err(failure) => refused(Refusal::Down, failure.as_str()),
        }
    }

    fn outcome(&self, outbound: &Outbound, read: Answer, after_s: Option<u64>) -> Outcome {
        let after_ms = after_s.map_or(AGAIN_MS, |after| after.min(LONGEST_AGAIN_S) * 1_000);
        let class = match read.meaning {
            Meaning::Accepted => return self.accepted(outbound, read.ids),
            Meaning::Unknown => return Outcome::Unknown,
            Meaning::Throttled => Refusal::Throttled { after_ms },
            Meaning::Later => Refusal::Later { after_ms },
            Meaning::Temporary => Refusal::Temporary,
            Meaning::BadRecipient => Refusal::BadRecipient,
            Meaning::BadSender => Refusal::BadSender,
            Meaning::Unfit => Refusal::Unfit,
            Meaning::Permanent => Refusal::Permanent,
        };
        Outcome::Refused { class, code: read.code }
    }

    fn accepted(&self, outbound: &Outbound, mut ids: Vec<String>) -> Outcome {
        if self.gateway.echoes() {
            return Outcome::Accepted { provider_id: outbound.attempt_id.clone() };
        }
        if ids.len() > 1 {
            return Outcome::InParts { provider_ids: ids };
        }
        Outcome::Accepted { provider_id: ids.pop().unwrap_or_default() }
    }

    fn callback_url(&self, outbound: &Outbound, segments: usize) -> String {
        let echo = Echo {
            account_id: outbound.account_id.clone(),
            attempt_id: outbound.attempt_id.clone(),
        };
        let query = callback_query(&self.settings, &self.gateway, &echo, segments);
        format!("{}?{query}", self.callback_url)
    }

    async fn take(&self, called: &Called) -> Taken {
        let url = format!("{}?{}", self.callback_url, called.query);
        let url = if called.query.is_empty() { &self.callback_url } else { &url };
        let Called { query, headers, body, from } = called;
        let incoming = Incoming { url, query, headers, body, from: *from };
        let secrets = Secrets {
            token: self.settings.callback_token.expose(),
            key: self.settings.password.expose(),
        };
        let Ok(incoming) = self.gateway.prove(incoming, secrets) else {
            // Anybody may call.
            if self.alarm.is_due() {
                let why = "a callback is not the gateway's: see its callback_token or key";
                tracing::warn!(carrier = self.name, "{why}");
            }
            return Taken::Forged;
        };
        let brought = self.gateway.take(&incoming);
        if brought.reports.is_empty() && brought.written.is_empty() {
            let carrier = self.name.as_str();
            tracing::info!(carrier, "a callback brought nothing that its description knows");
        }
        let echo = incoming.parameter("account").zip(incoming.parameter("attempt"));
        let echo = echo.filter(|_| incoming.parameter("segments").is_none());
        let echo = echo.map(|(account_id, attempt_id)| Echo { account_id, attempt_id });
        for report in brought.reports {
            let receipt = self.receipt(report, echo.clone());
            if self.door.receipt(receipt).await.is_err() {
                return Taken::NotNow;
            }
        }
        match self.bring(brought.written).await {
            Ok(()) => Taken::Stored(self.gateway.reply().to_owned()),
            Err(_) => Taken::NotNow,
        }
    }

    /// What people wrote: parts one by one, and the rest together.
    async fn bring(&self, written: Vec<Written>) -> Result<(), NotNow> {
        let mut whole = Vec::new();
        for mut written in written {
            let part = written.part.take();
            let message = self.inbound(written);
            let Some(Part { reference, number, total }) = part else {
                whole.push(message);
                continue;
            };
            self.door.part(InboundPart { message, reference, number, total }).await?;
        }
        if whole.is_empty() { Ok(()) } else { self.door.inbound(whole).await }
    }

    fn receipt(&self, report: Report, named: Option<Echo>) -> Receipt {
        let (echo, hint) = if self.gateway.echoes() { (named, None) } else { (None, named) };
        Receipt {
            carrier: self.name.clone(),
            echo,
            hint,
            provider_id: Some(report.id).filter(|id| !id.is_empty()),
            fate: match report.fate {
                ::sms_http::Fate::Sent => Fate::Sent,
                ::sms_http::Fate::Delivered => Fate::Delivered,
                ::sms_http::Fate::Undelivered => Fate::Failed(Refusal::Undelivered),
                ::sms_http::Fate::Expired => Fate::Failed(Refusal::Expired),
                ::sms_http::Fate::Rejected => Fate::Failed(Refusal::Permanent),
            },
            error: code_of(&report.error),
        }
    }

    fn inbound(&self, written: Written) -> Inbound {
        let Written { from, to, text, id, at_ms, raw, part: _ } = written;
        Inbound {
            carrier: self.name.clone(),
            upstream_id: id,
            channel: Channel::Sms,
            account_id: None,
            sender: from,
            recipient: to,
            text,
            is_words: true,
            button: None,
            context: None,
            received_at: at_ms.map_or_else(|| self.clock.now(), Millis),
            raw,
        }
    }
}

fn refused(class: Refusal, code: &str) -> Outcome {
    Outcome::Refused { class, code: code.to_owned() }
}

fn headers(request: &Request) -> HeaderMap {
    let read = |(name, value): &(String, String)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    };
    request.headers.iter().filter_map(read).collect()
}

impl Carrier for SmsHttp {
    fn name(&self) -> &str {
        &self.name
    }

    fn echoes(&self) -> bool {
        self.gateway.echoes()
    }

    fn pace(&self) -> Pace {
        let config::SmsHttp { window, rate, .. } = self.settings;
        Pace { window, per_s: (rate > 0).then_some(rate), backs_off: true }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(self.act(message))
    }

    fn call_back<'a>(&'a self, called: &'a Called) -> Option<BoxFuture<'a, Taken>> {
        Some(Box::pin(self.take(called)))
    }
}
