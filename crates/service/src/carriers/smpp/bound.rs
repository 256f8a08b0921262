//! The binds of this node: one for each slot that it holds, opened and closed as slots come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::smpp::{BindKind, Link, LinkSettings, Phase};
use tokio::sync::watch;

use super::{Inner, Key, news};
use crate::carriers::binds::{Load, Presence, Slots};
use crate::config::BindMode;
use crate::kit::task;

/// What is wrong with a bind whose centre answers nothing.
const SILENT: &str = "the centre has not answered in time; nothing is sent until it does";

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
    /// What messages go out by. It is not to be cut because the other one fails.
    sends: Side,
    /// The other one of a pair.
    receives: Option<Side>,
}

/// One connection, and how it stands.
struct Side {
    link: Link<Key>,
    standing: Arc<Standing>,
}

/// How a link stands.
#[derive(Default)]
struct Standing {
    /// It failed, and does not stand again yet.
    is_failing: AtomicBool,
    /// The centre refuses the login, which is the same on every node.
    is_refused: AtomicBool,
    /// What ended it, in words; nothing while it stands.
    trouble: Mutex<Option<String>>,
}

impl Standing {
    fn note(&self, kind: BindKind, phase: Phase) {
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
        *self.trouble() = match phase {
            Phase::Waiting { why, .. } => Some(format!("{}: {why}", word(kind))),
            _ => None,
        };
    }

    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bind {
    fn open(inner: &Arc<Inner>) -> Self {
        let (kind, is_pair) = match inner.settings.bind {
            BindMode::Transceiver => (BindKind::Transceiver, false),
            BindMode::Pair => (BindKind::Transmitter, true),
        };
        let receives = is_pair.then(|| Side::open(inner, BindKind::Receiver));
        Self { sends: Side::open(inner, kind), receives }
    }

    fn into_links(self) -> impl Iterator<Item = Link<Key>> {
        std::iter::once(self.sends).chain(self.receives).map(|side| side.link)
    }

    /// Whether messages go out by it: not while the centre owes answers and says nothing.
    fn is_bound(&self) -> bool {
        self.sends.is_bound() && !self.is_silent()
    }

    fn is_silent(&self) -> bool {
        self.sends.link.load().is_silent
    }

    /// Whether receipts come by it.
    fn hears(&self) -> bool {
        self.receives.as_ref().unwrap_or(&self.sends).is_bound()
    }

    fn trouble(&self) -> Option<String> {
        let mut sides = std::iter::once(&self.sends).chain(&self.receives);
        let ended = sides.find_map(|side| side.standing.trouble().clone());
        ended.or_else(|| self.is_silent().then(|| SILENT.to_owned()))
    }
}

impl Side {
    /// A link that is kept up until it is closed.
    fn open(inner: &Arc<Inner>, kind: BindKind) -> Self {
        let settings = LinkSettings { kind, ..inner.link.clone() };
        let (link, told, runner) = Link::open(settings, inner.clock.clone());
        let standing = Arc::default();
        task::spawn(runner.run());
        task::spawn(news::take_all(Arc::clone(inner), told));
        let watched = Watched { kind, phase: link.phase(), standing: Arc::clone(&standing) };
        task::spawn(watched.watch(inner.name.clone()));
        Self { link, standing }
    }

    fn is_bound(&self) -> bool {
        matches!(*self.link.phase().borrow(), Phase::Bound { .. })
    }
}

/// A link that is looked at.
struct Watched {
    kind: BindKind,
    phase: watch::Receiver<Phase>,
    standing: Arc<Standing>,
}

impl Watched {
    /// Says in the log how the link is, so that an operator sees why nothing goes out or comes
    /// back, and keeps how it stands.
    async fn watch(mut self, carrier: String) {
        let bind = word(self.kind);
        loop {
            let now = *self.phase.borrow_and_update();
            self.standing.note(self.kind, now);
            match now {
                Phase::Bound { .. } => tracing::info!(carrier, bind, "bound"),
                Phase::Waiting { why: ::smpp::Ended::BindRefused(status), .. } => {
                    let status = status.to_string();
                    tracing::error!(carrier, bind, status, "the carrier refuses the bind");
                }
                Phase::Waiting { why, .. } => {
                    let why = why.to_string();
                    tracing::warn!(carrier, bind, why, "not connected; trying again");
                }
                Phase::Closed => return,
                Phase::Connecting | Phase::Closing => {}
            }
            if self.phase.changed().await.is_err() {
                return;
            }
        }
    }
}

/// What an operator calls a bind.
const fn word(kind: BindKind) -> &'static str {
    match kind {
        BindKind::Transmitter => "transmitter",
        BindKind::Receiver => "receiver",
        BindKind::Transceiver => "transceiver",
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
            let load = bind.sends.link.load();
            load.in_flight + load.waiting
        };
        bound.min_by_key(burden).map(|bind| bind.sends.link.clone())
    }

    pub(super) fn failing(&self) -> BTreeSet<i64> {
        self.slots_that(|standing| &standing.is_failing)
    }

    pub(super) fn refused(&self) -> BTreeSet<i64> {
        self.slots_that(|standing| &standing.is_refused)
    }

    fn slots_that(&self, are: fn(&Standing) -> &AtomicBool) -> BTreeSet<i64> {
        let is_so = |bind: &Bind| are(&bind.sends.standing).load(Ordering::Relaxed);
        let found = self.by_slot.iter().filter(|(_, bind)| is_so(bind));
        found.map(|(slot, _)| *slot).collect()
    }

    fn sends(&self) -> bool {
        self.by_slot.values().any(Bind::is_bound)
    }

    pub(super) fn presence(&self) -> Presence {
        match () {
            () if self.sends() => Presence::Here,
            () if self.are_elsewhere => Presence::Elsewhere,
            () => Presence::Nowhere,
        }
    }

    /// What ended the first of those that do not stand.
    pub(super) fn trouble(&self) -> Option<String> {
        self.by_slot.values().find_map(Bind::trouble)
    }

    pub(super) fn load(&self, window: usize) -> Load {
        let hears = self.by_slot.values().any(Bind::hears);
        let mut all = Load { sends_only: self.sends() && !hears, ..Load::default() };
        for bind in self.by_slot.values().filter(|bind| bind.is_bound()) {
            let load = bind.sends.link.load();
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
