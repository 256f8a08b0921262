//! One connection to PostgreSQL: its prepared statements, and the way statements go out and
//! answers come back. Nothing else of a session is relied on, so a pooler that hands each
//! transaction to another server connection does no harm.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::{BoxFuture, poll_immediate};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_postgres::{Client, NoTls, RowStream, Statement};

use super::address::Address;
use super::failure::Failure;
use super::text;
use super::value::{Param, is_portable, row_of, type_of};
use crate::{Args, Row, Sql};

/// What a statement answered.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Rows that came back.
    pub(super) rows: Vec<Row>,
    /// Rows that were changed or, if it returns rows, came back.
    pub(super) count: u64,
}

/// A statement that was sent; its reply comes when this is awaited.
pub(super) struct Sent<'c> {
    early: Option<Result<Reply, Failure>>,
    rest: BoxFuture<'c, Result<Reply, Failure>>,
}

impl Sent<'_> {
    pub(super) async fn reply(self) -> Result<Reply, Failure> {
        match self.early {
            Some(reply) => reply,
            None => self.rest.await,
        }
    }
}

/// What is known of a text on this connection.
struct Known {
    text: std::borrow::Cow<'static, str>,
    parameters: usize,
    /// `None`: it is sent as text with each use.
    statement: Option<Statement>,
}

/// A connection. Dropping it closes it; a transaction that is open then does not happen.
pub(super) struct Connection {
    client: Client,
    /// Closed by the task that drives the connection, when that ends.
    open: watch::Receiver<()>,
    /// Whether statements are prepared once, under a name that the server remembers.
    named: bool,
    texts: Mutex<Texts>,
    /// How often something was asked.
    uses: AtomicU64,
}

/// The texts that are known. A constant may stand in several places of the program, so its place
/// only saves reading it again.
#[derive(Default)]
struct Texts {
    by_place: HashMap<(usize, usize), Arc<Known>>,
    by_text: HashMap<&'static str, Arc<Known>>,
}

impl Texts {
    fn get(&mut self, sql: Sql) -> Option<Arc<Known>> {
        let place = (sql.0.as_ptr().addr(), sql.0.len());
        if let Some(known) = self.by_place.get(&place) {
            return Some(Arc::clone(known));
        }
        let known = self.by_text.get(sql.0)?;
        self.by_place.insert(place, Arc::clone(known));
        Some(Arc::clone(known))
    }
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
        let mut news: Vec<(Sql, Known)> = Vec::new();
        for sql in texts {
            if self.get(sql).is_some() || news.iter().any(|(known, _)| *known == sql) {
                continue;
            }
            let parameters = text::parameters(sql.0).map_err(|why| (sql, misuse(&why, sql)))?;
            let text = text::of_statement(sql.0);
            news.push((sql, Known { text, parameters, statement: None }));
        }
        if self.named {
            self.name(&mut news).await?;
        }
        if !news.is_empty() {
            let news = news.into_iter().map(|(sql, known)| (sql.0, Arc::new(known)));
            self.texts().by_text.extend(news);
        }
        Ok(())
    }

    /// Has the server remember texts.
    async fn name(&self, news: &mut [(Sql, Known)]) -> Result<(), (Sql, Failure)> {
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
            check(&statement, known.parameters, *sql).map_err(|failure| (*sql, failure))?;
            statements.push(statement);
        }
        for ((_, known), statement) in news.iter_mut().zip(statements) {
            known.statement = Some(statement);
        }
        Ok(())
    }

    /// Whether these arguments fit a text that [`Self::prepare`] knows.
    pub(super) fn check(&self, sql: Sql, args: &Args) -> Result<(), Failure> {
        let known = self.get(sql).ok_or_else(|| misuse("it is not prepared", sql))?;
        if known.parameters != args.len() {
            let why = format!("{} arguments for {} parameters", args.len(), known.parameters);
            return Err(misuse(&why, sql));
        }
        let Some(statement) = &known.statement else { return Ok(()) };
        for (index, (value, kind)) in args.iter().zip(statement.params()).enumerate() {
            let given = type_of(value);
            if *value != crate::Val::Null && given != *kind {
                let why = format!("argument {} is {given} for a {kind}", index + 1);
                return Err(misuse(&why, sql));
            }
        }
        Ok(())
    }

    /// Sends a statement whose text and arguments were checked, after all that were sent before.
    pub(super) async fn send<'c>(&'c self, sql: Sql, args: &'c Args) -> Sent<'c> {
        sent(Box::pin(async move {
            let known = self.get(sql).ok_or_else(|| misuse("it is not prepared", sql))?;
            let params = args.iter().map(Param);
            let stream = if let Some(statement) = &known.statement {
                self.client.query_raw(statement, params).await
            } else {
                let typed = params.zip(args.iter().map(type_of));
                self.client.query_typed_raw(&known.text, typed).await
            };
            collect(stream.map_err(|error| in_text(&error, sql))?, sql).await
        }))
        .await
    }

    /// Sends statements without parameters, such as BEGIN.
    pub(super) async fn send_text<'c>(&'c self, text: &'c str) -> Sent<'c> {
        sent(Box::pin(async move {
            let done = self.client.batch_execute(text).await;
            done.map(|()| Reply::default()).map_err(|error| Failure::of(&error))
        }))
        .await
    }

    /// Prepares, checks, sends one statement and waits for its reply.
    pub(super) async fn run(&self, sql: Sql, args: &Args) -> Result<Reply, Failure> {
        self.prepare(std::iter::once(sql)).await.map_err(|(_, failure)| failure)?;
        self.check(sql, args)?;
        self.send(sql, args).await.reply().await
    }

    /// Runs statements without parameters.
    pub(super) async fn run_text(&self, text: &str) -> Result<(), Failure> {
        self.send_text(text).await.reply().await.map(drop)
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
            let _ignored = self.send_text("DISCARD PLANS").await;
        }
    }

    fn get(&self, sql: Sql) -> Option<Arc<Known>> {
        self.texts().get(sql)
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
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

/// A request is sent when it is first polled, so this polls it once.
async fn sent(mut rest: BoxFuture<'_, Result<Reply, Failure>>) -> Sent<'_> {
    let early = poll_immediate(&mut rest).await;
    Sent { early, rest }
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

/// A prepared statement must take the types that exist on every engine.
fn check(statement: &Statement, parameters: usize, sql: Sql) -> Result<(), Failure> {
    if statement.params().len() != parameters {
        return Err(misuse("the server counts other parameters", sql));
    }
    for (index, kind) in statement.params().iter().enumerate() {
        if !is_portable(kind) {
            let why = format!("parameter {} is {kind}: CAST it to BIGINT or TEXT", index + 1);
            return Err(misuse(&why, sql));
        }
    }
    Ok(())
}

pub(super) fn misuse(why: &str, sql: Sql) -> Failure {
    Failure::Own(format!("{why}, in: {}", sql.0))
}

/// A failure with the text of the statement, where that is to blame.
fn in_text(error: &tokio_postgres::Error, sql: Sql) -> Failure {
    match Failure::of(error) {
        Failure::Own(why) => misuse(&why, sql),
        other => other,
    }
}
