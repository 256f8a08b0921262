//! What becomes of a command's answer: it is read, or the command has failed.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use crate::process::{Serving, answer, estafette, told};

/// An answer that a full disk did not take would be thought given: a key that is lost, a backup.
#[test]
fn an_answer_that_nobody_will_read_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let onto = |out: Stdio, arguments: &[&str]| {
        estafette(folder.path()).args(arguments).stdout(out).output().unwrap()
    };
    let full = || Stdio::from(std::fs::File::create("/dev/full").unwrap());
    let lost = |arguments: &[&str]| {
        let done = onto(full(), arguments);
        assert_eq!(done.status.code(), Some(1), "{arguments:?}");
        let said = told(&done);
        let why = "cannot write to the standard output: No space left on device";
        assert!(said.contains(why), "{arguments:?}: {said}");
        said
    };
    answer(folder.path(), &["migrate"]);
    let said = lost(&["account", "add", "--email", "ada@example.com"]);
    let listed = answer(folder.path(), &["account", "list", "--email", "ada@example.com"]);
    let account = listed["accounts"][0]["id"].as_str().unwrap();
    assert!(said.contains(account) && said.contains("set-password"), "{said}");
    let said = lost(&["key", "add", "--account", account, "--name", "shop", "--json"]);
    let keys = answer(folder.path(), &["key", "list", "--account", account]);
    assert!(said.contains(keys["keys"][0]["id"].as_str().unwrap()), "{said}");
    let said = lost(&["staff", "add", "--json", "--email", "ada@example.com"]);
    let staff = answer(folder.path(), &["staff", "list"]);
    assert!(said.contains(staff["staff"][0]["id"].as_str().unwrap()), "{said}");
    for arguments in [
        &["audit", "--head"][..],
        &["audit"],
        &["openapi"],
        &["config"],
        &["config", "--template"],
        &["account", "list", "--json"],
        &["doctor"],
        &["--help"],
    ] {
        lost(arguments);
    }
    // A reader that has gone, such as `head`, has read what it wanted.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = onto(Stdio::from(writer), &["openapi"]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", told(&done));
}

/// A supervisor would keep watching a port that another program took.
#[test]
fn health_tells_a_stranger_from_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut statuses = ["200 OK", "404 Not Found"].into_iter().cycle();
        for mut asked in stranger.incoming().flatten() {
            let _asked = asked.read(&mut [0; 1_024]);
            let status = statuses.next().unwrap();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            let _gone = asked.write_all(answer.as_bytes());
        }
    });
    let health = |live: &str| {
        let mut command = estafette(folder.path());
        command.args(["--live", live, "health"]).output().unwrap()
    };
    for _ in 0..2 {
        let done = health(&address);
        assert_eq!(done.status.code(), Some(1), "{}", told(&done));
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(said.contains("something other than estafette answers there"), "{said}");
    }
    // The control.
    let served = tempfile::tempdir().unwrap();
    let serving = Serving::on(served.path());
    let done = health(&serving.at["live"].as_str().unwrap().replace("http://", ""));
    assert!(done.status.success(), "{}", told(&done));
}
