//! Slots for connections that carriers count: leases in the database, so that a carrier's limit
//! holds over all nodes. A node that cannot renew its lease in time cuts its connection before
//! another may take the slot.

mod store;

use std::collections::{BTreeMap, BTreeSet};
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
/// How long a node keeps a slot whose connection fails. Others may reach the centre.
const TRIES_FOR: Duration = Duration::from_mins(1);
/// The same where the carrier refuses the login, which other nodes have, too: one that is asked for
/// too often gets locked.
const REFUSED_FOR: Duration = Duration::from_mins(10);
/// How long it then leaves the slot to them: the lease ends after half of it.
const LEAVES_FOR: Duration = Duration::from_secs(10);
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
    let mut turns = Turns::default();
    while !binds.is_closed() {
        let begin = Instant::now();
        let ill = Ill { failing: binds.failing(), refused: binds.refused() };
        for slot in turns.over(app, &ill, begin) {
            tracing::warn!(
                carrier,
                slot,
                "the bind has been failing for a while; left to other nodes"
            );
            slots.held.remove(&slot);
            binds.hold(&slots);
        }
        let holds = !slots.held.is_empty();
        // Whatever the database does: another node may have the slots a second later.
        let give_up = renewed + GIVE_UP;
        let patience = if holds { give_up } else { begin + GIVE_UP };
        let renewal = renew(app, carrier, Before { binds, slots: &slots, turns: &turns });
        match tokio::time::timeout_at(patience, renewal).await {
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

/// The slots held here whose connection fails.
struct Ill {
    failing: BTreeSet<i64>,
    /// Those of them whose login is refused.
    refused: BTreeSet<i64>,
}

/// Whose turn it is with slots whose connection fails here.
#[derive(Default)]
struct Turns {
    failing_since: BTreeMap<i64, Instant>,
    left_until: BTreeMap<i64, Instant>,
}

impl Turns {
    /// The slots that are to be left to other nodes from now on.
    fn over(&mut self, app: &App, ill: &Ill, now: Instant) -> Vec<i64> {
        if app.config.database.is_shared() { self.look(ill, now) } else { Vec::new() }
    }

    fn look(&mut self, Ill { failing, refused }: &Ill, now: Instant) -> Vec<i64> {
        self.left_until.retain(|_, until| *until > now);
        self.failing_since.retain(|slot, _| failing.contains(slot));
        for slot in failing {
            self.failing_since.entry(*slot).or_insert(now);
        }
        let is_over = |(slot, since): &(&i64, &Instant)| {
            let patience = if refused.contains(*slot) { REFUSED_FOR } else { TRIES_FOR };
            now.duration_since(**since) >= patience
        };
        let over = self.failing_since.iter().filter(is_over);
        let over: Vec<i64> = over.map(|(slot, _)| *slot).collect();
        for slot in &over {
            self.failing_since.remove(slot);
            self.left_until.insert(*slot, now + LEAVES_FOR);
        }
        over
    }
}

/// How a carrier's binds stand before a renewal.
struct Before<'a> {
    binds: &'a dyn Binds,
    slots: &'a Slots,
    turns: &'a Turns,
}

/// Renews what this node holds, and takes free slots as long as it may have more.
async fn renew(app: &App, carrier: &str, before: Before<'_>) -> Result<Slots, DbError> {
    let Before { binds, slots: before, turns } = before;
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
        if turns.left_until.contains_key(&slot) {
            continue;
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
    join_all(app.carriers.lanes().map(|lane| close_of(app, lane))).await;
}

async fn close_of(app: &App, lane: &Lane) {
    let (carrier, Some(binds)) = (lane.carrier().name(), lane.carrier().binds()) else { return };
    let mut closing = binds.close();
    // The last renewal was so long ago at most, where none has failed.
    let mut renewed = Instant::now() - RENEW;
    // The centre may take longer to answer what is in flight than a lease is long.
    loop {
        let (begin, give_up) = (Instant::now(), renewed + GIVE_UP);
        let mut set = WriteSet::of(carrier);
        set.push(sql::PROLONG, args![app.now() + LEASE_MS, carrier, app.node]);
        let prolonged = tokio::select! {
            // They begin to close at once.
            biased;
            () = &mut closing => break,
            done = tokio::time::timeout_at(give_up, app.db.commit(set)) => {
                matches!(done, Ok(Ok(_)))
            }
        };
        if prolonged {
            renewed = begin;
        } else if Instant::now() >= give_up {
            // Another node may have the slots a second later.
            binds.cut();
            closing.await;
            break;
        }
        let next = (begin + RENEW).min(renewed + GIVE_UP);
        if tokio::time::timeout_at(next, &mut closing).await.is_ok() {
            break;
        }
    }
    let mut set = WriteSet::of(carrier);
    set.push(sql::RELEASE, args![carrier, app.node]);
    // What is not given back ends by itself.
    let _lost = app.db.commit(set).await;
}

#[cfg(test)]
mod tests {
    use super::{Duration, Ill, Instant, LEAVES_FOR, REFUSED_FOR, TRIES_FOR, Turns};

    #[test]
    fn a_bind_that_fails_for_a_minute_is_left_to_others_for_a_moment() {
        let mut turns = Turns::default();
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let ill = |failing: &[i64], refused: &[i64]| Ill {
            failing: failing.iter().copied().collect(),
            refused: refused.iter().copied().collect(),
        };
        let (none, both) = (ill(&[], &[]), ill(&[0, 1], &[]));
        assert!(turns.look(&both, begin).is_empty());
        // The first one stood again for a moment.
        assert!(turns.look(&ill(&[1], &[]), begin + 30 * second).is_empty());
        assert!(turns.look(&both, begin + TRIES_FOR - second).is_empty());
        assert_eq!(turns.look(&both, begin + TRIES_FOR), [1]);
        assert!(turns.left_until.contains_key(&1));
        assert!(turns.look(&none, begin + TRIES_FOR + LEAVES_FOR - second).is_empty());
        assert!(turns.left_until.contains_key(&1));
        assert!(turns.look(&none, begin + TRIES_FOR + LEAVES_FOR).is_empty());
        assert!(turns.left_until.is_empty());
        // A login that is refused is not asked for everywhere.
        let (refused, again) = (ill(&[0], &[0]), begin + REFUSED_FOR);
        assert!(turns.look(&refused, again).is_empty());
        assert!(turns.look(&refused, again + TRIES_FOR).is_empty());
        assert_eq!(turns.look(&refused, again + REFUSED_FOR), [0]);
    }
}
