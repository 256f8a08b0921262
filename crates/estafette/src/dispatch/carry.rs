//! The inline way out: hands an attempt to its carrier, listens for what comes at once, commits the
//! outcome (commit B), and goes on with the next leg where one follows.

use std::time::Duration;

use tracing::Instrument;

use super::settle::{over, settle};
use super::{Attempt, Carried, Failure, Leg, News, Next, Owner, State, Unwritten};
use crate::app::App;
use crate::carriers::inbox::{self, Waiter};
use crate::carriers::{Fate, Outcome, Refusal};

/// How long a receipt that comes at once may take to share the commit of the acceptance.
const GRACE: Duration = Duration::from_millis(4);
/// Submissions of one attempt while the carrier throttles.
const TRIES: usize = 4;
/// The longest that a throttling carrier is waited for at a time, milliseconds.
const THROTTLED_MS: u64 = 2_000;

/// Carries a leg's attempt and those that follow it, until nothing is left to do now. It was
/// recorded and paid before, so no failure of the service is an answer here: the leg shows what is
/// durably known, and due work goes on from there.
pub async fn carry<O: Owner>(app: &App, leg: &mut Leg<O>) -> Carried {
    loop {
        match attempt(app, leg).await {
            Ok(Next::Attempt) => {}
            Ok(Next::Nothing(carried)) => return carried,
            // The door for receipts or due work was faster and did the same.
            Err(Unwritten::Stale) => return Carried::Moved,
            Err(Unwritten::Lost) => return Carried::Stands,
        }
    }
}

/// One attempt: submit, wait for what comes at once, commit B.
async fn attempt<O: Owner>(app: &App, leg: &mut Leg<O>) -> Result<Next, Unwritten> {
    let receipt_wait = Duration::from_millis(O::wait_ms(app));
    let wait = if O::waits_on(leg.attempt.channel) { receipt_wait } else { Duration::ZERO };
    let mut waiter = app.carriers.inbox().expect(leg.attempt.id.as_str());
    match submit(app, leg).await {
        Outcome::Accepted { provider_id } => {
            if let Some(news) = at_once(&mut waiter, wait).await
                && news.receipt.fate != Fate::Sent
            {
                return heard(app, leg, news).await;
            }
            settle(app, leg, News::Accepted { provider_id: &provider_id }).await?;
            listen(app, leg, (&mut waiter, wait.saturating_sub(GRACE))).await
        }
        // Any channel: nothing else tells whether it went out.
        Outcome::Unknown => {
            if let Some(news) = at_once(&mut waiter, receipt_wait).await {
                return heard(app, leg, news).await;
            }
            settle(app, leg, News::Unknown).await?;
            listen(app, leg, (&mut waiter, receipt_wait.saturating_sub(GRACE))).await
        }
        Outcome::Refused { class, code } => over(app, leg, Failure::refused(class, code)).await,
    }
}

async fn at_once(waiter: &mut Waiter, wait: Duration) -> Option<inbox::News> {
    if wait.is_zero() { None } else { waiter.next(GRACE.min(wait)).await }
}

/// Waits for the first receipt of an attempt that is committed already.
async fn listen<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    (waiter, wait): (&mut Waiter, Duration),
) -> Result<Next, Unwritten> {
    let news = if wait.is_zero() { None } else { waiter.next(wait).await };
    match news {
        Some(news) => heard(app, leg, news).await,
        None => Ok(Next::Nothing(Carried::Stands)),
    }
}

/// A receipt came while the answer waited: both become durable together.
async fn heard<O: Owner>(
    app: &App,
    leg: &mut Leg<O>,
    news: inbox::News,
) -> Result<Next, Unwritten> {
    let provider_id = news.receipt.provider_id.as_deref();
    let next = match news.receipt.fate {
        Fate::Delivered => {
            settle(app, leg, News::Delivered { provider_id }).await?;
            Next::Nothing(Carried::Stands)
        }
        Fate::Failed(refusal) => {
            over(app, leg, Failure::receipt(refusal, news.receipt.error.clone())).await?
        }
        Fate::Sent if leg.attempt.state == State::Accepted => Next::Nothing(Carried::Stands),
        Fate::Sent => {
            let own = leg.attempt.id.as_str().to_owned();
            let provider_id = provider_id.unwrap_or(&own);
            settle(app, leg, News::Accepted { provider_id }).await?;
            Next::Nothing(Carried::Stands)
        }
    };
    news.done();
    Ok(next)
}

/// Hands the message to the carrier, again while it throttles.
async fn submit<O: Owner>(app: &App, leg: &Leg<O>) -> Outcome {
    let refused = |class, code: &str| Outcome::Refused { class, code: code.to_owned() };
    let Attempt { channel, .. } = leg.attempt;
    let Some(message) = O::content(app, &leg.message, &leg.attempt) else {
        return refused(Refusal::Permanent, "content_gone");
    };
    let Some(carrier) = app.carriers.on(channel) else {
        return refused(Refusal::Down, "no_carrier");
    };
    let since = tokio::time::Instant::now();
    let span = || {
        let (name, channel) = (carrier.name(), channel.word());
        tracing::trace_span!(target: "otel", "carrier.submit", otel.kind = "client", channel, name)
    };
    let mut outcome = carrier.submit(&message).instrument(span()).await;
    for _ in 1..TRIES {
        let Outcome::Refused { class: Refusal::Throttled { after_ms }, .. } = outcome else {
            break;
        };
        tokio::time::sleep(Duration::from_millis(after_ms.min(THROTTLED_MS))).await;
        outcome = carrier.submit(&message).instrument(span()).await;
    }
    let seconds = since.elapsed().as_secs_f64();
    app.metrics.submission((channel.word(), carrier.name()), outcome.word(), seconds);
    outcome
}
