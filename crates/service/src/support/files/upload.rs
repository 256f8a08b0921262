//! An upload on its way: its parts as they come, then the judgement of the file.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::store::{CommitError, WriteSet, args};
use futures_util::Stream;
use hyper::body::Bytes;
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufWriter};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::kinds::FileKind;
use super::pieces::{Held, Loose, pieces};
use super::preview::{self, Drawn};
use super::scanner::{self, Scan};
use super::{ABANDONED_MS, NewFile, key, name, preview_key, storage, store as sql};
use crate::app::{App, Env};
use crate::kit::id::{AccountId, FileId};
use crate::kit::json;
use crate::kit::problem::Item;
use crate::kit::upload::{Cut, MOST_FILE_BYTES};
use crate::support::LONGEST_MESSAGE;

/// Uploads of one side at the same time, and of one account.
const MOST_AT_ONCE: usize = 64;
const MOST_OF_ACCOUNT: usize = 4;
/// Files of one side that are judged at the same time: each is in memory for that.
const MOST_JUDGED: usize = 2;
static OF_LIVE: Room = Room::new();
static OF_SANDBOX: Room = Room::new();
static OF_STAFF: Room = Room::new();
static BY_ACCOUNT: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);

/// Why an upload is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The body ended before its end.
    #[error(transparent)]
    Cut(#[from] Cut),
    /// The file is larger than [`MOST_FILE_BYTES`].
    #[error("the file is too large")]
    TooLarge,
    /// It is of no type that is taken, or not of the one it says; why.
    #[error("{0}")]
    Type(String),
    /// The body is not multipart as it should be; why.
    #[error("{0}")]
    Malformed(String),
    /// It is, and a part of it should not be there.
    #[error("{} {}", .0.pointer, .0.detail)]
    Odd(Item),
    /// One part is missing or wrong.
    #[error("{field} {detail}")]
    Part {
        /// Its name.
        field: &'static str,
        /// The item's code.
        code: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// The account has as many uploads under way as it may.
    #[error("too many uploads at the same time")]
    Busy,
    /// The process has.
    #[error("too many uploads at the same time on this node")]
    Overloaded,
    /// The virus scanner did not judge it.
    #[error("the virus scanner is not responding")]
    NoScanner,
    /// The storage failed.
    #[error("the file storage failed: {0}")]
    Storage(String),
    /// The database failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// What came.
#[derive(Debug, Default)]
pub struct Upload {
    /// The text beside the file.
    pub message: Option<String>,
    /// The client's own id of the message.
    pub client_message_id: Option<String>,
    /// Whether it goes with a note.
    pub internal: bool,
    file: Option<Spooled>,
}

/// A file that has come as a whole.
#[derive(Debug)]
struct Spooled {
    file: File,
    filename: String,
    declared: Option<String>,
    size: usize,
    sha256: [u8; 32],
}

/// Who uploads. What one side does keeps no other from it: anybody may have accounts of the
/// sandbox.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    /// A tenant of an environment.
    Of(Env),
    /// Staff, at whichever address.
    Staff,
}

impl Side {
    const fn room(self) -> &'static Room {
        match self {
            Self::Of(Env::Live) => &OF_LIVE,
            Self::Of(Env::Sandbox) => &OF_SANDBOX,
            Self::Staff => &OF_STAFF,
        }
    }
}

/// What this process has for the uploads of one side.
struct Room {
    coming: Semaphore,
    judging: Semaphore,
}

impl Room {
    const fn new() -> Self {
        let (coming, judging) =
            (Semaphore::const_new(MOST_AT_ONCE), Semaphore::const_new(MOST_JUDGED));
        Self { coming, judging }
    }
}

/// A place among the uploads, free again when dropped.
#[derive(Debug)]
pub(super) struct UploadSlot {
    account: String,
    side: Side,
    _of_node: SemaphorePermit<'static>,
}

impl UploadSlot {
    /// One for an account, unless there are too many.
    ///
    /// # Errors
    /// [`Refusal::Busy`], [`Refusal::Overloaded`].
    pub(super) fn take(side: Side, account: &AccountId) -> Result<Self, Refusal> {
        let of_node = side.room().coming.try_acquire().map_err(|_| Refusal::Overloaded)?;
        let mut all = BY_ACCOUNT.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.get_or_insert_default().entry(account.to_string()).or_default();
        if *count >= MOST_OF_ACCOUNT {
            return Err(Refusal::Busy);
        }
        *count += 1;
        Ok(Self { account: account.to_string(), side, _of_node: of_node })
    }
}

impl Drop for UploadSlot {
    fn drop(&mut self) {
        let mut all = BY_ACCOUNT.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        let left = all.get(&self.account).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            all.remove(&self.account);
        } else {
            all.insert(self.account.clone(), left);
        }
    }
}

impl Upload {
    /// Reads all parts. `known` are the names of those that may come; others are refused where the
    /// service is strict.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn receive<E>(
        body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
        boundary: &str,
        known: &[&str],
        app: &App,
    ) -> Result<Self, Refusal>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let held = Held::default();
        let mut parts = multer::Multipart::new(pieces(body, &held), boundary);
        let mut upload = Self::default();
        let mut seen: Vec<String> = Vec::new();
        while let Some(field) = parts.next_field().await.map_err(|error| broken(&error))? {
            held.gave();
            let part = Part { field, held: &held };
            let name = part.field.name().unwrap_or_default().to_owned();
            let shown: String = name.chars().take(64).collect();
            if seen.contains(&name) {
                return Err(odd(&shown, "invalid_type", "must come once".to_owned()));
            }
            if seen.len() >= 20 {
                return Err(Refusal::Malformed("There are too many parts.".to_owned()));
            }
            match name.as_str() {
                "file" => upload.file = Some(spool(app, part).await?),
                "message" => upload.message = text(part, "message", LONGEST_MESSAGE).await?,
                "client_message_id" => {
                    upload.client_message_id = text(part, "client_message_id", 64).await?;
                }
                "internal" if known.contains(&"internal") => {
                    upload.internal = flag(part, "internal").await?;
                }
                _ if app.is_strict() => {
                    let known = known.join(", ");
                    let detail = format!("is not a part of this request; known: {known}");
                    return Err(odd(&shown, "unknown_field", detail));
                }
                _ => part.pass().await?,
            }
            seen.push(name);
        }
        if upload.file.is_none() {
            let detail = "is required: one part with a file name".to_owned();
            return Err(Refusal::Part { field: "file", code: "required", detail });
        }
        Ok(upload)
    }

    /// What tells this upload from another one under the same `Idempotency-Key`.
    #[must_use]
    pub fn fingerprint(&self) -> Vec<u8> {
        let sha256 = self.file.as_ref().map(|file| file.sha256).unwrap_or_default();
        let name = self.file.as_ref().map_or("", |file| file.filename.as_str());
        let [message, client_id] = [&self.message, &self.client_message_id];
        let words = [message, client_id].map(|word| word.as_deref().unwrap_or(""));
        let words = [words[0], words[1], name];
        let internal = [u8::from(self.internal)];
        [&sha256[..], &internal, words.join("\u{1f}").as_bytes()].concat()
    }

    /// How large the file is, bytes.
    pub(super) fn size(&self) -> i64 {
        let size = self.file.as_ref().map_or(0, |file| file.size);
        i64::try_from(size).unwrap_or(i64::MAX)
    }

    /// Judges the file and puts it into the storage, where it stays once it is committed.
    pub(super) async fn put(
        &mut self,
        app: &App,
        account: &AccountId,
        slot: &UploadSlot,
    ) -> Result<NewFile, Refusal> {
        let Some(mut spooled) = self.file.take() else { return Err(Refusal::Overloaded) };
        // Whoever waits for longer than for a request has left, or repeats it: a slow body had its
        // own time.
        let patience = Duration::from_millis(app.config.server.request_timeout_ms);
        let turn = timeout(patience, slot.side.room().judging.acquire()).await;
        let _turn = turn.map_err(|_| Refusal::Overloaded)?;
        let bytes =
            whole(&mut spooled).await.map_err(|error| Refusal::Storage(error.to_string()))?;
        let kind = judged(&bytes, &spooled)?;
        let preview = match preview::draw(kind, bytes.clone()).await {
            Drawn::Preview(preview) => Some(preview),
            Drawn::None => None,
            Drawn::TooLarge => return Err(Refusal::Type(preview::TOO_LARGE.to_owned())),
        };
        let settings = &app.config.support;
        let patience = Duration::from_millis(settings.clamd_timeout_ms);
        match scanner::look(&settings.clamd, patience, &bytes).await {
            Scan::Clean => {}
            Scan::Infected(name) => {
                tracing::warn!(account = %account, name, "an infected file was refused");
                return Err(Refusal::Type(format!("The virus scanner found {name}.")));
            }
            Scan::Silent => return Err(Refusal::NoScanner),
        }
        let file = NewFile {
            id: FileId::new(&app.clock),
            filename: name::tidied(&spooled.filename, kind),
            content_type: kind.media_type(),
            size: i64::try_from(spooled.size).unwrap_or(i64::MAX),
            sha256: spooled.sha256,
            has_preview: preview.is_some(),
        };
        store(app, account, &file, bytes, preview).await?;
        Ok(file)
    }
}

/// First the note that leads to the objects, then the objects: whatever ends the process, none is
/// left that nothing leads to.
async fn store(
    app: &App,
    account: &AccountId,
    file: &NewFile,
    bytes: Bytes,
    preview: Option<Vec<u8>>,
) -> Result<(), Refusal> {
    let (own, small) = (key(account, &file.id), preview_key(account, &file.id));
    let due = app.now() + ABANDONED_MS;
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::WILL_PUT, args![own.as_str(), due]);
    set.push(sql::WILL_PUT, args![small.as_str(), due]);
    app.db.commit(set).await?;
    let failed = |error: object_store::Error| Refusal::Storage(error.to_string());
    storage::put(&app.storage, &own, bytes).await.map_err(failed)?;
    if let Some(preview) = preview {
        storage::put(&app.storage, &small, preview.into()).await.map_err(failed)?;
    }
    Ok(())
}

/// Content, extension and declared type must say the same.
fn judged(bytes: &[u8], spooled: &Spooled) -> Result<FileKind, Refusal> {
    let kind = FileKind::of(bytes).map_err(|why| Refusal::Type(format!("The file {why}.")))?;
    let extension = name::extension(&spooled.filename);
    if !kind.extensions().contains(&extension.as_str()) {
        let (is, wanted) = (kind.media_type(), kind.extensions().join(" or ."));
        let why = format!("The file is {is}, so its name must end with .{wanted}.");
        return Err(Refusal::Type(why));
    }
    match &spooled.declared {
        Some(declared) if !kind.is_declared_as(declared) => {
            let is = kind.media_type();
            Err(Refusal::Type(format!("The file is {is}; declare the part as that.")))
        }
        _ => Ok(kind),
    }
}

async fn whole(spooled: &mut Spooled) -> std::io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(spooled.size);
    spooled.file.rewind().await?;
    spooled.file.read_to_end(&mut bytes).await?;
    Ok(bytes.into())
}

/// A part as it comes.
struct Part<'a> {
    field: multer::Field<'static>,
    held: &'a Held,
}

impl Part<'_> {
    async fn chunk(&mut self) -> Result<Option<Bytes>, Refusal> {
        let chunk = self.field.chunk().await.map_err(|error| broken(&error))?;
        self.held.gave();
        Ok(chunk)
    }

    /// Reads over it.
    async fn pass(mut self) -> Result<(), Refusal> {
        while self.chunk().await?.is_some() {}
        Ok(())
    }
}

/// Writes a part into a file that has no name, and ends with the process.
async fn spool(app: &App, mut part: Part<'_>) -> Result<Spooled, Refusal> {
    let failed = |error: std::io::Error| Refusal::Storage(error.to_string());
    let Some(filename) = part.field.file_name().map(str::to_owned) else {
        let detail = "must be a part with a file name in UTF-8".to_owned();
        return Err(Refusal::Part { field: "file", code: "invalid_type", detail });
    };
    // multer takes text/plain for granted where nothing is declared.
    let declared = part.field.headers().get("content-type");
    let declared = declared.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
    let file = File::from_std(nameless(&app.config.data_dir).map_err(failed)?);
    let mut out = BufWriter::with_capacity(64 * 1024, file);
    let (mut size, mut hasher) = (0, Sha256::new());
    while let Some(chunk) = part.chunk().await? {
        size += chunk.len();
        if size > MOST_FILE_BYTES {
            return Err(Refusal::TooLarge);
        }
        hasher.update(&chunk);
        out.write_all(&chunk).await.map_err(failed)?;
    }
    out.flush().await.map_err(failed)?;
    let sha256 = hasher.finalize().into();
    Ok(Spooled { file: out.into_inner(), filename, declared, size, sha256 })
}

/// A file without a name, in the data directory: the system's own directory for such files may be
/// missing (in a container), or memory.
fn nameless(data_dir: &std::path::Path) -> std::io::Result<std::fs::File> {
    std::fs::create_dir_all(data_dir)?;
    tempfile::tempfile_in(data_dir)
}

/// A part that is text; an empty one is none.
async fn text(
    mut part: Part<'_>,
    field: &'static str,
    most: usize,
) -> Result<Option<String>, Refusal> {
    let fault = |code, detail: String| Refusal::Part { field, code, detail };
    let mut bytes = Vec::new();
    while let Some(chunk) = part.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > most * 4 {
            return Err(fault("too_long", format!("must have at most {most} characters")));
        }
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| fault("invalid_type", "must be UTF-8".to_owned()))?;
    if text.contains('\0') {
        return Err(fault("invalid_type", "must not contain the NUL character".to_owned()));
    }
    if text.chars().count() > most {
        return Err(fault("too_long", format!("must have at most {most} characters")));
    }
    Ok((!text.trim().is_empty()).then_some(text))
}

/// A part that is `true` or `false`. What is neither must not pass for one of them: a note would
/// become public.
async fn flag(part: Part<'_>, field: &'static str) -> Result<bool, Refusal> {
    match text(part, field, 5).await?.as_deref() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) | None => {
            let detail = "must be true or false".to_owned();
            Err(Refusal::Part { field, code: "invalid_type", detail })
        }
    }
}

/// A part that should not be there.
fn odd(name: &str, code: &'static str, detail: String) -> Refusal {
    Refusal::Odd(Item::at(&format!("/{}", json::escaped(name)), code, detail))
}

/// What the parser says, or why the body under it ended.
fn broken(error: &multer::Error) -> Refusal {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = match error {
        multer::Error::StreamReadFailed(cause) => Some(&**cause),
        _ => None,
    };
    while let Some(inner) = cause {
        if let Some(cut) = inner.downcast_ref::<Cut>() {
            return Refusal::Cut(*cut);
        }
        if let Some(loose) = inner.downcast_ref::<Loose>() {
            return Refusal::Malformed(format!("The multipart body is malformed: {loose}."));
        }
        cause = inner.source();
    }
    Refusal::Malformed(format!("The multipart body is malformed: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_of_the_sandbox_keep_nobody_else_from_uploading() {
        let account = |number: usize| AccountId::stored(format!("acc_{number}"));
        let (sandbox, live) = (Side::Of(Env::Sandbox), Side::Of(Env::Live));
        let all: Vec<UploadSlot> = (0..MOST_AT_ONCE)
            .map(|number| UploadSlot::take(sandbox, &account(number / MOST_OF_ACCOUNT)).unwrap())
            .collect();
        let another = UploadSlot::take(sandbox, &account(MOST_AT_ONCE));
        assert!(matches!(another, Err(Refusal::Overloaded)));
        for side in [live, Side::Staff] {
            let one = UploadSlot::take(side, &account(MOST_AT_ONCE)).unwrap();
            assert_eq!(one.side.room().judging.available_permits(), MOST_JUDGED);
        }
        assert!(UploadSlot::take(sandbox, &account(MOST_AT_ONCE)).is_err());
        drop(all);
        assert!(UploadSlot::take(sandbox, &account(MOST_AT_ONCE)).is_ok());
    }
}
