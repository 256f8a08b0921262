//! `devtools crash`: kill -9 under load, restart, and look for anything acknowledged that is gone,
//! doubled or unpaid.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

mod centre;
pub(crate) mod check;
pub(crate) mod clients;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod plan;
pub(crate) mod server;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Value, json};

use self::{
    centre::Centre,
    check::{Ask, Findings, settle, sweep},
    clients::Uptime,
    journal::{Acked, Journal},
    plan::Plan,
    server::Server,
};
use crate::{
    api::{Api, Object},
    chance::Chance,
    stopwatch,
};

const EXAMPLES: &str = "Examples:
  devtools crash --binary target/release/estafette --kills 200 --seed 7
  devtools crash --binary target/release/estafette --kills 5 --control lose-acks   (must exit 1)
  devtools crash --binary target/release/estafette --kills 20 --over smpp
  devtools crash --binary target/release/estafette -- serve --config crash.toml

The same seed makes the same kill times and the same requests, a third of them SMS and two ninths
emails; passcodes are followed by consent prompts, of which some are answered again and again with
Yes. Exit code 1 means that something acknowledged was lost, doubled, stuck, charged twice or given
for nothing, or that the audit found something; the data directory is then kept and named. What was
under way at a kill may reach a phone or a mailbox twice: that is told, and no failure.";

/// What the messages go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Over {
    /// The sandbox's simulated carriers.
    Sandbox,
    /// Live, by SMPP, to the playground's message centre: SMS alone.
    Smpp,
}

/// Falsified journals, which the checker must see through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Control {
    /// Claim one send that never was and change the recipient of another.
    LoseAcks,
}

const HANDSETS: [(&str, &str); 1] = [("ESTAFETTE__SANDBOX__HANDSETS", "database")];
/// How long an email may be: one that was under way at a kill may have arrived, and is tried again
/// only after a while.
const EMAIL_SETTLE: Duration = Duration::from_secs(150);
/// How long an SMS may be on its way after the last restart.
const SMS_SETTLE: Duration = Duration::from_secs(10);

/// Whether it is an SMS or an email: it goes out after its answer, and has no code to verify.
pub(crate) fn is_message(acked: &Acked) -> bool {
    acked.planned.send.object() != Object::Passcode
}

fn is_email(acked: &Acked) -> bool {
    acked.planned.send.object() == Object::Email
}

/// Options of `devtools crash`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service's binary.
    #[arg(long, default_value = "target/release/estafette")]
    binary: PathBuf,
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// Clients that send at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Check what is new after every so many kills.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
    /// How long an interrupted send may stay in progress, in seconds.
    #[arg(long, default_value_t = 60)]
    settle_s: u64,
    /// What the messages go by.
    #[arg(long, value_enum, default_value = "sandbox")]
    over: Over,
    /// Decides kill times and requests; differs from run to run when left out.
    #[arg(long)]
    seed: Option<u64>,
    /// Prove that the checker sees a loss: must exit 1.
    #[arg(long, value_enum)]
    control: Option<Control>,
    /// Arguments of the service instead of `serve`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// One run: the service, what was promised, what was found.
struct Run {
    args: Args,
    seed: u64,
    plan: Plan,
    server: Server,
    api: Api,
    next: Arc<AtomicU64>,
    journal: Journal,
    checked: usize,
    findings: Findings,
    restart_ms: Vec<u64>,
    /// Where messages arrive, over SMPP.
    centre: Option<Centre>,
}

/// Runs the kills; `Ok(false)` when a promise was broken.
///
/// # Errors
/// When the service cannot be started or used at all.
pub(crate) fn run(args: Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(torment(args))
}

async fn torment(args: Args) -> Result<bool> {
    let begin = stopwatch::now();
    let seed = args.seed.unwrap_or_else(stopwatch::fresh_seed);
    eprintln!("crash: seed {seed}");
    // Handsets in memory would forget at a kill what they got before it.
    let mut server = Server::new(&args.binary, &args.arguments)?.with(&HANDSETS);
    let centre = if args.over == Over::Smpp { Some(Centre::open().await?) } else { None };
    for (name, value) in centre.iter().flat_map(Centre::settings) {
        server = server.with(&[(name, &value)]);
    }
    server.start().await?;
    let (api, plan) = if centre.is_some() {
        let key = centre::make_account(&server).await?;
        (Api::new(&server.live_url(), vec![key])?, Plan::of_sms(seed))
    } else {
        (Api::new(&server.url(), vec![server.make_account().await?])?, Plan::new(seed))
    };
    let mut run = Run {
        seed,
        plan,
        server,
        api,
        next: Arc::new(AtomicU64::new(0)),
        journal: Journal::default(),
        checked: 0,
        findings: Findings::default(),
        restart_ms: Vec::new(),
        centre,
        args,
    };
    let outcome = run.all().await;
    let kept = |server: &mut Server| eprintln!("crash: data kept in {}", server.keep().display());
    match outcome {
        Ok((mut report, passed)) => {
            if let Some(report) = report.as_object_mut() {
                report.insert("seconds".to_owned(), json!(begin.elapsed().as_secs()));
            }
            println!("{report}");
            if !passed && run.args.control.is_none() {
                kept(&mut run.server);
            }
            Ok(passed)
        }
        Err(error) => {
            kept(&mut run.server);
            Err(error)
        }
    }
}

impl Run {
    async fn all(&mut self) -> Result<(Value, bool)> {
        for kill in 0..self.args.kills {
            self.one_kill(kill).await.with_context(|| format!("kill {kill}"))?;
            if (kill + 1).is_multiple_of(self.args.check_every) {
                self.check_new().await.with_context(|| format!("check after kill {kill}"))?;
            }
            if (kill + 1).is_multiple_of(10) {
                let (acked, open) = (self.journal.acked.len(), self.journal.pending.len());
                let clean = if self.findings.clean() { "clean" } else { "VIOLATIONS" };
                eprintln!("crash: {} kills, {acked} acknowledged, {open} open, {clean}", kill + 1);
            }
        }
        self.check_all().await.context("final check")?;
        let stopped = self.server.stop().await?;
        let (audit_ok, audit) = self.server.audit().await?;
        let passed = audit_ok
            && stopped
            && self.findings.clean()
            && self.journal.unexpected.is_empty()
            && self.journal.pending.is_empty();
        Ok((self.report(stopped, audit_ok, &audit, passed), passed))
    }

    async fn one_kill(&mut self, kill: u64) -> Result<()> {
        if let Some(centre) = &self.centre {
            centre.bound().await?;
        }
        let uptime = Arc::new(Uptime {
            api: self.api.clone(),
            plan: self.plan.clone(),
            next: Arc::clone(&self.next),
            over: AtomicBool::new(false),
        });
        let mut pending = std::mem::take(&mut self.journal.pending);
        let share = pending.len().div_ceil(usize::try_from(self.args.clients)?);
        let tasks: Vec<_> = (0..self.args.clients)
            .map(|_| {
                let rest = pending.split_off(share.min(pending.len()));
                let own = std::mem::replace(&mut pending, rest);
                tokio::spawn(clients::drive(Arc::clone(&uptime), own))
            })
            .collect();
        tokio::time::sleep(self.plan.uptime(kill)).await;
        self.server.kill().await?;
        uptime.over.store(true, Ordering::Relaxed);
        for task in tasks {
            self.journal.absorb(task.await.context("a client of the driver failed")??);
        }
        if let Some(centre) = &mut self.centre {
            centre.killed();
        }
        let restart = self.server.start().await?;
        self.restart_ms.push(u64::try_from(restart.as_millis())?);
        Ok(())
    }

    /// Reads all that is new, verifies and repeats a sample of it.
    async fn check_new(&mut self) -> Result<()> {
        let from = self.checked;
        self.checked = self.journal.acked.len();
        let mut questions = self.questions(Ask::Read, from, usize::MAX, |_| true);
        questions
            .extend(self.questions(Ask::Repeat, from, 20, |acked| acked.planned.key.is_some()));
        questions.extend(self.verifications(from, 20));
        self.ask(questions).await
    }

    /// Waits for what is open, then reads all, and verifies and repeats a larger sample.
    async fn check_all(&mut self) -> Result<()> {
        settle(&self.api, &mut self.journal, Duration::from_secs(self.args.settle_s)).await?;
        // What was under way at the last kill waits for its lease to end, and for a receipt.
        tokio::time::sleep(SMS_SETTLE).await;
        self.emails_are_out().await?;
        let repeated = |acked: &Acked| acked.repeated;
        let mut questions = self.questions(Ask::Repeat, 0, usize::MAX, repeated);
        if let Some(centre) = &self.centre {
            let patience = Duration::from_secs(self.args.settle_s);
            let found = centre.judged(&self.journal.acked, patience).await?;
            self.findings.merge(found);
        } else {
            questions.extend(self.questions(Ask::Handset, 0, 1000, repeated));
            questions.extend(self.questions(Ask::Handset, 0, usize::MAX, is_message));
        }
        let keyed = |acked: &Acked| acked.planned.key.is_some();
        questions.extend(self.questions(Ask::Repeat, 0, 300, keyed));
        questions.extend(self.verifications(self.checked, 300));
        self.ask(questions).await?;
        if self.args.control == Some(Control::LoseAcks) {
            self.journal.forge();
        }
        let reads = self.questions(Ask::Read, 0, usize::MAX, |_| true);
        self.ask(reads).await?;
        if self.args.control.is_none() {
            let sent = self.questions(Ask::Sent, 0, usize::MAX, is_message);
            self.ask(sent).await?;
            self.findings.merge(ledger::sweep(&self.api).await?);
        }
        Ok(())
    }

    /// Waits until no email is queued any more.
    async fn emails_are_out(&self) -> Result<()> {
        let begin = stopwatch::now();
        while begin.elapsed() < EMAIL_SETTLE {
            let open = self.questions(Ask::Sent, 0, usize::MAX, is_email);
            if sweep(&self.api, open).await?.stuck == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok(())
    }

    /// Up to `most` questions about entries from `from` on that are `fit`, chosen by the seed.
    fn questions(
        &self,
        ask: Ask,
        from: usize,
        most: usize,
        fit: impl Fn(&Acked) -> bool,
    ) -> Vec<(Ask, Acked)> {
        let mut fitting: Vec<_> =
            self.journal.acked.iter().skip(from).filter(|acked| fit(acked)).collect();
        if most < fitting.len() {
            let mut chance = Chance::new(self.seed, from as u64);
            fitting.sort_by_cached_key(|_| chance.next());
            fitting.truncate(most);
        }
        fitting.into_iter().map(|acked| (ask, acked.clone())).collect()
    }

    /// Verifications of up to `most` entries from `from` on, each at most once in a run.
    fn verifications(&mut self, from: usize, most: usize) -> Vec<(Ask, Acked)> {
        let chosen =
            self.questions(Ask::Verify, from, most, |acked| !acked.verified && !is_message(acked));
        let ids: std::collections::HashSet<_> =
            chosen.iter().map(|(_, acked)| acked.id.as_str()).collect();
        for acked in self.journal.acked.iter_mut().skip(from) {
            acked.verified |= ids.contains(acked.id.as_str());
        }
        chosen
    }

    async fn ask(&mut self, questions: Vec<(Ask, Acked)>) -> Result<()> {
        let findings = sweep(&self.api, questions).await?;
        self.findings.merge(findings);
        Ok(())
    }

    fn report(&self, stopped: bool, audit_ok: bool, audit: &Value, passed: bool) -> Value {
        let mut restarts = self.restart_ms.clone();
        restarts.sort_unstable();
        let p50 = restarts.get(restarts.len() / 2);
        let unexpected = self.findings.unexpected + self.journal.unexpected.len() as u64;
        let is = |acked: &&Acked, object| acked.planned.send.object() == object;
        let count = |object| self.journal.acked.iter().filter(|it| is(it, object)).count();
        let mut samples = self.findings.samples.clone();
        samples.extend(self.journal.unexpected.iter().take(10).cloned());
        json!({
            "kills": self.args.kills,
            "acknowledged": self.journal.acked.len(),
            "unanswered": self.journal.unanswered,
            "refused": self.journal.refused,
            "checks": self.findings.checks,
            "lost": self.findings.lost,
            "mismatched": self.findings.mismatched,
            "unverifiable": self.findings.unverifiable,
            "replays": self.findings.replays + self.journal.replays,
            "double": self.findings.double,
            "delivered_twice": self.findings.delivered_twice,
            "sms": count(Object::Sms),
            "sms_twice": self.findings.sms_twice,
            "emails": count(Object::Email),
            "emails_twice": self.findings.emails_twice,
            "stuck": self.findings.stuck,
            "charged_twice": self.findings.charged_twice,
            "answers": self.journal.answers,
            "sessions": self.findings.sessions,
            "unpaid": self.findings.unpaid,
            "dangling": self.journal.pending.len(),
            "unexpected": unexpected,
            "samples": samples,
            "stopped_in_order": stopped,
            "audit_ok": audit_ok,
            "audit": audit,
            "restart_ms": { "p50": p50, "max": restarts.last() },
            "seed": self.seed,
            "passed": passed,
        })
    }
}
