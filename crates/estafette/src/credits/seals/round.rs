//! One round of sealing: what lies before the fence, then the next fence.

use std::collections::BTreeMap;

use ::store::args;
use clock::{DAY, Millis};
use serde::Serialize;

use super::{
    Draft, FENCE_DELAY_MS, Kind, NOBODY, Seal, Tally, append, fence_of, newest_of, refresh,
    store as sql, terms,
};
use crate::access::audit::{Line, lines};
use crate::access::retention::Accounts;
use crate::app::App;
use crate::credits::{Error, Transfer};
use crate::jobs::Turn;
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

impl Round {
    fn count(&mut self, seal: &Seal) {
        self.rows += if seal.kind == Kind::Terms.word() { 0 } else { seal.tally.rows };
        self.seals += 1;
        self.head = super::head_text(&seal.head());
    }
}

/// Seals what lies before the fence and publishes the next one; `None` when the turn was over
/// before.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]; [`Error::SealsGone`] when the chain is not the one that this
/// process knows.
pub async fn round(app: &App, turn: Option<&Turn>) -> Result<Option<Round>, Error> {
    check_memory(app).await?;
    refresh(app).await?;
    let mut round = Round::default();
    let fence = newest_of(app, NOBODY, Kind::Fence).await?;
    if let Some(fence) = &fence {
        seal_log(app, &mut round, fence_of(fence)).await?;
        seal_late(app, &mut round).await?;
        let mut accounts = Accounts::default();
        while let Some(account) = accounts.next(app).await? {
            seal_transfers((app, turn), &mut round, account.as_str(), &fence.until).await?;
            seal_terms(app, &mut round, account.as_str(), fence_of(fence)).await?;
            if let Some(turn) = turn
                && !turn.breathe().await
            {
                return Ok(None);
            }
        }
    }
    let last = fence.as_ref().map(fence_of);
    // A chore goes by the time that is believed, not by the clock alone.
    let now = turn.map_or_else(|| app.now(), Turn::now);
    let next = Millis(now.0 - FENCE_DELAY_MS);
    let next = last.map_or(next, |last| next.min(last + LEAP_MS));
    if last.is_none_or(|last| next > last) {
        let bound = String::from(TransferId::bound(next));
        let draft = Draft::new(Kind::Fence, NOBODY, fence.as_ref(), &bound);
        round.count(&append(app, &draft).await?);
        app.sealing.raise_fence(next);
    }
    Ok(Some(round))
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

/// A block for every stretch of the account's transfers before the fence.
async fn seal_transfers(
    (app, turn): (&App, Option<&Turn>),
    round: &mut Round,
    account: &str,
    fence: &str,
) -> Result<(), Error> {
    let mut last = newest_of(app, account, Kind::Transfers).await?;
    loop {
        let after = last.as_ref().map(|last| last.until.clone()).unwrap_or_default();
        let args = args![account, &after, fence, BLOCK];
        let rows: Vec<Found<Transfer>> = app.db.rows(sql::TRANSFERS, args).await?;
        let is_last = i64::try_from(rows.len()).unwrap_or(BLOCK) < BLOCK;
        let end = rows.iter().rev().find_map(|found| found.id.clone());
        let until = if is_last { fence.to_owned() } else { end.unwrap_or_default() };
        // After the rows: a late one comes together with the word that it is late.
        let late: BTreeMap<String, i64> = app
            .db
            .rows(sql::LATE_BETWEEN, args![account, &after, &until])
            .await?
            .into_iter()
            .collect();
        let mut tally = Tally::default();
        for transfer in rows.into_iter().filter_map(|found| found.row) {
            if !late.contains_key(transfer.id.as_str()) && transfer.is_genuine(&app.vault, account)
            {
                tally.add_transfer(account, &transfer);
            }
        }
        if tally.rows == 0 && is_last {
            return Ok(());
        }
        let draft = Draft { tally, ..Draft::new(Kind::Transfers, account, last.as_ref(), &until) };
        let seal = append(app, &draft).await?;
        round.count(&seal);
        last = Some(seal);
        // Whoever asked for the round looks whether its turn is over.
        let goes_on = match turn {
            Some(turn) => turn.rest().await,
            None => true,
        };
        if is_last || !goes_on {
            return Ok(());
        }
    }
}

/// The terms of an account that is new, or of which the audit log says something new.
async fn seal_terms(
    app: &App,
    round: &mut Round,
    account: &str,
    fence: Millis,
) -> Result<(), Error> {
    let Some(found) = terms::found(app, account).await? else { return Ok(()) };
    let end = String::from(AuditId::bound(fence));
    let legacy_until = super::legacy_until(app).await?;
    let record = terms::on_record(app, account, &found, (&legacy_until, &end)).await?;
    if record.seal.as_ref().is_some_and(|seal| seal.until == record.until) {
        return Ok(());
    }
    let draft = Draft {
        detail: serde_json::to_string(&record.terms).unwrap_or_default(),
        ..Draft::new(Kind::Terms, account, record.seal.as_ref(), &record.until)
    };
    round.count(&append(app, &draft).await?);
    Ok(())
}

/// Late transfers, wherever they are: a seal for each account that has some.
async fn seal_late(app: &App, round: &mut Round) -> Result<(), Error> {
    let (mut id, mut account) = (String::new(), String::new());
    loop {
        let args = args![&id, &account, LATE];
        let rows: Vec<(String, String)> = app.db.rows(sql::LATE_OPEN, args).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        (id, account) = last.clone();
        let mut by_account: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, account) in rows {
            by_account.entry(account).or_default().push(id);
        }
        for (account, ids) in by_account {
            seal_late_of(app, round, &account, ids).await?;
        }
    }
}

async fn seal_late_of(
    app: &App,
    round: &mut Round,
    account: &str,
    ids: Vec<String>,
) -> Result<(), Error> {
    let (mut tally, mut late) = (Tally::default(), Vec::new());
    for id in ids {
        let row: Option<Found<Transfer>> = app.db.row(sql::TRANSFER, args![account, &id]).await?;
        // One that is not there or not genuine stays open, and the audit says so.
        let transfer = row.and_then(|found| found.row);
        if let Some(transfer) = transfer.filter(|it| it.is_genuine(&app.vault, account)) {
            tally.add_transfer(account, &transfer);
            late.push(id);
        }
    }
    if late.is_empty() {
        return Ok(());
    }
    let last = newest_of(app, account, Kind::Late).await?;
    let until = late.last().cloned().unwrap_or_default();
    let draft =
        Draft { tally, late: &late, ..Draft::new(Kind::Late, account, last.as_ref(), &until) };
    round.count(&append(app, &draft).await?);
    Ok(())
}

/// The lines of the audit log from before the fence, a block at a time.
async fn seal_log(app: &App, round: &mut Round, fence: Millis) -> Result<(), Error> {
    let fence = String::from(AuditId::bound(fence));
    let legacy_until = super::legacy_until(app).await?;
    loop {
        let last = newest_of(app, NOBODY, Kind::AuditLog).await?;
        let after = last.as_ref().map(|last| last.until.clone()).unwrap_or_default();
        let (mut feed, mut tally) = (lines(app).from(&after), Tally::default());
        let (mut first, mut until) = (None, fence.clone());
        while let Some(found) = feed.next().await? {
            let Some(id) = found.id else { continue };
            if id <= after {
                continue;
            }
            if id >= fence {
                break;
            }
            let is_genuine = |line: &Line| line.is_genuine(&app.vault, &legacy_until);
            if let Some(line) = found.row.filter(is_genuine) {
                tally.add(0, &line.digest());
                first.get_or_insert(AuditId::stored(line.id).time());
            }
            if tally.rows >= BLOCK {
                until = id;
                break;
            }
        }
        if tally.rows == 0 {
            return Ok(());
        }
        // Blocks that retention reaches are told from others by where they really begin.
        let after = first.map(|first| String::from(AuditId::bound(first))).max(Some(after));
        let draft = Draft {
            tally,
            after: after.as_deref().unwrap_or_default(),
            ..Draft::new(Kind::AuditLog, NOBODY, last.as_ref(), &until)
        };
        round.count(&append(app, &draft).await?);
        if until == fence {
            return Ok(());
        }
    }
}
