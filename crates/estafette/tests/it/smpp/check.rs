//! `estafette carriers check` as an operator runs it, against the playground's centre.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;

use playground::smsc::IdStyle;
use serde_json::{Value, json};

use super::Centre;
use super::long::in_front_of;
use crate::process::{estafette, told};

/// Runs it with these settings of a carrier.
async fn check(folder: &Path, centre: &Centre, more: &str, form: &[&'static str]) -> Output {
    check_at(folder, centre.address(), more, form).await
}

async fn check_at(folder: &Path, at: SocketAddr, more: &str, form: &[&'static str]) -> Output {
    let (config, port) = (folder.join("estafette.toml"), at.port());
    let text = format!(
        "[sms.carriers.main]\nkind = 'smpp'\nport = {port}\nsystem_id = 'us'\n\
         password = 'hush'\n{more}\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = estafette(folder);
    command.args(["carriers", "check", "main", "--config"]).arg(&config).args(form);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_binds_as_the_service_does_and_tells_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let centre = Centre::new(IdStyle::Decimal).await;
    let done = check(folder.path(), &centre, "", &[]).await;
    let text = said(&done);
    assert!(done.status.success(), "{text} {}", told(&done));
    for word in ["as transceiver", "playground", "3.4", "0x0210", "answered"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let done = check(folder.path(), &centre, "", &["--json"]).await;
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&found["ok"], &found["error"]), (&json!(true), &Value::Null), "{found}");
    assert_eq!((&found["system_id"], &found["version"]), (&json!("playground"), &json!("3.4")));
    assert_eq!(found["fields"], json!(["0x0210"]), "{found}");
    assert_eq!(found["answers_enquire_link"], true);
    let stats = centre.handsets.stats();
    assert_eq!((stats.binds, stats.sessions), (2, 0), "each was unbound: {stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_a_pair_binds_both_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let centre = Centre::new(IdStyle::Decimal).await;
    let mut behaviour = centre.handsets.options();
    behaviour.pairs_only = true;
    centre.handsets.behave(behaviour);
    let done = check(folder.path(), &centre, "bind = 'pair'", &["--json"]).await;
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(done.status.success(), "{found}");
    let kinds: Vec<&Value> =
        found["binds"].as_array().unwrap().iter().map(|bind| &bind["as"]).collect();
    assert_eq!(kinds, ["transmitter", "receiver"]);
    // What the carrier does not take is no bind.
    let done = check(folder.path(), &centre, "", &["--json"]).await;
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done.status.code(), &found["ok"]), (Some(1), &json!(false)));
    assert!(found["error"].as_str().unwrap().contains("ESME_RBINDFAIL"), "{found}");
}

/// The names of an object's members.
fn members(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_fails_has_the_members_of_one_that_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let centre = Centre::new(IdStyle::Decimal).await;
    let run = async |more: &str| {
        let done = check(folder.path(), &centre, more, &["--json"]).await;
        let found: Value = serde_json::from_slice(&done.stdout).unwrap();
        (done.status.code(), found)
    };
    let (code, good) = run("").await;
    assert_eq!((code, &good["ok"]), (Some(0), &json!(true)), "{good}");
    let mut behaviour = centre.handsets.options();
    behaviour.password = Some("other".to_owned());
    centre.handsets.behave(behaviour);
    for more in ["", "bind = 'pair'", "tls = true\nca_file = '/nowhere'"] {
        let (code, bad) = run(more).await;
        assert_eq!((code, &bad["ok"]), (Some(1), &json!(false)), "{bad}");
        assert!(bad["error"].is_string() && bad["system_id"].is_null(), "{bad}");
        assert_eq!(members(&bad), members(&good), "{more}");
        let binds = bad["binds"].as_array().unwrap();
        assert_eq!(binds.len(), if more.contains("pair") { 2 } else { 1 });
        for bind in binds {
            assert_eq!(members(bind), members(&good["binds"][0]), "{more}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_names_why_there_is_no_tls() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let centre = Centre::new(IdStyle::Decimal).await;
    let front = in_front_of(centre.address(), &ca_file).await;
    let trusted = format!("ca_file = '{}'", ca_file.display());
    for (host, more, why) in [
        ("localhost", trusted.as_str(), None),
        ("localhost", "", Some("signed by an authority that is not trusted")),
        ("127.0.0.1", trusted.as_str(), Some("for another name")),
    ] {
        let more = format!("host = '{host}'\ntls = true\n{more}");
        let done = check_at(folder.path(), front, &more, &["--json"]).await;
        let found: Value = serde_json::from_slice(&done.stdout).unwrap();
        let told = found["error"].as_str();
        assert_eq!(told.is_some(), why.is_some(), "{found}");
        assert!(why.is_none_or(|why| told.unwrap().contains(why)), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_that_fails_has_the_members_of_one_that_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("estafette.toml");
    let run = async |carrier: &str| {
        std::fs::write(&config, format!("[sms.carriers.main]\nkind = 'http'\n{carrier}")).unwrap();
        let mut command = estafette(folder.path());
        command.args(["carriers", "check", "main", "--json", "--config"]).arg(&config);
        let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let found: Value = serde_json::from_slice(&done.stdout).unwrap();
        (done.status.code(), found)
    };
    let (code, good) = run("preset = 'twilio'\nusername = 'AC1'\npassword = 'hush'\n").await;
    assert_eq!((code, &good["ok"], &good["error"]), (Some(0), &json!(true), &Value::Null));
    assert!(!good.to_string().contains("hush"), "{good}");
    let own = folder.path().join("own.toml");
    let rule = "[[answer.rules]]\nis = 'no'\n";
    let described = format!("[request]\nmethod = 'GET'\nurl = 'http://h'\n[answer]\n{rule}");
    std::fs::write(&own, described).unwrap();
    for (carrier, why) in [
        ("preset = 'twilio'\nusername = 'AC1'\n".to_owned(), "password"),
        ("preset = 'vonage'\nusername = 'u'\npassword = 'p'\n".to_owned(), "callback_token"),
        // A word that no rule may say is answered with those that it may.
        (format!("description = '{}'\n", own.display()), "`unfit`"),
        ("description = '/nowhere'\n".to_owned(), "/nowhere"),
    ] {
        let (code, bad) = run(&carrier).await;
        assert_eq!((code, &bad["ok"]), (Some(1), &json!(false)), "{bad}");
        assert!(bad["error"].as_str().unwrap().contains(why), "{why}: {bad}");
        assert_eq!(members(&bad), members(&good), "{why}");
        assert_eq!((&bad["url"], &bad["headers"]), (&Value::Null, &json!([])), "{why}");
    }
}
