//! Several nodes on one database. A node that has sockets of a ticket says so in `chat_watchers`,
//! and that it is alive in `chat_nodes`; whoever writes leaves a row in `chat_mail` for it. The row
//! says only that there is news: what it is, the node reads. So a row may be lost or doubled, and
//! its order means nothing.

use std::time::Duration;

use ::store::{CommitError, FromRow, WriteSet, args};
use clock::{MINUTE, Millis};
use tokio::time::Instant;

use super::store as sql;
use crate::app::App;
use crate::kit::id::{AccountId, TicketId};

/// How long a node counts as alive after it said so, milliseconds.
const ALIVE_MS: i64 = 15_000;
/// How often it says so.
const BEAT: Duration = Duration::from_secs(4);
/// A beat that is later than this: others may have taken us for dead, and left us nothing.
const LAPSE: Duration = Duration::from_secs(12);
/// Rows taken at a time.
const CHUNK: i64 = 500;

/// Says that this node has sockets of a ticket. What is committed before it returns can be read
/// then; what is committed later is told.
pub(super) async fn watch(
    app: &App,
    account: &AccountId,
    ticket: &TicketId,
) -> Result<(), CommitError> {
    if !app.config.database.is_shared() {
        return Ok(());
    }
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::LOCK, args![account, ticket]);
    set.push(sql::LIVE_ON, args![app.node, app.now() + ALIVE_MS]);
    set.push(sql::WATCH, args![ticket, app.node]);
    app.db.commit(set).await.map(drop)
}

/// What this node has done for the others, and when.
pub(super) struct Neighbour {
    last_beat: Option<Instant>,
}

impl Neighbour {
    pub(super) fn new() -> Self {
        Self { last_beat: None }
    }

    /// Takes what others left; answers whether there was anything.
    pub(super) async fn take_mail(&self, app: &App) -> Result<bool, ::store::Error> {
        if app.db.row::<(String,)>(sql::ANY_MAIL, args![app.node]).await?.is_none() {
            return Ok(false);
        }
        let mut set = WriteSet::of("chat");
        set.returning_rows(sql::TAKE_MAIL, args![app.node, CHUNK]);
        let Ok(done) = app.db.commit(set).await else { return Ok(false) };
        for row in done.rows.into_iter().flatten() {
            let (ticket,) = <(String,)>::from_row(row)?;
            app.sockets.news(&ticket);
        }
        Ok(true)
    }

    /// Says that this node is alive, when it is time; takes back what it does not watch any more.
    pub(super) async fn beat(&mut self, app: &App) -> Result<(), CommitError> {
        let left = app.sockets.take_left();
        if !left.is_empty() {
            let mut set = WriteSet::of("chat");
            for ticket in &left {
                set.push(sql::UNWATCH, args![ticket, app.node]);
            }
            app.db.commit(set).await?;
            self.watch_again(app, &left).await?;
        }
        let now = Instant::now();
        let since = self.last_beat.map(|last| now - last);
        if since.is_some_and(|since| since < BEAT) || app.sockets.is_empty() {
            return Ok(());
        }
        let mut set = WriteSet::of("chat");
        set.push(sql::LIVE_ON, args![app.node, app.now() + ALIVE_MS]);
        app.db.commit(set).await?;
        self.last_beat = Some(now);
        if since.is_some_and(|since| since > LAPSE) {
            self.come_back(app).await?;
        }
        bury(app, app.now() - MINUTE).await
    }

    /// Whoever came back to a ticket while it was taken back is told of again.
    async fn watch_again(&self, app: &App, left: &[String]) -> Result<(), CommitError> {
        for (ticket, account) in app.sockets.topics() {
            if left.contains(&ticket) {
                let (id, account) = (TicketId::stored(ticket), AccountId::stored(account));
                watch(app, &account, &id).await?;
                app.sockets.news(id.as_str());
            }
        }
        Ok(())
    }

    /// After a pause in which this node counted as dead: all sockets read what they missed.
    async fn come_back(&self, app: &App) -> Result<(), CommitError> {
        for (ticket, account) in app.sockets.topics() {
            let (ticket, account) = (TicketId::stored(ticket), AccountId::stored(account));
            watch(app, &account, &ticket).await?;
        }
        app.sockets.news_everywhere();
        Ok(())
    }
}

/// Forgets nodes that are gone.
async fn bury(app: &App, before: Millis) -> Result<(), CommitError> {
    let unreadable = |error: ::store::Error| CommitError::Unavailable(error.to_string());
    let dead: Option<(i64,)> = app.db.row(sql::DEAD, args![before]).await.map_err(unreadable)?;
    let Some((node,)) = dead else { return Ok(()) };
    let mut set = WriteSet::of("chat");
    set.push(sql::BURY_MAIL, args![node]);
    set.push(sql::BURY_WATCHERS, args![node]);
    set.push(sql::BURY, args![node, before]);
    app.db.commit(set).await.map(drop)
}
