//! A connection to PostgreSQL by the client library, shared by many: for reads, migrations and
//! what is rare. Nothing of a session but its prepared statements is relied on, so a pooler that
//! hands each transaction to another server connection does no harm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::poll_immediate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_postgres::{Client, NoTls, RowStream, Statement};

use super::address::Address;
use super::failure::Failure;
use super::texts::{Known, Texts, misuse};
use super::value::{Param, row_of, type_of};
use crate::{Args, Row, Sql};

/// What a statement answered.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Rows that came back.
    pub(super) rows: Vec<Row>,
    /// Rows that were changed or, if it returns rows, came back.
    pub(super) count: u64,
}

/// A connection. Dropping it closes it; a transaction that is open then does not happen.
pub(super) struct Connection {
    client: Client,
    /// Closed by the task that drives the connection, when that ends.
    open: watch::Receiver<()>,
    /// Whether statements are prepared once, under a name that the server remembers.
    named: bool,
    texts: Mutex<Texts<Statement>>,
    /// How often something was asked.
    uses: AtomicU64,
}

impl Connection {
    /// Connects within `patience`.
    pub(super) async fn dial(
        address: &Address,
        named: bool,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let config = &address.config;
        let dialled = tokio::time::timeout(patience, async {
            match &address.tls {
                None => config.connect(NoTls).await.map(|(c, driver)| (c, drive(driver))),
                Some(tls) => {
                    config.connect(tls.clone()).await.map(|(c, driver)| (c, drive(driver)))
                }
            }
        });
        match dialled.await {
            Ok(Ok((client, open))) => {
                let (texts, uses) = (Mutex::default(), AtomicU64::new(0));
                Ok(Self { client, open, named, texts, uses })
            }
            Ok(Err(error)) => Err(Failure::Lost(Failure::of(&error).text().to_owned())),
            Err(_) => Err(Failure::Lost("the server does not answer".to_owned())),
        }
    }

    /// Whether it can no longer be used.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Ends once it can no longer be used.
    pub(super) fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut open = self.open.clone();
        async move {
            // Nothing is ever sent: the only news is the end.
            let _end = open.changed().await;
        }
    }

    /// Gets to know the texts that are new, all in one burst. Answers what is wrong with the
    /// first that cannot be used, and which that is.
    pub(super) async fn prepare(
        &self,
        texts: impl Iterator<Item = Sql>,
    ) -> Result<(), (Sql, Failure)> {
        let mut news = self.texts().news(texts)?;
        if self.named {
            self.name(&mut news).await?;
        }
        self.texts().learn(news);
        Ok(())
    }

    /// Has the server remember texts.
    async fn name(&self, news: &mut [(Sql, Known<Statement>)]) -> Result<(), (Sql, Failure)> {
        let mut asked = Vec::with_capacity(news.len());
        for (_, known) in &*news {
            // A request is sent when it is first polled.
            let mut answer = Box::pin(self.client.prepare(&known.text));
            let early = poll_immediate(&mut answer).await;
            asked.push((early, answer));
        }
        let mut statements = Vec::with_capacity(news.len());
        for ((sql, known), (early, answer)) in news.iter().zip(asked) {
            let prepared = match early {
                Some(prepared) => prepared,
                None => answer.await,
            };
            let statement = prepared.map_err(|error| (*sql, in_text(&error, *sql)))?;
            let checked = known.check_types(*sql, statement.params());
            checked.map_err(|failure| (*sql, failure))?;
            statements.push(statement);
        }
        for ((_, known), statement) in news.iter_mut().zip(statements) {
            known.statement = Some(statement);
        }
        Ok(())
    }

    /// Prepares, checks, sends one statement and waits for its reply.
    pub(super) async fn run(&self, sql: Sql, args: &Args) -> Result<Reply, Failure> {
        self.prepare(std::iter::once(sql)).await.map_err(|(_, failure)| failure)?;
        let known = self.texts().get(sql).ok_or_else(|| misuse("it is not prepared", sql))?;
        known.check(sql, args, Statement::params)?;
        let params = args.iter().map(Param);
        let stream = if let Some(statement) = &known.statement {
            self.client.query_raw(statement, params).await
        } else {
            let typed = params.zip(args.iter().map(type_of));
            self.client.query_typed_raw(&known.text, typed).await
        };
        collect(stream.map_err(|error| in_text(&error, sql))?, sql).await
    }

    /// Runs statements without parameters.
    pub(super) async fn run_text(&self, text: &str) -> Result<(), Failure> {
        self.client.batch_execute(text).await.map_err(|error| Failure::of(&error))
    }

    /// The client library's own handle, for what this type does not offer.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Has the server plan prepared statements anew, after 1, 2, 4, 8, … uses. A plan that was
    /// made while a table was small reads the whole table, and would go on doing so when it is
    /// large. Sent, not waited for.
    pub(super) async fn refresh_plans(&self) {
        let uses = self.uses.fetch_add(1, Ordering::Relaxed) + 1;
        if self.named && uses.is_power_of_two() {
            // A request is sent when it is first polled.
            let mut request = std::pin::pin!(self.run_text("DISCARD PLANS"));
            let _ignored = poll_immediate(&mut request).await;
        }
    }

    fn texts(&self) -> MutexGuard<'_, Texts<Statement>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the connection until it ends; the receiver is closed then.
fn drive<S, T>(driver: tokio_postgres::Connection<S, T>) -> watch::Receiver<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (alive, open) = watch::channel(());
    tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(error = Failure::of(&error).text(), "a database connection ended");
        }
        drop(alive);
    });
    open
}

async fn collect(stream: RowStream, sql: Sql) -> Result<Reply, Failure> {
    let mut stream = std::pin::pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await.map_err(|error| in_text(&error, sql))? {
        rows.push(row_of(&row)?);
    }
    let count = stream.rows_affected().unwrap_or_default();
    Ok(Reply { rows, count })
}

/// A failure with the text of the statement, where that is to blame.
fn in_text(error: &tokio_postgres::Error, sql: Sql) -> Failure {
    match Failure::of(error) {
        Failure::Own(why) => misuse(&why, sql),
        other => other,
    }
}
