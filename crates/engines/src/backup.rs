//! A backup is one new file: it has its name only once it is complete and on the disk, and nothing
//! is overwritten.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use store::Error;

/// Keeps backups of one process that run at once apart.
static COPIES: AtomicU64 = AtomicU64::new(0);

const EXISTS: &str = "the target exists and is not overwritten";

/// What SQLite, the file system or the store says, for one line of the log.
pub(crate) type Copied = Result<(), Box<dyn std::error::Error>>;

/// Lets `fill` write a file of another name, and gives it the name `to` when that worked.
pub(crate) fn publish(to: &Path, fill: impl FnOnce(&Path) -> Copied) -> Result<(), Error> {
    let partial = partial(to);
    let copied = refuse_existing(to)
        .and_then(|()| Ok(private().create_new(true).open(&partial).map(drop)?))
        .and_then(|()| fill(&partial))
        .and_then(|()| rename(&partial, to));
    if copied.is_err() {
        // Best effort: what is left has a name that nothing reads.
        let _left = std::fs::remove_file(&partial);
    }
    copied.map_err(|error| {
        tracing::warn!(%error, "a backup failed");
        Error::Unavailable(format!("backup: {error}"))
    })
}

/// Opens for writing what only the owner may read.
pub(crate) fn private() -> std::fs::OpenOptions {
    let mut open = std::fs::OpenOptions::new();
    open.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    open
}

fn partial(to: &Path) -> PathBuf {
    let copy = COPIES.fetch_add(1, Ordering::Relaxed);
    let mut name = to.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".partial-{}-{copy}", std::process::id()));
    to.with_file_name(name)
}

fn refuse_existing(to: &Path) -> Copied {
    match to.symlink_metadata() {
        Ok(_) => Err(EXISTS.into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn rename(partial: &Path, to: &Path) -> Copied {
    File::open(partial)?.sync_all()?;
    // A link, for a name cannot be taken twice: of two backups at once the second is refused.
    match std::fs::hard_link(partial, to) {
        Ok(()) => std::fs::remove_file(partial)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(EXISTS.into());
        }
        // Some file systems know no links.
        Err(_) => {
            refuse_existing(to)?;
            std::fs::rename(partial, to)?;
        }
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
}
