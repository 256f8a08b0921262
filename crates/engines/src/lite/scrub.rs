//! Deleted rows leave the files. `secure_delete` overwrites them in their page when they are
//! deleted; here those pages reach the database, and the log that still holds the old ones is cut
//! to nothing. What a page that was once split keeps in its unused part goes when the whole file is
//! written anew. And a look for a text in the files tells whether that is needed.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::checkpoint::READERS;
use super::session::{Role, Session, unavailable};
use store::{Error, SqliteOptions};

/// How long to wait for readers of the old log, such as a backup.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(50);
/// Bytes read at a time when the files are searched.
const BLOCK: usize = 1 << 20;

/// Copies the log into the database and empties it.
pub(super) fn scrub(path: &Path, options: &SqliteOptions) -> Result<(), Error> {
    empty_log(&Session::open(path, Role::Side, options)?)
}

/// Writes the whole file anew. Needs room for it twice; writers wait, or are refused after their
/// busy timeout.
pub(super) fn compact(path: &Path, options: &SqliteOptions) -> Result<(), Error> {
    let session = Session::open(path, Role::Side, options)?;
    // The copy is as large as the database: not into memory.
    session.conn.pragma_update(None, "temp_store", "FILE").map_err(|error| unavailable(&error))?;
    session.conn.execute_batch("VACUUM").map_err(|error| unavailable(&error))?;
    empty_log(&session)
}

fn empty_log(session: &Session) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    // That long at a time: a checkpoint that waits keeps all writers waiting.
    session.conn.busy_timeout(READERS).map_err(|error| unavailable(&error))?;
    // Most of the log goes over without keeping anybody: the rest is soon done.
    let _busy = session.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    loop {
        let pragma = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = session.conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
        match busy {
            Ok(0) => return Ok(()),
            // Another checkpoint runs, or a reader needs the old log.
            Ok(_) if Instant::now() < deadline => std::thread::sleep(RETRY),
            Ok(_) => {
                let why = "the write-ahead log is in use; what was deleted leaves it later";
                return Err(Error::Unavailable(why.to_owned()));
            }
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(RETRY);
            }
            Err(error) => return Err(unavailable(&error)),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// Whether these bytes are anywhere in the files of the database.
pub(super) fn holds(path: &Path, needle: &[u8]) -> Result<bool, Error> {
    for suffix in ["", "-wal"] {
        let mut name = OsString::from(path);
        name.push(suffix);
        let found = match File::open(&name) {
            Ok(file) => file_holds(file, needle),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        if found.map_err(|error| unreadable(&error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads block by block, each with the end of the one before: the bytes may lie across both.
fn file_holds(mut file: impl Read, needle: &[u8]) -> std::io::Result<bool> {
    let overlap = needle.len().saturating_sub(1);
    let mut window = Vec::with_capacity(BLOCK + overlap);
    loop {
        let keep = window.len().min(overlap);
        window.drain(..window.len() - keep);
        let read = file.by_ref().take(BLOCK as u64).read_to_end(&mut window)?;
        if read == 0 {
            return Ok(false);
        }
        if window.windows(needle.len().max(1)).any(|bytes| bytes == needle) {
            return Ok(true);
        }
    }
}

fn unreadable(error: &std::io::Error) -> Error {
    Error::Unavailable(format!("searching the files: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, file_holds};

    #[test]
    fn bytes_are_found_wherever_they_lie() {
        for at in [0, 1, BLOCK - 3, BLOCK - 1, BLOCK, 2 * BLOCK - 2, 2 * BLOCK + 5] {
            let mut bytes = vec![b'.'; 2 * BLOCK + 20];
            assert!(!file_holds(bytes.as_slice(), b"needle").unwrap());
            bytes[at..at + 6].copy_from_slice(b"needle");
            assert!(file_holds(bytes.as_slice(), b"needle").unwrap(), "{at}");
        }
        assert!(!file_holds(&b"need"[..], b"needle").unwrap());
        assert!(file_holds(&b"needle"[..], b"needle").unwrap());
    }
}
