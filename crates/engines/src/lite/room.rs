//! Whether the disk has room for what a group of sets writes. A commit without statements writes
//! nothing, and one of a page may still fit into a log that has its length.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::backup::private;

/// What a group of sends writes to the log, bytes.
const ENOUGH: usize = 256 << 10;

/// Writes so much beside the database, and removes it again.
///
/// # Errors
/// What the file system says: it is full, read-only, or gone.
pub(super) fn find(database: &Path) -> io::Result<()> {
    let mut name = OsString::from(database);
    name.push("-room");
    let path = PathBuf::from(name);
    let written = private()
        .create(true)
        .truncate(true)
        .open(&path)
        .and_then(|mut file| file.write_all(&vec![0; ENOUGH]));
    // One that a crash has left is written over by the next look.
    let removed = match std::fs::remove_file(&path) {
        // Somebody else looked at the same time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_found_and_nothing_is_left_of_the_look() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("t.db");
        find(&database).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(folder);
        assert_eq!(find(&database).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
