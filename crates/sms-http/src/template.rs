//! A request from its template. Each value is written as its place needs it: in a URL, a form, a
//! header or a JSON string.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sms_text::{gsm7, ucs2};
use url::form_urlencoded;

use crate::describe::{Auth, Fault, Gateway, Method};

/// A message to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The number, `+` and digits.
    pub to: &'a str,
    /// The sender; empty = the gateway's own.
    pub from: &'a str,
    /// The text, whole.
    pub text: &'a str,
    /// Our id of it.
    pub id: &'a str,
    /// Where the gateway is to tell what becomes of it.
    pub callback_url: &'a str,
    /// How long it is of use, seconds.
    pub validity_s: i64,
    /// Whether it needs UCS-2.
    pub is_unicode: bool,
    /// The number without its country code.
    pub to_national: &'a str,
    /// What it is for: `passcode`, `transactional` or `bulk`.
    pub class: &'a str,
    /// How many segments it has.
    pub segments: usize,
}

/// A request to make. No `Debug`: it holds a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Where.
    pub url: String,
    /// With these headers.
    pub headers: Vec<(String, String)>,
    /// And this body.
    pub body: String,
}

/// A name with what it stands for.
pub(crate) struct Values<'a> {
    settings: &'a [(&'a str, &'a str)],
    message: &'a Message<'a>,
    gateway: &'a Gateway,
}

/// Where a value is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// What is sent, and where the gateway is to call back.
    Message,
    /// What the operator has set.
    Settings,
}

impl Values<'_> {
    fn get(&self, name: &str) -> Result<String, Fault> {
        match self.of_message(name) {
            Some(value) => Ok(value),
            None => self.setting(name),
        }
    }

    fn setting(&self, name: &str) -> Result<String, Fault> {
        let given = self.settings.iter().find(|(known, _)| *known == name);
        let given = given.map(|(_, value)| (*value).to_owned());
        let given = given.filter(|value| !value.is_empty());
        let default = || self.gateway.defaults.get(name).cloned();
        given.or_else(default).ok_or_else(|| Fault::Variable(name.to_owned()))
    }

    fn of_message(&self, name: &str) -> Option<String> {
        let message = self.message;
        Some(match name {
            "to" => message.to.to_owned(),
            "to_digits" => message.to.trim_start_matches('+').to_owned(),
            "to_national" => message.to_national.to_owned(),
            "class" => message.class.to_owned(),
            "segments" => message.segments.to_string(),
            "encoding" => if message.is_unicode { "ucs2" } else { "gsm7" }.to_owned(),
            "from" => message.from.to_owned(),
            "text" => message.text.to_owned(),
            "id" => message.id.to_owned(),
            "callback_url" => message.callback_url.to_owned(),
            "validity_s" => self.validity_s().to_string(),
            "validity_ms" => self.validity_s().saturating_mul(1_000).to_string(),
            // No longer than it is valid: what is late is of no use.
            "validity_min" => (self.validity_s() / 60).max(1).to_string(),
            "unicode" => when(message.is_unicode, "unicode"),
            "coding" => when(message.is_unicode, "2"),
            "coding_jasmin" => when(message.is_unicode, "8"),
            "text_plain" => when(!message.is_unicode, message.text),
            "text_ucs2_hex" if !message.is_unicode => String::new(),
            "text_hex" | "text_ucs2_hex" => hex(&octets(message)).to_ascii_uppercase(),
            _ => return None,
        })
    }

    /// How long the message is of use, as far as the gateway can say so: outside of its bounds it
    /// refuses the message.
    fn validity_s(&self) -> i64 {
        let [shortest, longest] = self.gateway.validity_s.unwrap_or([1, i64::MAX]);
        self.message.validity_s.min(longest).max(shortest)
    }

    /// A template with its variables replaced, each written by `escape`.
    fn fill(&self, template: &str, escape: fn(&str) -> String) -> Result<String, Fault> {
        self.fill_by_origin(template, |_, value| escape(value))
    }

    fn fill_by_origin(
        &self,
        template: &str,
        escape: impl Fn(Origin, &str) -> String,
    ) -> Result<String, Fault> {
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                filled.push('{');
                rest = after;
                continue;
            };
            filled.push_str(&match self.of_message(name) {
                Some(value) => escape(Origin::Message, &value),
                None => escape(Origin::Settings, &self.setting(name)?),
            });
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// The same in every string of a JSON value. What is empty is left out of its object.
    fn fill_json(&self, value: &Value) -> Result<Value, Fault> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix("number:") {
                Some(name) => self.get(name)?.parse::<i64>().map_or(Value::Null, Value::from),
                None => Value::String(self.fill(text, str::to_owned)?),
            },
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.fill_json(item)).collect::<Result<_, _>>()?,
            ),
            Value::Object(map) => {
                let mut filled = serde_json::Map::new();
                for (key, value) in map {
                    let value = self.fill_json(value)?;
                    if value.as_str() != Some("") && !value.is_null() {
                        filled.insert(key.clone(), value);
                    }
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }
}

/// What is empty is left out of a request.
fn when(is_so: bool, value: &str) -> String {
    if is_so { value.to_owned() } else { String::new() }
}

/// A text as SMS carry it: big-endian UTF-16, or the GSM alphabet, an octet for each septet.
fn octets(message: &Message<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    if message.is_unicode {
        ucs2::encode_into(message.text, &mut octets);
    } else {
        gsm7::encode_into(message.text, &mut octets);
    }
    octets
}

/// Two digits for each octet.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(octets.len() * 2), |mut text, octet| {
        let _infallible = write!(text, "{octet:02x}");
        text
    })
}

/// As a part of a URL (RFC 3986 §2.1).
fn in_url(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A base of URLs is written as it is: one that the operator has set, and no link in a message.
fn in_address(origin: Origin, value: &str) -> String {
    let is_url = value.starts_with("http://") || value.starts_with("https://");
    if is_url && origin == Origin::Settings {
        value.trim_end_matches('/').to_owned()
    } else {
        in_url(value)
    }
}

/// Without what would end a header.
fn in_header(value: &str) -> String {
    value.chars().filter(|letter| !letter.is_control()).collect()
}

impl Gateway {
    /// The request for a message, with the settings of its carrier.
    ///
    /// # Errors
    /// A setting that the template needs is missing.
    pub fn request(
        &self,
        settings: &[(&str, &str)],
        message: &Message<'_>,
    ) -> Result<Request, Fault> {
        let values = Values { settings, message, gateway: self };
        let shape = &self.request;
        let mut url = values.fill_by_origin(&shape.url, in_address)?;
        let mut headers = Vec::new();
        for (name, template) in &shape.headers {
            headers.push((name.clone(), values.fill(template, in_header)?));
        }
        if shape.auth == Auth::Basic {
            let login = format!("{}:{}", values.get("username")?, values.get("password")?);
            headers.push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(login))));
        }
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, template) in &shape.fields {
            let value = values.fill(template, str::to_owned)?;
            if !value.is_empty() {
                form.append_pair(name, &value);
            }
        }
        let form = form.finish();
        let body = match (&shape.json, shape.method) {
            (Some(json), _) => {
                let json = serde_json::from_str(json).map_err(|e| Fault::Json(e.to_string()))?;
                headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
                values.fill_json(&json)?.to_string()
            }
            (None, Method::Get) => {
                let joint = if url.contains('?') { '&' } else { '?' };
                url = format!("{url}{joint}{form}");
                String::new()
            }
            (None, Method::Post) => {
                let kind = "application/x-www-form-urlencoded".to_owned();
                headers.push(("Content-Type".to_owned(), kind));
                form
            }
        };
        let method = if shape.method == Method::Get { "GET" } else { "POST" };
        Ok(Request { method, url, headers, body })
    }
}
