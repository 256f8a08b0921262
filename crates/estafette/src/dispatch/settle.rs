//! What became of an attempt, written down the same way whether the answer of a carrier, a receipt
//! or due work brings the news: the state, the money and the owner's row in one set.

use store::{CommitError, WriteSet};

use super::{
    Attempt, Carried, Ending, Failure, Leg, NewLeg, News, Next, Owner, RECEIPTS, STALE, State,
    Then, Unwritten, store as sql,
};
use crate::app::App;
use crate::credits;

/// Adds an attempt and the hold on its price to commit A.
pub fn open<O: Owner>(app: &App, set: &mut WriteSet, attempt: &Attempt) {
    credits::hold(app, set, &attempt.account, &attempt.charge::<O>());
    sql::insert::<O>(set, attempt, app.now());
}

/// The attempt did not work out: the money goes back, unless it has done so before.
pub fn give_back<O: Owner>(app: &App, set: &mut WriteSet, a: &Attempt, why: &Failure) {
    if !a.state.is_undecided() {
        return;
    }
    sql::shift(set, a, why.state, why.code.as_deref());
    if a.state.is_held() {
        credits::void(app, set, &a.account, &a.charge::<O>());
    } else {
        credits::refund(app, set, &a.account, &a.charge::<O>());
    }
}

/// The attempt arrived, or is as good as arrived: its price is due.
pub fn arrived<O: Owner>(app: &App, set: &mut WriteSet, a: &Attempt) {
    sql::shift(set, a, State::Delivered, None);
    if a.state.is_held() {
        credits::post(app, set, &a.account, &a.charge::<O>());
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
    let a = &leg.attempt;
    let mut set = WriteSet::of(a.account.as_str());
    let state = match news {
        News::Delivered { .. } => {
            arrived::<O>(app, &mut set, a);
            State::Delivered
        }
        News::Unknown => {
            sql::shift(&mut set, a, State::Unknown, None);
            State::Unknown
        }
        News::Accepted { provider_id } => {
            if let Some(carrier) = app.carriers.on(a.channel).filter(|one| !one.echoes()) {
                sql::submitted(&mut set, carrier.name(), provider_id, a);
                set.ring(RECEIPTS);
            }
            sql::shift(&mut set, a, State::Accepted, None);
            credits::post(app, &mut set, &a.account, &a.charge::<O>());
            State::Accepted
        }
        News::Over(_) | News::Owed(_) => return Ok(()),
    };
    let mut message = leg.message.clone();
    O::decide(app, &mut set, &mut message, a, news);
    write(app, &a.object_id, set).await?;
    leg.message = message;
    leg.attempt.state = state;
    Ok(())
}

/// An attempt did not work out, now or before: what it cost is given back, and the next leg follows
/// where there is one. A price that cannot be told now is due work's to ask for again.
///
/// # Errors
/// See [`Unwritten`].
pub async fn over<O: Owner>(app: &App, leg: &mut Leg<O>, why: Failure) -> Result<Next, Unwritten> {
    leg.failures.push((leg.attempt.channel, why.clone()));
    let Then::Leg { channel, category, country } = O::after(app, &leg.message, &leg.attempt, &why)
    else {
        return end(app, leg, why, false).await;
    };
    match credits::price(app, channel.word(), category, &country).await {
        Ok(credits) => {
            let Attempt { account, object_id, give_up_at, .. } = &leg.attempt;
            let give_up_at = *give_up_at;
            let next = NewLeg { account, object_id, channel, credits, give_up_at };
            let next = Attempt::new(app, next);
            follow(app, leg, why, next).await
        }
        Err(error) => {
            let object = leg.attempt.object_id.as_str();
            tracing::error!(%error, object, "no price for the next leg now; trying again");
            let mut set = WriteSet::of(leg.attempt.account.as_str());
            give_back::<O>(app, &mut set, &leg.attempt, &why);
            let mut message = leg.message.clone();
            O::decide(app, &mut set, &mut message, &leg.attempt, News::Owed(&why));
            write(app, object, set).await?;
            leg.message = message;
            leg.attempt.state = why.state;
            Ok(Next::Nothing(Carried::Stands))
        }
    }
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
    O::adopt(app, &mut set, &mut message, (&next, &why));
    match app.db.commit(set).await {
        Ok(_) => {
            leg.message = message;
            leg.attempt = next;
            Ok(Next::Attempt)
        }
        Err(CommitError::Rejected(credits::INSUFFICIENT)) => end(app, leg, why, true).await,
        // The message ended otherwise meanwhile, perhaps: then only this attempt ends.
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
    let a = &leg.attempt;
    let lost = |error: ::store::Error| {
        unwritten(app, &a.object_id, &CommitError::Unavailable(error.to_string()))
    };
    let is_last = !sql::has_other_leg(app, a).await.map_err(lost)?;
    let ending = Ending { why, is_unpaid, is_last };
    let mut set = WriteSet::of(a.account.as_str());
    give_back::<O>(app, &mut set, a, &ending.why);
    let mut message = leg.message.clone();
    O::decide(app, &mut set, &mut message, a, News::Over(&ending));
    write(app, &a.object_id, set).await?;
    // What ended otherwise meanwhile stays so, which only the database knows.
    let found = O::load(app, &a.account, &a.object_id).await;
    leg.message = found.ok().flatten().unwrap_or(message);
    leg.attempt.state = ending.why.state;
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

fn unwritten(app: &App, object: &str, error: &CommitError) -> Unwritten {
    let cause = match error {
        CommitError::Rejected(STALE) => return Unwritten::Stale,
        CommitError::Rejected(_) => "refused",
        CommitError::Overloaded => "overloaded",
        CommitError::Unavailable(_) | CommitError::Unknown(_) => "storage",
    };
    app.metrics.unwritten(cause);
    if cause == "refused" {
        tracing::error!(%error, object, "a settlement contradicts what is stored");
    } else {
        tracing::warn!(%error, object, "not settled now; due work goes on");
    }
    Unwritten::Lost
}
