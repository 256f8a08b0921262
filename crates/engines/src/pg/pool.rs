//! The connections for reads, shared by many callers at once: the server answers them in the order
//! in which they asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::Settings;
use super::connection::Connection;
use super::failure::Failure;
use store::{Args, Error, Row, Sql};

/// How long a read may take on a server that is alive.
const LONGEST_READ: Duration = Duration::from_mins(2);

/// What a read comes to.
pub(super) type Rows = Result<Vec<Row>, Error>;

/// A connection that may be there, and how many reads are on it.
#[derive(Default)]
pub(super) struct Slot {
    connection: Mutex<Option<Arc<Connection>>>,
    reads: AtomicUsize,
    /// Rings when its connection is of no use any more.
    pub(super) renew: Notify,
}

impl Slot {
    fn get(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connection.filter(|connection| !connection.is_closed())
    }

    pub(super) fn set(&self, connection: Option<Arc<Connection>>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }
}

/// One read on a connection, also when its caller goes away.
struct Reading<'s>(&'s Slot);

impl<'s> Reading<'s> {
    fn on(slot: &'s Slot) -> Self {
        slot.reads.fetch_add(1, Ordering::Relaxed);
        Self(slot)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.reads.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What callers are told of the connections.
#[derive(Clone, Default)]
pub(super) struct News {
    /// Since when there is none, and why.
    pub(super) outage: Option<(Instant, String)>,
}

/// All connections for reads.
pub(super) struct Pool {
    settings: Arc<Settings>,
    pub(super) slots: Arc<[Slot]>,
    news: watch::Receiver<News>,
    /// When the server was last asked whether it is there, and whether it was.
    pulse: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl Pool {
    pub(super) fn new(
        settings: Arc<Settings>,
        slots: Arc<[Slot]>,
        news: watch::Receiver<News>,
    ) -> Self {
        Self { settings, slots, news, pulse: tokio::sync::Mutex::default() }
    }

    /// Reads the rows of one read.
    pub(super) async fn rows(&self, sql: Sql, args: &Args) -> Rows {
        let found = self.tried(sql, std::slice::from_ref(args)).await?;
        Ok(found.into_iter().flatten().next().unwrap_or_default())
    }

    /// Reads the rows of several reads of one text, by one statement where the server can do that.
    pub(super) async fn gathered(&self, sql: Sql, asks: &[Args]) -> Vec<Rows> {
        match self.tried(sql, asks).await {
            Ok(Some(found)) => return found.into_iter().map(Ok).collect(),
            // Nobody is answered by a server that is not there.
            Err(error) if self.is_out() => {
                return asks.iter().map(|_| Err(error.clone())).collect();
            }
            // There is no such form of it, or the arguments of one are to blame: of which?
            Ok(None) | Err(_) => {}
        }
        futures_util::future::join_all(asks.iter().map(|args| self.rows(sql, args))).await
    }

    /// Whether there is no connection.
    fn is_out(&self) -> bool {
        self.slots.iter().all(|slot| slot.get().is_none())
    }

    /// Reads on some connection; see [`Connection::run_many`].
    async fn tried(&self, sql: Sql, asks: &[Args]) -> Result<Option<Vec<Vec<Row>>>, Error> {
        // A read changes nothing, so it may be repeated: once more than there are connections,
        // because after a change of the schema what each has prepared is of no use any more. Who
        // has waited for a server that is silent has waited enough.
        let (begin, mut tries) = (Instant::now(), self.slots.len());
        loop {
            let (slot, connection) = self.connection().await?;
            let reading = Reading::on(slot);
            let read = self.read(&connection, sql, asks).await;
            drop(reading);
            match read {
                Ok(found) => return Ok(found),
                Err(Failure::Lost(_)) if tries > 0 && begin.elapsed() < self.half() => tries -= 1,
                Err(failure) => {
                    tracing::warn!(error = failure.text(), "a read failed");
                    return Err(failure.into());
                }
            }
        }
    }

    async fn read(
        &self,
        connection: &Arc<Connection>,
        sql: Sql,
        asks: &[Args],
    ) -> Result<Option<Vec<Vec<Row>>>, Failure> {
        connection.refresh_plans().await;
        let mut read = std::pin::pin!(async {
            match asks {
                [only] => Ok(Some(vec![connection.run(sql, only).await?.rows])),
                _ => connection.run_many(sql, asks).await,
            }
        });
        let longest = Instant::now() + LONGEST_READ;
        let reply = loop {
            match timeout(self.half(), &mut read).await {
                Ok(reply) => break reply,
                Err(_) if Instant::now() > longest => {
                    break Err(Failure::Late("the read took too long".to_owned()));
                }
                // A long read, or a server that hangs?
                Err(_) if self.is_alive().await => {}
                Err(_) => break Err(Failure::Lost("the server does not answer".to_owned())),
            }
        };
        if matches!(reply, Err(Failure::Lost(_))) {
            self.discard(connection);
        }
        reply
    }

    /// Half of the patience is for the read, half for finding out why it takes so long.
    fn half(&self) -> Duration {
        self.settings.patience / 2
    }

    /// Whether the server answers on a fresh connection. One caller asks for all.
    async fn is_alive(&self) -> bool {
        const PROBE: Sql = Sql("SELECT 1");
        let asked = Instant::now();
        // Whoever asks may have been left alone half way: nobody waits for them for ever.
        let Ok(mut pulse) = timeout(2 * self.half(), self.pulse.lock()).await else { return false };
        if let Some((at, is_alive)) = *pulse
            && at + self.half() >= asked
        {
            return is_alive;
        }
        let at = Instant::now();
        let Settings { address, named, .. } = &*self.settings;
        let probe = async {
            let connection = Connection::dial(address, *named, self.half()).await?;
            connection.run(PROBE, &Args::new()).await
        };
        let is_alive = matches!(timeout(self.half(), probe).await, Ok(Ok(_)));
        *pulse = Some((at, is_alive));
        is_alive
    }

    /// Nobody else shall use it; its keeper gets another one.
    fn discard(&self, connection: &Arc<Connection>) {
        for slot in self.slots.iter() {
            if slot.get().is_some_and(|found| Arc::ptr_eq(&found, connection)) {
                slot.set(None);
                slot.renew.notify_one();
            }
        }
    }

    /// The connection with the fewest reads on it; waits for one, but not for long.
    async fn connection(&self) -> Result<(&Slot, Arc<Connection>), Error> {
        let mut news = self.news.clone();
        let until = Instant::now() + self.settings.patience;
        loop {
            let open = self.slots.iter().filter_map(|slot| slot.get().map(|found| (slot, found)));
            if let Some(found) = open.min_by_key(|(slot, _)| slot.reads.load(Ordering::Relaxed)) {
                return Ok(found);
            }
            let outage = news.borrow_and_update().outage.clone();
            let why = outage.as_ref().map_or("no connection to the database", |(_, why)| why);
            // Nobody is kept waiting for what has not come back for so long.
            let is_long = |since: &Instant| since.elapsed() > self.settings.patience;
            let is_hopeless = outage.as_ref().is_some_and(|(since, _)| is_long(since));
            if is_hopeless || !matches!(timeout_at(until, news.changed()).await, Ok(Ok(()))) {
                return Err(Error::Unavailable(why.to_owned()));
            }
        }
    }
}
