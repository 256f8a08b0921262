//! The data: the database, its schema, its clock beside ours, and the master key.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use clock::{Clock, DAY, HOUR, MINUTE};
use store::Db;
use tokio::time::{Instant, timeout};

use super::listeners::Server;
use super::{Finding, machine, remedies};
use crate::app::Env;
use crate::config::Config;
use crate::kit::folder::{self, Folder};
use crate::schema::MIGRATIONS;
use crate::wiring;
use crate::{chores, dispatch, rotation};

/// How long the database may take for everything that is asked here.
const PATIENCE: Duration = Duration::from_secs(10);
/// A read that takes longer than this makes every request slow.
const SLOW: Duration = Duration::from_millis(50);
/// Clocks that differ by more than this spoil certificates, and what receivers make of signatures.
const MOST_APART_MS: i64 = 2_000;

/// What was found out.
pub(super) struct Data {
    pub(super) findings: Vec<Finding>,
    pub(super) server: Server,
}

impl Data {
    /// Nothing more can be asked.
    fn only(finding: Finding, server: Server) -> Self {
        Self { findings: vec![finding], server }
    }
}

pub(super) async fn examine(config: &Config) -> Data {
    if let Some(finding) = wiring::database_file(config).and_then(|file| no_database(config, &file))
    {
        let mut data = Data::only(finding, Server::Nobody);
        data.findings.extend(unusable_key(config));
        return data;
    }
    let asked = timeout(PATIENCE, database(config)).await;
    asked.unwrap_or_else(|_elapsed| {
        let found = format!("no answer in {} s", PATIENCE.as_secs());
        let finding = match wiring::database_file(config) {
            Some(file) => {
                let at = folder::shown(&file);
                let found = format!("{}: {found}", at.display());
                Finding::fault("database", found, remedies::of_lock(&file))
            }
            None => Finding::fault("database", found, remedies::REACH),
        };
        Data::only(finding, Server::Unknown)
    })
}

/// What is said of a file that has no database in it. To open it would make one.
fn no_database(config: &Config, file: &Path) -> Option<Finding> {
    let about = "database";
    let file = folder::shown(file);
    let at = file.display();
    let remedy = "`estafette serve` makes it; --data-dir or --config names another place";
    match file.metadata() {
        Ok(found) if !found.is_file() => {
            let remedy = "move it away, or name another place with --data-dir or database.url";
            Some(Finding::fault(about, format!("{at} is not a file"), remedy))
        }
        Ok(found) if found.len() == 0 && has_own_key(config) => {
            let found = format!("{at} is empty, and a master key is beside it: its data are lost");
            let remedy = "put a backup in its place (operations.md), or remove the empty file \
                          if there never was a database";
            Some(Finding::fault(about, found, remedy))
        }
        Ok(found) if found.len() == 0 => {
            Some(Finding::warning(about, format!("{at} is empty"), remedy))
        }
        Ok(_) => None,
        Err(_) => Some(match folder::look(file.parent().unwrap_or(Path::new("."))) {
            Folder::Useless(why) => Finding::fault(about, why.found, why.remedy),
            Folder::Closed(why) => {
                let found = format!("there is none at {at}, and its directory {}", why.words());
                Finding::fault(about, found, why.remedy())
            }
            Folder::Usable | Folder::Missing => {
                Finding::warning(about, format!("there is none at {at}"), remedy)
            }
        }),
    }
}

/// Whether the data directory has the key of a database.
fn has_own_key(config: &Config) -> bool {
    config.master_key.is_empty() && config.data_dir.join("master.key").exists()
}

async fn database(config: &Config) -> Data {
    let clock = Clock::system();
    let db = match wiring::open_database(config) {
        Ok(db) => db,
        Err(error) => {
            let why = error.downcast_ref::<store::Error>();
            let remedy = why.map_or(remedies::REACH.to_owned(), |why| remedies::of(config, why));
            let finding = Finding::fault("database", format!("{error:#}"), remedy);
            return Data::only(finding, Server::Unknown);
        }
    };
    let server = match db.reserved_by() {
        _ if config.database.is_shared() => Server::Unknown,
        Some(_) => Server::Somebody,
        None => Server::Nobody,
    };
    let mut findings = match about(&db, &clock).await {
        Ok(found) => found,
        Err(error) => {
            let remedy = remedies::of(config, &error);
            db.close().await;
            return Data::only(Finding::fault("database", error.to_string(), remedy), server);
        }
    };
    findings.push(writes(config, &db).await);
    if db.has_tables().await.is_ok_and(|has| has) {
        findings.push(time(&db, &clock).await);
        findings.push(key(config, &db, &clock).await);
        findings.extend(routes(config, &db).await);
        findings.extend(left_behind(config, &db).await);
    } else {
        findings.extend(unusable_key(config));
    }
    db.close().await;
    Data { findings, server }
}

/// Version, latency, schema, and the server's clock.
async fn about(db: &Db, clock: &Clock) -> Result<Vec<Finding>, store::Error> {
    // The first question opens a connection.
    let has_tables = db.has_tables().await?;
    let began = Instant::now();
    let about = db.about().await?;
    let took = began.elapsed();
    let said = format!("{}, answers in {:.1} ms", about.version, took.as_secs_f64() * 1_000.0);
    let mut findings = vec![if took > SLOW {
        Finding::warning("database", said, "every request waits for it: bring it nearer")
    } else {
        Finding::fine("database", said)
    }];
    // What is found out from here on goes by it, as the service does.
    if let Some(standing) = wiring::follow_clock(db, clock).await? {
        let apart_ms = standing.machine_ahead_ms.abs();
        findings.push(if apart_ms > MOST_APART_MS {
            let found = format!("{apart_ms} ms apart from the database's, which nodes go by");
            Finding::warning("clock", found, "run an NTP client on both machines")
        } else {
            Finding::fine("clock", format!("{apart_ms} ms apart from the database's"))
        });
    }
    if !about.careless.is_empty() {
        let found = format!("{}: a crash may take what was answered 2xx", about.careless);
        let remedy = "turn it on at the server, or for this database: ALTER DATABASE … SET …";
        findings.push(Finding::warning("durability", found, remedy));
    }
    let version = db.version().await?;
    // A table of versions that names none is judged beside the other tables, by `writes`.
    if version > 0 || !has_tables {
        findings.push(schema(version));
    }
    Ok(findings)
}

/// Routes that staff put in force, and whose carriers have left the settings since.
async fn routes(config: &Config, db: &Db) -> Option<Finding> {
    // A database from before there were routes has none.
    let (_, routes) = dispatch::routes::newest_of(db, Env::Live).await.ok()?;
    let known = config.sms.all();
    let is_unknown = |name: &&str| !known.iter().any(|(known, _)| known == name);
    let named = routes.iter().flat_map(|route| &route.carriers).map(|choice| choice.name.as_str());
    let unknown: BTreeSet<&str> = named.filter(is_unknown).collect();
    if unknown.is_empty() {
        return None;
    }
    let names = Vec::from_iter(unknown).join(", ");
    let found = format!("the routes that staff set name {names}: not under sms.carriers");
    let remedy = "add that carrier, or set other routes with PUT /v1/admin/routes; until then \
                  messages that only it may carry are answered 503";
    Some(Finding::warning("sms routes", found, remedy))
}

/// Messages at carriers that the settings do not have, under another name perhaps.
async fn left_behind(config: &Config, db: &Db) -> Option<Finding> {
    let all = config.sms.all();
    let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    // A database from before there were carriers has none.
    let open = dispatch::open_elsewhere(db, &known).await.ok()?;
    if open.is_empty() {
        return None;
    }
    let found = format!("SMS are open at {}: not under sms.carriers", open.join(", "));
    let remedy = "give a carrier that was renamed its old name back until they have ended: their \
                  receipts find them by it";
    Some(Finding::warning("sms", found, remedy))
}

/// Whether a start could bring the schema up to date, and write.
async fn writes(config: &Config, db: &Db) -> Finding {
    let about = "writes";
    if let Err(error) = db.rehearse(MIGRATIONS).await {
        return Finding::fault(about, error.to_string(), remedies::of(config, &error));
    }
    match db.reserved_by() {
        Some(process) => Finding::fine(about, format!("process {process} serves from it")),
        None => Finding::fine(about, "this user may write, and make tables"),
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
            let found = format!("{} ahead of everything written", span(judged.ahead_ms()));
            let remedy = "set it right or, if it is, run `estafette clock --confirm`; until then \
                          nothing old is deleted";
            Finding::warning("time", found, remedy)
        }
        // From when on the alert of docs/alerts.yml tells of it.
        Ok(judged) if judged.ahead_ms() <= -HOUR => {
            let found = format!("{} behind what is written", span(-judged.ahead_ms()));
            Finding::warning("time", found, "set the clock right: nothing comes due until then")
        }
        Ok(judged) => Finding::fine("time", format!("{}, trusted", judged.clock)),
        Err(error) => Finding::fault("time", error.to_string(), "bring the schema up to date"),
    }
}

/// How long it is, in the unit that says it best.
fn span(ms: i64) -> String {
    let units = [(DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (1_000, "seconds")];
    // Two of a unit say more than one of the next.
    let fits = units.into_iter().find(|(unit, _)| ms >= 2 * unit);
    let (unit, name) = fits.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}

/// What is wrong with the key of a database which has nothing yet. Where there is neither, the
/// first start makes both.
fn unusable_key(config: &Config) -> Option<Finding> {
    let size = wiring::database_file(config).and_then(|file| Some(file.metadata().ok()?.len()));
    let is_read = match size {
        _ if !config.master_key.is_empty() => true,
        // Beside an empty file the key is told of with that.
        Some(0) => false,
        Some(_) => true,
        None => has_own_key(config),
    };
    let vault = is_read.then(|| wiring::vault(config, &Clock::system()))?;
    let error = vault.err()?;
    let remedy = if config.master_key.is_empty() && !has_own_key(config) {
        "put the key back, or move the database away: it has no tables yet".to_owned()
    } else {
        remedies::of_first_key(&error)
    };
    Some(Finding::fault("master key", format!("{error:#}"), remedy))
}

async fn key(config: &Config, db: &Db, clock: &Clock) -> Finding {
    let about = "master key";
    let vault = match wiring::vault(config, clock) {
        Ok(vault) => vault,
        Err(error) => {
            return Finding::fault(about, format!("{error:#}"), remedies::of_key(&error));
        }
    };
    let given = vault.key_ids().join(", ");
    let file = config.master_key_file().map(|file| folder::shown(&file));
    match rotation::is_known(db, &vault).await {
        Ok(()) => match file.filter(|file| machine::is_open_to_others(file)) {
            Some(file) => {
                let found = format!("{} can be read by other users", file.display());
                Finding::warning(about, found, format!("chmod 600 {}", file.display()))
            }
            None => Finding::fine(about, format!("fingerprint {given}, as the database says")),
        },
        Err(error) => {
            let remedy = match file {
                Some(file) => format!("put the right one in {}", file.display()),
                None => "give the right one as master_key".to_owned(),
            };
            Finding::fault(about, error.to_string(), remedy)
        }
    }
}
