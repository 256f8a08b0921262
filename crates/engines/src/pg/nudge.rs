//! Hints between the processes on one database, by LISTEN and NOTIFY. A hint says only "look now":
//! it carries nothing, may be lost, and whoever waits for one looks from time to time all the same.
//!
//! NOTIFY takes a lock of the whole database when its transaction commits, so none is ever sent
//! within a transaction of writes, and each process sends at most twenty a second. Where a pooler
//! hands transactions from one server connection to the next (prepared statements are off), LISTEN
//! means nothing, and nothing is done.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use super::Settings;
use super::failure::Failure;

/// Shortest time between two hints of this process.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Pause before another try to connect. Nobody waits for it.
const AGAIN: Duration = Duration::from_secs(5);

const LISTEN: &str = "LISTEN estafette_nudge; SELECT pg_backend_pid()";
const NOTIFY: &str = "NOTIFY estafette_nudge";

/// What callers and the connection tell each other.
#[derive(Default)]
struct Bells {
    /// This process has something to tell.
    tell: Notify,
    /// Another process told something.
    heard: Notify,
    /// The server process behind our connection: what it sends are our own words.
    own: AtomicI32,
}

/// The one connection that listens.
pub(super) struct Nudges {
    bells: Arc<Bells>,
    keeper: JoinHandle<()>,
}

impl Nudges {
    pub(super) fn start(settings: Arc<Settings>) -> Self {
        let bells = Arc::<Bells>::default();
        let keeper = tokio::spawn(keep(settings, Arc::clone(&bells)));
        Self { bells, keeper }
    }

    pub(super) fn tell(&self) {
        self.bells.tell.notify_one();
    }

    pub(super) async fn heard(&self) {
        self.bells.heard.notified().await;
    }

    pub(super) fn stop(&self) {
        self.keeper.abort();
    }
}

impl Drop for Nudges {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn keep(settings: Arc<Settings>, bells: Arc<Bells>) {
    if !settings.named {
        return;
    }
    loop {
        if let Err(failure) = listen(&settings, &bells).await {
            tracing::debug!(error = failure.text(), "no hints from other processes for now");
        }
        sleep(AGAIN).await;
    }
}

/// Listens, and tells, until the connection is lost.
async fn listen(settings: &Settings, bells: &Arc<Bells>) -> Result<(), Failure> {
    let lost = |error: tokio_postgres::Error| Failure::of(&error);
    let late = |_| Failure::Late("the server does not answer".to_owned());
    let config = &settings.address.config;
    let dialled = async {
        match &settings.address.tls {
            None => config.connect(NoTls).await.map(|(c, driver)| (c, drive(driver, bells))),
            Some(tls) => {
                config.connect(tls.clone()).await.map(|(c, driver)| (c, drive(driver, bells)))
            }
        }
    };
    let (client, mut driver) =
        timeout(settings.patience, dialled).await.map_err(late)?.map_err(lost)?;
    let answer = timeout(settings.patience, client.simple_query(LISTEN)).await.map_err(late)?;
    bells.own.store(backend(&answer.map_err(lost)?), Ordering::Relaxed);
    // What was told while nobody listened.
    bells.heard.notify_one();
    loop {
        tokio::select! {
            // With the client it ends by itself; without it, the connection was lost.
            _ = &mut driver => return Err(Failure::Lost("the connection ended".to_owned())),
            () = bells.tell.notified() => say(&client, settings.patience).await?,
        }
        sleep(DEBOUNCE).await;
    }
}

async fn say(client: &Client, patience: Duration) -> Result<(), Failure> {
    match timeout(patience, client.batch_execute(NOTIFY)).await {
        Ok(said) => said.map_err(|error| Failure::of(&error)),
        Err(_) => Err(Failure::Late("the server does not answer".to_owned())),
    }
}

fn backend(answer: &[SimpleQueryMessage]) -> i32 {
    let id = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    id.unwrap_or_default()
}

/// Runs the connection, and rings for what others say on it.
fn drive<S, T>(mut driver: tokio_postgres::Connection<S, T>, bells: &Arc<Bells>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let bells = Arc::clone(bells);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| driver.poll_message(cx)).await {
            if let AsyncMessage::Notification(word) = message
                && word.process_id() != bells.own.load(Ordering::Relaxed)
            {
                bells.heard.notify_one();
            }
        }
    })
}
