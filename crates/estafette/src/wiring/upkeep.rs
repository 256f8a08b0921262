//! What runs beside the requests: the chores, and the figures that somebody has to look for.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::credits::audit;
use crate::jobs::{self, Chore, Ending, Lane, Witness};
use crate::{otp, retention, webhooks};

/// How often figures are looked for, milliseconds.
const LOOK_MS: u64 = 15_000;
/// Findings of an audit that the log names.
const NAMED: usize = 20;

/// Starts all of it. Forgetting and the audit have a lane each, so that neither waits for hours.
pub(super) fn start(
    app: &App,
    witness: Witness,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let witness = Arc::new(witness);
    let lane =
        |chores| tokio::spawn(lane(app.clone(), Arc::clone(&witness), chores, stopped.clone()));
    vec![
        lane(retention::chores(app)),
        lane(audits(app)),
        tokio::spawn(look(app.clone(), Arc::clone(&witness), stopped.clone())),
    ]
}

async fn lane(app: App, witness: Arc<Witness>, chores: Vec<Chore>, stopped: watch::Receiver<bool>) {
    let pause = Duration::from_millis(app.config.retention.pause_ms);
    let (db, clock): (_, Clock) = (app.db.clone(), app.clock.clone());
    let lane = Lane::new((db, clock), witness, pause, chores, stopped);
    let told = |chore, ending: Ending| app.metrics.turn(chore, ending.word());
    lane.run(told).await;
}

/// The proof of the ledger as a chore.
fn audits(app: &App) -> Vec<Chore> {
    let every_ms = app.config.credits.audit_every_s.saturating_mul(1_000);
    if every_ms == 0 {
        return vec![];
    }
    let app = app.clone();
    let work: jobs::Work = Box::new(move |turn| {
        let app = app.clone();
        Box::pin(async move {
            let report = audit::audit_slowly(&app, audit::HORIZON_MS, &turn).await?;
            Ok(report.map_or(Value::Null, |report| told(&report)))
        })
    });
    vec![Chore { name: "audit_ledger", every_ms, work }]
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
        "violations": report.violations.len(),
        "dangling": report.dangling.len(),
        "unknown": report.attempts_unknown,
    })
}

/// Looks for figures, and lets the rate limits forget callers that are gone.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
async fn look(app: App, witness: Arc<Witness>, mut stopped: watch::Receiver<bool>) {
    loop {
        app.metrics.clock_ahead(witness.judged().ahead_ms() as f64 / 1000.0);
        app.throttle.forget_idle();
        if let Err(error) = figures(&app).await {
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

#[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
async fn figures(app: &App) -> Result<(), store::Error> {
    let oldest = otp::oldest_due(app).await?;
    let late_ms = oldest.map_or(0, |oldest| (app.now() - oldest).max(0));
    app.metrics.due_oldest(late_ms as f64 / 1000.0);
    let oldest = webhooks::oldest_due(app).await?;
    let late_ms = oldest.map_or(0, |oldest| (app.now() - oldest).max(0));
    app.metrics.webhook_due_oldest(late_ms as f64 / 1000.0);
    for chore in jobs::known(&app.db).await? {
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
