//! What became of an attempt, written down the same way whether the answer of a carrier, a receipt
//! or due work brings the news: the state, the money and the owner's row in one set.

use clock::Millis;
use futures_util::future::BoxFuture;
use store::{CommitError, WriteSet};

use super::failover;
use super::networks;
use super::store::{self as sql, Requeue};
use super::submissions::{self, Submission};
use super::{
    Attempt, Carried, Ending, Failure, Leg, NewLeg, News, Next, Owner, STALE, State, Then, Unsure,
    Unwritten, bell, recent,
};
use crate::app::App;
use crate::carriers::{Address, Channel, Lane};
use crate::credits;
use crate::kit::msisdn::Msisdn;
use crate::kit::words::words;

/// The longest that a single throttled message waits, milliseconds.
const THROTTLED_MS: i64 = 30_000;

/// Adds an attempt and the hold on its price to commit A.
pub fn open<O: Owner>(app: &App, set: &mut WriteSet, attempt: &Attempt) {
    if let Some(charge) = attempt.charge::<O>() {
        credits::hold(app, set, &attempt.account, &charge);
    }
    sql::insert::<O>(app, set, attempt);
}

/// Adds what is paid for at once, with no carrier in between, as an attempt that arrived. Its id
/// says that it is bought once.
pub fn buy<O: Owner>(app: &App, set: &mut WriteSet, attempt: &Attempt) {
    open::<O>(app, set, attempt);
    if let Some(charge) = attempt.charge::<O>() {
        credits::post(app, set, &attempt.account, &charge);
    }
}

/// The attempt did not work out: the money goes back, unless it has done so before or its owner
/// keeps the price of what the carrier had. Answers how the attempt stands then.
pub fn give_back<O: Owner>(
    app: &App,
    set: &mut WriteSet,
    attempt: &Attempt,
    why: &Failure,
) -> State {
    // It was given up, and its price given back, before anybody said no.
    if attempt.state == State::Lapsed && why.state == State::Failed {
        sql::shift(set, attempt, State::Failed, why.code.as_deref(), None);
        return State::Failed;
    }
    if !attempt.state.is_undecided() {
        return attempt.state;
    }
    // A receipt that says no says that the carrier had it.
    let went_out = attempt.state == State::Accepted || why.state == State::Failed;
    let keeps_price = went_out && O::keeps_price(attempt, why);
    let state = match why.state {
        State::Failed if keeps_price => State::Undelivered,
        _ if keeps_price => State::Accepted,
        state => state,
    };
    sql::shift(set, attempt, state, why.code.as_deref(), None);
    let Some(charge) = attempt.charge::<O>() else { return state };
    match (attempt.state.is_held(), keeps_price) {
        (true, true) => credits::post(app, set, &attempt.account, &charge),
        (true, false) => credits::void(app, set, &attempt.account, &charge),
        (false, true) => {}
        (false, false) => credits::refund(app, set, &attempt.account, &charge),
    }
    state
}

/// The attempt arrived, or is as good as arrived: its price is due, unless it was given back
/// before. Answers how the attempt stands then.
pub fn arrived<O: Owner>(app: &App, set: &mut WriteSet, attempt: &Attempt) -> State {
    let state = if attempt.state == State::Lapsed { State::Late } else { State::Delivered };
    sql::shift(set, attempt, state, None, None);
    post::<O>(app, set, attempt);
    state
}

/// What was held for the attempt is spent.
fn post<O: Owner>(app: &App, set: &mut WriteSet, attempt: &Attempt) {
    if let Some(charge) = attempt.charge::<O>().filter(|_| attempt.state.is_held()) {
        credits::post(app, set, &attempt.account, &charge);
    }
}

/// Makes news durable that is not bad.
///
/// # Errors
/// See [`Unwritten`].
pub async fn settle<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    news: News<'_>,
) -> Result<(), Unwritten> {
    let attempt = &leg.attempt;
    let mut set = WriteSet::of(attempt.account.as_str());
    let (state, next_at) = match news {
        // A receipt that it was read may be the first one.
        News::Read { .. } if attempt.state == State::Delivered => (State::Delivered, None),
        News::Delivered { provider_id } | News::Read { provider_id } => {
            // It arrived before anybody said that it was accepted.
            if let Some(provider_id) = provider_id.filter(|_| attempt.state.is_held()) {
                found(app, &mut set, attempt, provider_id);
            }
            (arrived::<O>(app, &mut set, attempt), None)
        }
        News::Unknown => {
            let until = match O::unknown(app, &leg.message, attempt) {
                Unsure::Stays => attempt.silent_at::<O>(),
                Unsure::Again { after_ms } => app.now() + after_ms,
            };
            let next_at = attempt.look_at::<O>(until);
            sql::shift(&mut set, attempt, State::Unknown, None, next_at);
            (State::Unknown, next_at)
        }
        News::Accepted { provider_id } => {
            name(app, &mut set, attempt, provider_id, &leg.parts);
            let next_at = attempt.look_at::<O>(attempt.silent_at::<O>());
            sql::shift(&mut set, attempt, State::Accepted, None, next_at);
            post::<O>(app, &mut set, attempt);
            (State::Accepted, next_at)
        }
        News::Over(_) | News::Owed(_) | News::Retry { .. } => return Ok(()),
    };
    sql::keep_transcript(&mut set, attempt, leg.transcript.as_deref());
    let mut message = leg.message.clone();
    O::decide(app, &mut set, &mut message, attempt, news);
    if !set.is_empty() {
        write(app, &attempt.object_id, set).await?;
    }
    O::count(app, &message, attempt, news);
    leg.message = message;
    leg.attempt.state = state;
    leg.attempt.queued_at = None;
    leg.attempt.next_at = next_at;
    if let News::Accepted { provider_id } = news
        && leg.parts.len() < 2
    {
        recent::remember(app, leg, provider_id);
    }
    Ok(())
}

/// Keeps what the carrier calls the attempt, where its receipts name nothing else.
fn name(app: &App, set: &mut WriteSet, attempt: &Attempt, provider_id: &str, parts: &[String]) {
    let carrier = app.carriers.lane(&attempt.carrier).map(|lane| lane.carrier());
    let Some(carrier) = carrier.filter(|carrier| !carrier.echoes()) else { return };
    let whole = [provider_id.to_owned()];
    let ids = if parts.is_empty() { &whole } else { parts };
    let total = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    // One that the carrier did not say cannot lead anywhere.
    for (part, id) in (1..).zip(ids).filter(|(_, id)| !id.is_empty()) {
        let place = Submission { part, parts: total, of: attempt };
        submissions::submitted(set, carrier.name(), &carrier.key_of(id), place);
    }
    set.ring(bell::bell(app));
}

/// The same of one that arrived before the carrier's answer did: what is known already stays.
fn found(app: &App, set: &mut WriteSet, attempt: &Attempt, provider_id: &str) {
    let carrier = app.carriers.lane(&attempt.carrier).map(|lane| lane.carrier());
    if let Some(carrier) = carrier.filter(|carrier| !carrier.echoes()) {
        submissions::found(set, carrier.name(), &carrier.key_of(provider_id), attempt);
    }
}

/// An attempt did not work out, now or before. Another carrier takes it where none can have it;
/// else what it cost is given back, and the next leg follows where there is one. A price that
/// cannot be told now is due work's to ask for again. It is rare and large, so it is in a box: each
/// task that may come to it would have room for it otherwise.
///
/// # Errors
/// See [`Unwritten`].
pub fn over<'a, O: Owner>(
    app: &'a App,
    leg: &'a mut Leg<O>,
    why: Failure,
) -> BoxFuture<'a, Result<Next, Unwritten>> {
    Box::pin(go_on(app, leg, why))
}

async fn go_on<O: Owner>(app: &App, leg: &mut Leg<O>, why: Failure) -> Result<Next, Unwritten> {
    let why = if O::may_name(&leg.message) { why } else { why.in_silence() };
    leg.failures.push((leg.attempt.channel, why.clone()));
    let is_queued = leg.attempt.next_at.is_some();
    if let Some(lane) = failover::after(app, leg, &why).filter(|_| is_queued) {
        return by_another(app, leg, &why, &lane).await;
    }
    look_up_for_fallback::<O>(app, leg).await;
    match O::after(app, &leg.message, &leg.attempt, &why) {
        Then::Leg { channel, category, to } => {
            next_leg(app, leg, why, Way { channel, category, to }).await
        }
        Then::Owed => owed(app, leg, &why).await,
        Then::Retry { at } if may_retry(&leg.attempt, at) => retry(app, leg, &why, at).await,
        Then::Retry { .. } | Then::End if O::may_have_arrived(&leg.attempt, &why) => {
            settle(app, leg, News::Unknown).await.map(|()| Next::Nothing(Carried::Stands))
        }
        // Silence is no failure: what may still arrive stands, where no other way leads.
        Then::End if O::KEEPS_TIME && is_only_silent(&leg.attempt, &why) => {
            Ok(Next::Nothing(Carried::Stands))
        }
        Then::Retry { .. } | Then::End => end(app, leg, why, false).await,
    }
}

/// Whether a carrier has it, or may have it, and nobody said what became of it.
#[must_use]
pub const fn may_arrive(attempt: &Attempt) -> bool {
    matches!(attempt.state, State::Unknown | State::Accepted)
}

fn is_only_silent(attempt: &Attempt, why: &Failure) -> bool {
    why.state == State::Lapsed && may_arrive(attempt)
}

/// Another node, or this one before it was restarted, was told the network that an SMS goes by.
async fn look_up_for_fallback<O: Owner>(app: &App, leg: &Leg<O>) {
    if O::may_fall_back(app, &leg.message, &leg.attempt)
        && let Some(number) = O::number(&leg.message)
    {
        networks::look_up(app, &Msisdn::stored(number.to_owned())).await;
    }
}

/// Whether the same submission may go out again: the carrier does not have it for certain, and
/// there is time.
fn may_retry(attempt: &Attempt, at: Millis) -> bool {
    attempt.state.is_held() && attempt.next_at.is_some() && at < attempt.give_up_at
}

async fn retry<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    why: &Failure,
    at: Millis,
) -> Result<Next, Unwritten> {
    let before = leg.attempt.clone();
    let refused_by = failover::refused_by(&before, why);
    let later = Requeue::later(&before, why.code.as_deref(), at);
    let place = Requeue { refused_by: &refused_by, ..later };
    put_back(app, leg, place, News::Retry { why, at }).await?;
    leg.attempt.next_at = Some(at);
    leg.attempt.refused_by = refused_by;
    Ok(Next::Nothing(Carried::Stands))
}

/// Another carrier's queue gets it at once; that this one had its turn was no try.
async fn by_another<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    why: &Failure,
    lane: &Lane,
) -> Result<Next, Unwritten> {
    let (now, carrier) = (app.now(), lane.carrier().name());
    let before = leg.attempt.clone();
    let refused_by = failover::refused_by(&before, why);
    let later = Requeue::later(&before, why.code.as_deref(), before.give_up_at);
    let (queued_at, tries) = (Some(now), before.tries - 1);
    let place = Requeue { queued_at, tries, carrier, refused_by: &refused_by, ..later };
    put_back(app, leg, place, News::Retry { why, at: now }).await?;
    lane.wake();
    Ok(Next::Nothing(Carried::Stands))
}

async fn put_back<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    place: Requeue<'_>,
    news: News<'_>,
) -> Result<(), Unwritten> {
    let attempt = &leg.attempt;
    let mut set = WriteSet::of(attempt.account.as_str());
    sql::put_back(&mut set, attempt, place);
    sql::keep_transcript(&mut set, attempt, leg.transcript.as_deref());
    let mut message = leg.message.clone();
    O::decide(app, &mut set, &mut message, attempt, news);
    write(app, &attempt.object_id, set).await?;
    leg.message = message;
    leg.attempt.state = State::Queued;
    Ok(())
}

/// The way of a leg that follows.
struct Way {
    channel: Channel,
    category: &'static str,
    to: Address,
}

async fn next_leg<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    why: Failure,
    way: Way,
) -> Result<Next, Unwritten> {
    let Way { channel, category, to } = way;
    match credits::price(app, channel.as_str(), category, to.country()).await {
        Ok(credits) => {
            let Attempt { account, object_id, priority, give_up_at, .. } = &leg.attempt;
            let (priority, give_up_at) = (*priority, *give_up_at);
            let new =
                NewLeg { account, object_id, channel, to: &to, priority, credits, give_up_at };
            let mut next = Attempt::new(app, &new);
            // Where due work looks after the one that failed, it looks after this one as well.
            next.next_at = leg.attempt.next_at.map(|_| next.lease_until);
            follow(app, leg, why, next).await
        }
        Err(error) => {
            let object = leg.attempt.object_id.as_str();
            tracing::error!(%error, object, "no price for the next leg now; trying again");
            owed(app, leg, &why).await
        }
    }
}

/// The attempt is over, its price is given back, and the leg that follows is due work's to make.
async fn owed<O: Owner>(app: &App, leg: &mut Leg<O>, why: &Failure) -> Result<Next, Unwritten> {
    let mut set = WriteSet::of(leg.attempt.account.as_str());
    let state = give_back::<O>(app, &mut set, &leg.attempt, why);
    let mut message = leg.message.clone();
    O::decide(app, &mut set, &mut message, &leg.attempt, News::Owed(why));
    write(app, leg.attempt.object_id.as_str(), set).await?;
    leg.message = message;
    leg.attempt.state = state;
    Ok(Next::Nothing(Carried::Stands))
}

async fn follow<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    why: Failure,
    next: Attempt,
) -> Result<Next, Unwritten> {
    let mut set = WriteSet::of(next.account.as_str());
    give_back::<O>(app, &mut set, &leg.attempt, &why);
    open::<O>(app, &mut set, &next);
    let mut message = leg.message.clone();
    O::adopt(app, &mut set, &mut message, &next, &why);
    match app.db.commit(set).await {
        Ok(_) => {
            leg.message = message;
            leg.attempt = next;
            Ok(Next::Attempt)
        }
        // Nor is it where no other way can be paid for.
        Err(CommitError::Rejected(credits::INSUFFICIENT)) if is_only_silent(&leg.attempt, &why) => {
            Ok(Next::Nothing(Carried::Stands))
        }
        Err(CommitError::Rejected(credits::INSUFFICIENT)) => end(app, leg, why, true).await,
        // The message went on otherwise meanwhile, perhaps with what this attempt brought: that
        // nobody said so is no reason to give its price back.
        Err(CommitError::Rejected(STALE)) if why.state == State::Lapsed => Err(Unwritten::Stale),
        Err(CommitError::Rejected(STALE)) => end(app, leg, why, false).await,
        Err(error) => Err(unwritten(app, &next.object_id, &error)),
    }
}

/// The attempt failed and nothing follows.
async fn end<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    why: Failure,
    is_unpaid: bool,
) -> Result<Next, Unwritten> {
    let attempt = &leg.attempt;
    let lost =
        |error: ::store::Error| unwritten(app, &attempt.object_id, &CommitError::from(error));
    let is_last = !sql::has_other_leg(app, attempt).await.map_err(lost)?;
    let ending = Ending { why, is_unpaid, is_last };
    let mut set = WriteSet::of(attempt.account.as_str());
    let state = give_back::<O>(app, &mut set, attempt, &ending.why);
    sql::keep_transcript(&mut set, attempt, leg.transcript.as_deref());
    let mut message = leg.message.clone();
    O::decide(app, &mut set, &mut message, attempt, News::Over(&ending));
    write(app, &attempt.object_id, set).await?;
    O::count(app, &message, attempt, News::Over(&ending));
    // What ended otherwise meanwhile stays so, which only the database knows.
    let found = O::load(app, &attempt.account, &attempt.object_id).await;
    leg.message = found.ok().flatten().unwrap_or(message);
    leg.attempt.state = state;
    Ok(Next::Nothing(Carried::Over(ending)))
}

/// Commits what became of a message. Only [`STALE`] is a lost race; every other refusal is a fault
/// of the program, logged and counted.
///
/// # Errors
/// See [`Unwritten`].
pub async fn write(app: &App, object: &str, set: WriteSet) -> Result<(), Unwritten> {
    app.db.commit(set).await.map(drop).map_err(|error| unwritten(app, object, &error))
}

words! {
    /// Why a settlement was not written, as counted.
    enum NotWritten {
        /// It contradicts what is stored.
        Refused = "refused",
        /// The queue of writes is full.
        Overloaded = "overloaded",
        /// The database failed.
        Storage = "storage",
    }
}

fn unwritten(app: &App, object: &str, error: &CommitError) -> Unwritten {
    let cause = match error {
        CommitError::Rejected(STALE) => return Unwritten::Stale,
        CommitError::Rejected(_) => NotWritten::Refused,
        CommitError::Overloaded => NotWritten::Overloaded,
        CommitError::Unavailable(_) | CommitError::Unknown(_) => NotWritten::Storage,
    };
    app.metrics.unwritten(cause.as_str());
    if cause == NotWritten::Refused {
        tracing::error!(%error, object, "a settlement contradicts what is stored");
    } else {
        tracing::warn!(%error, object, "not settled now; due work goes on");
    }
    Unwritten::Lost
}

/// The carrier asked to slow down: this message goes out later, and it was no try.
pub(super) async fn postpone(app: &App, attempt: &Attempt, after_ms: u64) {
    let after_ms = i64::try_from(after_ms).unwrap_or(THROTTLED_MS).clamp(1, THROTTLED_MS);
    // What is not written is found again when the lease ends.
    if wait_for(app, attempt, after_ms).await != Err(Unwritten::Stale) {
        return;
    }
    // Another node took it for lost meanwhile; the carrier says that it did not get it.
    let now = sql::attempt(app, &attempt.account, &attempt.id).await.ok().flatten();
    let is_lost = |now: &Attempt| now.state == State::Unknown && now.is_same_try(attempt);
    if let Some(now) = now.filter(is_lost) {
        let _lost = wait_for(app, &now, after_ms).await;
    }
}

async fn wait_for(app: &App, attempt: &Attempt, after_ms: i64) -> Result<(), Unwritten> {
    let next_at = (app.now() + after_ms).min(attempt.give_up_at);
    let mut set = WriteSet::of(attempt.account.as_str());
    let place =
        Requeue { tries: attempt.tries - 1, ..Requeue::later(attempt, Some("throttled"), next_at) };
    sql::put_back(&mut set, attempt, place);
    write(app, &attempt.object_id, set).await
}
