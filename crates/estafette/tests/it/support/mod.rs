//! Support from outside: tickets, their messages, what staff do with them, and what nobody but
//! staff ever sees.

pub mod chat;
pub mod files;
mod lists;
mod nodes;
mod retention;
mod sight;
mod staff;
mod targets;
mod tickets;
mod uploads;

use estafette::app::Env;
use serde_json::{Value, json};

use crate::world::tenant::Tenant;
use crate::world::{Answer, Call, World};

/// Opens a ticket.
pub async fn open(ada: &Tenant<'_>, subject: &str, message: &str) -> String {
    let body = json!({
        "subject": subject, "category": "delivery", "priority": "normal", "message": message,
    });
    ada.desk("POST", "/v1/support/tickets").json(body).await.ok().word("id").to_owned()
}

/// The user writes.
pub fn write(ada: &Tenant<'_>, ticket: &str, message: &str) -> Call {
    let path = format!("/v1/support/tickets/{ticket}/messages");
    ada.desk("POST", &path).json(json!({"message": message}))
}

/// A request of staff.
pub async fn staff(world: &World, method: &str, path: &str) -> Call {
    world.call(method, Env::Live, &format!("/v1/admin{path}")).bearer(world.staff().await)
}

/// Staff writes.
pub async fn answer(world: &World, ticket: &str, body: Value) -> Answer {
    let path = format!("/support/tickets/{ticket}/messages");
    staff(world, "POST", &path).await.json(body).await
}

/// Staff changes a ticket.
pub async fn change(world: &World, ticket: &str, body: Value) -> Answer {
    let path = format!("/support/tickets/{ticket}");
    staff(world, "PATCH", &path).await.json(body).await
}

/// How the user sees the ticket.
pub async fn ticket(ada: &Tenant<'_>, id: &str) -> Answer {
    ada.desk("GET", &format!("/v1/support/tickets/{id}")).await.ok()
}

/// How staff see it.
pub async fn seen_by_staff(world: &World, id: &str) -> Answer {
    staff(world, "GET", &format!("/support/tickets/{id}")).await.await.ok()
}

/// The messages that the user sees, oldest first.
pub async fn messages(ada: &Tenant<'_>, ticket: &str) -> Vec<Value> {
    let path = format!("/v1/support/tickets/{ticket}/messages?limit=200");
    ada.desk("GET", &path).await.ok().list().to_vec()
}

/// The messages that staff see, oldest first.
pub async fn all_messages(world: &World, ticket: &str) -> Vec<Value> {
    let path = format!("/support/tickets/{ticket}/messages?limit=200");
    staff(world, "GET", &path).await.await.ok().list().to_vec()
}

/// The values of one member.
pub fn each<'v>(list: &'v [Value], name: &str) -> Vec<&'v Value> {
    list.iter().map(|value| &value[name]).collect()
}

/// The events of a kind, oldest first: their data.
pub async fn told(ada: &Tenant<'_>, kind: &str) -> Vec<Value> {
    let path = format!("/v1/events?type={kind}&limit=200");
    let list = ada.get(&path).await.ok().list().to_vec();
    list.into_iter().rev().map(|event| event["data"].clone()).collect()
}
