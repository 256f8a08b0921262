//! What carriers took from this node a moment ago: the receipt that follows finds its message here
//! instead of reading it. What the memory holds may be out of date; all that is written from it is
//! guarded by what it says, as after any read.

use clock::Millis;

use super::entry::Kept;
use super::store::Found;
use super::{Leg, Owner, elsewhere};
use crate::app::App;

/// For how long a receipt finds its message here, milliseconds.
const LIFE_MS: i64 = 30_000;
/// So much later whatever came to another node before the carrier's id was known is settled.
const EARLY_MS: i64 = 1_000;

/// What is known of a carrier's id.
enum Known {
    /// What it leads to.
    Accepted { since: Millis, leads_to: Box<Remembered> },
    /// A receipt came before the id was known, the latest at this time, and waits in the database:
    /// the next one must not overtake it.
    Early { at: Millis },
}

/// What a carrier took.
pub(super) struct Remembered {
    /// The attempt as it stood then.
    pub(super) found: Found,
    /// Its message.
    pub(super) message: Kept,
}

fn key(carrier: &str, id: &str) -> String {
    format!("{carrier} {id}")
}

/// That a receipt was early stays known; what was accepted is taken.
fn recall(app: &App, key: &str) -> Option<Known> {
    let known = *app.memo.recent.take(key)?.downcast::<Known>().ok()?;
    if let Known::Early { at } = known {
        app.memo.recent.put(key.to_owned(), Box::new(Known::Early { at }));
    }
    Some(known)
}

/// A carrier took the whole message of a leg, and calls it so; that is durable.
pub(super) fn remember<O: Owner>(app: &App, leg: &Leg<O>, provider_id: &str) {
    let carrier = app.carriers.lane(&leg.attempt.carrier).map(|lane| lane.carrier());
    let Some(carrier) = carrier.filter(|carrier| O::IS_REMEMBERED && !carrier.echoes()) else {
        return;
    };
    let key = key(carrier.name(), &carrier.key_of(provider_id));
    if matches!(recall(app, &key), Some(Known::Early { .. })) {
        return;
    }
    let found = Found { attempt: leg.attempt.clone(), kind: O::KIND.to_owned() };
    let leads_to = Box::new(Remembered { found, message: Box::new(leg.message.clone()) });
    let known = Known::Accepted { since: app.now(), leads_to };
    app.memo.recent.put(key, Box::new(known));
}

/// When a receipt with this id comes that leads nowhere: later than the one before it, however
/// short after it, for the first final word counts.
pub(super) fn early_at(app: &App, carrier: &str, id: &str) -> Millis {
    match recall(app, &key(carrier, id)) {
        Some(Known::Early { at }) => app.now().max(at + 1),
        Some(Known::Accepted { .. }) | None => app.now(),
    }
}

/// A receipt with this id waits in the database since then.
pub(super) fn came_early(app: &App, carrier: &str, id: &str, at: Millis) {
    app.memo.recent.put(key(carrier, id), Box::new(Known::Early { at }));
}

/// Where a carrier's id leads, if that is known here. For one receipt: the next one reads.
pub(super) fn lead(app: &App, carrier: &str, id: &str) -> Option<Remembered> {
    let Known::Accepted { since, leads_to } = recall(app, &key(carrier, id))? else {
        return None;
    };
    let age_ms = app.now() - since;
    let is_first = !elsewhere::gets_receipts(app) || age_ms >= EARLY_MS;
    (is_first && age_ms < LIFE_MS).then_some(*leads_to)
}
