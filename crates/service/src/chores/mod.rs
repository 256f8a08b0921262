//! Rank 2: chores. Work that nobody waits for, such as forgetting what is old: due again and again,
//! done by one node at a time, a chunk at a time with pauses between. What the chores are, wiring
//! hands in as plain functions.
//!
//! A row for each chore in the database holds a lease. A node that dies keeps it for a minute at
//! most. The lease spares work and load; nothing relies on it for being right: every chunk of every
//! chore may be done twice, at the same time, on two nodes.
//!
//! Chores go by the time that the [`Witness`] believes, not by the clock alone.

mod store;
#[cfg(test)]
mod tests;
mod turn;
mod witness;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::store::{CommitError, Db, Reject, WriteSet, args};
use clock::{Clock, Millis};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use self::store as sql;
use crate::kit::words::words;
pub use turn::Turn;
pub use witness::{Judged, Witness, confirm, judge};

/// How often due chores are looked for, milliseconds.
const PAUSE_MS: i64 = clock::MINUTE;
/// A chore that failed is due again after this, milliseconds.
const RETRY_MS: i64 = 5 * clock::MINUTE;
/// What nodes' clocks may differ by, milliseconds, before a time is taken for that of a wrong one.
const SLACK_MS: i64 = clock::MINUTE;
const TAKEN: Reject = Reject("chore_taken");

/// Why a chore failed, for the log.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
/// What a chore does; its answer is kept as the chore's result and logged. No personal data.
pub type Work = Box<dyn Fn(Arc<Turn>) -> BoxFuture<'static, Result<Value, Fault>> + Send + Sync>;

/// Something to do again and again.
pub struct Chore {
    /// Its name in the database, the log and the metrics.
    pub name: &'static str,
    /// From its end until it is due again, milliseconds.
    pub every_ms: i64,
    /// What is done.
    pub work: Work,
}

/// What is known of a chore, whichever node did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// When it was done last.
    pub done_at: Millis,
    /// What came of it.
    pub result: Value,
}

words! {
    /// How one turn of this node ended.
    pub enum Ending {
        /// Done until it is due again.
        Done = "done",
        /// Left unfinished: this process stops, or another node has taken over.
        Left = "left",
        /// It failed, and is tried again.
        Failed = "failed",
    }
}

/// What chores work with.
pub struct Means {
    /// The database that has their rows.
    pub db: Db,
    /// The clock.
    pub clock: Clock,
    /// Whom they believe the time.
    pub witness: Arc<Witness>,
}

/// Chores that this process does one after the other, so that together they take a bounded share of
/// the machine.
pub struct Worker {
    db: Db,
    clock: Clock,
    witness: Arc<Witness>,
    node: String,
    pause: Duration,
    list: Vec<Chore>,
    stopped: watch::Receiver<bool>,
}

impl Worker {
    /// Puts them together; `pause` is the shortest one between two chunks.
    #[must_use]
    pub fn new(
        means: Means,
        pause: Duration,
        chores: Vec<Chore>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let Means { db, clock, witness } = means;
        let node = clock.id("nod");
        Self { db, clock, witness, node, pause, list: chores, stopped }
    }

    /// Does what is due, once a minute, until the process stops. `told` hears of every turn.
    pub async fn run(&self, told: impl Fn(&'static str, Ending)) {
        let mut stopped = self.stopped.clone();
        loop {
            tokio::select! {
                () = self.clock.sleep(PAUSE_MS) => {}
                // An error means that the sender is gone: stop as well.
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let done = match self.witness.look().await {
                Ok(_judged) => self.run_due(&told).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = done {
                tracing::warn!(error, "chores not read; trying again in a minute");
            }
        }
    }

    /// Does what is due now and what no other node has.
    async fn run_due(&self, told: &impl Fn(&'static str, Ending)) -> Result<(), ::store::Error> {
        let rows = rows(&self.db).await?;
        for chore in &self.list {
            let row = rows.iter().find(|row| row.name == chore.name);
            let is_waiting = row.is_some_and(|row| self.bounds(chore).keep(row));
            if *self.stopped.borrow() || is_waiting {
                continue;
            }
            match self.take(chore).await {
                Ok(ending) => told(chore.name, ending),
                Err(CommitError::Rejected(_)) => {}
                Err(error) => tracing::warn!(%error, chore = chore.name, "chore not taken or kept"),
            }
        }
        Ok(())
    }

    fn bounds(&self, chore: &Chore) -> Bounds {
        let now = self.witness.now();
        let next_at = now + chore.every_ms.max(RETRY_MS) + SLACK_MS;
        Bounds { now, next_at, lease_until: now + turn::LEASE_MS + SLACK_MS }
    }

    /// Takes a chore, does it and gives it back.
    async fn take(&self, chore: &Chore) -> Result<Ending, CommitError> {
        let name = chore.name;
        let Bounds { now, next_at, lease_until: longest } = self.bounds(chore);
        let lease_until = now + turn::LEASE_MS;
        let node = self.node.as_str();
        let mut set = WriteSet::of(name);
        set.guard(sql::CLAIM, args![name, node, lease_until, now, next_at, longest], TAKEN);
        self.db.commit(set).await?;
        let since = Instant::now();
        let turn = Arc::new(Turn {
            db: self.db.clone(),
            witness: Arc::clone(&self.witness),
            name,
            holder: self.node.clone(),
            pause: self.pause,
            stopped: self.stopped.clone(),
            lease_until: Mutex::new(lease_until),
            since: Mutex::new(since),
            is_over: AtomicBool::new(false),
        });
        // On a task of its own, so that a panic ends one turn and not all chores.
        let done = tokio::spawn((chore.work)(Arc::clone(&turn))).await;
        let done = done.unwrap_or_else(|panicked| Err(panicked.into()));
        let seconds = since.elapsed().as_secs_f64();
        let now = self.witness.now();
        let mut set = WriteSet::of(name);
        let ending = match done {
            Ok(result) if !turn.is_over() => {
                tracing::info!(chore = name, seconds, %result, "chore done");
                let next_at = now + chore.every_ms;
                set.push(sql::FINISH, args![next_at, now, result.to_string(), name, node]);
                Ending::Done
            }
            Ok(result) => {
                tracing::info!(chore = name, seconds, %result, "chore left unfinished");
                set.push(sql::RELEASE, args![now, name, node]);
                Ending::Left
            }
            Err(error) => {
                tracing::warn!(chore = name, seconds, %error, "chore failed; trying again later");
                set.push(sql::RELEASE, args![now + RETRY_MS, name, node]);
                Ending::Failed
            }
        };
        self.db.commit(set).await?;
        Ok(ending)
    }
}

/// Between now and these a chore can be due again, or a lease can end. What lies further ahead was
/// written by a clock that was wrong, and nobody waits for it.
struct Bounds {
    now: Millis,
    next_at: Millis,
    lease_until: Millis,
}

impl Bounds {
    fn keep(&self, row: &sql::ChoreRow) -> bool {
        let is_ahead = |at: Millis, latest: Millis| self.now < at && at <= latest;
        is_ahead(row.next_at, self.next_at) || is_ahead(row.lease_until, self.lease_until)
    }
}

/// What is known of all chores, by whichever node.
///
/// # Errors
/// When the database cannot be read.
pub async fn known(db: &Db) -> Result<Vec<Known>, ::store::Error> {
    let known = |row: sql::ChoreRow| {
        let result = serde_json::from_str(&row.result).unwrap_or_default();
        Some(Known { name: row.name, done_at: row.done_at?, result })
    };
    Ok(rows(db).await?.into_iter().filter_map(known).collect())
}

async fn rows(db: &Db) -> Result<Vec<sql::ChoreRow>, ::store::Error> {
    db.rows(sql::CHORES, args![""]).await
}
