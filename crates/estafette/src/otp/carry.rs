//! Carrying: hands an attempt to its carrier, listens for what comes at once, commits the outcome
//! (commit B), and goes on with SMS where the chat-app did not work out.

use std::time::Duration;

use store::CommitError;
use tracing::Instrument;

use super::code::code_of;
use super::settle::{self, Failure};
use super::wording::Wording;
use super::{Attempt, Challenge, Error, Status};
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

/// Where a challenge stands after one attempt was carried.
pub(super) enum Next {
    /// Nothing is left to do now; this is how it stands, durably.
    Stands(Challenge),
    /// Another leg follows.
    Leg(Challenge, Attempt),
}

/// Carries an attempt and, where it falls back, the next one, until nothing is left to do now.
/// Answers how the challenge stands then; `None` when somebody else moved it meanwhile.
pub(super) async fn run(
    app: &App,
    challenge: Challenge,
    attempt: Attempt,
) -> Result<Option<Challenge>, Error> {
    let mut leg = (challenge, attempt);
    loop {
        match carry(app, &leg.0, &leg.1).await {
            Ok(Next::Stands(challenge)) => return Ok(Some(challenge)),
            Ok(Next::Leg(challenge, attempt)) => leg = (challenge, attempt),
            // The receipt door or the watchdog was faster and did the same work.
            Err(Error::Commit(CommitError::Rejected(_))) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// One attempt: submit, wait for what comes at once, commit B.
async fn carry(app: &App, c: &Challenge, a: &Attempt) -> Result<Next, Error> {
    let receipt_wait = Duration::from_millis(app.config.otp.receipt_wait_ms);
    let wait = if a.channel == Channel::Chatapp { receipt_wait } else { Duration::ZERO };
    let mut waiter = app.carriers.inbox().expect(a.id.as_str());
    match submit(app, c, a).await {
        Outcome::Accepted { provider_id } => {
            if let Some(news) = at_once(&mut waiter, wait).await
                && news.receipt.fate != Fate::Sent
            {
                return heard(app, c, a, news).await;
            }
            let (c, a) = accepted(app, c, a, &provider_id).await?;
            listen(app, c, &a, (&mut waiter, wait.saturating_sub(GRACE))).await
        }
        Outcome::Unknown => {
            if let Some(news) = at_once(&mut waiter, receipt_wait).await {
                return heard(app, c, a, news).await;
            }
            app.db.commit(settle::unknown(app, c, a)).await?;
            let a = Attempt { state: "unknown".to_owned(), ..a.clone() };
            listen(app, c.clone(), &a, (&mut waiter, receipt_wait.saturating_sub(GRACE))).await
        }
        Outcome::Refused { class, code } => failed(app, c, a, &Failure::refused(class, code)).await,
    }
}

async fn at_once(waiter: &mut Waiter, wait: Duration) -> Option<News> {
    if wait.is_zero() { None } else { waiter.next(GRACE.min(wait)).await }
}

/// The acceptance becomes durable.
async fn accepted(
    app: &App,
    c: &Challenge,
    a: &Attempt,
    provider_id: &str,
) -> Result<(Challenge, Attempt), Error> {
    app.db.commit(settle::accepted(app, c, a, provider_id)).await?;
    let provider_message_id = provider_id.to_owned();
    let c = Challenge { provider_message_id, settled: true, ..c.clone() };
    Ok((c, Attempt { state: "accepted".to_owned(), ..a.clone() }))
}

/// Waits for the first receipt of an attempt that is committed already.
async fn listen(
    app: &App,
    c: Challenge,
    a: &Attempt,
    waiting: (&mut Waiter, Duration),
) -> Result<Next, Error> {
    let (waiter, wait) = waiting;
    let news = if wait.is_zero() { None } else { waiter.next(wait).await };
    match news {
        Some(news) => heard(app, &c, a, news).await,
        None => Ok(Next::Stands(c)),
    }
}

/// A receipt came while the answer waited: both become durable together.
async fn heard(app: &App, c: &Challenge, a: &Attempt, news: News) -> Result<Next, Error> {
    let next = match news.receipt.fate {
        Fate::Delivered => {
            let provider_id = news.receipt.provider_id.as_deref();
            app.db.commit(settle::delivered(app, c, a, provider_id)).await?;
            let provider_id = provider_id.unwrap_or(&c.provider_message_id);
            Next::Stands(Challenge {
                provider_message_id: provider_id.to_owned(),
                status: if c.status == Status::Sent { Status::Delivered } else { c.status },
                settled: true,
                ..c.clone()
            })
        }
        Fate::Failed => {
            let why = Failure::receipt(news.receipt.error.clone());
            failed(app, c, a, &why).await?
        }
        Fate::Sent if a.state == "accepted" => Next::Stands(c.clone()),
        Fate::Sent => {
            let provider_id = news.receipt.provider_id.as_deref().unwrap_or(a.id.as_str());
            Next::Stands(accepted(app, c, a, provider_id).await?.0)
        }
    };
    news.done();
    Ok(next)
}

/// An attempt did not work out: SMS takes over, or the challenge ends.
pub(super) async fn failed(
    app: &App,
    c: &Challenge,
    a: &Attempt,
    why: &Failure,
) -> Result<Next, Error> {
    let can_fall_back = c.falls_back() && c.is_open(app.now());
    if !can_fall_back || app.carriers.on(Channel::Sms).is_none() {
        return end(app, c, a, why).await;
    }
    let country = Msisdn::stored(c.recipient.clone()).country().to_owned();
    let price = credits::price(app, Channel::Sms.word(), "authentication", &country).await?;
    let (set, leg) = settle::fall_back(app, c, a, why, price);
    match app.db.commit(set).await {
        Ok(_) => {
            let next = Challenge {
                attempt: leg.id.clone(),
                provider_message_id: leg.id.as_str().to_owned(),
                channel: Channel::Sms,
                fallback_used: true,
                settled: false,
                ..c.clone()
            };
            Ok(Next::Leg(next, leg))
        }
        Err(CommitError::Rejected(credits::INSUFFICIENT)) => {
            end(app, c, a, &Failure { reason: "insufficient_credits", ..why.clone() }).await
        }
        Err(error) => Err(error.into()),
    }
}

/// The attempt failed and nothing follows. A challenge that was verified meanwhile stays so, which
/// only the database knows.
async fn end(app: &App, c: &Challenge, a: &Attempt, why: &Failure) -> Result<Next, Error> {
    app.db.commit(settle::fail(app, c, a, why)).await?;
    let now = super::store::challenge(app, &c.account, &c.id).await?;
    Ok(Next::Stands(now.ok_or(Error::Unknown)?))
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
