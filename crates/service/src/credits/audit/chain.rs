//! The chain of seals, and blocks of rows beside what their seals say.

use std::collections::VecDeque;

use ::store::args;

use super::Report;
use super::group::Finding;
use crate::app::App;
use crate::chores::Turn;
use crate::credits::Error;
use crate::credits::seals::store::{CHAIN, CHAIN_OF};
use crate::credits::seals::{self, Kind, Seal, Tally};
use crate::kit::sealing::SealHead;
use crate::kit::walk::Found;

/// Seals read at a time.
const CHUNK: i64 = 1_000;

/// Checks every link up to seal `end`, and that the chain holds the heads that are known.
pub(super) async fn check(
    app: &App,
    report: &mut Report,
    known: &[SealHead],
    turn: Option<&Turn>,
) -> Result<(), Error> {
    let end = seals::newest(&app.db).await;
    // A newest seal that cannot be read is found below.
    let end = end.ok().flatten().map_or(i64::MAX, |seal| seal.number);
    let mut last = SealHead { number: 0, hash: [0; 32] };
    while last.number < end {
        let rows: Vec<Found<Seal>> = app.db.rows(CHAIN, args![last.number, CHUNK]).await?;
        if rows.is_empty() {
            break;
        }
        for found in rows {
            let Some(seal) = found.row else {
                let detail = format!("a seal after {} cannot be read", last.number);
                report.blame("S1", "", "", detail);
                return Ok(());
            };
            report.seals += 1;
            if seal.number != last.number + 1 {
                let missing = format!("{} to {}", last.number + 1, seal.number - 1);
                report.blame("S1", "", "", format!("seals {missing} are gone"));
            } else if seal.last_hash != last.hash {
                let detail = format!("seal {} does not follow the one before", seal.number);
                report.blame("S1", &seal.account, "", detail);
            }
            if !seal.is_genuine(&app.vault) {
                let detail = format!("seal {} was changed or made up", seal.number);
                report.blame("S1", &seal.account, "", detail);
            }
            last = seal.head();
        }
        super::rest(turn).await;
    }
    if last.number == 0 {
        let detail = "there is no seal, although every database starts with one";
        report.blame("S1", "", "", detail.to_owned());
    }
    for head in known {
        if seals::at(app, head.number).await?.is_none_or(|seal| seal.head() != *head) {
            let detail = format!(
                "seal {} is gone or another: the database is an old copy, or was forged",
                head.number
            );
            report.blame("S6", "", "", detail);
        }
    }
    Ok(())
}

/// Rows of a table in the order of their ids, beside the blocks that were sealed of them.
pub(super) struct Blocks<'a> {
    app: &'a App,
    account: &'a str,
    kind: Kind,
    /// Newer seals were made while the audit was at work.
    end: i64,
    read: i64,
    next: VecDeque<Seal>,
    tally: Tally,
    /// Rows behind the last block.
    pub(super) unsealed: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(app: &'a App, account: &'a str, kind: Kind, end: i64) -> Self {
        let (next, tally) = (VecDeque::new(), Tally::default());
        Self { app, account, kind, end, read: 0, next, tally, unsealed: 0 }
    }

    /// The blocks that end before this row, with what is wrong in them.
    pub(super) async fn before(&mut self, id: &str) -> Result<Vec<(Seal, Finding)>, Error> {
        let mut findings = Vec::new();
        while self.peek().await?.is_some_and(|seal| seal.until.as_str() < id) {
            findings.extend(self.close());
        }
        Ok(findings)
    }

    /// The next row, after [`Self::before`].
    pub(super) fn add(&mut self, credits: i64, digest: &[u8; 32]) {
        if self.next.is_empty() {
            self.unsealed += 1;
        } else {
            self.tally.add(credits, digest);
        }
    }

    /// All blocks that are left.
    pub(super) async fn finish(&mut self) -> Result<Vec<(Seal, Finding)>, Error> {
        let mut findings = Vec::new();
        while self.peek().await?.is_some() {
            findings.extend(self.close());
        }
        Ok(findings)
    }

    async fn peek(&mut self) -> Result<Option<&Seal>, Error> {
        if self.next.is_empty() && self.read < self.end {
            let args = args![self.account, self.kind.as_str(), self.read, self.end, CHUNK];
            let rows: Vec<Found<Seal>> = self.app.db.rows(CHAIN_OF, args).await?;
            // Those that cannot be read were found in the chain.
            self.next.extend(rows.into_iter().filter_map(|found| found.row));
            self.read = self.next.back().map_or(self.end, |seal| seal.number);
        }
        Ok(self.next.front())
    }

    fn close(&mut self) -> Option<(Seal, Finding)> {
        let seal = self.next.pop_front()?;
        let found = std::mem::take(&mut self.tally);
        let sealed = &seal.tally;
        let finding = difference(&found, sealed).map(|detail| {
            let from = if seal.after.is_empty() { "the first row" } else { seal.after.as_str() };
            let stretch = format!("seal {} ({from} to {})", seal.number, seal.until);
            ("S2", format!("{stretch}: {detail}"))
        });
        Some((seal, finding?))
    }
}

/// How rows differ from those that were sealed, in words.
pub(super) fn difference(found: &Tally, sealed: &Tally) -> Option<String> {
    let missing = sealed.rows - found.rows;
    match missing {
        1.. => Some(format!("{missing} of {} rows are gone or unreadable", sealed.rows)),
        0 if found == sealed => None,
        0 => Some("its rows differ from those that were sealed".to_owned()),
        _ => Some(format!("{} rows were added", missing.saturating_neg())),
    }
}
