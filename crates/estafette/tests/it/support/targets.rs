//! Targets for the first reply and the resolution: told before and at the breach, standing still
//! while nobody waits for staff.

use clock::MINUTE;
use estafette::config::Config;
use serde_json::json;

use super::{answer, change, each, open, seen_by_staff, told, write};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{World, eventually};

on_every_engine!(
    targets_are_told_when_near_and_when_missed with short_targets,
    a_target_is_missed_though_nobody_has_looked_since with short_targets,
    targets_stand_still_while_nobody_waits with short_targets,
    a_new_priority_has_its_own_targets with short_targets,
);

fn short_targets(config: &mut Config) {
    config.support.first_reply_min.normal = 10;
    config.support.resolution_min.normal = 100;
    config.support.first_reply_min.high = 5;
    config.support.resolution_min.high = 0;
}

/// The reasons of all events of tickets, once there are so many.
async fn reasons(ada: &Tenant<'_>, count: usize) -> Vec<String> {
    eventually(async || {
        let all = told(ada, "support.ticket").await;
        let all =
            each(&all, "reason").iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        Some(all).filter(|all: &Vec<String>| all.len() >= count)
    })
    .await
}

async fn targets_are_told_when_near_and_when_missed(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let staff = seen_by_staff(world, &id).await;
    assert_eq!(staff.field("first_reply_missed"), &json!(false));
    assert!(staff.field("first_reply_due_at").is_string());
    world.advance(8 * MINUTE + 1_000).await;
    assert_eq!(reasons(&ada, 2).await, ["opened", "first_reply_near"]);
    world.advance(2 * MINUTE).await;
    assert_eq!(reasons(&ada, 3).await[2], "first_reply_missed");
    assert_eq!(seen_by_staff(world, &id).await.field("first_reply_missed"), &json!(true));
    answer(world, &id, json!({"message": "late"})).await.ok();
    world.advance(90 * MINUTE).await;
    // Both are due by then; the breach says all, and the warning before it is not told any more.
    assert!(reasons(&ada, 4).await.contains(&"resolution_missed".to_owned()));
    let now = seen_by_staff(world, &id).await;
    assert_eq!(
        (now.field("resolution_missed"), now.field("resolution_due_at")),
        (&json!(true), &json!(null))
    );
    world.advance(1_000 * MINUTE).await;
    let all = reasons(&ada, 4).await;
    let missed = all.iter().filter(|word| word.ends_with("_missed")).count();
    assert_eq!(missed, 2, "each is told once: {all:?}");
}

async fn a_target_is_missed_though_nobody_has_looked_since(world: &World) {
    let ada = world.account("ada").await;
    let (late, early) = (open(&ada, "a", "m").await, open(&ada, "b", "m").await);
    answer(world, &early, json!({"message": "in time"})).await.ok();
    world.faults.plan_reads("FROM tickets WHERE next_at", 1_000);
    world.stand_still_for(11 * MINUTE).await;
    answer(world, &late, json!({"message": "late"})).await.ok();
    let missed = async |id: &str, name: &str| seen_by_staff(world, id).await.field(name).clone();
    assert_eq!(missed(&late, "first_reply_missed").await, json!(true));
    assert_eq!(missed(&early, "first_reply_missed").await, json!(false));
    assert!(reasons(&ada, 3).await.contains(&"first_reply_missed".to_owned()));
    world.stand_still_for(90 * MINUTE).await;
    change(world, &late, json!({"status": "resolved"})).await.ok();
    assert_eq!(missed(&late, "resolution_missed").await, json!(true));
}

async fn targets_stand_still_while_nobody_waits(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    world.advance(5 * MINUTE).await;
    answer(world, &id, json!({"message": "in time"})).await.ok();
    change(world, &id, json!({"status": "pending"})).await.ok();
    world.advance(500 * MINUTE).await;
    write(&ada, &id, "here I am").await.ok();
    world.advance(70 * MINUTE).await;
    // The reply in time is no news, nor are the 500 minutes in which the user was waited for.
    assert_eq!(reasons(&ada, 3).await, ["opened", "status", "status"]);
    world.advance(30 * MINUTE).await;
    assert!(reasons(&ada, 4).await[3].starts_with("resolution_"));
}

async fn a_new_priority_has_its_own_targets(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let before = seen_by_staff(world, &id).await;
    let after = change(world, &id, json!({"priority": "high"})).await.ok();
    assert!(after.word("first_reply_due_at") < before.word("first_reply_due_at"));
    assert_eq!(after.field("resolution_due_at"), &json!(null), "there is none for high");
    world.advance(4 * MINUTE + 1_000).await;
    assert_eq!(reasons(&ada, 3).await, ["opened", "priority", "first_reply_near"]);
}
