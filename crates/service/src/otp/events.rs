//! The events of passcodes: `otp.status` whenever one changes how it reads. The row is made from
//! the challenge's own row after the change, so it says what is true, also when the decision was
//! made on something older: a receipt that comes after the right guess tells nothing.

use store::{WriteSet, args};

use super::{Challenge, Reason, Status, store as sql};
use crate::app::App;
use crate::events;
use crate::kit::id::{AccountId, ChallengeId, EventId};

/// What is told of a challenge, on conditions: an empty one does not count.
struct Telling<'a> {
    account: &'a AccountId,
    id: &'a ChallengeId,
    attempt: &'a str,
    status: &'static str,
    reason: &'static str,
    /// Where it is not in the challenge's row yet.
    provider_id: Option<&'a str>,
}

impl<'a> Telling<'a> {
    /// That it stands so, with its current attempt.
    fn of(challenge: &'a Challenge, status: Status) -> Self {
        let (attempt, status) = (challenge.attempt.as_str(), status.as_str());
        Self {
            account: &challenge.account,
            id: &challenge.id,
            attempt,
            status,
            reason: "",
            provider_id: None,
        }
    }
}

/// Tells that a challenge stands so, if it does: with its current attempt.
pub(super) fn stands(app: &App, set: &mut WriteSet, challenge: &Challenge, status: Status) {
    tell(app, set, &Telling::of(challenge, status));
}

/// Tells that an attempt went out under this id of the carrier's, before the set says that it came
/// through: who counts steps misses none.
pub(super) fn went_out(app: &App, set: &mut WriteSet, challenge: &Challenge, provider_id: &str) {
    let provider_id = Some(provider_id);
    tell(app, set, &Telling { provider_id, ..Telling::of(challenge, Status::Sent) });
}

/// Tells that a challenge failed for this reason, if it did.
pub(super) fn failed(app: &App, set: &mut WriteSet, challenge: &Challenge, reason: Reason) {
    let reason = reason.as_str();
    tell(app, set, &Telling { reason, ..Telling::of(challenge, Status::Failed) });
}

/// Tells what a guess came to, if it ended the challenge.
pub(super) fn judged(app: &App, set: &mut WriteSet, account: &AccountId, id: &ChallengeId) {
    let (attempt, status, reason) = ("", "", "");
    tell(app, set, &Telling { account, id, attempt, status, reason, provider_id: None });
}

fn tell(app: &App, set: &mut WriteSet, told: &Telling<'_>) {
    let Telling { account, id, attempt, status, reason, provider_id } = *told;
    let (node, due) = events::address(app);
    let event = EventId::new(&app.clock);
    let whose = args![&event, provider_id, node, due, account, id, attempt, status, reason];
    set.push(sql::TELL, whose);
    set.ring(events::BELL);
}
