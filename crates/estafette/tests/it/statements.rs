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
const MAY_SCAN: &[(&str, &str)] = &[
    // It reads the index of words, which SQLite shows as a scan of a virtual table; that of
    // PostgreSQL is read by a bitmap, which the check turns off.
    ("SEARCH", "a full text index"),
];

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
    let all: Vec<Statement> =
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src"))
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
    let scan = db.plan(Sql("SELECT user_id FROM users WHERE created_at > $1")).await.unwrap();
    assert!(!scan.scans.is_empty());
    let look_up = db.plan(Sql("SELECT email FROM users WHERE user_id = $1")).await.unwrap();
    assert!(look_up.scans.is_empty(), "{:?}", look_up.scans);
    assert!(db.plan(Sql("SELECT nothing FROM nowhere")).await.is_err());
}

/// Statements that ask for the environment of the account of each row, and why few rows are read.
const MAY_ASK_EACH_ROW: &[(&str, &str)] = &[
    ("BY_PROVIDER_ID", "one template"),
    ("NEWEST_LEGS", "of one recipient"),
    ("NEWEST_TO", "of one recipient"),
    ("NEXT_IN_LINE", "a carrier serves one environment"),
    ("OF_MESSAGE", "one message"),
    ("OF_SESSION", "one session"),
    ("OLDEST_QUEUED", "a carrier serves one environment"),
    ("OWNERS", "of one name"),
    ("WITH_SESSION", "of one person"),
];

/// Else one environment reads all that waits in the other before it finds its own.
#[test]
fn an_environment_is_not_looked_for_row_by_row() {
    let found: std::collections::BTreeSet<String> =
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src"))
            .iter()
            .filter(|source| source.path.ends_with("store.rs"))
            .flat_map(statements)
            .filter(|statement| asks_each_row(&statement.text))
            .map(|statement| statement.name)
            .collect();
    let allowed: Vec<&str> = MAY_ASK_EACH_ROW.iter().map(|(name, _)| *name).collect();
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), allowed);
}

/// Whether a statement asks so.
fn asks_each_row(text: &str) -> bool {
    text.contains("EXISTS (SELECT 1 FROM accounts") && text.contains(".env = $")
}

/// Statements that count rows, and why there are few.
const MAY_COUNT: &[(&str, &str)] = &[("MAKE_ROOM", "senders are few, as all of them count")];

/// A limit that counts what an account has is the slower the more there is to step over, and all
/// others wait for it.
#[test]
fn a_limit_is_kept_without_counting() {
    let found: Vec<String> = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src"))
        .iter()
        .filter(|source| source.path.ends_with("store.rs"))
        .flat_map(statements)
        .filter(|statement| statement.text.contains("(SELECT COUNT(*) FROM"))
        .map(|statement| statement.name)
        .collect();
    let allowed: Vec<&str> = MAY_COUNT.iter().map(|(name, _)| *name).collect();
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), allowed);
}

/// Indexes that begin with the account beside the primary key, and why that does no harm.
const MAY_BEGIN_WITH_ACCOUNT: &[(&str, &str)] = &[
    ("api_key_hashes_of_key", "the primary key does not"),
    ("audit_log_of_account", "the primary key does not"),
    ("seals_of_account", "the primary key does not"),
    ("senders_by_value", "an account has a handful"),
];

/// PostgreSQL takes such an index for a look-up by primary key while the table is small, and then
/// goes through all that the account has.
#[test]
fn only_primary_keys_begin_with_the_account() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut found = std::collections::BTreeSet::new();
    for file in files {
        let sql = std::fs::read_to_string(file).unwrap();
        for statement in sql.split(';') {
            let words: Vec<&str> = statement.split_whitespace().collect();
            let Some(at) = words.iter().position(|word| *word == "INDEX") else { continue };
            let name = words[at + 1].to_owned();
            // What serves some rows only, no look-up by primary key can use.
            if words.contains(&"DROP") || words.contains(&"WHERE") {
                found.remove(&name);
            } else if words[at + 4].starts_with("(account_id") {
                found.insert(name);
            }
        }
    }
    let allowed: Vec<&str> = MAY_BEGIN_WITH_ACCOUNT.iter().map(|(name, _)| *name).collect();
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), allowed);
}
