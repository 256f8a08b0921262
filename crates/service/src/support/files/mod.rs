//! Attachments. What comes in is spooled into a file without a name, judged by what it is (`kinds`,
//! `preview`, `scanner`), put into the object storage (`storage`), and only then committed, with
//! its message. Objects that lead nowhere are in `object_trash` until they are gone: before an
//! upload is put, and after an attachment is deleted.

pub mod api;
mod kinds;
mod name;
mod pieces;
mod preview;
pub mod retention;
mod s3;
pub mod scanner;
pub mod storage;
mod store;
mod upload;

use std::ops::RangeInclusive;

use ::store::{CommitError, FromRow, Row, WriteSet, args};
use clock::Millis;

use self::store as sql;
use super::{Error, Reader, Side, Ticket};
use crate::app::App;
use crate::kit::id::{AccountId, FileId, TicketId};

pub use upload::{Refusal, Upload};

/// An upload that was not committed by then is not on its way any more, milliseconds.
const ABANDONED_MS: i64 = 2 * clock::HOUR;

/// An attachment as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    pub(super) account: AccountId,
    pub(super) id: FileId,
    pub(super) filename: String,
    pub(super) content_type: String,
    pub(super) size: i64,
    pub(super) has_preview: bool,
    pub(super) deleted_at: Option<Millis>,
}

impl FromRow for Attachment {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            filename: row.take(2)?,
            content_type: row.take(3)?,
            size: row.take(4)?,
            has_preview: row.take(5)?,
            deleted_at: row.take(6)?,
        })
    }
}

/// A file that is in the storage and is to be committed with a message.
#[derive(Clone, Debug)]
pub(super) struct NewFile {
    pub(super) id: FileId,
    pub(super) filename: String,
    pub(super) content_type: &'static str,
    pub(super) size: i64,
    pub(super) sha256: [u8; 32],
    pub(super) has_preview: bool,
}

/// Where an attachment is in the storage.
pub(super) fn key(account: &AccountId, id: &FileId) -> String {
    format!("support/{account}/{id}")
}

/// Where its preview is.
pub(super) fn preview_key(account: &AccountId, id: &FileId) -> String {
    format!("support/{account}/{id}.preview")
}

/// Adds a file to the set of its message, whose number the ticket's row has by then. What staff
/// send takes nothing of the account's storage.
pub(super) fn attach(app: &App, set: &mut WriteSet, ticket: &Ticket, side: Side, file: &NewFile) {
    let NewFile { id, filename, content_type, size, sha256, has_preview } = file;
    let (account, now) = (&ticket.account, app.now());
    if side == Side::User {
        let args = args![account, *size, most_bytes(app)];
        set.guard(sql::TAKE_STORAGE, args, super::STORAGE_FULL);
    }
    let row = args![
        id,
        filename.as_str(),
        *content_type,
        *size,
        *sha256,
        *has_preview,
        now,
        account,
        &ticket.id,
    ];
    set.push(sql::ATTACH, row);
    set.push(sql::UNTRASH, args![key(account, id)]);
    set.push(sql::UNTRASH, args![preview_key(account, id)]);
}

/// Refuses a file of this size that has no room beside what the account keeps. Asked before it is
/// stored: what is refused after that takes space for a while all the same.
pub(super) async fn has_room(app: &App, account: &AccountId, size: i64) -> Result<(), Error> {
    let kept: Option<(i64,)> = app.db.row(sql::KEPT, args![account]).await?;
    if kept.map_or(0, |(kept,)| kept).saturating_add(size) > most_bytes(app) {
        return Err(full());
    }
    Ok(())
}

fn full() -> Error {
    CommitError::Rejected(super::STORAGE_FULL).into()
}

fn most_bytes(app: &App) -> i64 {
    app.config.support.account_storage_mib.saturating_mul(1024 * 1024)
}

/// Nothing came of a file that is in the storage: it goes at once.
pub(super) async fn discard(app: &App, account: &AccountId, file: &FileId) {
    let mut set = WriteSet::of(account.as_str());
    for key in [key(account, file), preview_key(account, file)] {
        set.push(sql::KEEP_TRASH, args![app.now(), key]);
    }
    if let Err(error) = app.db.commit(set).await {
        tracing::debug!(%error, "a file of which nothing came goes later");
    }
}

/// An attachment that the reader may see. One of a note is none for a user.
pub(super) async fn find(app: &App, reader: Reader<'_>, id: &FileId) -> Result<Attachment, Error> {
    let found: Option<Attachment> = match reader {
        Reader::User(account) => app.db.row(sql::FILE, args![account, id]).await?,
        Reader::Staff => app.db.row(sql::FILE_BY_ID, args![id]).await?,
    };
    let file = found.ok_or(Error::Unknown)?;
    if file.deleted_at.is_some() { Err(Error::Expired) } else { Ok(file) }
}

/// Deletes the attachments of messages from one number to another: the rows say so, the objects
/// go soon.
pub(super) fn delete(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    ticket: &TicketId,
    range: RangeInclusive<i64>,
) {
    let (first, last) = range.into_inner();
    let now = app.now();
    let range = args![now, account, ticket, first, last];
    set.push(sql::TRASH, range.clone());
    set.push(sql::TRASH_PREVIEWS, range);
    set.push(sql::GIVE_STORAGE, args![account, ticket, first, last]);
    set.push(sql::DELETE, args![now, Vec::<u8>::new(), ticket, account, first, last]);
}
