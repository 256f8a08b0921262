//! `estafette clock`: whether the clock that the service goes by is believed, and the word of an
//! operator that it is right.

use std::process::ExitCode;

use serde_json::json;

use super::commands::ClockArgs;
use super::output::Output;
use crate::access::By;
use crate::config::Config;
use crate::{chores, retention};

/// Shows what the clock says beside what the database says, after believing it if asked to.
pub(super) async fn run(
    config: Config,
    args: &ClockArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let service = super::open(config, output).await?;
    let app = &service.live;
    if args.confirm {
        retention::confirm_clock(app, By::CLI).await?;
    }
    let judged = chores::judge(&app.db, &app.clock).await?;
    let whose = app.config.database.whose_clock();
    service.close().await;
    let ahead_s = judged.ahead_ms() / 1_000;
    let object = json!({
        "clock": judged.clock.to_string(),
        "witnessed": judged.witnessed.to_string(),
        "ahead_s": ahead_s,
        "holds_back": judged.is_refused(),
    });
    output.answer(&object, || {
        let verdict = if judged.is_refused() {
            format!(
                "More than a day ahead: what this makes look old is kept. Set {whose} clock right \
                 or, if it is, run `estafette clock --confirm`."
            )
        } else {
            format!("Believed ({whose}).")
        };
        format!(
            "clock      {}\nwitnessed  {}\nahead      {ahead_s} s\n{verdict}",
            judged.clock, judged.witnessed
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
