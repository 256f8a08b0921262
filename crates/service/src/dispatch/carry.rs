//! Hands an attempt to its carrier, listens for what comes at once, commits the outcome (commit B),
//! and goes on with the next leg where one follows.

use std::time::Duration;

use ::store::WriteSet;
use tokio::time::Instant;

use super::failover;
use super::in_hand::{self, Whose};
use super::overtaken;
use super::settle::{over, postpone, settle, write};
use super::store as sql;
use super::submit::{Answer, content_gone, hand_over, once_more, submit};
use super::{
    Attempt, Carried, Failure, LEASE_MS, Leg, News, Next, Owner, State, Unwritten, elsewhere,
    waiting,
};
use crate::app::App;
use crate::carriers::inbox::{self, Waiter};
use crate::carriers::{Answered, Fate, Lane, Outcome, Permit, Receipt, Refusal};
use crate::kit::task;

/// How long a receipt that comes at once may take to share the commit of the acceptance.
const GRACE: Duration = Duration::from_millis(4);
/// After how long it is looked whether another node got the receipt that is waited for; then after
/// twice as long, and so on.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// For how long a message is taken to be wanted since it was accepted, when its recipient was asked
/// about, milliseconds.
const FRESH_MS: i64 = 1_000;
/// Times that an answer is settled anew because another was faster.
const STALE_TRIES: usize = 3;

/// Carries a leg's attempt and those that follow it, until nothing is left to do now. It was
/// recorded and paid before, so no failure of the service is an answer here: the leg shows what is
/// durably known, and due work goes on from there.
async fn carry<O: Owner>(app: &App, leg: &mut Leg<O>) -> Carried {
    let waiter = expect(app, leg);
    carry_from(app, leg, waiter).await
}

/// The same for a request, which is answered by then however long the carriers take. What they say
/// later is written down all the same.
pub async fn carry_until<O: Owner>(app: &App, leg: Leg<O>, until: Instant) -> (Leg<O>, Carried) {
    let known = Leg::new(leg.message.clone(), leg.attempt.clone());
    let (app, mut leg) = (app.clone(), leg);
    let mut carrying = Box::pin(async move {
        let carried = carry(&app, &mut leg).await;
        (leg, carried)
    });
    if let Ok(told) = tokio::time::timeout_at(until, &mut carrying).await {
        return told;
    }
    task::spawn(async move { drop(carrying.await) });
    (known, Carried::Moved)
}

/// The same in the background. A stop of the process waits for it from here on.
pub fn carry_on<O: Owner>(app: &App, mut leg: Leg<O>) {
    let (app, waiter) = (app.clone(), expect(app, &leg));
    task::spawn(async move {
        let _nobody_waits = carry_from(&app, &mut leg, waiter).await;
    });
}

fn expect<O: Owner>(app: &App, leg: &Leg<O>) -> Waiter {
    let Leg { attempt, asker, .. } = leg;
    app.carriers.inbox().expect(attempt.id.as_str(), &attempt.carrier, *asker)
}

async fn carry_from<O: Owner>(app: &App, leg: &mut Leg<O>, mut waiter: Waiter) -> Carried {
    loop {
        match attempt(app, leg, waiter).await {
            Ok(Next::Attempt) => waiter = expect(app, leg),
            Ok(Next::Nothing(carried)) => return carried,
            // The door for receipts or due work was faster and did the same.
            Err(Unwritten::Stale) => return Carried::Moved,
            Err(Unwritten::Lost) => return Carried::Stands,
        }
    }
}

/// One attempt: submit, wait for what comes at once, commit B.
async fn attempt<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    mut waiter: Waiter,
) -> Result<Next, Unwritten> {
    if elsewhere::is_elsewhere(app, &leg.attempt) {
        drop(waiter);
        return waiting::queue_up(app, leg).await;
    }
    // Another node took it for lost while this one stood still, and goes on from there.
    if app.now() >= leg.attempt.lease_until && !is_mine_still(app, leg).await {
        return Err(Unwritten::Stale);
    }
    let Some(Answer { outcome, permit }) = submit(app, leg).await else {
        drop(waiter);
        return waiting::queue_up(app, leg).await;
    };
    // Due work took it for lost, perhaps. What the carrier says counts all the same.
    if app.now() >= leg.attempt.lease_until && !counts_still(app, leg, &outcome).await {
        return Err(Unwritten::Stale);
    }
    // Nobody knows more than due work did, and when it looks again stands.
    if outcome == Outcome::Unknown && leg.attempt.state == State::Unknown {
        return Ok(Next::Nothing(Carried::Moved));
    }
    if let Outcome::Refused { class, .. } = &outcome {
        if let Some(lane) = failover::inline(app, leg, *class)
            && reroute(app, leg, &lane).await?
        {
            return Ok(Next::Attempt);
        }
        // The connection went away in this moment.
        if *class == Refusal::Down && waiting::is_away(app, &leg.attempt) {
            drop((permit, waiter));
            return waiting::queue_up(app, leg).await;
        }
    }
    let receipt_wait = Duration::from_millis(O::wait_ms(app));
    let waits = O::waits_on(leg.attempt.channel) || outcome == Outcome::Unknown;
    let wait = if waits { receipt_wait } else { Duration::ZERO };
    answered_at_last(app, leg, Answer { outcome, permit }, &mut waiter, wait).await
}

/// Gives the attempt to another carrier, which is written down before that one gets it: what a
/// crash leaves names who may have it, and its receipts are looked for there. Answers whether it
/// was.
async fn reroute<O: Owner>(app: &App, leg: &mut Leg<O>, lane: &Lane) -> Result<bool, Unwritten> {
    let mut next = leg.attempt.clone();
    next.refused_by.push(std::mem::replace(&mut next.carrier, lane.carrier().name().to_owned()));
    next.lease_until = app.now() + LEASE_MS;
    let mut set = WriteSet::of(next.account.as_str());
    sql::reroute(&mut set, &next);
    match write(app, &next.object_id, set).await {
        Ok(()) => leg.attempt = Attempt { state: State::Sending, ..next },
        Err(Unwritten::Stale) => return Err(Unwritten::Stale),
        // The refusal is the answer.
        Err(Unwritten::Lost) => return Ok(false),
    }
    Ok(true)
}

/// The carrier answered; the answer is settled anew where another took the attempt for lost
/// meanwhile.
async fn answered_at_last<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    Answer { outcome, permit }: Answer,
    waiter: &mut Waiter,
    wait: Duration,
) -> Result<Next, Unwritten> {
    let mut permit = Some(permit);
    for _ in 0..STALE_TRIES {
        let answer = Answer { outcome: outcome.clone(), permit: permit.take().flatten() };
        match answered(app, leg, answer, waiter, wait).await {
            Err(Unwritten::Stale) if counts_still(app, leg, &outcome).await => {}
            done => return done,
        }
    }
    Err(Unwritten::Stale)
}

/// The carrier answered: commit B, together with a receipt that comes within the wait.
async fn answered<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    Answer { outcome, permit }: Answer,
    waiter: &mut Waiter,
    wait: Duration,
) -> Result<Next, Unwritten> {
    let settled = match outcome {
        Outcome::Refused { class, code } => {
            return match phone_has_it(waiter) {
                Some(news) => heard(app, leg, news).await,
                None => over(app, leg, Failure::refused(class, code)).await,
            };
        }
        Outcome::Accepted { provider_id } => {
            let news = match at_once(waiter, wait).await {
                Some(news) if news.receipt.fate != Fate::Sent => {
                    return heard(app, leg, news).await;
                }
                sent_or_none => sent_or_none,
            };
            let provider_id = named(&leg.attempt, provider_id);
            let settled = settle(app, leg, News::Accepted { provider_id: &provider_id }).await;
            // `sent` says no more than the carrier's answer: one commit makes both durable.
            if let Some(news) = news.filter(|_| settled.is_ok()) {
                news.done();
            }
            settled
        }
        Outcome::InParts { provider_ids } => {
            let first = provider_ids.first().cloned().unwrap_or_default();
            let provider_id = named(&leg.attempt, first);
            leg.parts = provider_ids;
            settle(app, leg, News::Accepted { provider_id: &provider_id }).await
        }
        // Any channel: nothing else tells whether it went out.
        Outcome::Unknown => {
            if let Some(news) = at_once(waiter, wait).await {
                return heard(app, leg, news).await;
            }
            let settled = settle(app, leg, News::Unknown).await;
            if settled.is_ok()
                && let Ok(Some(early)) = overtaken::first(app, &leg.attempt).await
            {
                let next = heard_of(app, leg, &early.receipt).await?;
                early.done(app).await;
                return Ok(next);
            }
            settled
        }
    };
    if let Err(error) = settled
        && !(error == Unwritten::Stale && is_accepted(app, leg).await)
    {
        return Err(error);
    }
    drop(permit);
    listen(app, leg, waiter, wait.saturating_sub(GRACE)).await
}

/// Another node was faster with a receipt that says no more than the answer did: the request goes
/// on to wait for one that does. Answers whether that is so.
async fn is_accepted<O: Owner>(app: &App, leg: &mut Leg<O>) -> bool {
    catch_up(app, leg, |then, now| now.state == State::Accepted && now.is_same_try(then)).await
}

/// Whether an attempt is still this node's whose lease has ended, and that no carrier has heard of.
async fn is_mine_still<O: Owner>(app: &App, leg: &mut Leg<O>) -> bool {
    let is_mine = |whose| matches!(whose, Whose::Mine | Whose::TakenBack);
    let as_sent = |then: &Attempt, now: &Attempt| now.state == then.state && now.is_same_try(then);
    in_hand::whose(app, &leg.attempt).await.is_some_and(is_mine)
        && catch_up(app, leg, as_sent).await
}

/// Whether an answer counts though another moved the attempt meanwhile. That the carrier has the
/// message always does; that it has not says nothing of a copy which another node sends by now.
async fn counts_still<O: Owner>(app: &App, leg: &mut Leg<O>, outcome: &Outcome) -> bool {
    let has_it = matches!(outcome, Outcome::Accepted { .. } | Outcome::InParts { .. });
    catch_up(app, leg, |then, now| now.state.is_held() && (has_it || now.is_same_try(then))).await
}

/// Another moved the attempt, or may have: where it stands so that this one goes on with it, it is
/// read anew, and its message. Answers whether it does; `goes_on` is told how it stood, and stands.
async fn catch_up<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    goes_on: impl Fn(&Attempt, &Attempt) -> bool,
) -> bool {
    let Attempt { account, id, object_id, .. } = &leg.attempt;
    let now = match sql::attempt(app, account, id).await {
        Ok(Some(now)) if goes_on(&leg.attempt, &now) => now,
        _ => return false,
    };
    let Ok(Some(message)) = O::load(app, account, object_id).await else { return false };
    (leg.message, leg.attempt) = (message, now);
    true
}

/// Carries a queued message whose permit it is, and settles it.
pub(super) async fn carry_queued<O: Owner>(
    app: App,
    mut leg: Leg<O>,
    permit: Permit,
    mut waiter: Waiter,
) {
    if app.now() >= leg.attempt.give_up_at {
        // Whoever was faster said the same.
        let _told = over(&app, &mut leg, Failure::expired()).await;
        return;
    }
    let Some(Look { is_wanted, message }) =
        in_hand::read(&app, &leg.attempt, || look(&app, &leg)).await
    else {
        return;
    };
    leg.message = message.unwrap_or(leg.message);
    if !is_wanted {
        let _told = over(&app, &mut leg, Failure::unwanted()).await;
        return;
    }
    let Answered { outcome, transcript } = match O::content(&app, &leg.message, &leg.attempt) {
        Some(message) if leg.attempt.resends > 0 => {
            once_more(&app, leg.attempt.channel, &message, &permit).await
        }
        Some(message) => hand_over(&app, leg.attempt.channel, &message, &permit).await,
        None => content_gone(),
    };
    leg.transcript = transcript;
    if let Outcome::Refused { class, .. } = &outcome
        && let Some(after_ms) = class.after_ms()
    {
        return postpone(&app, &leg.attempt, after_ms).await;
    }
    // While others wait for its permit, no receipt is waited for.
    let wait = if permit.is_wanted() { Duration::ZERO } else { GRACE };
    let answer = Answer { outcome, permit: Some(permit) };
    if answered_at_last(&app, &mut leg, answer, &mut waiter, wait).await == Ok(Next::Attempt) {
        carry(&app, &mut leg).await;
    }
}

/// How a message stands that is about to be handed over.
struct Look<M> {
    /// Whether whoever gets it wants it still: STOP may have come while it waited.
    is_wanted: bool,
    /// The message itself, where another node may have changed it since it was read.
    message: Option<M>,
}

async fn look<O: Owner>(app: &App, leg: &Leg<O>) -> Result<Look<O::Message>, ::store::Error> {
    let Attempt { account, object_id, lease_until, id, .. } = &leg.attempt;
    let is_late = app.now() >= *lease_until;
    let message = if is_late { O::load(app, account, object_id).await? } else { None };
    let is_fresh = app.now() - id.time() < FRESH_MS;
    let now = message.as_ref().unwrap_or(&leg.message);
    let is_wanted = is_fresh || O::is_wanted(app, now).await?;
    Ok(Look { is_wanted, message })
}

/// The carrier's id, or our own where it gives none.
fn named(attempt: &Attempt, provider_id: String) -> String {
    if provider_id.is_empty() { attempt.id.as_str().to_owned() } else { provider_id }
}

/// A receipt that came before the carrier's answer, and outweighs it: the phone has the message.
fn phone_has_it(waiter: &mut Waiter) -> Option<inbox::HeldReceipt> {
    waiter.first().filter(|news| matches!(news.receipt.fate, Fate::Delivered | Fate::Read))
}

async fn at_once(waiter: &mut Waiter, wait: Duration) -> Option<inbox::HeldReceipt> {
    if wait.is_zero() { None } else { waiter.next(GRACE.min(wait)).await }
}

/// Waits for the first receipt that tells something of an attempt that is committed already. That
/// it is on its way is known. One that comes to another node shows in the database.
async fn listen<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    waiter: &mut Waiter,
    wait: Duration,
) -> Result<Next, Unwritten> {
    let until = Instant::now() + wait;
    let mut pause = if elsewhere::gets_receipts(app) { FIRST_LOOK } else { wait };
    let mut look_at = Instant::now() + pause;
    loop {
        let left = until.min(look_at).saturating_duration_since(Instant::now());
        let news = if left.is_zero() { None } else { waiter.next(left).await };
        let is_known = leg.attempt.state == State::Accepted;
        match news {
            Some(news) if is_known && news.receipt.fate == Fate::Sent => news.done(),
            Some(news) => return heard(app, leg, news).await,
            None if Instant::now() >= until => {
                // Whoever has it all the same may have answered it meanwhile.
                let carried = if wait.is_zero() { Carried::Stands } else { Carried::Moved };
                return Ok(Next::Nothing(carried));
            }
            None if elsewhere::has_moved(app, &leg.attempt).await => {
                return Ok(Next::Nothing(Carried::Moved));
            }
            None => {
                pause *= 2;
                look_at = Instant::now() + pause;
            }
        }
    }
}

/// A receipt came while the answer waited: both become durable together.
async fn heard<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    news: inbox::HeldReceipt,
) -> Result<Next, Unwritten> {
    let next = heard_of(app, leg, &news.receipt).await?;
    news.done();
    Ok(next)
}

async fn heard_of<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    receipt: &Receipt,
) -> Result<Next, Unwritten> {
    let provider_id = receipt.provider_id.as_deref();
    Ok(match receipt.fate {
        Fate::Delivered => {
            settle(app, leg, News::Delivered { provider_id }).await?;
            Next::Nothing(Carried::Stands)
        }
        Fate::Read => {
            settle(app, leg, News::Read { provider_id }).await?;
            Next::Nothing(Carried::Stands)
        }
        Fate::Failed(refusal) => {
            over(app, leg, Failure::receipt(refusal, receipt.error.clone())).await?
        }
        // One that is late is not offered here.
        Fate::Refused(_) => Next::Nothing(Carried::Stands),
        Fate::Sent if leg.attempt.state == State::Accepted => Next::Nothing(Carried::Stands),
        Fate::Sent => {
            let own = leg.attempt.id.as_str().to_owned();
            let provider_id = provider_id.unwrap_or(&own);
            settle(app, leg, News::Accepted { provider_id }).await?;
            Next::Nothing(Carried::Stands)
        }
    })
}
