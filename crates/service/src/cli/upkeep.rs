//! Commands about the deployment itself: `migrate`, `audit`, `erase`, `compact`, `backup`,
//! `config`, `openapi`.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use serde_json::json;

use super::commands::{AuditArgs, EraseArgs};
use super::output::Output;
use crate::access::By;
use crate::config::{Config, show, show_json};
use crate::credits::audit::{self, Report, Scope};
use crate::credits::seals::Seal;
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;
use crate::kit::seal::hex;
use crate::kit::sealing::SealHead;
use crate::retention::{self, Erased, Person};
use crate::{chores, credits, wiring};

/// Brings the schema up to date.
pub(super) async fn migrate(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    let (place, is_shared) = (wiring::place_of(&config), config.database.is_shared());
    let service = super::open_or_make(config, output)?;
    let migrated = service.migrate().await.map_err(anyhow::Error::from);
    let version = migrated.map_err(|error| super::placed(error, &place, is_shared))?;
    service.close().await;
    output.answer(&json!({ "version": version }), || {
        format!("The database is at migration {version}.")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Proves the ledger, or prints its newest seal.
pub(super) async fn audit(
    config: Config,
    args: &AuditArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let since = args.since_head.as_deref().map(kept_head).transpose()?;
    let service = super::open(config, output).await?;
    let app = &service.live;
    if args.head {
        let newest = credits::seals::newest(&app.db).await?;
        service.close().await;
        return tell_head(newest.as_ref(), output);
    }
    // A copy is judged by its own time: due work has not been there since.
    let as_of = Some(chores::judge(&app.db, &app.clock).await?.witnessed.min(app.now()));
    let scope = Scope {
        horizon_ms: audit::HORIZON_MS,
        as_of,
        unsealed_ms: Some(audit::UNSEALED_MS),
        since,
        turn: None,
    };
    let report = audit::read_all(app, &scope).await?.unwrap_or_default();
    service.close().await;
    let ok = report.is_ok();
    let mut object = serde_json::to_value(&report)?;
    object["ok"] = ok.into();
    output.answer(&object, || summary(&report))?;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A seal as it was kept: itself, the file that it is in, or - for the standard input.
fn kept_head(place: &str) -> anyhow::Result<SealHead> {
    if let Some(head) = credits::seals::head_of(place) {
        return Ok(head);
    }
    let text = if place == "-" {
        std::io::read_to_string(std::io::stdin()).context("cannot read the seal")?
    } else {
        let read = std::fs::read_to_string(place);
        read.with_context(|| format!("--since-head {place} is neither a seal nor a file"))?
    };
    credits::seals::head_of(&text)
        .context("--since-head takes what `estafette audit --head` printed: a number, -, 64 digits")
}

fn tell_head(newest: Option<&Seal>, output: Output) -> anyhow::Result<ExitCode> {
    let Some(seal) = newest else {
        output.answer(&json!({ "head": null }), || {
            "Nothing is sealed yet: the service seals every half an hour.".to_owned()
        })?;
        return Ok(ExitCode::FAILURE);
    };
    let text = credits::seals::head_text(&seal.head());
    let object = json!({
        "head": text, "seal": seal.number, "hash": hex(&seal.hash),
        "sealed_at": seal.sealed_at.to_string(),
    });
    output.answer(&object, || text)?;
    Ok(ExitCode::SUCCESS)
}

fn summary(report: &Report) -> String {
    let mut lines = Vec::new();
    let mut figure = |name: &str, value: u64| lines.push(format!("{name:<16} {value:>12}"));
    figure("accounts", report.accounts);
    figure("transfers", report.transfers);
    figure("unsealed", report.unsealed);
    figure("seals", report.seals);
    figure("log_lines", report.log_lines);
    figure("holds_open", report.holds_open);
    figure("attempts_unknown", report.attempts_unknown);
    figure("violations_found", report.violations_found);
    list(&mut lines, &report.violations, report.violations_found);
    lines.push(format!("{:<16} {:>12}", "dangling_found", report.dangling_found));
    list(&mut lines, &report.dangling, report.dangling_found);
    let verdict = match (report.violations_found, report.dangling_found) {
        (0, 0) => "The ledger adds up.",
        (0, _) => "The ledger adds up, but some holds are dangling; see above.",
        _ => "The ledger does not add up; see above.",
    };
    lines.push(verdict.to_owned());
    lines.join("\n")
}

/// Those that are named, and how many there are besides.
fn list(lines: &mut Vec<String>, named: &[impl Display], found: u64) {
    lines.extend(named.iter().map(|one| format!("  {one}")));
    let more = found.saturating_sub(named.len() as u64);
    lines.extend((more > 0).then(|| format!("  and {more} more")));
}

/// Erases a recipient.
pub(super) async fn erase(
    config: Config,
    args: &EraseArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let mut number = args.recipient.clone();
    if number == "-" {
        number = std::io::read_to_string(std::io::stdin()).context("cannot read the recipient")?;
        if number.trim().lines().count() > 1 {
            bail!("the standard input has several lines: erase one recipient at a time");
        }
    }
    // The number is not repeated: this goes to terminals and logs.
    let (person, trace) = person(number.trim())?;
    let account = match &args.account {
        Some(text) => Some(
            AccountId::parse(text)
                .context("--account is not an account id (acc_ and 26 characters)")?,
        ),
        None => None,
    };
    let has_handsets = config.keeps_handsets_in_memory();
    let service = super::open(config, output).await?;
    let erased = retention::erase(&service.live, &person, account.as_ref(), By::CLI).await?;
    let is_left = service.live.db.holds(trace.as_bytes()).await?;
    service.close().await;
    let Erased { passcodes, sms, emails, chatapp, inbound, ticket_messages } = erased;
    let ended = passcodes.ended + sms.ended + emails.ended + chatapp.ended;
    let mails = emails.emails;
    let (challenges, messages) = (passcodes.challenges, sms.messages + chatapp.messages);
    let received = inbound.messages;
    let keys = passcodes.idempotency_keys
        + sms.idempotency_keys
        + emails.idempotency_keys
        + chatapp.idempotency_keys;
    let object = json!({
        "challenges": challenges,
        "messages": messages,
        "emails": mails,
        "ended": ended,
        "idempotency_keys": keys + inbound.idempotency_keys,
        "inbound_notifications": received,
        "ticket_messages": ticket_messages,
        "files_clean": is_left.map(|is_left| !is_left),
        "handsets_in_memory": has_handsets,
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
        let handsets = if has_handsets {
            "\nA process that serves keeps the sandbox's handsets in its memory, out of this \
             command's reach: they forget at its restart, or at once by POST /v1/admin/erasures."
        } else {
            ""
        };
        format!(
            "Erased the recipient from what they were sent (passcodes: {challenges}, messages: \
             {messages}, emails: {mails}; open ones that were ended: {ended}) and from what they \
             sent (messages: {received}).{files}{handsets}"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The person, and what to look for in the files afterwards.
fn person(text: &str) -> anyhow::Result<(Person, String)> {
    if text.contains('@') {
        let address = email::Address::parse(text).map_err(|e| anyhow!("--recipient {e}"))?;
        let trace = address.as_str().to_owned();
        return Ok((Person::Email(address), trace));
    }
    let number = Msisdn::once_valid(text).map_err(|e| anyhow!("--recipient {e}"))?;
    let trace = number.e164().trim_start_matches('+').to_owned();
    Ok((Person::Phone(number), trace))
}

/// Writes the embedded database anew.
pub(super) async fn compact(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    let path = wiring::database_file(&config).unwrap_or_default();
    let size = || std::fs::metadata(&path).map_or(0, |found| found.len());
    let service = super::open(config, output).await?;
    let before = size();
    let compacted = service.live.db.compact().await;
    compacted.map_err(|error| anyhow!("the database was not compacted: {}", error.into_why()))?;
    service.close().await;
    let after = size();
    output.answer(&json!({ "bytes_before": before, "bytes_after": after }), || {
        format!("{}: {before} bytes before, {after} after.", path.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Copies the database.
pub(super) async fn backup(
    config: Config,
    file: &Path,
    output: Output,
) -> anyhow::Result<ExitCode> {
    if file.exists() {
        bail!("{} exists already: name a new file", file.display());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("there is no directory {}: make it first", folder.display());
    }
    let service = super::open_as_it_is(config, output).await?;
    service
        .live
        .db
        .backup(file)
        .await
        .with_context(|| format!("the backup could not be written to {}", file.display()))?;
    service.close().await;
    let bytes = std::fs::metadata(file)?.len();
    let name = file.display().to_string();
    output.answer(&json!({ "file": name, "bytes": bytes }), || {
        format!(
            "{name}: {bytes} bytes. Back up the master key too, in another place: this file cannot \
             be used without it."
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the settings in force.
pub(super) fn config(config: &Config, output: Output) -> anyhow::Result<ExitCode> {
    output.answer(&show_json(config), || show(config))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the file of settings that operators begin with.
pub(super) fn template(output: Output) -> anyhow::Result<ExitCode> {
    let text = crate::config::template();
    output.answer(&json!({ "toml": text }), || text.clone())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the description of the API.
pub(super) fn openapi(output: Output) -> anyhow::Result<ExitCode> {
    output.answer(&wiring::description::openapi(), || {
        wiring::description::openapi_text().trim_end().to_owned()
    })?;
    Ok(ExitCode::SUCCESS)
}
