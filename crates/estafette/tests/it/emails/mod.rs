//! Stories of emails.

mod bulk;
mod domains;
mod fates;
mod fields;
mod forgetting;
mod injecting;
pub mod noticing;
mod relay;
mod relay_faults;
mod reports;
mod rude;
mod scripted;
mod sending;
mod suppressing;
mod transcripts;
mod unsubscribing;

use serde_json::{Value, json};

use crate::world::tenant::Tenant;
use crate::world::{Answer, Call, eventually};

/// A sender that every account of the sandbox may use.
pub const FROM: &str = "Shop <shop@sandbox.estafette.test>";

/// An address whose outcome is fixed.
pub fn fixed(word: &str) -> String {
    format!("{word}@sandbox.estafette.test")
}

/// A small email.
pub fn mail(to: &str) -> Value {
    json!({"to": [to], "from_email": FROM, "subject": "Your order", "text": "It arrives today."})
}

pub fn send(ada: &Tenant<'_>, body: impl std::borrow::Borrow<Value>) -> Call {
    ada.call("POST", "/v1/emails").json(body)
}

pub fn read(ada: &Tenant<'_>, id: &str) -> Call {
    ada.get(&format!("/v1/emails/{id}"))
}

/// Waits until an email stands so, and answers how it reads then.
#[track_caller]
pub fn until(ada: &Tenant<'_>, id: &str, status: &str) -> impl Future<Output = Answer> {
    eventually(move || async move {
        Some(read(ada, id).await.ok()).filter(|now| now.word("status") == status)
    })
}

/// What a mailbox received, newest first.
pub async fn mailbox(ada: &Tenant<'_>, address: &str) -> Vec<Value> {
    let path = format!("/v1/sandbox/mailboxes/{address}/messages");
    ada.get(&path).await.ok().list().to_vec()
}
