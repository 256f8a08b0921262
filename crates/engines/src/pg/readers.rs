//! Reads: each connection is kept open by a task of its own, for as long as there are readers.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::Settings;
use super::connection::Connection;
use super::gather::Lines;
use super::pool::{News, Pool, Rows, Slot};
use super::text;
use super::texts::misuse;
use store::{Args, Sql};

/// The first pause between two tries to connect, and the longest, in milliseconds.
const SHORTEST_PAUSE_MS: u64 = 20;
const LONGEST_PAUSE_MS: u64 = 1_000;
/// All connections for reads, and who keeps them open.
pub(super) struct Readers {
    lines: Arc<Lines>,
    keepers: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(settings: &Arc<Settings>, count: usize) -> Self {
        let slots: Arc<[Slot]> = (0..count.max(1)).map(|_| Slot::default()).collect();
        let (tell, news) = watch::channel(News::default());
        let tell = Arc::new(tell);
        let keep = |index| {
            let (settings, slots) = (Arc::clone(settings), Arc::clone(&slots));
            tokio::spawn(keep(settings, slots, index, Arc::clone(&tell)))
        };
        let keepers = (0..slots.len()).map(keep).collect();
        let pool = Pool::new(Arc::clone(settings), slots, news);
        Self { lines: Arc::new(Lines::of(pool)), keepers }
    }

    /// Reads committed rows.
    pub(super) async fn rows(&self, sql: Sql, args: Args) -> Rows {
        if !text::is_read(sql.0) {
            return Err(misuse("a read must be a SELECT", sql).into());
        }
        self.lines.rows(sql, args).await
    }

    /// Ends the keepers, and with them the connections.
    pub(super) fn stop(&self) {
        self.keepers.iter().for_each(JoinHandle::abort);
        self.lines.pool().slots.iter().for_each(|slot| slot.set(None));
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Keeps the connection of one slot open, for ever.
async fn keep(
    settings: Arc<Settings>,
    slots: Arc<[Slot]>,
    index: usize,
    tell: Arc<watch::Sender<News>>,
) {
    let (clock, mut pause_ms) = (Clock::system(), SHORTEST_PAUSE_MS);
    let Some(slot) = slots.get(index) else { return };
    loop {
        match Connection::dial(&settings.address, settings.named, settings.patience).await {
            Ok(connection) => {
                let over = connection.over();
                slot.set(Some(Arc::new(connection)));
                tell.send_modify(|news| news.outage = None);
                pause_ms = SHORTEST_PAUSE_MS;
                tokio::select! { () = over => {}, () = slot.renew.notified() => {} }
                slot.set(None);
            }
            Err(failure) => {
                let why = format!("no connection to the database: {}", failure.text());
                tell.send_modify(|news| {
                    let since = news.outage.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                    news.outage = Some((since, why));
                });
            }
        }
        sleep(Duration::from_millis(pause_ms / 2 + clock.below(pause_ms / 2 + 1))).await;
        pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
    }
}
