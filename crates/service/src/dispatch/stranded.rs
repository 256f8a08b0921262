//! What waits for a carrier that does not come: one that has no connection anywhere, rests, or is
//! none of the settings any more. After a while it goes by another, as long as none may have it. A
//! lane that works costs nothing of this.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;
use std::sync::Arc;

use ::store::{CommitError, WriteSet};
use clock::Millis;

use super::store::{self as sql, Found, Line};
use super::{Attempt, Entry, failover};
use crate::app::{App, Env};
use crate::carriers::binds::Presence;
use crate::carriers::routes::Table;
use crate::carriers::{Address, Channel, Lane, Priority};
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;

/// How often lanes are looked at, milliseconds, and after how many looks the whole queue is, for
/// carriers that are none of the settings any more.
const PAUSE_MS: u64 = 1_000;
const WHOLE_QUEUE: u32 = 10;
/// How long a passcode waits for its carrier, and everything else, milliseconds.
const PASSCODE_MS: i64 = 5_000;
const PATIENCE_MS: i64 = 60_000;
/// How long a queue is left alone of which nothing finds another way, milliseconds, unless there is
/// a new one: each look reads all of it.
const IN_VAIN_MS: i64 = 30_000;
/// Messages of an account looked at in a row.
const BATCH: i64 = 64;

/// Moves what waits for nobody, until the process drains.
pub(super) async fn follow(app: App, owners: &'static [Entry]) {
    // The sandbox's carriers are always there.
    if app.env == Env::Sandbox {
        return;
    }
    let (unknown, in_vain) = (BTreeSet::new(), BTreeMap::new());
    let ways = Ways { carriers: BTreeSet::new(), table: app.carriers.table() };
    let mut watch = Watch { app, owners, unknown, ways, in_vain };
    for look in 0_u32.. {
        watch.app.rest(PAUSE_MS).await;
        if watch.app.is_draining() {
            return;
        }
        if let Err(error) = watch.look(look.is_multiple_of(WHOLE_QUEUE)).await {
            tracing::warn!(%error, "queues of dead carriers not read; trying again");
        }
    }
}

struct Watch {
    app: App,
    owners: &'static [Entry],
    /// Carriers that messages wait for and that the settings do not have.
    unknown: BTreeSet<String>,
    /// The ways that there were at the last look.
    ways: Ways,
    /// Until when a carrier's queue is left alone.
    in_vain: BTreeMap<String, Millis>,
}

/// What another way may be found among.
struct Ways {
    /// Carriers that take messages.
    carriers: BTreeSet<String>,
    table: Arc<Table>,
}

impl Ways {
    /// Whether there was a way less in `before`.
    fn has_more_than(&self, before: &Self) -> bool {
        !Arc::ptr_eq(&self.table, &before.table) || !self.carriers.is_subset(&before.carriers)
    }
}

/// What came of a look at what waits.
#[derive(Clone, Copy, Default)]
struct Moved {
    found: usize,
    moved: usize,
}

impl std::ops::AddAssign for Moved {
    fn add_assign(&mut self, other: Self) {
        self.found += other.found;
        self.moved += other.moved;
    }
}

impl Watch {
    async fn look(&mut self, at_all: bool) -> Result<(), CommitError> {
        if at_all {
            self.look_for_unknown().await?;
        }
        let sms = self.app.carriers.by_channel().filter(|(channel, _)| *channel == Channel::Sms);
        let is_dead = |lane: &Lane| lane.is_resting() || lane.presence() == Presence::Nowhere;
        let (mut dead, mut carriers) = (BTreeSet::new(), BTreeSet::new());
        for (_, lane) in sms {
            let kind = if is_dead(lane) { &mut dead } else { &mut carriers };
            kind.insert(lane.carrier().name().to_owned());
        }
        let ways = Ways { carriers, table: self.app.carriers.table() };
        let has_more = ways.has_more_than(&self.ways);
        self.ways = ways;
        if self.ways.carriers.is_empty() {
            return Ok(());
        }
        let now = self.app.now();
        self.in_vain.retain(|_, until| *until > now && !has_more);
        for carrier in dead.into_iter().chain(self.unknown.clone()) {
            if self.in_vain.contains_key(&carrier) {
                continue;
            }
            let Moved { found, moved } = self.leave(&carrier).await?;
            if found > 0 && moved == 0 {
                self.in_vain.insert(carrier, now + IN_VAIN_MS);
            }
        }
        Ok(())
    }

    async fn look_for_unknown(&mut self) -> Result<(), CommitError> {
        let mut found = BTreeSet::new();
        let mut last = String::new();
        while let Some(carrier) = sql::next_carrier(&self.app, &last).await? {
            last.clone_from(&carrier);
            let is_simulated = carrier.starts_with("simulated-");
            if !is_simulated && self.app.carriers.lane(&carrier).is_none() {
                found.insert(carrier);
            }
        }
        for carrier in found.difference(&self.unknown) {
            tracing::warn!(carrier, "messages wait for a carrier that the settings do not have");
        }
        self.unknown = found;
        Ok(())
    }

    /// Moves what has waited long enough for a carrier, account after account.
    async fn leave(&self, carrier: &str) -> Result<Moved, CommitError> {
        let mut all = Moved::default();
        for priority in Priority::ALL {
            let mut last = String::new();
            while let Some(account) = sql::next_in_line(&self.app, carrier, priority, &last).await?
            {
                account.as_str().clone_into(&mut last);
                all += self.leave_of(Line { carrier, priority, account: &account }).await?;
                if self.app.is_draining() {
                    return Ok(all);
                }
            }
        }
        Ok(all)
    }

    async fn leave_of(&self, line: Line<'_>) -> Result<Moved, CommitError> {
        let patience = if line.priority == Priority::Passcode { PASSCODE_MS } else { PATIENCE_MS };
        let until = self.app.now() - patience;
        let (mut after, mut all) = (Millis(0), Moved::default());
        loop {
            let mut found = sql::waiting(&self.app, line, after, until, BATCH).await?;
            let (first, last) = (queued_at(found.first()), queued_at(found.last()));
            let Some(newest) = last else { return Ok(all) };
            // Others of the last millisecond may be on the next page.
            if i64::try_from(found.len()).is_ok_and(|count| count == BATCH) && first != last {
                found.retain(|one| queued_at(Some(one)) != last);
            }
            // What found no other way is not looked at again before the next look.
            after = queued_at(found.last()).unwrap_or(newest);
            all += self.move_all(line.account, found).await?;
        }
    }

    async fn move_all(
        &self,
        account: &AccountId,
        waiting: Vec<Found>,
    ) -> Result<Moved, CommitError> {
        let found = waiting.len();
        let mut set = WriteSet::of(account.as_str());
        let mut taken: BTreeMap<String, (Arc<Lane>, usize)> = BTreeMap::new();
        for Found { attempt, kind } in waiting {
            let Some(lane) = self.other_way(&attempt, &kind).await? else { continue };
            let name = lane.carrier().name().to_owned();
            sql::move_to(&mut set, &attempt, &name);
            taken.entry(name).or_insert((lane, 0)).1 += 1;
        }
        let moved = taken.values().map(|(_, count)| *count).sum();
        if !set.is_empty() {
            self.app.db.commit(set).await?;
        }
        for (carrier, (lane, count)) in taken {
            tracing::warn!(carrier, count, "messages go by this carrier: theirs does not come");
            lane.wake();
        }
        Ok(Moved { found, moved })
    }

    async fn other_way(
        &self,
        attempt: &Attempt,
        kind: &str,
    ) -> Result<Option<Arc<Lane>>, CommitError> {
        let account = attempt.account.as_str();
        let lane = self.app.carriers.lane(&attempt.carrier);
        // It may rest for others alone; and a copy of what it may have stays with it.
        if lane.is_some_and(|lane| !failover::fails(lane, account)) || attempt.resends > 0 {
            return Ok(None);
        }
        let Some(entry) = Entry::find(self.owners, kind) else { return Ok(None) };
        let message = (entry.open)(&self.app, attempt).await?;
        let number = message.as_ref().and_then(|message| message.number());
        let Some(number) = number.map(str::to_owned) else { return Ok(None) };
        let to = Address::Phone(Msisdn::stored(number));
        Ok(failover::another(&self.app, attempt, &to, from_ref(&attempt.carrier)))
    }
}

fn queued_at(found: Option<&Found>) -> Option<Millis> {
    found.and_then(|found| found.attempt.queued_at)
}
