//! Due work on attempts that went out through a queue: leases that ran out, tries whose time has
//! come, messages whose time is over. `attempts.next_at` says when; it is durable, so a crash
//! forgets nothing. What a living node has under way, it says so in time.

use std::time::Duration;

use ::store::{CommitError, WriteSet};
use clock::Millis;
use futures_util::{StreamExt, stream};

use super::claims::{Claim, Round};
use super::door::take_in_overtaken;
use super::failover;
use super::store::{self as sql, Requeue};
use super::{
    Attempt, Entry, Failure, Leg, News, Next, Owner, QUEUED_LEASE_MS, State, Unsure, Unwritten,
    carry_on, over, settle, write,
};
use crate::app::App;

/// How often due work is looked for, milliseconds.
const PAUSE_MS: u64 = 500;
/// Attempts claimed at a time.
const BATCH: usize = 256;
/// Leases renewed at a time.
const LEASES: i64 = 256;
/// Attempts looked at at the same time.
const PARALLEL: usize = 32;
/// How long what was on its way when its process ended waits before it goes out again, at most,
/// milliseconds: a service that starts again takes its work up within five seconds.
const STRANDED_MS: i64 = 3_000;

/// Does due work until the process drains.
pub async fn watch(app: App, owners: &'static [Entry]) {
    let mut round = Round::default();
    while !app.is_draining() {
        match look(&app, owners, &mut round).await {
            Ok(0) => app.rest(PAUSE_MS).await,
            Ok(_) => {}
            Err(error) => {
                let env = app.env.as_str();
                tracing::warn!(%error, env, "due messages not read; trying again");
                app.rest(1_000).await;
            }
        }
    }
}

/// Tells the other nodes that what this one has under way is not lost, until it is stopped: also
/// while it drains, and while it looks at much that is due.
pub async fn keep_leases(app: App) {
    loop {
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        if let Err(error) = prolong(&app).await {
            let env = app.env.as_str();
            tracing::warn!(%error, env, "leases of messages under way not renewed; trying again");
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        }
    }
}

/// Looks at the attempts that are due now and says how many there were.
///
/// # Errors
/// When they cannot be claimed. A visit that fails is logged, and due again when its claim ends.
pub async fn run_due(app: &App, owners: &'static [Entry]) -> Result<usize, CommitError> {
    look(app, owners, &mut Round::default()).await
}

async fn look(
    app: &App,
    owners: &'static [Entry],
    round: &mut Round,
) -> Result<usize, CommitError> {
    prolong(app).await?;
    let now = app.now();
    let claim = Claim { due_at: now, until: now + QUEUED_LEASE_MS, limit: BATCH };
    let due = sql::CLAIMS.claim::<sql::Found>(app, round, claim).await?;
    let count = due.len();
    let visits = due.into_iter().map(|found| async move {
        let Some(entry) = Entry::find(owners, &found.kind) else {
            return tracing::error!(kind = found.kind, "a message of no known channel");
        };
        let attempt = found.attempt.id.as_str().to_owned();
        // Whoever was faster came to the same result; what was lost is logged by whoever lost it.
        if let Err(error) = (entry.visit)(app, found.attempt).await {
            tracing::warn!(%error, attempt, "due message not read; trying again");
        }
    });
    stream::iter(visits).buffer_unordered(PARALLEL).collect::<()>().await;
    Ok(count)
}

/// Since when work is due, in both environments; `None` = none is.
///
/// # Errors
/// When the database cannot be read.
pub async fn oldest_due(app: &App) -> Result<Option<Millis>, ::store::Error> {
    sql::CLAIMS.oldest(app).await
}

/// Renews the leases that end soon of what this node has under way.
async fn prolong(app: &App) -> Result<(), CommitError> {
    while !app.carriers.inbox().is_empty() {
        let soon = app.now() + QUEUED_LEASE_MS / 2;
        let mut ending = sql::ending_soon(app, soon, LEASES).await?;
        let is_full = i64::try_from(ending.len()).is_ok_and(|count| count >= LEASES);
        ending.retain(|(_, attempt)| app.carriers.inbox().is_waiting(attempt.as_str()));
        if ending.is_empty() {
            break;
        }
        sql::prolong(app, &ending).await?;
        if !is_full {
            break;
        }
    }
    Ok(())
}

/// What is due for an attempt. The claim keeps other nodes away meanwhile.
pub(super) async fn visit<O: Owner>(
    app: &App,
    attempt: Attempt,
) -> Result<Result<(), Unwritten>, ::store::Error> {
    // The claim has prolonged it.
    if attempt.state == State::Sending && app.carriers.inbox().is_waiting(attempt.id.as_str()) {
        return Ok(Ok(()));
    }
    let Some(message) = O::load(app, &attempt.account, &attempt.object_id).await? else {
        return Ok(alone(app, &attempt).await);
    };
    Ok(look_at(app, Leg::<O>::new(message, attempt)).await)
}

/// Retention may take a message before the last word on it could come: then none is waited for.
async fn alone(app: &App, attempt: &Attempt) -> Result<(), Unwritten> {
    if attempt.state != State::Accepted {
        tracing::error!(object = attempt.object_id, "an attempt without its message");
        return Ok(());
    }
    rest(app, attempt, None).await
}

async fn look_at<O: Owner>(app: &App, mut leg: Leg<O>) -> Result<(), Unwritten> {
    let attempt = &leg.attempt;
    let is_over = app.now() >= attempt.give_up_at;
    let is_silent = app.now() >= attempt.silent_at::<O>();
    match attempt.state {
        // The node that was sending it is gone: maybe it went out.
        State::Sending => {
            settle(app, &mut leg, News::Unknown).await?;
            if take_in_overtaken::<O>(app, &leg.attempt).await? {
                return Ok(());
            }
            hurry(app, &leg).await
        }
        State::Queued if is_over => give_up(app, leg, Failure::expired()).await,
        // Written by a program before this one.
        State::Unknown | State::Accepted if O::KEEPS_TIME => rest(app, attempt, None).await,
        State::Unknown if is_silent && take_in_overtaken::<O>(app, attempt).await? => Ok(()),
        State::Unknown | State::Accepted if is_silent => {
            give_up(app, leg, Failure::silence()).await
        }
        State::Queued => enqueue(app, &leg, attempt.resends).await,
        State::Unknown if !is_over && O::unknown(app, &leg.message, attempt) != Unsure::Stays => {
            // A receipt may have come just before the answer was given up.
            if take_in_overtaken::<O>(app, attempt).await? {
                return Ok(());
            }
            enqueue(app, &leg, attempt.resends + 1).await
        }
        // It is looked at again when nothing is waited for any more.
        state => {
            let until = state.is_undecided().then_some(attempt.silent_at::<O>());
            rest(app, attempt, until).await
        }
    }
}

/// What goes out again after an answer that was lost need not wait for that answer for long: the
/// connection ended with its process.
async fn hurry<O: Owner>(app: &App, leg: &Leg<O>) -> Result<(), Unwritten> {
    match O::unknown(app, &leg.message, &leg.attempt) {
        Unsure::Again { after_ms } if after_ms > STRANDED_MS => {
            rest(app, &leg.attempt, Some(app.now() + STRANDED_MS)).await
        }
        _ => Ok(()),
    }
}

/// Nothing is due for an attempt until then.
async fn rest(app: &App, attempt: &Attempt, until: Option<Millis>) -> Result<(), Unwritten> {
    let mut set = WriteSet::of(attempt.account.as_str());
    sql::shift(&mut set, attempt, attempt.state, None, until);
    write(app, &attempt.object_id, set).await
}

async fn give_up<O: Owner>(app: &App, mut leg: Leg<O>, why: Failure) -> Result<(), Unwritten> {
    if over(app, &mut leg, why).await? == Next::Attempt {
        carry_on(app, leg);
    }
    Ok(())
}

/// Puts an attempt into the queue of a lane: of the carrier that it had, or of another if that one
/// fails now or refused it, and certainly does not have it.
async fn enqueue<O: Owner>(app: &App, leg: &Leg<O>, resends: i64) -> Result<(), Unwritten> {
    let attempt = &leg.attempt;
    let may_change = attempt.state == State::Queued && attempt.resends == 0;
    let (lane, refused_by) = if may_change {
        failover::next(app, leg)
    } else {
        (app.carriers.lane(&attempt.carrier).cloned(), Vec::new())
    };
    let carrier = lane.as_ref().map_or(attempt.carrier.as_str(), |lane| lane.carrier().name());
    let queued_at = Some(attempt.queued_at.unwrap_or(app.now()));
    let later = Requeue::later(attempt, None, attempt.give_up_at);
    let place = Requeue { queued_at, resends, carrier, refused_by: &refused_by, ..later };
    let mut set = WriteSet::of(attempt.account.as_str());
    sql::put_back(&mut set, attempt, place);
    write(app, &attempt.object_id, set).await?;
    if let Some(lane) = lane {
        lane.wake();
    }
    Ok(())
}
