//! The endpoint of mailboxes.

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use clock::Millis;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use crate::access::caller::{Caller, TestCaller};
use crate::app::App;
use crate::carriers::mailboxes::ReceivedMail;
use crate::kit::page::{self, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The routes of this part.
pub(in crate::sandbox) fn routes() -> ApiRouter<App> {
    routes!(list_mailbox_messages)
}

/// An email in a mailbox, as a reader sees it.
#[derive(Serialize, ToSchema)]
struct MailboxMessage {
    /// Its id.
    #[schema(example = "mbx_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// The mailbox.
    #[schema(example = "ada@example.com")]
    recipient: String,
    /// Who it says it is from.
    from: String,
    /// To whom it says it goes.
    to: Vec<String>,
    /// Who else gets it, as it says.
    cc: Vec<String>,
    /// Where answers go.
    #[schema(required = true)]
    reply_to: Option<String>,
    /// Its subject.
    subject: String,
    /// Its plain text, the first 256 KiB.
    #[schema(required = true)]
    text: Option<String>,
    /// Its HTML, the first 256 KiB.
    #[schema(required = true)]
    html: Option<String>,
    /// Whether text or HTML are longer.
    cut: bool,
    /// Its headers, in their order.
    headers: Vec<MailboxHeader>,
    /// Its files, without their content.
    attachments: Vec<MailboxFile>,
    /// When it came.
    #[schema(format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    received_at: String,
}

/// A header of an email.
#[derive(Serialize, ToSchema)]
struct MailboxHeader {
    #[schema(example = "Reply-To")]
    name: String,
    #[schema(example = "help@shop.example")]
    value: String,
}

/// A file in an email.
#[derive(Serialize, ToSchema)]
struct MailboxFile {
    filename: String,
    content_type: String,
    /// Bytes.
    #[schema(minimum = 0)]
    size: usize,
}

impl From<ReceivedMail> for MailboxMessage {
    fn from(mail: ReceivedMail) -> Self {
        let headers = mail.headers.into_iter();
        let files = mail.attachments.into_iter();
        Self {
            id: mail.id,
            recipient: mail.recipient,
            from: mail.from,
            to: mail.to,
            cc: mail.cc,
            reply_to: mail.reply_to,
            subject: mail.subject,
            text: mail.text,
            html: mail.html,
            cut: mail.is_cut,
            headers: headers.map(|(name, value)| MailboxHeader { name, value }).collect(),
            attachments: files
                .map(|file| MailboxFile {
                    filename: file.filename,
                    content_type: file.content_type,
                    size: file.size,
                })
                .collect(),
            received_at: Millis(mail.received_at).to_string(),
        }
    }
}

/// Read a mailbox.
///
/// What it received, newest first; only messages of your own account. Messages are kept for a day.
#[endpoints::path(
    get, path = "/v1/sandbox/mailboxes/{address}/messages", tag = "Sandbox",
    params(
        ("address" = String, Path, description = "The mailbox, such as `ada@example.com`"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<MailboxMessage>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = []), ("portal_token" = []))
)]
async fn list_mailbox_messages(
    caller: Caller<TestCaller>,
    State(app): State<App>,
    Path(address): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let address = email::Address::parse(&address).map_err(|error| {
        Problem::new(Code::InvalidRequest).detail(format!("The mailbox in the path {error}."))
    })?;
    // An address may have what ends a path: `#`, `?`, `/`.
    let escaped = page::escaped(address.as_str());
    let path = format!("/v1/sandbox/mailboxes/{escaped}/messages");
    let query = Query::read(query.as_deref(), &["limit", "cursor"])?;
    let page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let found = super::received(&app, &caller.account.id, &address, &page).await?;
    let mails: Vec<MailboxMessage> = found.into_iter().map(Into::into).collect();
    Ok(page::answer(&app.vault, &path, &page, mails, |mail| mail.id.clone()))
}
