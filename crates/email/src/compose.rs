//! Messages as they go out: RFC 5322 and MIME. Every name and value that comes from outside is
//! checked here before it becomes part of a header, so that none can add one of its own.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::{Address as Written, EmailAddress};
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::{BodyPart, MimePart};

use crate::Mailbox;

/// Longest name of a header, bytes.
pub const LONGEST_HEADER_NAME: usize = 76;
/// Longest value of a header, and longest subject, bytes (RFC 5322 §2.1.1).
pub const LONGEST_VALUE: usize = 998;
/// Bytes in an encoded word: with them it has 68 letters of the 75 that it may have (RFC 2047 §2),
/// and fits beside a short name.
const MOST_OF_A_WORD: usize = 42;
/// Longest media type, with its parameters, bytes.
const LONGEST_TYPE: usize = 200;
/// Longest name of an attachment, characters.
pub const LONGEST_FILENAME: usize = 120;

/// Headers that the service writes itself, in lower case; all of `content-*` are, too.
const OURS: &[&str] = &[
    "arc-authentication-results",
    "arc-message-signature",
    "arc-seal",
    "authentication-results",
    "bcc",
    "cc",
    "date",
    "dkim-signature",
    "domainkey-signature",
    "from",
    "message-id",
    "mime-version",
    "received",
    "received-spf",
    "reply-to",
    "resent-bcc",
    "resent-cc",
    "resent-date",
    "resent-from",
    "resent-message-id",
    "resent-sender",
    "resent-to",
    "return-path",
    "sender",
    "subject",
    "to",
];

/// Longest word of a value that goes out as it is: with the longest name it fits into one line.
const LONGEST_WORD: usize = LONGEST_VALUE - LONGEST_HEADER_NAME - 4;

/// Whether a value goes out as it is. An address in `List-Unsubscribe`, or an id in `References`,
/// means nothing in another form, however long it is (RFC 2047 §5).
fn is_plain(value: &str) -> bool {
    let is_word = |word: &str| {
        (1..=LONGEST_WORD).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_graphic())
    };
    !value.split(' ').any(has_encoded_word) && value.split(' ').all(is_word)
}

/// Whether a word has an encoded one in it (RFC 2047 §2), or what readers may take for one.
fn has_encoded_word(word: &str) -> bool {
    word.match_indices("=?").any(|(at, begin)| {
        let rest = word.get(at + begin.len()..).unwrap_or_default();
        let mut parts = rest.splitn(3, '?');
        let (set, kind, text) = (parts.next(), parts.next(), parts.next());
        set.is_some_and(|set| !set.is_empty())
            && kind.is_some_and(|kind| matches!(kind, "B" | "b" | "Q" | "q"))
            && text.is_some_and(|text| text.contains("?="))
    })
}

/// Why a header is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The name is no name.
    #[error("must have a name of 1 to 76 printable ASCII characters, without spaces and colons")]
    Name,
    /// The service writes it itself.
    #[error("is written by the service itself")]
    Ours,
    /// The value holds control characters, or too much.
    #[error("must have at most 998 bytes and no line breaks or other control characters")]
    Value,
}

/// Whether a header may be added to a message.
///
/// # Errors
/// See [`HeaderError`].
pub fn check_header(name: &str, value: &str) -> Result<(), HeaderError> {
    let is_name = |b: u8| (b'!'..=b'~').contains(&b) && b != b':';
    if !(1..=LONGEST_HEADER_NAME).contains(&name.len()) || !name.bytes().all(is_name) {
        return Err(HeaderError::Name);
    }
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) || lower.starts_with("content-") {
        return Err(HeaderError::Ours);
    }
    if is_value(value) { Ok(()) } else { Err(HeaderError::Value) }
}

/// Whether a text may be the value of a header, such as a subject.
#[must_use]
pub fn is_value(text: &str) -> bool {
    text.len() <= LONGEST_VALUE && !text.contains(|c: char| c.is_control() && c != '\t')
}

/// Whether a text is a media type, with plain parameters perhaps: `text/csv; charset=utf-8`.
#[must_use]
pub fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_good = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        (1..=64).contains(&part.len()) && part.bytes().all(is_good)
    };
    // A multipart without its parts would be read as one with others.
    let is_leaf = |kind: &str| !matches!(kind, "multipart" | "message");
    let is_parameter = |text: &str| {
        text.trim_matches(' ').split_once('=').is_some_and(|(name, value)| {
            is_token(name) && is_token(value) && !name.eq_ignore_ascii_case("boundary")
        })
    };
    let mut parts = text.split(';');
    let kind = parts.next().unwrap_or_default().trim_end_matches(' ');
    let is_kind = kind.split_once('/').is_some_and(|(kind, sub)| {
        is_token(kind) && is_token(sub) && is_leaf(&kind.to_ascii_lowercase())
    });
    is_kind && text.len() <= LONGEST_TYPE && parts.all(is_parameter)
}

/// Whether a text may be the name of an attachment.
#[must_use]
pub fn is_filename(text: &str) -> bool {
    let length = text.chars().count();
    (1..=LONGEST_FILENAME).contains(&length)
        && !text.contains(|c: char| c.is_control() || c == '/' || c == '\\')
}

/// A file in a message.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Its name, see [`is_filename`].
    pub filename: String,
    /// Its type, see [`is_media_type`].
    pub content_type: String,
    /// The file.
    pub content: Vec<u8>,
}

/// A message, checked. Who gets a blind copy is not part of it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Who writes.
    pub from: Mailbox,
    /// To whom.
    pub to: Vec<Mailbox>,
    /// Who else sees it.
    pub cc: Vec<Mailbox>,
    /// Where answers go.
    pub reply_to: Option<Mailbox>,
    /// See [`is_value`].
    pub subject: String,
    /// For readers without HTML.
    pub text: Option<String>,
    /// For all others.
    pub html: Option<String>,
    /// See [`check_header`].
    pub headers: Vec<(String, String)>,
    /// Files.
    pub attachments: Vec<Attachment>,
    /// `unique@domain`, without the angles.
    pub message_id: String,
    /// When it was written, seconds since 1970.
    pub date_s: i64,
}

/// Writes a message. The same draft gives the same bytes.
#[must_use]
pub fn compose(draft: Draft) -> Vec<u8> {
    let unique = draft.message_id.split('@').next().unwrap_or_default().to_owned();
    let mut message = MessageBuilder::new()
        .message_id(MessageId::new(draft.message_id))
        .date(Date::new(draft.date_s))
        .from(written(draft.from))
        .to(all(draft.to));
    if !draft.cc.is_empty() {
        message = message.cc(all(draft.cc));
    }
    if let Some(reply_to) = draft.reply_to {
        message = message.reply_to(written(reply_to));
    }
    message = if has_encoded_word(&draft.subject) {
        message.header("Subject", Raw::new(in_words(&draft.subject)))
    } else {
        message.subject(Text::new(draft.subject))
    };
    for (name, value) in draft.headers {
        message = if is_plain(&value) {
            message.header(name, Raw::new(value))
        } else if has_encoded_word(&value) {
            message.header(name, Raw::new(in_words(&value)))
        } else {
            message.header(name, Text::new(value))
        };
    }
    let body = body(draft.text, draft.html, draft.attachments, &unique);
    let mut bytes = Vec::new();
    message.body(body).serialize(&mut bytes);
    bytes
}

/// A value that readers show as it is, although it looks like an encoded word: as such words itself
/// (RFC 2047 §2), which are put together without the blanks between them.
fn in_words(value: &str) -> String {
    let (mut words, mut rest) = (Vec::new(), value);
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.floor_char_boundary(MOST_OF_A_WORD));
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
        rest = behind;
    }
    words.join(" ")
}

fn written(mailbox: Mailbox) -> Written<'static> {
    Written::Address(EmailAddress {
        name: mailbox.name.map(Cow::Owned),
        email: Cow::Owned(mailbox.address.as_str().to_owned()),
    })
}

fn all(mailboxes: Vec<Mailbox>) -> Written<'static> {
    Written::List(mailboxes.into_iter().map(written).collect())
}

fn body(
    text: Option<String>,
    html: Option<String>,
    attachments: Vec<Attachment>,
    unique: &str,
) -> MimePart<'static> {
    let plain = |text: String| MimePart::new("text/plain", BodyPart::Text(lines(text).into()));
    let rich = |html: String| MimePart::new("text/html", BodyPart::Text(lines(html).into()));
    let said = match (text, html) {
        (Some(text), Some(html)) => {
            multipart("multipart/alternative", "alternative", unique, vec![plain(text), rich(html)])
        }
        (None, Some(html)) => rich(html),
        (text, None) => plain(text.unwrap_or_default()),
    };
    if attachments.is_empty() {
        return said;
    }
    let mut parts = vec![said];
    parts.extend(attachments.into_iter().map(|file| {
        let kind = kind_of(&file);
        // By a raw type, so that even a text is base64: it may hold any bytes, such as a lone CR.
        MimePart::raw(BodyPart::Binary(file.content.into()))
            .header("Content-Type", Raw::new(kind))
            .attachment(file.filename)
    }));
    multipart("multipart/mixed", "mixed", unique, parts)
}

/// A file's type. Text without a character set would be ASCII (RFC 2046 §4.1.2).
fn kind_of(file: &Attachment) -> String {
    let Attachment { content_type, content, .. } = file;
    let is_text = content_type.to_ascii_lowercase().starts_with("text/");
    let says = content_type.contains(';') || content.is_ascii();
    if is_text && !says && std::str::from_utf8(content).is_ok() {
        return format!("{content_type}; charset=utf-8");
    }
    content_type.clone()
}

/// A text whose lines end with CRLF, also where it is encoded (RFC 2045 §6.8): a CR of its own must
/// not leave (RFC 5321 §2.3.8), since relays disagree on whether it ends a line.
fn lines(text: String) -> String {
    if !text.contains(['\r', '\n']) {
        return text;
    }
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}

/// The boundary holds the message's own id, which nobody knew when the parts were written.
fn multipart(
    kind: &'static str,
    word: &str,
    unique: &str,
    parts: Vec<MimePart<'static>>,
) -> MimePart<'static> {
    let kind = ContentType::new(kind).attribute("boundary", format!("={word}={unique}="));
    MimePart::new(kind, BodyPart::Multipart(parts))
}
