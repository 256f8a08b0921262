//! Due work and its environment: what a node of an earlier version left says none.

use clock::{DAY, MINUTE};
use estafette::app::Env;
use serde_json::json;
use store::{Sql, WriteSet, args};

use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    passcodes_of_an_earlier_node_fall_back_in_their_environment,
    messages_of_an_earlier_node_go_out,
    sessions_of_an_earlier_node_end,
);

/// Takes the environment out of all rows, as an earlier version writes them.
async fn forget(world: &World, statement: &'static str) {
    let mut set = WriteSet::of("story");
    set.push(Sql(statement), args![]);
    world.app(Env::Live).await.db.commit(set).await.unwrap();
}

/// How many rows this counts.
pub(crate) async fn count(world: &World, statement: &'static str) -> i64 {
    let db = world.app(Env::Live).await.db.clone();
    db.row::<(i64,)>(Sql(statement), args![]).await.unwrap().unwrap().0
}

async fn passcodes_of_an_earlier_node_fall_back_in_their_environment(world: &World) {
    world.give_live_carriers().await;
    let both = [world.account("ada").await, world.live_account("ben", 1_000).await];
    let mut sent = vec![];
    for tenant in &both {
        for number in 10..13 {
            let answer = tenant.send_to(&format!("+33612{number}0003")).await.ok();
            sent.push((tenant, answer.word("challenge_id").to_owned()));
        }
    }
    forget(world, "UPDATE challenges SET env = NULL").await;
    world.advance(20_100).await;
    for (tenant, id) in &sent {
        tenant.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
    }
    let strayed = "SELECT COUNT(*) FROM challenges c JOIN accounts a \
                   ON a.account_id = c.account_id WHERE c.env IS NULL OR c.env <> a.env";
    assert_eq!(count(world, strayed).await, 0);
}

async fn messages_of_an_earlier_node_go_out(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.text(json!({"to": phone("0006"), "text": "Your parcel is here."})).await.ok();
    // The first try was throttled.
    let put_off = "SELECT COUNT(*) FROM attempts WHERE queued_at IS NULL AND state = 'queued'";
    eventually(async || (count(world, put_off).await == 1).then_some(())).await;
    forget(world, "UPDATE attempts SET env = NULL").await;
    world.advance(MINUTE).await;
    ada.sms_until(sent.word("id"), "delivered").await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM attempts WHERE env IS NULL").await, 0);
}

/// Waits until the prompt of the only session has arrived: nothing but a person and time moves the
/// session any more.
pub(crate) async fn until_asked(world: &World) {
    let asked = "SELECT COUNT(*) FROM chatapp_sessions s JOIN attempts a \
                 ON a.account_id = s.account_id AND a.attempt_id = s.attempt_id \
                 WHERE a.state = 'delivered'";
    eventually(async || (count(world, asked).await == 1).then_some(())).await;
}

async fn sessions_of_an_earlier_node_end(world: &World) {
    let ada = world.account("ada").await;
    ada.send(json!({"to": phone("5678"), "request_messaging_consent": true})).await.ok();
    until_asked(world).await;
    forget(world, "UPDATE chatapp_sessions SET env = NULL").await;
    world.advance(DAY).await;
    let ended =
        "SELECT COUNT(*) FROM chatapp_sessions WHERE status = 'expired' AND env = 'sandbox'";
    eventually(async || (count(world, ended).await == 1).then_some(())).await;
}
