//! What runs beside the requests: the chores, and the figures that somebody has to look for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::chores::{self, Chore, Ending, Means, Witness, Worker};
use crate::credits::audit::{self, Scope};
use crate::credits::seals;
use crate::kit::task;
use crate::{chatapp, credits, dispatch, otp, retention, webhooks};

/// How often figures are looked for, milliseconds.
const LOOK_MS: u64 = 15_000;
/// Findings of an audit that the log names.
const NAMED: usize = 20;

/// Starts all of it. The audit has a worker of its own, as each list of chores has.
pub(super) fn start(
    app: &App,
    witness: Witness,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let witness = Arc::new(witness);
    let worker =
        |chores| task::spawn(worker(app.clone(), Arc::clone(&witness), chores, stopped.clone()));
    let mut all = retention::chores(app);
    all.push(audits(app));
    let names = all.iter().flatten().map(|chore| chore.name).collect();
    let mut tasks: Vec<_> = all.into_iter().map(worker).collect();
    let figures = Figures { app: app.clone(), chores: names };
    tasks.push(task::spawn(look(figures, Arc::clone(&witness), stopped.clone())));
    tasks
}

async fn worker(
    app: App,
    witness: Arc<Witness>,
    chores: Vec<Chore>,
    stopped: watch::Receiver<bool>,
) {
    let pause = Duration::from_millis(app.config.retention.pause_ms);
    let means = Means { db: app.db.clone(), clock: app.clock.clone(), witness };
    let worker = Worker::new(means, pause, chores, stopped);
    let told = |chore, ending: Ending| app.metrics.turn(chore, ending.as_str());
    worker.run(told).await;
}

/// The proof of the ledger as chores: first the seals, then the audit of them.
fn audits(app: &App) -> Vec<Chore> {
    let seconds = |seconds: i64| seconds.saturating_mul(1_000);
    let sealing = app.clone();
    let seal: chores::Work = Box::new(move |turn| {
        let app = sealing.clone();
        Box::pin(async move { Ok(json!(seals::round(&app, Some(&turn)).await?)) })
    });
    let auditing = app.clone();
    let audit: chores::Work = Box::new(move |turn| {
        let app = auditing.clone();
        Box::pin(async move {
            let (horizon_ms, unsealed_ms) = (audit::HORIZON_MS, Some(audit::UNSEALED_MS));
            let scope = Scope { horizon_ms, unsealed_ms, turn: Some(&turn), ..Scope::default() };
            let report = audit::read_all(&app, &scope).await?;
            Ok(report.map_or(Value::Null, |report| told(&report)))
        })
    });
    let settings = &app.config.credits;
    let (seal_ms, audit_ms) = (seconds(settings.seal_every_s), seconds(settings.audit_every_s));
    let mut chores = vec![Chore { name: "seal_ledger", every_ms: seal_ms, work: seal }];
    if audit_ms > 0 {
        chores.push(Chore { name: "audit_ledger", every_ms: audit_ms, work: audit });
    }
    chores
}

/// The figures of a report, as every node shows them; what is wrong goes to the log.
fn told(report: &audit::Report) -> Value {
    for found in report.violations.iter().take(NAMED) {
        let audit::Violation { invariant, account_id, object_id, detail } = found;
        tracing::error!(invariant, account_id, object_id, detail, "the ledger does not add up");
    }
    for hold in report.dangling.iter().take(NAMED) {
        let audit::Dangling { account_id, transfer_id, age_ms, .. } = hold;
        tracing::warn!(account_id, transfer_id, age_ms, "a hold is open for too long");
    }
    json!({
        "accounts": report.accounts,
        "transfers": report.transfers,
        "unsealed": report.unsealed,
        "violations": report.violations_found,
        "dangling": report.dangling_found,
        "unknown": report.attempts_unknown,
    })
}

/// Looks for figures, and lets the rate limits forget callers that are gone.
async fn look(figures: Figures, witness: Arc<Witness>, mut stopped: watch::Receiver<bool>) {
    let app = figures.app.clone();
    loop {
        app.metrics.clocks().ahead_of_witnesses(witness.judged().ahead_ms());
        app.throttle.forget_idle();
        if let Err(error) = figures.read().await {
            tracing::debug!(%error, "figures not read; the metrics show the last ones");
        }
        tokio::select! {
            () = app.clock.tick(LOOK_MS) => {}
            // An error means that the sender is gone: stop as well.
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    // What was agreed on until now is what the next start begins with.
    if let Err(error) = witness.look().await {
        tracing::debug!(%error, "the time was not written down");
    }
}

/// What somebody has to look for.
struct Figures {
    app: App,
    /// What this process does: the database also names what another version did, or what the
    /// settings ended.
    chores: BTreeSet<&'static str>,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
    async fn read(&self) -> Result<(), store::Error> {
        let app = &self.app;
        if let Err(credits::Error::Db(error)) = seals::refresh(app).await {
            return Err(error);
        }
        let attempts = dispatch::oldest_due(app).await?;
        let oldest = [otp::oldest_due(app).await?, chatapp::oldest_due(app).await?, attempts];
        let oldest = oldest.into_iter().flatten().min();
        let late_ms = oldest.map_or(0, |oldest| (app.now() - oldest).max(0));
        app.metrics.due_oldest(late_ms as f64 / 1000.0);
        let oldest = webhooks::oldest_due(app).await?;
        let late_ms = oldest.map_or(0, |oldest| (app.now() - oldest).max(0));
        app.metrics.webhook_due_oldest(late_ms as f64 / 1000.0);
        let known = chores::known(&app.db).await?;
        for chore in known.into_iter().filter(|it| self.chores.contains(it.name.as_str())) {
            app.metrics.chore_done(&chore.name, chore.done_at.0 as f64 / 1000.0);
            let figure = |name: &str| chore.result[name].as_i64();
            if let (Some(violations), Some(dangling), Some(unknown)) =
                (figure("violations"), figure("dangling"), figure("unknown"))
            {
                app.metrics.ledger(violations, dangling, unknown);
            }
        }
        Ok(())
    }
}
