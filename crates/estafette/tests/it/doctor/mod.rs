//! `estafette doctor`: on installations that are whole and on broken ones.

mod agreeing;
mod lost;
mod servers;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use engines::Lite;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use store::{Db, Sql, SqliteOptions, WriteSet, args};

use crate::process::{Serving, answer, estafette, told};
use crate::world::{Database, postgres};

/// What the doctor says about one thing, and its health.
fn finding<'v>(seen: &'v Value, about: &str) -> (&'v str, &'v str) {
    let findings = seen["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["about"] == about);
    let found = found.unwrap_or_else(|| panic!("nothing about {about}: {seen}"));
    (found["health"].as_str().unwrap(), found["found"].as_str().unwrap())
}

/// Its answer and exit code; the listeners take any free port.
fn examined(folder: &Path, settings: &[(&str, &str)]) -> (Value, i32) {
    let anywhere =
        ["--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let mut command = estafette(folder);
    command.args(anywhere).args(["doctor", "--json"]).envs(settings.iter().copied());
    let done = command.output().unwrap();
    let seen = serde_json::from_slice(&done.stdout);
    (seen.unwrap_or_else(|_| panic!("{}", told(&done))), done.status.code().unwrap())
}

#[test]
fn the_doctor_changes_nothing_and_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("mistyped");
    let (seen, code) = examined(&nowhere, &[]);
    assert_eq!((code, &seen["ok"]), (0, &true.into()), "{seen}");
    assert_eq!(finding(&seen, "data directory").0, "warning");
    assert_eq!(finding(&seen, "database").0, "warning");
    assert_eq!(finding(&seen, "sms").0, "warning");
    assert!(!nowhere.exists(), "it made the directory");
    answer(&nowhere, &["migrate"]);
    let mode = std::fs::metadata(&nowhere).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "it is for its user alone: {mode:o}");
    assert_eq!(finding(&examined(&nowhere, &[]).0, "data directory").0, "ok");

    answer(folder.path(), &["migrate"]);
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!(code, 0, "{seen}");
    assert!(finding(&seen, "database").1.starts_with("SQLite 3."), "{seen}");
    for about in ["settings", "disk", "live", "schema", "time", "master key", "files"] {
        assert_eq!(finding(&seen, about).0, "ok", "{about}: {seen}");
    }
}

#[test]
fn a_variable_that_only_looks_like_a_setting_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let (without, _) = examined(folder.path(), &[]);
    let (seen, code) = examined(folder.path(), &[("ESTAFETTE_NONSENSE", "1")]);
    let named = |seen: &Value| seen.to_string().contains("ESTAFETTE_NONSENSE is not read");
    assert!(code == 0 && named(&seen) && !named(&without), "{seen}");
    let warnings = |seen: &Value| seen["warnings"].as_u64().unwrap();
    assert_eq!(warnings(&seen), warnings(&without) + 1, "{seen}");
    let misspelt = [("ESTAFETTE_NONSENSE", "1"), ("ESTAFETTE__OTP__VALIDITY_S", "soon")];
    let (seen, code) = examined(folder.path(), &misspelt);
    assert!(code == 1 && named(&seen), "beside what cannot be read: {seen}");
    let mut doctor = estafette(folder.path());
    let done = doctor.arg("doctor").env("ESTAFETTE_NONSENSE", "1").output().unwrap();
    let said = told(&done);
    assert_eq!(said.matches("ESTAFETTE_NONSENSE is not read").count(), 0, "no hint: {said}");
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(text.matches("ESTAFETTE_NONSENSE is not read").count(), 1, "{text}");
}

#[test]
fn the_doctor_finds_what_would_end_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, code) = examined(folder.path(), &[("ESTAFETTE__OTP__VALIDITY_S", "soon")]);
    assert_eq!((code, finding(&seen, "settings").0), (1, "error"), "{seen}");
    let both = [("ESTAFETTE__OTP__VALIDITY_S", "soon"), ("ESTAFETTE__LIMITS__SEND_PER_S", "few")];
    let (seen, code) = examined(folder.path(), &both);
    assert_eq!((code, &seen["errors"]), (1, &2.into()), "each is a finding of its own: {seen}");

    answer(folder.path(), &["migrate"]);
    let key = folder.path().join("master.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::write(&key, "7b".repeat(32)).unwrap();
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!((code, finding(&seen, "master key").0), (1, "error"), "{seen}");
    std::fs::remove_file(&key).unwrap();
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!((code, finding(&seen, "master key").0), (1, "error"), "{seen}");
    assert!(!key.exists(), "it made a key");
    std::fs::write(&key, kept).unwrap();

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (taken, address.to_string())).unwrap();
    let done = estafette(folder.path()).args(["--live", &taken.1, "doctor", "--json"]).output();
    let seen: Value = serde_json::from_slice(&done.unwrap().stdout).unwrap();
    assert_eq!(finding(&seen, "live").0, "error", "{seen}");

    let carrier = [
        ("ESTAFETTE__SMS__CARRIERS__MAIN__KIND", "smpp"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__HOST", "127.0.0.1"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__PORT", "1"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__SYSTEM_ID", "us"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__PASSWORD", "geheim"),
        ("ESTAFETTE__EMAIL__RELAY_URL", "smtp://127.0.0.1:1"),
    ];
    let (seen, code) = examined(folder.path(), &carrier);
    assert_eq!((code, finding(&seen, "sms main").0), (0, "warning"), "a start works: {seen}");
    let (health, found) = finding(&seen, "email");
    assert_eq!(health, "warning", "{seen}");
    assert!(found.starts_with("127.0.0.1:1: no connection:"), "{seen}");
    assert!(!seen.to_string().contains("geheim"));
}

#[test]
fn the_doctor_finds_what_serve_would_stumble_over() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    // It listens and says nothing, like a web server.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let broken = [
        ("ESTAFETTE__SMS__CARRIERS__GATE__KIND", "http"),
        ("ESTAFETTE__SMS__CARRIERS__GATE__PRESET", "vonage"),
        ("ESTAFETTE__SMS__CARRIERS__GATE__USERNAME", "us"),
        ("ESTAFETTE__SMS__CARRIERS__GATE__PASSWORD", "geheim"),
        ("ESTAFETTE__EMAIL__REPORTS", &*address),
        ("ESTAFETTE__EMAIL__DNS_SERVER", "127.0.0.1:1"),
        ("ESTAFETTE__WEBHOOKS__DNS_SERVER", "127.0.0.1:1"),
        ("ESTAFETTE__SERVER__TLS_CERT_FILE", "/nowhere/cert.pem"),
        ("ESTAFETTE__SERVER__TLS_KEY_FILE", "/nowhere/key.pem"),
        ("ESTAFETTE__CHATAPP__ACCESS_TOKEN", "geheim"),
        ("ESTAFETTE__SUPPORT__STORAGE", "s3://bucket"),
        ("ESTAFETTE__SUPPORT__S3_ENDPOINT", "http://127.0.0.1:1"),
        ("ESTAFETTE__SUPPORT__S3_ACCESS_KEY_ID", "us"),
        ("ESTAFETTE__SUPPORT__S3_SECRET_ACCESS_KEY", "geheim"),
        ("ESTAFETTE__WEBHOOKS__ALLOW_HTTP", "true"),
    ];
    let (seen, code) = examined(folder.path(), &broken);
    assert_eq!(code, 1, "{seen}");
    assert!(seen.to_string().contains("without TLS"), "names or no names: {seen}");
    let (health, found) = finding(&seen, "sms gate");
    assert!(health == "error" && found.contains("callback_token"), "{seen}");
    let (health, found) = finding(&seen, "email.reports");
    assert!(health == "error" && found.contains("is taken"), "{seen}");
    assert_eq!(finding(&seen, "email dns").0, "warning", "{seen}");
    assert_eq!(finding(&seen, "webhooks").0, "warning", "{seen}");
    let (health, found) = finding(&seen, "tls");
    assert!(health == "error" && found.contains("/nowhere/cert.pem"), "{seen}");
    let (health, found) = finding(&seen, "chat-app");
    assert!(health == "warning" && found.contains("phone_number_id"), "{seen}");
    assert_eq!(finding(&seen, "files").0, "warning", "only uploads need it: {seen}");
    assert!(!seen.to_string().contains("geheim"));
    let serve = estafette(folder.path()).args(["serve"]).envs(broken[..4].to_vec()).output();
    assert!(told(&serve.unwrap()).contains("callback_token"), "serve ends for the same reason");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_looks_at_a_running_service_and_at_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::on(folder.path());
    let live = serving.at["live"].as_str().unwrap().replace("http://", "");
    let done = estafette(folder.path()).args(["--live", &live, "doctor", "--json"]).output();
    let seen: Value = serde_json::from_slice(&done.unwrap().stdout).unwrap();
    assert_eq!(finding(&seen, "live"), ("ok", &*format!("{live}: the service answers")));

    let database = Database::empty().await;
    let url = format!("{}/{}", postgres(), database.name);
    let key = "5a".repeat(32);
    let server = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", &*key)];
    let (seen, _) = examined(folder.path(), &server);
    assert!(finding(&seen, "database").1.starts_with("PostgreSQL "), "{seen}");
    assert_eq!(finding(&seen, "clock").0, "ok", "{seen}");
    assert_eq!(finding(&seen, "schema").0, "warning", "{seen}");
    let away = [("ESTAFETTE__DATABASE__URL", "postgres://u:geheim@127.0.0.1:1/x"), server[1]];
    let (seen, code) = examined(folder.path(), &away);
    assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
    assert!(!seen.to_string().contains("geheim"));
}

/// Changes the file of the database while nobody serves from it.
async fn tampered(folder: &Path, sql: &'static str) {
    let db = Db::new(Lite::open(&folder.join("estafette.db"), SqliteOptions::default()).unwrap());
    let mut set = WriteSet::of("story");
    set.push(Sql(sql), args![]);
    db.commit(set).await.unwrap();
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_files_that_no_start_could_use() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let key = folder.path().join("master.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!((code, finding(&seen, "writes").0), (0, "ok"), "{seen}");
    let (health, found) = finding(&seen, "master key");
    assert!(health == "warning" && found.contains("other users"), "{seen}");
    // So are the files of other secrets, and those of settings that have some.
    let token = folder.path().join("token");
    std::fs::write(&token, "hidden").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o604)).unwrap();
    let variable = ("ESTAFETTE__CHATAPP__ACCESS_TOKEN_FILE", token.to_str().unwrap());
    let (seen, _) = examined(folder.path(), &[variable]);
    let (health, found) = finding(&seen, "secrets");
    assert!(health == "warning" && found.contains("token has secrets"), "{seen}");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (seen, _) = examined(folder.path(), &[variable]);
    assert!(!seen.to_string().contains("has secrets"), "{seen}");

    let edited = "UPDATE schema_migrations SET checksum = 'x' WHERE version = 3";
    tampered(folder.path(), edited).await;
    let (seen, code) = examined(folder.path(), &[]);
    let (health, found) = finding(&seen, "writes");
    assert!(code == 1 && health == "error" && found.contains("migration 3"), "{seen}");

    std::fs::write(folder.path().join("estafette.db"), "no database at all").unwrap();
    let (seen, code) = examined(folder.path(), &[]);
    assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
    let of_database = |finding: &&Value| finding["about"] == "database";
    let found = seen["findings"].as_array().unwrap().iter().find(of_database).unwrap();
    assert!(found["remedy"].as_str().unwrap().contains("backup"), "{seen}");

    let (seen, code) = examined(Path::new("/proc/estafette"), &[]);
    assert_eq!((code, finding(&seen, "data directory").0), (1, "error"), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_reads_until_when_a_certificate_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let pem = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (pem("cert.pem"), pem("key.pem"));
    let tls =
        [("ESTAFETTE__SERVER__TLS_CERT_FILE", &*cert), ("ESTAFETTE__SERVER__TLS_KEY_FILE", &*key)];
    for (year, health) in [(2020, "warning"), (2096, "ok")] {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let pair = KeyPair::generate().unwrap();
        std::fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let (seen, _) = examined(folder.path(), &tls);
        let (found_health, found) = finding(&seen, "tls");
        assert!(found_health == health && found.contains(&year.to_string()), "{seen}");
        let mut serve = estafette(folder.path());
        serve.envs(tls);
        let serving = Serving::of(serve);
        serving.terminate();
        let (_, said) = serving.end();
        assert_eq!(said.contains("certificate has expired"), year == 2020, "{said}");
    }
}
