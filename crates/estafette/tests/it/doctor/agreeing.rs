//! The doctor and `serve` say the same: what ends a start is an error, and nothing else is one.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use playground::cloud_api::{self, CloudApi};
use serde_json::Value;

use super::{examined, finding, tampered};
use crate::process::{Serving, answer, estafette, told};

const ANYWHERE: [&str; 6] =
    ["--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];

/// What `serve` says when it ends by itself.
fn last_words(folder: &Path, settings: &[(&str, &str)]) -> String {
    let mut serve = estafette(folder);
    let done = serve.args(ANYWHERE).arg("serve").envs(settings.iter().copied()).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    told(&done)
}

#[test]
fn what_ends_a_start_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("plain"), "no directory, no certificate").unwrap();
    symlink("/nowhere/at/all", at("link")).unwrap();
    let (plain, link, missing) = (at("plain"), at("link"), at("missing.pem"));
    let smpp = |ca_file| {
        vec![
            ("ESTAFETTE__SMS__CARRIERS__MAIN__KIND", "smpp"),
            ("ESTAFETTE__SMS__CARRIERS__MAIN__TLS", "true"),
            ("ESTAFETTE__SMS__CARRIERS__MAIN__CA_FILE", ca_file),
        ]
    };
    for (about, settings) in [
        ("files", vec![("ESTAFETTE__SUPPORT__STORAGE", &*plain)]),
        ("files", vec![("ESTAFETTE__SUPPORT__STORAGE", &*link)]),
        ("sms main", smpp(&missing)),
        ("sms main", smpp(&plain)),
        (
            "email",
            vec![
                ("ESTAFETTE__EMAIL__RELAY_URL", "smtp://127.0.0.1:9"),
                ("ESTAFETTE__EMAIL__CA_FILE", &*missing),
            ],
        ),
        (
            "chat-app",
            vec![
                ("ESTAFETTE__CHATAPP__ACCESS_TOKEN", "two\nlines"),
                ("ESTAFETTE__CHATAPP__PHONE_NUMBER_ID", "1"),
                ("ESTAFETTE__CHATAPP__WABA_ID", "1"),
                ("ESTAFETTE__CHATAPP__APP_SECRET", "x"),
                ("ESTAFETTE__CHATAPP__VERIFY_TOKEN", "x"),
            ],
        ),
    ] {
        let (seen, code) = examined(folder.path(), &settings);
        assert_eq!((code, finding(&seen, about).0), (1, "error"), "{settings:?}: {seen}");
        last_words(folder.path(), &settings);
    }
    assert_eq!(examined(folder.path(), &[]).1, 0, "the control: without these it is well");

    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("estafette.db")).unwrap();
    let (seen, code) = examined(other.path(), &[]);
    assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
    last_words(other.path(), &[]);

    // The first start would read the key that is there.
    let new = tempfile::tempdir().unwrap();
    fs::write(new.path().join("master.key"), "garbage").unwrap();
    let (seen, code) = examined(new.path(), &[]);
    assert_eq!((code, finding(&seen, "master key").0), (1, "error"), "{seen}");
    assert!(last_words(new.path(), &[]).contains("64 hexadecimal digits"));
}

#[test]
fn a_directory_that_cannot_be_used_is_told_of_by_both_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    symlink("/nowhere/at/all", at("link")).unwrap();
    for place in [at("file"), at("link"), at("file").join("below"), "/proc/estafette".into()] {
        let (seen, code) = examined(&place, &[]);
        let (health, found) = finding(&seen, "data directory");
        assert_eq!((code, health), (1, "error"), "{seen}");
        let said = last_words(&place, &[]);
        assert!(said.contains(&format!("the data directory cannot be used: {found}\n")), "{said}");
        let findings = seen["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["about"] == "data directory").unwrap();
        assert!(said.contains(&format!("-> {}\n", found["remedy"].as_str().unwrap())), "{said}");
    }
}

#[test]
fn an_address_that_is_taken_has_the_same_remedy_for_both() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut serve = estafette(folder.path());
    let said = told(&serve.args(["--live", &*address, "serve"]).output().unwrap());
    assert!(
        said.contains(&format!("listen on {address} (server.live): another process")),
        "{said}"
    );
    let mut doctor = estafette(folder.path());
    let done = doctor.args(["--live", &*address, "doctor"]).output().unwrap();
    let seen = String::from_utf8_lossy(&done.stdout).into_owned();
    let remedy = "-> end what listens there, or choose another address (server.live)\n";
    assert!(said.contains(remedy) && seen.contains(remedy), "{said}{seen}");
}

#[test]
fn routes_alike_are_a_fault_of_the_settings_for_both() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("ESTAFETTE__SMS__CARRIERS__MAIN__KIND", "smpp"),
        (
            "ESTAFETTE__SMS__ROUTES",
            "[{prefix='+33',carriers=['main']},{prefix='+33',carriers=['main']}]",
        ),
    ];
    let (seen, code) = examined(folder.path(), &settings);
    let (health, found) = finding(&seen, "settings");
    assert!(code == 1 && health == "error" && found.contains("two routes for +33"), "{seen}");
    let said = last_words(folder.path(), &settings);
    assert!(said.contains(found), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_service_on_our_addresses_is_an_error() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    answer(ours.path(), &["migrate"]);
    let serving = Serving::on(theirs.path());
    let address = |name: &str| serving.at[name].as_str().unwrap().replace("http://", "");
    let (live, metrics) = (address("live"), address("metrics").replace("/metrics", ""));
    let looked = |folder: &Path| {
        let mut command = estafette(folder);
        command.args(["--live", &live, "--sandbox", "127.0.0.1:0", "--metrics", &metrics]);
        let done = command.args(["doctor", "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    let seen = looked(ours.path());
    for about in ["live", "metrics"] {
        let (health, found) = finding(&seen, about);
        assert!(health == "error" && found.contains("with another database"), "{seen}");
        assert_eq!(finding(&looked(theirs.path()), about).0, "ok", "its own doctor");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_start_survives_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("estafette.db"), "").unwrap();
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!((code, finding(&seen, "database").0), (0, "warning"), "{seen}");
    drop(Serving::on(folder.path()));

    tampered(folder.path(), "UPDATE clock_witness SET witnessed_at = 1700000000000").await;
    let (seen, code) = examined(folder.path(), &[]);
    let (health, found) = finding(&seen, "time");
    assert!(code == 0 && health == "warning" && found.contains(" days ahead"), "{seen}");
    drop(Serving::on(folder.path()));

    // A token is tried.
    let upstream = CloudApi::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let base_url = format!("http://{}", upstream.address());
    for (token, health) in [(cloud_api::ACCESS_TOKEN, "ok"), ("wrong", "warning")] {
        upstream.be_strict();
        let chatapp = [
            ("ESTAFETTE__CHATAPP__BASE_URL", &*base_url),
            ("ESTAFETTE__CHATAPP__ACCESS_TOKEN", token),
            ("ESTAFETTE__CHATAPP__PHONE_NUMBER_ID", cloud_api::PHONE_NUMBER_ID),
            ("ESTAFETTE__CHATAPP__WABA_ID", cloud_api::WABA_ID),
            ("ESTAFETTE__CHATAPP__APP_SECRET", cloud_api::APP_SECRET),
            ("ESTAFETTE__CHATAPP__VERIFY_TOKEN", cloud_api::VERIFY_TOKEN),
        ];
        let (seen, code) = examined(folder.path(), &chatapp);
        assert_eq!((code, finding(&seen, "chat-app").0), (0, health), "{seen}");
    }

    // A scanner is asked at its socket, too.
    let socket = folder.path().join("clamd");
    let place = format!("unix:{}", socket.display());
    let _silent = UnixListener::bind(&socket).unwrap();
    let (seen, code) = examined(folder.path(), &[("ESTAFETTE__SUPPORT__CLAMD", &place)]);
    assert_eq!((code, finding(&seen, "virus scanner").0), (0, "warning"), "{seen}");

    // What listens there takes connections and no SMPP: no login is claimed.
    let centre = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = centre.local_addr().unwrap().port().to_string();
    let smpp = [
        ("ESTAFETTE__SMS__CARRIERS__MAIN__KIND", "smpp"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__PORT", &*port),
    ];
    let (seen, code) = examined(folder.path(), &smpp);
    let (health, found) = finding(&seen, "sms main");
    assert!(code == 0 && health == "ok" && found.contains("carriers check main"), "{seen}");
}

/// Files of a user without rights: of this one or, where it is the superuser, of nobody.
fn owned(folder: &Path) -> impl Fn(&mut Command) + use<> {
    const NOBODY: u32 = 65_534;
    let probe = tempfile::tempdir().unwrap();
    fs::set_permissions(probe.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let is_superuser = fs::write(probe.path().join("x"), "").is_ok();
    if is_superuser {
        let mut folders = vec![folder.to_owned()];
        while let Some(path) = folders.pop() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            let below = path.read_dir().into_iter().flatten();
            folders.extend(below.map(|entry| entry.unwrap().path()));
        }
    }
    move |command: &mut Command| {
        if is_superuser {
            command.uid(NOBODY).gid(NOBODY);
        }
    }
}

#[test]
fn what_a_user_may_not_touch_is_judged_by_what_a_start_needs() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let as_owner = owned(folder.path());
    let mode = |name: &str, mode| {
        let place = folder.path().join(name);
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
    };
    let looked = || {
        let mut command = estafette(folder.path());
        as_owner(&mut command);
        let done = command.args(ANYWHERE).args(["doctor", "--json"]).output().unwrap();
        let seen: Value = serde_json::from_slice(&done.stdout).unwrap();
        (seen, done.status.code().unwrap())
    };
    let mut first = estafette(folder.path());
    as_owner(&mut first);
    let serving = Serving::of(first);
    drop(serving);
    mode("", 0o500);
    let (seen, code) = looked();
    assert_eq!((code, finding(&seen, "data directory").0), (0, "warning"), "{seen}");
    let mut again = estafette(folder.path());
    as_owner(&mut again);
    drop(Serving::of(again));

    // What may not be looked at is not said to be missing.
    mode("", 0o000);
    let (seen, code) = looked();
    let (health, found) = finding(&seen, "data directory");
    assert!(code == 1 && health == "error", "{seen}");
    assert!(found.contains("may not be entered"), "{seen}");
    assert!(finding(&seen, "database").1.contains("may not be entered"), "{seen}");
    assert!(seen.to_string().contains("sudo -u estafette"), "{seen}");
    assert!(!seen.to_string().contains("there is none at"), "{seen}");
    for command in [&["account", "list"][..], &["audit"]] {
        let mut denied = estafette(folder.path());
        as_owner(&mut denied);
        let said = told(&denied.args(command).output().unwrap());
        assert!(said.contains("this user may not look for the database"), "{said}");
        assert!(said.contains("sudo -u estafette") && !said.contains("there is no"), "{said}");
    }

    mode("", 0o700);
    mode("master.key", 0o000);
    let (seen, code) = looked();
    assert_eq!((code, finding(&seen, "master key").0), (1, "error"), "{seen}");
    assert!(seen.to_string().contains("chown … "), "{seen}");
    mode("master.key", 0o600);
    let (seen, code) = looked();
    assert_eq!((code, finding(&seen, "master key").0), (0, "ok"), "{seen}");
}
