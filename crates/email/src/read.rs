//! Messages as a reader sees them.

use mail_parser::{Address, MimeHeaders, PartType};

use crate::parsed;

/// A message, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Who it says it is from.
    pub from: String,
    /// To whom it says it goes.
    pub to: Vec<String>,
    /// Who else, as it says.
    pub cc: Vec<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// Its subject.
    pub subject: String,
    /// Its plain text.
    pub text: Option<String>,
    /// Its HTML.
    pub html: Option<String>,
    /// All headers in their order, folded lines put together.
    pub headers: Vec<(String, String)>,
    /// Its files.
    pub attachments: Vec<File>,
}

/// A file in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub filename: String,
    /// Its type.
    pub content_type: String,
    /// The file.
    pub content: Vec<u8>,
}

/// Reads a message; `None` when it is none.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Message> {
    let message = parsed::parse(bytes)?;
    let part = |ids: &[u32], is_html: bool| {
        let parts = ids.iter().filter_map(|id| message.parts.get(usize::try_from(*id).ok()?));
        let mut fitting = parts.filter_map(|part| match &part.body {
            PartType::Text(text) if !is_html => Some(text.to_string()),
            PartType::Html(html) if is_html => Some(html.to_string()),
            _ => None,
        });
        fitting.next()
    };
    let attachments = message.attachments().map(|part| File {
        filename: part.attachment_name().unwrap_or_default().to_owned(),
        content_type: part.content_type().map(media_type).unwrap_or_default(),
        content: part.contents().to_vec(),
    });
    let headers = message.headers_raw().map(|(name, value)| (name.to_owned(), unfolded(value)));
    Some(Message {
        from: mailboxes(message.from()).into_iter().next().unwrap_or_default(),
        to: mailboxes(message.to()),
        cc: mailboxes(message.cc()),
        reply_to: mailboxes(message.reply_to()).into_iter().next(),
        subject: message.subject().unwrap_or_default().to_owned(),
        text: part(&message.text_body, false),
        html: part(&message.html_body, true),
        headers: headers.collect(),
        attachments: attachments.collect(),
    })
}

fn media_type(kind: &mail_parser::ContentType<'_>) -> String {
    match kind.subtype() {
        Some(sub) => format!("{}/{sub}", kind.ctype()),
        None => kind.ctype().to_owned(),
    }
}

fn mailboxes(list: Option<&Address<'_>>) -> Vec<String> {
    let all = list.into_iter().flat_map(Address::iter);
    all.filter_map(|found| {
        let address = found.address()?;
        Some(match found.name() {
            Some(name) => format!("{name} <{address}>"),
            None => address.to_owned(),
        })
    })
    .collect()
}

/// RFC 5322 §2.2.3.
pub(crate) fn unfolded(value: &str) -> String {
    value.replace("\r\n", "").replace('\n', "").trim().to_owned()
}
