//! Makes a database with real traffic, forges copies of it in every way that we know, and says
//! which forgeries `estafette audit` notices. The one driver that has the service's library in it,
//! so a crate of its own: the others build beside that library.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

mod base;
mod forgeries;

use std::{collections::BTreeSet, path::Path, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use estafette::credits::audit::Report;
use estafette::kit::sealing::SealHead;
use rusqlite::Connection;
use tokio::task::JoinSet;

use self::base::{Base, audit};
use self::forgeries::{ALL, BALANCE, Expect, Forgery};

const EXAMPLES: &str = "Examples:
  forger
  forger --only 'top-up' --verbose

Exit code 1: one that should be noticed is not, one that cannot be noticed is, or an untouched copy
does not pass.";

/// Copies that are audited at the same time.
const PARALLEL: usize = 8;

/// Forges the ledger in every way on copies of a database, and sees what the audit notices.
#[derive(Debug, Parser)]
#[command(name = "forger", version, about, after_help = EXAMPLES)]
struct Args {
    /// Only forgeries whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print what the audit says of each.
    #[arg(long)]
    verbose: bool,
}

/// What became of one forgery.
struct Verdict {
    place: usize,
    name: String,
    expect: Expect,
    /// By the audit alone.
    alone: Report,
    /// With the seal that was kept elsewhere.
    since: Report,
}

impl Verdict {
    fn is_as_expected(&self) -> bool {
        let (alone, since) = (!self.alone.is_ok(), !self.since.is_ok());
        match self.expect {
            Expect::Noticed => alone && since,
            Expect::NoticedSince => !alone && since,
            Expect::Sound | Expect::Unnoticed => !alone && !since,
        }
    }

    fn line(&self) -> String {
        let by = |report: &Report| {
            let invariants = report.violations.iter().map(|found| found.invariant);
            invariants.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
        };
        let what = match (self.alone.is_ok(), self.since.is_ok(), self.expect) {
            (true, true, Expect::Sound) => "passes".to_owned(),
            (true, true, _) => "not noticed".to_owned(),
            (true, false, _) => format!("with a kept seal: {}", by(&self.since)),
            _ => by(&self.alone),
        };
        let verdict = if self.is_as_expected() { "" } else { "   NOT AS EXPECTED" };
        format!("{:<50} {what}{verdict}", self.name)
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forger: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs all of it; `Ok(false)` when something is not as expected.
///
/// # Errors
/// When the service cannot make the database or read a copy to its end.
fn run(args: &Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let verdicts = runtime.block_on(try_all(args))?;
    for verdict in &verdicts {
        println!("{}", verdict.line());
        for found in verdict.alone.violations.iter().filter(|_| args.verbose) {
            println!("    {} {} {}", found.invariant, found.object_id, found.detail);
        }
    }
    let count = |expect| verdicts.iter().filter(|verdict| verdict.expect == expect).count();
    let wrong = verdicts.iter().filter(|verdict| !verdict.is_as_expected()).count();
    println!(
        "{} forgeries: {} noticed, {} with a kept seal, {} that cannot be; {} controls; {wrong} \
         not as expected",
        verdicts.len() - count(Expect::Sound),
        count(Expect::Noticed),
        count(Expect::NoticedSince),
        count(Expect::Unnoticed),
        count(Expect::Sound),
    );
    Ok(wrong == 0 && !verdicts.is_empty())
}

async fn try_all(args: &Args) -> Result<Vec<Verdict>> {
    let folder = tempfile::tempdir()?;
    let base = base::build(folder.path()).await.context("the database was not made")?;
    let mut copies = Vec::new();
    for (place, forgery) in ALL.iter().enumerate() {
        copies.push((place, forgery.name, forgery.expect, forge(folder.path(), &base, forgery)?));
    }
    let old = "the whole database is an old copy";
    copies.push((ALL.len(), old, Expect::NoticedSince, base.old_file.clone()));
    copies.retain(|(_, name, ..)| name.contains(&args.only));
    let (mut running, mut verdicts) = (JoinSet::new(), Vec::new());
    for (place, name, expect, file) in copies {
        if running.len() >= PARALLEL
            && let Some(verdict) = running.join_next().await
        {
            verdicts.push(verdict??);
        }
        let (folder, now, head) = (folder.path().to_owned(), base.now, base.head);
        running.spawn(async move {
            let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let look = |since: Option<SealHead>| audit(&folder, &file, now, since);
            let (alone, since) = (look(None).await, look(Some(head)).await);
            let failed = || format!("{name}: the audit did not come to its end");
            let (alone, since) = (alone.with_context(failed)?, since.with_context(failed)?);
            let name = name.to_owned();
            anyhow::Ok(Verdict { place, name, expect, alone, since })
        });
    }
    while let Some(verdict) = running.join_next().await {
        verdicts.push(verdict??);
    }
    verdicts.sort_by_key(|verdict| verdict.place);
    Ok(verdicts)
}

/// A copy with the forgery in it.
fn forge(folder: &Path, base: &Base, forgery: &Forgery) -> Result<PathBuf> {
    let place = forgery.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let copy = folder.join(format!("{place}.db"));
    std::fs::copy(&base.file, &copy)?;
    let database = Connection::open(&copy)?;
    // Who can write to the file can also switch its constraints off.
    database.execute_batch("PRAGMA ignore_check_constraints = ON")?;
    let quoted = |id: &str| format!("'{id}'");
    let accounts = [(":ada", &base.ada), (":ben", &base.ben), (":zoe", &base.zoe)];
    let sql = accounts
        .iter()
        .fold(forgery.sql.to_owned(), |sql, (name, account)| sql.replace(name, &quoted(account)));
    database.execute_batch(&sql).with_context(|| format!("forging: {}", forgery.name))?;
    if forgery.is_balanced {
        let mended = database.execute_batch(BALANCE);
        mended.with_context(|| format!("mending the counters: {}", forgery.name))?;
    }
    Ok(copy)
}
