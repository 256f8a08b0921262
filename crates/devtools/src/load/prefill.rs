//! Sends the challenges that verify and status need, before anything is timed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result, bail};

use super::{Args, Workload, client::send_request, tally::HINT_429};
use crate::{api, api::Api, numbers::Numbers, wire::Conn};

/// A verify workload faster than this per second ends early without `--prefill`.
const FASTEST_VERIFY: f64 = 20_000.0;
/// Enough challenges for reads at random not to hit one page only.
const ENOUGH_TO_READ: u64 = 10_000;
/// Enough connections for the service to group its commits.
const CONNECTIONS: u64 = 64;
/// How far away another number is for what has just been sent to: numbers are distinct for twice as
/// many.
const ELSEWHERE: u64 = 50_000_000;

/// How many challenges this run needs beforehand.
pub(crate) fn wanted(args: &Args) -> u64 {
    let rate = args.rate.map_or(FASTEST_VERIFY, |rate| f64::from(u32::try_from(rate).unwrap_or(0)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
    let each_once = ((args.warmup_s + args.seconds) * rate).ceil() as u64;
    args.prefill.unwrap_or(match args.workload {
        Workload::Verify if args.wrong => each_once / 4,
        Workload::Verify => each_once,
        Workload::Status | Workload::Callback => ENOUGH_TO_READ,
        _ => 0,
    })
}

struct Filling {
    api: Api,
    numbers: Numbers,
    seed: u64,
    count: u64,
    next: AtomicU64,
}

/// Sends `count` challenges, index 0 upward; their ids in that order.
///
/// # Errors
/// At the first send that is not answered with 200.
pub(crate) async fn fill(
    args: &Args,
    api: &Api,
    numbers: &Numbers,
    seed: u64,
    count: u64,
) -> Result<Vec<Box<str>>> {
    let (api, numbers, next) = (api.clone(), numbers.clone(), AtomicU64::new(0));
    let filling = Arc::new(Filling { api, numbers, seed, count, next });
    let is_chatapp = args.workload == Workload::Callback;
    let mode = args.delivery_mode.clone().or(is_chatapp.then(|| "chatapp".to_owned()));
    let consent = (args.no_consent || is_chatapp).then_some(false);
    let tasks: Vec<_> = (0..CONNECTIONS.min(count))
        .map(|_| tokio::spawn(pour(Arc::clone(&filling), mode.clone(), consent)))
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.extend(task.await.context("a client of the driver failed")??);
    }
    ids.sort_unstable_by_key(|(index, _)| *index);
    if count > 0 {
        eprintln!("prefill: {count} challenges sent");
    }
    Ok(ids.into_iter().map(|(_, id)| id).collect())
}

async fn pour(
    filling: Arc<Filling>,
    mode: Option<String>,
    consent: Option<bool>,
) -> Result<Vec<(u64, Box<str>)>> {
    let mut conn = Conn::new(&filling.api.address);
    let (mut out, mut ids) = (Vec::new(), Vec::new());
    loop {
        let index = filling.next.fetch_add(1, Ordering::Relaxed);
        if index >= filling.count {
            return Ok(ids);
        }
        if index > 0 && index.is_multiple_of(10_000) {
            eprintln!("prefill: {index} of {}", filling.count);
        }
        let code = Some(crate::chance::code(filling.seed, index));
        let mut number = index;
        let reply = loop {
            let mut send = send_request(&filling.numbers, number, code.clone(), mode.clone());
            send.request_messaging_consent = consent;
            filling.api.send(&mut out, index, &send, None)?;
            let reply = conn.call(&out).await.context("prefill: cannot reach the service")?;
            // A run before this one, with another seed, has just sent to this number.
            if number != index || api::problem_code(&reply.body) != "resend_too_soon" {
                break reply;
            }
            number += ELSEWHERE;
        };
        match api::challenge(&reply.body) {
            Some(challenge) if reply.status == 200 => {
                ids.push((index, challenge.id.into_boxed_str()));
            }
            _ if reply.status == 429 => bail!("prefill: 429; {HINT_429}"),
            _ => bail!("prefill: {} {}", reply.status, api::problem_code(&reply.body)),
        }
    }
}
