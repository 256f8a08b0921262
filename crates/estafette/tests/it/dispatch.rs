//! Stories of what carries messages, whatever they are: receipts find home, or wait until they do.

use std::sync::{Arc, Mutex};

use clock::DAY;
use estafette::carriers::{
    Carrier, Carriers, Door, Fate, NotNow, Outbound, Outcome, Receipt, Refusal,
};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

on_every_engine!(
    a_receipt_that_names_only_the_carriers_id_finds_home,
    a_receipt_that_comes_before_its_id_is_stored_is_kept,
    a_failed_receipt_that_came_too_early_gives_the_price_back,
    a_receipt_that_leads_nowhere_is_kept_for_three_days,
    receipts_that_say_the_same_are_kept_once,
    a_refusal_is_given_back_where_no_carrier_follows,
    a_leg_that_fails_does_not_end_what_another_may_bring,
    a_passcode_costs_two_commits_and_no_place_in_a_queue,
);

const NAME: &str = "nameless";

/// What the carrier does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// It answers, and brings no receipt.
    Never,
    /// It brings the receipt before it answers.
    Early(Fate),
}

/// A carrier that never heard of our ids.
struct Nameless {
    door: Door,
    when: When,
    taken: Arc<Mutex<Vec<String>>>,
}

fn receipt(provider_id: &str, fate: Fate) -> Receipt {
    let provider_id = Some(provider_id.to_owned());
    Receipt { carrier: NAME.to_owned(), echo: None, hint: None, provider_id, fate, error: None }
}

impl Carrier for Nameless {
    fn name(&self) -> &str {
        NAME
    }

    fn echoes(&self) -> bool {
        false
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let provider_id = format!("n.{}", message.attempt_id);
            self.taken.lock().unwrap().push(provider_id.clone());
            if let When::Early(fate) = self.when {
                self.door.receipt(receipt(&provider_id, fate)).await.expect("it is kept");
            }
            Outcome::Accepted { provider_id }
        })
    }
}

/// A live account whose SMS go by such a carrier; the carrier's ids and its door.
struct Scene<'w> {
    ada: Tenant<'w>,
    taken: Arc<Mutex<Vec<String>>>,
    door: Arc<Mutex<Option<Door>>>,
}

impl Scene<'_> {
    async fn send(&self, reference: &str) -> String {
        let body = json!({
            "to": phone("5678"), "code": "4821", "delivery_mode": "sms", "reference": reference,
        });
        self.ada.send(body).await.ok().word("challenge_id").to_owned()
    }

    async fn bring(&self, provider_id: &str, fate: Fate) -> Result<(), NotNow> {
        let door = self.door.lock().unwrap().clone().expect("a carrier");
        door.receipt(receipt(provider_id, fate)).await
    }
}

async fn scene(world: &World, when: When) -> Scene<'_> {
    let taken = Arc::new(Mutex::new(vec![]));
    let door = Arc::new(Mutex::new(None));
    let (of_carrier, shown) = (taken.clone(), door.clone());
    world
        .give_live(Box::new(move |_, door| {
            *shown.lock().unwrap() = Some(door.clone());
            let taken = of_carrier.clone();
            Carriers::of(vec![], vec![Arc::new(Nameless { door: door.clone(), when, taken })])
        }))
        .await;
    let ada = world.live_account("ada", 1_000).await;
    Scene { ada, taken, door }
}

async fn parked(world: &World) -> i64 {
    let db = world.app(estafette::app::Env::Live).await.db.clone();
    let sql = store::Sql("SELECT COUNT(*) FROM early_receipts");
    db.row::<(i64,)>(sql, store::args![]).await.unwrap().unwrap().0
}

async fn a_receipt_that_names_only_the_carriers_id_finds_home(world: &World) {
    let scene = scene(world, When::Never).await;
    let id = scene.send("a").await;
    assert_eq!(scene.ada.challenge(&id).await.ok().word("status"), "sent");
    let provider_id = scene.taken.lock().unwrap()[0].clone();
    scene.bring(&provider_id, Fate::Delivered).await.unwrap();
    assert_eq!(scene.ada.challenge(&id).await.ok().word("status"), "delivered");
    assert_eq!(parked(world).await, 0);
}

async fn a_receipt_that_comes_before_its_id_is_stored_is_kept(world: &World) {
    let scene = scene(world, When::Early(Fate::Delivered)).await;
    let id = scene.send("a").await;
    scene.ada.until(&id, |now| now["status"] == "delivered").await;
    eventually(async || (parked(world).await == 0).then_some(())).await;
    let page = world.metrics().await.ok();
    let parked = "estafette_receipts_parked_total{carrier=\"nameless\"} 1";
    assert!(page.text.contains(parked), "{}", page.text);
}

async fn a_failed_receipt_that_came_too_early_gives_the_price_back(world: &World) {
    let scene = scene(world, When::Early(Fate::Failed(Refusal::Permanent))).await;
    let id = scene.send("a").await;
    scene.ada.until(&id, |now| now["status"] == "failed").await;
    assert_eq!(scene.ada.balance().await, 1_000);
}

async fn a_receipt_that_leads_nowhere_is_kept_for_three_days(world: &World) {
    let scene = scene(world, When::Never).await;
    scene.bring("nobody's", Fate::Delivered).await.unwrap();
    assert_eq!(parked(world).await, 1);
    world.advance(3 * DAY - 3_600_000).await;
    world.housekeep().await;
    assert_eq!(parked(world).await, 1);
    world.advance(2 * 3_600_000).await;
    world.housekeep().await;
    assert_eq!(parked(world).await, 0);
}

async fn receipts_that_say_the_same_are_kept_once(world: &World) {
    let scene = scene(world, When::Never).await;
    for fate in [Fate::Sent, Fate::Delivered, Fate::Sent, Fate::Delivered] {
        scene.bring("nobody's", fate).await.unwrap();
    }
    assert_eq!(parked(world).await, 2);
}

/// Refuses everybody.
struct Refusing;

impl Carrier for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn submit<'a>(&'a self, _: &'a Outbound) -> BoxFuture<'a, Outcome> {
        let code = "131026".to_owned();
        let outcome = Outcome::Refused { class: Refusal::Unreachable, code };
        Box::pin(std::future::ready(outcome))
    }
}

async fn a_refusal_is_given_back_where_no_carrier_follows(world: &World) {
    let make = |_: &clock::Clock, _: &Door| Carriers::of(vec![Arc::new(Refusing)], vec![]);
    world.give_live(Box::new(make)).await;
    let ada = world.live_account("ada", 1_000).await;
    ada.send(json!({"to": phone("5678")})).await.problem("recipient_unreachable");
    assert_eq!(ada.balance().await, 1_000);
}

async fn a_leg_that_fails_does_not_end_what_another_may_bring(world: &World) {
    let make = |_: &clock::Clock, door: &Door| {
        let taken = Arc::default();
        let silent = Nameless { door: door.clone(), when: When::Never, taken };
        Carriers::of(vec![Arc::new(silent)], vec![Arc::new(Refusing)])
    };
    world.give_live(Box::new(make)).await;
    let ada = world.live_account("ada", 1_000).await;
    let send = |mode: &str| {
        let (to, reference) = (phone("5678"), "a");
        let body = json!({"to": to, "code": "4821", "delivery_mode": mode, "reference": reference});
        ada.send(body)
    };
    let first = send("chatapp").await.ok();
    let id = first.word("challenge_id");
    world.advance(31_000).await;
    send("sms").await.problem("recipient_unreachable");
    assert_eq!(ada.challenge(id).await.ok().word("status"), "sent");
    ada.guess(id, "4821").await.ok();
    assert_eq!(ada.balance().await, 1_000 - world.price("chatapp", "FR"));
}

/// What a send costs is locked: statements of both commits, and rows.
async fn a_passcode_costs_two_commits_and_no_place_in_a_queue(world: &World) {
    let ada = world.account("ada").await;
    let db = world.app(estafette::app::Env::Sandbox).await.db.clone();
    let count = async |table: &str| {
        let sql = store::Sql(format!("SELECT COUNT(*) FROM {table}").leak());
        db.row::<(i64,)>(sql, store::args![]).await.unwrap().unwrap().0
    };
    let tables = ["attempts", "challenges", "transfers", "events", "submissions"];
    let mut before = vec![];
    for table in tables {
        before.push(count(table).await);
    }
    world.faults.write_down();
    // No receipt comes: one that comes at once would share the second commit, or have its own.
    let sent = ada.send_to(&phone("0003")).await.ok();
    assert_eq!(sent.word("status"), "sent");
    assert_eq!(world.faults.statements_with("attempts"), [5, 5]);
    let mut more = vec![];
    for (table, before) in tables.into_iter().zip(before) {
        more.push(count(table).await - before);
    }
    assert_eq!(more, [1, 1, 2, 1, 0]);
    let queued = "attempts WHERE queued_at IS NOT NULL OR next_at IS NOT NULL";
    assert_eq!(count(queued).await, 0);
}
