//! Every SQL text of the service: parameters in order of first use, prepared on every engine, and
//! no scan of a table that grows.

use std::path::Path;

use estafette::app::Env;
use store::Sql;

use crate::on_every_engine;
use crate::tidy::{Source, sources};
use crate::world::World;

on_every_engine!(every_statement_is_good, a_scan_is_caught);

/// Statements that may read a whole table or sort, and why.
const MAY_SCAN: &[(&str, &str)] = &[];

/// A constant and its text.
struct Statement {
    place: String,
    name: String,
    text: String,
}

/// The string literal at the start of `rest`, without its quotes, as the compiler reads it.
fn literal(rest: &str) -> Option<String> {
    let rest = rest.trim_start();
    if let Some(raw) = rest.strip_prefix("r\"") {
        return raw.split_once('"').map(|(text, _)| text.to_owned());
    }
    if let Some(raw) = rest.strip_prefix("r#\"") {
        return raw.split_once("\"#").map(|(text, _)| text.to_owned());
    }
    let mut letters = rest.strip_prefix('"')?.chars().peekable();
    let mut text = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => match letters.next()? {
                '\n' => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                'n' => text.push('\n'),
                other => text.push(other),
            },
            letter => text.push(letter),
        }
    }
}

/// All constants of a file.
fn statements(source: &Source) -> Vec<Statement> {
    let mut found = vec![];
    for (at, _) in source.text.match_indices("Sql(") {
        let before = &source.text[..at];
        let start = before.rfind("const ").map_or(0, |at| at + "const ".len());
        let (name, kind) = before[start..].split_once(':').unwrap_or_default();
        let line = before.lines().count();
        let kind = kind.trim().trim_end_matches('=').trim();
        assert_eq!(kind, "Sql", "{} line {line}: this Sql is no constant", source.path);
        let text = literal(&source.text[at + 4..])
            .unwrap_or_else(|| panic!("{}: {name} is no plain text", source.path));
        found.push(Statement { place: source.path.clone(), name: name.trim().to_owned(), text });
    }
    found
}

/// `$1, $2, …` in order of first use; answers how many.
fn parameters(text: &str) -> Result<usize, String> {
    let mut highest = 0;
    for (at, _) in text.match_indices('$') {
        let digits: String = text[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        let number: usize = digits.parse().map_err(|_| format!("a lone $ at {at}"))?;
        if number > highest + 1 {
            return Err(format!("${number} comes before ${}", highest + 1));
        }
        highest = highest.max(number);
    }
    Ok(highest)
}

async fn every_statement_is_good(world: &World) {
    let all: Vec<Statement> = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .iter()
        .filter(|source| source.path.ends_with("store.rs"))
        .flat_map(statements)
        .collect();
    assert!(all.len() > 40, "only {} statements were found", all.len());
    let db = world.app(Env::Sandbox).await.db.clone();
    let mut faults = vec![];
    let mut scanning = vec![];
    for statement in &all {
        let Statement { place, name, text } = statement;
        let expected = match parameters(text) {
            Ok(expected) => expected,
            Err(fault) => {
                faults.push(format!("{place} {name}: {fault}"));
                continue;
            }
        };
        match db.plan(Sql(text.clone().leak())).await {
            Err(error) => faults.push(format!("{place} {name}: {error}")),
            Ok(plan) => {
                if plan.parameters != expected {
                    faults.push(format!("{place} {name}: {} parameters", plan.parameters));
                }
                if !plan.scans.is_empty() {
                    scanning.push(name.clone());
                    if MAY_SCAN.iter().all(|(known, _)| known != name) {
                        faults.push(format!("{place} {name}: {:?}", plan.scans));
                    }
                }
            }
        }
    }
    for (name, _) in MAY_SCAN {
        if !scanning.iter().any(|found| found == name) {
            faults.push(format!("{name} need not be excused"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn texts_are_read_as_the_compiler_reads_them() {
    let code = r#"const ONE: Sql = Sql(
        "SELECT a \
         FROM b WHERE c = $1 AND d <> \"x\"",
    );"#;
    let source = Source { path: "x/store.rs".to_owned(), text: code.to_owned() };
    let found = statements(&source);
    assert_eq!(found[0].name, "ONE");
    assert_eq!(found[0].text, "SELECT a FROM b WHERE c = $1 AND d <> \"x\"");
}

#[test]
fn parameters_out_of_order_are_caught() {
    assert_eq!(parameters("a = $1 AND b = $2 AND c = $1"), Ok(2));
    assert!(parameters("a = $2 AND b = $1").is_err());
    assert!(parameters("a = $").is_err());
}

async fn a_scan_is_caught(world: &World) {
    let db = world.app(Env::Sandbox).await.db.clone();
    let scan = db.plan(Sql("SELECT user_id FROM users WHERE failed_logins > $1")).await.unwrap();
    assert!(!scan.scans.is_empty());
    let look_up = db.plan(Sql("SELECT email FROM users WHERE user_id = $1")).await.unwrap();
    assert!(look_up.scans.is_empty(), "{:?}", look_up.scans);
    assert!(db.plan(Sql("SELECT nothing FROM nowhere")).await.is_err());
}
