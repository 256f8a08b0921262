//! Behind the one door of all carriers: a sender that waits takes its receipt, else it is settled
//! here. A carrier gets its acknowledgement after the commit.

use std::sync::Arc;
use std::time::Duration;

use ::store::Bell;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::store::{self as sql, Parked};
use super::{
    Attempt, Entry, Failure, Leg, News, Next, Owner, State, Unwritten, carry, over, retention,
    settle,
};
use crate::app::{App, Env};
use crate::carriers::door::{Arrivals, News as Brought};
use crate::carriers::{Fate, Inbound, NotNow, Receipt};
use crate::kit::id::{AccountId, AttemptId};
use crate::kit::seal::sha256;

/// Receipts taken in at the same time.
const PARALLEL: usize = 256;
/// How often parked receipts are looked at without being asked, milliseconds.
const LOOK_AGAIN_MS: u64 = 5_000;
/// Between two looks at them.
const PAUSE: Duration = Duration::from_millis(50);
/// Parked receipts read at a time.
const PAGE: i64 = 256;

/// Rings when a carrier's id became known that receipts may have named before. Each environment has
/// one, since each has a listener.
pub(super) fn bell(app: &App) -> Bell {
    match app.env {
        Env::Live => Bell("receipts live"),
        Env::Sandbox => Bell("receipts sandbox"),
    }
}

/// Takes in what people wrote.
pub type TakeInbound = for<'a> fn(&'a App, &'a [Inbound]) -> Answer<'a>;
/// `Ok` once it is durable.
pub type Answer<'a> = BoxFuture<'a, Result<(), NotNow>>;

/// Who is behind the door.
#[derive(Clone, Copy)]
pub struct Desk {
    /// The channels.
    pub owners: &'static [Entry],
    /// Takes in what people wrote.
    pub inbound: TakeInbound,
}

/// Takes in what carriers bring, and looks after receipts that led nowhere, until it is stopped.
pub async fn run(app: App, arrivals: Arrivals, desk: Desk) {
    tokio::select! {
        () = take_all(&app, arrivals, desk) => {}
        () = look_after_parked(&app, desk.owners) => {}
    }
}

async fn take_all(app: &App, mut arrivals: Arrivals, desk: Desk) {
    let turns = Arc::new(Semaphore::new(PARALLEL));
    while let Some(arrival) = arrivals.next().await {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let app = app.clone();
        tokio::spawn(async move {
            let (news, reply) = arrival.open();
            reply.send(match news {
                Brought::Receipt(receipt) => receive(&app, &receipt, desk.owners).await,
                Brought::Inbound(messages) => (desk.inbound)(&app, &messages).await,
            });
            drop(turn);
        });
    }
}

async fn look_after_parked(app: &App, owners: &[Entry]) {
    loop {
        tokio::select! {
            () = app.db.rung(bell(app)) => {}
            () = app.clock.tick(LOOK_AGAIN_MS) => {}
        }
        if let Err(error) = settle_parked(app, owners).await {
            tracing::warn!(%error, "parked receipts not settled; trying again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn receive(app: &App, receipt: &Receipt, owners: &[Entry]) -> Result<(), NotNow> {
    if app.carriers.inbox().offer(receipt).await {
        return Ok(());
    }
    match resolve(app, receipt, owners).await {
        Ok(Taken::Durable) => Ok(()),
        Ok(Taken::Nowhere) => keep(app, receipt).await,
        // A sender or due work moved the attempt meanwhile: look again later.
        Ok(Taken::NotNow) => Err(NotNow),
        Err(error) => {
            tracing::warn!(%error, carrier = receipt.carrier, "receipt not stored");
            Err(NotNow)
        }
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
async fn resolve(app: &App, receipt: &Receipt, owners: &[Entry]) -> Result<Taken, ::store::Error> {
    let place = match (&receipt.echo, &receipt.provider_id) {
        (Some(echo), _) => {
            AccountId::parse(&echo.account_id).zip(AttemptId::parse(&echo.attempt_id))
        }
        (None, Some(id)) => sql::submission(app, &receipt.carrier, id).await?,
        (None, None) => None,
    };
    let Some((account, attempt)) = place else { return Ok(Taken::Nowhere) };
    let Some(found) = sql::find(app, &account, &attempt).await? else { return Ok(Taken::Nowhere) };
    let Some(entry) = Entry::find(owners, &found.kind) else { return Ok(Taken::Nowhere) };
    let taken = (entry.take_in)(app, found.attempt, receipt).await?;
    Ok(if taken.is_ok() { Taken::Durable } else { Taken::NotNow })
}

/// Parks a receipt that leads nowhere: the id that it names may be stored a moment later.
async fn keep(app: &App, receipt: &Receipt) -> Result<(), NotNow> {
    let carrier = receipt.carrier.as_str();
    let of_ours = receipt.echo.as_ref().map(|echo| echo.attempt_id.clone());
    let provider_id = receipt.provider_id.clone().or(of_ours).unwrap_or_default();
    let fate = receipt.fate.to_stored();
    let text = format!("{fate}\n{}", receipt.error.as_deref().unwrap_or_default());
    let parked = Parked {
        carrier: carrier.to_owned(),
        provider_id,
        digest: sha256(text.as_bytes()).to_vec(),
        fate,
        error: receipt.error.clone(),
    };
    app.metrics.receipt_parked(carrier);
    tracing::warn!(carrier, "a receipt leads nowhere; it is kept for three days");
    sql::park(app, &parked).await.map_err(|error| {
        tracing::warn!(%error, carrier, "receipt not stored");
        NotNow
    })
}

/// Settles the parked receipts whose attempt is known by now.
async fn settle_parked(app: &App, owners: &[Entry]) -> Result<(), retention::Error> {
    let mut last: Option<Parked> = None;
    loop {
        let page = sql::parked(app, last.as_ref(), PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        for parked in &page {
            let receipt = Receipt {
                carrier: parked.carrier.clone(),
                echo: None,
                provider_id: Some(parked.provider_id.clone()),
                fate: Fate::of_stored(&parked.fate).unwrap_or(Fate::Sent),
                error: parked.error.clone(),
            };
            if let Taken::Durable = resolve(app, &receipt, owners).await? {
                sql::unpark(app, parked).await?;
            }
        }
        last = page.last().cloned();
    }
}

/// Makes a receipt durable. News that changes nothing (late, double, out of order) is dropped.
pub(super) async fn take_in<O: Owner>(
    app: &App,
    a: Attempt,
    receipt: &Receipt,
) -> Result<Result<(), Unwritten>, ::store::Error> {
    let is_news = receipt.fate == Fate::Read && a.state == State::Delivered;
    if !a.state.is_undecided() && !is_news {
        return Ok(Ok(()));
    }
    let Some(message) = O::load(app, &a.account, &a.object_id).await? else { return Ok(Ok(())) };
    let provider_id = receipt.provider_id.as_deref().filter(|_| O::may_name(&message));
    let own = a.id.as_str().to_owned();
    let is_held = a.state.is_held();
    let mut leg = Leg::<O>::new(message, a);
    Ok(match receipt.fate {
        Fate::Delivered => settle(app, &mut leg, News::Delivered { provider_id }).await,
        Fate::Read => settle(app, &mut leg, News::Read { provider_id }).await,
        Fate::Sent if is_held => {
            let provider_id = provider_id.unwrap_or(&own);
            settle(app, &mut leg, News::Accepted { provider_id }).await
        }
        Fate::Sent => Ok(()),
        Fate::Failed(refusal) => {
            let why = Failure::receipt(refusal, receipt.error.clone());
            over(app, &mut leg, why).await.map(|next| {
                if next == Next::Attempt {
                    // The receipt is durable; the next attempt is its own work.
                    let app = app.clone();
                    tokio::spawn(async move { carry(&app, &mut leg).await });
                }
            })
        }
    })
}
