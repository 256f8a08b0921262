//! Commands about the deployment itself: `migrate`, `audit`, `erase`, `compact`, `backup`,
//! `config`, `openapi`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use serde_json::json;

use super::commands::EraseArgs;
use super::output::Output;
use crate::access::By;
use crate::config::{Config, show, show_json};
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;
use crate::retention::{self, Erased};
use crate::{credits, wiring};

/// Brings the schema up to date.
pub(super) async fn migrate(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    let service = super::open_or_make(config)?;
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
    let report = credits::audit::audit(&service.live, credits::audit::HORIZON_MS).await?;
    service.close().await;
    let ok = report.is_ok();
    let mut object = serde_json::to_value(&report)?;
    object["ok"] = ok.into();
    output.answer(&object, || summary(&object));
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summary(report: &serde_json::Value) -> String {
    let mut lines = Vec::new();
    for name in
        ["accounts", "transfers", "holds_open", "attempts_unknown", "violations", "dangling"]
    {
        let list = report[name].as_array();
        let figure = list.map_or_else(|| report[name].to_string(), |list| list.len().to_string());
        lines.push(format!("{name:<12} {figure:>12}"));
        lines.extend(list.into_iter().flatten().map(|item| format!("  {item}")));
    }
    let verdict = if report["ok"] == true { "The ledger adds up." } else { "NOT ok: see above." };
    lines.push(verdict.to_owned());
    lines.join("\n")
}

/// Erases a recipient.
pub(super) async fn erase(
    config: Config,
    args: &EraseArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let mut number = args.recipient.clone();
    if number == "-" {
        number.clear();
        std::io::stdin().read_line(&mut number).context("cannot read the number")?;
    }
    // The number is not repeated: this goes to terminals and logs.
    let number = Msisdn::once_valid(number.trim()).map_err(|e| anyhow!("--recipient {e}"))?;
    let account = match &args.account {
        Some(text) => Some(AccountId::parse(text).context("--account is no account id")?),
        None => None,
    };
    let service = super::open(config).await?;
    let erased = retention::erase(&service.live, &number, account.as_ref(), By::CLI).await?;
    let digits = number.e164().trim_start_matches('+');
    let is_left = service.live.db.holds(digits.as_bytes()).await?;
    service.close().await;
    let Erased { passcodes, inbound } = erased;
    let (challenges, ended, messages) = (passcodes.challenges, passcodes.ended, inbound.messages);
    let object = json!({
        "challenges": challenges,
        "ended": ended,
        "idempotency_keys": passcodes.idempotency_keys + inbound.idempotency_keys,
        "inbound_notifications": messages,
        "files_clean": is_left.map(|is_left| !is_left),
    });
    output.answer(&object, || {
        // An erasure of one account leaves the number where other accounts have it.
        let files = match is_left {
            Some(true) => {
                "\nIts digits are still in the files: of another account, of another number that \
                 contains them, or in an unused part. `estafette compact` rewrites the files."
            }
            Some(false) => "\nIts digits are nowhere in the files.",
            None => "",
        };
        format!(
            "Erased from {challenges} passcodes, of which {ended} were open and are ended, and \
             {messages} messages that the person sent.{files}"
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// Writes the embedded database anew.
pub(super) async fn compact(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    let path = wiring::database_file(&config).unwrap_or_default();
    let size = || std::fs::metadata(&path).map_or(0, |found| found.len());
    let service = super::open(config).await?;
    let before = size();
    service.live.db.compact().await.context("the database was not compacted")?;
    service.close().await;
    let after = size();
    output.answer(&json!({ "bytes_before": before, "bytes_after": after }), || {
        format!("{}: {before} bytes before, {after} after.", path.display())
    });
    Ok(ExitCode::SUCCESS)
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
