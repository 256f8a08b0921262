//! The binds of this node: one for each slot that it holds, opened and closed as slots come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::smpp::{BindKind, Link, LinkSettings, Phase};

use super::{Inner, Key, news};
use crate::carriers::binds::{Load, Presence, Slots};
use crate::config::BindMode;
use crate::kit::task;

/// The binds that are open, and whether other nodes have some.
#[derive(Default)]
pub(super) struct Bound {
    by_slot: BTreeMap<i64, Bind>,
    are_elsewhere: bool,
    is_closed: bool,
    /// All links, once they are closed.
    closing: Vec<Link<Key>>,
}

/// A connection both ways, or a pair of them.
struct Bind {
    /// What messages go out by.
    sends: Link<Key>,
    /// The other one of a pair.
    receives: Option<Link<Key>>,
    /// How the first one stands: it is not to be cut because the other one fails.
    standing: Arc<Standing>,
}

/// How a link stands.
#[derive(Default)]
struct Standing {
    /// It failed, and does not stand again yet.
    is_failing: AtomicBool,
    /// The centre refuses the login, which is the same on every node.
    is_refused: AtomicBool,
}

impl Standing {
    fn note(&self, phase: Phase) {
        let (is_failing, is_refused) = match phase {
            Phase::Bound { .. } => (false, false),
            Phase::Waiting { why: ::smpp::Ended::BindRefused(status), .. } => {
                (true, status.is_unknown_login())
            }
            Phase::Waiting { .. } => (true, false),
            // While it connects once more, it still fails.
            Phase::Connecting | Phase::Closing | Phase::Closed => return,
        };
        self.is_failing.store(is_failing, Ordering::Relaxed);
        self.is_refused.store(is_refused, Ordering::Relaxed);
    }
}

impl Bind {
    fn open(inner: &Arc<Inner>) -> Self {
        let kind = match inner.settings.bind {
            BindMode::Transceiver => BindKind::Transceiver,
            BindMode::Pair => BindKind::Transmitter,
        };
        let is_pair = inner.settings.bind == BindMode::Pair;
        let receives = is_pair.then(|| link(inner, BindKind::Receiver, Arc::default()));
        let standing = Arc::default();
        Self { sends: link(inner, kind, Arc::clone(&standing)), receives, standing }
    }

    fn into_links(self) -> impl Iterator<Item = Link<Key>> {
        std::iter::once(self.sends).chain(self.receives)
    }

    fn is_bound(&self) -> bool {
        matches!(*self.sends.phase().borrow(), Phase::Bound { .. })
    }
}

/// A link that is kept up until it is closed.
fn link(inner: &Arc<Inner>, kind: BindKind, standing: Arc<Standing>) -> Link<Key> {
    let settings = LinkSettings { kind, ..inner.link.clone() };
    let (link, told, runner) = Link::open(settings, inner.clock.clone());
    task::spawn(runner.run());
    task::spawn(news::take_all(Arc::clone(inner), told));
    task::spawn(watch(inner.name.clone(), link.phase(), standing));
    link
}

/// Says in the log how the link is, so that an operator sees why nothing goes out, and keeps
/// how it stands, for other nodes.
async fn watch(
    name: String,
    mut phase: tokio::sync::watch::Receiver<Phase>,
    standing: Arc<Standing>,
) {
    loop {
        let now = *phase.borrow_and_update();
        standing.note(now);
        match now {
            Phase::Bound { .. } => tracing::info!(carrier = name, "bound"),
            Phase::Waiting { why: ::smpp::Ended::BindRefused(status), .. } => {
                let status = status.to_string();
                tracing::error!(carrier = name, status, "the carrier refuses the bind");
            }
            Phase::Waiting { why, .. } => {
                let why = why.to_string();
                tracing::warn!(carrier = name, why, "not connected; trying again");
            }
            Phase::Closed => return,
            Phase::Connecting | Phase::Closing => {}
        }
        if phase.changed().await.is_err() {
            return;
        }
    }
}

/// Opens what is missing and cuts what is no longer held.
pub(super) fn hold(inner: &Arc<Inner>, slots: &Slots) {
    let mut bound = inner.bound();
    if bound.is_closed {
        return;
    }
    bound.are_elsewhere = slots.are_elsewhere;
    let gone: Vec<i64> =
        bound.by_slot.keys().copied().filter(|slot| !slots.held.contains(slot)).collect();
    for slot in gone {
        // At once: another node may bind in a second, and the centre may not answer for longer.
        for link in bound.by_slot.remove(&slot).into_iter().flat_map(Bind::into_links) {
            link.cut();
        }
    }
    for slot in &slots.held {
        bound.by_slot.entry(*slot).or_insert_with(|| Bind::open(inner));
    }
}

impl Bound {
    /// Of those that are bound, the one with least to do.
    pub(super) fn least_busy(&self) -> Option<Link<Key>> {
        let bound = self.by_slot.values().filter(|bind| bind.is_bound());
        let burden = |bind: &&Bind| {
            let load = bind.sends.load();
            load.in_flight + load.waiting
        };
        bound.min_by_key(burden).map(|bind| bind.sends.clone())
    }

    pub(super) fn failing(&self) -> BTreeSet<i64> {
        self.slots_that(|standing| &standing.is_failing)
    }

    pub(super) fn refused(&self) -> BTreeSet<i64> {
        self.slots_that(|standing| &standing.is_refused)
    }

    fn slots_that(&self, are: fn(&Standing) -> &AtomicBool) -> BTreeSet<i64> {
        let found = self.by_slot.iter().filter(|(_, it)| are(&it.standing).load(Ordering::Relaxed));
        found.map(|(slot, _)| *slot).collect()
    }

    pub(super) fn presence(&self) -> Presence {
        match () {
            () if self.by_slot.values().any(Bind::is_bound) => Presence::Here,
            () if self.are_elsewhere => Presence::Elsewhere,
            () => Presence::Nowhere,
        }
    }

    pub(super) fn load(&self, window: usize) -> Load {
        let mut all = Load::default();
        for bind in self.by_slot.values().filter(|bind| bind.is_bound()) {
            let load = bind.sends.load();
            all.binds += 1;
            all.window += window;
            all.in_flight += load.in_flight;
            all.waiting += load.waiting;
            all.rate_per_s += load.segments_per_second;
            all.throttled += load.throttled;
            all.round_trip_ms = all.round_trip_ms.max(load.round_trip_ms);
        }
        all
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// All links, to be closed. None is opened after that.
    pub(super) fn take_all(&mut self) -> Vec<Link<Key>> {
        self.is_closed = true;
        let all = std::mem::take(&mut self.by_slot).into_values().flat_map(Bind::into_links);
        self.closing.extend(all);
        self.closing.clone()
    }

    /// Cuts them, should they still be closing.
    pub(super) fn cut(&self) {
        self.closing.iter().for_each(Link::cut);
    }
}
