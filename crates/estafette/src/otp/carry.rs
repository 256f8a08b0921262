//! Carrying: hands an attempt to its carrier, listens for what comes at once, commits the outcome
//! (commit B), and goes on with SMS where the chat-app did not work out.

use std::time::Duration;

use store::{CommitError, WriteSet};
use tracing::Instrument;

use super::code::code_of;
use super::settle::{self, Failure};
use super::store as sql;
use super::wording::Wording;
use super::{Attempt, Challenge, Reason, STALE, State, Status};
use crate::app::App;
use crate::carriers::inbox::{News, Waiter};
use crate::carriers::{Channel, Fate, Outbound, Outcome};
use crate::credits;
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;

/// How long a receipt that comes at once may take to share the commit of the acceptance.
const GRACE: Duration = Duration::from_millis(4);
/// Submissions of one attempt while the carrier throttles.
const TRIES: usize = 4;

/// A challenge on its way, as far as is durably known, and its current attempt.
pub(super) struct Leg {
    pub(super) challenge: Challenge,
    pub(super) attempt: Attempt,
    /// Whether the chat-app refused the recipient on the way.
    pub(super) is_unreachable: bool,
}

/// What came of carrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// Nothing is left to do now: the leg shows how it stands.
    Stands,
    /// It reached nobody, and what it cost is given back.
    Failed(Reason),
    /// Somebody else moved it meanwhile.
    Moved,
}

/// What follows after one attempt.
pub(super) enum Next {
    /// Nothing now.
    Over(Carried),
    /// The leg's new attempt.
    Attempt,
}

/// Why a write set did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// Another was faster: read again and decide again.
    Stale,
    /// The service failed. Due work finds what is not written, so this is nobody's answer.
    Lost,
}

impl Leg {
    pub(super) fn new(challenge: Challenge, attempt: Attempt) -> Self {
        Self { challenge, attempt, is_unreachable: false }
    }
}

/// Carries a leg's attempt and, where it falls back, the next one, until nothing is left to do now.
/// It was recorded and paid before, so no failure of the service is an answer here: the leg shows
/// what is durably known, and due work goes on from there.
pub(super) async fn run(app: &App, leg: &mut Leg) -> Carried {
    loop {
        match carry(app, leg).await {
            Ok(Next::Attempt) => {}
            Ok(Next::Over(carried)) => return carried,
            // The receipt door or due work was faster and did the same.
            Err(Unwritten::Stale) => return Carried::Moved,
            Err(Unwritten::Lost) => return Carried::Stands,
        }
    }
}

/// Commits what became of a challenge. Only [`STALE`] is a lost race.
pub(super) async fn write(app: &App, c: &Challenge, set: WriteSet) -> Result<(), Unwritten> {
    app.db.commit(set).await.map(drop).map_err(|error| unwritten(app, c, &error))
}

fn unwritten(app: &App, c: &Challenge, error: &CommitError) -> Unwritten {
    let challenge = c.id.as_str();
    let cause = match error {
        CommitError::Rejected(STALE) => return Unwritten::Stale,
        CommitError::Rejected(_) => "refused",
        CommitError::Overloaded => "overloaded",
        CommitError::Unavailable(_) | CommitError::Unknown(_) => "storage",
    };
    app.metrics.unwritten(cause);
    if cause == "refused" {
        tracing::error!(%error, challenge, "a settlement contradicts what is stored");
    } else {
        tracing::warn!(%error, challenge, "not settled now; due work goes on");
    }
    Unwritten::Lost
}

/// One attempt: submit, wait for what comes at once, commit B.
async fn carry(app: &App, leg: &mut Leg) -> Result<Next, Unwritten> {
    let receipt_wait = Duration::from_millis(app.config.otp.receipt_wait_ms);
    let is_chatapp = leg.attempt.channel == Channel::Chatapp;
    let wait = if is_chatapp { receipt_wait } else { Duration::ZERO };
    let mut waiter = app.carriers.inbox().expect(leg.attempt.id.as_str());
    match submit(app, &leg.challenge, &leg.attempt).await {
        Outcome::Accepted { provider_id } => {
            if let Some(news) = at_once(&mut waiter, wait).await
                && news.receipt.fate != Fate::Sent
            {
                return heard(app, leg, news).await;
            }
            accepted(app, leg, &provider_id).await?;
            listen(app, leg, (&mut waiter, wait.saturating_sub(GRACE))).await
        }
        Outcome::Unknown => {
            if let Some(news) = at_once(&mut waiter, receipt_wait).await {
                return heard(app, leg, news).await;
            }
            let set = settle::unknown(app, &leg.challenge, &leg.attempt);
            write(app, &leg.challenge, set).await?;
            leg.attempt.state = State::Unknown;
            listen(app, leg, (&mut waiter, receipt_wait.saturating_sub(GRACE))).await
        }
        Outcome::Refused { class, code } => failed(app, leg, &Failure::refused(class, code)).await,
    }
}

async fn at_once(waiter: &mut Waiter, wait: Duration) -> Option<News> {
    if wait.is_zero() { None } else { waiter.next(GRACE.min(wait)).await }
}

/// The acceptance becomes durable.
async fn accepted(app: &App, leg: &mut Leg, provider_id: &str) -> Result<(), Unwritten> {
    let set = settle::accepted(app, &leg.challenge, &leg.attempt, provider_id);
    write(app, &leg.challenge, set).await?;
    provider_id.clone_into(&mut leg.challenge.provider_message_id);
    leg.challenge.settled = true;
    leg.attempt.state = State::Accepted;
    Ok(())
}

/// Waits for the first receipt of an attempt that is committed already.
async fn listen(
    app: &App,
    leg: &mut Leg,
    (waiter, wait): (&mut Waiter, Duration),
) -> Result<Next, Unwritten> {
    let news = if wait.is_zero() { None } else { waiter.next(wait).await };
    match news {
        Some(news) => heard(app, leg, news).await,
        None => Ok(Next::Over(Carried::Stands)),
    }
}

/// A receipt came while the answer waited: both become durable together.
async fn heard(app: &App, leg: &mut Leg, news: News) -> Result<Next, Unwritten> {
    let provider_id = news.receipt.provider_id.clone();
    let next = match news.receipt.fate {
        Fate::Delivered => {
            delivered(app, leg, provider_id).await?;
            Next::Over(Carried::Stands)
        }
        Fate::Failed => {
            let why = Failure::receipt(news.receipt.error.clone());
            failed(app, leg, &why).await?
        }
        Fate::Sent if leg.attempt.state == State::Accepted => Next::Over(Carried::Stands),
        Fate::Sent => {
            let provider_id = provider_id.unwrap_or_else(|| leg.attempt.id.as_str().to_owned());
            accepted(app, leg, &provider_id).await?;
            Next::Over(Carried::Stands)
        }
    };
    news.done();
    Ok(next)
}

async fn delivered(app: &App, leg: &mut Leg, provider_id: Option<String>) -> Result<(), Unwritten> {
    let set = settle::delivered(app, &leg.challenge, &leg.attempt, provider_id.as_deref());
    write(app, &leg.challenge, set).await?;
    let c = &mut leg.challenge;
    if let Some(provider_id) = provider_id {
        c.provider_message_id = provider_id;
    }
    if c.status == Status::Sent {
        c.status = Status::Delivered;
    }
    c.settled = true;
    leg.attempt.state = State::Delivered;
    Ok(())
}

/// An attempt did not work out, or did not before: what it cost is given back, and SMS takes over
/// where it may. A price that cannot be told now is due work's to ask for again.
pub(super) async fn failed(app: &App, leg: &mut Leg, why: &Failure) -> Result<Next, Unwritten> {
    leg.is_unreachable |=
        why.reason == Reason::Unreachable && leg.attempt.channel == Channel::Chatapp;
    let can_fall_back = leg.challenge.falls_back() && leg.challenge.is_open(app.now());
    if !can_fall_back || app.carriers.on(Channel::Sms).is_none() {
        return end(app, leg, why).await;
    }
    let country = Msisdn::stored(leg.challenge.recipient.clone()).country().to_owned();
    match credits::price(app, Channel::Sms.word(), "authentication", &country).await {
        Ok(price) => fall_back(app, leg, why, price).await,
        Err(error) => {
            let challenge = leg.challenge.id.as_str();
            tracing::error!(%error, challenge, "no price for the fallback now; trying again");
            let set = settle::owe(app, &leg.challenge, &leg.attempt, why);
            write(app, &leg.challenge, set).await?;
            leg.attempt.state = why.state;
            Ok(Next::Over(Carried::Stands))
        }
    }
}

async fn fall_back(app: &App, leg: &mut Leg, why: &Failure, price: i64) -> Result<Next, Unwritten> {
    let (set, attempt) = settle::fall_back(app, &leg.challenge, &leg.attempt, why, price);
    match app.db.commit(set).await {
        Ok(_) => {
            leg.challenge = leg.challenge.carried_by(&attempt, true);
            leg.attempt = attempt;
            Ok(Next::Attempt)
        }
        Err(CommitError::Rejected(credits::INSUFFICIENT)) => {
            end(app, leg, &Failure { reason: Reason::InsufficientCredits, ..why.clone() }).await
        }
        // Verified meanwhile, perhaps: then only this attempt ends.
        Err(CommitError::Rejected(STALE)) => end(app, leg, why).await,
        Err(error) => Err(unwritten(app, &leg.challenge, &error)),
    }
}

/// The attempt failed and nothing follows. A challenge that was verified meanwhile stays so, which
/// only the database knows.
async fn end(app: &App, leg: &mut Leg, why: &Failure) -> Result<Next, Unwritten> {
    let c = &leg.challenge;
    let found = sql::has_other_leg(app, c, &leg.attempt).await;
    let is_last =
        !found.map_err(|error| unwritten(app, c, &CommitError::Unavailable(error.to_string())))?;
    write(app, c, settle::fail(app, c, &leg.attempt, why, is_last)).await?;
    leg.attempt.state = why.state;
    // What is shown is read again; if it cannot be, it is what was written just now.
    if let Ok(Some(now)) = sql::challenge(app, &c.account, &c.id).await {
        leg.challenge = now;
    } else if is_last && leg.challenge.status == Status::Sent {
        leg.challenge.status = Status::Failed;
        leg.challenge.failure_reason = Some(why.reason);
    }
    Ok(Next::Over(Carried::Failed(why.reason)))
}

/// Hands the message to the carrier, again while it throttles.
async fn submit(app: &App, c: &Challenge, a: &Attempt) -> Outcome {
    let Some(code) = code_of(app, c) else {
        let class = crate::carriers::Refusal::Sender;
        return Outcome::Refused { class, code: "code_gone".to_owned() };
    };
    let Some(carrier) = app.carriers.on(a.channel) else {
        let class = crate::carriers::Refusal::Down;
        return Outcome::Refused { class, code: "no_carrier".to_owned() };
    };
    let wording = Wording::of_stored(&c.wording);
    let message = Outbound {
        account_id: c.account.as_str().to_owned(),
        attempt_id: a.id.as_str().to_owned(),
        to: Msisdn::stored(c.recipient.clone()),
        sender: wording.sender.clone(),
        text: Secret::new(wording.text(code.expose())),
        template: wording.template(),
        code,
    };
    let (since, channel) = (tokio::time::Instant::now(), a.channel.word());
    let span = || {
        let name = carrier.name();
        tracing::trace_span!(target: "otel", "carrier.submit", otel.kind = "client", channel, name)
    };
    let mut outcome = carrier.submit(&message).instrument(span()).await;
    for _ in 1..TRIES {
        let Some(wait_ms) = settle::try_again_in(&outcome) else { break };
        tokio::time::sleep(Duration::from_millis(wait_ms.min(2_000))).await;
        outcome = carrier.submit(&message).instrument(span()).await;
    }
    let seconds = since.elapsed().as_secs_f64();
    app.metrics.submission((channel, carrier.name()), outcome.word(), seconds);
    outcome
}
