//! Due work on challenges: the watchdog that falls back, the end of their time, and whatever a
//! crash left half done. `challenges.next_at` says when; it is durable, so a crash forgets nothing.

mod store;

use std::sync::atomic::Ordering;

use ::store::WriteSet;
use futures_util::{StreamExt, stream};

use self::store::CLAIMS;
use super::owner::Otp;
use super::{Challenge, Error, Status, events, fraud, store as sql};
use crate::app::App;
use crate::carriers::Channel;
use crate::dispatch::recipients::is_number;
use crate::dispatch::{
    self, Attempt, Claim, Failure, LEASE_MS, Leg, News, Next, Round, State, Unwritten, carry_on,
    write,
};
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::msisdn::Msisdn;

/// How often due work is looked for, milliseconds.
const PAUSE_MS: u64 = 200;
/// Challenges claimed at a time.
const BATCH: usize = 256;
/// How long a claim keeps other nodes away. A node that dies or stands still that long loses it:
/// then another visits, and the guards of the attempt's state refuse whoever comes second.
const CLAIM_MS: i64 = 15_000;
/// How much later a node without SMS claims what is due.
const HEAD_START_MS: i64 = 2_000;
/// Challenges visited at the same time.
const PARALLEL: usize = 32;

/// Does due work until the process drains.
pub async fn run(app: App) {
    let mut round = Round::default();
    while !app.draining.load(Ordering::SeqCst) {
        match look(&app, &mut round).await {
            Ok(0) => app.rest(PAUSE_MS).await,
            Ok(_) => {}
            Err(error) => {
                let env = app.env.as_str();
                tracing::warn!(%error, env, "due passcodes not read; trying again");
                app.rest(1_000).await;
            }
        }
    }
}

/// Visits the challenges that are due now and says how many there were.
///
/// # Errors
/// When they cannot be claimed. A visit that fails is logged, and due again when its claim ends.
pub async fn run_due(app: &App) -> Result<usize, Error> {
    look(app, &mut Round::default()).await
}

async fn look(app: &App, round: &mut Round) -> Result<usize, Error> {
    let now = app.now();
    let (due_at, until) = (now - head_start_ms(app), now + CLAIM_MS);
    let claim = Claim { due_at, until, limit: BATCH };
    let due = CLAIMS.claim::<(AccountId, ChallengeId)>(app, round, claim).await?;
    let count = due.len();
    let visits = stream::iter(due.into_iter().map(|(account, id)| visit(app, account, id)));
    visits.buffer_unordered(PARALLEL).collect::<()>().await;
    Ok(count)
}

/// How long a node leaves due work to the others: one that has no SMS cannot fall back, and others
/// may have it.
fn head_start_ms(app: &App) -> i64 {
    let is_without = !app.carriers.offers(Channel::Sms, "") && app.config.database.is_shared();
    if is_without { HEAD_START_MS } else { 0 }
}

/// Since when work is due, in both environments; `None` = none is.
///
/// # Errors
/// When the database cannot be read.
pub async fn oldest_due(app: &App) -> Result<Option<clock::Millis>, ::store::Error> {
    CLAIMS.oldest(app).await
}

async fn visit(app: &App, account: AccountId, id: ChallengeId) {
    match look_at(app, &account, &id).await {
        // Whoever was faster came to the same result; what was lost is logged, and due again when
        // the claim ends.
        Ok(Some((challenge, attempt))) => drop(settle_due(app, challenge, attempt).await),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(%error, challenge = %id, "due passcode not read; trying again");
        }
    }
}

async fn look_at(
    app: &App,
    account: &AccountId,
    id: &ChallengeId,
) -> Result<Option<(Challenge, Attempt)>, ::store::Error> {
    let Some(challenge) = sql::challenge(app, account, id).await? else { return Ok(None) };
    let attempt = dispatch::attempt(app, account, &challenge.attempt).await?;
    Ok(attempt.map(|attempt| (challenge, attempt)))
}

async fn settle_due(app: &App, challenge: Challenge, attempt: Attempt) -> Result<(), Unwritten> {
    let now = app.now();
    if attempt.state == State::Sending && now < attempt.lease_until {
        return postpone(app, &challenge, attempt.lease_until).await;
    }
    // A receipt may have come just before its answer was given up.
    if attempt.state == State::Unknown && dispatch::take_in_overtaken::<Otp>(app, &attempt).await? {
        return Ok(());
    }
    match challenge.shown_status(now) {
        Status::Sent | Status::Delivered => watch(app, challenge, attempt).await,
        status => end(app, &challenge, &attempt, status).await,
    }
}

/// An open challenge: the lease, the watchdog's time or nothing in particular is over.
async fn watch(app: &App, challenge: Challenge, attempt: Attempt) -> Result<(), Unwritten> {
    let since = match attempt.state {
        // Its lease is that of whoever took it out of the queue.
        State::Queued => attempt.id.time(),
        _ => attempt.lease_until - LEASE_MS,
    };
    let watchdog_at = since + challenge.fallback.after_ms();
    match attempt.state {
        // The process that was sending it died: maybe it went out, so it is not sent again.
        State::Sending => {
            let next = if challenge.falls_back() {
                watchdog_at.min(challenge.expires_at)
            } else {
                challenge.expires_at
            };
            let mut leg = Leg::<Otp>::new(challenge, attempt);
            dispatch::settle(app, &mut leg, News::Unknown).await?;
            postpone(app, &leg.message, next).await
        }
        State::Queued | State::Unknown | State::Accepted
            if challenge.falls_back() && app.now() < watchdog_at =>
        {
            postpone(app, &challenge, watchdog_at.min(challenge.expires_at)).await
        }
        // Nobody said anything, or SMS is owed since it could not take over at once.
        State::Queued
        | State::Unknown
        | State::Accepted
        | State::Refused
        | State::Failed
        | State::Lapsed
        | State::Expired
            if challenge.falls_back() =>
        {
            let why = unheard(&attempt);
            let mut leg = Leg::<Otp>::new(challenge, attempt);
            let may_arrive = dispatch::may_arrive(&leg.attempt);
            match dispatch::over(app, &mut leg, why).await? {
                // A carrier that hangs delays no other's.
                Next::Attempt => carry_on(app, leg),
                // No SMS follows: the chat-app has the rest of the time.
                Next::Nothing(_) if may_arrive && dispatch::may_arrive(&leg.attempt) => {
                    return postpone(app, &leg.message, leg.message.expires_at).await;
                }
                Next::Nothing(_) => {}
            }
            Ok(())
        }
        _ => postpone(app, &challenge, challenge.expires_at).await,
    }
}

/// Why an attempt ends of which nobody said anything.
fn unheard(attempt: &Attempt) -> Failure {
    if attempt.state == State::Queued { Failure::expired() } else { Failure::silence() }
}

/// A challenge that is over: what its attempt still holds is posted if the code came through,
/// unless it waits in a queue: then another copy brought the code.
async fn end(
    app: &App,
    challenge: &Challenge,
    attempt: &Attempt,
    status: Status,
) -> Result<(), Unwritten> {
    let mut set = WriteSet::of(challenge.account.as_str());
    if attempt.state.is_held() {
        if status == Status::Verified && attempt.state != State::Queued {
            dispatch::arrived::<Otp>(app, &mut set, attempt);
        } else {
            dispatch::give_back::<Otp>(app, &mut set, attempt, &unheard(attempt));
        }
    }
    if status == Status::Expired && challenge.status.is_open() {
        sql::expire(&mut set, challenge);
        events::stands(app, &mut set, challenge, Status::Expired);
    } else {
        sql::close(&mut set, challenge, status, None);
    }
    write(app, challenge.id.as_str(), set).await?;
    let is_unsent = attempt.state == State::Queued && status != Status::Verified;
    // Where that cannot be read, it stays counted.
    if is_unsent && !dispatch::has_other_leg(app, attempt).await.unwrap_or(true) {
        take_back(app, challenge);
    }
    Ok(())
}

/// No carrier ever took it: that nobody verified it says nothing about the number.
fn take_back(app: &App, challenge: &Challenge) {
    if is_number(&challenge.recipient) {
        fraud::take_back(app, &challenge.account, Msisdn::stored(challenge.recipient.clone()));
    }
}

async fn postpone(app: &App, challenge: &Challenge, until: clock::Millis) -> Result<(), Unwritten> {
    let mut set = WriteSet::of(challenge.account.as_str());
    sql::postpone(&mut set, challenge, until.max(app.now() + 1));
    write(app, challenge.id.as_str(), set).await
}
