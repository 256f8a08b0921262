//! One round of sealing: what lies before the fence, then the next fence.

use std::collections::{BTreeMap, BTreeSet};

use ::store::args;
use clock::{DAY, Millis};
use serde::Serialize;

use super::terms;
use super::{
    Draft, FENCE_DELAY_MS, Kind, NOBODY, Seal, Tally, append, fence_of, newest_of, refresh,
    store as sql,
};
use crate::access::audit::{self, Line, lines};
use crate::access::retention::Accounts;
use crate::app::App;
use crate::chores::Turn;
use crate::credits::{Error, Transfer};
use crate::kit::id::{AuditId, TransferId};
use crate::kit::seal::hex;
use crate::kit::walk::Found;

/// Rows of a block at most.
const BLOCK: i64 = 5_000;
/// Late transfers of a seal at most.
const LATE: i64 = 500;
/// How far a round moves the fence at most, milliseconds: a clock that jumps ahead by years does
/// not take the fence with it, and a service that was away for long catches up within some rounds.
const LEAP_MS: i64 = 7 * DAY;

/// What a round did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// Rows that were sealed.
    pub rows: i64,
    /// Seals that were made.
    pub seals: i64,
    /// The newest seal, as `estafette audit --head` prints it: a log that is kept elsewhere keeps
    /// it, too.
    pub head: String,
}

/// Seals what lies before the fence and publishes the next one; `None` when the turn was over
/// before.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]; [`Error::SealsGone`] when the chain is not the one that this
/// process knows.
pub async fn round(app: &App, turn: Option<&Turn>) -> Result<Option<Round>, Error> {
    check_memory(app).await?;
    check_log(app).await?;
    refresh(app).await?;
    let mut sealer = Sealer { app, turn, round: Round::default() };
    let fence = newest_of(app, NOBODY, Kind::Fence).await?.ok_or(Error::ChainGone)?;
    if !sealer.seal_before(&fence).await? {
        return Ok(None);
    }
    sealer.publish(&fence).await?;
    Ok(Some(sealer.round))
}

/// The last line of the audit log says up to where the chain went at least. It is read first: the
/// chain only grows.
async fn check_log(app: &App) -> Result<(), Error> {
    let line = audit::newest(app).await?.and_then(|found| found.row);
    let line = line.filter(|line| line.is_genuine(&app.vault));
    let end = super::newest(&app.db).await?.map_or(0, |seal| seal.number);
    if line.is_some_and(|line| line.seal_no > end) { Err(Error::ChainGone) } else { Ok(()) }
}

/// The chain must go on from what this process saw of it. Somebody who put an old copy of the
/// database in its place must not get it sealed.
async fn check_memory(app: &App) -> Result<(), Error> {
    let Some(known) = app.sealing.head() else { return Ok(()) };
    if super::at(app, known.number).await?.is_some_and(|seal| seal.head() == known) {
        return Ok(());
    }
    Err(Error::SealsGone { number: known.number, hash: hex(&known.hash) })
}

/// One round at work.
struct Sealer<'a> {
    app: &'a App,
    turn: Option<&'a Turn>,
    round: Round,
}

impl Sealer<'_> {
    /// Everything that lies before the fence; `false` = the turn was over before.
    async fn seal_before(&mut self, fence: &Seal) -> Result<bool, Error> {
        self.seal_log(fence_of(fence)).await?;
        self.seal_late().await?;
        let mut accounts = Accounts::default();
        while let Some(account) = accounts.next(self.app).await? {
            self.seal_transfers(account.as_str(), &fence.until).await?;
            self.seal_terms(account.as_str(), fence_of(fence)).await?;
            if let Some(turn) = self.turn
                && !turn.breathe().await
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next fence.
    async fn publish(&mut self, last: &Seal) -> Result<(), Error> {
        // A chore goes by the time that is believed, not by the clock alone.
        let now = self.turn.map_or_else(|| self.app.now(), Turn::now);
        let next = Millis(now.0 - FENCE_DELAY_MS);
        let before = fence_of(last);
        let next = next.min(before + LEAP_MS);
        if next > before {
            let bound = String::from(TransferId::bound(next));
            self.append(&Draft::new(Kind::Fence, NOBODY, Some(last), &bound)).await?;
            self.app.sealing.raise_fence(next);
        }
        Ok(())
    }

    async fn append(&mut self, draft: &Draft<'_>) -> Result<Seal, Error> {
        let seal = append(self.app, draft).await?;
        self.round.rows += seal.tally.rows;
        self.round.seals += 1;
        self.round.head = super::head_text(&seal.head());
        Ok(seal)
    }

    /// A block for every stretch of the account's transfers before the fence.
    async fn seal_transfers(&mut self, account: &str, fence: &str) -> Result<(), Error> {
        let mut last = newest_of(self.app, account, Kind::Transfers).await?;
        loop {
            let after = last.as_ref().map(|last| last.until.clone()).unwrap_or_default();
            let args = args![account, &after, fence, BLOCK];
            let rows: Vec<Found<Transfer>> = self.app.db.rows(sql::TRANSFERS, args).await?;
            let is_last = i64::try_from(rows.len()).unwrap_or(BLOCK) < BLOCK;
            let end = rows.iter().rev().find_map(|found| found.id.clone());
            let until = if is_last { fence.to_owned() } else { end.unwrap_or_default() };
            let tally = self.tally_of(account, rows, Stretch { after: &after, until: &until });
            let tally = tally.await?;
            if tally.rows == 0 && is_last {
                return Ok(());
            }
            let draft = Draft::new(Kind::Transfers, account, last.as_ref(), &until);
            let seal = self.append(&Draft { tally, ..draft }).await?;
            last = Some(seal);
            // Whoever asked for the round looks whether its turn is over.
            let goes_on = match self.turn {
                Some(turn) => turn.rest().await,
                None => true,
            };
            if is_last || !goes_on {
                return Ok(());
            }
        }
    }

    /// The genuine rows that did not come late. The late ones are read after the rows: a transfer
    /// and the word that it is late come together.
    async fn tally_of(
        &self,
        account: &str,
        rows: Vec<Found<Transfer>>,
        stretch: Stretch<'_>,
    ) -> Result<Tally, Error> {
        let args = args![account, stretch.after, stretch.until];
        let late: Vec<(String, i64)> = self.app.db.rows(sql::LATE_BETWEEN, args).await?;
        let late: BTreeSet<String> = late.into_iter().map(|(id, _)| id).collect();
        let mut tally = Tally::default();
        for transfer in rows.into_iter().filter_map(|found| found.row) {
            let is_late = late.contains(transfer.id.as_str());
            if !is_late && transfer.is_genuine(&self.app.vault, account) {
                tally.add_transfer(account, &transfer);
            }
        }
        Ok(tally)
    }

    /// The terms of an account that is new, or of which the audit log says something new.
    async fn seal_terms(&mut self, account: &str, fence: Millis) -> Result<(), Error> {
        let end = String::from(AuditId::bound(fence));
        let record = terms::on_record(self.app, account, Some(&end)).await?;
        if record.seal.as_ref().is_some_and(|seal| seal.until == record.until) {
            return Ok(());
        }
        // An account that no line knows is for the audit to find.
        let Some(terms) = &record.terms else { return Ok(()) };
        let draft = Draft {
            detail: serde_json::to_string(terms).unwrap_or_default(),
            ..Draft::new(Kind::Terms, account, record.seal.as_ref(), &record.until)
        };
        self.append(&draft).await.map(drop)
    }

    /// Late transfers, wherever they are: a seal for each account that has some.
    async fn seal_late(&mut self) -> Result<(), Error> {
        let (mut id, mut account) = (String::new(), String::new());
        loop {
            let args = args![&id, &account, LATE];
            let rows: Vec<(String, String)> = self.app.db.rows(sql::LATE_OPEN, args).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            (id, account) = last.clone();
            let mut by_account: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (id, account) in rows {
                by_account.entry(account).or_default().push(id);
            }
            for (account, ids) in by_account {
                self.seal_late_of(&account, ids).await?;
            }
        }
    }

    async fn seal_late_of(&mut self, account: &str, ids: Vec<String>) -> Result<(), Error> {
        let (mut tally, mut late) = (Tally::default(), Vec::new());
        for id in ids {
            let row: Option<Found<Transfer>> =
                self.app.db.row(sql::TRANSFER, args![account, &id]).await?;
            // One that is not there or not genuine stays open, and the audit says so.
            let transfer = row.and_then(|found| found.row);
            if let Some(transfer) = transfer.filter(|it| it.is_genuine(&self.app.vault, account)) {
                tally.add_transfer(account, &transfer);
                late.push(id);
            }
        }
        let Some(until) = late.last().cloned() else { return Ok(()) };
        let last = newest_of(self.app, account, Kind::Late).await?;
        let draft = Draft::new(Kind::Late, account, last.as_ref(), &until);
        self.append(&Draft { tally, late: &late, ..draft }).await.map(drop)
    }

    /// The lines of the audit log from before the fence, a block at a time.
    async fn seal_log(&mut self, fence: Millis) -> Result<(), Error> {
        let fence = String::from(AuditId::bound(fence));
        loop {
            let last = newest_of(self.app, NOBODY, Kind::AuditLog).await?;
            let after = last.as_ref().map(|last| last.until.clone()).unwrap_or_default();
            let block = self.log_block(Stretch { after: &after, until: &fence }).await?;
            let Some(block) = block else { return Ok(()) };
            let draft = Draft {
                tally: block.tally,
                after: &block.after,
                ..Draft::new(Kind::AuditLog, NOBODY, last.as_ref(), &block.until)
            };
            self.append(&draft).await?;
            if block.until == fence {
                return Ok(());
            }
        }
    }

    /// The next genuine lines of a stretch, as many as a block takes; `None` = there are none.
    async fn log_block(&self, stretch: Stretch<'_>) -> Result<Option<LogBlock>, Error> {
        let (mut feed, mut tally) = (lines(self.app).starting_at(stretch.after), Tally::default());
        let (mut first, mut until) = (None, stretch.until.to_owned());
        while let Some(found) = feed.next().await? {
            let Some(id) = found.id.filter(|id| id.as_str() > stretch.after) else { continue };
            if id.as_str() >= stretch.until {
                break;
            }
            let is_genuine = |line: &Line| line.is_genuine(&self.app.vault);
            if let Some(line) = found.row.filter(is_genuine) {
                tally.add(0, &line.digest());
                first.get_or_insert(AuditId::stored(line.id).time());
            }
            if tally.rows >= BLOCK {
                until = id;
                break;
            }
        }
        // Blocks that retention reaches are told from others by where they really begin.
        Ok(first.map(|first| {
            let begin = String::from(AuditId::bound(first));
            LogBlock { tally, after: begin.max(stretch.after.to_owned()), until }
        }))
    }
}

/// Ids behind one and up to another.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    after: &'a str,
    until: &'a str,
}

/// A block of the audit log.
struct LogBlock {
    tally: Tally,
    after: String,
    until: String,
}
