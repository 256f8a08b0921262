//! Rules about the code itself: which room may know which, where SQL and HTTP live, how long files
//! and lines are. Each rule is shown to catch a bad text.

use std::path::{Path, PathBuf};

/// One file of code.
pub struct Source {
    /// From `crates/` on, with slashes.
    pub path: String,
    pub text: String,
}

/// Rooms from low to high; a room imports only lower ranks, equals do not know each other.
const RANKS: &[(u8, &[&str])] = &[
    (0, &["kit", "schema"]),
    (1, &["config"]),
    (2, &["carriers", "chores", "metrics", "sockets", "telemetry"]),
    (3, &["app"]),
    (4, &["access"]),
    (5, &["credits", "events", "notices"]),
    (6, &["dispatch", "inbound", "profile", "senders", "webhooks"]),
    (7, &["chatapp", "emails"]),
    (8, &["otp", "operator", "sandbox", "sms", "support"]),
    (9, &["retention", "rotation"]),
    (TOP, &["wiring", "cli", "main"]),
];

/// Here everything comes together, so these may know each other.
const TOP: u8 = 10;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust files under a folder.
pub fn sources(folder: &Path) -> Vec<Source> {
    let base = crates().canonicalize().unwrap();
    let mut folders = vec![folder.canonicalize().unwrap()];
    let mut found = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&base).unwrap().to_string_lossy().replace('\\', "/");
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// The lines without those that are only comment.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(at, line)| (at + 1, line))
}

fn rank(room: &str) -> Option<u8> {
    RANKS.iter().find(|(_, rooms)| rooms.contains(&room)).map(|(rank, _)| *rank)
}

/// The room of a file of the service.
fn room(path: &str) -> &str {
    let path = path.strip_prefix("service/src/").unwrap_or(path);
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

/// What is not only for tests: files without those declared under `#[cfg(test)]`, and texts without
/// what follows that mark.
pub fn shipped(all: Vec<Source>) -> Vec<Source> {
    const MARK: &str = "#[cfg(test)]\nmod ";
    let mut tests = vec![];
    for source in &all {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (at, _) in source.text.match_indices(MARK) {
            let rest = &source.text[at + MARK.len()..];
            let name = rest.split([';', ' ']).next().unwrap_or_default();
            if rest.starts_with(&format!("{name};")) {
                tests.push(format!("{folder}/{name}.rs"));
                tests.push(format!("{folder}/{name}/"));
            }
        }
    }
    let without = |mut source: Source| {
        if let Some(at) = source.text.find("#[cfg(test)]\nmod tests {") {
            source.text.truncate(at);
        }
        source
    };
    let is_test = |source: &Source| {
        let is_of = |test: &String| match test.strip_suffix('/') {
            Some(_) => source.path.starts_with(test.as_str()),
            None => source.path == *test,
        };
        tests.iter().any(is_of)
    };
    all.into_iter().filter(|source| !is_test(source)).map(without).collect()
}

/// The rooms that a text names as `crate::room` or `crate::{room, …}`.
fn named(text: &str) -> Vec<String> {
    let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
    let text = lines.join("\n");
    let word = |rest: &str| -> String {
        rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let mut rooms = vec![];
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            rooms.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    rooms.push(word(group[start..at].trim_start()));
                    start = at + 1;
                    if letter == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    rooms.retain(|room| !room.is_empty());
    rooms
}

fn faults_of_rank(source: &Source) -> Vec<String> {
    let own = room(&source.path);
    if own == "lib" {
        return vec![];
    }
    let Some(height) = rank(own) else { return vec![format!("{own} has no rank")] };
    let mut faults = vec![];
    for other in named(&source.text) {
        let Some(known) = rank(&other) else { continue };
        if other != own && known >= height && height != TOP {
            faults.push(format!("{own} (rank {height}) knows {other} (rank {known})"));
        }
    }
    faults
}

fn faults_of_sql(source: &Source) -> Vec<String> {
    if source.path.ends_with("/store.rs") {
        return vec![];
    }
    let words = ["Sql(\"", "SELECT ", "INSERT INTO ", "DELETE FROM ", "UPDATE accounts"];
    code(&source.text)
        .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        .map(|(at, _)| format!("line {at}: SQL outside of a store.rs"))
        .collect()
}

fn faults_of_http(source: &Source) -> Vec<String> {
    let inside = source.path.strip_prefix("service/src/").unwrap_or(&source.path);
    let allowed = inside.ends_with("/api.rs")
        || ["kit", "wiring"].contains(&room(&source.path))
        || inside.starts_with("access/idempotency/")
        || ["access/caller.rs", "access/door.rs", "cli/playground.rs"].contains(&inside);
    if allowed {
        return vec![];
    }
    code(&source.text)
        .filter(|(_, line)| line.contains("axum"))
        .map(|(at, _)| format!("line {at}: HTTP outside of its rooms"))
        .collect()
}

fn faults_of_form(source: &Source) -> Vec<String> {
    let mut faults = vec![];
    if !source.text.starts_with("//!") {
        faults.push("does not say what it is for (//!)".to_owned());
    }
    let lines = source.text.lines().count();
    if lines > 500 {
        faults.push(format!("{lines} lines, 500 are enough"));
    }
    for (at, line) in source.text.lines().enumerate() {
        if line.chars().count() > 100 {
            faults.push(format!("line {}: longer than 100", at + 1));
        }
    }
    let vague = ["utils", "util", "helpers", "helper", "common", "manager", "misc"];
    for part in source.path.split('/') {
        if vague.contains(&part.trim_end_matches(".rs")) {
            faults.push(format!("{part} says nothing about what is in it"));
        }
    }
    faults
}

fn check(all: &[Source], rule: fn(&Source) -> Vec<String>) {
    assert!(all.len() > 10, "only {} files were found", all.len());
    let faults: Vec<String> = all
        .iter()
        .flat_map(|source| {
            rule(source).into_iter().map(|fault| format!("{}: {fault}", source.path))
        })
        .collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn service() -> Vec<Source> {
    shipped(sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src")))
}

fn of(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn rooms_know_only_lower_ranks() {
    check(&service(), faults_of_rank);
}

#[test]
fn a_room_that_knows_a_higher_one_is_caught() {
    for bad in ["use crate::otp::Status;", "use crate::{kit::id, otp};", "crate::profile::x();"] {
        assert_eq!(faults_of_rank(&of("service/src/credits/mod.rs", bad)).len(), 1, "{bad}");
    }
    let equals = of("service/src/otp/mod.rs", "use crate::operator;");
    assert_eq!(faults_of_rank(&equals).len(), 1);
    assert_eq!(faults_of_rank(&of("service/src/pigeons/mod.rs", "")).len(), 1);
    for good in ["use crate::kit::{id, seal};", "// crate::otp", "use crate::{app::App, access};"] {
        assert!(faults_of_rank(&of("service/src/credits/mod.rs", good)).is_empty(), "{good}");
    }
}

#[test]
fn sql_lives_in_stores() {
    check(&service(), faults_of_sql);
}

#[test]
fn sql_elsewhere_is_caught() {
    let bad = "const A: Sql = Sql(\"SELECT 1\");";
    assert_eq!(faults_of_sql(&of("service/src/otp/mod.rs", bad)).len(), 1);
    assert!(faults_of_sql(&of("service/src/otp/store.rs", bad)).is_empty());
}

#[test]
fn only_what_is_for_tests_is_let_off() {
    let parent = of("service/src/otp/mod.rs", "a\n#[cfg(test)]\nmod model;\nmod send;\n");
    let tail = "b\n#[cfg(test)]\nmod tests {\nSELECT \n}";
    let files = [parent, of("service/src/otp/model.rs", ""), of("service/src/otp/send.rs", tail)];
    let kept: Vec<(String, String)> =
        shipped(files.into()).into_iter().map(|source| (source.path, source.text)).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(kept[1], ("service/src/otp/send.rs".to_owned(), "b\n".to_owned()));
}

#[test]
fn http_lives_at_the_edge() {
    check(&service(), faults_of_http);
}

#[test]
fn http_elsewhere_is_caught() {
    let bad = "use axum::http::StatusCode;";
    assert_eq!(faults_of_http(&of("service/src/otp/mod.rs", bad)).len(), 1);
    assert!(faults_of_http(&of("service/src/otp/api.rs", bad)).is_empty());
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    check(&sources(&crates()), faults_of_form);
}

#[test]
fn formless_files_are_caught() {
    let long_line = format!("//! x\n{}", "y".repeat(101));
    let long_file = format!("//! x\n{}", "y\n".repeat(500));
    for bad in ["fn a() {}", long_line.as_str(), long_file.as_str()] {
        assert_eq!(faults_of_form(&of("service/src/kit/a.rs", bad)).len(), 1);
    }
    assert_eq!(faults_of_form(&of("service/src/kit/utils.rs", "//! x")).len(), 1);
    assert_eq!(faults_of_form(&of("service/src/common/a.rs", "//! x")).len(), 1);
    assert!(faults_of_form(&of("service/src/kit/a.rs", "//! x\n")).is_empty());
}

/// What deletes by age goes by the time that the turn believes: the clock alone may be a year off.
fn faults_of_age(source: &Source) -> Vec<String> {
    let functions = source.text.split("\n}\n");
    let is_fault = |text: &&str| text.contains("turn: &Turn") && text.contains("app.now()");
    functions.filter(is_fault).map(|_| format!("{}: a chore asks the clock", source.path)).collect()
}

#[test]
fn chores_ask_their_turn_for_the_time() {
    check(&service(), faults_of_age);
}

#[test]
fn a_chore_that_asks_the_clock_is_caught() {
    let chore = |time: &str| format!("fn forget(app: &App, turn: &Turn) {{\n    {time};\n}}\n");
    assert_eq!(faults_of_age(&of("service/src/otp/a.rs", &chore("app.now()"))).len(), 1);
    assert!(faults_of_age(&of("service/src/otp/a.rs", &chore("turn.now()"))).is_empty());
}
