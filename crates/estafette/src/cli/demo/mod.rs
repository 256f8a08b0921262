//! `estafette demo`: starts the service on a database of its own and shows it at work, through
//! nothing but its own HTTP API.

mod ground;
mod steps;
mod visitor;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

use super::output::Output;
use super::serve::{Places, stop, told_to_stop};
use crate::config::Config;
use crate::kit::secret::Secret;
use crate::wiring;
use steps::Tour;

/// Runs the demo, in `database` if there is one; with `once` it stops after the last step.
pub(super) async fn run(
    config: Config,
    database: Option<Secret>,
    once: bool,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let is_lent = database.is_some();
    let (config, ground) = ground::prepare(config, database, output)?;
    let service = super::open_or_make(config.clone())?;
    service.migrate().await?;
    if is_lent {
        ground::must_be_empty(&service.live).await?;
    }
    let running = wiring::start(service).await?;
    let places = Places::of(&running.addresses, &config);
    output.tell(&format!(
        "The service runs on this machine: live {}, sandbox {}. What follows is a user of the \
         sandbox,\nwhere carriers are simulated and credits are play money.",
        places.live, places.sandbox
    ));
    let toured = tour(&places, output).await;
    if toured.is_ok() && !once {
        output.tell(if is_lent {
            "\nStill serving; Ctrl-C stops. What the demo wrote stays in your database."
        } else {
            "\nStill serving; Ctrl-C stops and removes the demo's data."
        });
        told_to_stop().await;
    }
    let stopped = stop(running).await;
    ground.clear();
    toured.map(|()| stopped)
}

async fn tour(places: &Places, output: Output) -> anyhow::Result<()> {
    let mut visitor = visitor::Visitor::new(&places.sandbox, output)?;
    let tour = steps::all(&mut visitor)
        .await
        .with_context(|| format!("step {} did not give what it must", visitor.count()))?;
    let object = summary(&tour, places, visitor.steps());
    output.answer(&object, || farewell(&tour, places));
    Ok(())
}

fn summary(tour: &Tour, places: &Places, steps: &[Value]) -> Value {
    json!({
        "live": places.live,
        "sandbox": places.sandbox,
        "reference": format!("{}/docs", places.sandbox),
        "openapi": format!("{}/v1/openapi.json", places.sandbox),
        "metrics": places.metrics,
        "email": tour.email,
        "password": tour.password,
        "token": tour.token,
        "account_id": tour.account_id,
        "api_key": tour.api_key,
        "balance_credits": tour.balance_credits,
        "steps": steps,
    })
}

fn farewell(tour: &Tour, places: &Places) -> String {
    let Places { live, sandbox, metrics, data } = places;
    let Tour { email, password, api_key, .. } = tour;
    format!(
        "\nAll of it worked. Yours to try:\n  \
         sandbox API   {sandbox}/v1\n  \
         live API      {live}/v1\n  \
         reference     {sandbox}/docs\n  \
         OpenAPI       {sandbox}/v1/openapi.json\n  \
         metrics       {metrics}\n  \
         API key       {api_key}\n  \
         portal login  {email}  {password}\n  \
         data          {data}"
    )
}
