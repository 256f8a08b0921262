//! The audit log, line by line, beside its seals.

use ::store::args;

use super::chain::Blocks;
use super::{Report, rest, store as sql};
use crate::access::audit::{Line, lines};
use crate::app::App;
use crate::chores::Turn;
use crate::credits::Error;
use crate::credits::seals::{self, Forgotten, Kind, NOBODY, terms};
use crate::kit::walk::Found;

/// Lines between two pauses.
const CHUNK: u64 = 1_000;

/// What a line says was made, and is not there. Neither accounts nor transfers are ever deleted.
async fn missing_deed(app: &App, line: &Line) -> Result<Option<String>, Error> {
    let Some(account) = line.account.as_deref() else { return Ok(None) };
    let object = line.object_id.as_str();
    let is_there = match line.action.as_str() {
        "credits.add" => {
            let row: Option<Found<(i64,)>> =
                app.db.row(sql::HAS_TRANSFER, args![account, object]).await?;
            row.is_some()
        }
        "account.create" => match terms::found(app, account).await {
            Ok(found) => found.is_some(),
            // One that cannot be read is told of when it is its turn.
            Err(Error::Db(::store::Error::Corrupt { .. })) => true,
            Err(error) => return Err(error),
        },
        _ => true,
    };
    Ok((!is_there).then(|| format!("{} made {object}, and it is gone", line.action)))
}

/// Every line must be the service's own, and none that was sealed may be missing, but for those
/// that retention deleted.
pub(super) async fn check(
    app: &App,
    report: &mut Report,
    end: i64,
    turn: Option<&Turn>,
) -> Result<(), Error> {
    let mut blocks = Blocks::new(app, NOBODY, Kind::AuditLog, end);
    let (mut feed, mut findings, mut known) = (lines(app), Vec::new(), 0);
    while let Some(found) = feed.next().await? {
        report.log_lines += 1;
        if report.log_lines.is_multiple_of(CHUNK) {
            rest(turn).await;
        }
        let (id, line) = (found.id.unwrap_or_default(), found.row);
        let Some(line) = line.filter(|line| line.is_genuine(&app.vault)) else {
            report.blame("S3", "", &id, "the line was changed or made up".to_owned());
            continue;
        };
        known = known.max(line.seal_no);
        findings.extend(blocks.before(&line.id).await?);
        blocks.add(0, &line.digest());
        if let Some(detail) = missing_deed(app, &line).await? {
            report.blame("S3", line.account.as_deref().unwrap_or_default(), &line.id, detail);
        }
    }
    findings.extend(blocks.finish().await?);
    // After the lines were read: meanwhile the chain only grew.
    let end = seals::newest(&app.db).await?.map_or(0, |seal| seal.number);
    if known > end {
        let detail = format!("a line was written after seal {known}, and the chain ends at {end}");
        report.blame("S6", "", "", detail);
    }
    // After the lines were read: what retention deleted meanwhile was announced before.
    let forgotten = seals::newest_of(app, NOBODY, Kind::Forgotten(Forgotten::AuditLog)).await?;
    let until = forgotten.map(|seal| seal.until).unwrap_or_default();
    for (block, (_, detail)) in findings {
        if block.after >= until {
            report.blame("S3", "", "audit_log", detail);
        }
    }
    Ok(())
}
