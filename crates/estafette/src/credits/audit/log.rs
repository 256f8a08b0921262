//! The audit log, line by line, beside its seals.

use super::chain::Blocks;
use super::{Report, rest};
use crate::access::audit::lines;
use crate::app::App;
use crate::credits::Error;
use crate::credits::seals::{self, Forgotten, Kind, NOBODY};
use crate::jobs::Turn;

/// Lines between two pauses.
const CHUNK: u64 = 1_000;

/// Every line must be the service's own, and none that was sealed may be missing, but for those
/// that retention deleted.
pub(super) async fn check(
    app: &App,
    report: &mut Report,
    end: i64,
    turn: Option<&Turn>,
) -> Result<(), Error> {
    let legacy_until = seals::legacy_until(app).await?;
    let mut blocks = Blocks::new(app, NOBODY, Kind::AuditLog, end);
    let (mut feed, mut findings) = (lines(app), Vec::new());
    while let Some(found) = feed.next().await? {
        report.log_lines += 1;
        if report.log_lines.is_multiple_of(CHUNK) {
            rest(turn).await;
        }
        let (id, line) = (found.id.unwrap_or_default(), found.row);
        let Some(line) = line.filter(|line| line.is_genuine(&app.vault, &legacy_until)) else {
            report.blame("S3", "", &id, "the line was changed or made up".to_owned());
            continue;
        };
        findings.extend(blocks.before(&line.id).await?);
        blocks.add(0, &line.digest());
    }
    findings.extend(blocks.finish().await?);
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
