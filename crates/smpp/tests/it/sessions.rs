//! Two sessions, octet by octet and with time in hand: what each side sees, whatever comes between.

use std::collections::HashMap;

use bytes::BytesMut;
use clock::Millis;
use proptest::prelude::*;
use smpp::{
    Answer, Bind, BindKind, Body, COctets, Ended, Event, Frame, Framer, Message, NotSendable,
    Operation, Pdu, Session, SessionSettings, Status, Ticket,
};

use crate::odd;

pub(crate) const NOW: Millis = Millis(1_000_000);
const SETTINGS: SessionSettings = SessionSettings {
    window: 10,
    inbound: 4,
    enquire_ms: 30_000,
    response_ms: 10_000,
    unbind_ms: 2_000,
};

fn esme() -> Session {
    Session::esme(SETTINGS, BindKind::Transceiver, Bind::new("login", "secret"), NOW)
}

/// An ESME that is bound, with nothing to say.
pub(crate) fn bound() -> Session {
    let mut session = esme();
    session.receive(NOW, &mut BytesMut::from(&odd::bind_answers()[0].1[..]));
    assert!(matches!(session.event(), Some(Event::Bound(_))));
    session.output().clear();
    session
}

fn feed(session: &mut Session, octets: &[u8]) -> Vec<Event> {
    session.receive(NOW, &mut BytesMut::from(octets));
    events(session)
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.event()).collect()
}

/// What a session wrote, PDU by PDU.
fn written(session: &mut Session) -> Vec<Pdu> {
    let mut stream = session.output().split();
    let mut framer = Framer::default();
    let mut pdus = vec![];
    while let Some(Frame::Whole(octets)) = framer.next(&mut stream).unwrap() {
        pdus.push(Pdu::decode(octets).unwrap());
    }
    assert!(stream.is_empty());
    pdus
}

pub(crate) fn send(session: &mut Session, key: u64) -> Result<(), NotSendable> {
    session.send(NOW, key, Operation::Submit, Message::default())
}

fn resp(sequence: u32) -> Vec<u8> {
    odd::pdu(0x8000_0004, 0, sequence, b"id\0").to_vec()
}

/// Carries octets both ways until nothing moves, and answers what comes with success.
fn exchange(now: Millis, sides: [&mut Session; 2]) -> [Vec<Event>; 2] {
    let [one, other] = sides;
    let mut seen = [vec![], vec![]];
    for _ in 0..10 {
        let (mut there, mut back) = (one.output().split(), other.output().split());
        other.receive(now, &mut there);
        one.receive(now, &mut back);
        seen[0].extend(events(one));
        seen[1].extend(events(other));
        for event in &seen[1] {
            if matches!(event, Event::BindRequested(..)) {
                other.accept_bind("centre");
            }
        }
    }
    seen
}

#[test]
fn both_sides_bind_send_receive_and_unbind() {
    let (mut esme, mut centre) = (esme(), Session::centre(SETTINGS, NOW));
    let [told, asked] = exchange(NOW, [&mut esme, &mut centre]);
    assert!(matches!(&told[..], [Event::Bound(resp)] if resp.version() == Some(0x34)));
    let [Event::BindRequested(BindKind::Transceiver, bind)] = &asked[..] else { panic!() };
    assert_eq!(
        (bind.system_id.to_string(), bind.password.to_string()),
        ("login".into(), "secret".into())
    );

    send(&mut esme, 41).unwrap();
    let [_, came] = exchange(NOW, [&mut esme, &mut centre]);
    let [Event::Message(ticket, Operation::Submit, _)] = came[..] else { panic!("{came:?}") };
    centre.answer(NOW, ticket, Status::ROK, "77".into());
    centre.send(NOW, 1, Operation::Deliver, Message::default()).unwrap();
    let [told, _] = exchange(NOW + 5, [&mut esme, &mut centre]);
    let answer = Answer { key: 41, status: Status::ROK, message_id: "77".into(), took_ms: 5 };
    assert_eq!(told[0], Event::Answered(answer));
    let Event::Message(receipt, Operation::Deliver, _) = told[1] else { panic!("{told:?}") };

    // The receipt is still open: the end waits for it.
    esme.unbind(NOW + 6);
    assert_eq!(send(&mut esme, 42), Err(NotSendable::NotBound));
    assert_eq!(exchange(NOW + 6, [&mut esme, &mut centre]), [vec![], vec![]]);
    esme.answer(NOW + 7, receipt, Status::ROK, COctets::default());
    let [told, came] = exchange(NOW + 7, [&mut esme, &mut centre]);
    assert_eq!(told, [Event::Ended(Ended::Unbound)]);
    assert!(matches!(came[..], [Event::Answered(_), Event::Ended(Ended::UnboundByPeer)]));
}

#[test]
fn every_answer_of_the_field_settles_its_message_and_the_session_goes_on() {
    for (what, octets, is_taken) in odd::answers() {
        let mut session = bound();
        send(&mut session, 5).unwrap();
        let told = feed(&mut session, &octets);
        let [Event::Answered(answer)] = &told[..] else { panic!("{what}: {told:?}") };
        assert_eq!((answer.key, answer.status.is_ok()), (5, is_taken), "{what}");
        assert!(session.has_room(), "{what}");
    }
}

#[test]
fn every_bind_answer_of_the_field_is_understood() {
    for (what, octets, is_accepted) in odd::bind_answers() {
        let told = feed(&mut esme(), &octets);
        match &told[..] {
            [Event::Bound(_)] => assert!(is_accepted, "{what}"),
            [Event::Ended(Ended::BindRefused(_))] => assert!(!is_accepted, "{what}"),
            _ => panic!("{what}: {told:?}"),
        }
    }
}

#[test]
fn nothing_that_centres_of_the_field_send_ends_the_session_or_shifts_the_next_pdu() {
    let next = odd::pdu(0x15, 0, 99, b"");
    let messages = odd::messages().into_iter().map(|(what, octets)| (what, octets, 1));
    let others = odd::others().into_iter().map(|(what, octets)| (what, octets, 0));
    for (what, octets, count) in messages.chain(others) {
        let mut session = bound();
        let told = feed(&mut session, &[octets, next.clone()].concat());
        assert_eq!(told.len(), count, "{what}: {told:?}");
        assert!(told.iter().all(|event| matches!(event, Event::Message(..))), "{what}");
        let last = written(&mut session).pop().unwrap();
        assert_eq!(last, Pdu::request(99, Body::EnquireLinkResp), "{what}");
        assert!(session.has_room(), "{what}");
    }
}

#[test]
fn unknown_and_cut_requests_are_refused_and_stray_answers_ignored() {
    let mut session = bound();
    assert_eq!(feed(&mut session, &odd::pdu(0x0001_0200, 0, 9, b"?")), []);
    assert_eq!(feed(&mut session, &odd::pdu(0x05, 0, 10, b"\0\x01")), []);
    assert_eq!(feed(&mut session, &resp(4_711)), []);
    let refused: Vec<_> = written(&mut session)
        .iter()
        .map(|pdu| (pdu.body.command_id(), pdu.status, pdu.sequence))
        .collect();
    assert_eq!(
        refused,
        [(0x8000_0000, Status::RINVCMDID, 9), (0x8000_0005, Status::RX_P_APPN, 10)]
    );
}

#[test]
fn a_pdu_of_a_megabyte_is_refused_and_skipped_and_nonsense_ends_the_session() {
    let mut session = bound();
    let big = odd::pdu(0x05, 0, 8, &vec![0xAA; 1_048_576]);
    for chunk in big.chunks(10_000) {
        assert_eq!(feed(&mut session, chunk), []);
    }
    let [refused] = &written(&mut session)[..] else { panic!() };
    assert_eq!(
        (&refused.body, refused.status, refused.sequence),
        (&Body::GenericNack, Status::RINVCMDLEN, 8)
    );
    assert!(session.has_room());
    assert_eq!(
        feed(&mut session, b"GET / HTTP/1.1\r\n"),
        [Event::Ended(Ended::FramingLost(0x4745_5420))]
    );
}

#[test]
fn the_window_bounds_what_is_unanswered() {
    let mut session = bound();
    (0..10).for_each(|key| send(&mut session, key).unwrap());
    assert_eq!(send(&mut session, 10), Err(NotSendable::WindowFull));
    assert_eq!(feed(&mut session, &resp(2)).len(), 1);
    assert_eq!(send(&mut session, 10), Ok(()));
    session.disconnected(std::io::ErrorKind::ConnectionReset);
    let told = events(&mut session);
    let lost: Vec<u64> = (1..=10).collect();
    let unanswered: Vec<u64> = told
        .iter()
        .filter_map(|event| match event {
            Event::Unanswered(key) => Some(*key),
            _ => None,
        })
        .collect();
    assert_eq!(unanswered, lost);
    assert_eq!(
        told.last(),
        Some(&Event::Ended(Ended::Disconnected(std::io::ErrorKind::ConnectionReset)))
    );
}

#[test]
fn messages_beyond_the_bound_are_sent_back_to_come_again() {
    let mut session = bound();
    let message = &odd::messages()[0].1;
    let told = feed(&mut session, &message.repeat(6));
    assert_eq!(told.len(), SETTINGS.inbound);
    let later: Vec<Status> = written(&mut session).iter().map(|pdu| pdu.status).collect();
    assert_eq!(later, [Status::RX_T_APPN; 2]);
    let Event::Message(ticket, ..) = told[0] else { panic!() };
    session.answer(NOW, ticket, Status::ROK, COctets::default());
    assert_eq!(feed(&mut session, message).len(), 1);
}

#[test]
fn an_unanswered_message_is_given_up_in_time_and_recognised_when_its_answer_comes() {
    let mut session = bound();
    send(&mut session, 5).unwrap();
    assert_eq!(session.wake_at(), Some(NOW + 10_000));
    session.tick(NOW + 9_999);
    assert_eq!(events(&mut session), []);
    session.tick(NOW + 10_000);
    assert_eq!(events(&mut session), [Event::Unanswered(5)]);
    // A link that may be half dead is asked at once, and gets nothing more until it speaks.
    assert!(written(&mut session).iter().any(|pdu| pdu.body == Body::EnquireLink));
    assert!(session.is_silent() && !session.has_room());
    let told = feed(&mut session, &resp(2));
    assert!(
        matches!(&told[..], [Event::Heard, Event::AnsweredLate(answer)] if answer.key == 5),
        "{told:?}"
    );
    assert!(!session.is_silent() && session.has_room());
    assert_eq!(feed(&mut session, &resp(2)), []);
}

#[test]
fn a_silent_centre_is_asked_twice_and_left() {
    let mut session = bound();
    session.tick(NOW + 29_999);
    assert_eq!(written(&mut session), []);
    for asked_at in [30_000, 40_000] {
        assert_eq!(session.wake_at(), Some(NOW + asked_at));
        session.tick(NOW + asked_at);
        assert!(matches!(&written(&mut session)[..], [pdu] if pdu.body == Body::EnquireLink));
    }
    assert_eq!(events(&mut session), [Event::Silent]);
    assert!(!session.has_room());
    session.tick(NOW + 50_000);
    assert_eq!(events(&mut session), [Event::Ended(Ended::Silent)]);
    assert_eq!(session.wake_at(), None);
}

#[test]
fn half_a_pdu_is_silence_and_any_pdu_is_not() {
    let mut session = bound();
    let mut stream = BytesMut::from(&odd::messages()[0].1[..40]);
    session.receive(NOW + 29_000, &mut stream);
    assert_eq!(session.wake_at(), Some(NOW + 30_000));
    let mut whole = BytesMut::from(&odd::others()[0].1[..]);
    let mut session = bound();
    session.receive(NOW + 29_000, &mut whole);
    assert_eq!(session.wake_at(), Some(NOW + 59_000));
}

#[test]
fn a_centre_that_unbinds_gets_the_answers_that_are_open_first() {
    let mut session = bound();
    send(&mut session, 5).unwrap();
    let _sent = written(&mut session);
    assert_eq!(feed(&mut session, &odd::pdu(0x06, 0, 50, b"")), []);
    assert_eq!(written(&mut session), []);
    assert_eq!(send(&mut session, 6), Err(NotSendable::NotBound));
    let told = feed(&mut session, &resp(2));
    assert!(matches!(told[..], [Event::Answered(_), Event::Ended(Ended::UnboundByPeer)]));
    assert_eq!(written(&mut session), [Pdu::request(50, Body::UnbindResp)]);
    // It is not waited for longer than `unbind_ms`.
    let mut session = bound();
    send(&mut session, 5).unwrap();
    feed(&mut session, &odd::pdu(0x06, 0, 50, b""));
    session.tick(NOW + 2_000);
    assert!(matches!(
        events(&mut session)[..],
        [Event::Unanswered(5), Event::Ended(Ended::UnboundByPeer)]
    ));
}

#[test]
fn a_receipt_that_crosses_our_unbind_is_taken_and_acknowledged() {
    let receipt = |sequence| odd::pdu(0x05, 0, sequence, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let mut session = bound();
    session.unbind(NOW);
    let asked = written(&mut session)[0].sequence;
    let told = feed(&mut session, &receipt(7));
    let [Event::Message(ticket, Operation::Deliver, _)] = told[..] else { panic!("{told:?}") };
    session.answer(NOW, ticket, Status::ROK, COctets::default());
    let [ref answer] = written(&mut session)[..] else { panic!("one answer") };
    assert_eq!((answer.sequence, answer.status), (7, Status::ROK));
    assert_eq!(
        feed(&mut session, &odd::pdu(0x8000_0006, 0, asked, b"")),
        [Event::Ended(Ended::Unbound)]
    );
    // Nothing is said of one that comes after the end: the centre sends it to the next bind.
    assert_eq!(feed(&mut session, &receipt(8)), []);
    assert_eq!(written(&mut session), []);
}

#[test]
fn a_bind_that_hangs_ends() {
    let mut session = esme();
    assert_eq!(session.wake_at(), Some(NOW + 10_000));
    session.tick(NOW + 10_000);
    assert_eq!(events(&mut session), [Event::Ended(Ended::BindTimeout)]);
    let mut centre = Session::centre(SETTINGS, NOW);
    centre.tick(NOW + 10_000);
    assert_eq!(events(&mut centre), [Event::Ended(Ended::BindTimeout)]);
}

#[test]
fn messages_go_only_the_way_that_was_bound() {
    for (kind, sends, receives) in
        [(BindKind::Transmitter, true, false), (BindKind::Receiver, false, true)]
    {
        let mut esme = Session::esme(SETTINGS, kind, Bind::new("login", ""), NOW);
        let mut centre = Session::centre(SETTINGS, NOW);
        exchange(NOW, [&mut esme, &mut centre]);
        assert_eq!(send(&mut esme, 1).is_ok(), sends);
        let delivered = centre.send(NOW, 1, Operation::Deliver, Message::default());
        assert_eq!(delivered.is_ok(), receives);
        assert_eq!(
            esme.send(NOW, 2, Operation::Deliver, Message::default()),
            Err(NotSendable::NotBound)
        );
    }
    let mut centre = Session::centre(SETTINGS, NOW);
    let early = odd::pdu(0x04, 0, 3, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(feed(&mut centre, &early), []);
    assert_eq!(written(&mut centre)[0].status, Status::RINVBNDSTS);
}

#[derive(Clone, Debug)]
enum Step {
    Send { by_centre: bool },
    Answer { by_centre: bool, with: u32 },
    Carry { to_centre: bool, octets: usize },
    Pass(i64),
    Unbind { by_centre: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<bool>().prop_map(|by_centre| Step::Send { by_centre }),
        6 => (any::<bool>(), prop::sample::select(vec![0, 0x58, 0x0B]))
            .prop_map(|(by_centre, with)| Step::Answer { by_centre, with }),
        12 => (any::<bool>(), 0..200_usize)
            .prop_map(|(to_centre, octets)| Step::Carry { to_centre, octets }),
        2 => (0..12_000_i64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(|by_centre| Step::Unbind { by_centre }),
    ]
}

/// One side of a simulated line.
struct Side {
    session: Session,
    operation: Operation,
    arriving: BytesMut,
    tickets: Vec<Ticket>,
    sent: u64,
    fates: HashMap<u64, usize>,
    late: HashMap<u64, usize>,
}

impl Side {
    fn new(session: Session, operation: Operation) -> Self {
        let (arriving, tickets) = (BytesMut::new(), vec![]);
        Self {
            session,
            operation,
            arriving,
            tickets,
            sent: 0,
            fates: HashMap::new(),
            late: HashMap::new(),
        }
    }

    fn look(&mut self) {
        while let Some(event) = self.session.event() {
            match event {
                Event::Answered(answer) => *self.fates.entry(answer.key).or_default() += 1,
                Event::Unanswered(key) => *self.fates.entry(key).or_default() += 1,
                Event::AnsweredLate(answer) => *self.late.entry(answer.key).or_default() += 1,
                Event::Message(ticket, ..) => self.tickets.push(ticket),
                Event::BindRequested(..) => self.session.accept_bind("centre"),
                Event::Bound(_) | Event::Silent | Event::Heard | Event::Ended(_) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn every_message_has_one_fate_however_the_line_behaves(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut now = NOW;
        let centre = Session::centre(SETTINGS, NOW);
        let esme = Side::new(esme(), Operation::Submit);
        let mut sides = [esme, Side::new(centre, Operation::Deliver)];
        for step in steps {
            match step {
                Step::Send { by_centre } => {
                    let side = &mut sides[usize::from(by_centre)];
                    let key = side.sent;
                    if side.session.send(now, key, side.operation, Message::default()).is_ok() {
                        side.sent += 1;
                    }
                }
                Step::Answer { by_centre, with } => {
                    let side = &mut sides[usize::from(by_centre)];
                    if let Some(ticket) = side.tickets.pop() {
                        side.session.answer(now, ticket, Status(with), "id".into());
                    }
                }
                Step::Carry { to_centre, octets } => {
                    let from = sides[usize::from(!to_centre)].session.output();
                    let moved = from.split_to(octets.min(from.len()));
                    let to = &mut sides[usize::from(to_centre)];
                    to.arriving.extend_from_slice(&moved);
                    to.session.receive(now, &mut to.arriving);
                }
                Step::Pass(ms) => {
                    now = now + ms;
                    for side in &mut sides {
                        side.session.tick(now);
                    }
                }
                Step::Unbind { by_centre } => sides[usize::from(by_centre)].session.unbind(now),
            }
            for side in &mut sides {
                side.look();
                prop_assert!(side.session.in_flight() <= SETTINGS.window);
                prop_assert!(side.tickets.len() <= SETTINGS.inbound || side.session.is_ended());
                prop_assert!(side.session.is_ended() || side.session.wake_at().is_some());
            }
        }
        for side in &mut sides {
            side.session.disconnected(std::io::ErrorKind::UnexpectedEof);
            side.look();
            prop_assert_eq!(side.fates.len() as u64, side.sent);
            prop_assert!(side.fates.values().chain(side.late.values()).all(|count| *count == 1));
        }
    }
}
