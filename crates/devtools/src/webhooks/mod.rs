//! `devtools load webhooks`: how fast events are delivered and at what cost, whether a hanging
//! neighbour is felt, whether an endless answer costs memory, and whether kill -9 loses any.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

mod crowd;
mod ground;
mod sink;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use self::{
    ground::{Acks, Tenant},
    sink::Sink,
};
use crate::{crash::server::Server, machine, stopwatch, wire::Conn};

const EXAMPLES: &str = "Examples:
  devtools load webhooks --binary target/release/estafette
  devtools load webhooks --part drain --events 40000 --targets 4
  devtools load webhooks --part crowd --slow-targets 1000 --seconds 60
  devtools load webhooks --part kill --events 10000 --kills 5 --seed 7
  devtools load webhooks --part live --rate 1000 --database postgres://…   (an empty database)

Starts a service of its own. Exit code 1 means that an event was lost, or that a bound was broken.";

/// How long nothing may come until everything has.
const SILENCE: Duration = Duration::from_secs(2);
/// The longest that is waited for what is left.
const PATIENCE: Duration = Duration::from_mins(2);
/// Connections of the sends.
const CLIENTS: u64 = 64;
/// Sends per second of the healthy account, and of its neighbour.
const HEALTHY_PER_S: u64 = 50;
const NEIGHBOUR_PER_S: u64 = 30;
/// A neighbour may make the slowest percent so much slower.
const MOST_RATIO: f64 = 2.0;
/// …or as slow as this, whatever it was before: a disk alone does that now and then, while waiting
/// for a target that hangs costs seconds.
const NOISE_MS: f64 = 250.0;
/// Memory that endless answers may cost, MiB.
const MOST_GROWTH_MIB: f64 = 30.0;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// A backlog of events is delivered as fast as can be.
    Drain,
    /// Events are delivered while they happen.
    Live,
    /// The same beside an account whose target hangs.
    Neighbour,
    /// The same beside many accounts with many targets that answer after 13 seconds.
    Crowd,
    /// Targets whose answers never end.
    Endless,
    /// The service is killed again and again while events happen.
    Kill,
}

/// Options of `devtools load webhooks`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service's binary.
    #[arg(long, default_value = "target/release/estafette")]
    binary: PathBuf,
    /// URL of an empty PostgreSQL database; left out = SQLite.
    #[arg(long)]
    database: Option<String>,
    /// The database's server: its CPU time and that of its children is reported, too.
    #[arg(long)]
    database_pid: Option<u32>,
    /// What is measured; all, in turn, when left out.
    #[arg(long = "part", value_enum)]
    parts: Vec<Part>,
    /// Passcodes sent for drain and kill.
    #[arg(long, default_value_t = 10_000)]
    events: u64,
    /// Targets of drain; each gets every event.
    #[arg(long, default_value_t = 4)]
    targets: u64,
    /// Passcodes per second of live.
    #[arg(long, default_value_t = 500)]
    rate: u64,
    /// Targets of crowd that answer late, 50 of each account.
    #[arg(long, default_value_t = 1_000)]
    slow_targets: u64,
    /// How long live, neighbour, crowd and endless take, in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// How often kill kills.
    #[arg(long, default_value_t = 5)]
    kills: u64,
    /// Decides recipients and kill times; differs from run to run when left out.
    #[arg(long)]
    seed: Option<u64>,
    /// kill: forgets some of what came, to show that a lost event is seen.
    #[arg(long)]
    control: bool,
}

/// Runs the parts; `Ok(false)` when a promise was broken.
///
/// # Errors
/// When the service cannot be started or used.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        use Part::{Crowd, Drain, Endless, Kill, Live, Neighbour};
        let seed = args.seed.unwrap_or_else(stopwatch::fresh_seed);
        let all = [Drain, Live, Neighbour, Crowd, Endless, Kill];
        let parts = if args.parts.is_empty() { all.to_vec() } else { args.parts.clone() };
        ensure!(
            args.database.is_none() || parts.len() == 1,
            "--database needs one --part: each starts with an empty database"
        );
        let mut report = Map::new();
        let mut passed = true;
        for part in parts {
            let mut server = ground::serve(&args.binary, args.database.as_deref()).await?;
            let (name, figures, good) = measure(args, seed, part, &mut server).await?;
            eprintln!("{name}: {figures}");
            report.insert(name.to_owned(), figures);
            passed &= good;
            server.stop().await?;
        }
        report.insert("seed".to_owned(), json!(seed));
        report.insert("passed".to_owned(), json!(passed));
        println!("{}", Value::Object(report));
        Ok(passed)
    })
}

async fn measure(
    args: &Args,
    seed: u64,
    part: Part,
    server: &mut Server,
) -> Result<(&'static str, Value, bool)> {
    let sink = Sink::start().await?;
    let tenant = Tenant::sign_up(&server.url(), seed).await?;
    match part {
        Part::Drain => drain(args, server, &sink, &tenant).await,
        Part::Live => live(args, server, &sink, &tenant).await,
        Part::Neighbour => neighbour(args, seed, server, &sink, &tenant).await,
        Part::Crowd => crowd::measure(args, seed, server, &sink, &tenant).await,
        Part::Endless => endless(args, server, &sink, &tenant).await,
        Part::Kill => kill(args, seed, server, &sink, &tenant).await,
    }
}

/// CPU time so far, µs; that of an embedded database is the service's own.
struct Cpu {
    service_us: f64,
    database_us: f64,
}

impl Cpu {
    fn now(args: &Args, server: &Server) -> Result<Self> {
        let service_us = machine::cpu_us(&server.pid()?.to_string()).context("no CPU time")?;
        let database = args.database_pid.map(|pid| machine::cpu_us_of_trees(&[pid]));
        let database_us = database.unwrap_or(Some(0.0)).context("no such database server")?;
        Ok(Self { service_us, database_us })
    }
}

type Outcome = Result<(&'static str, Value, bool)>;

async fn drain(args: &Args, server: &Server, sink: &Sink, tenant: &Tenant) -> Outcome {
    tenant.send_all(args.events, CLIENTS).await?;
    let ids = tenant.events().await?;
    let events = u64::try_from(ids.len())?;
    let oldest = tenant.time_of(ids.last().context("no events")?).await?;
    let before = Cpu::now(args, server)?;
    for target in 0..args.targets {
        let id = tenant.hook(&format!("{}/ok/{target}", sink.url)).await?;
        let body = json!({"since": oldest});
        tenant.desk("POST", &format!("/v1/webhooks/{id}/recover"), Some(body)).await?;
    }
    let wanted = events * args.targets;
    quiet(sink, wanted).await;
    let cpu = Cpu::now(args, server)?;
    let (delivered, span) = (sink.count(), sink.book().span);
    let (first, last) = span.context("nothing was delivered")?;
    let seconds = last.duration_since(first).as_secs_f64();
    let per_delivery = |us: f64| json!(round(us / number(delivered).max(1.0)));
    let figures = json!({
        "events": events,
        "delivered": delivered,
        "seconds": round(seconds),
        "delivered_per_s": round(number(delivered) / seconds.max(1e-9)),
        "cpu_us_per_delivery": per_delivery(cpu.service_us - before.service_us),
        "database_cpu_us_per_delivery": per_delivery(cpu.database_us - before.database_us),
    });
    Ok(("drain", figures, sink.book().events.len() == usize::try_from(events)?))
}

async fn live(args: &Args, server: &Server, sink: &Sink, tenant: &Tenant) -> Outcome {
    tenant.hook(&format!("{}/ok", sink.url)).await?;
    tenant.send_at(args.rate, 1.0).await?;
    quiet(sink, 0).await;
    sink.clear();
    let before = Cpu::now(args, server)?;
    let acks = tenant.send_at(args.rate, args.seconds).await?;
    quiet(sink, 0).await;
    let after = Cpu::now(args, server)?;
    let lags = lags(&acks, sink)?;
    let sent = lock(&acks).len();
    let mut figures = lags.shown();
    let cpu_us = (after.service_us - before.service_us) / number(u64::try_from(sent)?).max(1.0);
    figures.insert("sent".to_owned(), json!(sent));
    figures.insert("requests".to_owned(), json!(sink.count()));
    figures.insert("cpu_us_per_send_and_deliveries".to_owned(), json!(round(cpu_us)));
    Ok(("live", Value::Object(figures), lags.missing == 0))
}

async fn neighbour(
    args: &Args,
    seed: u64,
    server: &Server,
    sink: &Sink,
    tenant: &Tenant,
) -> Outcome {
    tenant.hook(&format!("{}/ok", sink.url)).await?;
    tenant.send_at(HEALTHY_PER_S, 1.0).await?;
    quiet(sink, 0).await;
    sink.clear();
    let acks = tenant.send_at(HEALTHY_PER_S, args.seconds).await?;
    quiet(sink, 0).await;
    let alone = lags(&acks, sink)?;
    let other = Tenant::sign_up(&server.url(), seed).await?;
    other.hook(&format!("{}/hang", sink.url)).await?;
    let seconds = args.seconds;
    let hanging = tokio::spawn(async move { other.send_at(NEIGHBOUR_PER_S, seconds + 3.0).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    sink.clear();
    let acks = tenant.send_at(HEALTHY_PER_S, args.seconds).await?;
    hanging.await??;
    quiet(sink, 0).await;
    let beside = lags(&acks, sink)?;
    let (p99_ms, before_ms) = (number(beside.typical_p99_ms), number(alone.typical_p99_ms));
    let ratio = p99_ms / before_ms.max(1.0);
    let good = ratio <= MOST_RATIO || p99_ms <= NOISE_MS;
    let figures = json!({
        "alone": alone.shown(),
        "beside_a_hanging_neighbour": beside.shown(),
        "p99_ratio": round(ratio),
    });
    Ok(("neighbour", figures, good && alone.missing == 0 && beside.missing == 0))
}

async fn endless(args: &Args, server: &Server, sink: &Sink, tenant: &Tenant) -> Outcome {
    let pid = server.pid()?.to_string();
    tenant.send_at(50, 1.0).await?;
    let (before, _) = machine::rss_mib(&pid).context("no memory")?;
    tenant.hook(&format!("{}/endless", sink.url)).await?;
    let acks = tenant.send_at(50, args.seconds).await?;
    tokio::time::sleep(SILENCE).await;
    let (_, peak) = machine::rss_mib(&pid).context("no memory")?;
    let figures = json!({
        "sent": lock(&acks).len(),
        "requests": sink.count(),
        "rss_mib_before": round(before),
        "rss_mib_peak": round(peak),
    });
    Ok(("endless", figures, peak - before <= MOST_GROWTH_MIB))
}

/// Sends over one connection each until told to stop; what fails is sent no second time.
async fn send_until(tenant: Tenant, acks: Acks, over: Arc<AtomicBool>) {
    let mut conn = Conn::new(&tenant.api.address);
    while !over.load(Ordering::Relaxed) {
        if tenant.send(&mut conn, &acks).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn kill(
    args: &Args,
    seed: u64,
    server: &mut Server,
    sink: &Sink,
    tenant: &Tenant,
) -> Outcome {
    tenant.hook(&format!("{}/ok", sink.url)).await?;
    let (acks, over) = (Acks::default(), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(send_until(tenant.clone(), Arc::clone(&acks), Arc::clone(&over))))
        .collect();
    let mut chance = crate::chance::Chance::new(seed, 0x6b69_6c6c);
    let enough = usize::try_from(args.events)?;
    let mut kills = 0;
    let begin = stopwatch::now();
    while lock(&acks).len() < enough || kills < args.kills {
        ensure!(begin.elapsed() < 5 * PATIENCE, "only {} sends in time", lock(&acks).len());
        let part = u64::try_from(enough)? * (kills + 1) / (args.kills + 1);
        while u64::try_from(lock(&acks).len())? < part {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if kills < args.kills {
            tokio::time::sleep(Duration::from_millis(chance.below(20))).await;
            server.kill().await?;
            server.start().await?;
            kills += 1;
        } else {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await?;
    }
    // A node that died keeps its targets for up to 20 seconds.
    tokio::time::sleep(Duration::from_secs(22)).await;
    quiet(sink, 0).await;
    let events = tenant.events().await?;
    let mut book = sink.book();
    if args.control {
        book.events.retain(|id, _| !id.ends_with('7'));
    }
    let lost = events.iter().filter(|id| !book.events.contains_key(*id)).count();
    let requests: u64 = book.events.values().sum();
    let unique = u64::try_from(book.events.len())?;
    let figures = json!({
        "acknowledged": lock(&acks).len(),
        "kills": kills,
        "events": events.len(),
        "delivered": unique,
        "lost": lost,
        "duplicates": requests - unique,
    });
    Ok(("kill", figures, lost == 0 && events.len() >= enough))
}

/// Returns when so many came, or when nothing came for a while.
async fn quiet(sink: &Sink, wanted: u64) {
    let begin = stopwatch::now();
    let (mut before, mut since) = (0, stopwatch::now());
    while begin.elapsed() < PATIENCE {
        let now = sink.count();
        if wanted > 0 && now >= wanted {
            return;
        }
        if now != before {
            (before, since) = (now, stopwatch::now());
        }
        if since.elapsed() > SILENCE && (wanted == 0 || since.elapsed() > 5 * SILENCE) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn lock(acks: &Acks) -> std::sync::MutexGuard<'_, Vec<(String, Instant)>> {
    acks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From a send's answer to the arrival of the event that it was delivered, which may be before it;
/// and from any event to its arrival, in milliseconds, rounded up.
struct Lags {
    histogram: Histogram<u64>,
    ages_ms: Histogram<u64>,
    typical_p99_ms: u64,
    missing: u64,
}

fn lags(acks: &Acks, sink: &Sink) -> Result<Lags> {
    let mut histogram = Histogram::new_with_bounds(1, 600_000_000, 3)?;
    let mut missing = 0;
    let book = sink.book();
    for (challenge, answered) in &*lock(acks) {
        match book.delivered.get(challenge) {
            Some(at) => {
                // What arrives before the answer does has no lag.
                let lag = at.saturating_duration_since(*answered).as_micros();
                histogram.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
            }
            None => missing += 1,
        }
    }
    let mut ages_ms = Histogram::new_with_bounds(1, 600_000, 3)?;
    for (_, age_ms) in &book.ages_ms {
        ages_ms.saturating_record(*age_ms);
    }
    let typical_p99_ms = typical_p99_ms(&book.ages_ms);
    Ok(Lags { histogram, ages_ms, typical_p99_ms, missing })
}

/// The 99th percentile of the second in the middle, when the seconds are in the order of theirs: a
/// disk that stalls once is in one of them, a neighbour who is felt is in all.
fn typical_p99_ms(ages_ms: &[(Instant, u64)]) -> u64 {
    let Some((begin, _)) = ages_ms.first() else { return 0 };
    let mut seconds: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (at, age_ms) in ages_ms {
        let second = at.saturating_duration_since(*begin).as_secs();
        seconds.entry(second).or_default().push(*age_ms);
    }
    let mut p99s: Vec<u64> = seconds
        .into_values()
        .filter_map(|mut ages_ms| {
            ages_ms.sort_unstable();
            ages_ms.get(ages_ms.len() * 99 / 100).copied()
        })
        .collect();
    p99s.sort_unstable();
    p99s.get(p99s.len() / 2).copied().unwrap_or(0)
}

impl Lags {
    fn ms(&self, quantile: f64) -> f64 {
        number(self.histogram.value_at_quantile(quantile)) / 1000.0
    }

    fn shown(&self) -> Map<String, Value> {
        let figures = [
            ("answered_to_delivered_p50_ms", json!(round(self.ms(0.5)))),
            ("answered_to_delivered_p99_ms", json!(round(self.ms(0.99)))),
            ("event_to_delivered_p50_ms", json!(self.ages_ms.value_at_quantile(0.5))),
            ("event_to_delivered_p99_ms", json!(self.ages_ms.value_at_quantile(0.99))),
            ("event_to_delivered_p99_ms_of_a_typical_second", json!(self.typical_p99_ms)),
            ("missing", json!(self.missing)),
        ];
        figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
    }
}

fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn round(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}
