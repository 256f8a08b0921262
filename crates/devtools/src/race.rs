//! `devtools race`: parallel guesses at one challenge are counted exactly, and a code that many
//! present at once verifies once.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{
    api::{self, Api, Send},
    chance,
    numbers::Numbers,
    stopwatch,
    wire::Conn,
};

const EXAMPLES: &str = "Examples:
  devtools race --key est_test_…
  devtools race --key est_test_… --wrong-guesses 5000 --right-guesses 64

Expected: 4 wrong guesses answer 422 otp_code_invalid, all others 410 otp_attempts_exhausted, and
the challenge says attempts 5; of the right guesses one answers 200, the others 409
otp_already_verified. Anything else is exit code 1. Raise ESTAFETTE__LIMITS__READ_PER_S and
ESTAFETTE__LIMITS__SEND_PER_S of the service first.";

/// What is said of a wrong guess that was evaluated.
const INVALID: &str = "422 otp_code_invalid";
/// What is said of the fifth wrong guess and all later ones.
const EXHAUSTED: &str = "410 otp_attempts_exhausted";
const ALREADY: &str = "409 otp_already_verified";

/// Options of `devtools race`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address of the environment.
    #[arg(long, default_value = "http://127.0.0.1:8081")]
    url: String,
    /// API key.
    #[arg(long)]
    key: String,
    /// Parallel wrong guesses at one challenge.
    #[arg(long, default_value_t = 1000)]
    wrong_guesses: u64,
    /// Parallel right guesses at another challenge.
    #[arg(long, default_value_t = 16)]
    right_guesses: u64,
    /// Connections for the wrong guesses; right ones have one each.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Decides recipients and codes; differs from run to run when left out.
    #[arg(long)]
    seed: Option<u64>,
}

/// A challenge whose code is known.
struct Target {
    id: String,
    code: String,
}

type Answers = BTreeMap<String, u64>;

/// Runs both races; `Ok(false)` when a count is not as promised.
///
/// # Errors
/// When the service cannot be reached or refuses the send.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, passed) = runtime.block_on(race(args))?;
    println!("{report}");
    Ok(passed)
}

async fn race(args: &Args) -> Result<(Value, bool)> {
    let seed = args.seed.unwrap_or_else(stopwatch::fresh_seed);
    let api = Arc::new(Api::new(&args.url, vec![args.key.clone()])?);

    let target = open(&api, seed, 0).await?;
    let guesses: Vec<_> =
        (0..args.wrong_guesses).map(|turn| chance::wrong_code(&target.code, turn)).collect();
    let wrong = fire(&api, &target.id, guesses, args.connections).await?;
    let attempts = attempts_of(&api, &target.id).await?;
    let wrong_passed = wrong_as_promised(&wrong, args.wrong_guesses, attempts);

    let target = open(&api, seed, 1).await?;
    let connections = usize::try_from(args.right_guesses)?;
    let guesses = vec![target.code.clone(); connections];
    let right = fire(&api, &target.id, guesses, connections).await?;
    let right_passed = right_as_promised(&right, args.right_guesses);

    if wrong.keys().chain(right.keys()).any(|answer| answer.starts_with("429")) {
        eprintln!("hint: raise ESTAFETTE__LIMITS__SEND_PER_S and ESTAFETTE__LIMITS__READ_PER_S");
    }
    let exhausted = u64::from(count(&wrong, EXHAUSTED) > 0);
    let report = json!({
        "wrong": {
            "guesses": args.wrong_guesses,
            "evaluated": count(&wrong, INVALID) + exhausted,
            "attempts": attempts,
            "answers": wrong,
            "passed": wrong_passed,
        },
        "right": {
            "guesses": args.right_guesses,
            "verified": count(&right, "200"),
            "answers": right,
            "passed": right_passed,
        },
        "passed": wrong_passed && right_passed,
        "seed": seed,
    });
    Ok((report, wrong_passed && right_passed))
}

async fn open(api: &Api, seed: u64, index: u64) -> Result<Target> {
    let code = chance::code(seed, index);
    let to = Numbers::new(seed).plain(index);
    let reference = Some(format!("race-{seed}-{index}"));
    let body = Send { to, code: Some(code.clone()), reference, ..Send::default() };
    let mut out = Vec::new();
    api.send(&mut out, 0, &body, None)?;
    let reply = Conn::new(&api.address).call(&out).await.context("cannot reach the service")?;
    match api::challenge(&reply.body) {
        Some(challenge) if reply.status == 200 => Ok(Target { id: challenge.id, code }),
        _ => bail!("the send answers {} {}", reply.status, api::problem_code(&reply.body)),
    }
}

/// Fires all guesses over `connections`, which begin at the same moment.
async fn fire(api: &Arc<Api>, id: &str, codes: Vec<String>, connections: usize) -> Result<Answers> {
    let connections = connections.clamp(1, codes.len().max(1));
    let barrier = Arc::new(Barrier::new(connections));
    let (codes, next) = (Arc::new(codes), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let (api, barrier) = (Arc::clone(api), Arc::clone(&barrier));
            let (codes, next, id) = (Arc::clone(&codes), Arc::clone(&next), id.to_owned());
            tokio::spawn(async move {
                let mut conn = Conn::new(&api.address);
                let (mut out, mut answers) = (Vec::new(), Answers::new());
                // Opens the connection, so that the guesses themselves begin together.
                api.get(&mut out, 0, "/livez")?;
                conn.call(&out).await.context("cannot reach the service")?;
                barrier.wait().await;
                loop {
                    let turn = usize::try_from(next.fetch_add(1, Ordering::Relaxed))?;
                    let Some(code) = codes.get(turn) else { return Ok(answers) };
                    api.verify(&mut out, 0, &id, code)?;
                    let reply = conn.call(&out).await.context("a guess got no answer")?;
                    let problem = api::problem_code(&reply.body);
                    let answer = format!("{} {problem}", reply.status).trim_end().to_owned();
                    *answers.entry(answer).or_default() += 1;
                }
            })
        })
        .collect();
    let mut all = Answers::new();
    for task in tasks {
        let answers: Result<Answers> = task.await.context("a client of the driver failed")?;
        for (answer, times) in answers? {
            *all.entry(answer).or_default() += times;
        }
    }
    Ok(all)
}

async fn attempts_of(api: &Api, id: &str) -> Result<u64> {
    let mut out = Vec::new();
    api.get(&mut out, 0, &format!("/v1/otp/{id}"))?;
    let reply = Conn::new(&api.address).call(&out).await?;
    match api::challenge(&reply.body) {
        Some(challenge) if reply.status == 200 => Ok(challenge.attempts),
        _ => bail!("the status answers {} {}", reply.status, api::problem_code(&reply.body)),
    }
}

fn count(answers: &Answers, answer: &str) -> u64 {
    answers.get(answer).copied().unwrap_or(0)
}

fn wrong_as_promised(answers: &Answers, guesses: u64, attempts: u64) -> bool {
    count(answers, INVALID) == guesses.min(4)
        && count(answers, EXHAUSTED) == guesses.saturating_sub(4)
        && attempts == guesses.min(5)
}

fn right_as_promised(answers: &Answers, guesses: u64) -> bool {
    count(answers, "200") == guesses.min(1) && count(answers, ALREADY) == guesses.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::{Answers, right_as_promised, wrong_as_promised};

    fn answers(of: &[(&str, u64)]) -> Answers {
        of.iter().map(|(answer, times)| ((*answer).to_owned(), *times)).collect()
    }

    #[test]
    fn only_the_promised_counts_pass() {
        let four = [("422 otp_code_invalid", 4), ("410 otp_attempts_exhausted", 996)];
        assert!(wrong_as_promised(&answers(&four), 1000, 5));
        assert!(!wrong_as_promised(&answers(&four), 1000, 6));
        let five = [("422 otp_code_invalid", 5), ("410 otp_attempts_exhausted", 995)];
        assert!(!wrong_as_promised(&answers(&five), 1000, 5));
    }

    #[test]
    fn two_verifications_do_not_pass() {
        assert!(right_as_promised(&answers(&[("200", 1), ("409 otp_already_verified", 15)]), 16));
        assert!(!right_as_promised(&answers(&[("200", 2), ("409 otp_already_verified", 14)]), 16));
    }
}
