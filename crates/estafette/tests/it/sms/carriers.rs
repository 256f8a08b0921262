//! What carriers answer and bring, and what it is to a message: retries, lost answers, validity,
//! receipts of all kinds, and a service that fails in between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use clock::{DAY, HOUR, MINUTE};
use estafette::access::By;
use estafette::app::Env;
use estafette::carriers::{
    Carrier, Carriers, Door, Echo, Fate, Outbound, Outcome, Pace, Receipt, Refusal,
};
use estafette::credits::{audit, seals};
use estafette::kit::id::AccountId;
use estafette::kit::msisdn::Msisdn;
use estafette::retention::{self, Person};
use estafette::wiring;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::faults::{COMMIT_B, How};
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, World, eventually};

on_every_engine!(
    what_a_carrier_cannot_take_now_goes_to_it_again,
    what_no_carrier_takes_in_time_expires_and_costs_nothing,
    what_a_carrier_will_never_take_fails_at_once,
    a_lost_answer_is_followed_by_one_more_submission,
    a_receipt_in_time_spares_the_second_submission,
    two_lost_answers_are_not_followed_by_a_third_submission,
    bulk_of_unclear_fate_is_not_sent_again,
    what_nobody_says_more_of_expires_and_stays_charged,
    receipts_say_rejected_or_expired_or_undelivered,
    what_arrived_just_before_its_end_is_delivered,
    what_is_over_stays_so_whatever_comes_late,
    an_outcome_that_cannot_be_written_is_found_again,
    a_restart_takes_up_what_was_queued,
    a_message_of_ten_segments_is_one_submission_of_the_whole_text,
    an_erasure_by_a_command_that_began_before_the_fence_is_no_forgery,
    so_is_one_of_a_single_account,
);

const START: i64 = 1_000;
const PRICE: i64 = 8;

/// A carrier that answers as a story says, and what it was given.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Outcome>>,
    given: Mutex<Vec<Given>>,
    door: Mutex<Option<Door>>,
}

#[derive(Clone)]
struct Given {
    attempt_id: String,
    text: String,
    validity_ms: i64,
}

struct Scripted {
    name: String,
    script: Arc<Script>,
    clock: clock::Clock,
}

impl Carrier for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn pace(&self) -> Pace {
        Pace { window: 8, per_s: None, backs_off: false }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let attempt_id = message.attempt_id.clone();
            let provider_id = format!("p.{attempt_id}");
            let text = message.content.text().unwrap().expose().to_owned();
            let validity_ms = message.valid_until - self.clock.now();
            self.script.given.lock().unwrap().push(Given { attempt_id, text, validity_ms });
            let next = self.script.answers.lock().unwrap().pop_front();
            next.unwrap_or(Outcome::Accepted { provider_id })
        })
    }
}

fn refused(class: Refusal) -> Outcome {
    Outcome::Refused { class, code: "42".to_owned() }
}

/// A live account whose SMS go by such a carrier.
struct Scene<'w> {
    ada: Tenant<'w>,
    script: Arc<Script>,
}

async fn scene(world: &World) -> Scene<'_> {
    scene_of(world, "ada").await
}

/// The same for another user.
async fn scene_of<'w>(world: &'w World, name: &str) -> Scene<'w> {
    let script = Arc::new(Script::default());
    let shared = Arc::clone(&script);
    let make = move |clock: &clock::Clock, door: &Door| {
        *shared.door.lock().unwrap() = Some(door.clone());
        let carrier = Scripted {
            name: "scripted".to_owned(),
            script: Arc::clone(&shared),
            clock: clock.clone(),
        };
        Carriers::of(vec![], vec![Arc::new(carrier)])
    };
    world.give_live(Box::new(make)).await;
    Scene { ada: world.live_sender(name, START).await, script }
}

impl Scene<'_> {
    fn answers(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        self.script.answers.lock().unwrap().extend(outcomes);
    }

    fn given(&self) -> Vec<Given> {
        self.script.given.lock().unwrap().clone()
    }

    async fn until_given(&self, count: usize) -> Vec<Given> {
        let look = async || Some(self.given()).filter(|given| given.len() >= count);
        let given = eventually(look).await;
        assert_eq!(given.len(), count);
        given
    }

    /// The same, once the last refusal says when it goes out again: by the clock as it is then.
    async fn until_put_off(&self, count: usize) -> Vec<Given> {
        let given = self.until_given(count).await;
        let waiting = "SELECT COUNT(*) FROM attempts WHERE state = 'queued'";
        let is_put_off = async || crate::due::count(self.ada.world, waiting).await == 1;
        eventually(async || is_put_off().await.then_some(())).await;
        given
    }

    async fn send(&self, more: Value) -> String {
        let mut body = json!({"to": phone("5678"), "text": "hello"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ada.text(body).await.ok().word("id").to_owned()
    }

    async fn until(&self, id: &str, status: &str) -> Answer {
        self.ada.sms_until(id, status).await
    }

    /// A receipt for the first submission.
    async fn bring(&self, fate: Fate) {
        let attempt_id = self.given()[0].attempt_id.clone();
        let account_id = self.ada.account_id.clone();
        let receipt = Receipt {
            hint: None,
            carrier: "scripted".to_owned(),
            echo: Some(Echo { account_id, attempt_id }),
            provider_id: None,
            fate,
            error: Some("R1".to_owned()),
        };
        let door = self.script.door.lock().unwrap().clone().unwrap();
        door.receipt(receipt).await.unwrap();
    }

    async fn money(&self) -> (Vec<String>, i64) {
        let kinds = self.ada.movements().await.into_iter().map(|(kind, _)| kind).collect();
        (kinds, self.ada.balance().await)
    }

    #[track_caller]
    fn error(read: &Answer, code: &str, carrier_code: Option<&str>) {
        let error = read.field("error");
        assert_eq!((&error["code"], &error["carrier_code"]), (&json!(code), &json!(carrier_code)));
    }
}

fn spent(kinds: &[&str], credits: i64) -> (Vec<String>, i64) {
    (kinds.iter().map(|kind| (*kind).to_owned()).collect(), START - credits)
}

async fn what_a_carrier_cannot_take_now_goes_to_it_again(world: &World) {
    let scene = scene(world).await;
    scene.answers([refused(Refusal::Temporary), refused(Refusal::Down)]);
    let id = scene.send(json!({})).await;
    scene.until_put_off(1).await;
    world.advance(14_000).await;
    assert_eq!(scene.ada.sms(&id).await.ok().word("status"), "queued");
    scene.until_given(1).await;
    world.advance(1_100).await;
    scene.until_put_off(2).await;
    world.advance(59_000).await;
    scene.until_given(2).await;
    world.advance(1_100).await;
    let given = scene.until_given(3).await;
    assert!(given.iter().all(|one| one.attempt_id == given[0].attempt_id), "the same ids");
    scene.until(&id, "submitted").await;
    scene.bring(Fate::Delivered).await;
    scene.until(&id, "delivered").await;
    assert_eq!(scene.money().await, spent(&["hold", "post"], PRICE));
}

async fn what_no_carrier_takes_in_time_expires_and_costs_nothing(world: &World) {
    let scene = scene(world).await;
    scene.answers((0..100).map(|_| refused(Refusal::Temporary)));
    let id = scene.send(json!({"validity_s": 60})).await;
    assert_eq!(scene.until_put_off(1).await[0].validity_ms, 60_000);
    world.advance(16_000).await;
    scene.until_put_off(2).await;
    world.advance(42_900).await;
    scene.until_given(2).await;
    // The last try is a second before the end.
    world.advance(1_000).await;
    scene.until_given(3).await;
    let read = scene.until(&id, "expired").await;
    Scene::error(&read, "not_submitted", Some("42"));
    assert_eq!(read.number("charged_credits"), 0);
    assert_eq!(scene.money().await, spent(&["hold", "void"], 0));
    world.advance(DAY).await;
    scene.until_given(3).await;
}

async fn what_a_carrier_will_never_take_fails_at_once(world: &World) {
    let scene = scene(world).await;
    for (class, code) in [
        (Refusal::Permanent, "carrier_rejected"),
        (Refusal::BadSender, "sender_refused"),
        (Refusal::BadRecipient, "recipient_unreachable"),
    ] {
        scene.answers([refused(class)]);
        let id = scene.send(json!({})).await;
        let read = scene.until(&id, "failed").await;
        Scene::error(&read, code, Some("42"));
        assert_eq!(read.number("charged_credits"), 0);
    }
    assert_eq!(scene.ada.balance().await, START);
    world.advance(HOUR).await;
    scene.until_given(3).await;
}

async fn a_lost_answer_is_followed_by_one_more_submission(world: &World) {
    let scene = scene(world).await;
    scene.answers([Outcome::Unknown]);
    let id = scene.send(json!({})).await;
    scene.until(&id, "submitted").await;
    assert_eq!(scene.money().await, spent(&["hold"], PRICE));
    world.advance(2_900).await;
    scene.until_given(1).await;
    world.advance(200).await;
    let given = scene.until_given(2).await;
    assert_eq!(
        given[0].attempt_id, given[1].attempt_id,
        "a carrier that knows ids sees the repeat"
    );
    eventually(async || (scene.money().await.0 == ["hold", "post"]).then_some(())).await;
    scene.bring(Fate::Delivered).await;
    scene.until(&id, "delivered").await;
    assert_eq!(scene.money().await, spent(&["hold", "post"], PRICE));
}

async fn a_receipt_in_time_spares_the_second_submission(world: &World) {
    let scene = scene(world).await;
    scene.answers([Outcome::Unknown]);
    let id = scene.send(json!({})).await;
    scene.until(&id, "submitted").await;
    world.advance(2_000).await;
    scene.bring(Fate::Delivered).await;
    scene.until(&id, "delivered").await;
    world.advance(MINUTE).await;
    scene.until_given(1).await;
    assert_eq!(scene.money().await, spent(&["hold", "post"], PRICE));
}

async fn two_lost_answers_are_not_followed_by_a_third_submission(world: &World) {
    let scene = scene(world).await;
    scene.answers([Outcome::Unknown, Outcome::Unknown]);
    let id = scene.send(json!({"validity_s": 3_600})).await;
    scene.until(&id, "submitted").await;
    world.advance(3_100).await;
    scene.until_given(2).await;
    world.advance(30 * MINUTE).await;
    scene.until_given(2).await;
    world.advance(31 * MINUTE).await;
    let read = scene.until(&id, "expired").await;
    Scene::error(&read, "no_receipt", None);
    assert_eq!(read.number("charged_credits"), 0, "nobody knows that a carrier had it");
    assert_eq!(scene.money().await, spent(&["hold", "void"], 0));
}

async fn bulk_of_unclear_fate_is_not_sent_again(world: &World) {
    let scene = scene(world).await;
    scene.answers([Outcome::Unknown]);
    let id = scene.send(json!({"class": "bulk", "validity_s": 3_600})).await;
    scene.until(&id, "submitted").await;
    world.advance(30 * MINUTE).await;
    scene.until_given(1).await;
    assert_eq!(scene.ada.sms(&id).await.ok().word("status"), "submitted");
    world.advance(31 * MINUTE).await;
    scene.until(&id, "expired").await;
    scene.until_given(1).await;
}

async fn what_nobody_says_more_of_expires_and_stays_charged(world: &World) {
    let scene = scene(world).await;
    let id = scene.send(json!({})).await;
    scene.until(&id, "submitted").await;
    world.advance(DAY - MINUTE).await;
    assert_eq!(scene.ada.sms(&id).await.ok().word("status"), "submitted");
    world.advance(2 * MINUTE).await;
    let read = scene.until(&id, "expired").await;
    Scene::error(&read, "no_receipt", None);
    assert_eq!(read.number("charged_credits"), PRICE);
    assert_eq!(scene.money().await, spent(&["hold", "post"], PRICE));
}

async fn receipts_say_rejected_or_expired_or_undelivered(world: &World) {
    for (refusal, status, code, price) in [
        (Refusal::Permanent, "failed", "carrier_rejected", 0),
        (Refusal::Expired, "expired", "validity_ended", PRICE),
        (Refusal::Undelivered, "undelivered", "undelivered", PRICE),
    ] {
        let scene = scene_of(world, status).await;
        let id = scene.send(json!({})).await;
        scene.until(&id, "submitted").await;
        scene.bring(Fate::Sent).await;
        assert_eq!(scene.ada.sms(&id).await.ok().word("status"), "submitted");
        scene.bring(Fate::Failed(refusal)).await;
        let read = scene.until(&id, status).await;
        Scene::error(&read, code, Some("R1"));
        assert_eq!(read.number("charged_credits"), price);
        assert_eq!(scene.ada.balance().await, START - price);
    }
}

/// Receipts take their time: for a minute they may tell what became of it.
async fn what_arrived_just_before_its_end_is_delivered(world: &World) {
    for (name, answers) in [("accepted", vec![]), ("unknown", vec![Outcome::Unknown])] {
        let scene = scene_of(world, name).await;
        scene.answers(answers);
        let id = scene.send(json!({"class": "bulk", "validity_s": 60})).await;
        scene.until(&id, "submitted").await;
        scene.until_given(1).await;
        world.advance(61_000).await;
        world.settle().await;
        assert_eq!(scene.ada.sms(&id).await.ok().word("status"), "submitted", "{name}");
        scene.bring(Fate::Delivered).await;
        let read = scene.until(&id, "delivered").await;
        assert_eq!(read.number("charged_credits"), PRICE, "{name}");
        assert_eq!(scene.money().await, spent(&["hold", "post"], PRICE), "{name}");
        let events = scene.ada.get("/v1/events?type=sms.delivery").await.ok();
        assert!(!events.text.contains("expired"), "{name}: {}", events.text);
    }
}

async fn what_is_over_stays_so_whatever_comes_late(world: &World) {
    let scene = scene(world).await;
    let id = scene.send(json!({"validity_s": 60})).await;
    scene.until(&id, "submitted").await;
    world.advance(121_000).await;
    let read = scene.until(&id, "expired").await;
    scene.bring(Fate::Delivered).await;
    assert_eq!(scene.ada.sms(&id).await.ok().body, read.body);
    let events = scene.ada.get("/v1/events?type=sms.delivery").await.ok();
    assert_eq!(events.list().len(), 2, "{}", events.text);
}

async fn an_outcome_that_cannot_be_written_is_found_again(world: &World) {
    let scene = scene(world).await;
    for (index, how) in
        [How::Overloaded, How::Unavailable, How::LostBefore, How::LostAfter].into_iter().enumerate()
    {
        world.faults.plan(COMMIT_B, how, 1);
        let id = scene.send(json!({"reference": format!("{how:?}")})).await;
        eventually(async || (world.faults.left() == 0).then_some(())).await;
        // The lease ends, then the wait for a receipt.
        world.advance(4_600).await;
        world.advance(3_600).await;
        scene.until(&id, "submitted").await;
        eventually(async || {
            let kinds = scene.money().await.0;
            (kinds.iter().filter(|kind| *kind == "post").count() == index + 1).then_some(())
        })
        .await;
    }
    assert_eq!(scene.ada.balance().await, START - 4 * PRICE, "each is charged once");
    // What was written although nobody heard of it does not go again.
    assert_eq!(scene.given().len(), 7);
}

async fn a_restart_takes_up_what_was_queued(world: &World) {
    let scene = scene(world).await;
    scene.answers([refused(Refusal::Temporary)]);
    let id = scene.send(json!({})).await;
    scene.until_given(1).await;
    eventually(async || {
        let sql = store::Sql("SELECT COUNT(*) FROM attempts WHERE state = 'queued'");
        let db = world.app(scene.ada.env).await.db.clone();
        let found: Option<(i64,)> = db.row(sql, store::args![]).await.unwrap();
        (found == Some((1,))).then_some(())
    })
    .await;
    world.restart_after(15_100).await;
    scene.until_given(2).await;
    scene.until(&id, "submitted").await;
    assert_eq!(scene.money().await, spent(&["hold", "post"], PRICE));
}

async fn a_message_of_ten_segments_is_one_submission_of_the_whole_text(world: &World) {
    let scene = scene(world).await;
    let text = "abcdefghi ".repeat(153);
    let id = scene.send(json!({"text": text})).await;
    scene.until(&id, "submitted").await;
    assert_eq!(scene.until_given(1).await[0].text, text);
    assert_eq!(scene.money().await, spent(&["hold", "post"], 10 * PRICE));
}

async fn an_erasure_by_a_command_that_began_before_the_fence_is_no_forgery(world: &World) {
    erased_behind_the_fence(world, false).await;
}

async fn so_is_one_of_a_single_account(world: &World) {
    erased_behind_the_fence(world, true).await;
}

async fn erased_behind_the_fence(world: &World, is_of_one: bool) {
    let scene = scene(world).await;
    scene.answers((0..100).map(|_| refused(Refusal::Temporary)));
    let command = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
    command.migrate().await.unwrap();
    let id = scene.send(json!({})).await;
    scene.until_put_off(1).await;
    // The hold is sealed, by a fence that the command has not seen.
    world.advance(2 * MINUTE).await;
    let app = world.app(Env::Live).await;
    for _ in 0..2 {
        let sealed = async || seals::round(&app, None).await.ok();
        eventually(sealed).await;
    }
    let person = Person::Phone(Msisdn::once_valid(&phone("5678")).unwrap());
    let account = AccountId::parse(&scene.ada.account_id).filter(|_| is_of_one);
    let erased = retention::erase(&command.live, &person, account.as_ref(), By::CLI).await;
    let erased = erased.unwrap();
    assert_eq!((erased.sms.messages, erased.sms.ended), (1, 1));
    command.close().await;
    scene.until(&id, "failed").await;
    assert_eq!(scene.money().await, spent(&["hold", "void"], 0));
    let report = audit::audit(&app, DAY).await.unwrap();
    assert!(report.is_ok(), "{:?}", report.violations);
}
