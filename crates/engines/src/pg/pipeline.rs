//! A batcher's connection. Statements leave in one burst with one Sync at its end; the client
//! library ends each with a Sync of its own, and the server answers each Sync by a write to its
//! socket: half of what a commit cost. Spec: PostgreSQL, "Extended Query" and "Pipelining".
//!
//! After an error the server skips everything up to the next Sync, so what follows the error is
//! answered by [`Failure::Skipped`]. As everywhere, nothing of a session but its prepared
//! statements is relied on.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::fallible_iterator::FallibleIterator as _;
use tokio_postgres::types::Type;

use super::address::Address;
use super::answers::{columns, disorder, failed, in_text, row_of, type_of_oid};
use super::bulk;
use super::connection::Reply;
use super::failure::Failure;
use super::request::Request;
use super::stream::{Stream, dial, lost};
use super::texts::{Known, Texts, misuse, place};
use super::value::{encode, encode_column, type_of};
use store::{Args, Sql, args};

/// Bytes that are read at once, at most.
const CHUNK: usize = 8 * 1024;
/// A buffer that one large burst made larger than this is let go.
const KEEP: usize = 256 * 1024;

const COMMIT: &str = "COMMIT";

/// What the server remembers of a prepared statement.
struct Statement {
    name: String,
    parameters: Vec<Type>,
    columns: Vec<Option<Type>>,
}

/// A text that sets may run together: prepared for many of them, if it has such a form.
struct BulkText {
    statement: Option<Statement>,
    answer: bulk::Answer,
}

/// A connection of one owner. Dropping it closes it; a transaction that is open then does not
/// happen. A future of it that is dropped half-way leaves it of no use, [`Self::over`] excepted.
pub(super) struct Pipeline {
    stream: Stream,
    named: bool,
    texts: Texts<Statement>,
    /// Whether sets are run together just now.
    pub(super) bulk_pace: bulk::Pace,
    /// The texts for many sets, by the place of the text for one; `None` = there is none.
    bulks: HashMap<(usize, usize), Option<Arc<BulkText>>>,
    /// Names given so far.
    names: u64,
    /// How often something was asked.
    uses: u64,
    out: BytesMut,
    input: BytesMut,
    /// Texts that were sent and whose answers nobody waits for.
    unheard: usize,
}

impl Pipeline {
    /// Connects within `patience`.
    pub(super) async fn dial(
        address: &Address,
        named: bool,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let stream = match tokio::time::timeout(patience, dial(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(failure)) => return Err(Failure::Lost(failure.text().to_owned())),
            Err(_) => return Err(Failure::Lost("the server does not answer".to_owned())),
        };
        Ok(Self {
            stream,
            named,
            texts: Texts::default(),
            bulk_pace: bulk::Pace::default(),
            bulks: HashMap::new(),
            names: 0,
            uses: 0,
            out: BytesMut::new(),
            input: BytesMut::new(),
            unheard: 0,
        })
    }

    /// Ends once it can no longer be used. Dropping the future loses nothing.
    pub(super) async fn over(&mut self) {
        // Whatever is said unasked ends a session.
        let _end = self.next().await;
    }

    /// Gets to know the texts that are new, all in one burst. Answers what is wrong with the
    /// first that cannot be used, and which that is.
    pub(super) async fn prepare(
        &mut self,
        texts: impl Iterator<Item = Sql>,
    ) -> Result<(), (Sql, Failure)> {
        let mut news = self.texts.news(texts)?;
        let mut bad = None;
        if self.named
            && let Some((first, _)) = news.first()
        {
            let first = *first;
            bad = self.name(&mut news).await.map_err(|failure| (first, failure))?;
        }
        let named = self.named;
        let useful = |known: &Known<Statement>| known.statement.is_some() || !named;
        self.texts.learn(news.into_iter().filter(|(_, known)| useful(known)));
        bad.map_or(Ok(()), Err)
    }

    /// Has the server remember texts, up to the first that it cannot use.
    async fn name(
        &mut self,
        news: &mut [(Sql, Known<Statement>)],
    ) -> Result<Option<(Sql, Failure)>, Failure> {
        let first = self.names;
        for (_, known) in &*news {
            let name = name_of(self.names);
            self.names += 1;
            let out = &mut self.out;
            frontend::parse(&name, &known.text, [], out).map_err(|error| lost(&error))?;
            frontend::describe(b'S', &name, out).map_err(|error| lost(&error))?;
        }
        frontend::sync(&mut self.out);
        let mut bad = None;
        for (number, (sql, known)) in (first..).zip(news.iter_mut()) {
            if bad.is_some() {
                break;
            }
            match self.described(name_of(number)).await? {
                Ok(statement) => match known.check_types(*sql, &statement.parameters) {
                    Ok(()) => known.statement = Some(statement),
                    // The others were prepared for nothing; their answers are passed over.
                    Err(failure) => bad = Some((*sql, failure)),
                },
                Err(failure) => bad = Some((*sql, in_text(failure, *sql))),
            }
        }
        self.ready().await?;
        Ok(bad)
    }

    /// The answer to one text that is to be remembered.
    async fn described(&mut self, name: String) -> Result<Result<Statement, Failure>, Failure> {
        let mut parameters = Vec::new();
        loop {
            let columns = match self.next().await? {
                Message::ParseComplete => continue,
                Message::ParameterDescription(body) => {
                    let kinds = body.parameters().map(|oid| Ok(type_of_oid(oid)));
                    parameters = kinds.collect().map_err(|error| lost(&error))?;
                    continue;
                }
                Message::NoData => Vec::new(),
                Message::RowDescription(body) => columns(&body)?,
                Message::ErrorResponse(body) => return failed(&body).map(Err),
                _ => return Err(disorder()),
            };
            return Ok(Ok(Statement { name, parameters, columns }));
        }
    }

    /// What a text answers when many sets run it together; `None` = they cannot.
    pub(super) fn bulk(&self, sql: Sql) -> Option<bulk::Answer> {
        self.bulks.get(&place(sql))?.as_ref().map(|known| known.answer)
    }

    fn bulk_text(&self, sql: Sql) -> Option<Arc<BulkText>> {
        self.bulks.get(&place(sql)).and_then(Clone::clone)
    }

    /// Gets to know what these texts are for many sets. One that the server cannot use is run set
    /// by set.
    pub(super) async fn learn_bulk(
        &mut self,
        texts: impl Iterator<Item = Sql>,
    ) -> Result<(), Failure> {
        for sql in texts {
            if self.bulks.contains_key(&place(sql)) {
                continue;
            }
            let known = self.texts.get(sql);
            let made = known.as_ref().filter(|_| bulk::is_bulk(sql.0)).and_then(|known| {
                let types = &known.statement.as_ref()?.parameters;
                Some(bulk::of(&known.text, types))
            });
            let learned = match made {
                Some(made) => Some(Arc::new(self.prepare_bulk(sql, made).await?)),
                None => None,
            };
            self.bulks.insert(place(sql), learned);
        }
        Ok(())
    }

    async fn prepare_bulk(
        &mut self,
        sql: Sql,
        made: Option<bulk::Bulk>,
    ) -> Result<BulkText, Failure> {
        let each = BulkText { statement: None, answer: bulk::Answer::Each };
        let Some(bulk::Bulk { text, answer }) = made else { return Ok(each) };
        let name = name_of(self.names);
        self.names += 1;
        frontend::parse(&name, &text, [], &mut self.out).map_err(|error| lost(&error))?;
        frontend::describe(b'S', &name, &mut self.out).map_err(|error| lost(&error))?;
        frontend::sync(&mut self.out);
        let described = self.described(name).await?;
        self.ready().await?;
        Ok(match described {
            Ok(statement) => BulkText { statement: Some(statement), answer },
            Err(failure) => {
                let (why, sql) = (failure.text(), sql.0);
                tracing::warn!(why, sql, "a statement is run set by set");
                each
            }
        })
    }

    /// Whether these arguments fit a text that [`Self::prepare`] knows.
    pub(super) fn check(&mut self, sql: Sql, args: &Args) -> Result<(), Failure> {
        let known = self.texts.get(sql).ok_or_else(|| misuse("it is not prepared", sql))?;
        known.check(sql, args, |statement| &statement.parameters)
    }

    /// Sends all and answers each, in order. An error of the whole: the connection is of no use
    /// any more.
    pub(super) async fn run_all(
        &mut self,
        requests: &[Request<'_>],
    ) -> Result<Vec<Result<Reply, Failure>>, Failure> {
        let parts = || requests.chunk_by(|one, next| one.leads() && next.follows());
        for part in parts() {
            self.write(part)?;
        }
        let mut replies = Vec::with_capacity(requests.len());
        for part in parts() {
            self.read(part, &mut replies).await?;
        }
        if self.out.capacity() > KEEP {
            self.out = BytesMut::new();
        }
        Ok(replies)
    }

    /// Prepares, checks, sends one statement and waits for its reply.
    pub(super) async fn run(&mut self, sql: Sql, args: &Args) -> Result<Reply, Failure> {
        self.prepare(std::iter::once(sql)).await.map_err(|(_, failure)| failure)?;
        self.check(sql, args)?;
        self.one(Request::Bound { sql, args }).await
    }

    /// Runs statements without parameters.
    pub(super) async fn run_text(&mut self, text: &str) -> Result<(), Failure> {
        self.one(Request::Text(text)).await.map(drop)
    }

    async fn one(&mut self, request: Request<'_>) -> Result<Reply, Failure> {
        self.run_all(&[request]).await?.pop().unwrap_or_else(|| Err(disorder()))
    }

    /// Makes what the transaction did durable.
    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.one(Request::Text(COMMIT)).await.map(drop)
    }

    /// Sends statements without parameters and waits for nothing but their departure.
    pub(super) async fn tell(&mut self, text: &str) -> Result<(), Failure> {
        frontend::query(text, &mut self.out).map_err(|error| lost(&error))?;
        self.unheard += 1;
        poll_fn(|cx| self.poll_out(cx)).await.map_err(|error| lost(&error))
    }

    /// Says good-bye, so that the server need not wonder.
    pub(super) async fn leave(mut self) {
        frontend::terminate(&mut self.out);
        let _gone = poll_fn(|cx| self.poll_out(cx)).await;
    }

    /// Has the server plan prepared statements anew, after 1, 2, 4, 8, … uses. A plan that was
    /// made while a table was small reads the whole table, and would go on doing so when it is
    /// large. Sent, not waited for.
    pub(super) async fn refresh_plans(&mut self) {
        self.uses += 1;
        if self.named && self.uses.is_power_of_two() {
            let _ignored = self.tell("DISCARD PLANS").await;
        }
    }

    /// Writes either one text, or statements and their Sync.
    fn write(&mut self, part: &[Request<'_>]) -> Result<(), Failure> {
        for request in part {
            match *request {
                Request::Text(text) => {
                    return frontend::query(text, &mut self.out).map_err(|error| lost(&error));
                }
                Request::First(sql) => self.bind(sql, &args![])?,
                Request::Bound { sql, args } => self.bind(sql, args)?,
                Request::Bulk { sql, args } => self.bind_bulk(sql, args)?,
            }
        }
        frontend::sync(&mut self.out);
        Ok(())
    }

    fn bind(&mut self, sql: Sql, args: &Args) -> Result<(), Failure> {
        let known = self.texts.get(sql).ok_or_else(|| misuse("it is not prepared", sql))?;
        let out = &mut self.out;
        let name = known.statement.as_ref().map_or("", |statement| statement.name.as_str());
        if known.statement.is_none() {
            let types = args.iter().map(|value| type_of(value).oid());
            frontend::parse("", &known.text, types, out).map_err(|error| lost(&error))?;
        }
        // All in the binary format.
        let written =
            frontend::bind("", name, [1], args, |arg, out| Ok(encode(arg, out)), [1], out);
        written.map_err(|_| misuse("the arguments are too large", sql))?;
        if known.statement.is_none() {
            frontend::describe(b'P', "", out).map_err(|error| lost(&error))?;
        }
        frontend::execute("", 0, out).map_err(|error| lost(&error))
    }

    fn bind_bulk(&mut self, sql: Sql, sets: &[&Args]) -> Result<(), Failure> {
        let known = self.bulk_text(sql);
        let one = known.as_ref().and_then(|known| known.statement.as_ref());
        let Statement { name, parameters, .. } =
            one.ok_or_else(|| misuse("it is not known for many sets", sql))?;
        let columns = parameters.iter().enumerate();
        let column = |(index, kind): (usize, &Type), out: &mut BytesMut| {
            encode_column(kind, sets.iter().map(|args| args.get(index)), out)
        };
        let out = &mut self.out;
        let written = frontend::bind("", name, [1], columns, column, [1], out);
        written.map_err(|_| misuse("the arguments are too large", sql))?;
        frontend::execute("", 0, out).map_err(|error| lost(&error))
    }

    /// Reads the answers to what [`Self::write`] wrote.
    async fn read(
        &mut self,
        part: &[Request<'_>],
        replies: &mut Vec<Result<Reply, Failure>>,
    ) -> Result<(), Failure> {
        let mut is_over = false;
        for request in part {
            let reply = match *request {
                Request::Text(text) => {
                    replies.push(self.read_text(text).await?);
                    return Ok(());
                }
                Request::Bound { .. } | Request::Bulk { .. } if is_over => Err(Failure::Skipped),
                Request::First(sql) | Request::Bound { sql, .. } => {
                    let known = self.texts.get(sql).ok_or_else(disorder)?;
                    let kinds = known.statement.as_ref().map(|one| one.columns.as_slice());
                    self.read_bound(kinds).await?.map_err(|failure| in_text(failure, sql))
                }
                Request::Bulk { sql, .. } => {
                    let known = self.bulk_text(sql);
                    let one = known.as_ref().and_then(|known| known.statement.as_ref());
                    self.read_bound(one.map(|one| one.columns.as_slice()))
                        .await?
                        .map_err(|failure| in_text(failure, sql))
                }
            };
            // A row that cannot be read is no error of the server's: it goes on.
            is_over |= !matches!(reply, Ok(_) | Err(Failure::Corrupt(_)));
            replies.push(reply);
        }
        self.ready().await
    }

    async fn read_text(&mut self, text: &str) -> Result<Result<Reply, Failure>, Failure> {
        let mut reply = Ok(Reply::default());
        loop {
            match self.next().await? {
                Message::ReadyForQuery(_) => return Ok(reply),
                Message::ErrorResponse(body) => reply = Err(failed(&body)?),
                // COMMIT after an error is no error to the server.
                Message::CommandComplete(body)
                    if text == COMMIT && body.tag().is_ok_and(|tag| tag != COMMIT) =>
                {
                    reply = Err(Failure::Clash("the server rolled back".to_owned()));
                }
                _ => {}
            }
        }
    }

    /// The answer to one statement, whose columns are known or told.
    async fn read_bound(
        &mut self,
        known: Option<&[Option<Type>]>,
    ) -> Result<Result<Reply, Failure>, Failure> {
        let mut told = Vec::new();
        let (mut reply, mut corrupt) = (Reply::default(), None);
        loop {
            match self.next().await? {
                Message::ParseComplete | Message::BindComplete | Message::NoData => {}
                Message::RowDescription(body) => told = columns(&body)?,
                Message::DataRow(body) => match row_of(known.unwrap_or(&told), &body)? {
                    Ok(row) => reply.rows.push(row),
                    Err(failure) => corrupt = corrupt.or(Some(failure)),
                },
                Message::CommandComplete(body) => {
                    let tag = body.tag().map_err(|error| lost(&error))?;
                    reply.count = tag.rsplit(' ').next().map_or(0, |n| n.parse().unwrap_or(0));
                    return Ok(corrupt.map_or(Ok(reply), Err));
                }
                Message::EmptyQueryResponse => return Ok(Ok(reply)),
                Message::ErrorResponse(body) => return failed(&body).map(Err),
                _ => return Err(disorder()),
            }
        }
    }

    /// The end of what one Sync ended.
    async fn ready(&mut self) -> Result<(), Failure> {
        loop {
            if let Message::ReadyForQuery(_) = self.next().await? {
                return Ok(());
            }
        }
    }

    /// The next message that somebody waits for. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Message, Failure> {
        loop {
            let parsed = Message::parse(&mut self.input).map_err(|error| lost(&error))?;
            let Some(message) = parsed else {
                poll_fn(|cx| self.poll(cx)).await.map_err(|error| lost(&error))?;
                continue;
            };
            match message {
                Message::NoticeResponse(_)
                | Message::NotificationResponse(_)
                | Message::ParameterStatus(_) => {}
                Message::ReadyForQuery(_) if self.unheard > 0 => self.unheard -= 1,
                Message::ErrorResponse(body) if self.unheard > 0 => drop(failed(&body)?),
                _ if self.unheard > 0 => {}
                message => return Ok(message),
            }
        }
    }

    /// Sends what waits and takes what came: a server whose answers nobody takes stops reading.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.poll_out(cx) {
            return Poll::Ready(Err(error));
        }
        let known = self.input.len();
        self.input.resize(known + CHUNK, 0);
        let mut free = ReadBuf::new(self.input.get_mut(known..).unwrap_or_default());
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut free);
        let count = free.filled().len();
        self.input.truncate(known + count);
        match polled {
            Poll::Ready(Ok(())) if count == 0 => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed")))
            }
            polled => polled,
        }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.out.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

fn name_of(number: u64) -> String {
    format!("s{number}")
}
