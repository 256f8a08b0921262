//! The few requests and answers of the service that the drivers use, as bytes.

use std::io::Write;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Where the service is and as whom to speak.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    /// `host:port`.
    pub(crate) address: String,
    keys: Vec<String>,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// A passcode.
    Passcode,
    /// An SMS.
    Sms,
    /// An email.
    Email,
}

/// The sender of emails: every account of the sandbox may write from there.
const FROM: &str = "devtools@sandbox.estafette.test";

/// A send request, of a passcode, an SMS or an email; what is `None` is left out of the body.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Send {
    /// The recipient: E.164, or an email address.
    pub(crate) to: String,
    /// What an email is about; `None` = none is sent.
    #[serde(skip)]
    pub(crate) subject: Option<String>,
    /// What an SMS or an email says; `None` = a passcode is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The class of an SMS: `transactional` or `bulk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<String>,
    /// A supplied code, 4 to 8 digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// `auto`, `chatapp` or `sms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery_mode: Option<String>,
    /// The client's own reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<String>,
    /// `Some(false)` leaves the consent prompt out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_messaging_consent: Option<bool>,
}

/// A call with a token instead of a key; an empty one is left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer<'a> {
    /// `POST`, `PATCH`.
    pub(crate) method: &'a str,
    /// The path.
    pub(crate) path: &'a str,
    /// The token.
    pub(crate) token: &'a str,
}

impl Send {
    /// What is sent.
    pub(crate) const fn object(&self) -> Object {
        match (&self.subject, &self.text) {
            (Some(_), _) => Object::Email,
            (None, Some(_)) => Object::Sms,
            (None, None) => Object::Passcode,
        }
    }

    /// Where it is posted to, and read at.
    pub(crate) const fn paths(&self) -> (&'static str, &'static str) {
        match self.object() {
            Object::Passcode => ("/v1/otp/send", "/v1/otp/"),
            Object::Sms => ("/v1/messages", "/v1/messages/"),
            Object::Email => ("/v1/emails", "/v1/emails/"),
        }
    }

    /// Where the sandbox shows what its recipient got.
    pub(crate) fn place(&self) -> String {
        let kind = if self.object() == Object::Email { "mailboxes" } else { "handsets" };
        format!("/v1/sandbox/{kind}/{}/messages", self.to)
    }

    fn body(&self) -> serde_json::Result<Vec<u8>> {
        let Some(subject) = &self.subject else { return serde_json::to_vec(self) };
        serde_json::to_vec(&json!({
            "to": [self.to], "from_email": FROM, "subject": subject, "text": self.text,
            "reference": self.reference,
        }))
    }
}

/// The recipient of a passcode or an SMS, or those of an email.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum To {
    /// It was not told.
    #[default]
    Nobody,
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl To {
    /// Whether it is this one, and nobody else.
    pub(crate) fn is(&self, recipient: &str) -> bool {
        match self {
            Self::Nobody => false,
            Self::One(to) => to == recipient,
            Self::Several(all) => matches!(&**all, [to] if to == recipient),
        }
    }
}

/// The part of a challenge, an SMS or an email that the drivers read.
#[derive(Debug, Deserialize)]
pub(crate) struct Challenge {
    /// The identifier.
    #[serde(rename = "challenge_id", alias = "id")]
    pub(crate) id: String,
    /// The recipient.
    #[serde(default)]
    pub(crate) to: To,
    /// Where it stands.
    #[serde(default)]
    pub(crate) status: String,
    /// Guesses so far; only in a status read.
    #[serde(default)]
    pub(crate) attempts: u64,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    code: String,
}

impl Api {
    /// Reads `http://host:port` and takes the keys as they are.
    ///
    /// # Errors
    /// For another scheme, a path, or no key.
    pub(crate) fn new(url: &str, keys: Vec<String>) -> Result<Self> {
        let Some(address) = url.strip_prefix("http://") else { bail!("--url must be http://…") };
        let address = address.trim_end_matches('/');
        ensure!(!address.contains('/'), "--url must be without a path");
        ensure!(!keys.is_empty(), "give at least one --key");
        let address =
            if address.contains(':') { address.to_owned() } else { format!("{address}:80") };
        Ok(Self { address, keys })
    }

    /// Renders a send for the key that `index` falls on.
    ///
    /// # Errors
    /// Never in practice: writing to memory.
    pub(crate) fn send(
        &self,
        out: &mut Vec<u8>,
        index: u64,
        send: &Send,
        idempotency_key: Option<&str>,
    ) -> Result<()> {
        let body = send.body()?;
        self.head(out, "POST", send.paths().0, index)?;
        if let Some(key) = idempotency_key {
            write!(out, "Idempotency-Key: {key}\r\n")?;
        }
        finish(out, &body)
    }

    /// Renders a verification of `challenge_id` with `code`.
    ///
    /// # Errors
    /// Never in practice: writing to memory.
    pub(crate) fn verify(
        &self,
        out: &mut Vec<u8>,
        index: u64,
        challenge_id: &str,
        code: &str,
    ) -> Result<()> {
        let body = format!(r#"{{"challenge_id":"{challenge_id}","code":"{code}"}}"#);
        self.head(out, "POST", "/v1/otp/verify", index)?;
        finish(out, body.as_bytes())
    }

    /// Renders a POST of `body`, with one more header line if it is given.
    ///
    /// # Errors
    /// Never in practice: writing to memory.
    pub(crate) fn post(
        &self,
        out: &mut Vec<u8>,
        path: &str,
        header: Option<&str>,
        body: &[u8],
    ) -> Result<()> {
        self.head(out, "POST", path, 0)?;
        if let Some(line) = header {
            write!(out, "{line}\r\n")?;
        }
        finish(out, body)
    }

    /// Renders a GET of `path`.
    ///
    /// # Errors
    /// Never in practice: writing to memory.
    pub(crate) fn get(&self, out: &mut Vec<u8>, index: u64, path: &str) -> Result<()> {
        self.head(out, "GET", path, index)?;
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Renders a call by a token of the portal or of staff.
    ///
    /// # Errors
    /// Never in practice: writing to memory.
    pub(crate) fn as_bearer(
        &self,
        out: &mut Vec<u8>,
        call: &Bearer<'_>,
        body: &[u8],
    ) -> Result<()> {
        let Bearer { method, path, token } = call;
        out.clear();
        write!(out, "{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address)?;
        if !token.is_empty() {
            write!(out, "Authorization: Bearer {token}\r\n")?;
        }
        finish(out, body)
    }

    fn head(&self, out: &mut Vec<u8>, method: &str, path: &str, index: u64) -> Result<()> {
        let lane = index.checked_rem(self.keys.len() as u64).unwrap_or(0);
        let key = usize::try_from(lane).ok().and_then(|lane| self.keys.get(lane));
        let key = key.map_or("", String::as_str);
        out.clear();
        write!(out, "{method} {path} HTTP/1.1\r\nHost: {}\r\nX-API-Key: {key}\r\n", self.address)?;
        Ok(())
    }
}

fn finish(out: &mut Vec<u8>, body: &[u8]) -> Result<()> {
    write!(out, "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len())?;
    out.extend_from_slice(body);
    Ok(())
}

/// The stable `code` of a problem, or empty when the body is none.
pub(crate) fn problem_code(body: &[u8]) -> String {
    serde_json::from_slice::<Problem>(body).map(|problem| problem.code).unwrap_or_default()
}

/// The challenge in a body, if it is one.
pub(crate) fn challenge(body: &[u8]) -> Option<Challenge> {
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::{Api, Send, challenge, problem_code};

    #[test]
    fn a_send_is_one_whole_request_with_the_key_of_its_turn() {
        let api = Api::new("http://127.0.0.1:8081/", vec!["a".into(), "b".into()]).unwrap();
        let mut out = Vec::new();
        let send = Send { to: "+33612345678".into(), ..Send::default() };
        api.send(&mut out, 3, &send, Some("k1")).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "POST /v1/otp/send HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nX-API-Key: b\r\n\
             Idempotency-Key: k1\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n\
             {\"to\":\"+33612345678\"}"
        );
    }

    #[test]
    fn an_email_goes_to_a_list_and_is_read_from_one() {
        let api = Api::new("http://127.0.0.1:8081", vec!["a".into()]).unwrap();
        let mut out = Vec::new();
        let (to, subject) = ("ada@example.com".to_owned(), Some("Hello".to_owned()));
        let send = Send { to, subject, text: Some("x".into()), ..Send::default() };
        api.send(&mut out, 0, &send, None).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("POST /v1/emails ") && text.contains(r#""to":["ada@"#), "{text}");
        let read = challenge(br#"{"id":"eml_1","to":["ada@example.com"]}"#).unwrap();
        assert!(read.to.is("ada@example.com") && !read.to.is("other@example.com"));
        assert!(!challenge(br#"{"id":"eml_1"}"#).unwrap().to.is("ada@example.com"));
    }

    #[test]
    fn a_url_with_a_path_or_another_scheme_is_refused() {
        assert!(Api::new("https://x", vec!["k".into()]).is_err());
        assert!(Api::new("http://x/v1", vec!["k".into()]).is_err());
        assert!(Api::new("http://x", vec![]).is_err());
    }

    #[test]
    fn bodies_are_read_for_what_matters() {
        assert_eq!(problem_code(br#"{"code":"rate_limited","status":429}"#), "rate_limited");
        assert_eq!(problem_code(b"<html>"), "");
        let read = challenge(br#"{"challenge_id":"otp_1","to":"+336","attempts":5}"#).unwrap();
        assert_eq!((read.id.as_str(), read.attempts), ("otp_1", 5));
    }
}
