//! Attachments over HTTP.

use ::store::CommitError;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::upload::{Side, UploadSlot};
use super::{Attachment, Refusal, Upload, discard, has_room, key, preview, preview_key, storage};
use crate::access::caller::{Caller, Portal, Staff};
use crate::access::idempotency::{self, Claim, Once, Repeatable, Seen};
use crate::app::App;
use crate::kit::id::{AccountId, FileId, TicketId, TicketMessageId};
use crate::kit::page::{NoQuery, Query};
use crate::kit::posted::path_part;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::support::api::user;
use crate::support::messages::api::marked;
use crate::support::messages::{self, NewMessage, Written};
use crate::support::view::{self, AdminTicketMessageView, TicketMessageView};
use crate::support::{Author, Error, Reader, tickets};

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(
        upload_ticket_file,
        download_ticket_file,
        preview_ticket_file,
        upload_staff_file,
        download_any_ticket_file,
        preview_any_ticket_file
    )
}

/// A file for a ticket, as multipart form data.
#[derive(Deserialize, ToSchema)]
pub struct NewTicketFile {
    /// PDF, JPG, PNG, GIF or WEBP, at most 10 MiB; content, name and declared type must agree.
    #[schema(value_type = String, format = Binary)]
    pub file: Vec<u8>,
    /// Text beside it, at most 10,000 characters.
    pub message: Option<String>,
    /// Your own id of the message, 1 to 64 characters: a repeat is no second message.
    #[schema(max_length = 64)]
    pub client_message_id: Option<String>,
}

/// A file of staff for a ticket, as multipart form data.
#[derive(Deserialize, ToSchema)]
pub struct NewStaffFile {
    /// PDF, JPG, PNG, GIF or WEBP, at most 10 MiB; content, name and declared type must agree.
    #[schema(value_type = String, format = Binary)]
    pub file: Vec<u8>,
    /// Text beside it, at most 10,000 characters.
    pub message: Option<String>,
    /// Your own id of the message, 1 to 64 characters: a repeat is no second message.
    #[schema(max_length = 64)]
    pub client_message_id: Option<String>,
    /// `true`: it goes with a note that no user ever sees.
    pub internal: Option<bool>,
}

/// Upload a file.
///
/// Into a ticket, with a message or without.
#[endpoints::path(
    post, path = "/v1/support/tickets/{ticket_id}/files", tag = "Support",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
    ),
    request_body(content = NewTicketFile, content_type = "multipart/form-data"),
    extensions(("x-codes" = json!([
        Code::TicketClosed, Problem::from(super::full()), Code::FileTooLarge,
        Code::UnsupportedFileType,
    ]))),
    responses(
        (status = 200, body = TicketMessageView, description = "The message with its file"),
    ),
    security(("portal_token" = []))
)]
async fn upload_ticket_file(
    caller: Caller<Portal>,
    State(app): State<App>,
    sent: Sent,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    let author = user(&caller)?;
    let whose = Whose { reader: Reader::User(account), author, keeper: account.clone() };
    let once = take(&app, whose, sent).await?;
    let Written { message, attached, duplicate } = once.answer().clone();
    let view = view::written(&app, message, attached).await?.message;
    Ok(marked(once.map(|_| ()), duplicate, Json(view)))
}

/// Upload a file as staff.
///
/// Into any ticket, with a message or a note, or without.
#[endpoints::path(
    post, path = "/v1/admin/support/tickets/{ticket_id}/files", tag = "Operator",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
    ),
    request_body(content = NewStaffFile, content_type = "multipart/form-data"),
    extensions(("x-codes" = json!([
        Code::TicketClosed, Problem::from(messages::too_many()), Code::FileTooLarge,
        Code::UnsupportedFileType,
    ]))),
    responses(
        (status = 200, body = AdminTicketMessageView, description = "The message with its file"),
    ),
    security(("staff_token" = []))
)]
async fn upload_staff_file(
    staff: Staff,
    State(app): State<App>,
    sent: Sent,
) -> Result<Response, Problem> {
    let keeper = AccountId::stored(staff.id.to_string());
    let whose = Whose { reader: Reader::Staff, author: Author::Staff(staff.id.clone()), keeper };
    let once = take(&app, whose, sent).await?;
    let Written { message, attached, duplicate } = once.answer().clone();
    let view = view::written(&app, message, attached).await?;
    Ok(marked(once.map(|_| ()), duplicate, Json(view)))
}

/// An upload whose body has not been read yet.
struct Sent {
    ticket: TicketId,
    headers: HeaderMap,
    boundary: Option<String>,
    body: Body,
}

impl axum::extract::FromRequest<App> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        Query::read(parts.uri.query(), &[])?;
        let ticket = path_part(&mut parts, app).await?;
        let ticket = TicketId::parse(&ticket).ok_or(Code::NotFound)?;
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = kind.and_then(|kind| multer::parse_boundary(kind).ok());
        Ok(Self { ticket, headers: parts.headers, boundary, body })
    }
}

/// Who uploads, and under whose name a repeat is remembered.
struct Whose<'a> {
    reader: Reader<'a>,
    author: Author,
    keeper: AccountId,
}

/// Whoever may not write into the ticket learns that before their file is read.
async fn take(app: &App, whose: Whose<'_>, sent: Sent) -> Result<Once<Written>, Problem> {
    let Whose { reader, author, keeper } = whose;
    let Sent { ticket, headers, boundary, body } = sent;
    idempotency::check(&headers)?;
    let found = tickets::find(app, reader, &ticket).await?;
    let boundary = boundary.ok_or_else(|| {
        let detail = "Send `Content-Type: multipart/form-data` with a boundary.";
        Problem::new(Code::UnsupportedMediaType).detail(detail)
    })?;
    let side = match reader {
        Reader::User(_) => Side::Of(app.env),
        Reader::Staff => Side::Staff,
    };
    let slot = UploadSlot::take(side, &keeper)?;
    let known: &[&str] = match reader {
        Reader::User(_) => &["file", "message", "client_message_id"],
        Reader::Staff => &["file", "message", "client_message_id", "internal"],
    };
    let stream = body.into_data_stream();
    let mut upload = Upload::receive(stream, &boundary, known, app).await?;
    let route = format!("POST {ticket}/files");
    let print = upload.fingerprint();
    let request = match reader {
        Reader::User(_) => Repeatable::by_tenant(&keeper, &headers, &route, &print),
        Reader::Staff => Repeatable::by_staff(&keeper, &headers, &route, &print),
    };
    let fresh = async |claim: Claim| {
        let text = upload.message.take().unwrap_or_default();
        let client_message_id = upload.client_message_id.take();
        let public = NewMessage::public(author, text);
        let mut new = NewMessage { internal: upload.internal, client_message_id, ..public };
        if let Some(written) = messages::ahead(app, reader, &ticket, &new, &claim).await? {
            return Ok(written);
        }
        let account = &found.account;
        if matches!(reader, Reader::User(_)) {
            has_room(app, account, upload.size()).await?;
        }
        let file = upload.put(app, account, &slot).await?;
        let id = file.id.clone();
        new.file = Some(file);
        let written = messages::write(app, reader, &ticket, &new, &claim).await;
        if is_for_nothing(&written) {
            discard(app, account, &id).await;
        }
        Ok(written?)
    };
    let again = async |seen: Seen| {
        let id = TicketMessageId::stored(seen.object_id);
        let message = messages::by_id(app, reader, &id).await?;
        Ok(Written { message, attached: None, duplicate: false })
    };
    idempotency::once(app, request, fresh, again).await
}

/// Whether the file of a message is of no use, for certain.
fn is_for_nothing(written: &Result<Written, Error>) -> bool {
    match written {
        Ok(written) => written.duplicate,
        Err(Error::Commit(CommitError::Unknown(_))) => false,
        Err(_) => true,
    }
}

/// Download an attachment.
///
/// It is always answered as a file to be saved, never to be shown in place.
#[endpoints::path(
    get, path = "/v1/support-ticket-files/{file_id}", tag = "Support",
    params(("file_id" = String, Path, description = "The file")),
    extensions(("x-codes" = json!([Code::FileExpired]))),
    responses(
        (status = 200, description = "The file", content(
            (Vec<u8> = "application/pdf"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/jpeg"),
            (Vec<u8> = "image/png"), (Vec<u8> = "image/webp"))),
    ),
    security(("portal_token" = []))
)]
async fn download_ticket_file(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    original(&app, Reader::User(&caller.account.id), &id).await
}

/// Download any attachment.
#[endpoints::path(
    get, path = "/v1/admin/support-ticket-files/{file_id}", tag = "Operator",
    params(("file_id" = String, Path, description = "The file")),
    extensions(("x-codes" = json!([Code::FileExpired]))),
    responses(
        (status = 200, description = "The file", content(
            (Vec<u8> = "application/pdf"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/jpeg"),
            (Vec<u8> = "image/png"), (Vec<u8> = "image/webp"))),
    ),
    security(("staff_token" = []))
)]
async fn download_any_ticket_file(
    _staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    original(&app, Reader::Staff, &id).await
}

/// Preview an attached image.
///
/// It is small and drawn anew: nothing else that the original carries is in it. PDF files and
/// images that cannot be drawn have no preview.
#[endpoints::path(
    get, path = "/v1/support-ticket-files/{file_id}/preview", tag = "Support",
    params(("file_id" = String, Path, description = "The file")),
    extensions(("x-codes" = json!([Code::FileExpired]))),
    responses(
        (status = 200, description = "PNG, or JPEG where the original is one",
         content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"))),
    ),
    security(("portal_token" = []))
)]
async fn preview_ticket_file(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    small(&app, Reader::User(&caller.account.id), &id).await
}

/// Preview any attached image.
///
/// It is small and drawn anew.
#[endpoints::path(
    get, path = "/v1/admin/support-ticket-files/{file_id}/preview", tag = "Operator",
    params(("file_id" = String, Path, description = "The file")),
    extensions(("x-codes" = json!([Code::FileExpired]))),
    responses(
        (status = 200, description = "PNG, or JPEG where the original is one",
         content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"))),
    ),
    security(("staff_token" = []))
)]
async fn preview_any_ticket_file(
    _staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    small(&app, Reader::Staff, &id).await
}

async fn original(app: &App, reader: Reader<'_>, id: &str) -> Result<Response, Problem> {
    let id = FileId::parse(id).ok_or(Code::NotFound)?;
    let file = super::find(app, reader, &id).await?;
    let mut response = streamed(app, &key(&file.account, &id)).await?;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, value(&file.content_type));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(file.size));
    headers.insert(header::CONTENT_DISPOSITION, value(&disposition(&file)));
    Ok(response)
}

async fn small(app: &App, reader: Reader<'_>, id: &str) -> Result<Response, Problem> {
    let id = FileId::parse(id).ok_or(Code::NotFound)?;
    let file = super::find(app, reader, &id).await?;
    if !file.has_preview {
        let detail = "This file has no preview. Download the file itself.";
        return Err(Problem::new(Code::NotFound).detail(detail));
    }
    let mut response = streamed(app, &preview_key(&file.account, &id)).await?;
    let kind = preview::media_type(&file.content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let inline = HeaderValue::from_static("inline");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, inline);
    Ok(response)
}

/// An object with the headers that keep a browser from making anything else of it.
async fn streamed(app: &App, key: &str) -> Result<Response, Problem> {
    let found = storage::get(&app.storage, key).await;
    let found = found.map_err(|error| Problem::new(Code::StorageUnavailable).because(&error))?;
    let stream = found.ok_or_else(|| {
        let why = format!("{key} is not in the file storage");
        let detail = "The file is no longer in the storage. Ask the operator to restore it.";
        // It does not come back by itself.
        Problem::new(Code::StorageUnavailable).detail(detail).because(&why).for_good()
    })?;
    let mut response = Body::from_stream(stream).into_response();
    for (name, value) in [
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "private, no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// What stands escaped in a parameter of a header: more than RFC 8187 §3.2.1 asks for.
const IN_HEADERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The name twice: in ASCII for whoever knows no better, and in full (RFC 6266, RFC 8187).
fn disposition(file: &Attachment) -> String {
    let plain = |letter: char| {
        let is_plain = letter.is_ascii_alphanumeric() || "-_. ".contains(letter);
        if is_plain { letter } else { '_' }
    };
    let ascii: String = file.filename.chars().map(plain).collect();
    let full = utf8_percent_encode(&file.filename, IN_HEADERS);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{full}")
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Cut(cut) => cut.into(),
            Refusal::TooLarge => crate::kit::upload::Cut::TooLarge.into(),
            Refusal::Type(why) => Self::new(Code::UnsupportedFileType).detail(why),
            Refusal::Malformed(why) => Self::bad_request("", "invalid_type", why),
            Refusal::Odd(item) => Self::new(Code::InvalidRequest).item(item),
            Refusal::Part { field, code, detail } => {
                Self::invalid(vec![Item::at(&format!("/{field}"), code, detail)])
            }
            Refusal::Busy => {
                let detail = "Wait until this account's other uploads have finished.";
                Self::new(Code::RateLimited).detail(detail).retry_after_s(5)
            }
            Refusal::Overloaded => Code::Overloaded.into(),
            Refusal::NoScanner => {
                let detail =
                    "The virus scanner is not responding, so no file can be accepted. Try later.";
                Self::new(Code::Overloaded).detail(detail).retry_after_s(30)
            }
            Refusal::Storage(why) => Self::new(Code::StorageUnavailable).because(&why),
            Refusal::Commit(error) => error.into(),
        }
    }
}
