//! A connection to PostgreSQL by the client library, shared by many: for reads, migrations and
//! what is rare. Nothing of a session but its prepared statements is relied on, so a pooler that
//! hands each transaction to another server connection does no harm.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::poll_immediate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, RowStream, Statement};

use super::address::Address;
use super::bulk;
use super::failure::Failure;
use super::text;
use super::texts::{Known, Texts, misuse, place};
use super::value::{Param, Params, array_of, row_of, type_of};
use store::{Args, Row, Sql, Val};

/// What a statement answered.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Rows that came back.
    pub(super) rows: Vec<Row>,
    /// Rows that were changed or, if it returns rows, came back.
    pub(super) count: u64,
}

/// A text for many reads.
struct Many {
    text: String,
    /// The type of each argument of one read.
    types: Vec<Type>,
    /// `None`: it is sent as text with each use.
    statement: Option<Statement>,
}

type Manys = HashMap<(usize, usize), Option<Arc<Many>>>;

/// A connection. Dropping it closes it; a transaction that is open then does not happen.
pub(super) struct Connection {
    client: Client,
    /// Closed by the task that drives the connection, when that ends.
    open: watch::Receiver<()>,
    /// Whether statements are prepared once, under a name that the server remembers.
    named: bool,
    texts: Mutex<Texts<Statement>>,
    /// The texts for many reads, by the place of the text for one; `None` = there is none.
    many: Mutex<Manys>,
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
                let (texts, many, uses) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
                Ok(Self { client, open, named, texts, many, uses })
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

    /// The rows of several reads of one text, by one statement; `None` = it has no such form.
    pub(super) async fn run_many(
        &self,
        sql: Sql,
        asks: &[Args],
    ) -> Result<Option<Vec<Vec<Row>>>, Failure> {
        let Some(many) = self.many(sql, asks).await? else { return Ok(None) };
        let params = (0..many.types.len()).map(|index| Params { asks, index });
        let stream = if let Some(statement) = &many.statement {
            self.client.query_raw(statement, params).await
        } else {
            let typed = params.zip(many.types.iter().filter_map(array_of));
            self.client.query_typed_raw(&many.text, typed).await
        };
        let reply = collect(stream.map_err(|error| in_text(&error, sql))?, sql).await?;
        let mut found = vec![Vec::new(); asks.len()];
        for mut row in reply.rows {
            let place = row.0.pop();
            let index = match place {
                Some(Val::Int(place)) => usize::try_from(place - 1).ok(),
                _ => None,
            };
            let rows = index.and_then(|index| found.get_mut(index));
            rows.ok_or(Failure::Corrupt(row.0.len()))?.push(row);
        }
        Ok(Some(found))
    }

    /// The text for many of these reads, which the server is asked to remember at first.
    async fn many(&self, sql: Sql, asks: &[Args]) -> Result<Option<Arc<Many>>, Failure> {
        let Some((first, others)) = asks.split_first() else { return Ok(None) };
        let types = || first.iter().map(type_of);
        // A NULL does not say what it would be.
        if types().any(|kind| kind == Type::UNKNOWN)
            || others.iter().any(|other| !other.iter().map(type_of).eq(types()))
        {
            return Ok(None);
        }
        let known = lock(&self.many).get(&place(sql)).cloned();
        if let Some(known) = known {
            return Ok(known.filter(|known| types().eq(known.types.iter().cloned())));
        }
        let learned = self.learn_many(sql, types().collect()).await?.map(Arc::new);
        lock(&self.many).insert(place(sql), learned.clone());
        Ok(learned)
    }

    async fn learn_many(&self, sql: Sql, types: Vec<Type>) -> Result<Option<Many>, Failure> {
        let Some(text) = bulk::of_read(&text::of_statement(sql.0), &types) else {
            return Ok(None);
        };
        if !self.named {
            return Ok(Some(Many { text, types, statement: None }));
        }
        match self.client.prepare(&text).await.map_err(|error| Failure::of(&error)) {
            Ok(statement) => Ok(Some(Many { text, types, statement: Some(statement) })),
            Err(Failure::Lost(why)) => Err(Failure::Lost(why)),
            Err(failure) => {
                let (why, sql) = (failure.text(), sql.0);
                tracing::warn!(why, sql, "reads of this are not gathered");
                Ok(None)
            }
        }
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
        lock(&self.texts)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
