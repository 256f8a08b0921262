//! Due work and its environment: what a node of an earlier version left says none. And whose turn
//! it is where much is due.

use clock::{DAY, MINUTE, Millis};
use estafette::app::Env;
use serde_json::json;
use store::{Sql, WriteSet, args};

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

on_every_engine!(
    passcodes_of_an_earlier_node_fall_back_in_their_environment,
    messages_of_an_earlier_node_go_out,
    sessions_of_an_earlier_node_end,
    one_accounts_due_work_keeps_no_other_waiting,
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

/// Makes attempts of a tenant due, one a millisecond, whose messages retention has taken: due work
/// has nothing to do for them but to say so.
async fn make_due(world: &World, tenant: &Tenant<'_>, rows: usize, since: Millis) {
    let account = &tenant.account_id;
    let insert = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
         INSERT INTO attempts (account_id, attempt_id, kind, object_id, channel, carrier, \
         priority, state, credits, tries, node, lease_until, started_at, next_at, give_up_at, env) \
         SELECT '{account}', 'att_' || CAST(i AS TEXT), 'sms', 'none', 'sms', 'none', 1, \
         'accepted', 1, 1, 1, 1, 1, {since} + i, 1, 'sandbox' FROM n",
        since = since.0,
    );
    forget(world, insert.leak()).await;
}

/// Those whose messages knock in vain have very many due.
async fn one_accounts_due_work_keeps_no_other_waiting(world: &World) {
    const MANY: usize = 6_000;
    let (ada, ben) = (world.account("ada").await, world.account("ben").await);
    world.faults.write_down();
    let soon = world.now() + MINUTE;
    make_due(world, &ada, MANY, soon).await;
    make_due(world, &ben, 1, soon + 10_000).await;
    world.clock().advance(2 * MINUTE);
    let is_visit_of = |set: &WriteSet, tenant: &Tenant<'_>| {
        let settles = set.stmts().iter().any(|one| one.sql.0.contains("UPDATE attempts SET state"));
        settles && set.shard() == tenant.account_id
    };
    let visits = eventually(async || {
        let commits = world.faults.seen().commits;
        let bens = commits.iter().position(|set| is_visit_of(set, &ben))?;
        Some(commits.iter().take(bens).filter(|set| is_visit_of(set, &ada)).count())
    });
    let before = visits.await;
    // Looks that pass stretches of them, and one of the longest due before each.
    assert!(before < MANY / 3, "{before} of ada's were looked at before ben's");
    // The ledger knows nothing of them.
    forget(world, "DELETE FROM attempts WHERE object_id = 'none'").await;
}
