//! The data: the database, its schema, its clock beside ours, and the master key.

use std::time::Duration;

use clock::{Clock, Millis};
use store::Db;
use tokio::time::{Instant, timeout};

use super::{Finding, machine, remedies};
use crate::chores;
use crate::config::Config;
use crate::rotation;
use crate::schema::MIGRATIONS;
use crate::wiring;

/// How long the database may take for everything that is asked here.
const PATIENCE: Duration = Duration::from_secs(10);
/// A read that takes longer than this makes every request slow.
const SLOW: Duration = Duration::from_millis(50);
/// Clocks that differ by more than this spoil tokens and signatures.
const MOST_APART_MS: i64 = 2_000;

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let asked = timeout(PATIENCE, database(config)).await;
    asked.unwrap_or_else(|_elapsed| {
        let found = format!("no answer in {} s", PATIENCE.as_secs());
        vec![Finding::fault("database", found, REACH)]
    })
}

const REACH: &str = "see that the server runs and database.url leads to it";

async fn database(config: &Config) -> Vec<Finding> {
    let mut findings = vec![];
    if let Some(file) = wiring::database_file(config).filter(|file| !file.is_file()) {
        let file = std::path::absolute(&file).unwrap_or(file);
        let found = format!("there is none at {}", file.display());
        let remedy = "`estafette serve` makes it; --data-dir or --config names another place";
        findings.push(Finding::warning("database", found, remedy));
        return findings;
    }
    let clock = Clock::system();
    let db = match wiring::open_database(config) {
        Ok(db) => db,
        Err(error) => {
            let why = error.root_cause().downcast_ref::<store::Error>();
            let remedy = why.map_or_else(|| REACH.to_owned(), |why| remedies::of(config, why));
            return vec![Finding::fault("database", format!("{error:#}"), remedy)];
        }
    };
    match about(&db, &clock).await {
        Ok(found) => findings.extend(found),
        Err(error) => {
            let remedy = remedies::of(config, &error);
            findings.push(Finding::fault("database", error.to_string(), remedy));
            db.close().await;
            return findings;
        }
    }
    findings.push(writes(config, &db).await);
    if db.has_tables().await.is_ok_and(|has| has) {
        findings.push(time(&db, &clock).await);
        findings.push(key(config, &db, &clock).await);
    }
    db.close().await;
    findings
}

/// Version, latency, schema, and the server's clock.
async fn about(db: &Db, clock: &Clock) -> Result<Vec<Finding>, store::Error> {
    // The first question opens a connection.
    db.has_tables().await?;
    let began = Instant::now();
    let about = db.about().await?;
    let took = began.elapsed();
    let said = format!("{}, answers in {:.1} ms", about.version, took.as_secs_f64() * 1_000.0);
    let mut findings = vec![if took > SLOW {
        Finding::warning("database", said, "every request waits for it: bring it nearer")
    } else {
        Finding::fine("database", said)
    }];
    if let Some(server) = about.clock_ms {
        let apart_ms = (clock.now() - Millis(server)).abs();
        findings.push(if apart_ms > MOST_APART_MS {
            let found = format!("{apart_ms} ms apart from the database's");
            Finding::warning("clock", found, "run an NTP client on both machines")
        } else {
            Finding::fine("clock", format!("{apart_ms} ms apart from the database's"))
        });
    }
    findings.push(schema(db.version().await?));
    Ok(findings)
}

/// Whether a start could bring the schema up to date, and write.
async fn writes(config: &Config, db: &Db) -> Finding {
    let about = "writes";
    if let Err(error) = db.rehearse(MIGRATIONS).await {
        return Finding::fault(about, error.to_string(), remedies::of(config, &error));
    }
    match db.reserved_by() {
        Some(process) => Finding::fine(about, format!("process {process} serves from it")),
        None => Finding::fine(about, "this user may write, and change the schema"),
    }
}

fn schema(version: u32) -> Finding {
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
    let found = format!("version {version}; this program's is {newest}");
    match version.cmp(&newest) {
        std::cmp::Ordering::Equal => Finding::fine("schema", found),
        std::cmp::Ordering::Less if version == 0 => {
            Finding::warning("schema", "there are no tables yet", "the first start makes them")
        }
        std::cmp::Ordering::Less => Finding::warning(
            "schema",
            found,
            "the next start brings it up to date; make a backup before: `estafette backup FILE`",
        ),
        std::cmp::Ordering::Greater => Finding::fault(
            "schema",
            found,
            "a newer program made it: install that one again, or restore a backup from before",
        ),
    }
}

/// What the clock says beside what is written.
async fn time(db: &Db, clock: &Clock) -> Finding {
    match chores::judge(db, clock).await {
        Ok(judged) if judged.is_refused() => {
            let found = format!("{} s ahead of everything written", judged.ahead_ms() / 1_000);
            let remedy = "set it right or, if it is, run `estafette clock --confirm`; until then \
                          nothing old is deleted";
            Finding::fault("time", found, remedy)
        }
        Ok(judged) => Finding::fine("time", format!("{}, believed", judged.clock)),
        Err(error) => Finding::fault("time", error.to_string(), "bring the schema up to date"),
    }
}

async fn key(config: &Config, db: &Db, clock: &Clock) -> Finding {
    let about = "master key";
    let vault = match wiring::vault(config, clock) {
        Ok(vault) => vault,
        Err(error) => {
            let remedy = "put the key of this database there: without it codes, secrets and the \
                          ledger's seals cannot be read";
            return Finding::fault(about, format!("{error:#}"), remedy);
        }
    };
    let given = vault.key_ids().join(", ");
    match rotation::is_known(db, &vault).await {
        Ok(()) => match config.master_key_file().filter(|file| machine::is_open_to_others(file)) {
            Some(file) => {
                let found = format!("{} can be read by other users", file.display());
                Finding::warning(about, found, format!("chmod 600 {}", file.display()))
            }
            None => Finding::fine(about, format!("fingerprint {given}, as the database says")),
        },
        Err(error) => {
            let remedy = match config.master_key_file() {
                Some(file) => format!("put the right one in {}", file.display()),
                None => "give the right one as master_key".to_owned(),
            };
            Finding::fault(about, error.to_string(), remedy)
        }
    }
}
