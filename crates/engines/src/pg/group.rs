//! A group of sets in one transaction: BEGIN and all statements leave in one burst, the row counts
//! are looked at, and COMMIT or ROLLBACK follows. So a group costs two round trips, however many
//! sets it has.
//!
//! A set that fails costs its group one more burst, however many fail: in it the good sets run
//! again, and after them, each undone at once, those that failed, to see whether they fail by
//! themselves or failed only because of each other. Those are refused, these go into the next
//! group.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::time::timeout;

use super::failure::Failure;
use super::opening::PLANS;
use super::pipeline::Pipeline;
use super::queue::{Job, Outcome};
use super::steps::{
    Replies, SAVE, Step, Trial, UNDO, Unsure, Verdict, Way, bulk_texts, jobs_of, outcome, settle,
    steps,
};
use super::texts::misuse;
use super::writer::{CommitId, MARK, Writer};
use store::{Fault, Sql, Stmt};

use super::Settings;

/// Rounds of a group before its sets are taken one by one.
const TOGETHER: u32 = 3;
/// How often a single set is tried against deadlocks.
const ALONE: u32 = 5;
/// Losses of a connection after which a set is suspected of causing them.
const SUSPICIOUS: u8 = 1;
/// And after which it is given up.
const HOPELESS: u8 = 3;
/// Longest pause before the same is tried again after a deadlock, in milliseconds.
const CLASH_PAUSE_MS: u64 = 40;

/// Why a batcher must get another connection.
pub(super) enum Halt {
    /// It was lost before COMMIT was sent: nothing of these sets happened.
    Lost { jobs: Vec<Job>, why: String },
    /// COMMIT was sent and not answered.
    Unknown(Unknown),
}

/// A transaction whose COMMIT was not answered.
pub(super) struct Unknown {
    pub(super) id: CommitId,
    /// Sets, and what to answer if it was committed.
    pub(super) kept: Vec<(Job, Outcome)>,
    /// Sets that were not in it.
    pub(super) others: Vec<Job>,
    pub(super) why: String,
}

/// Why a transaction did not come to its end.
enum Stop {
    Lost(String),
    Clash(String),
    Broken(String),
    /// Sets that ran together got in each other's way: they are tried again, one after the other.
    Unsure,
}

/// Executes groups on one connection.
pub(super) struct Groups<'b> {
    pub(super) connection: &'b mut Pipeline,
    pub(super) writer: &'b Writer,
    pub(super) settings: &'b Settings,
}

impl Groups<'_> {
    /// Executes all sets and answers each, unless the connection is lost.
    pub(super) async fn commit(&mut self, jobs: Vec<Job>) -> Result<(), Halt> {
        let mut pending = self.vetted(jobs).await?;
        self.connection.refresh_plans().await;
        let mut rounds = 0;
        while !pending.is_empty() {
            let is_safe = pending.iter().all(|job| job.losses <= SUSPICIOUS);
            pending = if pending.len() > 1 && rounds < TOGETHER && is_safe {
                self.together(pending).await?
            } else {
                self.one_by_one(pending).await?;
                Vec::new()
            };
            rounds += 1;
        }
        Ok(())
    }

    /// Answers the sets whose texts or arguments cannot be used, and returns the others.
    async fn vetted(&mut self, jobs: Vec<Job>) -> Result<Vec<Job>, Halt> {
        let texts = || jobs.iter().flat_map(|job| job.set.stmts()).map(|stmt| stmt.sql);
        let all = texts().chain(self.own_texts());
        if let Err((_, failure)) = self.prepare(all).await {
            if let Failure::Lost(why) = failure {
                return Err(Halt::Lost { jobs, why });
            }
            return self.vetted_singly(jobs).await;
        }
        Ok(jobs.into_iter().filter_map(|job| self.accept(job)).collect())
    }

    /// What is in each transaction beside its sets.
    fn own_texts(&self) -> Vec<Sql> {
        self.settings.opening.texts().chain([MARK, SAVE, UNDO]).collect()
    }

    async fn vetted_singly(&mut self, jobs: Vec<Job>) -> Result<Vec<Job>, Halt> {
        let own = self.own_texts();
        let mut good = Vec::with_capacity(jobs.len());
        let mut jobs = jobs.into_iter();
        while let Some(job) = jobs.next() {
            let texts = job.set.stmts().iter().map(|stmt| stmt.sql).chain(own.iter().copied());
            match self.prepare(texts).await {
                Ok(()) => good.extend(self.accept(job)),
                Err((_, Failure::Lost(why))) => {
                    good.push(job);
                    good.extend(jobs);
                    return Err(Halt::Lost { jobs: good, why });
                }
                Err((_, failure)) => blame(job, failure.text()),
            }
        }
        Ok(good)
    }

    async fn prepare(&mut self, texts: impl Iterator<Item = Sql>) -> Result<(), (Sql, Failure)> {
        match timeout(self.settings.patience, self.connection.prepare(texts)).await {
            Ok(prepared) => prepared,
            Err(_) => Err((MARK, Failure::Lost(silence()))),
        }
    }

    fn accept(&mut self, job: Job) -> Option<Job> {
        let checked = job.set.stmts().iter().try_for_each(|stmt| {
            self.connection.check(stmt.sql, &stmt.args)?;
            injected(self.settings.fault.as_ref(), stmt)
        });
        match checked {
            Ok(()) => Some(job),
            Err(failure) => {
                blame(job, failure.text());
                None
            }
        }
    }

    /// One round of a group; returns the sets that have no answer yet.
    async fn together(&mut self, pending: Vec<Job>) -> Result<Vec<Job>, Halt> {
        let trials = pending.into_iter().map(Trial::of).collect();
        let (id, mut trials) = match self.any_burst(trials).await {
            Ok(done) => done,
            Err((stop, jobs)) => return self.stopped(stop, jobs).await,
        };
        if trials.iter().all(Trial::is_good) {
            return self.finish(id, trials).await;
        }
        self.roll_back().await;
        let (late, rest): (Vec<_>, Vec<_>) =
            trials.into_iter().partition(|trial| matches!(trial.verdict, Verdict::Late(_)));
        late.into_iter().for_each(settle);
        trials = rest;
        for trial in &mut trials {
            trial.is_suspect = !trial.is_good();
        }
        let (id, trials) = match self.any_burst(trials).await {
            Ok(done) => done,
            Err((stop, jobs)) => return self.stopped(stop, jobs).await,
        };
        if trials.iter().any(|trial| !trial.is_suspect && !trial.is_good()) {
            // Another process was faster with something.
            self.roll_back().await;
            return Ok(jobs_of(trials));
        }
        self.finish(id, trials).await
    }

    /// Each set in a transaction of its own.
    async fn one_by_one(&mut self, pending: Vec<Job>) -> Result<(), Halt> {
        let mut pending = pending.into_iter();
        while let Some(job) = pending.next() {
            if let Err(halt) = self.alone(job).await {
                return Err(match halt {
                    Halt::Lost { mut jobs, why } => {
                        jobs.extend(pending);
                        Halt::Lost { jobs, why }
                    }
                    Halt::Unknown(mut unknown) => {
                        unknown.others.extend(pending);
                        Halt::Unknown(unknown)
                    }
                });
            }
        }
        Ok(())
    }

    async fn alone(&mut self, mut job: Job) -> Result<(), Halt> {
        if job.losses >= HOPELESS {
            job.fail("the database connection was lost each time this was tried");
            return Ok(());
        }
        for tries in 0..ALONE {
            let trial = vec![Trial::of(job)];
            let ran = if tries == 0 {
                self.any_burst(trial).await
            } else {
                self.burst(trial, false).await
            };
            let left = match ran {
                Ok((id, trials)) if trials.iter().all(Trial::is_good) => {
                    self.finish(id, trials).await?
                }
                Ok((_, trials)) => {
                    self.roll_back().await;
                    trials.into_iter().for_each(settle);
                    return Ok(());
                }
                Err((stop, jobs)) => self.stopped(stop, jobs).await?,
            };
            match left.into_iter().next() {
                Some(again) => job = again,
                None => return Ok(()),
            }
        }
        job.fail("the set met a deadlock each time it was tried");
        Ok(())
    }

    /// A burst in which sets run together what they may, unless they get in each other's way.
    async fn any_burst(
        &mut self,
        trials: Vec<Trial>,
    ) -> Result<(CommitId, Vec<Trial>), (Stop, Vec<Job>)> {
        let may = self.connection.bulk_pace.may();
        match if may { self.knows_bulk(&trials).await } else { Ok(false) } {
            Ok(true) => {}
            Ok(false) => return self.burst(trials, false).await,
            Err(stop) => return Err((stop, jobs_of(trials))),
        }
        let suspects: Vec<bool> = trials.iter().map(|trial| trial.is_suspect).collect();
        match self.burst(trials, true).await {
            Err((Stop::Unsure, jobs)) => {
                self.connection.bulk_pace.missed();
                self.roll_back().await;
                let again = |(job, is_suspect)| Trial { is_suspect, ..Trial::of(job) };
                self.burst(jobs.into_iter().zip(suspects).map(again).collect(), false).await
            }
            ran => {
                self.connection.bulk_pace.went_well();
                ran
            }
        }
    }

    /// Whether there is anything that these sets may run together, once the server was asked. One
    /// that does not answer in time leaves the connection of no use: what it says later would be
    /// taken for the answer to something else.
    async fn knows_bulk(&mut self, trials: &[Trial]) -> Result<bool, Stop> {
        let texts = bulk_texts(trials);
        match self.prepare(PLANS.into_iter()).await {
            Ok(()) => {}
            Err((_, Failure::Lost(why))) => return Err(Stop::Lost(why)),
            // A server that knows at once that it lacks one of the settings.
            Err(_) => return Ok(false),
        }
        let learn = self.connection.learn_bulk(texts.iter().copied());
        match timeout(self.settings.patience, learn).await {
            Ok(Ok(())) => Ok(texts.iter().any(|sql| self.connection.bulk(*sql).is_some())),
            Ok(Err(failure)) => Err(Stop::Lost(failure.text().to_owned())),
            Err(_) => Err(Stop::Lost(silence())),
        }
    }

    /// Sends a transaction without its end, and waits for all replies.
    async fn burst(
        &mut self,
        mut trials: Vec<Trial>,
        is_bulk: bool,
    ) -> Result<(CommitId, Vec<Trial>), (Stop, Vec<Job>)> {
        let id = self.writer.new_commit();
        let mark = self.writer.mark_args(&id);
        let Settings { patience, opening, .. } = self.settings;
        let ran = {
            let way = if is_bulk { Way::Together(self.connection) } else { Way::Singly };
            let steps = steps(&trials, opening, &mark, way);
            let run = self.run(&steps, &trials, is_bulk);
            timeout(*patience, run).await.unwrap_or_else(|_| Err(Stop::Lost(silence())))
        };
        match ran {
            Ok(verdicts) => {
                for (trial, verdict) in trials.iter_mut().zip(verdicts) {
                    trial.verdict = verdict;
                }
                Ok((id, trials))
            }
            Err(stop) => Err((stop, jobs_of(trials))),
        }
    }

    async fn run(
        &mut self,
        steps: &[Step<'_>],
        trials: &[Trial],
        is_bulk: bool,
    ) -> Result<Vec<Verdict>, Stop> {
        let requests: Vec<_> = steps.iter().map(Step::request).collect();
        let replies = self.connection.run_all(&requests).await;
        let replies = replies.map_err(|failure| Stop::Lost(failure.text().to_owned()))?;
        let mut found = Replies::of(trials);
        for (step, reply) in steps.iter().zip(replies) {
            match (step, reply) {
                (_, Err(Failure::Lost(why))) => return Err(Stop::Lost(why)),
                // Also where somebody cancelled what waits for nothing, and so all behind it.
                (_, Err(Failure::Clash(why))) | (Step::First(_), Err(Failure::Late(why))) => {
                    return Err(Stop::Clash(why));
                }
                (_, Err(Failure::Broken(why))) => return Err(Stop::Broken(why)),
                (Step::Stmt { at, .. }, reply) => found.note(*at, reply),
                (Step::Bulk { at, answer, .. }, reply) => {
                    found.note_all(at, *answer, reply).map_err(|Unsure| Stop::Unsure)?;
                }
                // A server without one of the settings that plans are pinned by.
                (Step::Own(..), Err(Failure::Own(_))) if is_bulk => return Err(Stop::Unsure),
                // After the error of a set these are skipped, too.
                (_, Ok(_) | Err(Failure::Skipped)) => {}
                (_, Err(failure)) => return Err(Stop::Broken(failure.text().to_owned())),
            }
        }
        found.verdicts(trials).map_err(|Unsure| Stop::Unsure)
    }

    /// Commits, answers, and returns the sets that only failed because of others.
    async fn finish(&mut self, id: CommitId, trials: Vec<Trial>) -> Result<Vec<Job>, Halt> {
        let (innocent, kept): (Vec<_>, Vec<_>) =
            trials.into_iter().partition(|trial| trial.is_suspect && trial.is_good());
        let innocent = jobs_of(innocent);
        if kept.iter().all(|trial| trial.is_suspect) {
            self.roll_back().await;
            kept.into_iter().for_each(settle);
            return Ok(innocent);
        }
        let patience = self.settings.patience;
        let committed = timeout(patience, self.connection.commit()).await;
        let why = match committed {
            Ok(Ok(())) => {
                let sets = kept.iter().filter(|trial| trial.is_good()).count();
                self.settings.groups.count(sets);
                kept.into_iter().for_each(settle);
                return Ok(innocent);
            }
            // The server says that it did not commit.
            Ok(Err(Failure::Clash(why) | Failure::Own(why))) => {
                let mut jobs = jobs_of(kept);
                jobs.extend(innocent);
                return self.stopped(Stop::Clash(why), jobs).await;
            }
            Ok(Err(failure)) => failure.text().to_owned(),
            Err(_) => silence(),
        };
        let kept = kept.into_iter().map(outcome).collect();
        Err(Halt::Unknown(Unknown { id, kept, others: innocent, why }))
    }

    /// What becomes of the sets of a transaction that stopped half-way.
    async fn stopped(&mut self, stop: Stop, mut jobs: Vec<Job>) -> Result<Vec<Job>, Halt> {
        match stop {
            Stop::Lost(why) => {
                for job in &mut jobs {
                    job.losses = job.losses.saturating_add(1);
                }
                Err(Halt::Lost { jobs, why })
            }
            Stop::Clash(why) => {
                tracing::info!(why, sets = jobs.len(), "a group met another and is tried again");
                self.roll_back().await;
                let pause_ms = 1 + self.writer.clock().below(CLASH_PAUSE_MS);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                Ok(jobs)
            }
            // Only a burst that runs sets together says so, and whoever sends that sends it again.
            Stop::Unsure => Ok(jobs),
            Stop::Broken(why) => {
                tracing::warn!(why, sets = jobs.len(), "a group could not be made durable");
                self.roll_back().await;
                for job in jobs {
                    job.fail(&why);
                }
                Ok(Vec::new())
            }
        }
    }

    /// Sent, not waited for: what comes next comes after it.
    async fn roll_back(&mut self) {
        let _ignored = self.connection.tell("ROLLBACK").await;
    }
}

fn blame(job: Job, why: &str) {
    tracing::warn!(error = why, shard = job.set.shard(), "a set failed");
    job.fail(why);
}

fn silence() -> String {
    "the server does not answer".to_owned()
}

/// A test may sleep or panic here; a panic costs its set only.
fn injected(fault: Option<&Fault>, stmt: &Stmt) -> Result<(), Failure> {
    let Some(fault) = fault else { return Ok(()) };
    catch_unwind(AssertUnwindSafe(|| fault(stmt)))
        .map_err(|_| misuse("executing the set panicked", stmt.sql))
}
