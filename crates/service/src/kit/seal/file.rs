//! The file of the master key: made once, readable by its owner only, changed only as a whole.

use std::io::{ErrorKind, Write};
use std::path::Path;

use clock::Clock;

use super::{KeyError, Ring, hex};
use crate::kit::folder;

/// What is in it.
pub(super) fn read(path: &Path) -> Result<String, KeyError> {
    std::fs::read_to_string(path).map_err(|error| failed(path, error))
}

/// What is in it; a new key when there is none. An empty file is not taken for none: where a file
/// system has no second names, another process may be about to write its key there.
pub(super) fn read_or_make(path: &Path, clock: &Clock) -> Result<String, KeyError> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(path, clock),
        other => other.map_err(|error| failed(path, error)),
    }
}

/// A new key, as text.
pub(super) fn new_key(clock: &Clock) -> String {
    let mut master = [0_u8; 32];
    clock.fill(&mut master);
    hex(&master)
}

fn make(path: &Path, clock: &Clock) -> Result<String, KeyError> {
    let text = new_key(clock);
    // Nobody sees half a key, and a disk that is full leaves none. The name has the fingerprint,
    // which no other new key has.
    let partial = path.with_extension(format!("key.{}", Ring::read(&text)?.writer().id()));
    let made = write_private(&partial, &text).and_then(|()| name_first(&partial, path, &text));
    let _removed = std::fs::remove_file(&partial);
    match made.and_then(|()| flush_folder(path)) {
        // Another process was first: its key is the key.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(path, error)),
        Ok(()) => Ok(text),
    }
}

/// Gives a file its name, unless another one has it: a rename would take its place.
fn name_first(partial: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::hard_link(partial, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without second names.
            write_private(path, text)
        }
        named => named,
    }
}

fn flush_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Puts another text in the file's place, at once: who reads it sees the one or the other. It
/// belongs to whom it belonged, also where somebody else changes it: the service has to read it.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), KeyError> {
    let path = &path.canonicalize().map_err(|error| failed(path, error))?;
    let partial = path.with_extension(format!("key.{}", std::process::id()));
    let done = write_private(&partial, text)
        .and_then(|()| belong_as(&partial, path))
        .and_then(|()| std::fs::rename(&partial, path));
    done.and_then(|()| flush_folder(path)).map_err(|error| {
        let _left = std::fs::remove_file(&partial);
        failed(path, error)
    })
}

/// Gives a file to whom another one belongs.
#[cfg(unix)]
fn belong_as(path: &Path, other: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let (is, should) = (path.metadata()?, other.metadata()?);
    if (is.uid(), is.gid()) != (should.uid(), should.gid()) {
        match std::os::unix::fs::chown(path, Some(should.uid()), Some(should.gid())) {
            // Its owner may not be of the group any more.
            Err(error)
                if error.kind() == ErrorKind::PermissionDenied && is.uid() == should.uid() =>
            {
                return Ok(());
            }
            done => done?,
        }
    }
    // A group that may read it may go on doing so.
    std::fs::set_permissions(path, should.permissions())
}

#[cfg(not(unix))]
fn belong_as(_path: &Path, _other: &Path) -> std::io::Result<()> {
    Ok(())
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _removed = std::fs::remove_file(path);
    }
    written
}

fn failed(path: &Path, error: std::io::Error) -> KeyError {
    KeyError::File(folder::shown(path).display().to_string(), error)
}

#[cfg(test)]
mod tests {
    use clock::Clock;

    use super::{read, read_or_make};

    #[test]
    fn of_many_that_make_a_key_at_once_all_get_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/master.key");
        let make = || read_or_make(&path, &Clock::system()).unwrap();
        let made: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let kept = read(&path).unwrap();
        assert!(kept.len() == 64 && made.iter().all(|key| *key == kept));
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1, "nothing beside it");
    }
}
