//! Hands a message to its carrier: with a permit of its lane, again while that throttles, and once
//! more where nobody knows what became of the first try.

use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use super::{Attempt, Leg, Owner, failover};
use crate::app::App;
use crate::carriers::binds::Presence;
use crate::carriers::{Answered, Channel, Outbound, Outcome, Permit, Refusal, Subject};
use crate::metrics::Submitted;

/// Submissions of one attempt while the carrier throttles.
const TRIES: usize = 4;
/// After how long there is no other, even so: a lane may have held the first one up for as long as
/// a passcode is held, and the lease must not run out meanwhile.
const THROTTLED_FOR: Duration = Duration::from_secs(4);
/// The longest that a throttling carrier is waited for at a time, milliseconds.
const THROTTLED_MS: u64 = 2_000;
/// How long a request waits for a permit in its carrier's lane before its message waits in the
/// database: what waits in memory is lost when the process is.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a second try keeps the next one waiting.
const TURN: Duration = Duration::from_secs(1);
/// How long it waits for a connection that the one before it may have cost, and between two looks.
const LINK: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// What a carrier said. The permit is kept until that is durable: what a crash sends twice is
/// what holds permits, so their number bounds it.
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) permit: Option<Permit>,
}

impl Answer {
    fn without_permit(answered: Answered) -> Self {
        Self { outcome: answered.outcome, permit: None }
    }
}

/// Hands the message to the carrier, again while it throttles; `None` = its lane has no room.
pub(super) async fn submit<O: Owner>(app: &App, leg: &mut Leg<O>) -> Option<Answer> {
    let Attempt { account, carrier, channel, priority, .. } = &leg.attempt;
    let Some(message) = O::content(app, &leg.message, &leg.attempt) else {
        return Some(Answer::without_permit(content_gone()));
    };
    let Some(lane) = app.carriers.lane(carrier) else {
        return Some(Answer::without_permit(no_carrier()));
    };
    let (mut tries, since) = (1, Instant::now());
    loop {
        let permit = lane.take(account.as_str(), *priority, PATIENCE).await?;
        let Answered { outcome, transcript } = hand_over(app, *channel, &message, &permit).await;
        let after_ms = match &outcome {
            // Whoever waits for it is better served by another.
            Outcome::Refused { class, .. }
                if tries < TRIES
                    && since.elapsed() < THROTTLED_FOR
                    && failover::inline(app, leg, *class).is_none() =>
            {
                class.after_ms()
            }
            _ => None,
        };
        let Some(after_ms) = after_ms else {
            leg.transcript = transcript;
            return Some(Answer { outcome, permit: Some(permit) });
        };
        drop(permit);
        tokio::time::sleep(Duration::from_millis(after_ms.min(THROTTLED_MS))).await;
        tries += 1;
    }
}

fn no_carrier() -> Answered {
    Outcome::Refused { class: Refusal::Down, code: "no_carrier".to_owned() }.into()
}

pub(super) fn content_gone() -> Answered {
    Outcome::Refused { class: Refusal::Permanent, code: "content_gone".to_owned() }.into()
}

/// The second try of a message of unknown fate, by itself; but a carrier that is slow to answer
/// holds up the next one for a second only.
pub(super) async fn once_more(
    app: &App,
    channel: Channel,
    message: &Outbound,
    permit: &Permit,
) -> Answered {
    let turn = permit.lane().second_try().await;
    let is_here = async {
        while permit.lane().presence() != Presence::Here && !app.is_draining() {
            tokio::time::sleep(LOOK).await;
        }
    };
    // What comes of it is the carrier's answer.
    let _in_time = tokio::time::timeout(LINK, is_here).await;
    let mut answered = std::pin::pin!(hand_over(app, channel, message, permit));
    if let Ok(answered) = tokio::time::timeout(TURN, &mut answered).await {
        return answered;
    }
    drop(turn);
    answered.await
}

/// Spends a permit on a submission.
pub(super) async fn hand_over(
    app: &App,
    channel: Channel,
    message: &Outbound,
    permit: &Permit,
) -> Answered {
    let carrier = permit.carrier();
    permit.weigh(message.content.parts());
    let since = Instant::now();
    let (name, channel) = (carrier.name(), channel.as_str());
    let span =
        tracing::trace_span!(target: "otel", "carrier.submit", otel.kind = "client", channel, name);
    let answered = carrier.submit_on_record(message).instrument(span).await;
    let (took, outcome) = (since.elapsed(), &answered.outcome);
    let subject = Subject { account: &message.account_id, to: message.to.as_str() };
    permit.lane().note(outcome, subject, took);
    let seconds = took.as_secs_f64();
    let submitted = Submitted { channel, carrier: name, outcome: outcome.as_str(), seconds };
    app.metrics.submission(submitted);
    answered
}
