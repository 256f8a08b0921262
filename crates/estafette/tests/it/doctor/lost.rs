//! A database that was lost, taken from another program or changed by hand: neither a start nor the
//! doctor takes it for a new one.

use std::path::Path;
use std::process::Command;

use super::{examined, finding, tampered};
use crate::process::{Serving, answer, run, told};

const START: &[&str] = &["serve", "--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0"];

/// What the commands say that will not use what is there.
fn refused(folder: &Path) -> String {
    let said = [START, &["migrate"], &["audit"]].map(|arguments| {
        let done = run(folder, arguments);
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {}", told(&done));
        told(&done)
    });
    said.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_database_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("estafette.db");
    answer(folder.path(), &["migrate"]);
    for log in ["estafette.db-wal", "estafette.db-shm"] {
        let _gone = std::fs::remove_file(folder.path().join(log));
    }
    std::fs::write(&file, "").unwrap();
    let said = refused(folder.path());
    assert_eq!(said.matches("put a backup in its place").count(), 3, "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
    assert_eq!(file.metadata().unwrap().len(), 0, "nothing is made in its place");
    // A key that was put there by hand waits for its first database.
    std::fs::remove_file(&file).unwrap();
    drop(Serving::on(folder.path()));
    // An empty file without a key is nothing that was lost.
    let fresh = tempfile::tempdir().unwrap();
    std::fs::write(fresh.path().join("estafette.db"), "").unwrap();
    assert_eq!(finding(&examined(fresh.path(), &[]).0, "database").0, "warning");
    drop(Serving::on(fresh.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("estafette.db"), folder.path().join("master.key"));
    tampered(folder.path(), "CREATE TABLE notes (note TEXT)").await;
    let before = std::fs::read(&file).unwrap();
    // Whether or not there is a key: it would not be that of this file.
    for has_key in [false, true] {
        if has_key {
            std::fs::write(&key, "7b".repeat(32)).unwrap();
        }
        let said = refused(folder.path());
        assert_eq!(said.matches("it has the table notes").count(), 3, "{said}");
        assert_eq!(said.matches("-> name another place with --data-dir").count(), 3, "{said}");
        let (seen, code) = examined(folder.path(), &[]);
        assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
        assert!(before == std::fs::read(&file).unwrap(), "it was changed");
        assert_eq!(key.exists(), has_key, "a key was made");
    }
}

#[test]
fn a_file_that_is_no_database_is_told_of_before_its_key() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("estafette.db"), "a letter to somebody").unwrap();
    let said = refused(folder.path());
    assert_eq!(said.matches("file is not a database").count(), 3, "{said}");
    assert_eq!(said.matches("-> put a backup in its place").count(), 3, "{said}");
    // The control: of a database of ours it is the key that is missing.
    let ours = tempfile::tempdir().unwrap();
    answer(ours.path(), &["migrate"]);
    std::fs::remove_file(ours.path().join("master.key")).unwrap();
    assert_eq!(refused(ours.path()).matches("the master key is missing").count(), 3);
}

#[test]
fn a_first_start_without_room_leaves_no_half_of_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_estafette");
    // Files may have no byte, as on a disk that is full.
    let mut full = Command::new("sh");
    full.args(["-c", "ulimit -f 0; exec \"$0\" --data-dir \"$1\" migrate", program]);
    let done = full.arg(folder.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    assert!(told(&done).contains("master.key"), "{}", told(&done));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "something is left");
    answer(folder.path(), &["migrate"]);
    assert_eq!(std::fs::read(folder.path().join("master.key")).unwrap().len(), 64);
}

#[test]
fn an_empty_key_where_nothing_was_is_told_how_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("master.key"), "").unwrap();
    let said = [START, &["migrate"]].map(|arguments| told(&run(folder.path(), arguments)));
    for said in said {
        assert!(said.contains("-> put a good key in its place, or remove it"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_somebody_changed_is_an_error() {
    for (change, says) in [
        ("DELETE FROM schema_migrations", "schema_migrations names no version"),
        ("DROP TABLE challenges", "it lacks the table challenges"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        answer(folder.path(), &["migrate"]);
        let (whole, code) = examined(folder.path(), &[]);
        assert_eq!((code, finding(&whole, "writes").0), (0, "ok"), "{whole}");
        tampered(folder.path(), change).await;
        let (seen, code) = examined(folder.path(), &[]);
        let (health, found) = finding(&seen, "writes");
        assert!(code == 1 && health == "error" && found.contains(says), "{change}: {seen}");
        assert!(!seen.to_string().contains("there are no tables yet"), "{change}: {seen}");
        let said = refused(folder.path());
        assert_eq!(said.matches(says).count(), 3, "{change}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_before_an_upgrade_is_one_that_the_old_program_reads() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let undone = "DELETE FROM schema_migrations WHERE version = 54";
    tampered(folder.path(), undone).await;
    tampered(folder.path(), "DROP INDEX idempotency_refused").await;
    let is_old = |folder: &Path| {
        let (seen, _) = examined(folder, &[]);
        let (health, found) = finding(&seen, "schema");
        assert!(health == "warning" && found.contains("version 53"), "{seen}");
    };
    is_old(folder.path());
    let copy = folder.path().join("copy/estafette.db");
    std::fs::create_dir(copy.parent().unwrap()).unwrap();
    answer(folder.path(), &["backup", copy.to_str().unwrap()]);
    is_old(folder.path());
    std::fs::copy(folder.path().join("master.key"), folder.path().join("copy/master.key")).unwrap();
    is_old(copy.parent().unwrap());
    // Control: the next command brings it up to date.
    answer(folder.path(), &["audit"]);
    let (seen, _) = examined(folder.path(), &[]);
    assert_eq!(finding(&seen, "schema").0, "ok", "{seen}");
}
