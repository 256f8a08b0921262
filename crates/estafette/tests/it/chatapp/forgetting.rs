//! What is forgotten of messages and sessions: the text as soon as no carrier needs it, the person
//! when they ask.

use estafette::app::Env;
use serde_json::json;
use store::{Sql, args};

use super::{ask, open_window, prompt_on, read_as, reply, session_as, write};
use crate::erasure::holding;
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::phone;

on_every_engine!(an_erased_person_is_in_no_row, a_text_is_gone_once_the_carrier_has_it);

async fn an_erased_person_is_in_no_row(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    ask(&ada, "5678").await;
    prompt_on(&ada, "5678").await;
    reply(&ada, "5678", &json!({"button": "yes"})).await.ok();
    session_as(&ada, "active").await;
    let body = json!({"to": to, "text": format!("You are {to}"), "billing_mode": "session",
        "reference": to, "client_id": to});
    let sent = write(&ada, &body).header("idempotency-key", &to).await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    let before = holding(world, &to).await;
    for place in ["chatapp_messages.recipient", "chatapp_sessions.recipient"] {
        assert!(before.contains(&place.to_owned()), "{place} is looked at: {before:?}");
    }
    let balance = ada.balance().await;
    let staff = world.staff().await;
    let erase = world.post(Env::Live, "/v1/admin/erasures").bearer(staff);
    erase.json(json!({"phone": to})).await.ok();
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
    assert_eq!(ada.balance().await, balance);
    let read = ada.get(&format!("/v1/chatapp/messages/{}", sent.word("id"))).await.ok();
    assert_eq!((read.word("to"), read.word("status")), ("", "delivered"));
    session_as(&ada, "expired").await;
}

async fn a_text_is_gone_once_the_carrier_has_it(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0001", "0005"] {
        open_window(&ada, ending).await;
        let body = json!({"to": phone(ending), "text": "x", "billing_mode": "direct"});
        let sent = write(&ada, &body).await.ok();
        let status = if ending == "0001" { "failed" } else { "delivered" };
        read_as(&ada, sent.word("id"), status).await;
    }
    let db = world.app(Env::Live).await.db.clone();
    let kept = Sql("SELECT COUNT(*) FROM chatapp_messages WHERE content_sealed IS NOT NULL");
    assert_eq!(db.row::<(i64,)>(kept, args![]).await.unwrap().unwrap().0, 0);
}
