//! Finding tickets: filters, pages, and the words of their messages.

use serde_json::{Value, json};

use super::{answer, change, each, open, staff};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::Tenant;

on_every_engine!(lists_are_filtered_and_paged, words_find_tickets, a_search_is_of_one_account);

async fn list(ada: &Tenant<'_>, query: &str) -> Vec<Value> {
    ada.desk("GET", &format!("/v1/support/tickets?{query}")).await.ok().list().to_vec()
}

async fn lists_are_filtered_and_paged(world: &World) {
    let ada = world.account("ada").await;
    let mut ids = vec![];
    for number in 0..5 {
        ids.push(open(&ada, &format!("ticket {number}"), "m").await);
    }
    change(world, &ids[1], json!({"status": "pending"})).await.ok();
    change(world, &ids[3], json!({"status": "pending", "priority": "high"})).await.ok();
    assert_eq!(each(&list(&ada, "status=pending").await, "id"), [&ids[3], &ids[1]]);
    assert_eq!(each(&list(&ada, "status=pending&priority=high").await, "id"), [&ids[3]]);
    assert_eq!(list(&ada, "category=delivery").await.len(), 5);
    assert!(list(&ada, "category=billing").await.is_empty());
    let mut path = "/v1/support/tickets?limit=2".to_owned();
    let mut seen = vec![];
    loop {
        let page = ada.desk("GET", &path).await.ok();
        seen.extend(page.list().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        let Some(next) = page.head("link").strip_prefix('<') else { break };
        next.split('>').next().unwrap().clone_into(&mut path);
    }
    ids.reverse();
    assert_eq!(seen, ids);
}

async fn words_find_tickets(world: &World) {
    let ada = world.account("ada").await;
    let one = open(&ada, "Reçus manquants", "Depuis midi, aucun accusé à +33612345678").await;
    let two = open(&ada, "Price list", "Where is it? See https://example.com/a-b_c").await;
    answer(world, &two, json!({"message": "Attached: \"prices 2026\" (midi)"})).await.ok();
    for (query, found) in [
        ("recus", vec![&one]),
        ("REÇUS", vec![&one]),
        ("midi", vec![&two, &one]),
        ("midi+accuse", vec![&one]),
        ("33612345678", vec![&one]),
        ("example+com", vec![&two]),
        ("price", vec![&two]),
        ("2026", vec![&two]),
        ("pigeon", vec![]),
        ("%22midi%22+OR+pigeon", vec![]),
        ("*", vec![]),
        ("%27%3B--", vec![]),
        ("NEAR(midi)", vec![]),
        ("midi+-prices", vec![&two]),
    ] {
        assert_eq!(each(&list(&ada, &format!("q={query}")).await, "id"), found, "{query}");
    }
    assert_eq!(each(&list(&ada, "q=midi&limit=1").await, "id"), [&two]);
    change(world, &two, json!({"status": "pending"})).await.ok();
    assert_eq!(each(&list(&ada, "q=midi&status=open").await, "id"), [&one]);
}

async fn a_search_is_of_one_account(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let of_ada = open(&ada, "shared words", "m").await;
    let of_eve = open(&eve, "shared words", "m").await;
    assert_eq!(each(&list(&ada, "q=shared").await, "id"), [&of_ada]);
    assert_eq!(each(&list(&eve, "q=shared").await, "id"), [&of_eve]);
    let foreign = ada.account_id.replace('_', "");
    assert!(list(&eve, &format!("q=shared+{foreign}")).await.is_empty());
    for (account, found) in [
        (&*ada.account_id, vec![&of_ada]),
        (&*eve.account_id, vec![&of_eve]),
        ("acc_x", vec![]),
        ("acc_%22%20OR%20%22shared", vec![]),
    ] {
        let path = format!("/support/tickets?q=shared&account_id={account}");
        let seen = staff(world, "GET", &path).await.await.ok();
        assert_eq!(each(seen.list(), "id"), found, "{account}");
    }
    let all = staff(world, "GET", "/support/tickets?q=shared").await.await.ok();
    assert_eq!(each(all.list(), "id"), [&of_eve, &of_ada]);
}
