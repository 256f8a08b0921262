//! One client of the centre.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use smpp::{
    Bind, BindKind, COctets, Connection, Event, Message, MessageState, Operation, Session,
    SessionSettings, Status, Ticket,
};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::board::{Board, Ids, Order};
use super::script::{Plan, Reply, plan, receipt};

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
                Order::Unbind => connection.session.unbind(self.board.clock.now()),
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
                if let Some(message) = message.filter(|_| answer.status == Status::RX_T_APPN) {
                    self.deliver_later(message);
                }
            }
            Event::Unanswered(key) => self.waiting.extend(self.in_flight.remove(&key)),
            Event::Bound(_) | Event::AnsweredLate(_) => {}
            Event::Ended(_) => return Next::Cut,
        }
        self.deliver(session);
        Next::Continue
    }

    fn bind(&mut self, session: &mut Session, kind: BindKind, bind: &Bind) {
        let expected = self.board.options.password.as_ref();
        if expected.is_some_and(|expected| expected.as_bytes() != bind.password.as_bytes()) {
            return session.refuse_bind(Status::RINVPASWD);
        }
        session.accept_bind("playground");
        self.system_id = bind.system_id.to_string();
        self.member = Some(self.board.enter(&self.system_id, kind, self.orders.clone()));
    }

    fn submit(&mut self, session: &mut Session, ticket: Ticket, message: Message) -> Next {
        let plan = plan(&message.destination.value.to_string());
        let now = self.board.clock.now();
        match plan.reply {
            Reply::Refuse(status) => session.answer(now, ticket, status, COctets::default()),
            Reply::ThrottleTwice if self.board.throttles(&message) => {
                session.answer(now, ticket, Status::RTHROTTLED, COctets::default());
            }
            reply => {
                let ids = self.board.carry(&self.system_id, &message);
                let answered = ids.answered.clone();
                if plan.is_early && message.registered_delivery & 3 != 0 {
                    let state = MessageState::Delivered;
                    self.waiting.push_back(receipt(&message, &ids.receipted, state, now));
                    self.deliver(session);
                } else {
                    self.announce(plan, message, ids);
                }
                match reply {
                    Reply::Cut => return Next::Cut,
                    Reply::Silence => {}
                    _ => session.answer(now, ticket, Status::ROK, answered.into()),
                }
            }
        }
        Next::Continue
    }

    /// Sends the receipts that were asked for (SMPP 3.4 §5.2.17), a while later.
    fn announce(&self, plan: Plan, message: Message, ids: Ids) {
        let wanted = message.registered_delivery & 3;
        if wanted == 0 {
            return;
        }
        let (board, system_id) = (Arc::clone(&self.board), self.system_id.clone());
        tokio::spawn(async move {
            for state in plan.receipts {
                board.clock.sleep(board.options.receipt_ms).await;
                let is_failure = *state != MessageState::Delivered;
                if wanted != 2 || is_failure {
                    let receipt = receipt(&message, &ids.receipted, *state, board.clock.now());
                    board.deliver(&system_id, receipt);
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
                Ok(()) => drop(self.in_flight.insert(key, message)),
                // This bind does not receive; another may.
                Err(_) => self.board.deliver(&self.system_id, message),
            }
        }
    }
}
