//! A challenge as an event shows it: as its endpoint does, at the time of the event.

use clock::Millis;
use futures_util::future::BoxFuture;
use store::Error;

use super::{Challenge, Status, api, store as sql};
use crate::app::{App, EventRef};
use crate::kit::id::ChallengeId;

/// A challenge as its endpoint shows it, as of an event.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = ChallengeId::parse(news.object_id) else { return Ok(None) };
        let Some(challenge) = sql::challenge(app, news.account, &id).await? else {
            return Ok(None);
        };
        let (challenge, status) = as_of(app, challenge, news.state);
        Ok(serde_json::to_string(&api::view(challenge, status)).ok())
    })
}

/// The challenge as `state` says. Without it (somebody was erased): as it stands now.
fn as_of(app: &App, challenge: Challenge, state: &str) -> (Challenge, Status) {
    let now = challenge.shown_status(app.now());
    let mut words = state.splitn(7, ' ');
    let mut word = || words.next().unwrap_or_default();
    let Ok(status) = word().parse() else { return (challenge, now) };
    let channel = word().parse().unwrap_or(challenge.channel);
    let mut number = || word().parse::<i64>().unwrap_or_default();
    let (attempts, expires_at, verified_at) = (number(), number(), number());
    let reason = word();
    let challenge = Challenge {
        channel,
        attempts,
        expires_at: Millis(expires_at),
        verified_at: (verified_at > 0).then_some(Millis(verified_at)),
        failure_reason: reason.parse().ok(),
        provider_message_id: word().to_owned(),
        ..challenge
    };
    (challenge, status)
}
