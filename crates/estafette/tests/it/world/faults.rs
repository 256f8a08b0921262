//! An engine that fails on purpose: the commits and reads that a story names, as often as it says.
//! It also holds up a commit, so that something else comes in between.

use std::path::Path;
use std::sync::{Arc, Mutex};

use clock::Millis;
use futures_util::future::BoxFuture;
use store::{
    About, Args, CommitError, Done, Engine, Error, Groups, Migration, Plan, Reject, Row, Sql,
    WriteSet,
};
use tokio::sync::Notify;

/// A statement of every commit that settles an attempt.
pub const COMMIT_B: &str = "UPDATE attempts SET state";

/// How a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The queue is full; nothing happened.
    Overloaded,
    /// The database is away; nothing happened.
    Unavailable,
    /// The answer is lost, and nothing happened.
    LostBefore,
    /// The answer is lost, but it happened.
    LostAfter,
    /// A guard refuses it that is no lost race.
    Contradiction,
}

/// Commits that are to fail: those with this text in a statement.
struct Planned {
    text: &'static str,
    how: How,
    times: usize,
}

/// A commit that is held up once it comes, or its answer.
#[derive(Default)]
pub struct Held {
    is_answer: bool,
    came: Notify,
    may_go: Notify,
}

impl Held {
    /// Until it has come.
    pub async fn came(&self) {
        let patience = std::time::Duration::from_secs(20);
        tokio::time::timeout(patience, self.came.notified()).await.expect("the commit");
    }

    /// It goes on.
    pub fn let_go(&self) {
        self.may_go.notify_one();
    }
}

/// What a commit that is to be held up has in a statement, and who waits for it.
type ToHold = (&'static str, Arc<Held>);

/// What is to fail yet.
#[derive(Clone, Default)]
pub struct Faults {
    planned: Arc<Mutex<Vec<Planned>>>,
    /// Reads that are to fail, by a text in them, and how often.
    reads: Arc<Mutex<Vec<(&'static str, usize)>>>,
    /// The commit that is to be held up: the next one with this text.
    held: Arc<Mutex<Option<ToHold>>>,
    /// What was asked of the database since a story wanted to know.
    seen: Arc<Mutex<Option<Seen>>>,
}

/// What the database was asked.
#[derive(Clone, Default)]
pub struct Seen {
    /// Every commit.
    pub commits: Vec<WriteSet>,
    /// Every read.
    pub reads: Vec<(Sql, Args)>,
}

impl Faults {
    /// The next `times` commits with this text in a statement fail.
    pub fn plan(&self, text: &'static str, how: How, times: usize) {
        self.planned.lock().unwrap().push(Planned { text, how, times });
    }

    /// The next `times` reads with this text fail.
    pub fn plan_reads(&self, text: &'static str, times: usize) {
        self.reads.lock().unwrap().push((text, times));
    }

    /// How many reads are to fail yet.
    pub fn reads_left(&self) -> usize {
        self.reads.lock().unwrap().iter().map(|(_, times)| times).sum()
    }

    fn fails_to_read(&self, sql: Sql) -> bool {
        let mut reads = self.reads.lock().unwrap();
        let planned = reads.iter_mut().find(|(text, times)| *times > 0 && sql.0.contains(text));
        planned.map(|(_, times)| *times -= 1).is_some()
    }

    /// Holds up the next commit with this text in a statement.
    pub fn hold(&self, text: &'static str) -> Arc<Held> {
        let held = Arc::new(Held::default());
        *self.held.lock().unwrap() = Some((text, Arc::clone(&held)));
        held
    }

    /// Holds up the answer of the next commit with this text in a statement: it has happened.
    pub fn hold_answer(&self, text: &'static str) -> Arc<Held> {
        let held = Arc::new(Held { is_answer: true, ..Held::default() });
        *self.held.lock().unwrap() = Some((text, Arc::clone(&held)));
        held
    }

    fn held(&self, set: &WriteSet) -> Option<Arc<Held>> {
        let is_meant = |text: &str| set.stmts().iter().any(|stmt| stmt.sql.0.contains(text));
        let held = self.held.lock().unwrap().take_if(|(text, _)| is_meant(text));
        held.map(|(_, held)| held)
    }

    /// No planned failure happens any more.
    pub fn forget(&self) {
        self.planned.lock().unwrap().clear();
    }

    /// How many planned failures have not happened.
    pub fn left(&self) -> usize {
        self.planned.lock().unwrap().iter().map(|planned| planned.times).sum()
    }

    /// From now on, every commit is written down.
    pub fn write_down(&self) {
        *self.seen.lock().unwrap() = Some(Seen::default());
    }

    /// What was written down since.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone().unwrap_or_default()
    }

    /// How many statements each commit had of which one has this text.
    pub fn statements_with(&self, text: &str) -> Vec<usize> {
        let is_meant = |set: &&WriteSet| set.stmts().iter().any(|stmt| stmt.sql.0.contains(text));
        self.seen().commits.iter().filter(is_meant).map(|set| set.stmts().len()).collect()
    }

    fn next(&self, set: &WriteSet) -> Option<How> {
        let mut planned = self.planned.lock().unwrap();
        let is_meant = |text: &str| set.stmts().iter().any(|stmt| stmt.sql.0.contains(text));
        let found =
            planned.iter_mut().find(|planned| planned.times > 0 && is_meant(planned.text))?;
        found.times -= 1;
        Some(found.how)
    }

    /// An engine with these faults around another.
    pub fn around(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Faulty { engine, faults: self.clone() })
    }
}

struct Faulty {
    engine: Arc<dyn Engine>,
    faults: Faults,
}

impl Engine for Faulty {
    fn commit(&self, set: WriteSet) -> BoxFuture<'_, Result<Done, CommitError>> {
        if let Some(seen) = &mut *self.faults.seen.lock().unwrap() {
            seen.commits.push(set.clone());
        }
        if let Some(held) = self.faults.held(&set) {
            return Box::pin(async move {
                if held.is_answer {
                    let done = self.engine.commit(set).await;
                    held.came.notify_one();
                    held.may_go.notified().await;
                    return done;
                }
                held.came.notify_one();
                held.may_go.notified().await;
                self.engine.commit(set).await
            });
        }
        let Some(how) = self.faults.next(&set) else { return self.engine.commit(set) };
        Box::pin(async move {
            let planned = || "planned".to_owned();
            Err(match how {
                How::Overloaded => CommitError::Overloaded,
                How::Unavailable => CommitError::Unavailable(planned()),
                How::LostBefore => CommitError::Unknown(planned()),
                How::LostAfter => {
                    self.engine.commit(set).await?;
                    CommitError::Unknown(planned())
                }
                How::Contradiction => CommitError::Rejected(Reject("a contradiction")),
            })
        })
    }

    fn rows(&self, sql: Sql, args: Args) -> BoxFuture<'_, Result<Vec<Row>, Error>> {
        if let Some(seen) = &mut *self.faults.seen.lock().unwrap() {
            seen.reads.push((sql, args.clone()));
        }
        if self.faults.fails_to_read(sql) {
            return Box::pin(async { Err(Error::Unavailable("planned".to_owned())) });
        }
        self.engine.rows(sql, args)
    }

    fn has_tables(&self) -> BoxFuture<'_, Result<bool, Error>> {
        self.engine.has_tables()
    }

    fn about(&self) -> BoxFuture<'_, Result<About, Error>> {
        self.engine.about()
    }

    fn clock(&self) -> BoxFuture<'_, Result<Option<Millis>, Error>> {
        self.engine.clock()
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        self.engine.probe()
    }

    fn reserve(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.engine.reserve()
    }

    fn rehearse<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<(), Error>> {
        self.engine.rehearse(migrations)
    }

    fn migrate<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<u32, Error>> {
        self.engine.migrate(migrations)
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        self.engine.backup(to)
    }

    fn plan(&self, sql: Sql) -> BoxFuture<'_, Result<Plan, Error>> {
        self.engine.plan(sql)
    }

    fn nudge(&self) {
        self.engine.nudge();
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        self.engine.nudged()
    }

    fn queued(&self) -> usize {
        self.engine.queued()
    }

    fn groups(&self) -> Groups {
        self.engine.groups()
    }

    fn scrub(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.engine.scrub()
    }

    fn compact(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.engine.compact()
    }

    fn holds(&self, bytes: &[u8]) -> BoxFuture<'_, Result<Option<bool>, Error>> {
        let bytes = bytes.to_owned();
        Box::pin(async move { self.engine.holds(&bytes).await })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.engine.close()
    }
}
