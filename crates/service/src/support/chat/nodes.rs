//! Several nodes on one database. A node that has sockets of a ticket says so in `chat_watchers`,
//! and that it is alive in `chat_nodes`; whoever writes leaves a row in `chat_mail` for it. The row
//! says only that there is news: what it is, the node reads. So a row may be lost or doubled, and
//! its order means nothing. That a side types is all in the row; it may be lost, too.

use std::time::Duration;

use ::store::{CommitError, FromRow, Reject, WriteSet, args};
use clock::{MINUTE, Millis};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::frames;
use super::store as sql;
use crate::app::App;
use crate::kit::id::{AccountId, TicketId};
use crate::sockets::{Present, Update, features};
use crate::support::Side;

/// How long a node counts as alive after it said so, milliseconds.
const ALIVE_MS: i64 = 15_000;
/// How often it says so.
const BEAT: Duration = Duration::from_secs(4);
/// A beat that is later than this: others may have taken us for dead, and left us nothing.
const LAPSE: Duration = Duration::from_secs(12);
/// By how much the clocks of two nodes differ at most, milliseconds.
const CLOCKS_DIFFER_MS: i64 = 3_000;
/// A node that is not gone.
const ALIVE: Reject = Reject("chat_node_alive");
/// Rows taken at a time.
const CHUNK: i64 = 500;
/// Tickets watched anew, or given up, at a time: between them news goes on.
const SLICE: usize = 128;
/// Tickets watched anew at the same time.
const PARALLEL: usize = 16;

/// Says that this node has sockets of a ticket, and which side has come. What is committed before
/// it returns can be read then; what is committed later is told.
pub(super) async fn watch(
    app: &App,
    account: &AccountId,
    ticket: &TicketId,
    come: Present,
) -> Result<(), CommitError> {
    if !app.config.database.is_shared() {
        return Ok(());
    }
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::LOCK, args![account, ticket]);
    set.push(sql::LIVE_ON, args![app.node, app.now() + ALIVE_MS]);
    set.push(sql::WATCH, args![ticket, app.node, come.user, come.staff]);
    leave_mail(app, &mut set, account, ticket, None);
    app.db.commit(set).await?;
    app.db.nudge();
    // Whoever has left again meanwhile is to be taken back.
    app.sockets.note_told(ticket.as_str(), come);
    app.sockets.news(ticket.as_str());
    Ok(())
}

/// Adds a note for the other nodes that have sockets of a ticket.
pub(super) fn leave_mail(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    ticket: &TicketId,
    typing: Option<Side>,
) {
    let (mail, typing) = (app.clock.id("mail"), typing.map(Side::as_str));
    set.push(sql::LEAVE_MAIL, args![mail, account, typing, ticket, app.node, app.now()]);
}

/// Tells the other nodes that a side types.
pub(super) async fn tell_typing(app: &App, account: &AccountId, ticket: &TicketId, side: Side) {
    if !app.config.database.is_shared() {
        return;
    }
    let mut set = WriteSet::of(account.as_str());
    leave_mail(app, &mut set, account, ticket, Some(side));
    match app.db.commit(set).await {
        Ok(_) => app.db.nudge(),
        Err(error) => tracing::debug!(%error, "other nodes were not told that somebody types"),
    }
}

/// Tells the other nodes who listens here, where that changed. The only one who does, so what was
/// told last is what is so.
pub(super) async fn tell_presence(app: &App, news: &Update) -> Result<(), CommitError> {
    if news.here == news.told {
        return Ok(());
    }
    let account = AccountId::stored(news.account.clone());
    let ticket = TicketId::stored(news.topic.clone());
    let Present { user, staff } = news.here;
    let mut set = WriteSet::of(account.as_str());
    // Of two nodes that tell each other at the same time, the second one sees what the first did.
    set.push(sql::LOCK, args![&account, &ticket]);
    set.push(sql::SET_PRESENT, args![user, staff, &ticket, app.node]);
    leave_mail(app, &mut set, &account, &ticket, None);
    app.db.commit(set).await?;
    app.sockets.set_told(&news.topic, news.here);
    app.db.nudge();
    Ok(())
}

/// Reads who listens to a ticket at other nodes.
pub(super) async fn look_elsewhere(app: &App, ticket: &str) -> Result<(), ::store::Error> {
    if app.config.database.is_shared() {
        app.sockets.set_elsewhere(ticket, elsewhere(app, ticket).await?);
    }
    Ok(())
}

/// Whether the user of a ticket has a socket of it, at any node.
pub(in crate::support) async fn has_user(
    app: &App,
    ticket: &TicketId,
) -> Result<bool, ::store::Error> {
    let is_here = app.sockets.here(ticket.as_str()).user;
    if is_here || !app.config.database.is_shared() {
        return Ok(is_here);
    }
    Ok(elsewhere(app, ticket.as_str()).await?.user)
}

async fn elsewhere(app: &App, ticket: &str) -> Result<Present, ::store::Error> {
    let args = args![ticket, app.node, app.now()];
    let found: Option<(Option<i64>, Option<i64>)> = app.db.row(sql::ELSEWHERE, args).await?;
    let (user, staff) = found.unwrap_or_default();
    Ok(Present { user: user == Some(1), staff: staff == Some(1) })
}

/// What this node has done for the others, and when, and which of them there are.
#[derive(Default)]
pub(super) struct Neighbour {
    last_beat: Option<Instant>,
    /// Until when this node counts as alive.
    alive_until: Option<Millis>,
    alive: Vec<i64>,
    /// Tickets that nobody here listens to any more, and whose they are.
    left: Vec<(String, String)>,
    /// Tickets that are still to be watched anew, and whose they are.
    back: Vec<(String, String)>,
}

impl Neighbour {
    /// Takes what others left; answers whether there was anything.
    pub(super) async fn take_mail(&mut self, app: &App) -> Result<bool, ::store::Error> {
        if app.db.row::<(String,)>(sql::ANY_MAIL, args![app.node]).await?.is_none() {
            return Ok(false);
        }
        let mut set = WriteSet::of("chat");
        set.returning_rows(sql::TAKE_MAIL, args![app.node, CHUNK]);
        let done = match app.db.commit(set).await {
            Ok(done) => done,
            Err(CommitError::Unknown(_)) => {
                // Notes may be gone that nobody has seen.
                self.back = app.sockets.topics();
                return Ok(false);
            }
            Err(_) => return Ok(false),
        };
        for row in done.rows.into_iter().flatten() {
            let (ticket, typing) = <(String, Option<String>)>::from_row(row)?;
            match typing.as_deref().and_then(|word| word.parse().ok()) {
                Some(side) => app.sockets.push(&ticket, &[frames::typing(&ticket, side)], None),
                None => app.sockets.news(&ticket),
            }
        }
        Ok(true)
    }

    /// Says that this node is alive, when it is time; takes back what it does not watch any more.
    pub(super) async fn beat(&mut self, app: &App) -> Result<(), CommitError> {
        self.give_up(app).await?;
        self.come_back(app).await?;
        let now = Instant::now();
        let since = self.last_beat.map(|last| now - last);
        if since.is_some_and(|since| since < BEAT) || app.sockets.is_empty() {
            return Ok(());
        }
        // Also by the clock that others judge by: it may have been set, or this machine have slept.
        let is_late = |until: Millis| until - CLOCKS_DIFFER_MS <= app.now();
        let has_lapsed =
            since.is_some_and(|since| since > LAPSE) || self.alive_until.is_some_and(is_late);
        let alive_until = app.now() + ALIVE_MS;
        let mut set = WriteSet::of("chat");
        set.push(sql::LIVE_ON, args![app.node, alive_until]);
        app.db.commit(set).await?;
        (self.last_beat, self.alive_until) = (Some(now), Some(alive_until));
        if has_lapsed {
            // Others counted this node as dead: all sockets read what they missed.
            self.back = app.sockets.topics();
        }
        self.look_around(app).await?;
        bury(app, app.now() - MINUTE).await
    }

    /// When a node went without a word, who was there is not there any more.
    async fn look_around(&mut self, app: &App) -> Result<(), CommitError> {
        let alive: Vec<(i64,)> = app.db.rows(sql::ALIVE, args![app.now()]).await?;
        let alive: Vec<i64> = alive.into_iter().map(|(node,)| node).collect();
        if alive != self.alive {
            app.sockets.news_for(features::PRESENCE);
            self.alive = alive;
        }
        Ok(())
    }

    /// Whether tickets are still to be watched anew or given up: the next beat is not to wait.
    pub(super) fn is_behind(&self) -> bool {
        !(self.back.is_empty() && self.left.is_empty())
    }

    /// Takes back some of what nobody here listens to any more.
    async fn give_up(&mut self, app: &App) -> Result<(), CommitError> {
        self.left.append(&mut app.sockets.take_left());
        let kept = self.left.len().saturating_sub(SLICE);
        if kept == self.left.len() {
            return Ok(());
        }
        let mut set = WriteSet::of("chat");
        for (ticket, account) in &self.left[kept..] {
            set.push(sql::UNWATCH, args![ticket.as_str(), app.node]);
            let account = AccountId::stored(account.clone());
            let ticket = TicketId::stored(ticket.clone());
            leave_mail(app, &mut set, &account, &ticket, None);
        }
        app.db.commit(set).await?;
        app.db.nudge();
        // Whoever came back to a ticket meanwhile is told of again.
        self.back.extend(self.left.drain(kept..));
        Ok(())
    }

    /// Watches some tickets anew, of those that somebody listens to. What fails stays.
    async fn come_back(&mut self, app: &App) -> Result<(), CommitError> {
        let kept = self.back.len().saturating_sub(SLICE);
        let mut some = self.back.split_off(kept);
        some.retain(|(ticket, _)| app.sockets.has(ticket));
        let watched = stream::iter(some.into_iter().map(|of| async move {
            app.sockets.set_told(&of.0, Present::default());
            let (ticket, account) =
                (TicketId::stored(of.0.clone()), AccountId::stored(of.1.clone()));
            watch(app, &account, &ticket, Present::default()).await.map_err(|error| (of, error))
        }));
        let mut first_error = Ok(());
        let mut watched = watched.buffer_unordered(PARALLEL);
        while let Some(outcome) = watched.next().await {
            if let Err((of, error)) = outcome {
                self.back.push(of);
                first_error = Err(error);
            }
        }
        first_error
    }
}

/// Forgets nodes that are gone.
async fn bury(app: &App, before: Millis) -> Result<(), CommitError> {
    let dead: Option<(i64,)> = app.db.row(sql::DEAD, args![before]).await?;
    let Some((node,)) = dead else { return Ok(()) };
    let mut set = WriteSet::of("chat");
    set.guard(sql::BURY, args![node, before], ALIVE);
    set.push(sql::BURY_MAIL, args![node]);
    set.push(sql::BURY_WATCHERS, args![node]);
    match app.db.commit(set).await {
        // It came back, or another node was faster.
        Err(CommitError::Rejected(ALIVE)) => Ok(()),
        done => done.map(drop),
    }
}
