//! What becomes of what went out: lost answers, tries that follow, ends of time, money.

use estafette::carriers::{Carriers, Channel, Door, Fate, Outcome, Priority, Refusal};

use super::{CHANNELS, Script, Stage, heard, record, refused, scene, send};
use crate::on_every_engine;
use crate::world::faults::{COMMIT_B, How};
use crate::world::{World, eventually};

on_every_engine!(
    what_a_crash_left_is_unknown_and_not_sent_again,
    what_a_crash_left_is_sent_again_where_the_channel_says_so,
    what_was_taken_for_lost_goes_out_by_whoever_has_it_in_hand,
    a_lost_answer_is_sent_again_once_where_the_channel_says_so,
    a_receipt_settles_what_was_unknown,
    a_refusal_for_now_is_tried_again_with_its_price_held,
    what_is_refused_to_the_end_costs_nothing,
    what_is_throttled_goes_out_later_and_was_no_try,
    what_is_out_of_time_never_goes_out,
    what_the_carrier_had_stays_paid_where_its_owner_says_so,
    an_answer_counts_that_comes_after_the_lease,
    a_refusal_says_nothing_of_another_nodes_copy,
    a_settlement_that_cannot_be_written_is_found_again,
    what_a_carrier_refuses_for_now_goes_out_by_the_next,
    what_all_carriers_refuse_goes_round_again_later,
);

const NOW: Priority = Priority::Transactional;

/// The lease of what is on its way, and a little more.
const LEASE_MS: i64 = 4_100;

async fn what_a_crash_left_is_unknown_and_not_sent_again(world: &World) {
    let scene = scene(world, 4, true).await;
    // Commit A, and then nothing.
    drop(record(world, &scene.ada, "note", (Channel::Sms, NOW)).await);
    assert_eq!(scene.attempt("note").await.0, "sending");
    world.advance(LEASE_MS).await;
    scene.until("note", "unknown").await;
    assert_eq!(scene.ada.balance().await, 999, "still held");
    world.advance(10_000).await;
    world.advance(10_000).await;
    assert_eq!(scene.attempt("note").await, ("unknown".to_owned(), 1, 0));
    world.advance(super::LIFE_MS).await;
    scene.until("note", "lapsed").await;
    assert_eq!(heard("note"), ["unknown", "over"]);
    assert!(scene.sms.given().is_empty());
    assert_eq!(scene.ada.balance().await, 1_000);
}

async fn what_a_crash_left_is_sent_again_where_the_channel_says_so(world: &World) {
    let scene = scene(world, 4, true).await;
    drop(record(world, &scene.ada, "again", (Channel::Sms, NOW)).await);
    world.advance(LEASE_MS).await;
    scene.until("again", "unknown").await;
    world.advance(3_100).await;
    scene.until("again", "accepted").await;
    assert_eq!(scene.attempt("again").await, ("accepted".to_owned(), 2, 1));
    assert_eq!(scene.sms.given(), ["again"]);
}

async fn what_was_taken_for_lost_goes_out_by_whoever_has_it_in_hand(world: &World) {
    let scene = scene(world, 4, true).await;
    // The answer of commit A takes longer than the lease.
    let (app, slot, leg) = record(world, &scene.ada, "note", (Channel::Sms, NOW)).await;
    world.advance(LEASE_MS).await;
    scene.until("note", "unknown").await;
    slot.go(&app, leg);
    scene.until("note", "accepted").await;
    assert_eq!(scene.sms.given(), ["note"]);
    assert_eq!(scene.ada.balance().await, 999);
    // Control: it is not, where it has been sent again meanwhile.
    let (app, slot, leg) = record(world, &scene.ada, "again", (Channel::Sms, NOW)).await;
    world.advance(LEASE_MS).await;
    scene.until("again", "unknown").await;
    world.advance(3_100).await;
    scene.until("again", "accepted").await;
    slot.go(&app, leg);
    world.advance(LEASE_MS).await;
    assert_eq!(scene.attempt("again").await, ("accepted".to_owned(), 2, 1));
    assert_eq!(scene.sms.given(), ["note", "again"]);
}

async fn a_lost_answer_is_sent_again_once_where_the_channel_says_so(world: &World) {
    let scene = scene(world, 4, true).await;
    scene.sms.answer([Outcome::Unknown, Outcome::Unknown]);
    scene.send("again", NOW).await;
    scene.until("again", "unknown").await;
    world.advance(3_100).await;
    scene.sms.until_given(2).await;
    scene.until("again", "unknown").await;
    world.advance(super::LIFE_MS).await;
    scene.until("again", "lapsed").await;
    assert_eq!(scene.sms.given().len(), 2);
    assert_eq!(scene.ada.balance().await, 1_000);
    // And where it does not say so: never.
    scene.sms.answer([Outcome::Unknown]);
    scene.send("note", NOW).await;
    scene.until("note", "unknown").await;
    world.advance(10_000).await;
    world.advance(super::LIFE_MS).await;
    scene.until("note", "lapsed").await;
    assert_eq!(scene.sms.given().len(), 3);
}

async fn a_receipt_settles_what_was_unknown(world: &World) {
    let scene = scene(world, 4, true).await;
    scene.sms.answer([Outcome::Unknown]);
    scene.send("again", NOW).await;
    scene.until("again", "unknown").await;
    scene.bring("again", Fate::Delivered).await;
    assert_eq!(scene.attempt("again").await.0, "delivered");
    world.advance(3_100).await;
    world.advance(super::LIFE_MS).await;
    assert_eq!(scene.sms.given(), ["again"], "once");
    assert_eq!(heard("again"), ["unknown", "delivered"]);
    assert_eq!(scene.ada.balance().await, 999);
}

async fn a_refusal_for_now_is_tried_again_with_its_price_held(world: &World) {
    let scene = scene(world, 4, true).await;
    scene.sms.answer([refused(Refusal::Temporary), refused(Refusal::Down)]);
    scene.send("retry", NOW).await;
    for tries in 1..=2 {
        eventually(async || (heard("retry").len() == tries).then_some(())).await;
        assert_eq!(scene.ada.balance().await, 999, "held meanwhile");
        world.advance(9_000).await;
        assert_eq!(scene.sms.given().len(), tries, "not before its time");
        world.advance(1_100).await;
        scene.sms.until_given(tries + 1).await;
    }
    scene.until("retry", "accepted").await;
    assert_eq!(scene.attempt("retry").await, ("accepted".to_owned(), 3, 0));
    assert_eq!(heard("retry"), ["retry", "retry", "accepted"]);
    assert_eq!(scene.ada.balance().await, 999);
}

async fn what_is_refused_to_the_end_costs_nothing(world: &World) {
    let scene = scene(world, 4, true).await;
    scene.sms.answer((0..20).map(|_| refused(Refusal::Temporary)));
    scene.send("retry", NOW).await;
    for tries in 1..=5 {
        scene.sms.until_given(tries).await;
        eventually(async || (heard("retry").len() == tries).then_some(())).await;
        world.advance(10_100).await;
    }
    scene.until("retry", "refused").await;
    assert_eq!(heard("retry").last(), Some(&"over"));
    assert_eq!(scene.ada.balance().await, 1_000);
}

async fn what_is_throttled_goes_out_later_and_was_no_try(world: &World) {
    let scene = scene(world, 4, true).await;
    scene.sms.answer([refused(Refusal::Throttled { after_ms: 500 })]);
    scene.send("note", NOW).await;
    scene.until("note", "queued").await;
    assert_eq!(scene.attempt("note").await, ("queued".to_owned(), 0, 0));
    world.advance(600).await;
    scene.until("note", "accepted").await;
    assert_eq!(scene.attempt("note").await, ("accepted".to_owned(), 1, 0));
    assert_eq!(heard("note"), ["accepted"], "nobody was bothered");
}

async fn what_is_out_of_time_never_goes_out(world: &World) {
    let scene = scene(world, 4, false).await;
    scene.send_many("note", 5, NOW).await;
    scene.sms.until_given(3).await;
    world.advance(super::LIFE_MS + 1).await;
    scene.until_count("expired", 2).await;
    assert_eq!(scene.ada.balance().await, 997, "what the carrier may have is still held");
    assert_eq!((heard("note 3"), heard("note 4")), (vec!["over"], vec!["over"]));
    scene.open_the_gate();
    scene.until_count("accepted", 3).await;
    assert_eq!(scene.sms.given().len(), 3);
}

async fn what_the_carrier_had_stays_paid_where_its_owner_says_so(world: &World) {
    let scene = scene(world, 4, true).await;
    for (id, refusal, state) in [
        ("kept", Refusal::Undelivered, "undelivered"),
        ("given back", Refusal::Permanent, "failed"),
    ] {
        scene.send(id, NOW).await;
        scene.until(id, "accepted").await;
        scene.bring(id, Fate::Failed(refusal)).await;
        assert_eq!(scene.attempt(id).await.0, state);
        assert_eq!(heard(id), ["accepted", "over"]);
    }
    assert_eq!(scene.ada.balance().await, 999);
}

/// Another node took it for lost, and the carrier had it all the same.
async fn an_answer_counts_that_comes_after_the_lease(world: &World) {
    let scene = scene(world, 4, false).await;
    scene.send("note", NOW).await;
    scene.sms.until_given(1).await;
    let db = world.app(estafette::app::Env::Live).await.db.clone();
    let mut set = store::WriteSet::of("story");
    let lost = store::Sql("UPDATE attempts SET state = 'unknown', node = 7 WHERE object_id = $1");
    set.push(lost, store::args!["note"]);
    db.commit(set).await.unwrap();
    scene.open_the_gate();
    scene.until("note", "accepted").await;
    assert_eq!(scene.ada.balance().await, 999);
    let page = world.metrics().await.ok();
    let counted = "estafette_settlements_unwritten_total{cause=\"refused\"} 0";
    assert!(page.text.contains(counted), "a lost race is no fault: {}", page.text);
}

/// Another node took it for lost and has a copy of its own under way when this one is answered.
async fn a_refusal_says_nothing_of_another_nodes_copy(world: &World) {
    let copy = store::Sql(
        "UPDATE attempts SET node = 7, tries = 2, resends = 1, lease_until = $1 \
         WHERE object_id = $2",
    );
    let scene = scene(world, 4, false).await;
    let db = world.app(estafette::app::Env::Live).await.db.clone();
    let refusals = [
        ("throttled", refused(Refusal::Throttled { after_ms: 1 })),
        ("retry when down", refused(Refusal::Down)),
        ("dead", refused(Refusal::Permanent)),
        ("lost", Outcome::Unknown),
    ];
    for (index, (id, answer)) in refusals.into_iter().enumerate() {
        scene.send(id, NOW).await;
        scene.sms.until_given(index + 1).await;
        let mut set = store::WriteSet::of("story");
        set.push(copy, store::args![world.now() + 600_000, id]);
        db.commit(set).await.unwrap();
        scene.sms.answer([answer]);
        scene.sms.gate.add_permits(1);
        eventually(async || scene.sms.answers.lock().unwrap().is_empty().then_some(())).await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(scene.attempt(id).await, ("sending".to_owned(), 2, 1), "{id}");
    }
    assert_eq!(scene.ada.balance().await, 996, "held for the copies");
    // Control: that the carrier has it is news of any copy.
    scene.send("note", NOW).await;
    scene.sms.until_given(5).await;
    let mut set = store::WriteSet::of("story");
    set.push(copy, store::args![world.now() + 600_000, "note"]);
    db.commit(set).await.unwrap();
    scene.open_the_gate();
    scene.until("note", "accepted").await;
}

async fn a_settlement_that_cannot_be_written_is_found_again(world: &World) {
    let scene = scene(world, 4, true).await;
    world.faults.plan(COMMIT_B, How::Unavailable, 1);
    scene.send("note", NOW).await;
    eventually(async || (world.faults.left() == 0).then_some(())).await;
    assert_eq!(scene.attempt("note").await.0, "sending");
    world.advance(LEASE_MS).await;
    scene.until("note", "unknown").await;
    scene.bring("note", Fate::Delivered).await;
    assert_eq!(scene.attempt("note").await.0, "delivered");
    assert_eq!(scene.sms.given(), ["note"], "once");
    assert_eq!(scene.ada.balance().await, 999);
}

async fn what_a_carrier_refuses_for_now_goes_out_by_the_next(world: &World) {
    let (first, second) = (Script::new(true), Script::new(true));
    let scripts = [first.clone(), second.clone()];
    let make = move |_: &clock::Clock, _: &Door| {
        let [first, second] = &scripts;
        let backs_off = Stage::backing_off("first", first);
        Carriers::of(vec![], vec![backs_off, Stage::carrier("second", 4, second)])
    };
    world.give_channels(&CHANNELS, Box::new(make)).await;
    let ada = world.live_account("ada", 1_000).await;
    // Whether it is down, refuses for now, or does not take this sender or this way of writing.
    for (id, why) in [
        ("a", Refusal::Temporary),
        ("b", Refusal::BadSender),
        ("c", Refusal::Unfit),
        ("d", Refusal::Down),
    ] {
        first.answer([refused(why)]);
        send(world, &ada, id, (Channel::Sms, NOW)).await;
        eventually(async || (heard(id).last() == Some(&"accepted")).then_some(())).await;
        assert_eq!(heard(id), ["retry", "accepted"], "{why:?}");
        assert_eq!(
            (first.given(), second.given().last().cloned()),
            (second.given(), Some(id.to_owned()),)
        );
    }
    assert_eq!(ada.balance().await, 996, "one hold, one price");
    assert_eq!(of_object(world, "a").await, ("accepted".to_owned(), "second".to_owned(), 1));
}

/// State, carrier and tries of a note's attempt.
async fn of_object(world: &World, id: &str) -> (String, String, i64) {
    let sql = store::Sql("SELECT state, carrier, tries FROM attempts WHERE object_id = $1");
    let db = world.app(estafette::app::Env::Live).await.db.clone();
    db.row(sql, store::args![id]).await.unwrap().expect("an attempt")
}

async fn what_all_carriers_refuse_goes_round_again_later(world: &World) {
    let scripts = [Script::new(true), Script::new(true), Script::new(true)];
    let given = scripts.clone();
    let make = move |_: &clock::Clock, _: &Door| {
        let names = ["one", "two", "three"];
        let stages = names.into_iter().zip(&given);
        Carriers::of(vec![], stages.map(|(name, it)| Stage::carrier(name, 4, it)).collect())
    };
    world.give_channels(&CHANNELS, Box::new(make)).await;
    let ada = world.live_account("ada", 1_000).await;
    for script in &scripts {
        script.answer([refused(Refusal::Temporary)]);
    }
    send(world, &ada, "retry", (Channel::Sms, NOW)).await;
    scripts[2].until_given(1).await;
    eventually(async || (heard("retry").len() == 3).then_some(())).await;
    world.advance(9_000).await;
    let counts = || scripts.each_ref().map(|script| script.given().len());
    assert_eq!(counts(), [1, 1, 1], "each once, and then it rests");
    world.advance(1_100).await;
    eventually(async || (heard("retry").last() == Some(&"accepted")).then_some(())).await;
    assert_eq!(counts(), [2, 1, 1], "from the first on");
    let accepted = ("accepted".to_owned(), "one".to_owned(), 2);
    eventually(async || (of_object(world, "retry").await == accepted).then_some(())).await;
    // What one certainly refused, and another may have, stays with that one.
    scripts[0].answer([refused(Refusal::Temporary)]);
    scripts[1].answer([Outcome::Unknown, refused(Refusal::Temporary)]);
    send(world, &ada, "again", (Channel::Sms, NOW)).await;
    eventually(async || (heard("again").last() == Some(&"unknown")).then_some(())).await;
    world.advance(3_100).await;
    eventually(async || (heard("again").last() == Some(&"over")).then_some(())).await;
    assert_eq!(counts(), [3, 3, 1]);
    assert_eq!(ada.balance().await, 999, "the refused copy is all that is known");
}
