//! Mailboxes of the sandbox: what simulated people received by email, as a reader sees it.

use std::sync::Arc;

use clock::Millis;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Longest text, and longest HTML, that a mailbox keeps, bytes.
const LONGEST_BODY: usize = 256 * 1024;
/// Headers that it keeps.
const MOST_HEADERS: usize = 100;

/// What a mailbox received.
#[derive(Clone, Serialize, Deserialize)]
pub struct ReceivedMail {
    /// Its id.
    pub id: String,
    /// The envelope's recipient.
    pub recipient: String,
    /// Who it says it is from.
    pub from: String,
    /// To whom it says it goes.
    pub to: Vec<String>,
    /// Who else gets it, as it says.
    pub cc: Vec<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// Its subject.
    pub subject: String,
    /// Its plain text.
    pub text: Option<String>,
    /// Its HTML.
    pub html: Option<String>,
    /// Whether text or HTML are longer than what is kept.
    pub is_cut: bool,
    /// All headers, in their order.
    pub headers: Vec<(String, String)>,
    /// Its files.
    pub attachments: Vec<ReceivedFile>,
    /// When it came.
    pub received_at: i64,
}

/// A file in an email, without its content.
#[derive(Clone, Serialize, Deserialize)]
pub struct ReceivedFile {
    /// Its name.
    pub filename: String,
    /// Its type.
    pub content_type: String,
    /// Its size, bytes.
    pub size: usize,
}

impl ReceivedMail {
    /// What a mailbox shows of a message; `None` when it is none.
    #[must_use]
    pub fn of(id: String, recipient: &str, message: &[u8], at: Millis) -> Option<Self> {
        let read = email::read::read(message)?;
        let (text, is_text_cut) = cut(read.text);
        let (html, is_html_cut) = cut(read.html);
        let attachments = read.attachments.into_iter().map(|file| ReceivedFile {
            filename: file.filename,
            content_type: file.content_type,
            size: file.content.len(),
        });
        Some(Self {
            id,
            recipient: recipient.to_owned(),
            from: read.from,
            to: read.to,
            cc: read.cc,
            reply_to: read.reply_to,
            subject: read.subject,
            text,
            html,
            is_cut: is_text_cut || is_html_cut,
            headers: read.headers.into_iter().take(MOST_HEADERS).collect(),
            attachments: attachments.collect(),
            received_at: at.0,
        })
    }
}

fn cut(text: Option<String>) -> (Option<String>, bool) {
    let Some(mut text) = text else { return (None, false) };
    let is_long = text.len() > LONGEST_BODY;
    text.truncate(text.floor_char_boundary(LONGEST_BODY));
    (Some(text), is_long)
}

/// Where mailboxes keep what they received.
pub trait Rack: Send + Sync + 'static {
    /// Puts a message into the mailbox of `address`, for the account that sent it.
    fn deliver<'a>(
        &'a self,
        account_id: &'a str,
        address: &'a email::Address,
        mail: &'a ReceivedMail,
    ) -> BoxFuture<'a, Result<(), store::Error>>;
}

/// All mailboxes. Clones share them.
#[derive(Clone)]
pub struct Mailboxes {
    rack: Arc<dyn Rack>,
}

impl Mailboxes {
    /// Mailboxes that keep what they receive in this rack.
    #[must_use]
    pub fn on(rack: Arc<dyn Rack>) -> Self {
        Self { rack }
    }
}

impl std::ops::Deref for Mailboxes {
    type Target = dyn Rack;
    fn deref(&self) -> &Self::Target {
        &*self.rack
    }
}
