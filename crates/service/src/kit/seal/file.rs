//! The file of the master key: made once, readable by its owner only, changed only as a whole.

use std::io::{ErrorKind, Write};
use std::path::Path;

use clock::Clock;

use super::{KeyError, hex};

/// What is in it.
pub(super) fn read(path: &Path) -> Result<String, KeyError> {
    std::fs::read_to_string(path).map_err(|error| failed(path, error))
}

/// What is in it; a new key when there is none.
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
    match write_private(path, &text) {
        // Another process was first: its key is the key.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(path, error)),
        Ok(()) => Ok(text),
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
    let flushed = done.and_then(|()| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::File::open(folder)?.sync_all(),
        _ => Ok(()),
    });
    flushed.map_err(|error| {
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
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn failed(path: &Path, error: std::io::Error) -> KeyError {
    KeyError::File(path.display().to_string(), error)
}
