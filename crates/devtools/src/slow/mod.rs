//! `devtools slow`: slow clients of every shape hold what connections they can, while decent
//! clients want to be served.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

mod attacker;
mod decent;
mod shape;

use std::{net::ToSocketAddrs, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::{
    attacker::{Fate, Target},
    decent::Served,
    shape::{Paths, Shape},
};
use crate::{api::Api, machine, stopwatch};

const EXAMPLES: &str = "Examples:
  devtools slow --each 200
  devtools slow --shape deaf --shape drip-body --each 500 --seconds 30
  devtools slow --each 800 --server-pid $(pidof estafette)
  devtools slow --shape silent --each 5000 --per-address 5000

Prints one JSON object: for each shape how many were closed, after how many seconds (first, half of
them, last), how many were told why (408), how many were not let in and how many were still there at
the end; and how decent clients were served meanwhile. Exit code 1 when a slow client was still
there, or a decent one was not served.

On a loopback address the slow clients come from many addresses (127.1.0.1 and upwards), because
the service limits connections from one. Thousands of them need `ulimit -n` here and there.";

/// Options of `devtools slow`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address of the environment.
    #[arg(long, default_value = "http://127.0.0.1:8081")]
    url: String,
    /// Shapes of slow clients; the usual ones when left out.
    #[arg(long = "shape", value_enum)]
    shapes: Vec<Shape>,
    /// Slow clients of each shape.
    #[arg(long, default_value_t = 100)]
    each: usize,
    /// Slow clients that share an address (loopback only).
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    per_address: u32,
    /// How long the run takes, seconds: longer than the longest deadline.
    #[arg(long, default_value_t = 90.0)]
    seconds: f64,
    /// Decent clients; every second one opens a connection for each request.
    #[arg(long, default_value_t = 4)]
    decent: usize,
    /// What decent clients ask for.
    #[arg(long, default_value = "/livez")]
    path: String,
    /// What clients that do not read ask for: more than sockets hold.
    #[arg(long, default_value = "/docs/viewer.js")]
    large: String,
    /// Process whose CPU time and memory are reported.
    #[arg(long)]
    server_pid: Option<u32>,
}

/// Runs it; `Ok(false)` when a slow client stayed or a decent one was not served.
///
/// # Errors
/// For bad options.
pub(crate) fn run(args: &Args) -> Result<bool> {
    ensure!(args.seconds > 0.0, "--seconds must be positive");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, passed) = runtime.block_on(measure(args))?;
    println!("{report}");
    Ok(passed)
}

async fn measure(args: &Args) -> Result<(Value, bool)> {
    let host = Api::new(&args.url, vec![String::new()])?.address;
    let address = host.to_socket_addrs()?.next().context("--url has no address")?;
    let until = stopwatch::now() + Duration::try_from_secs_f64(args.seconds)?;
    let target = Target {
        address,
        paths: Paths { small: args.path.clone(), large: args.large.clone() },
        per_address: usize::try_from(args.per_address)?,
        until,
    };
    let pid = args.server_pid.map(|pid| pid.to_string());
    let cpu_before = pid.as_deref().and_then(machine::cpu_us);
    let decent: Vec<_> = (0..args.decent)
        .map(|n| decent::live(host.clone(), args.path.clone(), n % 2 == 0, until))
        .map(tokio::spawn)
        .collect();
    let shapes = if args.shapes.is_empty() { Shape::USUAL.to_vec() } else { args.shapes.clone() };
    let slow: Vec<_> = (0..args.each * shapes.len())
        .filter_map(|number| {
            let shape = *shapes.get(number % shapes.len())?;
            let life = attacker::live(target.clone(), shape, number);
            Some((shape, tokio::spawn(life)))
        })
        .collect();
    let mut fates = Vec::with_capacity(slow.len());
    for (shape, life) in slow {
        fates.push((shape, life.await.context("a slow client of the driver failed")?));
    }
    let mut served = Served::new()?;
    for life in decent {
        served.add(life.await.context("a decent client of the driver failed")??)?;
    }
    let cpu_after = pid.as_deref().and_then(machine::cpu_us);
    let rows: Vec<Value> = shapes.iter().map(|shape| row(*shape, &fates)).collect();
    let stayed = fates.iter().any(|(_, fate)| *fate == Fate::StillOpen);
    let passed = !stayed && served.is_good();
    let report = json!({
        "passed": passed,
        "seconds": args.seconds,
        "decent": served.report(),
        "shapes": rows,
        "server_cpu_s": cpu_before.zip(cpu_after).map(|(from, to)| (to - from) / 1e6),
        "server_rss_mib": pid.as_deref().and_then(machine::rss_mib).map(|(_, peak)| peak),
    });
    Ok((report, passed))
}

/// The figures of one shape.
fn row(shape: Shape, fates: &[(Shape, Fate)]) -> Value {
    let own: Vec<Fate> =
        fates.iter().filter(|(of, _)| *of == shape).map(|(_, fate)| *fate).collect();
    let count = |fits: fn(&Fate) -> bool| own.iter().filter(|fate| fits(fate)).count();
    let mut after: Vec<f64> = own
        .iter()
        .filter_map(|fate| match fate {
            Fate::Closed { after_s, .. } => Some(*after_s),
            _ => None,
        })
        .collect();
    after.sort_by(f64::total_cmp);
    let rounded = |seconds: Option<&f64>| seconds.map(|seconds| (seconds * 100.0).round() / 100.0);
    json!({
        "shape": shape.name(),
        "clients": own.len(),
        "closed": after.len(),
        "told": count(|fate| matches!(fate, Fate::Closed { told: true, .. })),
        "refused": count(|fate| *fate == Fate::Refused),
        "still_open": count(|fate| *fate == Fate::StillOpen),
        "first_s": rounded(after.first()),
        "p50_s": rounded(after.get(after.len() / 2)),
        "last_s": rounded(after.last()),
    })
}
