//! Who serves from a database file: an advisory lock on a file beside it, which the operating
//! system releases when the process ends, however it ends. Other commands do not ask for it.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::backup::private;

/// Held until it is dropped.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the database at `path`, and notes this process in it.
    ///
    /// # Errors
    /// [`Error::Reserved`], with the process that was noted; [`Error::Unavailable`].
    pub(super) fn take(path: &Path) -> Result<Self, Error> {
        let place = beside(path);
        let failed = |error: std::io::Error| {
            Error::Unavailable(format!("the lock {}: {error}", place.display()))
        };
        let open = private().read(true).create(true).truncate(false).open(&place);
        let mut file = open.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => note(&mut file).map_err(failed)?,
            Err(TryLockError::WouldBlock) => {
                let place = path.display().to_string();
                return Err(Error::Reserved { place, holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { _file: file })
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

/// The process id is for people: what counts is the lock, so the file may stay when it is released.
fn note(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// `None` while the other process is still at writing it.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn a_lock_names_its_holder_and_is_free_once_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("estafette.db");
        let first = Lock::take(&path).unwrap();
        let Err(refused) = Lock::take(&path) else { panic!("two hold it") };
        assert!(refused.to_string().contains(&format!("process id {}", std::process::id())));
        drop(first);
        assert!(Lock::take(&path).is_ok());
    }
}
