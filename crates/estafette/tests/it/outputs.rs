//! What becomes of a command's answer: it is read, or the command has failed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

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

/// What the first lines say to do next is done in another shell.
#[test]
fn the_command_in_the_first_lines_works_as_it_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("it's mine.db").display());
    let anywhere =
        ["--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let variables = [("ESTAFETTE__LIMITS__SEND_PER_S", "7")];
    let mut serve = estafette(folder.path());
    serve.args(anywhere).args(["--database-url", &*database]).stderr(Stdio::piped());
    let mut serving = serve.envs(variables).spawn().unwrap();
    let lines = BufReader::new(serving.stderr.take().unwrap()).lines();
    let next = lines.map_while(Result::ok).find(|line| line.contains("account add"));
    let next = next.unwrap();
    let (when, command) = next.split_once(": estafette ").unwrap();
    assert!(when.ends_with("with the same ESTAFETTE__ variables"), "{when}");
    let program = env!("CARGO_BIN_EXE_estafette");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{program} {command}")]).env_clear().envs(variables);
    let added = shell.output().unwrap();
    let killed = serving.kill().and_then(|()| serving.wait());
    assert!(killed.is_ok() && added.status.success(), "{command}: {}", told(&added));
    // It went into the database that is served from.
    let mut list = estafette(folder.path());
    let listed = list.args(["--database-url", &*database, "account", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("you@example.com"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_the_doctor_say_why_a_service_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    // A server that is not there is waited for.
    let away = [
        ("ESTAFETTE__DATABASE__URL", "postgres://u@127.0.0.1:1/x".to_owned()),
        ("ESTAFETTE__MASTER_KEY", "5a".repeat(32)),
    ];
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let any = ["--sandbox", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let with = |arguments: &[&str]| {
        let mut command = estafette(folder.path());
        command.args(["--live", &*free]).args(any).args(arguments).envs(away.clone());
        command
    };
    let mut serving = with(&["serve"]).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(serving.stderr.take().unwrap()).lines().map_while(Result::ok);
    let lines = lines.take_while(|line| !line.contains("wait_s=2"));
    let lines: Vec<String> = lines.filter(|line| line.contains("cannot be reached")).collect();
    assert_eq!(lines.len(), 1, "once, however many connections fail: {lines:?}");
    let said = |arguments: &[&str]| {
        let done = with(arguments).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let why = "waits for its database";
    let (health, seen) = (said(&["health", "--ready"]), said(&["doctor"]));
    assert!(said(&["health"]).contains(": well"), "the control: it lives");
    assert!(serving.kill().and_then(|()| serving.wait()).is_ok());
    assert!(health.contains("not well: ") && health.contains(why), "{health}");
    assert!(seen.contains("is not ready: ") && seen.contains(why), "{seen}");
}
