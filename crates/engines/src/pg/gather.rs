//! Reads of one text that come while others of it are under way: they wait, and are then one
//! statement. So a busy service asks the server less often, and an idle one waits for nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::bulk;
use super::pool::{Pool, Rows};
use super::texts::place;
use store::{Args, Error, Sql};

/// Statements of one text that are under way at a time.
const UNDER_WAY: usize = 2;
/// Reads that one statement answers at most.
const MOST: usize = 64;

/// A read that waits.
struct Ask {
    args: Args,
    answer: oneshot::Sender<Rows>,
}

/// The reads of one text.
#[derive(Default)]
struct Line {
    under_way: usize,
    waiting: VecDeque<Ask>,
}

/// The reads of all texts that may be gathered, by the place of the text.
pub(super) struct Lines {
    pool: Pool,
    by_text: Mutex<HashMap<(usize, usize), Line>>,
}

impl Lines {
    pub(super) fn of(pool: Pool) -> Self {
        Self { pool, by_text: Mutex::default() }
    }

    pub(super) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Reads committed rows, together with others of the same text where some wait.
    pub(super) async fn rows(self: &Arc<Self>, sql: Sql, mut args: Args) -> Rows {
        if !bulk::is_gathered(sql.0) {
            return self.pool.rows(sql, &args).await;
        }
        if let Some(answered) = self.wait(sql, &mut args) {
            let ended = || Error::Unavailable("the reads of the store have ended".to_owned());
            return answered.await.unwrap_or_else(|_| Err(ended()));
        }
        // Whoever waits goes on when this read ends, even if its caller goes away.
        let _turn = Turn { lines: Arc::clone(self), sql };
        self.pool.rows(sql, &args).await
    }

    /// Lets a read wait, and takes its arguments, where enough of its text are under way. Else it
    /// has a turn.
    fn wait(&self, sql: Sql, args: &mut Args) -> Option<oneshot::Receiver<Rows>> {
        let mut lines = self.lock();
        let line = lines.entry(place(sql)).or_default();
        if line.under_way < UNDER_WAY {
            line.under_way += 1;
            return None;
        }
        let (answer, answered) = oneshot::channel();
        line.waiting.push_back(Ask { args: std::mem::take(args), answer });
        Some(answered)
    }

    /// Those that go on when a statement of the text has ended; where none wait, its turn ends.
    fn leave(&self, sql: Sql) -> Vec<Ask> {
        let mut lines = self.lock();
        let Some(line) = lines.get_mut(&place(sql)) else { return Vec::new() };
        let next: Vec<Ask> = line.waiting.drain(..line.waiting.len().min(MOST)).collect();
        if next.is_empty() {
            line.under_way = line.under_way.saturating_sub(1);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(usize, usize), Line>> {
        self.by_text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to have one statement of a text under way. Dropping it passes it on.
struct Turn {
    lines: Arc<Lines>,
    sql: Sql,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.lines.leave(self.sql);
        if next.is_empty() {
            return;
        }
        // Without a runtime, nobody waits any more.
        if let Ok(runtime) = Handle::try_current() {
            let turn = Self { lines: Arc::clone(&self.lines), sql: self.sql };
            runtime.spawn(async move { turn.serve(next).await });
        }
    }
}

impl Turn {
    async fn serve(self, asks: Vec<Ask>) {
        let (pool, sql) = (&self.lines.pool, self.sql);
        let asks = asks.into_iter().filter(|ask| !ask.answer.is_closed());
        let (args, answers): (Vec<Args>, Vec<_>) = asks.map(|ask| (ask.args, ask.answer)).unzip();
        let found = match args.as_slice() {
            [] => return,
            [only] => vec![pool.rows(sql, only).await],
            _ => pool.gathered(sql, &args).await,
        };
        for (answer, rows) in answers.into_iter().zip(found) {
            // A caller that went away needs no answer.
            let _gone = answer.send(rows);
        }
    }
}
