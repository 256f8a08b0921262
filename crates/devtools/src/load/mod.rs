//! `devtools load`: closed loop (as fast as the clients can) or open loop (a fixed rate, latency
//! from the intended start), over keep-alive HTTP/1.1.

mod client;
mod counters;
mod pacer;
mod prefill;
mod tally;
mod upstream;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use self::{
    client::Shared,
    counters::Counter,
    pacer::Pacer,
    tally::{Report, Tally},
    upstream::Upstream,
};
use crate::{api::Api, machine, numbers::Numbers, stopwatch, webhooks};

const EXAMPLES: &str = "Examples:
  devtools load --key est_test_… --workload send --clients 64 --seconds 10
  devtools load --key est_test_… --rate 5000 --server-pid $(pidof estafette) --json
  devtools load --key est_test_… --workload verify --prefill 100000
  devtools load --key est_test_… --workload verify --wrong --prefill 2000
  devtools load --key est_test_… --workload status --prefill 20000
  devtools load --key est_test_… --workload sms --server-pid $(pidof estafette)
  devtools load --key est_test_… --counter 'written=sed -n s/^write_bytes://p /proc/1234/io'
  devtools load --key none --workload hello --url http://127.0.0.1:8099
  devtools load --url http://127.0.0.1:8080 --key est_live_… --workload callback --warmup-s 0 \
    --prefill 10000 --server-pid $(pidof estafette)

The service's own limits must be out of the way: start it with
  ESTAFETTE__LIMITS__SEND_PER_S=1000000 ESTAFETTE__LIMITS__READ_PER_S=1000000
and, for more than 256 clients,
  ESTAFETTE__SERVER__MAX_CONNECTIONS_PER_ADDRESS=100000

callback needs the live environment, whose chat-app this driver plays:
  ESTAFETTE__CHATAPP__BASE_URL=http://127.0.0.1:2790 ESTAFETTE__CHATAPP__PHONE_NUMBER_ID=1
  ESTAFETTE__CHATAPP__ACCESS_TOKEN=t ESTAFETTE__CHATAPP__APP_SECRET=load-secret
  ESTAFETTE__CHATAPP__MESSAGES_PER_S=1000000 ESTAFETTE__OTP__RECEIPT_WAIT_MS=0";

/// CPU time that a service uses with nothing to do, at most.
const RESTING_US_PER_S: f64 = 50_000.0;
const MOST_SECONDS_TO_REST: u32 = 300;

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Send to a new recipient each time.
    Send,
    /// Verify a prefilled challenge each time, once and rightly (or wrongly with --wrong).
    Verify,
    /// Read a prefilled challenge at random.
    Status,
    /// Send, verify that one, read that one, in turn.
    Mixed,
    /// Send to a new recipient each time, and count what the consent prompts cost later.
    Prompt,
    /// Send an SMS to a new recipient each time, and count what its delivery costs later.
    Sms,
    /// The same with SMS of the class bulk.
    Bulk,
    /// The same with emails.
    Email,
    /// Tell of a delivery on the chat-app each time, and count what taking it in costs later.
    Callback,
    /// Ask for --path each time, such as Kannel to send, and count what follows.
    Get,
    /// Ask whether the service lives.
    Livez,
    /// Ask `devtools hello`.
    Hello,
}

impl Workload {
    /// Whether most of the work is done after the answer: it is waited for, and counted.
    const fn settles(self) -> bool {
        matches!(
            self,
            Self::Prompt | Self::Sms | Self::Bulk | Self::Email | Self::Callback | Self::Get
        )
    }
}

/// A load with a service of its own.
#[derive(Debug, clap::Subcommand)]
enum Own {
    /// Measure how events are delivered: speed, cost, neighbours, memory, kill -9.
    Webhooks(webhooks::Args),
}

/// Options of `devtools load`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    own: Option<Own>,
    /// Address of the environment under load; clients spread over several, as over nodes.
    #[arg(long = "url", default_value = "http://127.0.0.1:8081")]
    urls: Vec<String>,
    /// API key; several are used in turn.
    #[arg(long = "key", required = true)]
    keys: Vec<String>,
    /// What the clients do.
    #[arg(long, value_enum, default_value = "send")]
    workload: Workload,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    clients: u64,
    /// Open loop: operations per second; without it the loop is closed.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// How long to measure, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How long to run before measuring, in seconds.
    #[arg(long, default_value_t = 1.0)]
    warmup_s: f64,
    /// Challenges to send before anything is timed; estimated when left out.
    #[arg(long)]
    prefill: Option<u64>,
    /// verify: send wrong codes, going round the prefilled challenges.
    #[arg(long)]
    wrong: bool,
    /// get: what to ask for; `{to}` is a new recipient each time, its + left out.
    #[arg(long, default_value = "/")]
    path: String,
    /// callback: where the service's `chatapp.base_url` leads; this driver answers there.
    #[arg(long, default_value = "127.0.0.1:2790")]
    upstream: SocketAddr,
    /// callback: the service's `chatapp.app_secret`.
    #[arg(long, default_value = "load-secret")]
    app_secret: String,
    /// Delivery mode of the sends: auto, chatapp or sms.
    #[arg(long)]
    delivery_mode: Option<String>,
    /// Sends without the consent prompt.
    #[arg(long)]
    no_consent: bool,
    /// Process whose CPU time, with its children's, is reported, and the first one's memory. Given
    /// several times, such as for nodes and their database server, the times are added up.
    #[arg(long = "server-pid")]
    server_pids: Vec<u32>,
    /// A figure that is reported per operation: a name, and a command that prints a number which
    /// only grows, read before and after.
    #[arg(long = "counter", value_name = "NAME=COMMAND")]
    counters: Vec<Counter>,
    /// Statuses that do not fail the run, such as 429,503.
    #[arg(long, value_delimiter = ',')]
    allow_status: Vec<u16>,
    /// Decides recipients and codes; differs from run to run when left out.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads of the driver itself.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the load; `Ok(false)` when there were errors that nothing excuses.
///
/// # Errors
/// For bad options, a service that cannot be reached, or a prefill that fails.
pub(crate) fn run(args: Args) -> Result<bool> {
    if let Some(Own::Webhooks(args)) = &args.own {
        return webhooks::run(args);
    }
    ensure!(args.seconds > 0.0 && args.warmup_s >= 0.0, "times must be positive");
    ensure!(!args.wrong || args.workload == Workload::Verify, "--wrong needs --workload verify");
    let mut runtime = if args.threads == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.worker_threads(usize::from(args.threads)).enable_all().build()?;
    let report = runtime.block_on(measure(args))?;
    report.print()?;
    Ok(report.passed)
}

async fn measure(args: Args) -> Result<Report> {
    let seed = args.seed.unwrap_or_else(stopwatch::fresh_seed);
    let nodes = args.urls.iter().map(|url| Api::new(url, args.keys.clone()));
    let nodes = nodes.collect::<Result<Vec<_>>>()?;
    let api = nodes.first().cloned().context("give at least one --url")?;
    let addresses = nodes.into_iter().map(|node| node.address).collect();
    let numbers = Numbers::new(seed);
    let warmup = Duration::try_from_secs_f64(args.warmup_s)?;
    let span = Duration::try_from_secs_f64(args.seconds)?;
    let wanted = prefill::wanted(&args);
    let played = match args.workload {
        Workload::Callback => Some(Upstream::start(args.upstream).await?),
        _ => None,
    };
    let mut filled = prefill::fill(&args, &api, &numbers, seed, wanted).await?;
    if let Some(upstream) = played {
        at_rest(&args.server_pids).await?;
        filled = upstream.callbacks()?;
    }

    let begin = stopwatch::now();
    let measure_from = begin + warmup;
    let pacer = args.rate.map(|rate| Pacer::start(rate, begin, warmup + span, args.clients));
    let clients = args.clients;
    let servers = args.server_pids.clone();
    let shared = Arc::new(Shared {
        api,
        addresses,
        numbers,
        seed,
        filled,
        measure_from,
        stop_at: measure_from + span,
        next: AtomicU64::new(0),
        pacer,
        tally: Mutex::new(Tally::new()?),
        args,
    });
    let tasks: Vec<_> =
        (0..clients).map(|at| tokio::spawn(client::drive(Arc::clone(&shared), at))).collect();
    tokio::time::sleep(measure_from.saturating_duration_since(stopwatch::now())).await;
    let counted = counters::read(&shared.args.counters).await?;
    let server_before = cpu_us(&servers);
    let driver_before = machine::cpu_us("self");
    let counted_from = stopwatch::now();
    for task in tasks {
        task.await.context("a client of the driver failed")??;
    }
    let elapsed = counted_from.elapsed().as_secs_f64();
    let driver_after = machine::cpu_us("self");
    if shared.args.workload.settles() && !servers.is_empty() {
        at_rest(&servers).await?;
    }
    let server_after = cpu_us(&servers);
    let mut report = {
        let tally = shared.tally.lock().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        Report::of(&shared.args, seed, elapsed, &tally)
    };
    report.cpu_us_per_op = tally::per_operation(server_before, server_after, report.operations);
    report.driver_cpu_us_per_op =
        tally::per_operation(driver_before, driver_after, report.operations);
    report.counters = counters::grown(&shared.args.counters, &counted, report.operations).await?;
    let first = servers.first().map(ToString::to_string);
    if let Some((now, peak)) = first.as_deref().and_then(machine::rss_mib) {
        report.rss_mib = Some(tally::round(now));
        report.rss_peak_mib = Some(tally::round(peak));
    }
    Ok(report)
}

/// Waits until the servers use less than a twentieth of a processor: nothing is in a queue then.
async fn at_rest(servers: &[u32]) -> Result<()> {
    if servers.is_empty() {
        return Ok(());
    }
    let mut before = cpu_us(servers).context("a server is gone")?;
    for _ in 0..MOST_SECONDS_TO_REST {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = cpu_us(servers).context("a server is gone")?;
        if now - before < RESTING_US_PER_S {
            return Ok(());
        }
        before = now;
    }
    bail!("the service still works {MOST_SECONDS_TO_REST} s after the last answer")
}

fn cpu_us(servers: &[u32]) -> Option<f64> {
    if servers.is_empty() { None } else { machine::cpu_us_of_trees(servers) }
}
