//! The same from the command line, beside a running service.

use std::io::Write;
use std::process::{Command, Stdio};

use estafette::app::Env;
use serde_json::Value;

use super::login_from;
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::PASSWORD;

on_every_engine!(people_are_managed_from_the_command_line);

/// Runs a command with a line on its standard input: its JSON, or what it said on failing.
pub fn run(world: &World, arguments: &str, input: &str) -> Result<Value, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estafette"));
    command.args(arguments.split(' ')).arg("--json").env("ESTAFETTE__DATA_DIR", world.folder());
    let url = world.config().database.url.expose();
    if !url.is_empty() {
        command.env("ESTAFETTE__DATABASE__URL", url);
        command.env("ESTAFETTE__MASTER_KEY", world.config().master_key.expose());
    }
    let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = pipes;
    let mut running = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
    // A command that fails early does not read it.
    let _written = running.stdin.take().unwrap().write_all(input.as_bytes());
    let done = running.wait_with_output().unwrap();
    if done.status.success() {
        Ok(serde_json::from_slice(&done.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

async fn people_are_managed_from_the_command_line(world: &World) {
    let run = |arguments: &str| run(world, arguments, "another horse battery 43\n");
    let ok = |arguments: &str| run(arguments).unwrap_or_else(|said| panic!("{arguments}: {said}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();

    let ann = text(&ok("staff add --email ann@example.com --password-stdin")["staff_id"]);
    let staff = "/v1/admin/auth/login";
    let new = "another horse battery 43";
    let token = login_from(world, staff, "ann@example.com", (new, "")).await.ok();
    let again = run("staff add --email ann@example.com --password-stdin").unwrap_err();
    assert!(again.contains("`estafette staff set-password --email ann@example.com`"), "{again}");
    let listed = ok("staff list");
    assert_eq!(listed["staff"][0]["id"], ann.as_str());
    assert_eq!(
        (&listed["staff"][0]["email"], &listed["more"]),
        (&"ann@example.com".into(), &false.into())
    );
    let reset = ok("staff set-password --email ann@example.com");
    assert_eq!(reset["staff_id"], ann.as_str());
    let gone = world.get(Env::Live, "/v1/admin/staff").bearer(token.word("token")).await;
    gone.problem("invalid_token");
    let made_up = text(&reset["password"]);
    login_from(world, staff, "ann@example.com", (&made_up, "")).await.ok();

    let made = ok("account add --email ada@example.com");
    let live = text(&made["accounts"]["live"]);
    let again = run("account add --email ada@example.com").unwrap_err();
    assert!(again.contains("estafette account list --email ada@example.com"), "{again}");
    let given = text(&made["password"]);
    let ada = login_from(world, "/v1/auth/login", "ada@example.com", (&given, ""));
    let ada = ada.await.ok();
    let listed = ok("account list --email ada@example.com --env live");
    assert_eq!(listed["accounts"][0]["id"], live.as_str());
    assert_eq!(listed["accounts"][0]["status"], "active");
    assert_eq!(ok("account list --limit 1")["more"], true);
    let status = |word: &str| ok(&format!("account {word} --account {live}"))["status"].clone();
    assert_eq!(status("suspend"), "suspended");
    assert_eq!(ok("account list --status suspended")["accounts"][0]["id"], live.as_str());
    assert_eq!(status("activate"), "active");

    // A name is shown on terminals.
    let unclean = run(&format!("key add --account {live} --name shop\x1b[2J")).unwrap_err();
    assert!(unclean.contains("no line breaks or other control characters"), "{unclean}");
    let key = ok(&format!("key add --account {live} --name shop"));
    let id = text(&key["key"]["id"]);
    let listed = ok(&format!("key list --account {live}"));
    assert_eq!(
        (&listed["keys"][0]["id"], &listed["keys"][0]["active"]),
        (&key["key"]["id"], &true.into())
    );
    let ended = ok(&format!("key disable --account {live} --key {id}"));
    assert_eq!((&ended["id"], &ended["active"]), (&key["key"]["id"], &false.into()));
    assert_eq!(ok(&format!("key list --account {live}"))["keys"][0]["active"], false);

    let set = ok("account set-password --email ada@example.com --password-stdin");
    assert_eq!((&set["user_id"], set.get("password")), (&made["user_id"], None));
    world.get(Env::Live, "/v1/me").bearer(ada.word("token")).await.problem("invalid_token");
    login_from(world, "/v1/auth/login", "ada@example.com", (new, "")).await.ok();
    assert_ne!(new, PASSWORD);

    assert_eq!(ok("staff remove --email ann@example.com")["staff_id"], ann.as_str());
    assert_eq!(ok("staff list")["staff"], Value::Array(vec![]));
    for wrong in [
        "staff remove --email ann@example.com",
        "account set-password --email nobody@example.com --password-stdin",
        "key disable --account acc_01kdv00000000000000000000z --key key_01kdv00000000000000000000z",
        "account suspend --account acc_01kdv00000000000000000000z",
    ] {
        assert!(run(wrong).unwrap_err().starts_with("{\"error\":"), "{wrong}");
    }
}
