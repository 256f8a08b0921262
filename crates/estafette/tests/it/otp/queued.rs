//! Passcodes that waited in a queue, and answers of carriers that come late: they cost and read
//! like any others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use estafette::carriers::{Carrier, Carriers, Door, Outbound, Outcome, Pace, Refusal};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::due::count;
use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

on_every_engine!(
    a_passcode_that_waited_costs_and_reads_like_any_other,
    a_copy_that_never_left_the_queue_costs_nothing,
    a_passcode_that_waits_for_the_chatapp_falls_back_in_time,
    a_passcode_that_waited_and_whose_sms_is_owed_gets_it,
    a_refusal_after_the_lease_is_the_answer,
    an_acceptance_after_the_lease_is_paid_for,
    what_is_refused_after_the_lease_goes_by_the_next_carrier,
);

const START: i64 = 1_000;
const CODE: &str = "482915";

/// A carrier of one message at a time, which answers when the story lets it.
struct Clerk {
    name: &'static str,
    given: Mutex<Vec<String>>,
    answers: Mutex<VecDeque<Outcome>>,
    gate: Semaphore,
}

impl Clerk {
    fn new(name: &'static str) -> Arc<Self> {
        let (given, answers) = (Mutex::default(), Mutex::default());
        Arc::new(Self { name, given, answers, gate: Semaphore::new(0) })
    }

    async fn until_given(&self, times: usize) {
        eventually(async || (self.given.lock().unwrap().len() == times).then_some(())).await;
    }

    fn given(&self) -> Vec<String> {
        self.given.lock().unwrap().clone()
    }

    fn lets(&self, messages: usize) {
        self.gate.add_permits(messages);
    }

    fn refuses(&self, class: Refusal) {
        let refused = Outcome::Refused { class, code: "42".to_owned() };
        self.answers.lock().unwrap().push_back(refused);
    }
}

struct Counter(Arc<Clerk>);

impl Carrier for Counter {
    fn name(&self) -> &str {
        self.0.name
    }

    fn pace(&self) -> Pace {
        Pace { window: 1, per_s: None, backs_off: false }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.0.given.lock().unwrap().push(message.to.as_str().to_owned());
            self.0.gate.acquire().await.unwrap().forget();
            let provider_id = format!("p.{}", message.attempt_id);
            let next = self.0.answers.lock().unwrap().pop_front();
            next.unwrap_or(Outcome::Accepted { provider_id })
        })
    }
}

async fn scene<'w>(world: &'w World, chatapp: &[&Arc<Clerk>], sms: &[&Arc<Clerk>]) -> Tenant<'w> {
    let own = |all: &[&Arc<Clerk>]| all.iter().map(|&clerk| Arc::clone(clerk)).collect::<Vec<_>>();
    let (chatapp, sms) = (own(chatapp), own(sms));
    let make = move |_: &clock::Clock, _: &Door| {
        let lanes = |all: &[Arc<Clerk>]| {
            let all = all.iter().map(|clerk| Arc::new(Counter(Arc::clone(clerk))));
            all.map(|it| it as Arc<dyn Carrier>).collect()
        };
        Carriers::of(lanes(&chatapp), lanes(&sms))
    };
    world.give_live(Box::new(make)).await;
    world.live_account("ada", START).await
}

fn by_sms(to: &str) -> Value {
    json!({"to": to, "delivery_mode": "sms", "code": CODE})
}

const DUE: &str = "SELECT COUNT(*) FROM attempts WHERE next_at IS NOT NULL";
const HELD: &str = "SELECT COUNT(*) FROM attempts WHERE state IN ('queued', 'sending', 'unknown')";
const UNKNOWN: &str = "SELECT COUNT(*) FROM attempts WHERE state = 'unknown'";

async fn a_passcode_that_waited_costs_and_reads_like_any_other(world: &World) {
    let main = Clerk::new("main");
    let ada = scene(world, &[], &[&main]).await;
    let price = world.price("sms", "FR");
    let bodies = ["5671", "5672", "5673"].map(|ending| by_sms(&phone(ending)));
    let let_through = async {
        main.until_given(1).await;
        let queued = "SELECT COUNT(*) FROM attempts WHERE state = 'queued'";
        eventually(async || (count(world, queued).await == 2).then_some(())).await;
        main.lets(3);
    };
    let [one, two, three] = &bodies;
    let (one, two, three, ()) =
        tokio::join!(ada.send(one), ada.send(two), ada.send(three), let_through);
    let ids = [one, two, three].map(|sent| sent.ok().word("challenge_id").to_owned());
    eventually(async || (count(world, HELD).await == 0).then_some(())).await;
    assert_eq!(count(world, DUE).await, 0, "their challenges say when they are looked after");
    assert_eq!(ada.balance().await, START - 3 * price);
    // Whichever waited.
    ada.guess(&ids[0], CODE).await.ok();
    ada.guess(&ids[2], CODE).await.ok();
    world.advance(3_600_000).await;
    world.settle().await;
    for (id, status) in ids.iter().zip(["verified", "expired", "verified"]) {
        assert_eq!(ada.challenge(id).await.ok().word("status"), status);
    }
    assert_eq!(ada.balance().await, START - 3 * price, "the carrier had each of them");
}

async fn a_copy_that_never_left_the_queue_costs_nothing(world: &World) {
    let main = Clerk::new("main");
    let ada = scene(world, &[], &[&main]).await;
    let price = world.price("sms", "FR");
    let to = phone("5671");
    main.lets(1);
    let sent = ada.send(by_sms(&to)).await.ok();
    let id = sent.word("challenge_id");
    world.advance(31_000).await;
    let (other, body) = (phone("5672"), by_sms(&to));
    let in_the_way = by_sms(&other);
    let again = async {
        main.until_given(2).await;
        ada.send(&body).await.ok();
        ada.guess(id, CODE).await.ok();
        world.advance(61_000).await;
        let waiting = "SELECT COUNT(*) FROM attempts WHERE state = 'queued'";
        eventually(async || (count(world, waiting).await == 0).then_some(())).await;
        main.lets(1);
    };
    let (_held, ()) = tokio::join!(ada.send(&in_the_way), again);
    eventually(async || (count(world, HELD).await == 0).then_some(())).await;
    assert_eq!(main.given(), [to, other], "the second copy never went out");
    assert_eq!(ada.challenge(id).await.ok().word("status"), "verified");
    assert_eq!(ada.balance().await, START - 2 * price, "one copy of each");
}

async fn a_passcode_that_waits_for_the_chatapp_falls_back_in_time(world: &World) {
    falls_back(world, async || world.advance(5_000).await).await;
}

async fn a_passcode_that_waited_and_whose_sms_is_owed_gets_it(world: &World) {
    falls_back(world, async || {
        // Nobody can say what it costs, for both.
        world.faults.plan_reads("SELECT credits FROM prices", 2);
        world.advance(5_000).await;
        // Time passes: a visit that lost a race is made again when its claim ends.
        eventually(async || {
            world.stand_still_for(20).await;
            (world.faults.reads_left() == 0).then_some(())
        })
        .await;
        world.settle().await;
        world.advance(2_100).await;
    })
    .await;
}

/// Two passcodes, of which the second waits for the first, and what makes them fall back.
async fn falls_back(world: &World, comes: impl AsyncFn()) {
    let (chatapp, sms) = (Clerk::new("chat"), Clerk::new("sms"));
    let ada = scene(world, &[&chatapp], &[&sms]).await;
    let (first, second) = (phone("5671"), phone("5672"));
    let bodies = [&first, &second].map(|to| json!({"to": to, "code": CODE}));
    sms.lets(2);
    let fall_back = async {
        chatapp.until_given(1).await;
        let queued = "SELECT COUNT(*) FROM attempts WHERE state = 'queued'";
        eventually(async || (count(world, queued).await == 1).then_some(())).await;
        world.advance(15_100).await;
        comes().await;
        sms.until_given(2).await;
        chatapp.lets(2);
    };
    let (_first, second_sent, ()) =
        tokio::join!(ada.send(&bodies[0]), ada.send(&bodies[1]), fall_back);
    let id = second_sent.word("challenge_id").to_owned();
    ada.until(&id, |now| now["channel"] == "sms").await;
    let mut given = sms.given();
    given.sort();
    assert_eq!(given, [first, second]);
    assert_eq!(chatapp.given().len(), 1, "what fell back leaves the queue");
}

/// A send whose carrier answers after its lease.
async fn send_late(world: &World, ada: &Tenant<'_>, first: &Clerk) -> crate::world::Answer {
    let body = by_sms(&phone("5671"));
    let late = async {
        first.until_given(1).await;
        world.advance(15_100).await;
        eventually(async || (count(world, UNKNOWN).await == 1).then_some(())).await;
        first.lets(1);
    };
    let (answer, ()) = tokio::join!(ada.send(&body), late);
    answer
}

async fn a_refusal_after_the_lease_is_the_answer(world: &World) {
    let main = Clerk::new("main");
    let ada = scene(world, &[], &[&main]).await;
    main.refuses(Refusal::Permanent);
    let refused = send_late(world, &ada, &main).await.problem("carrier_error");
    let id = refused.word("challenge_id");
    assert_eq!(ada.challenge(id).await.ok().word("status"), "failed");
    assert_eq!(ada.balance().await, START);
}

async fn an_acceptance_after_the_lease_is_paid_for(world: &World) {
    let main = Clerk::new("main");
    let ada = scene(world, &[], &[&main]).await;
    let sent = send_late(world, &ada, &main).await.ok();
    eventually(async || (count(world, HELD).await == 0).then_some(())).await;
    world.advance(3_600_000).await;
    world.settle().await;
    let read = ada.challenge(sent.word("challenge_id")).await.ok();
    assert_eq!(read.word("status"), "expired");
    assert_eq!(ada.balance().await, START - world.price("sms", "FR"));
}

async fn what_is_refused_after_the_lease_goes_by_the_next_carrier(world: &World) {
    let (first, second) = (Clerk::new("first"), Clerk::new("second"));
    let ada = scene(world, &[], &[&first, &second]).await;
    first.refuses(Refusal::Temporary);
    second.lets(1);
    let sent = send_late(world, &ada, &first).await.ok();
    assert_eq!(sent.word("status"), "sent");
    assert_eq!((first.given().len(), second.given()), (1, vec![phone("5671")]));
    assert_eq!(ada.balance().await, START - world.price("sms", "FR"), "one hold, one price");
}
