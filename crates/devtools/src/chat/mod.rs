//! `devtools chat`: live chat under many sockets, restarts, kills, and over two nodes.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

mod client;
mod crowd;
mod kills;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use self::client::Desk;
use crate::crash::server::Server;

const EXAMPLES: &str = "Examples:
  devtools chat --part idle --sockets 9000      (raise `ulimit -n` before)
  devtools chat --part storm --sockets 1000
  devtools chat --part kill --kills 50
  devtools chat --part kill --kills 2 --control        (must exit 1)
  devtools chat --part nodes --database postgres://…

idle: memory of each socket, then messages to all of them. storm: a restart with all sockets open,
and messages meanwhile. kill: SIGKILL while all write. nodes: messages from one node to sockets of
another. One line of JSON for each part. Exit code 1: a message was lost, doubled or out of
order.";

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Idle,
    Storm,
    Kill,
    Nodes,
}

/// Options of `devtools chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service's binary.
    #[arg(long, default_value = "target/release/estafette")]
    binary: PathBuf,
    /// What to do, in turn; idle, storm and kill when left out.
    #[arg(long = "part", value_enum)]
    parts: Vec<Part>,
    /// Open sockets of one ticket.
    #[arg(long, default_value_t = 500)]
    sockets: usize,
    /// Messages to all of them.
    #[arg(long, default_value_t = 20)]
    messages: usize,
    /// How often the service is killed.
    #[arg(long, default_value_t = 5)]
    kills: u64,
    /// URL of an empty database, for `nodes`.
    #[arg(long)]
    database: Option<String>,
    /// Claim a message that never was: the check must see it, and the exit code be 1.
    #[arg(long)]
    control: bool,
}

/// Runs the parts; `Ok(false)` when a promise was broken.
///
/// # Errors
/// When the service cannot be started or used at all.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let usual = [Part::Idle, Part::Storm, Part::Kill];
    let parts = if args.parts.is_empty() { usual.to_vec() } else { args.parts.clone() };
    let mut passed = true;
    for part in parts {
        let report = runtime.block_on(async {
            match part {
                Part::Idle => crowd::idle(args).await,
                Part::Storm => crowd::storm(args).await,
                Part::Kill => kills::kill(args).await,
                Part::Nodes => crowd::nodes(args).await,
            }
        })?;
        passed &= report.get("passed").and_then(Value::as_bool).unwrap_or(false);
        println!("{}", Value::Object(report));
    }
    Ok(passed)
}

/// A service without the bounds that would be measured instead.
async fn serve(args: &Args, database: Option<&str>) -> Result<Server> {
    let key = "5a".repeat(32);
    let mut settings = vec![
        ("ESTAFETTE__LIMITS__GUEST_PER_MIN", "1000000"),
        ("ESTAFETTE__LIMITS__READ_PER_S", "1000000"),
        ("ESTAFETTE__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "100000"),
        ("ESTAFETTE__SUPPORT__SOCKETS_PER_PERSON", "100000"),
        ("ESTAFETTE__SUPPORT__DRAIN_SPREAD_MS", "1000"),
    ];
    if let Some(database) = database {
        settings.push(("ESTAFETTE__DATABASE__URL", database));
        settings.push(("ESTAFETTE__MASTER_KEY", &key));
    }
    let mut server = Server::new(&args.binary, &[])?.with(&settings);
    server.start().await?;
    Ok(server)
}

fn report(part: &str, value: &Value) -> Map<String, Value> {
    let mut report = value.as_object().cloned().unwrap_or_default();
    report.insert("part".to_owned(), json!(part));
    report
}

/// The value below which so many percent of them are, in milliseconds.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied()
}

/// Everything that a ticket holds, by its numbers: what is wrong with them.
async fn gaps(desk: &Desk) -> Result<(Vec<client::Seen>, Vec<String>)> {
    let all = desk.messages().await?;
    ensure!(!all.is_empty(), "the ticket has no message");
    let wrong = |(at, seen): (usize, &client::Seen)| {
        let expected = i64::try_from(at).unwrap_or(0) + 1;
        (seen.seq != expected).then(|| format!("number {} stands at {expected}", seen.seq))
    };
    let faults = all.iter().enumerate().filter_map(wrong).take(10).collect();
    Ok((all, faults))
}

/// The URL of the database that `--part nodes` needs.
fn database(args: &Args) -> Result<&str> {
    args.database.as_deref().context("--part nodes needs --database")
}
