//! What one burst sends of the sets of a group, in which order, and what its replies say of each.
//!
//! Sets of the same texts, all of which may be run together, run each of them at once (see `bulk`):
//! they come side by side, not one after the other. Each must change a row of its own by each
//! statement. A burst in which two change the same, or one none, tells nothing ([`Unsure`]) and is
//! sent again set by set.

use std::collections::HashMap;

use super::bulk::Answer;
use super::connection::Reply;
use super::failure::Failure;
use super::opening::Opening;
use super::pipeline::Pipeline;
use super::queue::{Job, Outcome};
use super::request::Request;
use super::texts::place;
use super::writer::MARK;
use store::{Args, CommitError, Done, Expect, Reject, Sql, Stmt, Val};

/// Fewer sets than this are run one after the other: arrays cost something as well.
const TOGETHER_FROM: usize = 4;

/// Everything up to here can be undone.
pub(super) const SAVE: Sql = Sql("SAVEPOINT judged");
pub(super) const UNDO: Sql = Sql("ROLLBACK TO SAVEPOINT judged");

/// What a burst told of one set.
#[derive(Debug)]
pub(super) enum Verdict {
    Good(Done),
    Refused(Reject),
    Failed(String),
    /// It waited too long; trying again would wait as long.
    Late(String),
    /// An error before it ended the transaction.
    Unreached,
}

/// One set in a burst.
pub(super) struct Trial {
    pub(super) job: Job,
    /// It failed before, so it runs by itself and is undone.
    pub(super) is_suspect: bool,
    pub(super) verdict: Verdict,
}

impl Trial {
    pub(super) fn of(job: Job) -> Self {
        Self { job, is_suspect: false, verdict: Verdict::Unreached }
    }

    pub(super) fn is_good(&self) -> bool {
        matches!(self.verdict, Verdict::Good(_))
    }

    fn shard(&self) -> &str {
        self.job.set.shard()
    }

    fn stmts(&self) -> &[Stmt] {
        self.job.set.stmts()
    }
}

/// A statement of a set of a burst.
#[derive(Clone, Copy)]
pub(super) struct Place {
    trial: usize,
    index: usize,
}

/// One thing that is sent in a burst.
pub(super) enum Step<'t> {
    /// BEGIN, and what goes back to a savepoint. Where it fails nothing that depends on it runs:
    /// outside of a transaction that would be durable at once, and nobody could refuse it.
    First(Sql),
    /// A limit of the transaction, or the mark that it leaves.
    Own(Sql, &'t Args),
    Stmt {
        at: Place,
        stmt: &'t Stmt,
    },
    /// The same statement of several sets.
    Bulk {
        at: Vec<Place>,
        args: Vec<&'t Args>,
        stmt: &'t Stmt,
        answer: Answer,
    },
}

impl<'t> Step<'t> {
    pub(super) fn request(&self) -> Request<'_> {
        match self {
            Self::First(sql) => Request::First(*sql),
            Self::Own(sql, args) => Request::Bound { sql: *sql, args },
            Self::Stmt { stmt, .. } => Request::Bound { sql: stmt.sql, args: &stmt.args },
            Self::Bulk { stmt, args, .. } => Request::Bulk { sql: stmt.sql, args },
        }
    }

    fn one(trials: &'t [Trial], at: Place) -> Option<Self> {
        let stmt = trials.get(at.trial)?.stmts().get(at.index)?;
        Some(Self::Stmt { at, stmt })
    }

    fn bulk(trials: &'t [Trial], at: Vec<Place>, answer: Answer) -> Option<Self> {
        let stmts = at.iter().filter_map(|at| trials.get(at.trial)?.stmts().get(at.index));
        let stmts: Vec<&Stmt> = stmts.collect();
        let args = stmts.iter().map(|stmt| &stmt.args).collect();
        Some(Self::Bulk { at, args, stmt: stmts.first()?, answer })
    }
}

/// How a group is sent.
#[derive(Clone, Copy)]
pub(super) enum Way<'c> {
    /// Set by set.
    Singly,
    /// What may be run together is; the connection knows which texts may.
    Together(&'c Pipeline),
}

impl Way<'_> {
    /// What the statement answers where sets run it together; `None` = they may not.
    fn answer(self, stmt: &Stmt) -> Option<Answer> {
        let Self::Together(connection) = self else { return None };
        let answer = connection.bulk(stmt.sql)?;
        let is_search = answer == Answer::Places;
        match stmt.expect {
            Expect::None(_) => is_search.then_some(answer),
            Expect::Any | Expect::One(_) => (!is_search).then_some(answer),
            Expect::Row(_) | Expect::Rows => None,
        }
    }

    /// The same of a statement that one set runs several times in a row. Rows that it adds come to
    /// the same at once as in turn, however many are there already: of two with one key the second
    /// is dropped, or the server refuses both.
    fn answer_of_run(self, stmt: &Stmt) -> Option<Answer> {
        let answer = self.answer(stmt)?;
        let is_unasked = answer == Answer::Added && matches!(stmt.expect, Expect::Any);
        Some(if is_unasked { Answer::Unasked } else { answer })
    }
}

/// The texts of a group, where it has enough of them to run some together.
pub(super) fn bulk_texts(trials: &[Trial]) -> Vec<Sql> {
    let texts: Vec<Sql> = trials.iter().flat_map(Trial::stmts).map(|stmt| stmt.sql).collect();
    if texts.len() < 2 * TOGETHER_FROM { Vec::new() } else { texts }
}

/// The order in which a transaction is sent: by shard, so that two groups that change the same rows
/// of several shards lock them in one order, and neither waits for what the other has. Statements
/// that many sets contend for come last, so that such rows are locked shortly.
pub(super) fn steps<'t>(
    trials: &'t [Trial],
    opening: &'t Opening,
    mark: &'t Args,
    way: Way<'_>,
) -> Vec<Step<'t>> {
    let mut sorted: Vec<usize> = (0..trials.len()).collect();
    // Sets of one shard stay in their order.
    sorted.sort_by_key(|number| trials.get(*number).map(Trial::shard));
    let (suspects, good): (Vec<_>, Vec<_>) =
        sorted.into_iter().partition(|number| trials.get(*number).is_some_and(|t| t.is_suspect));
    let mut first = vec![Step::First(Opening::BEGIN)];
    let limits = opening.limits(matches!(way, Way::Together(_)));
    first.extend(limits.map(|sql| Step::Own(sql, &opening.no_args)));
    first.push(Step::Own(MARK, mark));
    let mut last: Vec<(&str, Step<'t>)> = Vec::new();
    let (classes, singles) = classes(trials, good, way);
    for number in singles {
        single(trials, number, way, &mut first, &mut last);
    }
    for class in &classes {
        together(trials, class, way, &mut first, &mut last);
    }
    last.sort_by_key(|(shard, _)| *shard);
    first.extend(last.into_iter().map(|(_, step)| step));
    undone(trials, &suspects, &mut first);
    first
}

/// The statements of a set that runs by itself. The same one several times in a row is one step.
fn single<'t>(
    trials: &'t [Trial],
    number: usize,
    way: Way<'_>,
    first: &mut Vec<Step<'t>>,
    last: &mut Vec<(&'t str, Step<'t>)>,
) {
    let Some(trial) = trials.get(number) else { return };
    let is_same = |one: &Stmt, next: &Stmt| place(one.sql) == place(next.sql);
    let mut index = 0;
    for run in trial.stmts().chunk_by(is_same) {
        let places = (index..).take(run.len()).map(|index| Place { trial: number, index });
        index += run.len();
        let answer = run.first().filter(|stmt| !stmt.is_contended && run.len() >= TOGETHER_FROM);
        let answer = answer.and_then(|stmt| way.answer_of_run(stmt));
        if let Some(answer) = answer.filter(|answer| *answer != Answer::Each) {
            first.extend(Step::bulk(trials, places.collect(), answer));
            continue;
        }
        for (at, stmt) in places.zip(run) {
            let step = Step::Stmt { at, stmt };
            if stmt.is_contended {
                last.push((trial.shard(), step));
            } else {
                first.push(step);
            }
        }
    }
}

/// Sets of the same texts that can be run together, and all others.
fn classes(trials: &[Trial], good: Vec<usize>, way: Way<'_>) -> (Vec<Vec<usize>>, Vec<usize>) {
    if matches!(way, Way::Singly) {
        return (Vec::new(), good);
    }
    let mut by_texts: HashMap<Vec<(usize, usize)>, Vec<usize>> = HashMap::new();
    let mut singles = Vec::new();
    for number in good {
        let Some(trial) = trials.get(number) else { continue };
        if trial.stmts().iter().all(|stmt| way.answer(stmt).is_some()) {
            let texts = trial.stmts().iter().map(|stmt| place(stmt.sql)).collect();
            by_texts.entry(texts).or_default().push(number);
        } else {
            singles.push(number);
        }
    }
    let (mut classes, few): (Vec<_>, Vec<_>) =
        by_texts.into_values().partition(|class| class.len() >= TOGETHER_FROM);
    classes.sort();
    singles.extend(few.into_iter().flatten());
    singles.sort_by_key(|number| trials.get(*number).map(Trial::shard));
    (classes, singles)
}

/// The statements of a class: each for all of its sets; contended ones for those of one shard, so
/// that shards are locked in one order.
fn together<'t>(
    trials: &'t [Trial],
    class: &[usize],
    way: Way<'_>,
    first: &mut Vec<Step<'t>>,
    last: &mut Vec<(&'t str, Step<'t>)>,
) {
    let Some(pattern) = class.first().and_then(|number| trials.get(*number)) else { return };
    let shard = |number: &usize| trials.get(*number).map_or("", Trial::shard);
    for (index, stmt) in pattern.stmts().iter().enumerate() {
        let Some(answer) = way.answer(stmt) else { continue };
        let places = |members: &[usize]| {
            members.iter().map(|number| Place { trial: *number, index }).collect::<Vec<_>>()
        };
        let one = |at: &Place| Step::one(trials, *at);
        if answer == Answer::Each {
            let steps = places(class).iter().filter_map(one).collect::<Vec<_>>();
            if stmt.is_contended {
                last.extend(class.iter().map(shard).zip(steps));
            } else {
                first.extend(steps);
            }
            continue;
        }
        if !stmt.is_contended {
            first.extend(Step::bulk(trials, places(class), answer));
            continue;
        }
        for members in class.chunk_by(|one, next| shard(one) == shard(next)) {
            let places = places(members);
            let step = match places.as_slice() {
                [only] => one(only),
                _ => Step::bulk(trials, places, answer),
            };
            last.extend(step.map(|step| (members.first().map_or("", shard), step)));
        }
    }
}

/// Adds the sets that failed before: each is undone at once. Contended statements come last here,
/// too: all transactions lock in one order.
fn undone<'t>(trials: &'t [Trial], suspects: &[usize], steps: &mut Vec<Step<'t>>) {
    for (before, number) in suspects.iter().enumerate() {
        let Some(trial) = trials.get(*number) else { continue };
        steps.push(Step::First(if before == 0 { SAVE } else { UNDO }));
        let mut stmts: Vec<_> = trial.stmts().iter().enumerate().collect();
        stmts.sort_by_key(|(_, stmt)| stmt.is_contended);
        for (index, stmt) in stmts {
            steps.push(Step::Stmt { at: Place { trial: *number, index }, stmt });
        }
    }
    if !suspects.is_empty() {
        steps.push(Step::First(UNDO));
    }
}

/// What was replied to the statements of each set.
pub(super) struct Replies {
    of_sets: Vec<Vec<Option<Result<Reply, Failure>>>>,
    /// Sets that ran a statement together did not change a row each.
    is_unsure: bool,
    /// A search told which set is refused, so there will be another burst, without that one.
    is_told: bool,
}

/// Sets that ran together did not all get what they need, and nothing says which.
#[derive(Debug)]
pub(super) struct Unsure;

impl Replies {
    pub(super) fn of(trials: &[Trial]) -> Self {
        let nothing = |trial: &Trial| trial.stmts().iter().map(|_| None).collect();
        let of_sets = trials.iter().map(nothing).collect();
        Self { of_sets, is_unsure: false, is_told: false }
    }

    pub(super) fn note(&mut self, at: Place, reply: Result<Reply, Failure>) {
        if let Some(place) = self.of_sets.get_mut(at.trial).and_then(|set| set.get_mut(at.index)) {
            *place = Some(reply);
        }
    }

    /// The same for sets that ran it together.
    pub(super) fn note_all(
        &mut self,
        at: &[Place],
        answer: Answer,
        reply: Result<Reply, Failure>,
    ) -> Result<(), Unsure> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(Failure::Skipped) => {
                for at in at {
                    self.note(*at, Err(Failure::Skipped));
                }
                return Ok(());
            }
            Err(_) => return Err(Unsure),
        };
        let numbers = || reply.rows.iter().filter_map(|row| number(row.0.first()));
        let all = u64::try_from(at.len()).map_err(|_| Unsure)?;
        let changed = match answer {
            Answer::Count | Answer::Added | Answer::Each => reply.count,
            Answer::Parts => numbers().sum(),
            Answer::Places | Answer::Unasked => all,
        };
        // Two that change one row, or one that changes none.
        self.is_unsure |= changed != all;
        let found: Vec<u64> = if answer == Answer::Places { numbers().collect() } else { vec![] };
        self.is_told |= !found.is_empty();
        for (place, at) in (1..).zip(at) {
            let count = match answer {
                Answer::Places => u64::from(found.contains(&place)),
                Answer::Count | Answer::Added | Answer::Unasked | Answer::Parts | Answer::Each => 1,
            };
            self.note(*at, Ok(Reply { rows: Vec::new(), count }));
        }
        Ok(())
    }

    pub(super) fn verdicts(self, trials: &[Trial]) -> Result<Vec<Verdict>, Unsure> {
        if self.is_unsure && !self.is_told {
            return Err(Unsure);
        }
        let sets = trials.iter().zip(self.of_sets);
        Ok(sets.map(|(trial, found)| verdict(trial, found)).collect())
    }
}

fn number(value: Option<&Val>) -> Option<u64> {
    let Some(Val::Int(number)) = value else { return None };
    u64::try_from(*number).ok()
}

/// What the replies say of a set. Of several guards that refused, the first in the set's own order
/// is named.
fn verdict(trial: &Trial, found: Vec<Option<Result<Reply, Failure>>>) -> Verdict {
    let mut done = Done::default();
    let mut verdict = None;
    // Contended statements run later than their place in the set says: what failed may be behind
    // others that were skipped because of it.
    let own = found.iter().flatten().find_map(|reply| match reply {
        Err(Failure::Own(why)) => Some(why.clone()),
        _ => None,
    });
    for (stmt, reply) in trial.job.set.stmts().iter().zip(found) {
        let reply = match reply {
            Some(Ok(reply)) => reply,
            Some(Err(Failure::Late(why))) => return Verdict::Late(why),
            Some(Err(Failure::Own(why))) => return verdict.unwrap_or(Verdict::Failed(why)),
            Some(Err(failure @ Failure::Corrupt(_))) => {
                return Verdict::Failed(failure.text().to_owned());
            }
            _ => {
                let failed = own.map_or(Verdict::Unreached, Verdict::Failed);
                return verdict.unwrap_or(failed);
            }
        };
        match stmt.expect {
            Expect::One(reject) | Expect::Row(reject) if reply.count != 1 => {
                verdict = verdict.or(Some(Verdict::Refused(reject)));
            }
            Expect::None(reject) if reply.count != 0 => {
                verdict = verdict.or(Some(Verdict::Refused(reject)));
            }
            Expect::Row(_) | Expect::Rows => done.rows.push(reply.rows),
            Expect::Any | Expect::One(_) | Expect::None(_) => {}
        }
    }
    verdict.unwrap_or(Verdict::Good(done))
}

pub(super) fn outcome(trial: Trial) -> (Job, Outcome) {
    let outcome = match trial.verdict {
        Verdict::Good(done) => Ok(done),
        Verdict::Refused(reject) => Err(CommitError::Rejected(reject)),
        Verdict::Failed(why) | Verdict::Late(why) => {
            tracing::warn!(error = why, shard = trial.job.set.shard(), "a set failed");
            Err(CommitError::Unavailable(why))
        }
        Verdict::Unreached => Err(CommitError::Unavailable("the set was not reached".to_owned())),
    };
    (trial.job, outcome)
}

pub(super) fn settle(trial: Trial) {
    let (job, outcome) = outcome(trial);
    job.answer(outcome);
}

pub(super) fn jobs_of(trials: Vec<Trial>) -> Vec<Job> {
    trials.into_iter().map(|trial| trial.job).collect()
}
