//! Directories as a start would find them, without making any.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// What a directory is good for.
pub(crate) enum Folder {
    /// This user may make files in it.
    Usable,
    /// It is not there; this user may make it.
    Missing,
    /// It is there, and this user may make no files in it.
    Closed(Closed),
    /// No start could use it.
    Useless(Useless),
}

/// Why a directory can neither be used nor made, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{found}")]
pub(crate) struct Useless {
    pub(crate) found: String,
    pub(crate) remedy: &'static str,
}

/// Why no files can be made in a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    ReadOnly,
    Denied,
}

impl Closed {
    const fn of(why: Errno) -> Self {
        match why {
            Errno::ROFS => Self::ReadOnly,
            _ => Self::Denied,
        }
    }

    /// Behind the name of the directory.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::ReadOnly => "is on a file system that is mounted read-only",
            Self::Denied => "cannot be written by this user",
        }
    }

    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::ReadOnly => WRITABLE,
            Self::Denied => {
                "run this as the service's user (sudo -u estafette estafette …), or give that user \
                 the directory"
            }
        }
    }
}

/// What to do about a file system that is mounted read-only.
pub(crate) const WRITABLE: &str = "mount it writable (in a unit file: ReadWritePaths=), or name \
                                   another place";
const ELSEWHERE: &str = "move it away, or name another place";
const OWNER: &str = "run this as the service's user (sudo -u estafette estafette …), or let this \
                     user enter the directory";

/// The path as an operator can find it.
pub(crate) fn shown(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What keeps a file that is missing from being made in a directory, if anything does.
pub(crate) fn obstacle(folder: &Path) -> Option<Useless> {
    match look(folder) {
        Folder::Useless(why) => Some(why),
        Folder::Closed(why) => {
            let found = format!("{} {}", shown(folder).display(), why.words());
            Some(Useless { found, remedy: why.remedy() })
        }
        Folder::Usable | Folder::Missing => None,
    }
}

/// Looks at a directory and, where it is missing, at those above it.
pub(crate) fn look(folder: &Path) -> Folder {
    let folder = shown(folder);
    match folder.metadata() {
        Ok(metadata) if !metadata.is_dir() => {
            useless(format!("{} is not a directory", folder.display()), ELSEWHERE)
        }
        // What is in it cannot be told, not even whether it is there.
        Ok(_) if access(&folder, Access::EXEC_OK) == Err(Errno::ACCESS) => {
            useless(format!("{} may not be entered by this user", folder.display()), OWNER)
        }
        Ok(_) => match access(&folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Folder::Usable,
            Err(why) => Folder::Closed(Closed::of(why)),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            useless(format!("{} is out of this user's reach", folder.display()), OWNER)
        }
        Err(_) => missing(&folder),
    }
}

/// Whether a directory that is not there can be made.
fn missing(folder: &Path) -> Folder {
    // A link that leads nowhere is there, and what it leads to is not.
    let there = folder.ancestors().find(|above| above.symlink_metadata().is_ok());
    let there = there.unwrap_or_else(|| Path::new("/"));
    let at = there.display();
    if there.metadata().is_err() {
        let found = format!("{at} is a symbolic link to a place that does not exist");
        return useless(found, "make that place, or remove the link");
    }
    if !there.is_dir() {
        return useless(format!("{at} is not a directory"), ELSEWHERE);
    }
    let cannot = |why: &str, remedy| {
        let found = format!("{} does not exist and cannot be made: {at} {why}", folder.display());
        useless(found, remedy)
    };
    match access(there, Access::WRITE_OK | Access::EXEC_OK).map_err(Closed::of) {
        Err(Closed::ReadOnly) => cannot(Closed::ReadOnly.words(), WRITABLE),
        Err(Closed::Denied) => cannot(
            Closed::Denied.words(),
            "make it for the user of the service, or name another place",
        ),
        // Even for the superuser, who may write everywhere.
        Ok(()) if there.starts_with("/proc") || there.starts_with("/sys") => {
            cannot("is no place for files", "name another place")
        }
        Ok(()) => Folder::Missing,
    }
}

fn useless(found: String, remedy: &'static str) -> Folder {
    Folder::Useless(Useless { found, remedy })
}

#[cfg(test)]
mod tests {
    use super::{Folder, Useless, look};

    #[test]
    fn what_is_in_the_way_of_a_directory_is_named() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        assert!(matches!(look(place.path()), Folder::Usable));
        assert!(matches!(look(&at("new/below")), Folder::Missing));
        for (name, told) in [
            ("file", "file is not a directory"),
            ("file/below", "file is not a directory"),
            ("link", "link is a symbolic link to a place that does not exist"),
            ("link/below", "link is a symbolic link"),
        ] {
            let Folder::Useless(Useless { found, .. }) = look(&at(name)) else { panic!("{name}") };
            assert!(found.contains(told), "{name}: {found}");
        }
    }
}
