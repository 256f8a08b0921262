//! What all sessions of the centre share: who is bound, what arrived, which receipts wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clock::Clock;
use serde::Serialize;
use smpp::{BindKind, Message, MessageState, Ticket};
use sms_text::{Alphabet, UserDataHeader};
use tokio::sync::mpsc::UnboundedSender;

use super::script::{self, Told};
use super::{IdStyle, SmscOptions};

/// How many receipts and tries are remembered.
const REMEMBERED: usize = 1_000;

/// A message that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// The id that was answered.
    pub id: String,
    /// Who sent it.
    pub system_id: String,
    /// The sender.
    pub from: String,
    /// The destination.
    pub to: String,
    /// The text of this part; octets that are no text are left out.
    pub text: String,
    /// Which part of how many.
    pub part: (u8, u8),
    /// As it came.
    pub data_coding: u8,
    /// As it came.
    pub registered_delivery: u8,
    /// As it came.
    pub validity_period: String,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Sessions that are bound.
    pub sessions: usize,
    /// Binds.
    pub binds: u64,
    /// Binds that were refused.
    pub bind_fail: u64,
    /// Messages that came.
    pub submits: u64,
    /// Those that were taken.
    pub accepted: u64,
    /// Those that were throttled.
    pub throttled: u64,
    /// Those that were refused otherwise.
    pub refused: u64,
    /// Deliveries: receipts, and what phones wrote.
    pub delivered: u64,
    /// Those that were acknowledged.
    pub acked: u64,
    /// Receipts that wait for a session of their login.
    pub held: usize,
}

/// What a session is told by others.
#[derive(Debug)]
pub(super) enum Order {
    Deliver(Box<Message>),
    /// The answer to a message whose time has come.
    Answer(Ticket, String),
    Unbind,
    Cut,
}

/// A message that more receipts may be sent for.
#[derive(Debug)]
struct Known {
    ids: Ids,
    system_id: String,
    message: Message,
}

#[derive(Debug)]
struct Member {
    system_id: String,
    receives: bool,
    orders: UnboundedSender<Order>,
}

#[derive(Debug, Default)]
struct State {
    /// By the order in which they bound.
    members: BTreeMap<u64, Member>,
    bound: u64,
    carried: VecDeque<Carried>,
    /// Those of them that more receipts may be sent for.
    known: VecDeque<Known>,
    stats: Stats,
    /// For a login that nobody is bound with.
    held: HashMap<String, VecDeque<Message>>,
    throttled: HashMap<(String, Vec<u8>), u8>,
    last_id: u64,
    last_reference: u16,
}

/// The shared part of the centre.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) clock: Clock,
    options: Mutex<SmscOptions>,
    state: Mutex<State>,
}

/// The two ids of a message.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    pub(super) answered: String,
    pub(super) receipted: String,
}

impl Board {
    pub(super) fn new(options: SmscOptions, clock: Clock) -> Self {
        Self { clock, options: Mutex::new(options), state: Mutex::default() }
    }

    pub(super) fn options(&self) -> SmscOptions {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn behave(&self, options: SmscOptions) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
    }

    /// Counts something.
    pub(super) fn count(&self, which: fn(&mut Stats) -> &mut u64) -> u64 {
        let mut state = self.state();
        let count = which(&mut state.stats);
        *count += 1;
        *count
    }

    pub(super) fn stats(&self) -> Stats {
        let state = self.state();
        let held = state.held.values().map(VecDeque::len).sum();
        Stats { sessions: state.members.len(), held, ..state.stats }
    }

    pub(super) fn reset_stats(&self) {
        self.state().stats = Stats::default();
    }

    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.carried.clear();
        state.known.clear();
    }

    /// How many sessions of a login there are.
    pub(super) fn count_of(&self, system_id: &str) -> usize {
        self.state().members.values().filter(|member| member.system_id == system_id).count()
    }

    /// Sends one more receipt for a message that is remembered.
    pub(super) fn receipt_again(&self, id: &str, state: MessageState, error: Option<&str>) -> bool {
        let at = self.clock.now();
        let found = {
            let book = self.state();
            let known = book.known.iter().rev().find(|known| known.ids.answered == id);
            known.map(|known| {
                let id = known.ids.receipted.as_str();
                let told = Told { id, state, error, at, form: self.options().receipts };
                (known.system_id.clone(), script::receipt(&known.message, told))
            })
        };
        let Some((system_id, receipt)) = found else { return false };
        self.deliver(&system_id, receipt);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session; what waits for its login is delivered to it.
    pub(super) fn enter(
        &self,
        system_id: &str,
        kind: BindKind,
        orders: UnboundedSender<Order>,
    ) -> u64 {
        let mut state = self.state();
        state.bound += 1;
        let number = state.bound;
        if kind.receives() {
            for message in state.held.remove(system_id).unwrap_or_default() {
                let _gone = orders.send(Order::Deliver(Box::new(message)));
            }
        }
        let (system_id, receives) = (system_id.to_owned(), kind.receives());
        state.members.insert(number, Member { system_id, receives, orders });
        number
    }

    /// Takes a session out. What it could not deliver is held.
    pub(super) fn leave(&self, number: u64, undelivered: Vec<Message>) {
        let member = self.state().members.remove(&number);
        if let Some(member) = member {
            for message in undelivered {
                self.deliver(&member.system_id, message);
            }
        }
    }

    /// Delivers to a session of this login, now or when there is one.
    pub(super) fn deliver(&self, system_id: &str, message: Message) {
        let mut state = self.state();
        let receiver = state
            .members
            .values()
            .find(|member| member.receives && member.system_id == system_id)
            .map(|member| member.orders.clone());
        let order = || Order::Deliver(Box::new(message.clone()));
        if receiver.is_some_and(|orders| orders.send(order()).is_ok()) {
            return;
        }
        let held = state.held.entry(system_id.to_owned()).or_default();
        held.push_back(message);
        if held.len() > REMEMBERED {
            held.pop_front();
        }
    }

    pub(super) fn is_anyone_bound(&self) -> bool {
        self.state().members.values().any(|member| member.receives)
    }

    /// Delivers to the session that bound first; `false` when there is none.
    pub(super) fn deliver_to_anyone(&self, message: Message) -> bool {
        let state = self.state();
        let receiver = state.members.values().find(|member| member.receives);
        receiver.is_some_and(|member| member.orders.send(Order::Deliver(Box::new(message))).is_ok())
    }

    pub(super) fn unbind_all(&self) {
        for member in self.state().members.values() {
            let _gone = member.orders.send(Order::Unbind);
        }
    }

    pub(super) fn kick_all(&self) {
        for member in self.state().members.values() {
            let _gone = member.orders.send(Order::Cut);
        }
    }

    /// Whether this message is to be throttled once more.
    pub(super) fn throttles(&self, message: &Message) -> bool {
        let mut state = self.state();
        if state.throttled.len() > REMEMBERED {
            state.throttled.clear();
        }
        let key = (message.destination.value.to_string(), message.body().to_vec());
        let times = state.throttled.entry(key).or_default();
        *times = times.saturating_add(1);
        *times <= 2
    }

    /// Remembers a message that was taken.
    pub(super) fn carry(&self, system_id: &str, message: &Message) -> Ids {
        let options = self.options();
        let mut state = self.state();
        state.last_id += 1;
        let ids = ids(options.ids, 1_000_000_000 + state.last_id);
        let body = message.body();
        let header = message.esm_class.has_header().then(|| UserDataHeader::parse(&body)).flatten();
        let text = body.get(header.map_or(0, |header| header.octets)..).unwrap_or_default();
        let text = Alphabet::of(message.data_coding).decode(text).unwrap_or_default();
        let part = header.and_then(|header| header.concatenation);
        let part = part.map(|part| (part.number, part.total));
        let sar = message.sar().map(|part| (part.number, part.total));
        if state.carried.len() >= options.keep {
            state.carried.pop_front();
        }
        if state.known.len() >= REMEMBERED {
            state.known.pop_front();
        }
        state.known.push_back(Known {
            ids: ids.clone(),
            system_id: system_id.to_owned(),
            message: message.clone(),
        });
        state.carried.push_back(Carried {
            id: ids.answered.clone(),
            system_id: system_id.to_owned(),
            from: message.source.value.to_string(),
            to: message.destination.value.to_string(),
            text,
            part: part.or(sar).unwrap_or((1, 1)),
            data_coding: message.data_coding,
            registered_delivery: message.registered_delivery,
            validity_period: message.validity_period.to_string(),
        });
        ids
    }

    pub(super) fn received(&self) -> usize {
        self.state().carried.len()
    }

    pub(super) fn carried(&self) -> Vec<Carried> {
        self.state().carried.iter().cloned().collect()
    }

    pub(super) fn next_reference(&self) -> u16 {
        let mut state = self.state();
        state.last_reference = state.last_reference.wrapping_add(1);
        state.last_reference
    }
}

fn ids(style: IdStyle, number: u64) -> Ids {
    let (decimal, hexadecimal) = (number.to_string(), format!("{number:X}"));
    match style {
        IdStyle::Decimal => Ids { answered: decimal.clone(), receipted: decimal },
        IdStyle::Hexadecimal => Ids { answered: hexadecimal.clone(), receipted: hexadecimal },
        IdStyle::Mixed => Ids { answered: hexadecimal, receipted: decimal },
        IdStyle::Reversed => Ids { answered: decimal, receipted: hexadecimal },
    }
}
