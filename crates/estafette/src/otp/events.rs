//! The events of passcodes: `otp.status` whenever one changes how it reads. The row is made from
//! the challenge's own row after the change, so it says what is true, also when the decision was
//! made on something older: a receipt that comes after the right guess tells nothing.

use store::{WriteSet, args};

use super::{Challenge, Reason, Status, store as sql};
use crate::app::App;
use crate::events;
use crate::kit::id::{AccountId, ChallengeId, EventId};

/// Tells that a challenge stands so, if it does: with its current attempt.
pub(super) fn stands(app: &App, set: &mut WriteSet, c: &Challenge, status: Status) {
    tell(app, set, (&c.account, &c.id), [c.attempt.as_str(), status.as_str(), ""]);
}

/// Tells that an attempt went out under this id of the carrier's, before the set says that it came
/// through: who counts steps misses none.
pub(super) fn went_out(app: &App, set: &mut WriteSet, c: &Challenge, provider_id: &str) {
    let conditions = [c.attempt.as_str(), Status::Sent.as_str(), ""];
    tell_as(app, set, (&c.account, &c.id), conditions, Some(provider_id));
}

/// Tells that a challenge failed for this reason, if it did.
pub(super) fn failed(app: &App, set: &mut WriteSet, c: &Challenge, reason: Reason) {
    let conditions = [c.attempt.as_str(), Status::Failed.as_str(), reason.as_str()];
    tell(app, set, (&c.account, &c.id), conditions);
}

/// Tells what a guess came to, if it ended the challenge.
pub(super) fn judged(app: &App, set: &mut WriteSet, account: &AccountId, id: &ChallengeId) {
    tell(app, set, (account, id), ["", "", ""]);
}

/// The conditions are the attempt, the status and the reason; empty ones do not count.
fn tell(app: &App, set: &mut WriteSet, of: (&AccountId, &ChallengeId), conditions: [&str; 3]) {
    tell_as(app, set, of, conditions, None);
}

fn tell_as(
    app: &App,
    set: &mut WriteSet,
    (account, id): (&AccountId, &ChallengeId),
    [attempt, status, reason]: [&str; 3],
    provider_id: Option<&str>,
) {
    let (node, due) = events::address(app);
    let event = EventId::new(&app.clock);
    let whose = args![&event, provider_id, node, due, account, id, attempt, status, reason];
    set.push(sql::TELL, whose);
    set.ring(events::BELL);
}
