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
use crate::carriers::binds::{BindLimits, Slots};

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
        match tokio::time::timeout_at(patience, renew(app, carrier, binds.limits(), &slots)).await {
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
    limits: BindLimits,
    before: &Slots,
) -> Result<Slots, DbError> {
    let count = i64::try_from(limits.everywhere).unwrap_or(i64::MAX);
    let rows: Vec<(i64, i64, Millis)> = app.db.rows(sql::SLOTS, args![carrier, count]).await?;
    let now = app.now();
    // Of several processes on one file only one serves.
    let is_alone = !app.config.database.is_shared();
    let is_free = |slot: i64| {
        let row = rows.iter().find(|(number, ..)| *number == slot);
        row.is_none_or(|(_, node, until)| *node == app.node || !runs(*until, now) || is_alone)
    };
    let mut held = BTreeSet::new();
    let others = (0..count).filter(|slot| !before.held.contains(slot));
    for slot in before.held.iter().copied().chain(others) {
        if held.len() >= limits.here {
            break;
        }
        if is_free(slot) && claim(app, carrier, slot, is_alone).await? {
            held.insert(slot);
        }
    }
    let are_elsewhere = rows
        .iter()
        .any(|(slot, node, until)| !held.contains(slot) && *node != app.node && runs(*until, now));
    Ok(Slots { held, are_elsewhere })
}

/// Whether a lease of another node still runs.
fn runs(until: Millis, now: Millis) -> bool {
    until >= now && until <= now + LEASE_MS + SLACK_MS
}

async fn claim(app: &App, carrier: &str, slot: i64, is_alone: bool) -> Result<bool, DbError> {
    let now = app.now();
    let free_before = if is_alone { Millis(i64::MAX) } else { now };
    let mut set = WriteSet::of(carrier);
    let longest = now + LEASE_MS + SLACK_MS;
    let args = args![carrier, slot, app.node, now + LEASE_MS, free_before, longest];
    set.guard(sql::CLAIM, args, TAKEN);
    match app.db.commit(set).await {
        Ok(_) => Ok(true),
        Err(CommitError::Rejected(_)) => Ok(false),
        Err(error) => Err(DbError::Unavailable(error.to_string())),
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
