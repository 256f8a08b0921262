//! From request bodies to orders: every fault found and named, and every text that becomes part of
//! a header checked.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::DecodePaddingMode::Indifferent;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use email::{Attachment, Mailbox, compose};
use serde_json::Value;

use super::{Kind, MOST_IN_BULK, MOST_RECIPIENTS};
use crate::app::App;
use crate::kit::body::{Element, Fields};
use crate::kit::json::escaped;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

/// Longest text, and longest HTML, bytes.
const LONGEST_BODY: usize = 2 * 1024 * 1024;
/// Attachments of one email.
const MOST_ATTACHMENTS: usize = 20;
/// Headers of the account's own.
const MOST_HEADERS: usize = 50;

/// An email to send, checked. No `Debug`: it holds what somebody is told.
pub(super) struct Order {
    pub(super) from: Mailbox,
    pub(super) from_email: String,
    pub(super) to: Vec<Mailbox>,
    pub(super) cc: Vec<Mailbox>,
    /// Who gets a copy, each once, and how it is addressed first.
    pub(super) recipients: Vec<(Kind, Mailbox)>,
    pub(super) reply_to: Option<Mailbox>,
    pub(super) subject: String,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) reference: Option<String>,
}

impl Order {
    /// What it says, bytes.
    pub(super) fn size(&self) -> usize {
        let files = self.attachments.iter().map(|file| file.content.len());
        let texts = [&self.text, &self.html].into_iter().flatten().map(String::len);
        files.chain(texts).sum()
    }
}

/// `POST /v1/emails`.
pub(super) fn single(app: &App, body: &[u8]) -> Result<Order, Problem> {
    order(app, Fields::read(body)?)
}

/// `POST /v1/emails/bulk`: each email, or what is wrong with it.
pub(super) fn bulk(app: &App, body: &[u8]) -> Result<Vec<Result<Order, Problem>>, Problem> {
    let mut fields = Fields::read(body)?;
    let items = match fields.take("messages") {
        Some(Value::Array(items)) if items.is_empty() => {
            fields.fault("messages", "too_short", "must have at least 1 element");
            vec![]
        }
        Some(Value::Array(items)) if items.len() > MOST_IN_BULK => {
            let detail = format!("must have at most {MOST_IN_BULK} elements");
            fields.fault("messages", "too_long", detail);
            vec![]
        }
        Some(Value::Array(items)) => items,
        None => {
            fields.fault("messages", "required", "is required");
            vec![]
        }
        Some(_) => {
            fields.fault("messages", "invalid_type", "must be an array of emails");
            vec![]
        }
    };
    fields.finish(app.is_strict())?;
    let read = |item| {
        let Value::Object(map) = item else {
            let fault = Item::at("", "invalid_type", "the email must be an object");
            return Err(Problem::invalid(vec![fault]));
        };
        order(app, Fields::of(map))
    };
    Ok(items.into_iter().map(read).collect())
}

fn order(app: &App, mut fields: Fields) -> Result<Order, Problem> {
    let from_email = fields.required("from_email");
    let from = from_email.as_ref().and_then(|text| mailbox(&mut fields, "from_email", text));
    let to = fields.required_texts("to", MOST_RECIPIENTS);
    let to = mailboxes(&mut fields, "to", to);
    let cc = fields.texts("cc", MOST_RECIPIENTS);
    let cc = mailboxes(&mut fields, "cc", cc);
    let bcc = fields.texts("bcc", MOST_RECIPIENTS);
    let bcc = mailboxes(&mut fields, "bcc", bcc);
    if to.len() + cc.len() + bcc.len() > MOST_RECIPIENTS {
        let detail =
            format!("must have at most {MOST_RECIPIENTS} elements, those of cc and bcc included");
        fields.fault("to", "too_long", detail);
    }
    let reply_to = fields.text("reply_to").and_then(|text| mailbox(&mut fields, "reply_to", &text));
    let subject = subject(&mut fields);
    let (text, html) = (said(&mut fields, "text"), said(&mut fields, "html"));
    if text.is_none() && html.is_none() && !fields.has_faults_of(&["text", "html"]) {
        fields.fault("text", "required", "is required, unless html is given");
    }
    let headers = headers(&mut fields);
    let attachments = attachments(&mut fields, app.is_strict());
    let reference = fields.text_within("reference", 1, 128);
    fields.finish(app.is_strict())?;
    let recipients = each_once(&to, &cc, bcc);
    let (from, from_email) = from.zip(from_email).ok_or(Code::InternalError)?;
    let subject = subject.ok_or(Code::InternalError)?;
    Ok(Order {
        from,
        from_email,
        to,
        cc,
        recipients,
        reply_to,
        subject,
        text,
        html,
        headers,
        attachments,
        reference,
    })
}

/// An address that is named several times gets one copy.
fn each_once(to: &[Mailbox], cc: &[Mailbox], bcc: Vec<Mailbox>) -> Vec<(Kind, Mailbox)> {
    let mut seen = HashSet::new();
    let to = to.iter().map(|mailbox| (Kind::To, mailbox.clone()));
    let cc = cc.iter().map(|mailbox| (Kind::Cc, mailbox.clone()));
    let bcc = bcc.into_iter().map(|mailbox| (Kind::Bcc, mailbox));
    to.chain(cc).chain(bcc).filter(|(_, mailbox)| seen.insert(mailbox.address.key())).collect()
}

fn mailbox(fields: &mut Fields, place: &str, text: &str) -> Option<Mailbox> {
    let read = Mailbox::parse(text);
    let read =
        read.map_err(|error| fields.fault(place, "invalid_email", error.to_string())).ok()?;
    // Readers decode it, also where it is quoted (RFC 2047 §5): nobody sees what is checked here.
    if read.name.as_ref().is_some_and(|name| name.contains("=?")) {
        fields.fault(
            place,
            "invalid_email",
            "must have its name as it is read, not as an encoded word",
        );
        return None;
    }
    Some(read)
}

fn mailboxes(fields: &mut Fields, name: &str, texts: Option<Vec<Element>>) -> Vec<Mailbox> {
    let texts = texts.unwrap_or_default().into_iter();
    let read = |Element { index, text }| mailbox(fields, &format!("{name}/{index}"), &text);
    texts.filter_map(read).collect()
}

fn subject(fields: &mut Fields) -> Option<String> {
    let subject = fields.required("subject")?;
    if subject.is_empty() {
        fields.fault("subject", "too_short", "must have at least 1 character");
    } else if subject.len() > compose::LONGEST_VALUE {
        fields.fault("subject", "too_long", "must have at most 998 bytes");
    } else if !compose::is_value(&subject) {
        let detail = "must have no line breaks or other control characters";
        fields.fault("subject", "invalid_type", detail);
    }
    Some(subject)
}

fn said(fields: &mut Fields, name: &'static str) -> Option<String> {
    let text = fields.text(name).filter(|text| !text.is_empty())?;
    if text.len() > LONGEST_BODY {
        fields.fault(name, "too_long", "must have at most 2 MiB");
    }
    Some(text)
}

fn headers(fields: &mut Fields) -> Vec<(String, String)> {
    let map = match fields.take("headers") {
        None => return vec![],
        Some(Value::Object(map)) if map.len() <= MOST_HEADERS => map,
        Some(Value::Object(_)) => {
            let detail = format!("must have at most {MOST_HEADERS} members");
            fields.fault("headers", "too_long", detail);
            return vec![];
        }
        Some(_) => {
            fields.fault("headers", "invalid_type", "must be an object of strings");
            return vec![];
        }
    };
    let mut found = Vec::with_capacity(map.len());
    for (name, value) in map {
        let place = format!("headers/{}", escaped(&name));
        match value {
            Value::String(value) => {
                // Space around a value is no part of it (RFC 5322 §2.2).
                let value = value.trim_matches(' ').to_owned();
                match compose::check_header(&name, &value) {
                    Ok(()) => found.push((name, value)),
                    Err(error) => fields.fault(&place, "invalid_type", error.to_string()),
                }
            }
            _ => fields.fault(&place, "invalid_type", "must be a string"),
        }
    }
    found
}

fn attachments(fields: &mut Fields, is_strict: bool) -> Vec<Attachment> {
    let items = match fields.take("attachments") {
        None => return vec![],
        Some(Value::Array(items)) if items.len() <= MOST_ATTACHMENTS => items,
        Some(Value::Array(_)) => {
            let detail = format!("must have at most {MOST_ATTACHMENTS} elements");
            fields.fault("attachments", "too_long", detail);
            return vec![];
        }
        Some(_) => {
            fields.fault("attachments", "invalid_type", "must be an array of objects");
            return vec![];
        }
    };
    let items = items.into_iter().enumerate();
    items.filter_map(|(index, item)| attachment(fields, index, item, is_strict)).collect()
}

fn attachment(
    fields: &mut Fields,
    index: usize,
    item: Value,
    is_strict: bool,
) -> Option<Attachment> {
    let place = format!("attachments/{index}");
    let Value::Object(mut map) = item else {
        fields.fault(&place, "invalid_type", "must be an object");
        return None;
    };
    let mut member = |fields: &mut Fields, name: &str| match map.remove(name) {
        Some(Value::String(text)) => Some(text),
        None | Some(Value::Null) => None,
        Some(_) => {
            fields.fault(&format!("{place}/{name}"), "invalid_type", "must be a string");
            None
        }
    };
    let filename = member(fields, "filename");
    let content = member(fields, "content");
    let content_type = member(fields, "content_type");
    let fault = |fields: &mut Fields, name: &str, code, detail: &str| {
        fields.fault(&format!("{place}/{name}"), code, detail);
    };
    for (name, is_missing) in [("filename", filename.is_none()), ("content", content.is_none())] {
        if is_missing {
            fault(fields, name, "required", "is required");
        }
    }
    if let Some(unknown) = map.keys().next().filter(|_| is_strict) {
        let known = "is not a field of an attachment; known: filename, content, content_type";
        fault(fields, &escaped(unknown), "unknown_field", known);
    }
    if let Some(name) = filename.as_deref().filter(|name| !compose::is_filename(name)) {
        let (code, detail) = match name.chars().count() {
            0 => ("too_short", "must have at least 1 character"),
            1..=compose::LONGEST_FILENAME => {
                ("invalid_type", "must have no slashes and no control characters")
            }
            _ => ("too_long", "must have at most 120 characters"),
        };
        fault(fields, "filename", code, detail);
    }
    let content_type = content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    if !compose::is_media_type(&content_type) {
        let detail = "must be a media type, such as application/pdf or text/csv; charset=utf-8, \
            and neither multipart/* nor message/*";
        fault(fields, "content_type", "invalid_type", detail);
    }
    let decoded = content.map(|text| decode(&text));
    if matches!(decoded, Some(Err(_))) {
        fault(fields, "content", "invalid_type", "must be base64 (RFC 4648 §4)");
    }
    Some(Attachment { filename: filename?, content_type, content: decoded?.ok()? })
}

/// As `base64 FILE` prints it, too: in lines, and with or without padding.
fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    const LAX: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(Indifferent),
    );
    let plain: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    LAX.decode(plain)
}
