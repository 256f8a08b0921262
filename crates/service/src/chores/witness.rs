//! Two witnesses of the time, for work that cannot be undone. A clock that jumps a year ahead makes
//! everything look old; what is deleted then is gone when it is set right. So chores do not ask the
//! clock alone: the database says which instant was agreed on last, the process how much time has
//! passed since it read that. A step of more than a day that neither of them saw is not believed
//! until an operator says so.

use std::sync::{Mutex, PoisonError};

use ::store::{CommitError, Db, Error, WriteSet, args};
use clock::{Clock, DAY, Millis};

use super::store as sql;

/// The largest step of the clock that is believed at once, milliseconds: a restart over night.
const LARGEST_STEP: i64 = DAY;
/// What was agreed on is written down when it is so much later than what is written, milliseconds.
const WRITTEN_EVERY: i64 = 30_000;

/// Keeps the instant that was agreed on, and judges the clock by it.
pub struct Witness {
    db: Db,
    clock: Clock,
    agreed: Mutex<Agreed>,
}

/// What was agreed on last, and when that was by the process's own time.
#[derive(Clone, Copy)]
struct Agreed {
    at: Millis,
    monotonic_ms: i64,
    /// How often an operator has said what time it is.
    confirmations: i64,
}

/// What the clock says beside what the witnesses say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What the clock says.
    pub clock: Millis,
    /// What the witnesses say: the instant agreed on last and the time that has passed since.
    pub witnessed: Millis,
}

impl Judged {
    /// How far the clock is ahead; negative when it is behind. Milliseconds.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        self.clock - self.witnessed
    }

    /// Whether the clock is ahead by a step that nobody saw.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.ahead_ms() > LARGEST_STEP
    }

    /// The instant by which things are old. Never later than the clock says.
    #[must_use]
    pub fn believed(&self) -> Millis {
        if self.is_refused() { self.witnessed } else { self.clock }
    }
}

impl Witness {
    /// Reads what was agreed on last. A database that has nothing of the kind is believed by its
    /// newest rows, and an empty one by the clock.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn call(db: Db, clock: Clock) -> Result<Self, CommitError> {
        let (at, confirmations) = written(&db, &clock).await?;
        let agreed = Agreed { at, monotonic_ms: clock.monotonic_ms(), confirmations };
        let witness = Self { db, clock, agreed: Mutex::new(agreed) };
        let judged = witness.look().await?;
        if judged.is_refused() {
            warn(&judged);
        }
        Ok(witness)
    }

    /// What the clock says beside the witnesses, by what was read last.
    #[must_use]
    pub fn judged(&self) -> Judged {
        self.judge(self.agreed())
    }

    /// The instant by which things are old.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.judged().believed()
    }

    /// Hears of operators and of other nodes, and writes down what is agreed on now.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn look(&self) -> Result<Judged, CommitError> {
        let was_refused = self.judged().is_refused();
        let row = self.db.row(sql::WITNESS, args![ROW]).await?;
        let before = self.agreed();
        let (written, confirmations) = row.unwrap_or((Millis(0), before.confirmations));
        let passed = self.judge(before).witnessed;
        let latest =
            if confirmations == before.confirmations { written.max(passed) } else { written };
        let mut agreed =
            Agreed { at: latest, monotonic_ms: self.clock.monotonic_ms(), confirmations };
        let judged = self.judge(agreed);
        agreed.at = agreed.at.max(judged.believed());
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = agreed;
        if agreed.at - written >= WRITTEN_EVERY {
            let mut set = WriteSet::of("clock");
            set.push(sql::WITNESSED, args![ROW, agreed.at, confirmations]);
            self.db.commit(set).await?;
        }
        match (was_refused, judged.is_refused()) {
            (false, true) => warn(&judged),
            (true, false) => tracing::info!("the clock is believed again; nothing is held back"),
            _ => {}
        }
        Ok(judged)
    }

    fn agreed(&self) -> Agreed {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, agreed: Agreed) -> Judged {
        let passed_ms = self.clock.monotonic_ms() - agreed.monotonic_ms;
        Judged { clock: self.clock.now(), witnessed: agreed.at + passed_ms }
    }
}

/// The only row of its table.
const ROW: i64 = 1;

fn warn(judged: &Judged) {
    let ahead_s = judged.ahead_ms() / 1_000;
    tracing::error!(
        ahead_s,
        clock = %judged.clock,
        witnessed = %judged.witnessed,
        "the clock is ahead by a step that nobody saw; what it makes look old is kept. If it is \
         right: `estafette clock --confirm`"
    );
}

/// What was agreed on last, and how often an operator has spoken.
async fn written(db: &Db, clock: &Clock) -> Result<(Millis, i64), Error> {
    if let Some(row) = db.row(sql::WITNESS, args![ROW]).await? {
        return Ok(row);
    }
    let newest = db.row::<(Option<Millis>,)>(sql::NEWEST_ROW, args![""]).await?;
    let newest = newest.and_then(|(newest,)| newest);
    Ok((newest.unwrap_or(clock.now()), 0))
}

/// What the clock says beside what is written, for a process that has just begun.
///
/// # Errors
/// When the database cannot be read.
pub async fn judge(db: &Db, clock: &Clock) -> Result<Judged, Error> {
    let (witnessed, _) = written(db, clock).await?;
    Ok(Judged { clock: clock.now(), witnessed })
}

/// Adds to a set that an operator believes the clock: what it says counts as agreed on, for every
/// node within a minute.
pub fn confirm(set: &mut WriteSet, clock: &Clock) {
    set.push(sql::CONFIRM, args![ROW, clock.now()]);
}
