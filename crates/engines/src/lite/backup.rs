//! A copy of the database while it is in use: one read transaction, page by page.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::session::{Role, Session};
use crate::backup::{Copied, publish};
use store::{Error, SqliteOptions};

/// Copies the database at `path` to the new file `to`.
pub(super) fn copy(path: &Path, options: &SqliteOptions, to: &Path) -> Result<(), Error> {
    publish(to, |partial| fill(path, options, partial))
}

/// An empty file as a database that nothing reads before it is complete and flushed, so that it
/// needs no journal.
pub(crate) fn blank(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let blank = Connection::open_with_flags(file, flags)?;
    blank.pragma_update(None, "synchronous", "OFF")?;
    blank.pragma_update(None, "journal_mode", "OFF")?;
    Ok(blank)
}

fn fill(path: &Path, options: &SqliteOptions, partial: &Path) -> Copied {
    let source = Session::open(path, Role::Reader, options)?;
    let mut copy = blank(partial)?;
    let backup = Backup::new(&source.conn, &mut copy)?;
    // All pages in one step: in smaller ones every commit would start the copy anew.
    if backup.step(-1)? != StepResult::Done {
        return Err("the database stayed busy".into());
    }
    drop(backup);
    copy.close().map_err(|(_, error)| error)?;
    Ok(())
}
