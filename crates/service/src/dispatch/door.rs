//! Behind the one door of all carriers: a sender that waits takes its receipt, else it is settled
//! here. A carrier gets its acknowledgement after the commit.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::poll;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::overtaken;
use super::parked::{self, Parked};
use super::parts::{self, Place, Weighed};
use super::store::{self as sql, Found};
use super::{
    Attempt, Entry, Failure, Leg, News, Next, Owner, State, Unwritten, bell, carry_on, over,
    retention, settle,
};
use crate::app::App;
use crate::carriers::door::{Arrivals, Incoming};
use crate::carriers::lane::ReceiptCounts;
use crate::carriers::{Fate, Guesses, Inbound, InboundPart, NotNow, Receipt, Refusal};
use crate::kit::id::{AccountId, AttemptId};
use crate::kit::task;

/// Receipts taken in at the same time.
const PARALLEL: usize = 256;
/// Lines that they queue in; what has the same id is in the same one.
const LINES: u64 = 256;
/// How often parked receipts are looked at without being asked, milliseconds.
const LOOK_AGAIN_MS: u64 = 5_000;
/// Between two looks at them.
const PAUSE: Duration = Duration::from_millis(50);
/// And so many times as long as the last look took.
const LOOKING: u32 = 20;
/// Parked receipts read at a time.
const PAGE: i64 = 256;

/// Takes in what people wrote.
pub type TakeInbound = for<'a> fn(&'a App, &'a [Inbound]) -> Answer<'a>;
/// Takes in a part of what somebody wrote.
pub type TakePart = for<'a> fn(&'a App, &'a InboundPart) -> Answer<'a>;
/// `Ok` once it is durable.
pub type Answer<'a> = BoxFuture<'a, Result<(), NotNow>>;

/// Who is behind the door.
#[derive(Clone, Copy)]
pub struct Desk {
    /// The channels.
    pub owners: &'static [Entry],
    /// Takes in what people wrote.
    pub inbound: TakeInbound,
    /// Takes in parts of it.
    pub part: TakePart,
}

/// Takes in what carriers bring, and looks after receipts that led nowhere, until it is stopped.
pub async fn run(app: App, arrivals: Arrivals, desk: Desk) {
    tokio::select! {
        () = take_all(&app, arrivals, desk) => {}
        () = look_after_parked(&app, desk.owners) => {}
    }
}

/// Where receipts queue: those with one id in one line, in the order in which they came, so that
/// the first final word holds.
struct Lines(Vec<Arc<Mutex<()>>>);

impl Lines {
    fn new() -> Self {
        Self((0..LINES).map(|_| Arc::default()).collect())
    }

    fn of(&self, news: &Incoming) -> Arc<Mutex<()>> {
        let (Incoming::Receipt(receipt) | Incoming::Guess(receipt, _)) = news else {
            return Arc::default();
        };
        let mut hasher = DefaultHasher::new();
        let echo = receipt.echo.as_ref().map(|echo| &echo.attempt_id);
        (&receipt.carrier, &receipt.provider_id, echo).hash(&mut hasher);
        let line = usize::try_from(hasher.finish() % LINES).ok().and_then(|at| self.0.get(at));
        line.cloned().unwrap_or_default()
    }
}

async fn take_all(app: &App, mut arrivals: Arrivals, desk: Desk) {
    let (turns, lines) = (Arc::new(Semaphore::new(PARALLEL)), Lines::new());
    while let Some(arrival) = arrivals.next().await {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let (news, reply) = arrival.open();
        let mut place = Box::pin(lines.of(&news).lock_owned());
        // It takes its place in the line here: tasks begin in no order.
        let first = poll!(&mut place);
        let app = app.clone();
        task::spawn(async move {
            let in_line = match first {
                Poll::Ready(in_line) => in_line,
                Poll::Pending => place.await,
            };
            reply.send(match news {
                Incoming::Receipt(receipt) => receive(&app, &receipt, None, desk.owners).await,
                Incoming::Guess(receipt, guesses) => {
                    receive(&app, &receipt, Some(&guesses), desk.owners).await
                }
                Incoming::Inbound(messages) => (desk.inbound)(&app, &messages).await,
                Incoming::Part(part) => (desk.part)(&app, &part).await,
            });
            drop((in_line, turn));
        });
    }
}

async fn look_after_parked(app: &App, owners: &[Entry]) {
    loop {
        tokio::select! {
            () = app.db.rung(bell::bell(app)) => {}
            () = app.clock.tick(LOOK_AGAIN_MS) => {}
        }
        let begun = Instant::now();
        if let Err(error) = settle_parked(app, owners).await {
            tracing::warn!(%error, "parked receipts not settled; trying again");
        }
        // A centre that tells of other systems' messages leaves many here, which are all looked at.
        tokio::time::sleep(PAUSE.max(begun.elapsed() * LOOKING)).await;
    }
}

/// How often a receipt looks at an attempt that others move at the same moment.
const LOOKS: u32 = 5;

async fn receive(
    app: &App,
    receipt: &Receipt,
    guesses: Option<&Guesses>,
    owners: &[Entry],
) -> Result<(), NotNow> {
    // What a sender waits for is not known to be the copy that a late answer is about.
    let is_late = matches!(receipt.fate, Fate::Refused(_));
    if !is_late && app.carriers.inbox().offer(receipt).await {
        count(app, &receipt.carrier, |counts| &counts.matched);
        return Ok(());
    }
    match resolve(app, receipt, guesses, owners).await {
        Ok(Taken::Durable) => {
            count(app, &receipt.carrier, |counts| &counts.matched);
            Ok(())
        }
        Ok(Taken::Nowhere) => keep(app, receipt, guesses).await,
        Ok(Taken::NotNow) => Err(NotNow),
        Err(error) => {
            tracing::warn!(%error, carrier = receipt.carrier, "receipt not stored");
            Err(NotNow)
        }
    }
}

fn count(app: &App, carrier: &str, which: fn(&ReceiptCounts) -> &AtomicU64) {
    if let Some(lane) = app.carriers.lane(carrier) {
        which(&lane.receipts).fetch_add(1, Ordering::Relaxed);
    }
}

/// What became of a receipt.
enum Taken {
    Durable,
    NotNow,
    /// No attempt is known that it could be about.
    Nowhere,
}

/// Finds the attempt and its channel, and settles it.
async fn resolve(
    app: &App,
    receipt: &Receipt,
    guesses: Option<&Guesses>,
    owners: &[Entry],
) -> Result<Taken, retention::Error> {
    let place = if let Some(echo) = &receipt.echo {
        let ids = AccountId::parse(&echo.account_id).zip(AttemptId::parse(&echo.attempt_id));
        let Some((account, attempt)) = ids else { return Ok(Taken::Nowhere) };
        let found = sql::find(app, &account, &attempt).await?;
        // One that refused the message knows its id, and has no say in what another makes of it.
        found.filter(|found| found.attempt.carrier == receipt.carrier).map(Place::of)
    } else {
        parts::find(app, receipt, guesses, owners).await?
    };
    let Some(place) = place else {
        return Box::pin(by_hint(app, receipt, owners)).await;
    };
    // One of the same message may have come before its id was known: the first final word counts.
    if let Some(id) = place.key.as_ref().filter(|_| place.has_early) {
        Box::pin(settle_early(app, &receipt.carrier, id, owners)).await?;
    }
    take_to(app, receipt, place, owners).await
}

/// Settles an attempt whose answer was lost, and with it the carrier's id, by what the receipt came
/// for.
async fn by_hint(
    app: &App,
    receipt: &Receipt,
    owners: &[Entry],
) -> Result<Taken, retention::Error> {
    let Some(hint) = &receipt.hint else { return Ok(Taken::Nowhere) };
    let ids = AccountId::parse(&hint.account_id).zip(AttemptId::parse(&hint.attempt_id));
    let Some((account, attempt)) = ids else { return Ok(Taken::Nowhere) };
    let found = sql::find(app, &account, &attempt).await?;
    let is_meant = |it: &Found| it.attempt.carrier == receipt.carrier && it.attempt.is_lost();
    let Some(found) = found.filter(is_meant) else { return Ok(Taken::Nowhere) };
    // Its id is kept with it, as that of one which our ids lead to.
    let receipt = Receipt { echo: Some(hint.clone()), ..receipt.clone() };
    take_to(app, &receipt, Place::of(found), owners).await
}

/// Settles what came before the id was known that it names. It is rare, so it is in a box, as what
/// becomes of a bad receipt is: each receipt would have room for it otherwise.
async fn settle_early(
    app: &App,
    carrier: &str,
    id: &str,
    owners: &[Entry],
) -> Result<(), retention::Error> {
    let mut early = parked::of(app, carrier, id).await?;
    early.sort_by_key(|parked| parked.received_at);
    for parked in early {
        settle_one(app, &parked, owners).await?;
    }
    Ok(())
}

/// Settles a parked receipt if its attempt is known by now; answers whether it was.
async fn settle_one(
    app: &App,
    parked: &Parked,
    owners: &[Entry],
) -> Result<bool, retention::Error> {
    let is_settled = matches!(look_at(app, parked, owners).await?, Taken::Durable);
    if is_settled {
        count(app, &parked.carrier, |counts| &counts.early);
        parked::unpark(app, parked).await?;
    }
    Ok(is_settled)
}

/// Settles the attempt that a receipt leads to. News that changes nothing (late, double, out of
/// order) is dropped.
async fn take_to(
    app: &App,
    receipt: &Receipt,
    place: Place,
    owners: &[Entry],
) -> Result<Taken, retention::Error> {
    let Some(entry) = Entry::find(owners, &place.found.kind) else { return Ok(Taken::Nowhere) };
    if parts::weigh(app, receipt, &place).await? == Weighed::Noted {
        return Ok(Taken::Durable);
    }
    // What led here is known, and may be the id of one part, or written in another way.
    let named = receipt.provider_id.clone().filter(|_| receipt.echo.is_some());
    let fate = if place.parts > 1 { of_whole(receipt.fate) } else { receipt.fate };
    let receipt = Receipt { provider_id: named, fate, ..receipt.clone() };
    let Place { found: Found { mut attempt, .. }, mut opened, .. } = place;
    for _ in 0..LOOKS {
        if !is_news(&attempt, receipt.fate) {
            return Ok(Taken::Durable);
        }
        let message = match opened.take() {
            Some(message) => Some(message),
            None => (entry.open)(app, &attempt).await?,
        };
        let Some(message) = message else { return Ok(Taken::Durable) };
        let (account, id) = (attempt.account.clone(), attempt.id.clone());
        match message.take_in(app, attempt, &receipt).await {
            Ok(()) => return Ok(Taken::Durable),
            // Another receipt, a sender or due work was faster: what it wrote may say it all.
            Err(Unwritten::Stale) => match sql::find(app, &account, &id).await? {
                Some(now) => attempt = now.attempt,
                None => return Ok(Taken::Nowhere),
            },
            Err(Unwritten::Lost) => return Ok(Taken::NotNow),
        }
    }
    Ok(Taken::NotNow)
}

/// Whether a receipt of this fate may say something that is not known.
fn is_news(attempt: &Attempt, fate: Fate) -> bool {
    match attempt.state {
        State::Delivered => fate == Fate::Read,
        State::Lapsed => matches!(fate, Fate::Delivered | Fate::Read | Fate::Failed(_)),
        state => state.is_undecided(),
    }
}

/// What the fate of one part means for all of its message: where one failed, in whatever way,
/// others may have gone out, and the phone shows none of them.
const fn of_whole(fate: Fate) -> Fate {
    match fate {
        Fate::Failed(refusal @ (Refusal::Unreachable | Refusal::BadRecipient)) => {
            Fate::Failed(refusal)
        }
        Fate::Failed(_) => Fate::Failed(Refusal::Undelivered),
        other => other,
    }
}

/// Parks a receipt that leads nowhere; not where its recipient is erased, whom its id may name.
async fn keep(app: &App, receipt: &Receipt, guesses: Option<&Guesses>) -> Result<(), NotNow> {
    let carrier = receipt.carrier.as_str();
    match parts::is_hidden(app, receipt).await {
        Ok(false) => {}
        Ok(true) => {
            count(app, carrier, |counts| &counts.matched);
            return Ok(());
        }
        Err(error) => {
            tracing::warn!(%error, carrier, "receipt not stored");
            return Err(NotNow);
        }
    }
    app.metrics.receipt_parked(carrier);
    count(app, carrier, |counts| &counts.parked);
    tracing::debug!(carrier, "a receipt leads nowhere; it is kept for three days");
    parts::park(app, receipt, guesses).await.map_err(|error| {
        tracing::warn!(%error, carrier, "receipt not stored");
        NotNow
    })
}

/// Settles the parked receipts whose attempt is known by now.
async fn settle_parked(app: &App, owners: &[Entry]) -> Result<(), retention::Error> {
    let mut last: Option<Parked> = None;
    loop {
        let mut page = parked::leading(app, last.as_ref(), PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        last = page.last().cloned();
        // Of two about one message the first holds.
        page.sort_by_key(|parked| parked.received_at);
        // The other rows of one that is settled are gone, and must not lead to somebody else.
        let mut settled: Vec<&Parked> = Vec::new();
        for parked in &page {
            let is_gone = settled.iter().any(|other| other.is_one_with(parked));
            if !is_gone && settle_one(app, parked, owners).await? {
                settled.push(parked);
            }
        }
    }
}

async fn look_at(app: &App, parked: &Parked, owners: &[Entry]) -> Result<Taken, retention::Error> {
    let Some(place) = parts::place_of(app, parked, owners).await? else {
        return Ok(Taken::Nowhere);
    };
    let receipt = Receipt {
        hint: None,
        carrier: parked.carrier.clone(),
        echo: None,
        provider_id: Some(parked.provider_id.clone()),
        fate: Fate::of_stored(&parked.fate).unwrap_or(Fate::Sent),
        error: parked.error.clone(),
    };
    take_to(app, &receipt, place, owners).await
}

/// Takes in what came for an attempt before its answer was given up; answers whether anything did.
///
/// # Errors
/// When it cannot be read or written.
pub async fn take_in_overtaken<O: Owner>(app: &App, attempt: &Attempt) -> Result<bool, Unwritten> {
    let unread = |error: ::store::Error| {
        tracing::warn!(%error, attempt = attempt.id.as_str(), "parked receipts not read");
        Unwritten::Lost
    };
    let Some(early) = overtaken::first(app, attempt).await.map_err(unread)? else {
        return Ok(false);
    };
    let now = sql::attempt(app, &attempt.account, &attempt.id).await.map_err(unread)?;
    let Some(now) = now.filter(Attempt::is_lost) else { return Ok(false) };
    let message = O::load(app, &now.account, &now.object_id).await.map_err(unread)?;
    let Some(message) = message else { return Ok(false) };
    take_in(app, Leg::<O>::new(message, now), &early.receipt).await?;
    early.done(app).await;
    Ok(true)
}

/// Makes a receipt durable that brings news.
pub(super) async fn take_in<O: Owner>(
    app: &App,
    mut leg: Leg<O>,
    receipt: &Receipt,
) -> Result<(), Unwritten> {
    let provider_id = receipt.provider_id.as_deref().filter(|_| O::may_name(&leg.message));
    if leg.attempt.state == State::Lapsed && !O::may_arrive_late(&leg.message, &leg.attempt) {
        return Ok(());
    }
    match receipt.fate {
        Fate::Delivered => settle(app, &mut leg, News::Delivered { provider_id }).await,
        Fate::Read => settle(app, &mut leg, News::Read { provider_id }).await,
        Fate::Sent if leg.attempt.state.is_held() => {
            let own = leg.attempt.id.as_str().to_owned();
            let provider_id = provider_id.unwrap_or(&own);
            settle(app, &mut leg, News::Accepted { provider_id }).await
        }
        Fate::Sent => Ok(()),
        Fate::Failed(refusal) => {
            Box::pin(fail(app, leg, Failure::receipt(refusal, receipt.error.clone()))).await
        }
        Fate::Refused(refusal) => {
            let code = receipt.error.clone().unwrap_or_default();
            Box::pin(refused_late(app, leg, Failure::refused(refusal, code))).await
        }
    }
}

async fn fail<O: Owner>(app: &App, mut leg: Leg<O>, why: Failure) -> Result<(), Unwritten> {
    if over(app, &mut leg, why).await? == Next::Attempt {
        // The receipt is durable; the next attempt is its own work.
        carry_on(app, leg);
    }
    Ok(())
}

/// An answer came when nobody waited for it any more: the carrier does not have the message. Of one
/// that went out once more it says nothing, for it may be about either copy.
async fn refused_late<O: Owner>(app: &App, leg: Leg<O>, why: Failure) -> Result<(), Unwritten> {
    match leg.attempt.state {
        State::Unknown if leg.attempt.resends == 0 => fail(app, leg, why).await,
        // Its sender has not written yet that it gave up waiting: later.
        State::Sending if leg.attempt.resends == 0 => Err(Unwritten::Lost),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Lines;
    use crate::carriers::door::Incoming;
    use crate::carriers::{Fate, Receipt};

    fn receipt(carrier: &str, id: &str, fate: Fate) -> Incoming {
        Incoming::Receipt(Receipt {
            hint: None,
            carrier: carrier.to_owned(),
            echo: None,
            provider_id: Some(id.to_owned()),
            fate,
            error: None,
        })
    }

    #[test]
    fn receipts_with_one_id_are_in_one_line() {
        let lines = Lines::new();
        let first = lines.of(&receipt("main", "7", Fate::Delivered));
        let second = lines.of(&receipt("main", "7", Fate::Sent));
        assert!(Arc::ptr_eq(&first, &second));
        let is_same = |id: &u32| {
            Arc::ptr_eq(&first, &lines.of(&receipt("main", &id.to_string(), Fate::Sent)))
        };
        assert!((100..200).filter(is_same).count() < 10, "others are in other lines");
    }
}
