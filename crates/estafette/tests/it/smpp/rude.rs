//! A centre without manners: it hangs, cuts, babbles and floods. What the tenant, the ledger and
//! the operator see of it is the table in docs/sms.md.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::smpp::{
    BindResp, Body, EsmClass, Framer, Message, MessageResp, Operation, Pdu, Status, Tlvs,
};
use bytes::{BufMut, BytesMut};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{START, carrier, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::faults::How;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_bind_that_hangs_or_is_refused_keeps_messages_queued,
    a_submission_that_hangs_or_is_cut_is_of_unknown_fate,
    a_centre_that_hangs_amid_a_pdu_is_left_and_bound_again,
    a_second_bind_that_is_refused_leaves_the_first_at_work,
    babble_and_floods_do_no_harm,
    a_minute_of_throttling_loses_nothing,
    a_centre_that_denies_the_bind_is_bound_to_anew,
    an_answer_that_comes_late_counts,
    a_bind_whose_lease_is_lost_is_cut_before_another_node_may_have_it,
);

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    Good,
    HangsAtBind,
    RefusesBind,
    RefusesSecondBind,
    RefusesReceivers,
    HangsAtSubmission,
    HangsAmidItsAnswer,
    CutsItsAnswer,
    Throttles,
    /// It throttles messages to numbers that end so, and takes the others.
    ThrottlesTo(&'static str),
    /// It answers each message so.
    Refuses(Status),
    /// It answers so all but the first.
    RefusesRest(Status),
    /// It answers when it is told to.
    AnswersLate,
    /// It answers its first message, and no other.
    AnswersOnce,
}

/// The centre. It can be told to behave otherwise.
pub(super) struct Rude {
    pub(super) address: SocketAddr,
    manners: Arc<Mutex<Manners>>,
    binds: Arc<AtomicUsize>,
    /// Connections that are open.
    open: AtomicUsize,
    submissions: Arc<AtomicUsize>,
    acknowledged: Arc<AtomicUsize>,
    /// What it says as soon as somebody is bound.
    babble: Arc<Mutex<Vec<u8>>>,
    /// What it is told to answer at last.
    late: Mutex<Status>,
    told: Notify,
}

impl Rude {
    pub(super) async fn open(manners: Manners) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rude = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            manners: Arc::new(Mutex::new(manners)),
            binds: Arc::default(),
            open: AtomicUsize::new(0),
            submissions: Arc::default(),
            acknowledged: Arc::default(),
            babble: Arc::default(),
            late: Mutex::new(Status::ROK),
            told: Notify::new(),
        });
        let served = Arc::clone(&rude);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let served = Arc::clone(&served);
                tokio::spawn(async move {
                    served.open.fetch_add(1, Ordering::SeqCst);
                    Arc::clone(&served).serve(stream).await;
                    served.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        rude
    }

    pub(super) fn behave(&self, manners: Manners) {
        *self.manners.lock().unwrap() = manners;
    }

    pub(super) fn submissions(&self) -> usize {
        self.submissions.load(Ordering::SeqCst)
    }

    pub(super) fn binds(&self) -> usize {
        self.binds.load(Ordering::SeqCst)
    }

    /// What it says as soon as somebody is bound.
    pub(super) fn begin_with(&self, octets: Vec<u8>) {
        *self.babble.lock().unwrap() = octets;
    }

    /// Answers what it owes an answer.
    pub(super) fn answer_late(&self, status: Status) {
        *self.late.lock().unwrap() = status;
        self.told.notify_one();
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let (mut framer, mut input) = (Framer::default(), BytesMut::new());
        let (mut is_hung, mut owed) = (false, vec![]);
        loop {
            while let Ok(Some(frame)) = framer.next(&mut input) {
                if is_hung {
                    continue;
                }
                let ::smpp::Frame::Whole(octets) = frame else { return };
                let Ok(pdu) = Pdu::decode(octets) else { return };
                let answer = self.answer(&pdu);
                if stream.write_all(&answer).await.is_err() {
                    return;
                }
                let is_message = matches!(pdu.body, Body::Message(..));
                match *self.manners.lock().unwrap() {
                    Manners::CutsItsAnswer if is_message => return,
                    // This connection says nothing more, however the next one behaves.
                    Manners::HangsAmidItsAnswer if is_message => is_hung = true,
                    Manners::AnswersLate if is_message => owed.push(pdu.sequence),
                    _ => {}
                }
            }
            let read = tokio::select! {
                read = stream.read_buf(&mut input) => read.unwrap_or(0),
                () = self.told.notified() => {
                    let status = *self.late.lock().unwrap();
                    let late = owed.drain(..).flat_map(|sequence| {
                        let message_id = format!("late{sequence}").as_str().into();
                        let resp = MessageResp { message_id, tlvs: Tlvs::default() };
                        let body = Body::MessageResp(Operation::Submit, resp);
                        octets(&Pdu { status, sequence, body })
                    });
                    let late: Vec<u8> = late.collect();
                    stream.write_all(&late).await.map_or(0, |()| 1)
                }
            };
            if read == 0 {
                return;
            }
        }
    }

    fn answer(&self, pdu: &Pdu) -> Vec<u8> {
        let manners = *self.manners.lock().unwrap();
        let written = |status, body| octets(&Pdu { status, sequence: pdu.sequence, body });
        match &pdu.body {
            Body::Bind(kind, _) => {
                let before = self.binds.fetch_add(1, Ordering::SeqCst);
                let resp = Body::BindResp(*kind, BindResp::default());
                match manners {
                    Manners::HangsAtBind => vec![],
                    Manners::RefusesBind => written(Status::RALYBND, resp),
                    Manners::RefusesReceivers if !kind.sends() => written(Status::RBINDFAIL, resp),
                    Manners::RefusesSecondBind if before > 0 => written(Status::RALYBND, resp),
                    _ => {
                        let mut said = written(Status::ROK, resp);
                        said.extend(self.babble.lock().unwrap().iter());
                        said
                    }
                }
            }
            Body::Message(operation, message) => {
                let count = self.submissions.fetch_add(1, Ordering::SeqCst) + 1;
                let message_id = count.to_string().as_str().into();
                let resp = MessageResp { message_id, tlvs: Tlvs::default() };
                let resp = Body::MessageResp(*operation, resp);
                match manners {
                    Manners::HangsAtSubmission | Manners::AnswersLate => vec![],
                    Manners::AnswersOnce if count > 1 => vec![],
                    Manners::CutsItsAnswer | Manners::HangsAmidItsAnswer => {
                        written(Status::ROK, resp)[..10].to_vec()
                    }
                    Manners::Throttles => written(Status::RTHROTTLED, resp),
                    Manners::ThrottlesTo(end)
                        if message.destination.value.to_string().ends_with(end) =>
                    {
                        written(Status::RMSGQFUL, resp)
                    }
                    Manners::Refuses(status) => written(status, resp),
                    Manners::RefusesRest(status) if count > 1 => written(status, resp),
                    _ => written(Status::ROK, resp),
                }
            }
            Body::MessageResp(..) => {
                self.acknowledged.fetch_add(usize::from(pdu.status.is_ok()), Ordering::SeqCst);
                vec![]
            }
            Body::EnquireLink => written(Status::ROK, Body::EnquireLinkResp),
            Body::Unbind => written(Status::ROK, Body::UnbindResp),
            _ => vec![],
        }
    }
}

pub(super) fn octets(pdu: &Pdu) -> Vec<u8> {
    let mut out = BytesMut::new();
    pdu.encode_into(&mut out).unwrap();
    out.to_vec()
}

async fn start(world: &World, manners: Manners, more: &str) -> Arc<Rude> {
    let rude = Rude::open(manners).await;
    give(world, settings(&[("main", rude.address, more)])).await;
    rude
}

async fn a_bind_that_hangs_or_is_refused_keeps_messages_queued(world: &World) {
    let rude = start(world, Manners::HangsAtBind, "").await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    let id = id.word("id");
    eventually(async || (rude.binds.load(Ordering::SeqCst) == 1).then_some(())).await;
    assert_eq!(carrier(world, "main").await["state"], "down");
    let passcode = json!({"to": phone("5678"), "delivery_mode": "sms"});
    ada.send(&passcode).await.problem("carrier_unavailable");
    rude.behave(Manners::RefusesBind);
    eventually(async || {
        world.advance(2_000).await;
        (rude.binds.load(Ordering::SeqCst) >= 3).then_some(())
    })
    .await;
    assert_eq!(carrier(world, "main").await["state"], "down");
    assert_eq!(ada.sms(id).await.ok().word("status"), "queued");
    assert_eq!(rude.submissions(), 0);
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(2_000).await;
        (ada.sms(id).await.ok().word("status") == "submitted").then_some(())
    })
    .await;
    assert_eq!(rude.submissions(), 1);
    assert_eq!(ada.balance().await, START - super::PRICE, "the passcode cost nothing");
}

async fn a_submission_that_hangs_or_is_cut_is_of_unknown_fate(world: &World) {
    for (round, manners) in
        [Manners::HangsAtSubmission, Manners::CutsItsAnswer].into_iter().enumerate()
    {
        let rude = start(world, manners, "response_s = 5").await;
        until_up(world, "main").await;
        let ada = sender(world, &format!("ada{round}")).await;
        let bulk = json!({"to": phone("5678"), "text": "hi", "class": "bulk", "validity_s": 60});
        let id = ada.text(bulk).await.ok().word("id").to_owned();
        eventually(async || (rude.submissions() == 1).then_some(())).await;
        eventually(async || {
            world.advance(1_000).await;
            (ada.sms(&id).await.ok().word("status") == "submitted").then_some(())
        })
        .await;
        assert_eq!(ada.balance().await, START - super::PRICE, "held: {manners:?}");
        rude.behave(Manners::Good);
        world.advance(121_000).await;
        ada.sms_until(&id, "expired").await;
        assert_eq!((rude.submissions(), ada.balance().await), (1, START), "{manners:?}");
    }
}

async fn a_centre_that_hangs_amid_a_pdu_is_left_and_bound_again(world: &World) {
    let rude = start(world, Manners::HangsAmidItsAnswer, "response_s = 5\nenquire_s = 5").await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let bulk = json!({"to": phone("5678"), "text": "hi", "class": "bulk", "validity_s": 600});
    let id = ada.text(bulk).await.ok().word("id").to_owned();
    eventually(async || (rude.submissions() == 1).then_some(())).await;
    rude.behave(Manners::Good);
    // Nobody knows whether it took the message, so it is not sent again. The connection, on which
    // not even enquiries are answered, is given up for a new one.
    eventually(async || {
        world.advance(1_000).await;
        (rude.binds.load(Ordering::SeqCst) == 2).then_some(())
    })
    .await;
    until_up(world, "main").await;
    ada.sms_until(&id, "submitted").await;
    let other = ada.text(json!({"to": phone("5679"), "text": "hi"})).await.ok();
    ada.sms_until(other.word("id"), "submitted").await;
    assert_eq!((rude.submissions(), rude.binds.load(Ordering::SeqCst)), (2, 2));
    assert_eq!(ada.balance().await, START - 2 * super::PRICE, "held, and charged");
}

async fn a_second_bind_that_is_refused_leaves_the_first_at_work(world: &World) {
    let rude = start(world, Manners::RefusesSecondBind, "binds = 2\nmax_binds = 2").await;
    until_up(world, "main").await;
    eventually(async || (rude.binds.load(Ordering::SeqCst) >= 2).then_some(())).await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    ada.sms_until(id.word("id"), "submitted").await;
    let passcode = json!({"to": phone("5679"), "delivery_mode": "sms"});
    ada.send(&passcode).await.ok();
    let seen = carrier(world, "main").await;
    assert_eq!((&seen["state"], &seen["binds"]), (&json!("up"), &json!(1)), "{seen}");
    // It is asked again, and works once the carrier allows it.
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(5_000).await;
        (carrier(world, "main").await["binds"] == 2).then_some(())
    })
    .await;
    assert_eq!(rude.submissions(), 2, "each went out once");
}

/// A receipt for a message that nobody sent.
fn stray(sequence: u32) -> Vec<u8> {
    receipt(sequence, &format!("id:99{sequence:06} "))
}

fn receipt(sequence: u32, id: &str) -> Vec<u8> {
    let text = format!("{id}sub:001 dlvrd:001 stat:DELIVRD err:000 text:");
    let message = Message {
        esm_class: EsmClass(0x04),
        short_message: text.into_bytes().into(),
        ..Message::default()
    };
    octets(&Pdu::request(sequence, Body::Message(Operation::Deliver, message)))
}

async fn babble_and_floods_do_no_harm(world: &World) {
    let rude = Rude::open(Manners::Good).await;
    let mut babble = BytesMut::new();
    // Answers that nobody asked for.
    let resp = MessageResp { message_id: "77".into(), tlvs: Tlvs::default() };
    for sequence in 1_000..1_050 {
        let body = Body::MessageResp(Operation::Submit, resp.clone());
        babble.put_slice(&octets(&Pdu { status: Status::ROK, sequence, body }));
    }
    // A megabyte that claims to be a message, and a message that ends before it says anything.
    babble.put_u32(1_048_576);
    babble.put_slice(&[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7]);
    babble.put_slice(&vec![0xFF; 1_048_576 - 16]);
    babble.put_slice(&[0, 0, 0, 18, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1]);
    for sequence in 100..300 {
        babble.put_slice(&stray(sequence));
    }
    // And one that does not say what it is about.
    babble.put_slice(&receipt(300, ""));
    rude.begin_with(babble.to_vec());
    give(world, settings(&[("main", rude.address, "")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    eventually(async || (rude.acknowledged.load(Ordering::SeqCst) >= 201).then_some(())).await;
    let seen = carrier(world, "main").await;
    assert_eq!((&seen["receipts"]["orphan"], &seen["state"]), (&json!(201), &json!("up")));
    assert_eq!(rude.binds.load(Ordering::SeqCst), 1, "the connection held");
    assert_eq!(ada.balance().await, START - super::PRICE);
    assert!(ada.get("/v1/inbound-notifications").await.ok().list().is_empty());
}

async fn a_minute_of_throttling_loses_nothing(world: &World) {
    let rude = start(world, Manners::Throttles, "rate = 100").await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let mut ids = vec![];
    for number in 0..5 {
        let body = json!({"to": phone(&format!("56{number:02}")), "text": "hi"});
        ids.push(ada.text(body).await.ok().word("id").to_owned());
    }
    eventually(async || (rude.submissions() >= 1).then_some(())).await;
    for _ in 0..12 {
        world.advance(5_000).await;
    }
    let seen = carrier(world, "main").await;
    assert!(seen["throttled"].as_u64().unwrap() >= 1, "{seen}");
    assert!(seen["rate_per_s"].as_u64().unwrap() < 100, "{seen}");
    assert_eq!(ada.balance().await, START - 5 * super::PRICE, "held");
    rude.behave(Manners::Good);
    for id in &ids {
        eventually(async || {
            world.advance(2_000).await;
            (ada.sms(id).await.ok().word("status") == "submitted").then_some(())
        })
        .await;
    }
    assert_eq!(ada.balance().await, START - 5 * super::PRICE, "each is charged once");
}

async fn a_centre_that_denies_the_bind_is_bound_to_anew(world: &World) {
    let rude = start(world, Manners::Refuses(Status::RINVBNDSTS), "").await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok().word("id").to_owned();
    eventually(async || (rude.submissions() == 1).then_some(())).await;
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(1_000).await;
        (rude.binds() == 2).then_some(())
    })
    .await;
    eventually(async || {
        world.advance(1_000).await;
        (ada.sms(&id).await.ok().word("status") == "submitted").then_some(())
    })
    .await;
    assert_eq!((rude.submissions(), rude.binds()), (2, 2));
    assert_eq!(ada.balance().await, START - super::PRICE, "charged once");
}

async fn an_answer_that_comes_late_counts(world: &World) {
    let rude = start(world, Manners::AnswersLate, "response_s = 1").await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let mut sent = 0;
    let mut of_unknown_fate = async |class: &str| {
        let body = json!({"to": phone("5678"), "text": "hi", "class": class, "validity_s": 60});
        let id = ada.text(body).await.ok().word("id").to_owned();
        sent += 1;
        eventually(async || (rude.submissions() == sent).then_some(())).await;
        world.advance(1_100).await;
        ada.sms_until(&id, "submitted").await;
        id
    };
    // The carrier does not have it after all: it costs nothing.
    let id = of_unknown_fate("bulk").await;
    rude.answer_late(Status::RINVDSTADR);
    let read = ada.sms_until(&id, "failed").await;
    assert_eq!(read.field("error")["code"], "recipient_unreachable", "{}", read.text);
    assert_eq!(ada.balance().await, START);
    // It has it: the price is due, whatever follows.
    let id = of_unknown_fate("bulk").await;
    rude.answer_late(Status::ROK);
    until_accepted(world, &id).await;
    world.advance(121_000).await;
    ada.sms_until(&id, "expired").await;
    assert_eq!(ada.balance().await, START - super::PRICE);
    // It did not take it for now: so it is sent again, and not as one of unknown fate.
    let mut again = Vec::new();
    for class in ["transactional", "bulk"] {
        let id = of_unknown_fate(class).await;
        rude.answer_late(Status::RSYSERR);
        eventually(async || (attempt(world, &id).await.0 == "queued").then_some(())).await;
        again.push(id);
    }
    rude.behave(Manners::Good);
    world.advance(15_100).await;
    for id in again {
        until_accepted(world, &id).await;
        assert_eq!(attempt(world, &id).await, ("accepted".to_owned(), 2, 0));
    }
    assert_eq!(rude.submissions(), 6);
    assert_eq!(ada.balance().await, START - 3 * super::PRICE);
}

/// State, tries and resends of an SMS.
async fn attempt(world: &World, id: &str) -> (String, i64, i64) {
    let sql = store::Sql("SELECT state, tries, resends FROM attempts WHERE object_id = $1");
    let db = world.app(estafette::app::Env::Live).await.db.clone();
    db.row(sql, store::args![id]).await.unwrap().expect("an attempt")
}

async fn until_accepted(world: &World, id: &str) {
    eventually(async || (attempt(world, id).await.0 == "accepted").then_some(())).await;
}

/// The clock is held, so that whatever waits for the centre would wait for ever.
async fn a_bind_whose_lease_is_lost_is_cut_before_another_node_may_have_it(world: &World) {
    let rude = start(world, Manners::HangsAtSubmission, "").await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let bulk = json!({"to": phone("5678"), "text": "hi", "class": "bulk"});
    let id = ada.text(bulk).await.ok().word("id").to_owned();
    eventually(async || (rude.submissions() == 1).then_some(())).await;
    world.faults.plan("INSERT INTO bind_slots", How::Unavailable, 4);
    let since = tokio::time::Instant::now();
    eventually(async || (rude.open.load(Ordering::SeqCst) == 0).then_some(())).await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    ada.sms_until(&id, "submitted").await;
    // The database is there again, and so is the bind. What the carrier may have stays there.
    eventually(async || (rude.binds() == 2).then_some(())).await;
    until_up(world, "main").await;
    assert_eq!(rude.submissions(), 1);
}
