//! Reads of one text that come while others of it are under way: they wait, and are then one
//! statement. So a busy service asks the server less often, and an idle one waits for nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::bulk;
use super::readers::Pool;
use super::texts::place;
use crate::{Args, Error, Row, Sql};

/// Statements of one text that are under way at a time.
const UNDER_WAY: usize = 2;
/// Reads that one statement answers at most.
const MOST: usize = 64;

/// What a read comes to.
pub(super) type Rows = Result<Vec<Row>, Error>;

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
#[derive(Default)]
pub(super) struct Gathering {
    lines: Mutex<HashMap<(usize, usize), Line>>,
}

impl Gathering {
    fn lines(&self) -> MutexGuard<'_, HashMap<(usize, usize), Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads committed rows, together with others of the same text where some wait.
pub(super) async fn rows(pool: &Arc<Pool>, sql: Sql, args: Args) -> Rows {
    if !bulk::is_gathered(sql.0) {
        return pool.rows(sql, &args).await;
    }
    let waits = {
        let mut lines = pool.gathering.lines();
        let line = lines.entry(place(sql)).or_default();
        if line.under_way < UNDER_WAY {
            line.under_way += 1;
            Err(args)
        } else {
            let (answer, answered) = oneshot::channel();
            line.waiting.push_back(Ask { args, answer });
            Ok(answered)
        }
    };
    match waits {
        Err(args) => {
            // Whoever waits goes on when this read ends, even if its caller goes away.
            let _turn = Turn { pool: Arc::clone(pool), sql };
            pool.rows(sql, &args).await
        }
        Ok(answered) => answered.await.unwrap_or_else(|_| {
            Err(Error::Unavailable("the reads of the store have ended".to_owned()))
        }),
    }
}

/// The right to have one statement of a text under way. Dropping it passes it on.
struct Turn {
    pool: Arc<Pool>,
    sql: Sql,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.pool.gathering.lines();
        let Some(line) = lines.get_mut(&place(self.sql)) else { return };
        let next: Vec<Ask> = line.waiting.drain(..line.waiting.len().min(MOST)).collect();
        if next.is_empty() {
            line.under_way = line.under_way.saturating_sub(1);
            return;
        }
        drop(lines);
        // Without a runtime, nobody waits any more.
        if let Ok(runtime) = Handle::try_current() {
            let turn = Self { pool: Arc::clone(&self.pool), sql: self.sql };
            runtime.spawn(async move { turn.serve(next).await });
        }
    }
}

impl Turn {
    async fn serve(self, asks: Vec<Ask>) {
        let asks = asks.into_iter().filter(|ask| !ask.answer.is_closed());
        let (args, answers): (Vec<Args>, Vec<_>) = asks.map(|ask| (ask.args, ask.answer)).unzip();
        let found = match args.as_slice() {
            [] => return,
            [only] => vec![self.pool.rows(self.sql, only).await],
            _ => self.pool.gathered(self.sql, &args).await,
        };
        for (answer, rows) in answers.into_iter().zip(found) {
            // A caller that went away needs no answer.
            let _gone = answer.send(rows);
        }
    }
}
