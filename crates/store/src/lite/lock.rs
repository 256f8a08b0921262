//! Who serves from a database file: an advisory lock on that file itself, whatever it is called,
//! which the operating system releases when the process ends, however it ends. A file beside it
//! names the holder. Other commands do not ask for the lock.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::backup::private;

/// Held until it is dropped.
pub(super) struct Lock {
    /// Never closed: that would release SQLite's own locks on the file, which POSIX gives to the
    /// process and not to a descriptor (fcntl(2), "advisory record locks").
    file: ManuallyDrop<File>,
}

impl Lock {
    /// Takes the lock of the database at `path`, and notes this process beside it.
    ///
    /// # Errors
    /// [`Error::Reserved`], with the process that was noted; [`Error::Unavailable`].
    pub(super) fn take(path: &Path) -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::Unavailable(format!("the lock of {}: {error}", path.display()))
        };
        let file = ManuallyDrop::new(File::open(path).map_err(failed)?);
        match file.try_lock() {
            Ok(()) => note(path).map_err(failed)?,
            Err(TryLockError::WouldBlock) => {
                let place = path.display().to_string();
                return Err(Error::Reserved { place, holder: holder(path) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only a lock that is not held cannot be released.
        let _ = self.file.unlock();
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

/// The process id is for people: what counts is the lock, so the file stays when it is released.
fn note(path: &Path) -> std::io::Result<()> {
    let mut file = private().write(true).create(true).truncate(true).open(beside(path))?;
    writeln!(file, "{}", std::process::id())
}

/// `None` where the file is gone, or the other process is still at writing it.
fn holder(path: &Path) -> Option<u32> {
    std::fs::read_to_string(beside(path)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn a_lock_names_its_holder_and_is_free_once_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("estafette.db");
        std::fs::write(&path, "").unwrap();
        let first = Lock::take(&path).unwrap();
        let Err(refused) = Lock::take(&path) else { panic!("two hold it") };
        assert!(refused.to_string().contains(&format!("process id {}", std::process::id())));
        // Neither another name nor the missing note lets a second one in.
        let other = folder.path().join("other.db");
        std::fs::hard_link(&path, &other).unwrap();
        assert!(Lock::take(&other).is_err());
        std::fs::remove_file(super::beside(&path)).unwrap();
        assert!(Lock::take(&path).is_err());
        drop(first);
        assert!(Lock::take(&path).is_ok());
    }
}
