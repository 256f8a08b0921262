//! One client of the centre.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use smpp::{
    Bind, BindKind, COctets, Connection, Event, Message, MessageState, Operation, Session,
    SessionSettings, Status, Ticket,
};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::behaviour::{Meter, ReceiptForm, SmscOptions};
use super::board::{Board, Ids, Order};
use super::script::{Plan, Reply, Told, plan, receipt};

/// Messages that are never answered on purpose stay open; they must not stop the others.
const MOST_OPEN: usize = 100_000;

/// When what was refused for now comes again, milliseconds.
const AGAIN_MS: i64 = 1_000;

struct Client {
    board: Arc<Board>,
    /// Its number on the board, once it is bound.
    member: Option<u64>,
    system_id: String,
    orders: UnboundedSender<Order>,
    /// To be delivered when the window has room.
    waiting: VecDeque<Message>,
    in_flight: HashMap<u64, Message>,
    last_key: u64,
    meter: Meter,
}

/// Whether the session goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    Cut,
}

/// Serves one client to its end.
pub(super) async fn serve(stream: TcpStream, board: Arc<Board>) {
    let settings = SessionSettings { inbound: MOST_OPEN, ..SessionSettings::default() };
    let clock = board.clock.clone();
    let session = Session::centre(settings, clock.now());
    let meter = Meter::new(clock.now());
    let mut connection = Connection::new(session, stream, clock);
    let (orders, mut told) = unbounded_channel();
    let mut client = Client {
        board,
        member: None,
        system_id: String::new(),
        orders,
        waiting: VecDeque::new(),
        in_flight: HashMap::new(),
        last_key: 0,
        meter,
    };
    while client.turn(&mut connection, &mut told).await == Next::Continue {}
    drop(connection);
    let undelivered = client.in_flight.into_values().chain(client.waiting);
    if let Some(number) = client.member {
        client.board.leave(number, undelivered.collect());
    }
}

impl Client {
    async fn turn(
        &mut self,
        connection: &mut Connection<TcpStream>,
        told: &mut UnboundedReceiver<Order>,
    ) -> Next {
        tokio::select! {
            event = connection.next() => return self.take(&mut connection.session, event),
            Some(order) = told.recv() => match order {
                Order::Deliver(message) => self.waiting.push_back(*message),
                Order::Answer(ticket, id) => {
                    let now = self.board.clock.now();
                    connection.session.answer(now, ticket, Status::ROK, id.into());
                }
                Order::Unbind => connection.session.unbind(self.board.clock.now()),
                Order::Cut => return Next::Cut,
            },
        }
        self.deliver(&mut connection.session);
        Next::Continue
    }

    fn take(&mut self, session: &mut Session, event: Event) -> Next {
        match event {
            Event::BindRequested(kind, bind) => self.bind(session, kind, &bind),
            Event::Message(ticket, _, message) => return self.submit(session, ticket, message),
            Event::Answered(answer) => {
                let message = self.in_flight.remove(&answer.key);
                if answer.status.is_ok() {
                    self.board.count(|stats| &mut stats.acked);
                }
                if let Some(message) = message.filter(|_| answer.status == Status::RX_T_APPN) {
                    self.deliver_later(message);
                }
            }
            Event::Unanswered(key) => self.waiting.extend(self.in_flight.remove(&key)),
            Event::Bound(_) | Event::AnsweredLate(_) | Event::Silent | Event::Heard => {}
            Event::Ended(_) => return Next::Cut,
        }
        self.deliver(session);
        Next::Continue
    }

    fn bind(&mut self, session: &mut Session, kind: BindKind, bind: &Bind) {
        let options = self.board.options();
        let system_id = bind.system_id.to_string();
        let expected = options.password.as_ref();
        let is_wrong = |expected: &String| expected.as_bytes() != bind.password.as_bytes();
        let refused = expected.is_some_and(is_wrong).then_some(Status::RINVPASWD);
        let beside = self.board.count_of(&system_id);
        if let Some(status) = refused.or_else(|| options.refuses_bind(kind, beside)) {
            self.board.count(|stats| &mut stats.bind_fail);
            return session.refuse_bind(status);
        }
        self.board.count(|stats| &mut stats.binds);
        session.accept_bind("playground");
        self.system_id = system_id;
        self.member = Some(self.board.enter(&self.system_id, kind, self.orders.clone()));
    }

    fn submit(&mut self, session: &mut Session, ticket: Ticket, message: Message) -> Next {
        let (plan, options) = (plan(&message.destination.value.to_string()), self.board.options());
        let now = self.board.clock.now();
        self.board.count(|stats| &mut stats.submits);
        if let Some(status) = self.refusal(plan, &options, &message) {
            let is_throttled = status == Status::RTHROTTLED;
            self.board.count(if is_throttled {
                |stats| &mut stats.throttled
            } else {
                |stats| &mut stats.refused
            });
            session.answer(now, ticket, status, COctets::default());
            return Next::Continue;
        }
        let ids = self.board.carry(&self.system_id, &message);
        let answered = ids.answered.clone();
        let wants_receipt =
            message.registered_delivery & 3 != 0 && options.receipts != ReceiptForm::None;
        if plan.is_early && wants_receipt {
            let (state, id) = (MessageState::Delivered, ids.receipted.as_str());
            let told = Told { id, state, error: None, at: now, form: options.receipts };
            self.waiting.push_back(receipt(&message, told));
            self.deliver(session);
        } else if wants_receipt {
            self.announce(plan, &options, message, ids);
        }
        let count = self.board.count(|stats| &mut stats.accepted);
        let is_cut = options.drop_every > 0 && count.is_multiple_of(options.drop_every);
        if plan.reply == Reply::Cut || is_cut {
            return Next::Cut;
        }
        if plan.reply != Reply::Silence && !options.is_silent(&self.board.clock) {
            self.say(session, &options, ticket, answered);
        }
        Next::Continue
    }

    /// Answers, at once or when its time has come.
    fn say(&self, session: &mut Session, options: &SmscOptions, ticket: Ticket, id: String) {
        if options.answer_ms <= 0 {
            return session.answer(self.board.clock.now(), ticket, Status::ROK, id.into());
        }
        let (clock, orders) = (self.board.clock.clone(), self.orders.clone());
        let after_ms = options.answer_ms;
        tokio::spawn(async move {
            clock.sleep(after_ms).await;
            let _gone = orders.send(Order::Answer(ticket, id));
        });
    }

    /// Why a message is not taken.
    fn refusal(&mut self, plan: Plan, options: &SmscOptions, message: &Message) -> Option<Status> {
        if self.meter.is_full(options.tps, self.board.clock.now()) {
            return Some(Status::RTHROTTLED);
        }
        match plan.reply {
            Reply::Refuse(status) => Some(status),
            Reply::ThrottleTwice if self.board.throttles(message) => Some(Status::RTHROTTLED),
            _ => options.fails(&self.board.clock),
        }
    }

    /// Sends the receipts that were asked for (SMPP 3.4 §5.2.17), a while later.
    fn announce(&self, plan: Plan, options: &SmscOptions, message: Message, ids: Ids) {
        let is_wanted = message.registered_delivery & 3 != 2;
        let (form, pause_ms) = (options.receipts, options.receipt_ms);
        let (board, system_id) = (Arc::clone(&self.board), self.system_id.clone());
        tokio::spawn(async move {
            for state in plan.receipts {
                board.clock.sleep(pause_ms).await;
                if is_wanted || *state != MessageState::Delivered {
                    let (id, at) = (ids.receipted.as_str(), board.clock.now());
                    let told = Told { id, state: *state, error: None, at, form };
                    board.deliver(&system_id, receipt(&message, told));
                }
            }
        });
    }

    /// What is refused for now comes again.
    fn deliver_later(&self, message: Message) {
        let (board, system_id) = (Arc::clone(&self.board), self.system_id.clone());
        tokio::spawn(async move {
            board.clock.sleep(AGAIN_MS).await;
            board.deliver(&system_id, message);
        });
    }

    /// Delivers as much as the window takes.
    fn deliver(&mut self, session: &mut Session) {
        let now = self.board.clock.now();
        while session.has_room() {
            let Some(message) = self.waiting.pop_front() else { return };
            self.last_key += 1;
            let key = self.last_key;
            match session.send(now, key, Operation::Deliver, message.clone()) {
                Ok(()) => {
                    self.board.count(|stats| &mut stats.delivered);
                    self.in_flight.insert(key, message);
                }
                // This bind does not receive; another may.
                Err(_) => self.board.deliver(&self.system_id, message),
            }
        }
    }
}
