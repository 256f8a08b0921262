//! `devtools nodes`: several nodes on one database under load. One after the other is killed,
//! paused longer than its leases or restarted, or the database is; then everything acknowledged is
//! looked for, and the ledger must add up.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

mod clients;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use self::clients::Crowd;
use crate::{
    api::Api,
    chance::Chance,
    crash::{
        check::{Ask, Findings, settle, sweep},
        is_message,
        journal::{Acked, Journal},
        server::Server,
    },
    stopwatch,
};

const EXAMPLES: &str = "Examples:
  devtools nodes --database postgres://… --faults 20 --fault kill --fault pause
  devtools nodes --database postgres://… --faults 3 --fault restart    (a rolling restart)
  devtools nodes --database postgres://… --faults 50 --fault database \\
      --database-kill 'scripts/postgres kill' --database-start 'scripts/postgres start'
  devtools nodes --database postgres://… --control lose-acks           (must exit 1)

Every request has an Idempotency-Key. What fails at one node is tried once at the next; what fails
there as well is counted, and tried again later. Exit code 1 means that something acknowledged was
lost or doubled, or that the audit found something.";

/// How long the nodes may take to find the database again.
const RECOVERY: Duration = Duration::from_mins(1);

/// What happens to a node, or to the database under all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// SIGKILL, and a new start half a second later.
    Kill,
    /// SIGSTOP for longer than its leases, then SIGCONT.
    Pause,
    /// SIGTERM, and a new start when it has ended.
    Restart,
    /// `--database-kill`, then `--database-start`.
    Database,
}

/// Falsified journals, which the checker must see through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Control {
    /// Claim one send that never was and change the recipient of another.
    LoseAcks,
}

/// Options of `devtools nodes`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service's binary.
    #[arg(long, default_value = "target/release/estafette")]
    binary: PathBuf,
    /// URL of an empty database.
    #[arg(long)]
    database: String,
    /// How many nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=16))]
    nodes: u64,
    /// Clients that send at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// How many faults.
    #[arg(long, default_value_t = 10)]
    faults: u64,
    /// Which faults, in turn; kill and pause when left out.
    #[arg(long = "fault", value_enum)]
    kinds: Vec<Fault>,
    /// Load between two faults, in ms.
    #[arg(long, default_value_t = 700)]
    between_ms: u64,
    /// How long a paused node stands still, in ms; a claim lasts 15 s.
    #[arg(long, default_value_t = 17_000)]
    pause_ms: u64,
    /// A shell command that kills the database.
    #[arg(long)]
    database_kill: Option<String>,
    /// A shell command that starts it again and returns when it takes connections.
    #[arg(long)]
    database_start: Option<String>,
    /// How long an interrupted send may stay in progress, in seconds.
    #[arg(long, default_value_t = 60)]
    settle_s: u64,
    /// Decides which node fails and what is sent; differs from run to run when left out.
    #[arg(long)]
    seed: Option<u64>,
    /// Prove that the checker sees a loss: must exit 1.
    #[arg(long, value_enum)]
    control: Option<Control>,
}

/// Runs the faults; `Ok(false)` when a promise was broken.
///
/// # Errors
/// When the nodes cannot be started or used at all.
pub(crate) fn run(args: Args) -> Result<bool> {
    let needs_commands = args.kinds.contains(&Fault::Database);
    let has_commands = args.database_kill.is_some() && args.database_start.is_some();
    ensure!(
        !needs_commands || has_commands,
        "--fault database needs --database-kill and --database-start"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(torment(args))
}

/// The nodes, and what was measured of the faults.
struct Cluster {
    args: Args,
    seed: u64,
    servers: Vec<Server>,
    /// Longest time without any success around each fault, ms.
    gaps_ms: Vec<u64>,
    /// From the database's return to the next success, ms.
    recoveries_ms: Vec<u64>,
    stopped_in_order: bool,
}

async fn torment(args: Args) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(stopwatch::fresh_seed);
    eprintln!("nodes: seed {seed}");
    let (mut cluster, key) = Cluster::start(args, seed).await?;
    let apis = cluster.servers.iter().map(|server| Api::new(&server.url(), vec![key.clone()]));
    let crowd = Arc::new(Crowd::new(apis.collect::<Result<_>>()?, seed));
    let tasks: Vec<_> = (0..cluster.args.clients)
        .map(|client| {
            let at = usize::try_from(client).unwrap_or(0);
            tokio::spawn(clients::drive(Arc::clone(&crowd), at))
        })
        .collect();
    let begin = stopwatch::now();
    for fault in 0..cluster.args.faults {
        cluster.one_fault(fault, &crowd).await.with_context(|| format!("fault {fault}"))?;
    }
    tokio::time::sleep(Duration::from_millis(cluster.args.between_ms)).await;
    let seconds = begin.elapsed().as_secs_f64();
    crowd.over.store(true, Ordering::Relaxed);
    let mut journal = Journal::default();
    for task in tasks {
        journal.absorb(task.await.context("a client of the driver failed")??);
    }
    let findings = cluster.check(&crowd, &mut journal).await?;
    cluster.finish(&crowd, &journal, &findings, seconds).await
}

impl Cluster {
    async fn start(args: Args, seed: u64) -> Result<(Self, String)> {
        // Any key will do, as long as all nodes have the same.
        let key = "6e".repeat(32);
        let settings = [
            ("ESTAFETTE__DATABASE__URL", args.database.as_str()),
            ("ESTAFETTE__MASTER_KEY", key.as_str()),
        ];
        // At once, so that they also race for the migrations.
        let mut starting = tokio::task::JoinSet::new();
        for index in 0..args.nodes {
            let mut server = Server::new(&args.binary, &[])?.with(&settings);
            starting.spawn(async move {
                server.start().await?;
                anyhow::Ok((index, server))
            });
        }
        let mut servers = starting.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        servers.sort_by_key(|(index, _)| *index);
        let mut cluster = Self {
            args,
            seed,
            servers: servers.into_iter().map(|(_, server)| server).collect(),
            gaps_ms: Vec::new(),
            recoveries_ms: Vec::new(),
            stopped_in_order: true,
        };
        let key = cluster.node(0)?.make_account().await?;
        Ok((cluster, key))
    }

    fn node(&mut self, index: usize) -> Result<&mut Server> {
        self.servers.get_mut(index).context("no such node")
    }

    async fn one_fault(&mut self, fault: u64, crowd: &Crowd) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(self.args.between_ms)).await;
        let mut chance = Chance::new(self.seed ^ 0x6e6f_6465, fault);
        let usual = [Fault::Kill, Fault::Pause];
        let kinds = if self.args.kinds.is_empty() { &usual[..] } else { &self.args.kinds };
        let turn = usize::try_from(fault)?;
        let kind = kinds.get(turn % kinds.len()).copied().unwrap_or(Fault::Kill);
        let nodes = self.servers.len() as u64;
        // A rolling restart goes from one to the next.
        let index = if kind == Fault::Restart { fault % nodes } else { chance.below(nodes) };
        let index = usize::try_from(index)?;
        crowd.longest_gap();
        match kind {
            Fault::Kill => {
                self.node(index)?.kill().await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
                self.node(index)?.start().await?;
            }
            Fault::Pause => {
                let pause = Duration::from_millis(self.args.pause_ms);
                self.node(index)?.signal("STOP").await?;
                tokio::time::sleep(pause).await;
                self.node(index)?.signal("CONT").await?;
            }
            Fault::Restart => {
                self.stopped_in_order &= self.node(index)?.stop().await?;
                self.node(index)?.start().await?;
            }
            Fault::Database => self.database_fault(crowd).await?,
        }
        let gap = crowd.longest_gap();
        self.gaps_ms.push(u64::try_from(gap.as_millis())?);
        let successes = crowd.successes.load(Ordering::Relaxed);
        eprintln!(
            "nodes: {} of {} faults, {successes} acknowledged, gap {} ms",
            fault + 1,
            self.args.faults,
            gap.as_millis()
        );
        Ok(())
    }

    async fn database_fault(&mut self, crowd: &Crowd) -> Result<()> {
        shell(self.args.database_kill.as_deref().unwrap_or_default()).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        shell(self.args.database_start.as_deref().unwrap_or_default()).await?;
        let (begin, before) = (stopwatch::now(), crowd.successes.load(Ordering::Relaxed));
        while crowd.successes.load(Ordering::Relaxed) == before {
            ensure!(begin.elapsed() < RECOVERY, "no success in {} s", RECOVERY.as_secs());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.recoveries_ms.push(u64::try_from(begin.elapsed().as_millis())?);
        Ok(())
    }

    /// Reads everything acknowledged from every node in turn, repeats it, and verifies some of it.
    async fn check(&self, crowd: &Crowd, journal: &mut Journal) -> Result<Findings> {
        let api = crowd.apis.first().context("no node")?;
        settle(api, journal, Duration::from_secs(self.args.settle_s)).await?;
        if self.args.control == Some(Control::LoseAcks) {
            journal.forge();
        }
        let ask = |ask, every: usize| {
            let chosen = journal.acked.iter().step_by(every.max(1));
            chosen.map(|acked: &Acked| (ask, acked.clone())).collect::<Vec<_>>()
        };
        let some = journal.acked.len().div_ceil(1_000);
        let mut findings = Findings::default();
        for (node, api) in crowd.apis.iter().enumerate() {
            let mut questions = ask(Ask::Read, crowd.apis.len());
            if node == 0 {
                questions.extend(ask(Ask::Read, 1));
                questions.extend(ask(Ask::Repeat, some));
                questions.extend(ask(Ask::Handset, some));
                let passcodes = ask(Ask::Verify, some).into_iter();
                questions.extend(passcodes.filter(|(_, acked)| !is_message(acked)));
            }
            findings.merge(sweep(api, questions).await?);
        }
        Ok(findings)
    }

    async fn finish(
        mut self,
        crowd: &Crowd,
        journal: &Journal,
        findings: &Findings,
        seconds: f64,
    ) -> Result<bool> {
        for index in 0..self.servers.len() {
            self.stopped_in_order &= self.node(index)?.stop().await?;
        }
        let (audit_ok, audit) = self.node(0)?.audit().await?;
        let passed = audit_ok
            && self.stopped_in_order
            && findings.clean()
            && journal.unexpected.is_empty()
            && journal.pending.is_empty();
        let mut report = self.report(crowd, journal, findings);
        for (name, value) in [
            ("seconds", json!(seconds)),
            ("stopped_in_order", json!(self.stopped_in_order)),
            ("audit", audit),
            ("passed", json!(passed)),
        ] {
            report.insert(name.to_owned(), value);
        }
        println!("{}", Value::Object(report));
        Ok(passed)
    }

    fn report(&self, crowd: &Crowd, journal: &Journal, findings: &Findings) -> Map<String, Value> {
        let mut samples = findings.samples.clone();
        samples.extend(journal.unexpected.iter().take(10).cloned());
        let report = json!({
            "nodes": self.servers.len(),
            "faults": self.args.faults,
            "acknowledged": journal.acked.len(),
            "failed_at_one_node": crowd.failed_once.load(Ordering::Relaxed),
            "failed_after_one_retry": crowd.failed_twice.load(Ordering::Relaxed),
            "refused": journal.refused,
            "checks": findings.checks,
            "lost": findings.lost,
            "mismatched": findings.mismatched,
            "unverifiable": findings.unverifiable,
            "double": findings.double,
            "delivered_twice": findings.delivered_twice,
            "dangling": journal.pending.len(),
            "unexpected": findings.unexpected + journal.unexpected.len() as u64,
            "samples": samples,
            "gap_ms": spread(&self.gaps_ms),
            "database_recovery_ms": spread(&self.recoveries_ms),
            "seed": self.seed,
        });
        report.as_object().cloned().unwrap_or_default()
    }
}

fn spread(figures: &[u64]) -> Value {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable();
    json!({ "p50": sorted.get(sorted.len() / 2), "max": sorted.last() })
}

async fn shell(command: &str) -> Result<()> {
    let status = tokio::process::Command::new("sh").args(["-c", command]).status().await?;
    if !status.success() {
        bail!("`{command}` ends with {status}");
    }
    Ok(())
}
