//! What a request sends and its carrier cannot take now waits in the database: a crash forgets
//! nothing there, and any node takes it out. The request waits for what becomes of it.

use std::time::Duration;

use ::store::WriteSet;
use tokio::time::{Instant, sleep};

use super::store::{self as sql, Requeue};
use super::{Attempt, Carried, Leg, Next, Owner, State, Unwritten, write};
use crate::app::App;
use crate::carriers::binds::Presence;
use crate::carriers::inbox::Asker;
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;

/// How long a request waits for what it left in the queue, or for a connection.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at it; then twice as long, and so on.
const FIRST_LOOK: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_millis(200);

/// When to look again, until a request has waited long enough.
struct Looks {
    until: Instant,
    pause: Duration,
}

impl Looks {
    fn new() -> Self {
        Self { until: Instant::now() + PATIENCE, pause: FIRST_LOOK }
    }

    /// Pauses; `false` = the time is over.
    async fn again(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        sleep(self.pause).await;
        self.pause = LONGEST.min(self.pause * 2);
        true
    }
}

/// Whether this node has no connection to the carrier of an attempt.
pub(super) fn is_away(app: &App, attempt: &Attempt) -> bool {
    let lane = app.carriers.lane(&attempt.carrier);
    lane.is_some_and(|lane| lane.presence() != Presence::Here)
}

/// Whether a passcode finds a carrier of SMS that some node is connected to, or soon is: centres
/// cut connections, and a new one takes a moment.
pub async fn is_reached(app: &App, account: &AccountId, to: &Msisdn) -> bool {
    let mut looks = Looks::new();
    while !app.carriers.is_reached(account.as_str(), to) {
        if app.is_draining() || !looks.again().await {
            return false;
        }
    }
    true
}

/// Leaves an attempt, which no carrier has, in the queue of its carrier, and waits for what becomes
/// of it, for as long as somebody can be expected to wait.
pub(super) async fn queue_up<O: Owner>(app: &App, leg: &mut Leg<O>) -> Result<Next, Unwritten> {
    let attempt = &leg.attempt;
    let mut set = WriteSet::of(attempt.account.as_str());
    let later = Requeue::later(attempt, None, attempt.give_up_at);
    sql::put_back(&mut set, attempt, Requeue { queued_at: Some(app.now()), tries: 0, ..later });
    write(app, &attempt.object_id, set).await?;
    if let Some(lane) = app.carriers.lane(&attempt.carrier) {
        lane.wake();
    }
    if leg.asker != Asker::Nobody {
        wait(app, attempt).await;
    }
    // Whoever took it has written what became of it.
    Ok(Next::Nothing(Carried::Moved))
}

async fn wait(app: &App, attempt: &Attempt) {
    let mut looks = Looks::new();
    while looks.again().await {
        let read = sql::attempt(app, &attempt.account, &attempt.id).await;
        let now = read.ok().flatten().map(|attempt| attempt.state);
        if !matches!(now, Some(State::Queued | State::Sending)) {
            return;
        }
    }
}
