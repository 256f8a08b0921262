//! From events to deliveries: one for each active target that asked for the kind, in the write set
//! that marks the event as done. Accounts take turns, so that one with many events does not keep
//! the others waiting.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::{OptionFuture, try_join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, stream};
use hyper::body::Bytes;
use store::{CommitError, WriteSet, args};

use super::held::{Engine, LEASE_MS};
use super::loans::Loan;
use super::tries::Job;
use super::{Error, Target, delivery_id, store as sql};
use crate::app::Env;
use crate::events::{self, Stored};

/// Events read at a time.
const BATCH: i64 = 128;
/// Accounts worked on at the same time.
const PARALLEL: usize = 32;
/// Deliveries made in one write set, and of one account in one round.
const MOST_DELIVERIES: usize = 128;

/// Write sets of one account for events that were handed over together.
const MOST_SETS: usize = 16;

/// What came of a round.
pub(super) struct Round {
    /// Events whose deliveries were made.
    pub(super) done: usize,
    /// Whether some that were due may be so still.
    pub(super) leaves_some: bool,
}

impl Round {
    fn add(&mut self, Made { done, of }: &Made) {
        self.done += done;
        self.leaves_some |= done < of;
    }
}

/// What came of the due events of one account.
struct Made {
    /// Events whose deliveries were made, and how many were due.
    done: usize,
    of: usize,
}

/// Makes deliveries of events of this node that are due. Over the pages: an account that fills some
/// keeps nobody waiting on a later one.
pub(super) async fn round(engine: &Arc<Engine>) -> Result<Round, store::Error> {
    let mut round = Round { done: 0, leaves_some: false };
    let mut failed = None;
    let (mut waiting, mut under_way) = (VecDeque::new(), FuturesUnordered::new());
    let mut reading = Some(page_after(engine, String::new()).boxed());
    loop {
        while under_way.len() < PARALLEL
            && let Some(of_account) = waiting.pop_front()
        {
            under_way.push(fan_out(engine, of_account));
        }
        let page = OptionFuture::from(reading.as_mut().filter(|_| waiting.is_empty()));
        // Beside each other: what is under way may have what the page waits for.
        tokio::select! {
            Some(page) = page => match page {
                Ok(Page { of_accounts, next }) => {
                    // The last account of a full page may have more.
                    round.leaves_some |= next.is_some();
                    reading = next.map(|after| page_after(engine, after).boxed());
                    waiting = of_accounts;
                }
                Err(error) => (reading, failed) = (None, Some(error)),
            },
            Some(made) = under_way.next() => round.add(&made),
            else => break,
        }
    }
    failed.map_or(Ok(round), Err)
}

/// Due events, by account.
struct Page {
    of_accounts: VecDeque<Vec<Stored>>,
    /// After which account the next page begins. None: this is the last one.
    next: Option<String>,
}

async fn page_after(engine: &Arc<Engine>, after: String) -> Result<Page, store::Error> {
    let found = events::due(&engine.app, &after, BATCH).await?;
    let is_full = i64::try_from(found.len()).is_ok_and(|count| count >= BATCH);
    let last = found.last().filter(|_| is_full);
    let next = last.map(|event| event.account.as_str().to_owned());
    let of_accounts = found.chunk_by(|a, b| a.account == b.account).map(<[Stored]>::to_vec);
    Ok(Page { of_accounts: of_accounts.collect(), next })
}

/// Makes deliveries of events that were handed over. What is not made now is found in the database
/// two seconds later.
pub(super) async fn of_hand(engine: &Arc<Engine>, env: Env) {
    let found = events::in_hand(&engine.app, env);
    let accounts = stream::iter(found.chunk_by(|a, b| a.account == b.account));
    let work = accounts.for_each_concurrent(PARALLEL, async |of_account| {
        let Some(targets) = targets_of(engine, of_account).await else { return };
        let left = lend(engine, of_account, &targets);
        // The others' events wait for all of these: what is left of very many takes turns.
        for some in left.chunks(at_once(&targets)).take(MOST_SETS) {
            deliver_all(engine, some, &targets).await;
        }
    });
    work.await;
}

/// The events of one account. Those that are not done are due again.
async fn fan_out(engine: &Arc<Engine>, found: Vec<Stored>) -> Made {
    let of = found.len();
    let Some(targets) = targets_of(engine, &found).await else { return Made { done: 0, of } };
    // The rest waits for the next round, so that the other accounts do not wait for it.
    let now = found.get(..at_once(&targets)).unwrap_or(&found);
    Made { done: deliver_all(engine, now, &targets).await, of }
}

/// Events worked on in one write set.
fn at_once(targets: &[Target]) -> usize {
    (MOST_DELIVERIES / targets.len().max(1)).max(1)
}

/// The targets that the account of these events has.
async fn targets_of(engine: &Arc<Engine>, found: &[Stored]) -> Option<Vec<Target>> {
    let account = &found.first()?.account;
    match engine.app.db.rows::<Target>(sql::ACTIVE, args![account]).await {
        Ok(targets) => {
            if !targets.is_empty() {
                events::heard(&engine.app, account);
            }
            Some(targets)
        }
        Err(error) => {
            failed(&error);
            None
        }
    }
}

/// Lends to lanes of this node what one target wants. Answers the others.
fn lend(engine: &Arc<Engine>, found: &[Stored], targets: &[Target]) -> Vec<Stored> {
    let now = engine.app.now();
    let mut left = Vec::new();
    let mut loans: Vec<Vec<Loan>> = targets.iter().map(|_| Vec::new()).collect();
    for event in found {
        let all = targets.iter().zip(&mut loans);
        let mut wanting = all.filter(|(target, _)| target.patterns.matches(&event.kind));
        let place = Arc::clone(&engine.loans).try_acquire_owned();
        match (wanting.next(), wanting.next(), &event.body, place) {
            (Some((target, loans)), None, Some(body), Ok(place)) => {
                let job = job(event, target, Bytes::from(body.clone()), now);
                let event = Stored { body: None, ..event.clone() };
                loans.push(Loan { job, event, place });
            }
            _ => left.push(event.clone()),
        }
    }
    for (target, loans) in targets.iter().zip(loans).filter(|(_, loans)| !loans.is_empty()) {
        let back = engine.lend(target, loans).err().unwrap_or_default();
        left.extend(back.into_iter().map(Loan::into_event));
    }
    left
}

/// Answers how many events are done.
async fn deliver_all(engine: &Arc<Engine>, found: &[Stored], targets: &[Target]) -> usize {
    match deliver(engine, found, targets).await {
        Ok(()) => found.len(),
        // One that cannot be done keeps the others of its set from it no longer.
        Err(_) if found.len() > 1 => one_by_one(engine, found, targets).await,
        Err(error) => failed(&error),
    }
}

async fn one_by_one(engine: &Arc<Engine>, found: &[Stored], targets: &[Target]) -> usize {
    let mut done = 0;
    for event in found {
        done += match deliver(engine, std::slice::from_ref(event), targets).await {
            Ok(()) => 1,
            Err(error) => failed(&error),
        };
    }
    done
}

fn failed(error: &dyn std::fmt::Display) -> usize {
    tracing::warn!(%error, "deliveries of an event not made; trying again");
    0
}

async fn deliver(engine: &Arc<Engine>, found: &[Stored], targets: &[Target]) -> Result<(), Error> {
    let app = &engine.app;
    let now = app.now();
    let mut jobs: Vec<Vec<Job>> = targets.iter().map(|_| Vec::new()).collect();
    let Some(first) = found.first() else { return Ok(()) };
    let account = &first.account;
    let mut set = WriteSet::of(account.as_str());
    // Rows of one table come one after the other: an engine may write them at once.
    let mut rows = Vec::new();
    // At once, so that the engine may read what many of them are about together.
    let bodies = try_join_all(found.iter().map(async |event| {
        let is_wanted = targets.iter().any(|target| target.patterns.matches(&event.kind));
        if is_wanted { events::render(app, event).await.map(Some) } else { Ok(None) }
    }));
    for (event, body) in found.iter().zip(bodies.await?) {
        events::done(app, &mut set, event);
        let Some(body) = body else { continue };
        let wanted = |target: &&Target| target.patterns.matches(&event.kind);
        let body = Bytes::from(body);
        for (target, jobs) in targets.iter().zip(&mut jobs) {
            if wanted(&target) {
                let job = job(event, target, body.clone(), now);
                let (id, kind) = (&target.id, event.kind.as_str());
                rows.push(args![account, id, &job.delivery, &event.id, kind, 0_i64, now]);
                jobs.push(job);
            }
        }
    }
    for row in rows {
        set.push(sql::DELIVER, row);
    }
    let lease = now + LEASE_MS;
    for (target, jobs) in targets.iter().zip(&jobs) {
        if !jobs.is_empty() {
            set.returning_rows(sql::WAKE, args![now, app.node, lease, account, &target.id]);
        }
    }
    let done = match app.db.commit(set).await {
        Ok(done) => done,
        // Another node has taken one of the events over, because this one was slow.
        Err(CommitError::Rejected(_)) if found.len() == 1 => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let jobs = jobs.into_iter().filter(|jobs| !jobs.is_empty());
    for (rows, jobs) in done.rows.into_iter().zip(jobs) {
        // No row: the target was deleted meanwhile.
        for row in rows {
            engine.hand_over(store::FromRow::from_row(row)?, jobs.clone());
        }
    }
    Ok(())
}

fn job(event: &Stored, target: &Target, body: Bytes, now: clock::Millis) -> Job {
    Job {
        delivery: delivery_id(&event.id, &target.id),
        event: event.id.clone(),
        body,
        step: 0,
        attempts: 0,
        due_at: now,
        is_asked_for: false,
    }
}
