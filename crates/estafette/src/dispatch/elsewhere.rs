//! What other nodes do for this one: they reach carriers that it does not, and then what a request
//! sends waits in the queue until one of them takes it; and receipts of what it sent come to them.

use std::time::Duration;

use ::store::WriteSet;
use tokio::time::{Instant, sleep};

use super::store::{self as sql, Requeue};
use super::{Attempt, Carried, Leg, Next, Owner, State, Unwritten, write};
use crate::app::{App, Env};
use crate::carriers::binds::Presence;

/// How long a request waits for another node to carry what it sends, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Whether only other nodes reach the carrier of an attempt.
pub(super) fn is_elsewhere(app: &App, attempt: &Attempt) -> bool {
    let lane = app.carriers.lane(&attempt.carrier);
    lane.is_some_and(|lane| lane.presence() == Presence::Elsewhere)
}

/// Leaves an attempt that a request carries to a node that reaches its carrier, and waits for what
/// becomes of it, for as long as somebody can be expected to wait.
pub(super) async fn hand_over<O: Owner>(app: &App, leg: &mut Leg<O>) -> Result<Next, Unwritten> {
    let attempt = &leg.attempt;
    let mut set = WriteSet::of(attempt.account.as_str());
    let later = Requeue::later(attempt, None, attempt.give_up_at);
    sql::put_back(&mut set, attempt, Requeue { queued_at: Some(app.now()), tries: 0, ..later });
    write(app, &attempt.object_id, set).await?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        sleep(LOOK_AGAIN).await;
        let read = sql::attempt(app, &attempt.account, &attempt.id).await;
        let now = read.ok().flatten().map(|attempt| attempt.state);
        if !matches!(now, Some(State::Queued | State::Sending)) {
            break;
        }
    }
    // Whoever took it has written what became of it.
    Ok(Next::Nothing(Carried::Moved))
}

/// Whether receipts of what this node sends may come to another. Simulated carriers bring theirs
/// home.
pub(super) fn gets_receipts(app: &App) -> bool {
    app.config.database.is_shared() && app.env == Env::Live
}

/// Whether another node moved an attempt since it was read. What cannot be read has not.
pub(super) async fn has_moved(app: &App, attempt: &Attempt) -> bool {
    let read = sql::attempt(app, &attempt.account, &attempt.id).await;
    read.is_ok_and(|now| now.is_some_and(|now| now.state != attempt.state))
}
