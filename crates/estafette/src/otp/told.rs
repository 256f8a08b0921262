//! The events of passcodes: `otp.status` whenever one changes how it reads. The row is made from
//! the challenge's own row after the change, so it says what is true, also when the decision was
//! made on something older: a receipt that comes after the right guess tells nothing.

use clock::Millis;
use futures_util::future::BoxFuture;
use store::{Error, WriteSet, args};

use super::{Challenge, Reason, Status, api, store as sql};
use crate::app::{App, News};
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

/// A challenge as its endpoint shows it, as of an event.
#[must_use]
pub fn show<'a>(app: &'a App, news: News<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = ChallengeId::parse(news.object_id) else { return Ok(None) };
        let Some(c) = sql::challenge(app, news.account, &id).await? else { return Ok(None) };
        let (c, status) = as_of(app, c, news.state);
        Ok(serde_json::to_string(&api::view(c, status)).ok())
    })
}

/// The challenge as `state` says. Without it (somebody was erased): as it stands now.
fn as_of(app: &App, c: Challenge, state: &str) -> (Challenge, Status) {
    let now = c.shown_status(app.now());
    let mut words = state.splitn(7, ' ');
    let mut word = || words.next().unwrap_or_default();
    let Ok(status) = word().parse() else { return (c, now) };
    let channel = word().parse().unwrap_or(c.channel);
    let mut number = || word().parse::<i64>().unwrap_or_default();
    let (attempts, expires_at, verified_at) = (number(), number(), number());
    let reason = word();
    let c = Challenge {
        channel,
        attempts,
        expires_at: Millis(expires_at),
        verified_at: (verified_at > 0).then_some(Millis(verified_at)),
        failure_reason: reason.parse().ok(),
        provider_message_id: word().to_owned(),
        ..c
    };
    (c, status)
}
