//! Who serves from a database file: an advisory lock on that file itself, whatever it is called,
//! which the operating system releases when the process ends, however it ends. The system says who
//! holds it; where it does not, a file beside the database does. Other commands do not ask for the
//! lock.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use crate::backup::private;
use store::Error;

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
                return Err(Error::Reserved {
                    place,
                    holder: locker(&file).or_else(|| noted(path)),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { file })
    }
}

/// The process that holds the lock of the database at `path`, which is not asked for.
pub(super) fn holder_of(path: &Path) -> Option<u32> {
    // Never closed, see [`Lock`].
    let file = ManuallyDrop::new(File::open(path).ok()?);
    locker(&file)
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

/// Whether this process could be noted beside the database, as [`Lock::take`] does.
pub(super) fn can_note(path: &Path) -> Result<(), Error> {
    let note = beside(path);
    match private().write(true).open(&note) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Unavailable(format!("{} cannot be written: {error}", note.display())))
        }
        _ => Ok(()),
    }
}

/// `None` where the file is gone, or the other process is still at writing it.
fn noted(path: &Path) -> Option<u32> {
    std::fs::read_to_string(beside(path)).ok()?.trim().parse().ok()
}

/// The process that holds the lock, as Linux lists it in `/proc/locks`. `None` on other systems,
/// and where the process is in another namespace.
#[cfg(unix)]
fn locker(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = file.metadata().ok()?.ino();
    let look = |_| holder_in(&std::fs::read_to_string("/proc/locks").ok()?, inode);
    (0..LOOKS).find_map(look)
}

/// How often the list of locks is read before nobody holds one. It comes a page at a time, and a
/// lock that goes from the front between two pages hides one behind it: of lists of 130 locks read
/// under constant change, 5 % missed a lock that was held all along.
#[cfg(unix)]
const LOOKS: u32 = 10;

#[cfg(not(unix))]
fn locker(_file: &File) -> Option<u32> {
    None
}

/// Who holds the whole file of an inode. The device is not compared: some file systems show another
/// one here than `stat` does. Two files of one inode on two devices name nobody.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, place, ..] = words.as_slice() else { return None };
        let is_it = place.rsplit(':').next().and_then(|id| id.parse().ok()) == Some(inode);
        process.parse::<u32>().ok().filter(|process| is_it && *process > 0)
    };
    let mut found = locks.lines().filter_map(holder);
    found.next().filter(|first| found.all(|other| other == *first))
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn the_holder_is_found_among_the_locks_of_the_system() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:77 1073741826 1073742335\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 08:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE -1 08:01:78 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 08:01:79 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 15 00:2b:79 0 EOF\n";
        assert_eq!(super::holder_in(locks, 77), Some(12));
        assert_eq!(super::holder_in(locks, 78), None, "in another namespace");
        assert_eq!(super::holder_in(locks, 79), None, "one of two");
        assert_eq!(super::holder_in(locks, 7), None);
    }

    /// Without a second look it fails in its first rounds.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_lock_is_found_however_many_others_come_and_go() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let file = |name: String| std::fs::File::create(folder.path().join(name)).unwrap();
        let path = folder.path().join("estafette.db");
        std::fs::write(&path, "").unwrap();
        let lock = Lock::take(&path).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let others: Vec<_> =
                    (0..60).map(|other| file(format!("{thread}-{other}"))).collect();
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        for other in &others {
                            other.lock().unwrap();
                        }
                        for other in &others {
                            other.unlock().unwrap();
                        }
                    }
                });
            }
            let missed = (0..300).filter(|_| super::locker(&lock.file).is_none()).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }

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
        let Err(refused) = Lock::take(&path) else { panic!("two hold it") };
        if std::path::Path::new("/proc/locks").exists() {
            let told = format!("process id {}", std::process::id());
            assert!(refused.to_string().contains(&told), "{refused}");
        }
        assert!(super::holder_of(&path).is_none_or(|id| id == std::process::id()));
        drop(first);
        assert_eq!(super::holder_of(&path), None);
        assert!(Lock::take(&path).is_ok());
    }
}
