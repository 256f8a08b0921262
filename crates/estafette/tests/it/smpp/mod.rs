//! Stories of live SMS by SMPP, told with the playground's message centre at the other end.

mod binds;
mod callbacks;
mod check;
mod failover;
mod fates;
mod gateways;
mod ids;
mod inbound;
pub mod long;
mod lookup;
mod pairs;
mod poison;
mod prose;
mod routes;
mod rude;
mod shares;
mod silent;
mod slow;
mod unfit;
mod waiting;
mod wishes;

use std::net::SocketAddr;

use ::smpp::MessageState;
use clock::Clock;
use estafette::app::Env;
use estafette::carriers::{Carriers, Door};
use playground::smsc::{Carried, Handsets, IdStyle, Smsc, SmscOptions};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::world::{Answer, Tenant, World, eventually};

/// Credits that everybody starts with.
const START: i64 = 1_000;
/// What a segment costs.
const PRICE: i64 = 8;

/// A message centre.
pub(crate) struct Centre {
    address: SocketAddr,
    handsets: Handsets,
    task: JoinHandle<()>,
}

impl Centre {
    pub(crate) async fn new(ids: IdStyle) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), ids).await
    }

    async fn at(address: SocketAddr, ids: IdStyle) -> Self {
        let options = SmscOptions { ids, receipt_ms: 10, ..SmscOptions::default() };
        let smsc = Smsc::bind(address, options, Clock::system()).await.unwrap();
        let (address, handsets) = (smsc.address().unwrap(), smsc.handsets());
        Self { address, handsets, task: tokio::spawn(smsc.serve()) }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a receipt that a message arrived.
    pub(crate) fn deliver(&self, id: &str) -> bool {
        self.tell(id, MessageState::Delivered)
    }

    /// Makes it behave otherwise from now on.
    pub(crate) fn behave(&self, options: SmscOptions) {
        self.handsets.behave(options);
    }

    /// How it behaves.
    pub(crate) fn options(&self) -> SmscOptions {
        self.handsets.options()
    }

    /// Sends a receipt.
    pub(crate) fn tell(&self, id: &str, state: MessageState) -> bool {
        self.handsets.receipt(id, state, None)
    }

    /// Receipts that the service has taken.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.handsets.stats().acked
    }

    /// What came to a number, part by part.
    pub(crate) fn came_to(&self, number: &str) -> Vec<Carried> {
        let digits = number.trim_start_matches('+');
        self.handsets.messages().into_iter().filter(|message| message.to == digits).collect()
    }
}

impl Drop for Centre {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Settings of carriers: one at each of these, with more lines.
pub(crate) fn settings(carriers: &[(&str, SocketAddr, &str)]) -> estafette::config::Sms {
    let names: Vec<String> = carriers.iter().map(|(name, ..)| format!("{name:?}")).collect();
    let mut text = format!("routes = [{{prefix = '+', carriers = [{}]}}]\n", names.join(", "));
    for (name, address, more) in carriers {
        text += &format!(
            "[carriers.{name}]\nkind = 'smpp'\nport = {}\nsystem_id = 'estafette'\n\
             password = 'secret'\n{more}\n",
            address.port()
        );
    }
    toml::from_str(&text).unwrap()
}

/// Gives live these carriers.
pub(crate) async fn give(world: &World, sms: estafette::config::Sms) {
    let make = move |clock: &Clock, door: &Door| {
        Carriers::none().with_sms(&sms, clock, "http://127.0.0.1:1", door).unwrap()
    };
    world.give_live(Box::new(make)).await;
}

/// A live account that sends as ACME.
async fn sender<'w>(world: &'w World, name: &str) -> Tenant<'w> {
    world.live_sender(name, START).await
}

/// A carrier as staff sees it.
async fn carrier(world: &World, name: &str) -> Value {
    let staff = world.staff().await;
    let all = world.get(Env::Live, "/v1/admin/carriers").bearer(staff).await.ok();
    all.list().iter().find(|one| one["name"] == name).expect("the carrier").clone()
}

pub(crate) async fn until_up(world: &World, name: &str) {
    eventually(async || (carrier(world, name).await["state"] == "up").then_some(())).await;
}

/// An account, and the centre that its SMS go by.
struct Scene<'w> {
    world: &'w World,
    ada: Tenant<'w>,
    centre: Centre,
}

async fn scene<'w>(world: &'w World, ids: IdStyle, more: &str) -> Scene<'w> {
    let centre = Centre::new(ids).await;
    give(world, settings(&[("main", centre.address, more)])).await;
    until_up(world, "main").await;
    Scene { world, ada: sender(world, "ada").await, centre }
}

impl Scene<'_> {
    async fn text(&self, to: &str, more: Value) -> String {
        let mut body = json!({"to": to, "text": "hello"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ada.text(body).await.ok().word("id").to_owned()
    }

    async fn until(&self, id: &str, status: &str) -> Answer {
        self.ada.sms_until(id, status).await
    }
}
