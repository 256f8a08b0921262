//! A copy of the database while it is in use: one read transaction, page by page, into a file
//! that has its name only once it is complete and on the disk.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::session::{Role, Session};
use super::{LiteOptions, private};
use crate::Error;

/// Keeps backups of one process that run at once apart.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// What SQLite, the file system or the store says, for one line of the log.
type Copied = Result<(), Box<dyn std::error::Error>>;

/// Copies the database at `path` to the new file `to`.
pub(super) fn copy(path: &Path, options: &LiteOptions, to: &Path) -> Result<(), Error> {
    let partial = partial(to);
    let copied = refuse_existing(to)
        .and_then(|()| fill(path, options, &partial))
        .and_then(|()| publish(&partial, to));
    if copied.is_err() {
        // Best effort: what is left has a name that nothing reads.
        let _ = std::fs::remove_file(&partial);
    }
    copied.map_err(|error| {
        tracing::warn!(%error, "a backup failed");
        Error::Unavailable(format!("backup: {error}"))
    })
}

fn partial(to: &Path) -> PathBuf {
    let copy = COPIES.fetch_add(1, Ordering::Relaxed);
    let mut name = to.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".partial-{}-{copy}", std::process::id()));
    to.with_file_name(name)
}

fn refuse_existing(to: &Path) -> Copied {
    match to.symlink_metadata() {
        Ok(_) => Err("the target exists and is not overwritten".into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn fill(path: &Path, options: &LiteOptions, partial: &Path) -> Copied {
    private().create_new(true).open(partial)?;
    let source = Session::open(path, Role::Reader, options)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags(partial, flags)?;
    // Nothing reads the copy before it is complete and flushed, so it needs no journal.
    copy.pragma_update(None, "synchronous", "OFF")?;
    copy.pragma_update(None, "journal_mode", "OFF")?;
    let backup = Backup::new(&source.conn, &mut copy)?;
    // All pages in one step: in smaller ones every commit would start the copy anew.
    if backup.step(-1)? != StepResult::Done {
        return Err("the database stayed busy".into());
    }
    drop(backup);
    copy.close().map_err(|(_, error)| error)?;
    Ok(File::open(partial)?.sync_all()?)
}

fn publish(partial: &Path, to: &Path) -> Copied {
    refuse_existing(to)?;
    std::fs::rename(partial, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
}
