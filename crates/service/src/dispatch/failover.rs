//! Which carrier takes what another one did not: only where that one certainly does not have it,
//! and none may have it from before.

use std::sync::Arc;

use super::{Attempt, Failure, Leg, Owner, State};
use crate::app::App;
use crate::carriers::binds::Presence;
use crate::carriers::{Address, Lane, Refusal, Untaken};

/// Carriers that a request tries one after the other: each may take seconds.
const MOST_WAYS: usize = 4;

/// Whether a carrier takes nothing of an account now, as far as this node knows.
pub(super) fn fails(lane: &Lane, account: &str) -> bool {
    lane.is_resting_for(account) || lane.presence() == Presence::Nowhere
}

/// The carriers that did not take an attempt, after this failure.
pub(super) fn refused_by(attempt: &Attempt, why: &Failure) -> Vec<String> {
    let mut all = attempt.refused_by.clone();
    if why.state == State::Refused && why.refusal.is_some_and(Refusal::is_of_carrier) {
        all.push(attempt.carrier.clone());
    }
    all
}

/// Another carrier that takes messages now, for what was refused so.
pub(super) fn after<O: Owner>(app: &App, leg: &Leg<O>, why: &Failure) -> Option<Arc<Lane>> {
    let attempt = &leg.attempt;
    let refused_by = refused_by(attempt, why);
    let is_refused = refused_by.len() > attempt.refused_by.len();
    // One of unknown fate before it may be where it went.
    let is_free = attempt.state.is_held() && attempt.resends == 0;
    if !is_refused || !is_free || app.now() >= attempt.give_up_at {
        return None;
    }
    another(app, attempt, &O::content(app, &leg.message, attempt)?.to, &refused_by)
}

/// The same, of an attempt that a request carries and somebody waits for.
pub(super) fn inline<O: Owner>(app: &App, leg: &Leg<O>, class: Refusal) -> Option<Arc<Lane>> {
    let attempt = &leg.attempt;
    let has_ways = attempt.refused_by.len() + 1 < MOST_WAYS;
    // Due work takes one for lost whose carrier is slow to say no.
    let is_out = matches!(attempt.state, State::Sending | State::Unknown);
    let is_inline = attempt.next_at.is_none() && is_out;
    let why = Failure::refused(class, String::new());
    if is_inline && has_ways { after(app, leg, &why) } else { None }
}

/// The carrier of the next try of what none has, and those that it has behind it. When all refused
/// it, a new round begins with the best.
pub(super) fn next<O: Owner>(app: &App, leg: &Leg<O>) -> (Option<Arc<Lane>>, Vec<String>) {
    let attempt = &leg.attempt;
    let (account, refused_by) = (attempt.account.as_str(), &attempt.refused_by);
    let now = app.carriers.lane(&attempt.carrier).cloned();
    if refused_by.is_empty() && now.as_ref().is_some_and(|lane| !fails(lane, account)) {
        return (now, Vec::new());
    }
    let Some(content) = O::content(app, &leg.message, attempt) else { return (now, Vec::new()) };
    if let Some(lane) = another(app, attempt, &content.to, refused_by) {
        return (Some(lane), refused_by.clone());
    }
    let best = app.carriers.best(attempt.channel, account, attempt.priority, &content.to);
    (best.or(now), Vec::new())
}

/// A carrier that takes messages now and is none of these.
pub(super) fn another(
    app: &App,
    attempt: &Attempt,
    to: &Address,
    but: &[String],
) -> Option<Arc<Lane>> {
    let Attempt { channel, priority, .. } = *attempt;
    let untaken = Untaken { channel, account: attempt.account.as_str(), priority, to };
    app.carriers.another(untaken, but)
}
