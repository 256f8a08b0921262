//! What people write: replies, STOP, and whom they are for.

mod hostile;
mod opt_outs;
mod reading;
mod routing;

use clock::Millis;
use estafette::app::Env;
use estafette::carriers::{Channel, Inbound, NotNow};
use serde_json::{Value, json};

use crate::world::tenant::Tenant;
use crate::world::{Answer, Call, World};

const PATH: &str = "/v1/inbound-notifications";

/// An SMS as a carrier of the story brings it, received now.
fn sms(world: &World, id: &str, (from, to): (&str, &str), text: &str) -> Inbound {
    Inbound {
        carrier: "story".to_owned(),
        upstream_id: id.to_owned(),
        channel: Channel::Sms,
        account_id: None,
        sender: from.to_owned(),
        recipient: to.to_owned(),
        text: text.to_owned(),
        is_words: true,
        button: None,
        context: None,
        received_at: world.now(),
        raw: json!({"id": id, "text": text}),
    }
}

/// The same for a tenant, as a carrier that knows whose it is.
fn sms_for(ada: &Tenant<'_>, id: &str, from: &str, text: &str) -> Inbound {
    let account_id = Some(ada.account_id.clone());
    Inbound { account_id, ..sms(ada.world, id, (from, "Estafette"), text) }
}

/// The same, received at another time.
fn at(message: Inbound, received_at: Millis) -> Inbound {
    Inbound { received_at, ..message }
}

/// Brings messages to the door of the sandbox. The clock moves on, so that ids are in their order.
async fn bring(world: &World, messages: &[Inbound]) -> Result<(), NotNow> {
    world.clock().advance(1);
    estafette::inbound::take_in(&world.app(Env::Sandbox).await, messages).await
}

/// Makes a virtual handset answer.
fn reply(ada: &Tenant<'_>, phone: &str, body: Value) -> Call {
    ada.call("POST", &format!("/v1/sandbox/handsets/{phone}/replies")).json(body)
}

/// Makes it answer by SMS.
async fn reply_by_sms(ada: &Tenant<'_>, phone: &str, text: &str) -> Answer {
    reply(ada, phone, json!({"text": text, "channel": "sms"})).await.ok()
}

/// The texts that an account has, newest first.
async fn texts(ada: &Tenant<'_>) -> Vec<String> {
    let page = ada.get(&format!("{PATH}?limit=200")).await.ok();
    page.list().iter().map(|row| row["message"].as_str().unwrap().to_owned()).collect()
}

/// The value of the metric of messages that ended so.
async fn counted(world: &World, channel: &str, outcome: &str) -> u64 {
    let labels = format!("{{channel=\"{channel}\",outcome=\"{outcome}\"}}");
    let line = format!("estafette_inbound_messages_total{labels} ");
    let page = world.metrics().await.ok();
    let found = page.text.lines().find_map(|text| text.strip_prefix(&line).map(str::to_owned));
    found.map_or(0, |value| value.parse().unwrap())
}
