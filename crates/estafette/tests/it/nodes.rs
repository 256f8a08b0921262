//! Two nodes on one database: what is taken away at one is soon refused at the other, and what the
//! database counts is counted once.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, HOUR};
use estafette::app::Env;
use estafette::carriers::handsets::MemoryShelf;
use estafette::carriers::{Carriers, Handsets};
use estafette::otp;
use estafette::wiring::{self, Running};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::world::tenant::phone;
use crate::world::{Answer, Call, Engine, Tenant, World, eventually};

/// What a node may remember, and time for a request on a busy machine.
const SOON: Duration = Duration::from_secs(5 + 2);

/// A second process on the world's database.
struct Second {
    running: Running,
    http: reqwest::Client,
}

impl Second {
    async fn beside(world: &World) -> Self {
        Self::by(world, world.clock().clone()).await
    }

    /// One that goes by another clock than the world.
    async fn by(world: &World, clock: Clock) -> Self {
        Self::of(wiring::open(world.config().clone(), clock).unwrap()).await
    }

    async fn of(service: wiring::Service) -> Self {
        let running = wiring::start(service).await.unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { running, http }
    }

    /// One with the simulated carriers on live, too.
    async fn with_live(world: &World) -> Self {
        let mut service = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
        let handsets = Handsets::on(Arc::new(MemoryShelf::default()));
        let carriers = Carriers::simulated(world.clock(), &service.live_door, handsets);
        service.live.carriers = carriers.into();
        Self::of(service).await
    }

    fn address(&self) -> SocketAddr {
        self.running.addresses.sandbox
    }

    fn live_address(&self) -> SocketAddr {
        self.running.addresses.live
    }

    /// A passcode through this node.
    fn send(&self, ada: &Tenant<'_>, to: &str) -> Call {
        ada.world.clock().advance(1);
        let url = format!("http://{}/v1/otp/send", self.address());
        // As the first node is asked: a key stands for one body.
        let no = false;
        let body = json!({"to": to, "delivery_mode": "sms", "request_messaging_consent": no});
        Call::new(self.http.post(url)).key(&ada.key).json(body)
    }

    /// Sends until it is refused with `code`, at most [`SOON`]; how many were let through.
    async fn refuses(&self, ada: &Tenant<'_>, code: &str) -> usize {
        let begin = Instant::now();
        for number in 0.. {
            let answer = self.send(ada, &phone(&format!("6{:03}", number % 1_000))).await;
            if answer.status != 200 && answer.status != 429 {
                answer.problem(code);
                return number;
            }
            assert!(begin.elapsed() < SOON, "the other node goes on sending");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_disables_the_other_refuses_within_five_seconds() {
    let world = World::new(Engine::Postgres).await;
    let other = Second::beside(&world).await;
    let [ada, bob, eve] =
        [world.account("ada").await, world.account("bob").await, world.account("eve").await];
    for tenant in [&ada, &bob, &eve] {
        // From now on the other node remembers key and account.
        other.send(tenant, &phone("5678")).await.ok();
    }
    ada.desk("DELETE", &format!("/v1/api-keys/{}", ada.key_id)).await.ok();
    world.set(&bob, json!({"status": "suspended"})).await.ok();
    world.set(&eve, json!({"settings": {"countries": ["TG"]}})).await.ok();
    // At once where it happened.
    ada.send_to(&phone("5679")).await.problem("invalid_api_key");
    bob.send_to(&phone("5679")).await.problem("account_suspended");
    eve.send_to(&phone("5679")).await.problem("country_not_allowed");
    tokio::join!(
        other.refuses(&ada, "invalid_api_key"),
        other.refuses(&bob, "account_suspended"),
        other.refuses(&eve, "country_not_allowed"),
    );
    other.running.stop().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_for_nine_sends_are_spent_by_nine_of_forty_at_two_nodes() {
    let world = World::new(Engine::Postgres).await;
    let other = Second::beside(&world).await;
    let ada = world.account("ada").await;
    let (all, price) = (ada.balance().await, world.price("sms", "FR"));
    world.credit(&ada, 9 * price - all).await.ok();
    let numbers: Vec<String> = (0..40).map(|number| phone(&format!("56{number:02}"))).collect();
    let sends = numbers.iter().enumerate().map(|(index, to)| {
        let here = ada.send(json!({"to": to, "delivery_mode": "sms"}));
        if index % 2 == 0 { here } else { other.send(&ada, to) }.into_future()
    });
    let answers: Vec<Answer> = join_all(sends).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 9);
    assert_eq!(answers.iter().filter(|answer| answer.status == 402).count(), 31);
    assert_eq!(ada.balance().await, 0);
    other.running.stop().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_at_two_nodes_makes_one_passcode() {
    let world = World::new(Engine::Postgres).await;
    let other = Second::beside(&world).await;
    let ada = world.account("ada").await;
    let before = ada.balance().await;
    for round in 0..10 {
        let to = phone(&format!("56{round:02}"));
        let key = format!("round-{round}");
        let send = |call: Call| call.header("idempotency-key", &key).into_future();
        let body = json!({"to": &to, "delivery_mode": "sms"});
        let (here, there) = tokio::join!(send(ada.send(body)), send(other.send(&ada, &to)));
        let again = send(other.send(&ada, &to)).await.ok();
        assert_eq!(again.head("idempotent-replayed"), "true");
        for answer in [here, there] {
            if answer.status == 200 {
                assert_eq!(answer.word("challenge_id"), again.word("challenge_id"));
            } else {
                answer.problem("idempotency_in_progress");
            }
        }
        assert_eq!(ada.handset(&to).await.len(), 1);
    }
    assert_eq!(ada.balance().await, before - 10 * world.price("sms", "FR"));
    other.running.stop().await;
    world.finish().await;
}

/// A node may be killed while its commit is under way. The repeat goes to another node, and looks
/// for the key before the database has taken the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_that_overtakes_its_first_request_is_answered_with_it() {
    let world = World::new(Engine::Postgres).await;
    let other = Second::beside(&world).await;
    let ada = world.sender("ada").await;
    let before = ada.balance().await;
    let (mut writes, mut reads) = (world.database().await, world.database().await);
    let watch = world.database().await;
    let body = json!({"to": phone("5678"), "delivery_mode": "sms", "sms_sender": "ACME"});
    let send = |address: SocketAddr| {
        let url = format!("http://{address}/v1/otp/send");
        let call = Call::new(other.http.post(url)).key(&ada.key).json(body.clone());
        tokio::spawn(call.header("idempotency-key", "one").into_future())
    };
    let held = async |table: &str| {
        let sql = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass";
        eventually(async || {
            let waiting = watch.query(sql, &[&table]).await.unwrap();
            (!waiting.is_empty()).then_some(())
        })
        .await;
    };
    // The first has looked for its key, and cannot commit.
    let no_writes = writes.transaction().await.unwrap();
    no_writes.batch_execute("LOCK TABLE challenges IN EXCLUSIVE MODE").await.unwrap();
    let first = send(world.address(Env::Sandbox));
    held("challenges").await;
    // The second has looked as well, and is held up by its sender.
    let no_reads = reads.transaction().await.unwrap();
    no_reads.batch_execute("LOCK TABLE senders IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let second = send(other.address());
    held("senders").await;
    no_writes.rollback().await.unwrap();
    let first = first.await.unwrap().ok();
    no_reads.rollback().await.unwrap();
    let second = second.await.unwrap().ok();
    assert_eq!(second.word("challenge_id"), first.word("challenge_id"));
    assert_eq!(first.head("idempotent-replayed"), "");
    assert_eq!(second.head("idempotent-replayed"), "true");
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1);
    assert_eq!(ada.balance().await, before - world.price("sms", "FR"));
    // The same without a key is a request of its own.
    assert_eq!(ada.send(&body).await.ok().head("idempotent-replayed"), "");
    assert_eq!(ada.handset(&phone("5678")).await.len(), 2);
    other.running.stop().await;
    world.finish().await;
}

/// Each node counts what it knows of; only the database knows of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_together_do_not_exceed_what_an_account_may_have() {
    let world = World::new(Engine::Postgres).await;
    let other = Second::beside(&world).await;
    let ada = world.account("ada").await;
    let ask = async |number: i32, path: &str, body: serde_json::Value| {
        if number % 2 == 0 {
            return ada.desk("POST", path).json(body).await;
        }
        let url = format!("http://{}{path}", other.address());
        Call::new(other.http.post(url)).bearer(&ada.token).json(body).await
    };
    let hook = json!({"url": "https://127.0.0.1:9999/"});
    let hooks = join_all((0..100).map(|n| ask(n, "/v1/webhooks", hook.clone())));
    let sender = |n: i32| json!({"value": format!("Sender {n}")});
    let senders = join_all((0..100).map(|n| ask(n, "/v1/senders", sender(n))));
    let key = |n: i32| json!({"name": format!("Key {n}")});
    let keys = join_all((0..140).map(|n| ask(n, "/v1/api-keys", key(n))));
    let (hooks, senders, keys) = tokio::join!(hooks, senders, keys);
    // Ada has a key already.
    for (answers, most) in [(hooks, 50), (senders, 50), (keys, 99)] {
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), most);
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            answer.problem("limit_reached");
        }
    }
    other.running.stop().await;
    world.finish().await;
}

/// Both count before either of them writes, unless one waits for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_opened_at_two_nodes_at_once_do_not_exceed_their_bound() {
    let one = |config: &mut estafette::config::Config| config.support.open_tickets = 1;
    let world = World::with(Engine::Postgres, one).await;
    let other = Second::beside(&world).await;
    let ada = world.account("ada").await;
    let mut blocker = world.database().await;
    let watch = world.database().await;
    let body = json!({"subject": "s", "category": "c", "priority": "low", "message": "m"});
    let open = |address: SocketAddr| {
        let url = format!("http://{address}/v1/support/tickets");
        let call = Call::new(other.http.post(url)).bearer(&ada.token).json(body.clone());
        tokio::spawn(call.into_future())
    };
    let waiting = async |count: i64| {
        let sql = "SELECT COUNT(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually(async || {
            let found: i64 = watch.query_one(sql, &[]).await.unwrap().get(0);
            (found >= count).then_some(())
        })
        .await;
    };
    // It lets tickets be counted, and none be written.
    let no_writes = blocker.transaction().await.unwrap();
    no_writes.batch_execute("LOCK TABLE tickets IN EXCLUSIVE MODE").await.unwrap();
    let here = open(world.address(Env::Sandbox));
    waiting(1).await;
    let there = open(other.address());
    waiting(2).await;
    no_writes.rollback().await.unwrap();
    let (here, there) = (here.await.unwrap(), there.await.unwrap());
    let (made, refused) = if here.status == 200 { (here, there) } else { (there, here) };
    made.ok();
    refused.problem("limit_reached");
    other.running.stop().await;
    world.finish().await;
}

/// What one node writes down for later, the others read: leases, ends, the next tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_an_hour_ahead_goes_by_the_databases() {
    let world = World::new(Engine::Postgres).await;
    let right = Clock::system();
    let other = Second::by(&world, Clock::ahead_by(HOUR)).await;
    let apart_ms = (other.running.service().live.now() - right.now()).abs();
    assert!(apart_ms < 5_000, "{apart_ms}");
    let shown = async || {
        let url = format!("http://{}/metrics", other.running.addresses.metrics);
        let page = Call::new(other.http.get(url)).await.text;
        let name = "estafette_machine_clock_ahead_seconds ";
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.parse::<f64>().unwrap()
    };
    let begin = Instant::now();
    while (shown().await - 3_600.0).abs() > 5.0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "{}", shown().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    other.running.stop().await;
    world.finish().await;
}

/// The control of the story above: by itself a clock that is ahead is believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_a_file_of_its_own_goes_by_its_machines_clock() {
    let world = World::new(Engine::Lite).await;
    let service = wiring::open(world.config().clone(), Clock::ahead_by(HOUR)).unwrap();
    assert!(service.live.now() - Clock::system().now() > HOUR - 5_000);
    service.close().await;
    world.finish().await;
}

/// As while carriers are added to the settings, one node after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_sms_leaves_fallbacks_to_one_that_has_it() {
    let world = World::new(Engine::Postgres).await;
    world.give_live_carriers().await;
    let other = Second::beside(&world).await;
    let ada = world.live_account("ada", 10_000).await;
    let mut sent = Vec::new();
    for number in 0..12 {
        let answer = ada.send_to(&format!("+33612{number:02}0003")).await.ok();
        sent.push(answer.word("challenge_id").to_owned());
    }
    // The one without it looks first, also where the other is late.
    world.clock().advance(20_100);
    let without = &other.running.service().live;
    assert_eq!(otp::run_due(without).await.unwrap(), 0);
    world.clock().advance(2_100);
    otp::run_due(without).await.unwrap();
    for _ in 0..10 {
        world.advance(2_100).await;
    }
    for id in &sent {
        let read = ada.challenge(id).await.ok();
        assert_eq!((read.word("channel"), read.word("status")), ("sms", "delivered"));
    }
    other.running.stop().await;
    world.finish().await;
}

/// Behind a load balancer receipts come to any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_that_comes_to_another_node_is_in_the_answer() {
    let world = World::with(Engine::Postgres, |config| config.otp.receipt_wait_ms = 10_000).await;
    let other = Second::beside(&world).await;
    let door = other.running.service().live_door.clone();
    world
        .give_live(Box::new(move |clock, _| {
            let handsets = Handsets::on(Arc::new(MemoryShelf::default()));
            Carriers::simulated(clock, &door, handsets)
        }))
        .await;
    let ada = world.live_account("ada", 10_000).await;
    let begin = Instant::now();
    let answer = ada.send_to(&phone("1234")).await.ok();
    assert_eq!(answer.word("status"), "delivered");
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    other.running.stop().await;
    world.finish().await;
}

/// As a client does that repeats what it waits for. The sets of both nodes meet at the same rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_send_many_times_at_two_nodes_is_no_fault_of_the_service() {
    let world = World::with(Engine::Postgres, |config| config.otp.resend_after_s = 1).await;
    world.give_live_carriers().await;
    let other = Second::with_live(&world).await;
    let ada = world.live_account("ada", 100_000).await;
    for round in 0..4 {
        let body = json!({"to": phone("5678"), "reference": format!("r{round}"), "code": "4242",
            "delivery_mode": "sms"});
        let sends = (0..16).map(|number| {
            let address =
                if number % 2 == 0 { world.address(Env::Live) } else { other.live_address() };
            let url = format!("http://{address}/v1/otp/send");
            Call::new(other.http.post(url)).key(&ada.key).json(body.clone()).into_future()
        });
        for answer in join_all(sends).await {
            assert!([200, 429].contains(&answer.status), "{} {}", answer.status, answer.text);
        }
        world.advance(2_000).await;
    }
    other.running.stop().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn base_prices_that_are_set_at_two_nodes_at_once_end_each_other() {
    let world = World::new(Engine::Postgres).await;
    let other = Second::beside(&world).await;
    let staff = world.staff().await;
    let now = world.now();
    let at = |hours: i64| (now + hours * HOUR).to_string();
    let puts = (1..=30).map(|hours| {
        let price = json!({
            "channel": "sms", "category": "message", "country": "FR", "credits": 7_000 + hours,
            "valid_from": at(hours),
        });
        let url = format!("http://{}/v1/admin/prices", other.address());
        let call = match hours % 2 {
            0 => world.put(Env::Sandbox, "/v1/admin/prices"),
            _ => Call::new(other.http.put(url)),
        };
        call.bearer(staff).json(json!({"prices": [price]})).into_future()
    });
    join_all(puts).await.into_iter().for_each(|answer| drop(answer.ok()));
    let list = world.get(Env::Sandbox, "/v1/admin/prices?limit=200").bearer(staff).await.ok();
    for hours in 1..=30 {
        let row = list.list().iter().find(|row| row["credits"] == 7_000 + hours).unwrap();
        let end = if hours < 30 { json!(at(hours + 1)) } else { json!(null) };
        assert_eq!(row["valid_until"], end, "{row}");
    }
    other.running.stop().await;
    world.finish().await;
}
