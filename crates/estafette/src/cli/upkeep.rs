//! Commands about the deployment itself: `migrate`, `audit`, `backup`, `config`, `openapi`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

use super::{logs, output::Output};
use crate::config::{Config, show, show_json};
use crate::{credits, wiring};

/// An older hold that is still open dangles: by then every passcode has expired and been swept.
const HORIZON_MS: i64 = 15 * clock::MINUTE;

/// Brings the schema up to date.
pub(super) async fn migrate(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    logs::start(&config.log)?;
    let service = wiring::open(config, clock::Clock::system())?;
    let version = service.migrate().await?;
    service.close().await;
    output.answer(&json!({ "version": version }), || {
        format!("The database is at migration {version}.")
    });
    Ok(ExitCode::SUCCESS)
}

/// Proves the ledger.
pub(super) async fn audit(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    let service = super::open(config).await?;
    let report = credits::audit::audit(&service.live, HORIZON_MS).await?;
    service.close().await;
    let ok = report.is_ok();
    let mut object = serde_json::to_value(&report)?;
    object["ok"] = ok.into();
    output.answer(&object, || summary(&object));
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summary(report: &serde_json::Value) -> String {
    let mut lines = Vec::new();
    for name in ["accounts", "transfers", "holds_open", "violations", "dangling"] {
        let list = report[name].as_array();
        let figure = list.map_or_else(|| report[name].to_string(), |list| list.len().to_string());
        lines.push(format!("{name:<12} {figure:>12}"));
        lines.extend(list.into_iter().flatten().map(|item| format!("  {item}")));
    }
    let verdict = if report["ok"] == true { "The ledger adds up." } else { "NOT ok: see above." };
    lines.push(verdict.to_owned());
    lines.join("\n")
}

/// Copies the database.
pub(super) async fn backup(
    config: Config,
    file: &Path,
    output: Output,
) -> anyhow::Result<ExitCode> {
    if file.exists() {
        bail!("{} exists; a backup never overwrites", file.display());
    }
    let service = super::open(config).await?;
    service.live.db.backup(file).await.context("the backup failed")?;
    service.close().await;
    let bytes = std::fs::metadata(file)?.len();
    let name = file.display().to_string();
    output.answer(&json!({ "file": name, "bytes": bytes }), || {
        format!("{name}: {bytes} bytes. Keep the master key with it.")
    });
    Ok(ExitCode::SUCCESS)
}

/// Prints the settings in force.
pub(super) fn config(config: &Config, output: Output) -> ExitCode {
    output.answer(&show_json(config), || show(config));
    ExitCode::SUCCESS
}

/// Prints the description of the API.
pub(super) fn openapi(output: Output) -> anyhow::Result<ExitCode> {
    let document = wiring::openapi();
    let pretty = document.to_pretty_json()?;
    output.answer(&serde_json::to_value(&document)?, || pretty);
    Ok(ExitCode::SUCCESS)
}
