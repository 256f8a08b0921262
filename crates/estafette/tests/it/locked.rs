//! Documents that are made from the code and kept in the repository, so that a change of the API
//! is seen in review. `BLESS=1 cargo test` writes them anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use estafette::app::Env;
use estafette::events::Kind;
use estafette::kit::problem_code::Code;
use serde_json::Value;

use crate::on_every_engine;
use crate::world::World;

on_every_engine!(openapi_is_locked);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file of the repository with what the code makes of it.
fn is_locked(path: &str, made: &str) {
    let path = root().join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(made.lines()).position(|(kept, made)| kept != made);
    let line = differs.unwrap_or_else(|| kept.lines().count().min(made.lines().count())) + 1;
    let name = path.file_name().unwrap().display();
    assert!(kept == made, "{name} differs from line {line} on; BLESS=1 writes it anew");
}

/// The addresses of the story are replaced by the default ones.
async fn openapi_is_locked(world: &World) {
    let document = world.get(Env::Sandbox, "/v1/openapi.json").await.ok();
    let other = world.get(Env::Live, "/v1/openapi.json").await.ok();
    let (mut text, mut twin) = (document.text, other.text);
    for (env, port) in [(Env::Live, 8080), (Env::Sandbox, 8081)] {
        let (found, usual) = (world.address(env).to_string(), format!("127.0.0.1:{port}"));
        text = text.replace(&found, &usual);
        twin = twin.replace(&found, &usual);
    }
    is_locked("openapi.json", &estafette::wiring::description::made_openapi_text());
    // What was just written anew is served after the next build.
    let kept = estafette::wiring::description::openapi_text();
    let parsed = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    assert_eq!(parsed(kept), parsed(&text), "`estafette openapi` prints what is served");
    assert_eq!(order(kept), order(&text), "in the same order");
    let paths = |text: &str| -> Value {
        let mut document = parsed(text);
        let paths = document["paths"].as_object_mut().unwrap();
        paths.retain(|path, _| !path.starts_with("/v1/sandbox/"));
        document["paths"].take()
    };
    assert_eq!(paths(&text), paths(&twin), "one description for both addresses");
    assert!(text.contains("\"/v1/sandbox/") && !twin.contains("\"/v1/sandbox/"));
}

/// The paths, in the order in which they stand in a text.
fn order(text: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(text).unwrap();
    let mut paths: Vec<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    paths.sort_by_key(|path| text.find(&format!("\"{path}\":")).expect("a path that is there"));
    paths
}

const INTRODUCTION: &str = "# Errors

Every error is `application/problem+json` (RFC 9457) and carries one of these codes in `code`.
The code is stable: programs decide by it, and by nothing else. This page is made from the code
(`crates/service/src/kit/problem_code.rs`); a test keeps it true.

| status | code | title |
|---|---|---|
";

#[test]
fn the_list_of_errors_is_locked() {
    let mut page = INTRODUCTION.to_owned();
    for code in Code::ALL {
        let (status, word, title) = (code.status(), code.as_str(), code.title());
        writeln!(page, "| {status} | [`{word}`](#{word}) | {title} |").unwrap();
    }
    for code in Code::ALL {
        let (status, word, title) = (code.status(), code.as_str(), code.title());
        write!(page, "\n## {word}\n\n{status}. {title}. {}\n", code.advice()).unwrap();
    }
    is_locked("docs/errors.md", &page);
}

const EVENTS: &str = "# Events

What can happen, with an example of each: the body of the request that a webhook target gets, and
what `GET /v1/events` lists. How they are delivered and verified is in [webhooks.md](webhooks.md).
This page is made from the code (`crates/service/src/events/catalogue.rs`); a test keeps it true,
and another one compares the examples of what this version sends with what it does send.

`data` is the object as its own `GET` shows it (what people wrote as their list does, without
`raw_json`), what the event adds (`reason`, `error`, `button`), and `sequence`, which rises with
every event of the object. Members may be added: ignore what you do not know.

An event has at most 64 KiB. One that would have more has `\"truncated\": true` among its data:
that of an email shows only the recipient that it is about, any other only `object_id`. Reading the
object shows all of it.

| type | when |
|---|---|
";

#[test]
fn the_catalogue_of_events_is_locked() {
    let mut page = EVENTS.to_owned();
    for kind in Kind::ALL {
        let (word, anchor) = (kind.as_str(), kind.as_str().replace('.', ""));
        writeln!(page, "| [`{word}`](#{anchor}) | {} |", kind.meaning()).unwrap();
    }
    for kind in Kind::ALL {
        let example = serde_json::to_string_pretty(&kind.example_event()).unwrap();
        write!(page, "\n## {}\n\n{}\n\n", kind.as_str(), kind.meaning()).unwrap();
        writeln!(page, "```json\n{example}\n```").unwrap();
    }
    is_locked("docs/events.md", &page);
}

/// What is documented for programs is the same catalogue, with the same examples.
#[test]
fn the_description_has_every_kind_of_event_with_its_example() {
    let document = estafette::wiring::description::openapi();
    let pushed = document["webhooks"].as_object().unwrap();
    assert_eq!(pushed.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        let body = &pushed[kind.as_str()]["post"]["requestBody"]["content"]["application/json"];
        assert_eq!(body["example"], kind.example_event(), "{}", kind.as_str());
        let request = &pushed[kind.as_str()]["post"];
        assert_eq!(request["summary"], kind.as_str());
        assert!(request["description"].as_str().unwrap().starts_with(kind.meaning()));
    }
}
