//! The writer thread. It takes the sets that wait, runs them in one transaction, flushes once
//! and answers all of them. A set that fails half-way costs its group a second run, set by set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Checkpoints;
use super::kept::Kept;
use super::session::Failure;
use store::{
    CommitError, Done, Error, Expect, Fault, GroupCounter, Reject, SqliteOptions, Stmt, WriteSet,
};

/// What a caller learns of its set.
pub(super) type Outcome = Result<Done, CommitError>;

/// A set and who waits for it.
pub(super) struct Job {
    pub(super) set: WriteSet,
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// Why a set did not go through.
enum Miss {
    /// It was refused before it had written anything.
    Clean(Reject),
    /// It failed after it may have written something.
    Dirty(CommitError),
    /// The transaction cannot go on.
    Broken(String),
}

/// Why a transaction did not go through.
enum Halt {
    /// A set failed half-way or panicked.
    Replay,
    /// The database failed.
    Broken(String),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Broken(failure.error.into_why())
    }
}

/// Everything the thread owns.
pub(super) struct Writer<'c> {
    kept: Kept<'c>,
    jobs: mpsc::Receiver<Job>,
    checkpoints: Checkpoints,
    group: usize,
    groups: Arc<GroupCounter>,
    fault: Option<Fault>,
}

impl<'c> Writer<'c> {
    pub(super) fn new(
        conn: &'c Connection,
        jobs: mpsc::Receiver<Job>,
        checkpoints: Checkpoints,
        groups: Arc<GroupCounter>,
        options: &SqliteOptions,
    ) -> Self {
        let (group, fault) = (options.group.max(1), options.fault.clone());
        Self { kept: Kept::on(conn), jobs, checkpoints, group, groups, fault }
    }

    /// Until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut group = Vec::with_capacity(self.group);
        while self.jobs.blocking_recv_many(&mut group, self.group) > 0 {
            let outcomes = self.commit(&group);
            self.groups.count(group.len());
            for (job, outcome) in group.drain(..).zip(outcomes) {
                // A caller that went away needs no answer.
                let _ = job.answer.send(outcome);
            }
            self.checkpoints.between_groups(self.kept.conn);
        }
        self.checkpoints.finish(self.kept.conn);
    }

    fn commit(&mut self, group: &[Job]) -> Vec<Outcome> {
        // A set that is alone in its group needs no first run to find out who is to blame.
        let first = if group.len() > 1 { self.together(group) } else { Err(Halt::Replay) };
        let second = match first {
            Err(Halt::Replay) => self.roll_back().and_then(|()| self.one_by_one(group)),
            other => other,
        };
        let why = match second {
            Ok(outcomes) => return outcomes,
            Err(Halt::Broken(why)) => why,
            Err(Halt::Replay) => "the transaction was lost".to_owned(),
        };
        tracing::warn!(error = why, sets = group.len(), "a group could not be made durable");
        if let Err(Halt::Broken(error)) = self.roll_back() {
            tracing::warn!(error, "a group could not be rolled back");
        }
        group.iter().map(|_| Err(CommitError::Unavailable(why.clone()))).collect()
    }

    /// The fast way: no savepoints. Only a refusal that wrote nothing lets the others go on.
    fn together(&mut self, group: &[Job]) -> Result<Vec<Outcome>, Halt> {
        self.kept.run("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            outcomes.push(match self.guarded(&job.set) {
                Ok(done) => Ok(done),
                Err(Miss::Clean(reject)) => Err(CommitError::Rejected(reject)),
                Err(Miss::Dirty(_)) => return Err(Halt::Replay),
                Err(Miss::Broken(why)) => return Err(Halt::Broken(why)),
            });
        }
        self.kept.run("COMMIT")?;
        Ok(outcomes)
    }

    /// The exact way: each set in a savepoint, so that a bad one leaves no trace.
    fn one_by_one(&mut self, group: &[Job]) -> Result<Vec<Outcome>, Halt> {
        self.kept.run("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            self.kept.run("SAVEPOINT one")?;
            let ran = self.guarded(&job.set);
            if ran.is_err() && !self.kept.conn.is_autocommit() {
                self.kept.run("ROLLBACK TO one")?;
            }
            outcomes.push(match ran {
                Ok(done) => Ok(done),
                Err(Miss::Clean(reject)) => Err(CommitError::Rejected(reject)),
                Err(Miss::Broken(why)) => return Err(Halt::Broken(why)),
                Err(Miss::Dirty(error)) => {
                    if let CommitError::Unavailable(why) = &error {
                        tracing::warn!(error = why, shard = job.set.shard(), "a set failed");
                    }
                    Err(error)
                }
            });
            self.kept.run("RELEASE one")?;
        }
        self.kept.run("COMMIT")?;
        Ok(outcomes)
    }

    /// Runs a set and survives its panic.
    fn guarded(&mut self, set: &WriteSet) -> Result<Done, Miss> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.execute(set)));
        let missed = match ran {
            Ok(ran) => ran,
            Err(_) => Err(unavailable("executing the set panicked")),
        };
        match missed {
            // Some errors end the transaction by themselves, with everything in it.
            Err(Miss::Dirty(error)) if self.kept.conn.is_autocommit() => {
                Err(Miss::Broken(Error::from(error).into_why()))
            }
            other => other,
        }
    }

    fn execute(&mut self, set: &WriteSet) -> Result<Done, Miss> {
        let mut done = Done::default();
        let mut wrote = false;
        for stmt in set.stmts() {
            if let Some(fault) = &self.fault {
                fault(stmt);
            }
            let found = self.statement(stmt, &mut done)?;
            let (fits, reject) = match stmt.expect {
                Expect::One(reject) | Expect::Row(reject) => (found == 1, reject),
                Expect::None(reject) => (found == 0, reject),
                Expect::Any | Expect::Rows => {
                    wrote = true;
                    continue;
                }
            };
            let is_read = matches!(stmt.expect, Expect::None(_));
            if !fits && !wrote && (is_read || found == 0) {
                return Err(Miss::Clean(reject));
            }
            if !fits {
                return Err(Miss::Dirty(CommitError::Rejected(reject)));
            }
            wrote |= !is_read;
        }
        Ok(done)
    }

    /// Answers the number of rows that were changed or, if it returns rows, came back.
    fn statement(&mut self, stmt: &Stmt, done: &mut Done) -> Result<usize, Miss> {
        let ran = match stmt.expect {
            Expect::Any | Expect::One(_) => self.kept.execute(stmt.sql, &stmt.args),
            Expect::None(_) => self.kept.query(stmt.sql, &stmt.args).map(|rows| rows.len()),
            Expect::Row(_) | Expect::Rows => self.kept.query(stmt.sql, &stmt.args).map(|rows| {
                let found = rows.len();
                done.rows.push(rows);
                found
            }),
        };
        ran.map_err(|failure| {
            let why = failure.error.into_why();
            if failure.broken { Miss::Broken(why) } else { unavailable(&why) }
        })
    }

    fn roll_back(&mut self) -> Result<(), Halt> {
        if self.kept.conn.is_autocommit() {
            return Ok(());
        }
        self.kept.run("ROLLBACK").map_err(Halt::from)
    }
}

fn unavailable(why: &str) -> Miss {
    Miss::Dirty(CommitError::Unavailable(why.to_owned()))
}
