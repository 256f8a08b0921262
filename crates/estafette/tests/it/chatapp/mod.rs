//! Stories of the chat-app: messages, templates, and the sessions that people consent to.

mod consent;
mod examples;
mod faults;
mod forgetting;
mod hostile;
mod live;
mod messages;
mod numbers;
mod own_templates;
mod passcodes;
mod reports;
mod shared_number;
mod skips;
mod templates;

use serde_json::{Value, json};

use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, Call, World, eventually};

/// Sends a chat-app message.
fn write(ada: &Tenant<'_>, body: &Value) -> Call {
    ada.call("POST", "/v1/chatapp/messages").json(body)
}

/// Sends a text that is paid for directly.
pub(crate) fn text(ada: &Tenant<'_>, ending: &str) -> Call {
    write(ada, &json!({"to": phone(ending), "text": "Bonjour", "billing_mode": "direct"}))
}

/// Reads a chat-app message once it stands so.
async fn read_as(ada: &Tenant<'_>, id: &str, status: &str) -> Answer {
    let path = format!("/v1/chatapp/messages/{id}");
    eventually(async || Some(ada.get(&path).await.ok()).filter(|now| now.word("status") == status))
        .await
}

/// Makes the phone write or tap.
fn reply(ada: &Tenant<'_>, ending: &str, body: &Value) -> Call {
    let path = format!("/v1/sandbox/handsets/{}/replies", phone(ending));
    ada.call("POST", &path).json(body)
}

/// Opens the window of a phone.
pub(crate) async fn open_window(ada: &Tenant<'_>, ending: &str) {
    reply(ada, ending, &json!({"text": "Bonjour"})).await.ok();
}

/// A passcode after which the person is asked.
pub(crate) async fn ask(ada: &Tenant<'_>, ending: &str) -> Answer {
    ada.send(json!({"to": phone(ending), "request_messaging_consent": true})).await.ok()
}

/// The only session, once it stands so.
async fn session_as(ada: &Tenant<'_>, status: &str) -> Value {
    eventually(async || {
        let sessions = ada.get("/v1/chatapp/sessions").await.ok();
        assert!(sessions.list().len() < 2, "{}", sessions.text);
        sessions.list().first().filter(|one| one["status"] == status).cloned()
    })
    .await
}

/// The prompt on a handset, once it is there.
pub(crate) async fn prompt_on(ada: &Tenant<'_>, ending: &str) -> Value {
    eventually(async || {
        let shown = ada.handset(&phone(ending)).await;
        shown.into_iter().find(|message| !message["buttons"].as_array().unwrap().is_empty())
    })
    .await
}

/// An account's events of a kind, oldest first.
async fn events(ada: &Tenant<'_>, kind: &str) -> Vec<Value> {
    let all = ada.get(&format!("/v1/events?type={kind}&limit=200")).await.ok();
    all.list().iter().rev().cloned().collect()
}

/// Their data.
async fn told(ada: &Tenant<'_>, kind: &str) -> Vec<Value> {
    events(ada, kind).await.iter().map(|event| event["data"].clone()).collect()
}

/// Declares a template, and waits until the sandbox has judged it.
async fn declare(world: &World, ada: &Tenant<'_>, body: &Value) -> Answer {
    let declared = ada.call("POST", "/v1/chatapp/templates").json(body).await.ok();
    world.advance(1_000).await;
    declared
}
