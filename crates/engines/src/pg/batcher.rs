//! A batcher: takes the sets that wait, commits them in groups, and gets a new connection when the
//! old one is lost. While there is none, nobody waits longer than the engine's patience.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Settings;
use super::failure::Failure;
use super::group::{Groups, Halt, Unknown};
use super::pipeline::Pipeline;
use super::queue::Queue;
use super::writer::Writer;
use store::CommitError;

/// How often waiting sets are looked at while there is no connection.
const LOOK: Duration = Duration::from_millis(50);
/// The first pause between two tries to connect, and the longest, in milliseconds.
const SHORTEST_PAUSE_MS: u64 = 20;
const LONGEST_PAUSE_MS: u64 = 1_000;
/// Reasons of one outage that the log is told.
const MOST_WHYS: usize = 16;

/// One of the engine's writers.
pub(super) struct Batcher {
    settings: Arc<Settings>,
    queue: Arc<Queue>,
    writer: Writer,
    unknown: Option<(Unknown, Instant)>,
}

impl Batcher {
    pub(super) fn new(settings: Arc<Settings>, queue: Arc<Queue>) -> Self {
        Self { settings, queue, writer: Writer::new(), unknown: None }
    }

    /// Until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        while let Some(connection) = self.connect().await {
            self.serve(connection).await;
        }
    }

    /// Commits groups until the connection is lost or nothing will come any more.
    async fn serve(&mut self, mut connection: Pipeline) {
        loop {
            let jobs = tokio::select! {
                biased;
                () = connection.over() => return,
                jobs = self.queue.take(self.settings.group) => jobs,
            };
            let Some(jobs) = jobs else { return connection.leave().await };
            let (writer, settings) = (&self.writer, &*self.settings);
            let mut groups = Groups { connection: &mut connection, writer, settings };
            match groups.commit(jobs).await {
                Ok(()) => {}
                Err(Halt::Lost { jobs, why }) => {
                    tracing::warn!(
                        why,
                        sets = jobs.len(),
                        "a database connection is of no more use"
                    );
                    self.queue.outage(&why);
                    self.queue.put_back(jobs);
                    return;
                }
                Err(Halt::Unknown(unknown)) => {
                    let why = unknown.why.as_str();
                    tracing::warn!(why, sets = unknown.kept.len(), "a COMMIT was not answered");
                    self.queue.outage(why);
                    self.unknown = Some((unknown, Instant::now()));
                    return;
                }
            }
        }
    }

    /// A connection with nothing left to find out; `None` once there is nothing more to do.
    async fn connect(&mut self) -> Option<Pipeline> {
        let mut pause_ms = SHORTEST_PAUSE_MS;
        loop {
            if self.unknown.is_none() && self.queue.is_over() {
                return None;
            }
            let (queue, settings) = (Arc::clone(&self.queue), Arc::clone(&self.settings));
            match expiring(&queue, self.try_to_connect()).await {
                Ok(connection) => {
                    queue.recovered();
                    settings.told().back();
                    return Some(connection);
                }
                Err(failure) => {
                    let why = format!("no connection to the database: {}", failure.text());
                    settings.told().away(&why);
                    queue.outage(&why);
                }
            }
            self.give_up(settings.unknown_limit);
            let jitter_ms = self.writer.clock().below(pause_ms / 2 + 1);
            expiring(&queue, sleep(Duration::from_millis(pause_ms / 2 + jitter_ms))).await;
            pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
        }
    }

    async fn try_to_connect(&mut self) -> Result<Pipeline, Failure> {
        let Settings { address, named, patience, opening, .. } = &*self.settings;
        let begin = &opening.text();
        let mut connection = Pipeline::dial(address, *named, *patience).await?;
        if let Some((unknown, _)) = &self.unknown {
            let look_up = self.writer.was_committed(&mut connection, begin, &unknown.id);
            let happened = timeout(*patience, look_up)
                .await
                .unwrap_or_else(|_| Err(Failure::Lost("the server does not answer".to_owned())))?;
            self.resolve(happened && !self.settings.trusts_silence);
        }
        Ok(connection)
    }

    /// The database said whether the commit happened.
    fn resolve(&mut self, happened: bool) {
        let Some((unknown, _)) = self.unknown.take() else { return };
        tracing::info!(happened, sets = unknown.kept.len(), "an unanswered COMMIT was looked up");
        let mut again = Vec::with_capacity(unknown.others.len());
        for (job, outcome) in unknown.kept {
            if happened {
                job.answer(outcome);
            } else {
                again.push(job);
            }
        }
        again.extend(unknown.others);
        self.queue.put_back(again);
    }

    /// After so long the caller learns that nobody knows.
    fn give_up(&mut self, limit: Duration) {
        let Some((unknown, _)) = self.unknown.take_if(|(_, since)| since.elapsed() > limit) else {
            return;
        };
        tracing::error!(sets = unknown.kept.len(), "an unanswered COMMIT could not be looked up");
        for (job, _) in unknown.kept {
            job.answer(Err(CommitError::Unknown(unknown.why.clone())));
        }
        self.queue.put_back(unknown.others);
    }
}

/// What the log was told of an outage, once for all batchers: why it began, what else it is then,
/// and its end. Each try would be some lines a second.
#[derive(Default)]
pub(super) struct Told {
    whys: Vec<String>,
    since: Option<Instant>,
}

impl Told {
    fn away(&mut self, why: &str) {
        self.since.get_or_insert_with(Instant::now);
        if self.whys.len() < MOST_WHYS && !self.whys.iter().any(|told| told == why) {
            self.whys.push(why.to_owned());
            tracing::warn!(why, "the database cannot be reached");
        }
    }

    fn back(&mut self) {
        self.whys.clear();
        if let Some(since) = self.since.take() {
            tracing::info!(
                after_s = since.elapsed().as_secs(),
                "the database can be reached again"
            );
        }
    }
}

/// Does something that may take long, and meanwhile answers the sets that waited too long.
async fn expiring<T>(queue: &Queue, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = sleep(LOOK) => queue.expire("no connection to the database"),
        }
    }
}
