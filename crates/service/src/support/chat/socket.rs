//! One open socket: it replays what was missed, writes what its outbox has, and takes what the
//! client sends. One task, one timer; its buffers are small, because most sockets idle.

use std::pin::pin;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::sync::Semaphore;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error as WsError, Message as Ws, Utf8Bytes};

use super::budget::Budget;
use super::farewell::{Stream, close};
use super::frames::{self, Fault, Incoming};
use super::{Ending, fan, nodes, token};
use crate::access::holder::{Holder, Subject};
use crate::access::idempotency::Claim;
use crate::app::App;
use crate::kit::id::{AccountId, TicketId};
use crate::kit::problem::Problem;
use crate::kit::takeover::Taken;
use crate::metrics::OpenConnection;
use crate::sockets::{Frame, Listener, Out, Present, Seat, features};
use crate::support::messages::{self, NewMessage};
use crate::support::{Author, Error, Reader, Side, Ticket, tickets, view};

/// Largest frame that is read, bytes: the longest message fits, even if all of it is escaped.
const MOST_BYTES: usize = 128 * 1024;
/// Longest time for writing to a client that does not read.
const WRITE: Duration = Duration::from_secs(10);
/// Shortest time between two signs of typing that are passed on.
const TYPING: Duration = Duration::from_secs(2);
/// Looks at the clock after which the token is looked at, too.
const RECHECK: u32 = 2;
/// How old a look at the token of staff may be when something is written to them.
const STAFF_PROOF: Duration = Duration::from_secs(1);
/// Messages replayed to a socket that asked for `resync`: it reads the rest over HTTP.
const REPLAYED: usize = 200;
/// Messages replayed at a time.
const STRETCH: i64 = 8;
/// Sockets whose messages are read and made into frames at the same time. Nobody closes it.
static REPLAYING: Semaphore = Semaphore::const_new(4);

/// What the upgrade asked for.
pub(super) struct Wish {
    pub(super) ticket: TicketId,
    pub(super) side: Side,
    pub(super) since: Option<i64>,
    pub(super) features: u8,
    pub(super) session: Holder,
    /// What the hub said before the token was looked at.
    pub(super) doubts: u64,
}

/// Serves a connection that became a socket, to its end.
pub(super) async fn serve(app: App, entry: Result<Box<Socket>, Ending>, taken: Taken) {
    let Taken { stream, read, mut stopped } = taken;
    let config = WebSocketConfig::default()
        .read_buffer_size(2 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(1024 * 1024)
        .max_message_size(Some(MOST_BYTES))
        .max_frame_size(Some(MOST_BYTES));
    let first = read.to_vec();
    // What is left of HTTP's buffer keeps all of it, for as long as the socket is open.
    drop(read);
    let mut ws =
        WebSocketStream::from_partially_read(stream, first, Role::Server, Some(config)).await;
    let ending = match entry {
        Ok(mut socket) => socket.run(&app, &mut ws, &mut stopped).await,
        Err(ending) => Some(ending),
    };
    if let Some(ending) = ending {
        app.metrics.socket_closed(ending.code());
    }
    Box::pin(close(&mut ws, ending)).await;
}

/// An open socket, but for its stream.
pub(super) struct Socket {
    ticket: TicketId,
    account: AccountId,
    author: Author,
    session: Holder,
    seat: Seat,
    _open: OpenConnection,
    /// The number of the last message that was written.
    cursor: i64,
    /// Frames that may come now, and since when that is so.
    budget: Budget,
    heard_at: Instant,
    /// When the session was last found to stand.
    proved_at: Instant,
    typed_at: Option<Instant>,
    looks: u32,
}

/// Finds the ticket and takes a seat, before the upgrade is answered: whatever is written once the
/// client has read that answer comes to it, with or without `since`.
pub(super) async fn enter(app: &App, wish: Wish) -> Result<Box<Socket>, Ending> {
    let session = wish.session;
    let (author, person) = match &session.subject {
        Subject::User(user, _) => (Author::User(user.clone()), user.to_string()),
        Subject::Staff(staff) => (Author::Staff(staff.clone()), staff.to_string()),
    };
    let ticket = match &session.subject {
        Subject::User(_, account) => tickets::find(app, Reader::User(account), &wish.ticket).await,
        Subject::Staff(_) => tickets::find(app, Reader::Staff, &wish.ticket).await,
    };
    let ticket = ticket.map_err(|error| ending(&error))?;
    let is_staff = wish.side == Side::Admin;
    let Wish { features, doubts, .. } = wish;
    let listener = Listener { person, is_staff, features, doubts };
    let (topic, account) = (ticket.id.as_str(), ticket.account.as_str());
    let most = app.config.support.sockets_per_person;
    let seat = app.sockets.join(topic, account, &listener, most).ok_or(Ending::TooMany)?;
    let come = Present { user: !is_staff, staff: is_staff };
    let watched = nodes::watch(app, &ticket.account, &ticket.id, come).await;
    watched.map_err(|_| Ending::Broken)?;
    // Again: what was written until the seat was taken is read, what comes later is pushed.
    let ticket: Ticket =
        tickets::find(app, Reader::Staff, &ticket.id).await.map_err(|error| ending(&error))?;
    if listener.features & features::PRESENCE != 0 {
        let looked = nodes::look_elsewhere(app, ticket.id.as_str()).await;
        looked.map_err(|_| Ending::Broken)?;
    }
    let stand = fan::Stand::of(&ticket, app.sockets.present(ticket.id.as_str()));
    let pushed = app.sockets.begin(ticket.id.as_str(), ticket.last_seq, stand.note());
    app.sockets.greet(&seat, |there| frames::presence(ticket.id.as_str(), there));
    let now = Instant::now();
    Ok(Box::new(Socket {
        // A number from beyond the end would wait for messages that are long to come.
        cursor: wish.since.map_or(pushed.max(ticket.last_seq), |since| since.min(ticket.last_seq)),
        ticket: ticket.id,
        account: ticket.account,
        author,
        session,
        seat,
        _open: app.metrics.socket_opened(wish.side.as_str()),
        budget: Budget::full(now),
        heard_at: now,
        proved_at: now,
        typed_at: None,
        looks: 0,
    }))
}

fn ending(error: &Error) -> Ending {
    if matches!(error, Error::Unknown) { Ending::NoTicket } else { Ending::Broken }
}

impl Socket {
    fn reader(&self) -> Reader<'_> {
        match self.author {
            Author::User(_) => Reader::User(&self.account),
            Author::Staff(_) => Reader::Staff,
        }
    }

    /// Until it ends; `None` when the client is gone.
    async fn run(
        &mut self,
        app: &App,
        ws: &mut Stream,
        stopped: &mut Receiver<bool>,
    ) -> Option<Ending> {
        // What is rarely done is boxed: an idle socket must not carry the room for it.
        if let Err(ending) = Box::pin(self.replay(app, ws, stopped)).await {
            return ending;
        }
        let pause = Duration::from_secs(app.config.support.ping_s);
        let mut alarm = pin!(sleep_until(Instant::now() + pause));
        let mut farewell: Option<Instant> = None;
        loop {
            let is_stopping = farewell.is_some();
            let over = async {
                match farewell {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let step = tokio::select! {
                () = over => Err(Some(Ending::Restart)),
                () = told_to_stop(stopped), if !is_stopping => {
                    farewell = Some(Instant::now() + spread(app));
                    Ok(())
                }
                () = self.seat.outbox.rung() => self.flush(app, ws).await,
                incoming = ws.next() => self.take(app, ws, incoming).await,
                () = &mut alarm => {
                    alarm.as_mut().reset(Instant::now() + pause);
                    Box::pin(self.look(app, ws, pause)).await
                }
            };
            if let Err(ending) = step {
                return ending;
            }
        }
    }

    /// Writes what came after the number that the client knows, then goes over to what is pushed. A
    /// stretch at a time, and few sockets at once: a crowd that comes back must not hold up others,
    /// and who does not read holds no more than a stretch in memory.
    async fn replay(
        &mut self,
        app: &App,
        ws: &mut Stream,
        stopped: &Receiver<bool>,
    ) -> Result<(), Option<Ending>> {
        let broken = |_| Some(Ending::Broken);
        let mut replayed = 0;
        let recheck = Duration::from_secs(app.config.support.ping_s) * RECHECK;
        loop {
            // Whoever reads slowly is looked after as any other.
            if *stopped.borrow() {
                return Err(Some(Ending::Restart));
            }
            self.prove(app, recheck).await?;
            let turn = REPLAYING.acquire().await;
            let ticket = tickets::find(app, Reader::Staff, &self.ticket).await.map_err(broken)?;
            let (reader, seq) = (self.reader(), self.cursor);
            let found = messages::after(app, reader, &ticket, seq, STRETCH).await;
            let found = found.map_err(broken)?;
            let is_last = i64::try_from(found.len()).is_ok_and(|count| count < STRETCH);
            let last = found.last().map(|message| message.seq);
            let texts = self.shown(app, found).await.map_err(broken)?;
            drop(turn);
            for (seq, text) in texts {
                self.must_stand(app).await?;
                write(ws, Ws::Text(text)).await?;
                self.cursor = seq;
                replayed += 1;
            }
            if is_last {
                // The last ones may be notes, which this side does not see.
                self.cursor = self.cursor.max(last.unwrap_or(0)).max(ticket.last_seq);
                if self.seat.outbox.go_live(self.cursor) {
                    return self.flush(app, ws).await;
                }
            } else if replayed >= REPLAYED && self.seat.outbox.wants(features::RESYNC) {
                let last = match self.author {
                    Author::User(_) => ticket.shown_seq,
                    Author::Staff(_) => ticket.last_seq,
                };
                write(ws, Ws::Text(frames::resync(&self.ticket, last))).await?;
                self.cursor = ticket.last_seq;
            }
        }
    }

    async fn shown(
        &self,
        app: &App,
        found: Vec<crate::support::Message>,
    ) -> Result<Vec<(i64, Utf8Bytes)>, Error> {
        let staff = view::for_staff(app, found).await?;
        let is_user = matches!(self.author, Author::User(_));
        let text = |view: view::AdminTicketMessageView| {
            let user = (!view.internal).then_some(&view.message);
            let frame = frames::message(self.ticket.as_str(), view.message.seq, user, &view);
            let text = if is_user { frame.user } else { frame.staff };
            text.map(|text| (view.message.seq, text))
        };
        Ok(staff.into_iter().filter_map(text).collect())
    }

    /// To be asked before anything is written. Staff see notes of all accounts, so one who is out
    /// of the staff sees none of them.
    async fn must_stand(&mut self, app: &App) -> Result<(), Option<Ending>> {
        if self.seat.outbox.take_doubt() {
            return Box::pin(self.look_at_session(app)).await;
        }
        if matches!(self.author, Author::Staff(_)) {
            Box::pin(self.prove(app, STAFF_PROOF)).await?;
        }
        Ok(())
    }

    /// Ends the socket unless its session stands, or did so not longer ago than this.
    async fn prove(&mut self, app: &App, within: Duration) -> Result<(), Option<Ending>> {
        if self.proved_at.elapsed() < within {
            return Ok(());
        }
        match self.look_at_session(app).await {
            // The database does not answer: nothing is known against it.
            Err(Some(Ending::Broken)) => Ok(()),
            looked => looked,
        }
    }

    /// Ends the socket unless its session is known to stand.
    async fn look_at_session(&mut self, app: &App) -> Result<(), Option<Ending>> {
        token::stands(app, self.author.side(), self.session.hash).await.map_err(Some)?;
        self.proved_at = Instant::now();
        Ok(())
    }

    /// Writes what is in the outbox.
    async fn flush(&mut self, app: &App, ws: &mut Stream) -> Result<(), Option<Ending>> {
        loop {
            self.must_stand(app).await?;
            match self.seat.outbox.pop() {
                Out::Empty => return Ok(()),
                Out::Doubt => Box::pin(self.look_at_session(app)).await?,
                Out::Overflow => return Err(Some(Ending::Slow)),
                // It was replayed.
                Out::Frame(seq, _) if seq > 0 && seq <= self.cursor => {}
                Out::Frame(seq, text) => {
                    write(ws, Ws::Text(text)).await?;
                    self.cursor = self.cursor.max(seq);
                }
            }
        }
    }

    /// Takes what the client sent.
    async fn take(
        &mut self,
        app: &App,
        ws: &mut Stream,
        incoming: Option<Result<Ws, WsError>>,
    ) -> Result<(), Option<Ending>> {
        self.heard_at = Instant::now();
        match incoming {
            Some(Ok(Ws::Text(text))) => {
                self.spend()?;
                Box::pin(self.act(app, ws, text.as_str())).await
            }
            Some(Ok(Ws::Binary(_))) => Err(Some(Ending::Binary)),
            // A ping was answered by the library, and counts as a frame; so do pongs, of which we
            // ask for few.
            Some(Ok(Ws::Ping(_) | Ws::Pong(_))) => self.spend(),
            Some(Ok(Ws::Frame(_))) => Ok(()),
            Some(Err(WsError::Capacity(_))) => Err(Some(Ending::TooLarge)),
            Some(Err(WsError::Utf8(_))) => Err(Some(Ending::NotUtf8)),
            Some(Err(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => Err(None),
            Some(Err(WsError::Protocol(_))) => Err(Some(Ending::Protocol)),
            // The library has its answer to a close ready.
            Some(Ok(Ws::Close(_)) | Err(_)) | None => Err(None),
        }
    }

    /// Takes one frame from the budget.
    fn spend(&mut self) -> Result<(), Option<Ending>> {
        if self.budget.spend(Instant::now()) { Ok(()) } else { Err(Some(Ending::TooMany)) }
    }

    async fn act(&mut self, app: &App, ws: &mut Stream, text: &str) -> Result<(), Option<Ending>> {
        // Whoever is out does nothing more.
        self.prove(app, Duration::ZERO).await?;
        match frames::read(text, self.author.side(), app.is_strict()) {
            Ok(Incoming::Message { text, client_message_id, internal }) => {
                let public = NewMessage::public(self.author.clone(), text);
                let new = NewMessage { internal, client_message_id, ..public };
                self.write_down(app, ws, &new).await
            }
            Ok(Incoming::Typing { internal }) => {
                self.pass_on_typing(app, internal).await;
                Ok(())
            }
            Ok(Incoming::Read(seq)) => {
                let ticket = tickets::find(app, self.reader(), &self.ticket).await;
                let mut ticket = ticket.map_err(|_| Some(Ending::Broken))?;
                let noted =
                    tickets::mark_read(app, &mut ticket, &self.author, seq, &Claim::default())
                        .await;
                noted.map_err(|_| Some(Ending::Broken))
            }
            Err(Fault { detail, client_message_id: id }) => {
                self.complain(ws, "validation_failed", &detail, id.as_deref()).await
            }
        }
    }

    async fn write_down(
        &mut self,
        app: &App,
        ws: &mut Stream,
        new: &NewMessage,
    ) -> Result<(), Option<Ending>> {
        let written =
            messages::write(app, self.reader(), &self.ticket, new, &Claim::default()).await;
        match written {
            Ok(written) if self.seat.outbox.wants(features::ACK) => {
                let ack = frames::ack(&written.message, written.duplicate);
                write(ws, Ws::Text(ack)).await
            }
            Ok(_) => Ok(()),
            Err(Error::Closed { .. }) if !self.seat.outbox.wants(features::ERROR) => {
                Err(Some(Ending::Closed))
            }
            Err(error) => {
                let problem = Problem::from(error);
                let code = problem.code();
                if code.status() >= 500 {
                    return Err(Some(Ending::Broken));
                }
                let id = new.client_message_id.as_deref();
                self.complain(ws, code.as_str(), problem.said(), id).await
            }
        }
    }

    /// Says what was wrong; to a client that did not ask for that, by ending.
    async fn complain(
        &self,
        ws: &mut Stream,
        code: &str,
        detail: &str,
        client_message_id: Option<&str>,
    ) -> Result<(), Option<Ending>> {
        if !self.seat.outbox.wants(features::ERROR) {
            return Err(Some(Ending::Useless));
        }
        write(ws, Ws::Text(frames::error(code, detail, client_message_id))).await
    }

    async fn pass_on_typing(&mut self, app: &App, internal: bool) {
        let now = Instant::now();
        if self.typed_at.is_some_and(|last| now - last < TYPING) {
            return;
        }
        self.typed_at = Some(now);
        let (ticket, side) = (&self.ticket, self.author.side());
        let frame = frames::typing(ticket.as_str(), side);
        if internal {
            // At this node only: who writes a note is of little use to others.
            app.sockets.push(ticket.as_str(), &[Frame { user: None, ..frame }], None);
            return;
        }
        app.sockets.push(ticket.as_str(), &[frame], None);
        nodes::tell_typing(app, &self.account, ticket, side).await;
    }

    /// Now and then: whether the client is there, and whether it still may be.
    async fn look(
        &mut self,
        app: &App,
        ws: &mut Stream,
        pause: Duration,
    ) -> Result<(), Option<Ending>> {
        // It had a whole pause for the pong to the last ping.
        if self.looks > 0 && self.heard_at.elapsed() >= pause * 2 {
            return Err(None);
        }
        self.looks += 1;
        if self.looks.is_multiple_of(RECHECK) {
            self.prove(app, Duration::ZERO).await?;
        }
        write(ws, Ws::Ping(Bytes::new())).await
    }
}

async fn told_to_stop(stopped: &mut Receiver<bool>) {
    // An error means that the sender is gone: stop as well.
    let _told = stopped.wait_for(|stop| *stop).await;
}

/// A moment of the time over which farewells are spread, so that not all come back at once.
fn spread(app: &App) -> Duration {
    Duration::from_millis(app.clock.below(app.config.support.drain_spread_ms.max(1)))
}

async fn write(ws: &mut Stream, message: Ws) -> Result<(), Option<Ending>> {
    match timeout(WRITE, ws.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_gone)) => Err(None),
        Err(_late) => Err(Some(Ending::Slow)),
    }
}
