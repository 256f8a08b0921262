//! Slots for connections that carriers count: leases in the database, so that a carrier's limit
//! holds over all nodes. A node that cannot renew its lease in time cuts its connection before
//! another may take the slot.

mod store;

use std::collections::BTreeSet;
use std::time::Duration;

use ::store::{CommitError, Error as DbError, Reject, WriteSet, args};
use clock::Millis;
use futures_util::future::join_all;
use tokio::time::Instant;

use self::store as sql;
use crate::app::App;
use crate::carriers::Lane;
use crate::carriers::binds::{Binds, Slots};

/// How long a slot is held without being renewed, milliseconds. A node that dies is followed so
/// soon.
const LEASE_MS: i64 = 5_000;
/// How often it is renewed.
const RENEW: Duration = Duration::from_millis(1_500);
/// So long after the last renewal the connection is cut.
const GIVE_UP: Duration = Duration::from_secs(4);
/// What a lease may be longer by, as clocks differ for a moment. One that is longer still was
/// written by a clock that was wrong.
const SLACK_MS: i64 = 30_000;
/// Another node has it.
const TAKEN: Reject = Reject("bind_slot_taken");

/// Keeps the slots of all carriers that need some, until it is stopped.
pub async fn keep(app: App) {
    let lanes = app.carriers.lanes().filter(|lane| lane.carrier().binds().is_some());
    join_all(lanes.map(|lane| keep_of(&app, lane))).await;
}

async fn keep_of(app: &App, lane: &Lane) {
    let (carrier, Some(binds)) = (lane.carrier().name(), lane.carrier().binds()) else { return };
    let mut renewed = Instant::now();
    let mut slots = Slots::default();
    while !binds.is_closed() {
        let begin = Instant::now();
        let holds = !slots.held.is_empty();
        // Whatever the database does: another node may have the slots a second later.
        let give_up = renewed + GIVE_UP;
        let patience = if holds { give_up } else { begin + GIVE_UP };
        match tokio::time::timeout_at(patience, renew(app, carrier, binds, &slots)).await {
            Ok(Ok(held)) => {
                (renewed, slots) = (begin, held);
                binds.hold(&slots);
            }
            _ if holds && Instant::now() >= give_up => {
                tracing::error!(carrier, "bind slots not renewed: the connections are cut");
                slots = Slots::default();
                binds.hold(&slots);
            }
            Ok(Err(error)) => tracing::warn!(%error, carrier, "bind slots not renewed"),
            Err(_) => {}
        }
        let next = Instant::now() + RENEW;
        let holds = !slots.held.is_empty();
        tokio::time::sleep_until(if holds { next.min(renewed + GIVE_UP) } else { next }).await;
    }
}

/// Renews what this node holds, and takes free slots as long as it may have more.
async fn renew(
    app: &App,
    carrier: &str,
    binds: &dyn Binds,
    before: &Slots,
) -> Result<Slots, DbError> {
    let (limits, failing) = (binds.limits(), binds.failing());
    let count = i64::try_from(limits.everywhere).unwrap_or(i64::MAX);
    let rows: Vec<sql::Slot> = app.db.rows(sql::SLOTS, args![carrier, count]).await?;
    let now = app.now();
    // Of several processes on one file only one serves.
    let is_alone = !app.config.database.is_shared();
    let is_free = |slot: i64| {
        let row = rows.iter().find(|row| row.number == slot);
        row.is_none_or(|row| row.node == app.node || !runs(row.lease_until, now) || is_alone)
    };
    let mut held = BTreeSet::new();
    let others = (0..count).filter(|slot| !before.held.contains(slot));
    for slot in before.held.iter().copied().chain(others) {
        if held.len() >= limits.here {
            break;
        }
        let claim = Claim { slot, is_failing: failing.contains(&slot), is_alone };
        if is_free(slot) && claim.try_on(app, carrier).await? {
            held.insert(slot);
        }
    }
    let is_elsewhere =
        |row: &sql::Slot| row.node != app.node && runs(row.lease_until, now) && !row.is_failing;
    let are_elsewhere = rows.iter().any(|row| !held.contains(&row.number) && is_elsewhere(row));
    Ok(Slots { held, are_elsewhere })
}

/// Whether a lease of another node still runs.
fn runs(until: Millis, now: Millis) -> bool {
    until >= now && until <= now + LEASE_MS + SLACK_MS
}

/// A slot that this node takes, or goes on holding.
struct Claim {
    slot: i64,
    /// Whether its connection fails, so that other nodes do not count on it.
    is_failing: bool,
    /// Whether no other node may have it.
    is_alone: bool,
}

impl Claim {
    /// Answers whether it was free.
    async fn try_on(self, app: &App, carrier: &str) -> Result<bool, DbError> {
        let now = app.now();
        let free_before = if self.is_alone { Millis(i64::MAX) } else { now };
        let mut set = WriteSet::of(carrier);
        let longest = now + LEASE_MS + SLACK_MS;
        let until = now + LEASE_MS;
        // By the lease that it is so of: a node of an older version renews without a word of it.
        let failing = if self.is_failing { until } else { Millis(0) };
        let args = args![carrier, self.slot, app.node, until, failing, free_before, longest];
        set.guard(sql::CLAIM, args, TAKEN);
        match app.db.commit(set).await {
            Ok(_) => Ok(true),
            Err(CommitError::Rejected(_)) => Ok(false),
            Err(error) => Err(DbError::Unavailable(error.to_string())),
        }
    }
}

/// Closes all connections in order and gives their slots back: another node need not wait.
pub async fn close(app: &App) {
    for lane in app.carriers.lanes() {
        let Some(binds) = lane.carrier().binds() else { continue };
        binds.close().await;
        let mut set = WriteSet::of(lane.carrier().name());
        set.push(sql::RELEASE, args![lane.carrier().name(), app.node]);
        // What is not given back ends by itself.
        let _lost = app.db.commit(set).await;
    }
}
