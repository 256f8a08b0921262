//! What became of an attempt, decided the same way whether the answer of a carrier, a receipt or
//! the watchdog brings the news. Each function here only builds write sets.

use clock::Millis;
use store::WriteSet;

use super::{Attempt, Challenge, LEASE_MS, Reason, State, Status, limits, store as sql, told};
use crate::app::App;
use crate::carriers::{Channel, Outcome, Refusal};
use crate::credits;
use crate::kit::id::AttemptId;

/// Upstream's code for a recipient that is not on the chat-app.
const NOT_ON_CHATAPP: &str = "131026";

/// How soon a fallback that could not be made is tried again, milliseconds.
pub(super) const OWED_MS: i64 = 2_000;

/// Why an attempt did not work out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The attempt's last state.
    pub(super) state: State,
    /// What a challenge that ends here says.
    pub(super) reason: Reason,
    /// The carrier's code.
    pub(super) code: Option<String>,
}

impl Failure {
    /// The carrier said no.
    pub(super) fn refused(class: Refusal, code: String) -> Self {
        let reason = match class {
            Refusal::Unreachable => Reason::Unreachable,
            Refusal::Throttled { .. } | Refusal::Sender | Refusal::Down => Reason::CarrierError,
        };
        Self { state: State::Refused, reason, code: Some(code) }
    }

    /// A receipt said no.
    pub(super) fn receipt(code: Option<String>) -> Self {
        let unreachable = code.as_deref() == Some(NOT_ON_CHATAPP);
        let reason = if unreachable { Reason::Unreachable } else { Reason::Undelivered };
        Self { state: State::Failed, reason, code }
    }

    /// Nobody said anything in time.
    pub(super) fn silence() -> Self {
        Self { state: State::Lapsed, reason: Reason::Undelivered, code: None }
    }
}

/// The carrier has it: the price is due.
pub(super) fn accepted(app: &App, c: &Challenge, a: &Attempt, provider_id: &str) -> WriteSet {
    let mut set = WriteSet::of(c.account.as_str());
    sql::move_attempt(&mut set, &c.account, a, State::Accepted, (Some(provider_id), None));
    credits::post(app, &mut set, &c.account, &a.charge());
    sql::settle(&mut set, c, provider_id, Status::Sent, next_visit(app, c));
    told::stands(app, &mut set, c, Status::Sent);
    set
}

/// The recipient has it.
pub(super) fn delivered(
    app: &App,
    c: &Challenge,
    a: &Attempt,
    provider_id: Option<&str>,
) -> WriteSet {
    let mut set = WriteSet::of(c.account.as_str());
    sql::move_attempt(&mut set, &c.account, a, State::Delivered, (provider_id, None));
    if a.state.is_held() {
        credits::post(app, &mut set, &c.account, &a.charge());
    }
    if c.attempt == a.id {
        let provider_id = provider_id.unwrap_or(&c.provider_message_id);
        if a.state == State::Sending {
            told::went_out(app, &mut set, c, provider_id);
        }
        sql::settle(&mut set, c, provider_id, Status::Delivered, c.expires_at);
        told::stands(app, &mut set, c, Status::Delivered);
    }
    set
}

/// Nobody knows whether the carrier has it: the hold stays until a receipt or the end tells.
pub(super) fn unknown(app: &App, c: &Challenge, a: &Attempt) -> WriteSet {
    let mut set = WriteSet::of(c.account.as_str());
    sql::move_attempt(&mut set, &c.account, a, State::Unknown, (None, None));
    sql::postpone(&mut set, c, next_visit(app, c));
    told::stands(app, &mut set, c, Status::Sent);
    set
}

/// It did not work out: the money goes back, unless it has done so before.
pub(super) fn give_back(app: &App, c: &Challenge, a: &Attempt, why: &Failure) -> WriteSet {
    let mut set = WriteSet::of(c.account.as_str());
    if !a.state.is_undecided() {
        return set;
    }
    sql::move_attempt(&mut set, &c.account, a, why.state, (None, why.code.as_deref()));
    if a.state.is_held() {
        credits::void(app, &mut set, &c.account, &a.charge());
    } else {
        credits::refund(app, &mut set, &c.account, &a.charge());
    }
    if why.reason == Reason::Unreachable && a.channel == Channel::Chatapp {
        limits::remember_unreachable(app, &mut set, c);
    }
    set
}

/// The same, and the challenge ends with it; not if another leg has brought the code or still may.
pub(super) fn fail(
    app: &App,
    c: &Challenge,
    a: &Attempt,
    why: &Failure,
    is_last: bool,
) -> WriteSet {
    let mut set = give_back(app, c, a, why);
    if is_last {
        sql::fail(&mut set, c, why.reason);
        told::failed(app, &mut set, c, why.reason);
    }
    sql::leg_over(&mut set, c, c.expires_at);
    set
}

/// The same, and SMS is owed: it takes over as soon as it can.
pub(super) fn owe(app: &App, c: &Challenge, a: &Attempt, why: &Failure) -> WriteSet {
    let mut set = give_back(app, c, a, why);
    sql::leg_over(&mut set, c, c.expires_at.min(app.now() + OWED_MS));
    set
}

/// The same, and SMS takes over with the same code.
pub(super) fn fall_back(
    app: &App,
    c: &Challenge,
    a: &Attempt,
    why: &Failure,
    sms_credits: i64,
) -> (WriteSet, Attempt) {
    let mut set = give_back(app, c, a, why);
    let leg = new_attempt(app, c.id.clone(), Channel::Sms, sms_credits);
    credits::hold(app, &mut set, &c.account, &leg.charge());
    sql::insert_attempt(&mut set, &c.account, &leg, app.now());
    sql::next_leg(&mut set, c, (&leg, c.mode), true, app.now());
    limits::count_fallback(app, &mut set, c);
    (set, leg)
}

/// An attempt that is about to be submitted; its hold has the same uuid.
pub(super) fn new_attempt(
    app: &App,
    challenge: crate::kit::id::ChallengeId,
    channel: Channel,
    price: i64,
) -> Attempt {
    Attempt {
        id: AttemptId::of(credits::new_hold(app)),
        challenge,
        channel,
        state: State::Sending,
        credits: price,
        lease_until: app.now() + LEASE_MS,
    }
}

/// When a challenge needs a visit after a submission: the watchdog's time, or its end.
fn next_visit(app: &App, c: &Challenge) -> Millis {
    let end = c.expires_at;
    if c.falls_back() { end.min(app.now() + c.fallback_ms) } else { end }
}

/// A throttled submission may go again: how long to wait, milliseconds.
pub(super) fn try_again_in(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Refused { class: Refusal::Throttled { after_ms }, .. } => Some(*after_ms),
        _ => None,
    }
}
