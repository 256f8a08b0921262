//! One session over one connection (SMPP 3.4 §2), as a state machine without I/O: octets, requests
//! and time go in; octets and events come out. Both sides are the same machine.

use std::collections::VecDeque;

use bytes::BytesMut;
use clock::Millis;

use crate::frame::{Frame, Framer};
use crate::message::{Message, Operation};
use crate::pdu::{Bind, BindKind, BindResp, Body, Malformed, MessageResp, Pdu};
use crate::status::Status;
use crate::tlv::{Tlvs, tag};
use crate::window::{Match, Sequence, Slot, Window};
use crate::wire::{COctets, EncodeError};

mod enquiry;
mod events;

use enquiry::Enquiry;
pub use events::{Answer, Ended, Event, NotSendable, SessionSettings, Ticket, TlsFault};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Centre: until the bind comes.
    Open {
        until: Millis,
    },
    /// Centre: [`Event::BindRequested`] is out.
    Deciding {
        kind: BindKind,
        sequence: u32,
    },
    /// ESME: until the bind is answered.
    Binding {
        kind: BindKind,
        sequence: u32,
        until: Millis,
    },
    Bound(BindKind),
    /// We end it: open requests first, then `unbind`.
    Draining {
        until: Millis,
    },
    /// `unbind` is out.
    Unbinding {
        until: Millis,
    },
    /// The other side unbinds: open requests first, then `unbind_resp`.
    Leaving {
        sequence: u32,
        until: Millis,
    },
    Ended(Ended),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Esme,
    Centre,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    role: Role,
    state: State,
    settings: SessionSettings,
    sequence: Sequence,
    framer: Framer,
    window: Window,
    enquiry: Enquiry,
    /// Received messages without an answer.
    open: usize,
    out: BytesMut,
    events: VecDeque<Event>,
}

impl Session {
    /// The side that binds. The request is in [`Session::output`] at once.
    #[must_use]
    pub fn esme(settings: SessionSettings, kind: BindKind, bind: Bind, now: Millis) -> Self {
        let mut session = Self::new(Role::Esme, settings, now);
        let sequence = session.sequence.take();
        let until = now + settings.response_ms;
        session.state = State::Binding { kind, sequence, until };
        if let Err(error) = session.write(&Pdu::request(sequence, Body::Bind(kind, bind))) {
            session.end(Ended::Unwritable(error));
        }
        session
    }

    /// The side that is bound to.
    #[must_use]
    pub fn centre(settings: SessionSettings, now: Millis) -> Self {
        Self::new(Role::Centre, settings, now)
    }

    fn new(role: Role, settings: SessionSettings, now: Millis) -> Self {
        Self {
            role,
            state: State::Open { until: now + settings.response_ms },
            settings,
            sequence: Sequence::starting_at(1),
            framer: Framer::default(),
            window: Window::default(),
            enquiry: Enquiry::heard(now),
            open: 0,
            out: BytesMut::new(),
            events: VecDeque::new(),
        }
    }

    /// The next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What is to be written; the writer takes off what it wrote.
    pub const fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Requests that wait for their responses.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.window.len()
    }

    /// When something came last.
    #[must_use]
    pub const fn heard_at(&self) -> Millis {
        self.enquiry.heard_at
    }

    /// Whether it is over.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Whether the other side owes an answer for too long and has said nothing since: the link may
    /// be half dead, and what is sent by it lost.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.enquiry.is_silent()
    }

    /// Whether a message may be sent now: [`Session::send`] would take it, and somebody listens.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let is_open = matches!(self.state, State::Bound(_)) && !self.is_silent();
        is_open && self.window.len() < self.settings.window
    }

    /// Sends a message; `key` comes back with its answer.
    ///
    /// # Errors
    /// Nothing was written.
    pub fn send(
        &mut self,
        now: Millis,
        key: u64,
        operation: Operation,
        message: Message,
    ) -> Result<(), NotSendable> {
        let State::Bound(kind) = self.state else { return Err(NotSendable::NotBound) };
        let is_allowed = match (self.role, operation) {
            (Role::Esme, Operation::Submit | Operation::Data) => kind.sends(),
            (Role::Centre, Operation::Deliver | Operation::Data) => kind.receives(),
            _ => false,
        };
        if !is_allowed {
            return Err(NotSendable::NotBound);
        }
        if self.window.len() >= self.settings.window {
            return Err(NotSendable::WindowFull);
        }
        let sequence = self.sequence.take();
        self.write(&Pdu::request(sequence, Body::Message(operation, message)))?;
        self.window.push(Slot { sequence, operation, key, sent_at: now });
        Ok(())
    }

    /// Answers a received message, with the id that a centre gives it.
    pub fn answer(&mut self, now: Millis, ticket: Ticket, status: Status, message_id: COctets) {
        self.open = self.open.saturating_sub(1);
        if !self.is_ended() {
            self.respond(ticket, status, message_id);
        }
        self.wind_up(now);
    }

    /// Centre: accepts the bind that was requested, under this name.
    pub fn accept_bind(&mut self, system_id: &str) {
        let State::Deciding { kind, sequence } = self.state else { return };
        let tlvs = Tlvs::default().with(tag::SC_INTERFACE_VERSION, &[0x34]);
        let resp = BindResp { system_id: system_id.into(), tlvs };
        self.write_lossy(&Pdu::request(sequence, Body::BindResp(kind, resp)));
        self.state = State::Bound(kind);
    }

    /// Centre: refuses the bind that was requested.
    pub fn refuse_bind(&mut self, status: Status) {
        let State::Deciding { kind, sequence } = self.state else { return };
        let body = Body::BindResp(kind, BindResp::default());
        self.write_lossy(&Pdu { status, sequence, body });
        self.end(Ended::BindRefused(status));
    }

    /// Ends the session in order: nothing new, then `unbind` once all is answered, or after the
    /// time that a response may take.
    pub fn unbind(&mut self, now: Millis) {
        match self.state {
            State::Bound(_) => {
                self.state = State::Draining { until: now + self.settings.response_ms };
                self.wind_up(now);
            }
            State::Open { .. } | State::Deciding { .. } | State::Binding { .. } => {
                self.end(Ended::Unbound);
            }
            _ => {}
        }
    }

    /// The connection ended.
    pub fn disconnected(&mut self, why: std::io::ErrorKind) {
        match self.state {
            // Some close instead of answering `unbind`, and after `unbind_resp`.
            State::Unbinding { .. } => self.end(Ended::Unbound),
            State::Leaving { .. } => self.end(Ended::UnboundByPeer),
            _ => self.end(Ended::Disconnected(why)),
        }
    }

    /// Takes what was read.
    pub fn receive(&mut self, now: Millis, input: &mut BytesMut) {
        while !self.is_ended() {
            match self.framer.next(input) {
                Ok(None) => return,
                Ok(Some(frame)) => {
                    if self.is_silent() {
                        self.events.push_back(Event::Heard);
                    }
                    self.enquiry = Enquiry::heard(now);
                    self.take(now, frame);
                }
                Err(lost) => {
                    // SMPP 3.4 §3.3: generic_nack with sequence number 0 (NULL).
                    self.nack(Status::RINVCMDLEN, 0);
                    self.end(Ended::FramingLost(lost.0));
                }
            }
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Millis) {
        match self.state {
            State::Open { until } | State::Binding { until, .. } if now >= until => {
                self.end(Ended::BindTimeout);
            }
            State::Unbinding { until } if now >= until => self.end(Ended::Unbound),
            _ => {}
        }
        let late = now - self.settings.response_ms;
        while let Some(slot) = self.window.expire(late) {
            self.events.push_back(Event::Unanswered(slot.key));
            // A half-dead link is found sooner.
            self.enquiry.is_doubted = true;
            self.enquiry.heard_at = self.enquiry.heard_at.min(now - self.settings.enquire_ms);
        }
        self.enquire(now);
        self.wind_up(now);
    }

    /// When [`Session::tick`] has something to do at the latest.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        let limit = match self.state {
            State::Open { until }
            | State::Binding { until, .. }
            | State::Draining { until }
            | State::Unbinding { until }
            | State::Leaving { until, .. } => Some(until),
            State::Deciding { .. } | State::Bound(_) => None,
            State::Ended(_) => return None,
        };
        let enquiry = match self.enquiry.asked_at {
            Some(asked_at) => asked_at + self.settings.response_ms,
            None => self.enquiry.heard_at + self.settings.enquire_ms,
        };
        let enquiry = self.is_linked().then_some(enquiry);
        let answer = self.window.oldest().map(|sent_at| sent_at + self.settings.response_ms);
        [limit, enquiry, answer].into_iter().flatten().min()
    }

    fn is_linked(&self) -> bool {
        matches!(self.state, State::Bound(_) | State::Draining { .. } | State::Leaving { .. })
    }

    fn enquire(&mut self, now: Millis) {
        if !self.is_linked() {
            return;
        }
        match self.enquiry.asked_at {
            Some(asked_at) if now < asked_at + self.settings.response_ms => return,
            None if now < self.enquiry.heard_at + self.settings.enquire_ms => return,
            Some(_) => self.enquiry.unanswered += 1,
            None => {}
        }
        match self.enquiry.unanswered {
            0 => {}
            1 => self.events.push_back(Event::Silent),
            _ => return self.end(Ended::Silent),
        }
        self.enquiry.asked_at = Some(now);
        let sequence = self.sequence.take();
        self.write_lossy(&Pdu::request(sequence, Body::EnquireLink));
    }

    fn take(&mut self, now: Millis, frame: Frame) {
        let pdu = match frame {
            Frame::Oversized { sequence } => return self.nack(Status::RINVCMDLEN, sequence),
            Frame::Whole(octets) => Pdu::decode(octets),
        };
        match pdu {
            Ok(pdu) if pdu.body.is_response() => self.take_response(now, pdu),
            Ok(pdu) => self.take_request(now, pdu),
            Err(malformed) => self.take_malformed(malformed),
        }
    }

    fn take_response(&mut self, now: Millis, pdu: Pdu) {
        let (status, sequence) = (pdu.status, pdu.sequence);
        match (pdu.body, self.state) {
            (Body::BindResp(_, resp), State::Binding { kind, sequence: asked, .. })
                if sequence == asked =>
            {
                if status.is_ok() {
                    self.state = State::Bound(kind);
                    self.events.push_back(Event::Bound(resp));
                } else {
                    self.end(Ended::BindRefused(status));
                }
            }
            (Body::GenericNack, State::Binding { sequence: asked, .. }) if sequence == asked => {
                self.end(Ended::BindRefused(refusal(status)));
            }
            (Body::UnbindResp | Body::GenericNack, State::Unbinding { .. }) => {
                self.end(Ended::Unbound);
            }
            (Body::MessageResp(operation, resp), _) => {
                let found = self.window.answer(sequence, Some(operation));
                self.answered(now, found, status, resp.message_id);
            }
            // SMPP 3.4 §4.3: the request was not understood at all.
            (Body::GenericNack, _) => {
                let found = self.window.answer(sequence, None);
                self.answered(now, found, refusal(status), COctets::default());
            }
            // `enquire_link_resp` has done its work by being heard; others were not asked for.
            _ => {}
        }
        self.wind_up(now);
    }

    fn answered(&mut self, now: Millis, found: Match, status: Status, message_id: COctets) {
        let answer =
            |slot: Slot| Answer { key: slot.key, status, message_id, took_ms: now - slot.sent_at };
        let event = match found {
            Match::InTime(slot) => Event::Answered(answer(slot)),
            Match::Late(slot) => Event::AnsweredLate(answer(slot)),
            Match::Stray => return,
        };
        self.events.push_back(event);
    }

    fn take_request(&mut self, now: Millis, pdu: Pdu) {
        let sequence = pdu.sequence;
        match pdu.body {
            Body::EnquireLink => {
                self.write_lossy(&Pdu::request(sequence, Body::EnquireLinkResp));
            }
            Body::Unbind => {
                self.state = State::Leaving { sequence, until: now + self.settings.unbind_ms };
                self.wind_up(now);
            }
            Body::Bind(kind, bind) => self.take_bind(kind, bind, sequence),
            Body::Message(operation, message) => {
                self.take_message(Ticket { sequence, operation }, message);
            }
            Body::AlertNotification => {}
            _ => self.nack(Status::RINVCMDID, sequence),
        }
    }

    fn take_bind(&mut self, kind: BindKind, bind: Bind, sequence: u32) {
        if self.role == Role::Centre && matches!(self.state, State::Open { .. }) {
            self.state = State::Deciding { kind, sequence };
            self.events.push_back(Event::BindRequested(kind, bind));
        } else {
            let body = Body::BindResp(kind, BindResp::default());
            self.write_lossy(&Pdu { status: Status::RALYBND, sequence, body });
        }
    }

    fn take_message(&mut self, ticket: Ticket, message: Message) {
        let is_expected = match (self.role, ticket.operation) {
            (Role::Centre, Operation::Submit | Operation::Data) => {
                matches!(self.state, State::Bound(kind) if kind.sends())
            }
            // What crosses our `unbind` was sent to a bound receiver; some centres drop for good
            // what is refused with a status of the bind.
            (Role::Esme, Operation::Deliver | Operation::Data) => {
                self.is_linked() || matches!(self.state, State::Unbinding { .. })
            }
            _ => false,
        };
        if !is_expected {
            return self.respond(ticket, Status::RINVBNDSTS, COctets::default());
        }
        if self.open >= self.settings.inbound {
            return self.respond(ticket, self.later(), COctets::default());
        }
        self.open += 1;
        self.events.push_back(Event::Message(ticket, ticket.operation, message));
    }

    /// What sends a message back to come again.
    const fn later(&self) -> Status {
        match self.role {
            Role::Esme => Status::RX_T_APPN,
            Role::Centre => Status::RMSGQFUL,
        }
    }

    /// A centre that gets a temporary error would send the same again, for ever.
    fn take_malformed(&mut self, malformed: Malformed) {
        let Malformed { operation, sequence } = malformed;
        let status = match self.role {
            Role::Esme => Status::RX_P_APPN,
            Role::Centre => Status::RINVMSGLEN,
        };
        self.respond(Ticket { sequence, operation }, status, COctets::default());
    }

    fn respond(&mut self, ticket: Ticket, status: Status, message_id: COctets) {
        let resp = MessageResp { message_id, tlvs: Tlvs::default() };
        let (sequence, body) = (ticket.sequence, Body::MessageResp(ticket.operation, resp));
        self.write_lossy(&Pdu { status, sequence, body });
    }

    fn nack(&mut self, status: Status, sequence: u32) {
        self.write_lossy(&Pdu { status, sequence, body: Body::GenericNack });
    }

    /// Goes on with ending, once nothing is open or the time is over.
    fn wind_up(&mut self, now: Millis) {
        let is_idle = self.window.len() == 0 && self.open == 0;
        match self.state {
            State::Draining { until } if is_idle || now >= until => {
                let sequence = self.sequence.take();
                self.state = State::Unbinding { until: now + self.settings.response_ms };
                self.write_lossy(&Pdu::request(sequence, Body::Unbind));
            }
            State::Leaving { sequence, until } if is_idle || now >= until => {
                self.write_lossy(&Pdu::request(sequence, Body::UnbindResp));
                self.end(Ended::UnboundByPeer);
            }
            _ => {}
        }
    }

    fn end(&mut self, why: Ended) {
        if self.is_ended() {
            return;
        }
        self.state = State::Ended(why);
        let lost = self.window.abandon().map(|slot| Event::Unanswered(slot.key));
        self.events.extend(lost);
        self.events.push_back(Event::Ended(why));
    }

    fn write(&mut self, pdu: &Pdu) -> Result<(), EncodeError> {
        pdu.encode_into(&mut self.out)
    }

    /// Writes what has no field that can be wrong, or whose fields are ours. An id that is too long
    /// is the one exception: the other side gets no answer, and asks again.
    fn write_lossy(&mut self, pdu: &Pdu) {
        let _unwritten = self.write(pdu);
    }
}

/// A `generic_nack` refuses, even if it says that all is well.
const fn refusal(status: Status) -> Status {
    if status.is_ok() { Status::RUNKNOWNERR } else { status }
}
