//! `estafette demo`: starts the service on a database of its own and shows it at work, through
//! nothing but its own HTTP API.

mod ground;
mod steps;
mod visitor;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

use super::output::Output;
use super::serve::{Addresses, stop};
use super::signals::told_to_stop;
use crate::config::Config;
use crate::kit::secret::Secret;
use crate::schema::MIGRATIONS;
use crate::wiring::{self, Listeners, Service};
use ground::Prepared;
use steps::Tour;

/// Runs the demo, in `database` if there is one; with `once` it stops after the last step.
pub(super) async fn run(
    config: Config,
    database: Option<Secret>,
    once: bool,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let Prepared { config, ground, listeners } = ground::prepare(config, database, output)?;
    let service = super::open_or_make(config.clone(), output)?;
    let lent = ground.is_lent().then(|| service.live.db.clone());
    if let Some(db) = &lent
        && let Err(error) = ground::must_be_new(db).await
    {
        ground.clear();
        return Err(error);
    }
    let shown = show(service, listeners, &config, once, output).await;
    // Also what was made before a failure. Its master key is known to nobody.
    if let Some(db) = lent.filter(|_| config.database.is_shared()) {
        db.unmake(MIGRATIONS).await.context("the demo's tables are still there")?;
    }
    ground.clear();
    shown
}

/// Runs the service until the tour is over, or until it is told to stop.
async fn show(
    service: Service,
    listeners: Listeners,
    config: &Config,
    once: bool,
    output: Output,
) -> anyhow::Result<ExitCode> {
    service.migrate().await?;
    let running = wiring::start_on(service, listeners).await?;
    let addresses = Addresses::of(&running.addresses, config);
    output.tell(&format!(
        "The service runs on this machine: live {}, sandbox {}. What follows is a user of the \
         sandbox,\nwhere carriers are simulated and credits are play money.",
        addresses.live, addresses.sandbox
    ));
    let toured = tour(&addresses, once, output).await;
    if toured.is_ok() && !once {
        output.tell("\nStill serving; Ctrl-C stops and removes the demo's data.");
        told_to_stop().await;
    }
    let stopped = stop(running).await;
    toured.map(|()| stopped)
}

async fn tour(addresses: &Addresses, once: bool, output: Output) -> anyhow::Result<()> {
    let mut visitor = visitor::Visitor::new(&addresses.sandbox, output)?;
    let tour = steps::all(&mut visitor)
        .await
        .with_context(|| format!("step {} did not return what it should", visitor.count()))?;
    let object = summary(&tour, addresses, visitor.steps());
    output.answer(&object, || if once { ended() } else { farewell(&tour, addresses) })?;
    Ok(())
}

fn summary(tour: &Tour, addresses: &Addresses, steps: &[Value]) -> Value {
    json!({
        "live": addresses.live,
        "sandbox": addresses.sandbox,
        "reference": format!("{}/docs", addresses.sandbox),
        "openapi": format!("{}/v1/openapi.json", addresses.sandbox),
        "metrics": addresses.metrics,
        "email": tour.email,
        "password": tour.password,
        "token": tour.token,
        "account_id": tour.account_id,
        "api_key": tour.api_key,
        "balance_credits": tour.balance_credits,
        "steps": steps,
    })
}

/// What there was to try is gone when this is read.
fn ended() -> String {
    "\nAll of it worked. The demo has ended, and nothing of it is left.\n  \
     estafette demo    the same, and it stays for you to try\n  \
     estafette         serves with data that is kept"
        .to_owned()
}

fn farewell(tour: &Tour, addresses: &Addresses) -> String {
    let Addresses { live, sandbox, metrics, data, docs } = addresses;
    let Tour { email, password, api_key, .. } = tour;
    format!(
        "\nAll of it worked. Yours to try:\n  \
         sandbox API   {sandbox}/v1\n  \
         live API      {live}/v1\n  \
         reference     {docs}\n  \
         OpenAPI       {sandbox}/v1/openapi.json\n  \
         metrics       {metrics}\n  \
         API key       {api_key}\n  \
         login         {email}  {password}  (POST /v1/auth/login)\n  \
         data          {data}"
    )
}
