//! Feeds sessions what centres and clients of the field send, spoiled: octets flipped, left out,
//! doubled, cut anywhere, at random times. Nothing may panic, grow without bound or lose a message.
//! `cargo run -p smpp --example fuzz -- [seconds] [seed]`; a seed repeats a run.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test with a main function"
)]

#[path = "../tests/it/odd.rs"]
mod odd;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use clock::{Clock, Millis};
use smpp::{
    Bind, BindKind, Body, Event, Frame, Framer, MOST_OCTETS, Message, Operation, Pdu, Receipt,
    Session, SessionSettings, Status, Ticket, message_id,
};

const SETTINGS: SessionSettings = SessionSettings {
    window: 4,
    inbound: 4,
    enquire_ms: 30_000,
    response_ms: 10_000,
    unbind_ms: 2_000,
};

/// Chance that repeats.
struct Dice(Clock);

impl Dice {
    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.below(u64::try_from(bound.max(1)).unwrap())).unwrap()
    }

    fn octet(&self) -> u8 {
        // Those at the edges find more.
        match self.below(4) {
            0 => 0,
            1 => 0xFF,
            _ => u8::try_from(self.below(256)).unwrap(),
        }
    }
}

fn corpus() -> Vec<Bytes> {
    let mut all: Vec<Bytes> = odd::messages().into_iter().map(|(_, octets)| octets).collect();
    all.extend(odd::others().into_iter().map(|(_, octets)| octets));
    all.extend(odd::answers().into_iter().map(|(_, octets, _)| octets));
    all.extend(odd::bind_answers().into_iter().map(|(_, octets, _)| octets));
    let bodies = [
        Body::Bind(BindKind::Transceiver, Bind::new("login", "secret")),
        Body::Message(Operation::Submit, Message::default()),
        Body::Message(Operation::Data, Message::default()),
        Body::Unbind,
        Body::UnbindResp,
    ];
    for body in bodies {
        let mut octets = BytesMut::new();
        Pdu::request(1, body).encode_into(&mut octets).unwrap();
        all.push(octets.freeze());
    }
    all
}

/// A few PDUs behind each other, most of them spoiled.
fn stream(dice: &Dice, corpus: &[Bytes]) -> Vec<u8> {
    let mut stream = vec![];
    for _ in 0..=dice.below(6) {
        let mut pdu = corpus[dice.below(corpus.len())].to_vec();
        for _ in 0..dice.below(5) {
            spoil(dice, &mut pdu);
        }
        // Usually the length is right, or nothing behind it would be looked at.
        if dice.below(8) > 0 && pdu.len() >= 4 {
            let length = u32::try_from(pdu.len()).unwrap().to_be_bytes();
            pdu[..4].copy_from_slice(&length);
        }
        // The numbers that answers are looked up by.
        if dice.below(2) == 0 && pdu.len() >= 16 {
            pdu[12..16].copy_from_slice(&u32::try_from(dice.below(12)).unwrap().to_be_bytes());
        }
        stream.extend(pdu);
    }
    stream
}

fn spoil(dice: &Dice, pdu: &mut Vec<u8>) {
    let at = dice.below(pdu.len());
    match dice.below(6) {
        0 => pdu.truncate(at),
        1 if at < pdu.len() => drop(pdu.remove(at)),
        2 => pdu.insert(at, dice.octet()),
        3 => pdu.extend((0..dice.below(300)).map(|_| dice.octet())),
        4 => {
            let piece = pdu[at..].to_vec();
            pdu.extend(piece);
        }
        _ if at < pdu.len() => pdu[at] = dice.octet(),
        _ => {}
    }
}

/// A session under test, and what it told.
struct Subject {
    session: Session,
    operation: Operation,
    now: Millis,
    sent: u64,
    fates: HashMap<u64, u32>,
    tickets: Vec<Ticket>,
    ended: u32,
}

impl Subject {
    fn new(dice: &Dice) -> Self {
        let now = Millis(1_000_000);
        let is_esme = dice.below(3) > 0;
        let (session, operation) = if is_esme {
            let bind = Bind::new("login", "secret");
            (Session::esme(SETTINGS, BindKind::Transceiver, bind, now), Operation::Submit)
        } else {
            (Session::centre(SETTINGS, now), Operation::Deliver)
        };
        let (fates, tickets) = (HashMap::new(), vec![]);
        let mut subject = Self { session, operation, now, sent: 0, fates, tickets, ended: 0 };
        // Most get as far as messages.
        if is_esme && dice.below(8) > 0 {
            subject.receive(&odd::bind_answers()[0].1);
        }
        subject
    }

    fn receive(&mut self, octets: &[u8]) {
        let mut input = BytesMut::from(octets);
        self.session.receive(self.now, &mut input);
        self.look();
    }

    fn look(&mut self) {
        while let Some(event) = self.session.event() {
            assert_eq!(self.ended, 0, "something after the end");
            match event {
                Event::Answered(answer) => *self.fates.entry(answer.key).or_default() += 1,
                Event::Unanswered(key) => *self.fates.entry(key).or_default() += 1,
                Event::AnsweredLate(answer) => assert_eq!(self.fates.get(&answer.key), Some(&1)),
                Event::Message(ticket, _, message) => {
                    self.tickets.push(ticket);
                    read(&message);
                }
                Event::BindRequested(..) => self.session.accept_bind("centre"),
                Event::Bound(_) | Event::Silent | Event::Heard => {}
                Event::Ended(_) => self.ended += 1,
            }
        }
        assert!(self.tickets.len() <= SETTINGS.inbound, "more open than allowed");
        assert!(self.session.in_flight() <= SETTINGS.window, "more in flight than allowed");
        self.check_output();
    }

    /// Whatever came, what goes out is well formed.
    fn check_output(&mut self) {
        let mut output = self.session.output().split();
        let mut framer = Framer::default();
        while let Some(frame) = framer.next(&mut output).unwrap() {
            let Frame::Whole(octets) = frame else { panic!("oversized output") };
            let _pdu = Pdu::decode(octets).unwrap();
        }
        assert!(output.is_empty(), "half a PDU was written");
    }

    fn step(&mut self, dice: &Dice) {
        match dice.below(5) {
            0 => {
                let message = Message::default();
                if self.session.send(self.now, self.sent, self.operation, message).is_ok() {
                    self.sent += 1;
                }
            }
            1 | 2 => {
                if let Some(ticket) = self.tickets.pop() {
                    self.session.answer(self.now, ticket, Status::ROK, "1".into());
                }
            }
            3 => {
                self.now = self.now + i64::try_from(dice.below(6_000)).unwrap();
                self.session.tick(self.now);
            }
            _ if dice.below(40) == 0 => self.session.unbind(self.now),
            _ => {}
        }
        self.look();
    }

    fn finish(mut self) {
        self.session.disconnected(std::io::ErrorKind::UnexpectedEof);
        self.look();
        assert_eq!(self.ended, 1, "it ends once");
        assert_eq!(u64::try_from(self.fates.len()).unwrap(), self.sent, "a message has no fate");
        assert!(self.fates.values().all(|count| *count == 1), "a message has two fates");
    }
}

/// Reads all that is in a message.
fn read(message: &Message) {
    let _shown = (format!("{message:?}"), message.body(), message.sar());
    if let Some(id) = Receipt::of(message).and_then(|receipt| receipt.message_id) {
        for form in [message_id::IdForm::Auto, message_id::IdForm::Hexadecimal] {
            let found = message_id::candidates(&id, form);
            assert!(found.guessed.len() <= 2);
        }
    }
    let mut again = BytesMut::new();
    let pdu = Pdu::request(1, Body::Message(Operation::Submit, message.clone()));
    if pdu.encode_into(&mut again).is_ok() && again.len() <= MOST_OCTETS {
        assert_eq!(Pdu::decode(again.freeze()), Ok(pdu), "it does not come back as it was");
    }
}

fn round(dice: &Dice, corpus: &[Bytes]) -> usize {
    let mut subject = Subject::new(dice);
    let mut octets = 0;
    for _ in 0..8 {
        let stream = stream(dice, corpus);
        octets += stream.len();
        let mut rest = BytesMut::from(&stream[..]);
        let mut arrived = BytesMut::new();
        while !rest.is_empty() {
            let count = (1 + dice.below(120)).min(rest.len());
            arrived.extend_from_slice(&rest.split_to(count));
            subject.session.receive(subject.now, &mut arrived);
            subject.look();
            subject.step(dice);
        }
    }
    subject.finish();
    octets
}

#[expect(clippy::disallowed_methods, reason = "a run is as long as it is told to be")]
fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap());
    let seconds = arguments.next().unwrap_or(60);
    let seed = arguments.next().unwrap_or(7);
    let dice = Dice(Clock::held(Millis(0), seed));
    let corpus = corpus();
    let start = Instant::now();
    let (mut rounds, mut octets) = (0_u64, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        octets += round(&dice, &corpus);
        rounds += 1;
    }
    println!("fuzz: {rounds} sessions, {octets} octets in {seconds} s, seed {seed}: nothing found");
}
