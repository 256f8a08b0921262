//! What became of some tries of one target, as one write set: the target's health first, because
//! it refuses the whole set when another node has the target by now.

use clock::Millis;
use store::{Args, WriteSet, args};

use super::api::WebhookView;
use super::loans::{Lent, Loans};
use super::outcome::{self, TryOutcome};
use super::store as sql;
use super::tries::Tried;
use super::{ITSELF, Target};
use crate::access::{Entry, record};
use crate::app::App;
use crate::events::{self, Event, Kind, Stored};
use crate::kit::id::{DeliveryId, EventId};
use crate::notices;

/// What is to be written down of a target's deliveries.
pub(super) struct News<'a> {
    /// Tries that ended.
    pub(super) tries: &'a [Tried],
    /// What is not written down at all yet.
    pub(super) loans: &'a Loans,
    /// What of it is to be written down as pending.
    pub(super) pending: &'a [DeliveryId],
}

/// What a set of tries leads to.
pub(super) struct Settled {
    pub(super) set: WriteSet,
    /// Whether the target is disabled by it.
    pub(super) is_disabled: bool,
}

/// Works out what to write. The target's health is as it is after these tries.
pub(super) fn settle(app: &App, target: &Target, news: &News<'_>) -> Settled {
    let tries = news.tries;
    let now = app.now();
    let health = target.health;
    let is_gone = tries.iter().any(|tried| tried.ends(target));
    let disabled = match (target.active, is_gone, health.is_hopeless(now)) {
        (true, true, _) => Some("gone"),
        (true, false, true) => Some("failing"),
        _ => None,
    };
    let mut set = WriteSet::of(target.account.as_str());
    let fare = args![
        &target.url,
        health.failures,
        health.failing_since,
        health.streak,
        health.probes,
        health.parked_until,
        health.last_success_at,
        health.pace_ms,
        &target.account,
        &target.id,
        target.epoch,
    ];
    set.guard(sql::FARE, fare, sql::LOST);
    write_loans(app, &mut set, target, news);
    let is_written = |tried: &&Tried| news.loans.of(&tried.job.delivery).is_none();
    // Statements of one text come one after the other: an engine may run them at once.
    let (first, later): (Vec<&Tried>, Vec<_>) =
        tries.iter().filter(is_written).partition(|one| one.is_first());
    for tried in first {
        set.push(sql::SETTLE_FIRST, settled_at_first(app, target, tried, now));
    }
    for tried in &later {
        set.push(sql::SETTLE, settled(app, target, tried, now));
    }
    for tried in later {
        set.push(sql::TRIED, of_try(target, tried));
    }
    if let Some(reason) = disabled {
        disable(app, &mut set, target, reason, now);
    }
    Settled { set, is_disabled: disabled.is_some() }
}

/// What was lent is written down whole: what was tried with what came of it, the rest as pending.
fn write_loans(app: &App, set: &mut WriteSet, target: &Target, news: &News<'_>) {
    let of = |delivery| news.loans.of(delivery);
    let tried = news.tries.iter().filter_map(|tried| Some((tried, of(&tried.job.delivery)?)));
    let tried: Vec<(&Tried, &Lent)> = tried.collect();
    let pending = news.pending.iter().filter_map(|delivery| Some((delivery, of(delivery)?)));
    let pending: Vec<(&DeliveryId, &Lent)> = pending.collect();
    for lent in tried.iter().map(|(_, lent)| lent).chain(pending.iter().map(|(_, lent)| lent)) {
        events::done(app, set, &lent.event);
    }
    let now = app.now();
    for (tried, lent) in tried {
        set.push(sql::SETTLED, tried_at_once(app, target, &lent.event, tried, now));
    }
    let (account, id) = (&target.account, &target.id);
    for (delivery, Lent { event, due_at, .. }) in pending {
        let row = args![account, id, delivery, &event.id, &event.kind, 0_i64, *due_at];
        set.push(sql::DELIVER, row);
    }
}

/// Counts tries that were written down.
pub(super) fn count(app: &App, tries: &[Tried]) {
    for tried in tries {
        let lag_ms = tried.at - tried.job.due_at;
        app.metrics.webhook_try(class(tried), lag_ms, tried.latency_ms);
    }
}

/// The class of an outcome, for the operator's figures.
fn class(tried: &Tried) -> &'static str {
    match (tried.outcome(), &tried.failure) {
        (TryOutcome::Delivered, _) => "delivered",
        (TryOutcome::Gone, _) => "gone",
        (TryOutcome::Over, _) => "refused",
        (TryOutcome::Again, Some((word, _))) => word,
        (TryOutcome::Again, None) => "server_error",
    }
}

/// What becomes of a delivery after a try.
struct Fate {
    state: &'static str,
    due_at: Option<Millis>,
    settled_at: Option<Millis>,
}

fn fate(app: &App, target: &Target, tried: &Tried, now: Millis) -> Fate {
    let again = || {
        let schedule = &app.config.webhooks.retry_schedule_s;
        let asked_ms = tried.asked_ms.filter(|_| tried.was_at(target));
        outcome::next_try(schedule, tried.job.step, asked_ms, now, app.clock.below(1_000))
    };
    let (state, due_at) = match tried.outcome() {
        TryOutcome::Delivered => ("delivered", None),
        TryOutcome::Over | TryOutcome::Gone => ("failed", None),
        TryOutcome::Again => again().map_or(("exhausted", None), |at| ("pending", Some(at))),
    };
    Fate { state, due_at, settled_at: due_at.is_none().then_some(now) }
}

/// A delivery that was tried before it was written down.
fn tried_at_once(app: &App, target: &Target, event: &Stored, tried: &Tried, now: Millis) -> Args {
    let Fate { state, due_at, settled_at } = fate(app, target, tried, now);
    let (account, id, delivery) = (&target.account, &target.id, &tried.job.delivery);
    let (step, kind) = (tried.job.step + 1, &event.kind);
    let mut row = args![account, id, delivery, &event.id, kind, state, step, due_at, settled_at];
    row.extend(answer(tried));
    row
}

/// The delivery after its first try, which is in its row.
fn settled_at_first(app: &App, target: &Target, tried: &Tried, now: Millis) -> Args {
    let Fate { state, due_at, settled_at } = fate(app, target, tried, now);
    let mut row = args![tried.job.wish(), state, tried.job.step + 1, due_at, settled_at];
    row.extend(answer(tried));
    row.extend(args![&target.account, &target.id, &tried.job.delivery]);
    row
}

/// The delivery after a later try.
fn settled(app: &App, target: &Target, tried: &Tried, now: Millis) -> Args {
    let Fate { state, due_at, settled_at } = fate(app, target, tried, now);
    let (account, id, job) = (&target.account, &target.id, &tried.job);
    let (step, number, delivery) = (job.step + 1, job.attempts + 1, &job.delivery);
    args![job.wish(), state, step, due_at, settled_at, number, account, id, delivery]
}

/// The later try itself.
fn of_try(target: &Target, tried: &Tried) -> Args {
    let (number, delivery) = (tried.job.attempts + 1, &tried.job.delivery);
    let mut row = args![&target.account, &target.id, delivery, number];
    row.extend(answer(tried));
    row
}

/// A try as it is kept, of a first one as of a later one: when, status, error, detail, how long it
/// took, and the body of the answer.
fn answer(tried: &Tried) -> Args {
    let (error, detail) = tried.failure.clone().unzip();
    let (status, error) = (tried.status.map(i64::from), error.map(str::to_owned));
    args![tried.at, status, error, detail, tried.latency_ms, tried.body.clone()]
}

/// The end of a target that does not work, told in its own row, the audit log and an event, which
/// reaches the account's other targets and whoever reads events.
fn disable(app: &App, set: &mut WriteSet, target: &Target, reason: &'static str, now: Millis) {
    let (account, id) = (&target.account, &target.id);
    set.guard(sql::DISABLE, args![reason, now, account, id, &target.url], sql::MOVED);
    let entry = Entry {
        actor: ITSELF.who,
        action: "webhook.disable",
        object_id: id.as_str(),
        account: Some(account),
        request_id: ITSELF.request_id,
        detail: serde_json::json!({ "reason": reason }),
    };
    record(app, set, &entry);
    // What follows the path may be a key of the receiver's.
    let url = target.url.split('?').next().unwrap_or_default().to_owned();
    let ended = Target {
        url,
        active: false,
        disabled_reason: Some(reason.to_owned()),
        disabled_at: Some(now),
        ..target.clone()
    };
    let mut data = serde_json::to_value(WebhookView::from(ended)).unwrap_or_default();
    data["reason"] = reason.into();
    let event = Event {
        account,
        id: &EventId::new(&app.clock),
        kind: Kind::WebhookDisabled,
        object_id: id.as_str(),
        sequence: target.event_count + 1,
        data,
    };
    events::emit(app, set, &event);
    notices::tell_owner(app, set, account, notices::Kind::WebhookDisabled, id.as_str());
    tracing::info!(webhook = %id, reason, "a webhook was disabled");
}
