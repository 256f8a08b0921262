//! Signals: what ends the program does so in good order, and what need not end it does not.

use std::process::Command;

use crate::process::{Serving, estafette, run, told};
use crate::world::eventually;

/// Sends a signal by its name.
fn send(signal: &str, to: &Serving) {
    let told = Command::new("kill").args([signal, &to.id().to_string()]).status().unwrap();
    assert!(told.success());
}

/// The program by way of another one that runs it with the same process id.
fn by_way_of(shell: &str, folder: &std::path::Path) -> Command {
    let mut command = Command::new("sh");
    command.env_clear().args(["-c", &format!("{shell}; exec \"$0\" \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_estafette")).arg("--data-dir").arg(folder);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_goes_away_stops_the_service_in_good_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = estafette(folder.path());
    command.env("ESTAFETTE__SERVER__DRAIN_ACCEPT_MS", "3000");
    let serving = Serving::of(command);
    send("-HUP", &serving);
    let is_draining = async || {
        let (status, said) = serving.ask("/readyz").await?;
        (status == 503 && said.contains("draining")).then_some(())
    };
    eventually(is_draining).await;
    // The shell says it as well: that is no haste.
    send("-HUP", &serving);
    let (code, said) = serving.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopping") && said.contains("stopped"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_told_to_outlive_the_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::of(by_way_of("trap '' HUP", folder.path()));
    send("-HUP", &serving);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(serving.get("/readyz").await.status, 200);
    serving.terminate();
    assert_eq!(serving.end().0, Some(0));
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_sudden_end() {
    let folder = tempfile::tempdir().unwrap();
    let done = by_way_of("ulimit -f 16", folder.path()).arg("migrate").output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{:?}: {}", done.status, told(&done));
    assert!(told(&done).contains("error: "), "{}", told(&done));
    let whole = run(folder.path(), &["migrate"]);
    assert!(whole.status.success(), "{}", told(&whole));
}
