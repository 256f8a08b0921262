//! Carriers that write the ids of messages in one way in their answers and in another in their
//! receipts: a receipt reaches its message, and never a stranger's.

use std::sync::{Arc, Mutex};

use estafette::app::Env;
use estafette::carriers::{
    Carrier, Carriers, Door, Fate, Guess, Guesses, Outbound, Outcome, Receipt,
};
use futures_util::future::BoxFuture;
use playground::smsc::IdStyle;
use serde_json::json;
use store::{Sql, args};

use super::{Centre, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Tenant, World, eventually};

on_every_engine!(
    ids_that_are_written_alike_lead_home_whatever_the_settings_say,
    the_number_decides_between_two_messages_that_a_receipt_may_mean,
    a_number_may_be_written_as_dialled_at_home,
    a_receipt_that_led_home_late_leads_to_nobody_else,
);

async fn ids_that_are_written_alike_lead_home_whatever_the_settings_say(world: &World) {
    let ada = sender(world, "ada").await;
    // Each centre begins its ids anew, so the numbers differ.
    for (number, style, form) in [
        (1, IdStyle::Hexadecimal, "hex"),
        (2, IdStyle::Decimal, "decimal"),
        (3, IdStyle::Reversed, "hex"),
        (4, IdStyle::Mixed, "decimal"),
        (5, IdStyle::Reversed, "auto"),
    ] {
        let centre = Centre::new(style).await;
        let more = format!("message_id = '{form}'");
        give(world, settings(&[("main", centre.address(), &more)])).await;
        until_up(world, "main").await;
        for ending in ["5678", "9017"] {
            let to = format!("+336123{number}{ending}");
            let id = ada.text(json!({"to": to, "text": "hi"})).await.ok();
            ada.sms_until(id.word("id"), "delivered").await;
        }
    }
}

/// Answers with these ids, the last one first.
struct Counting(Mutex<Vec<&'static str>>);

impl Carrier for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn echoes(&self) -> bool {
        false
    }

    fn submit<'a>(&'a self, _: &'a Outbound) -> BoxFuture<'a, Outcome> {
        let provider_id = self.0.lock().unwrap().pop().unwrap().to_owned();
        Box::pin(std::future::ready(Outcome::Accepted { provider_id }))
    }
}

struct Scene<'w> {
    world: &'w World,
    ada: Tenant<'w>,
    door: Arc<Mutex<Option<Door>>>,
}

/// A carrier that answers `10`, then `16`, hexadecimal ones.
async fn scene(world: &World) -> Scene<'_> {
    let door = Arc::new(Mutex::new(None));
    let shown = Arc::clone(&door);
    let make = move |_: &clock::Clock, door: &Door| {
        *shown.lock().unwrap() = Some(door.clone());
        Carriers::of(vec![], vec![Arc::new(Counting(Mutex::new(vec!["16", "10"])))])
    };
    world.give_live(Box::new(make)).await;
    Scene { world, ada: world.live_account("ada", 1_000).await, door }
}

impl Scene<'_> {
    async fn send(&self, ending: &str) -> String {
        let body = json!({"to": phone(ending), "delivery_mode": "sms"});
        self.ada.send(body).await.ok().word("challenge_id").to_owned()
    }

    /// A receipt with the id 16, from a number: the message `10`, if it is decimal.
    async fn bring(&self, number: &str) {
        let receipt = Receipt {
            hint: None,
            carrier: "counting".to_owned(),
            echo: None,
            provider_id: Some("16".to_owned()),
            fate: Fate::Delivered,
            error: None,
        };
        let guess = |provider_id: &str, setting| {
            let provider_id = provider_id.to_owned();
            Guess { provider_id, setting }
        };
        let guesses = vec![guess("10", "decimal"), guess("22", "hex")];
        let number = number.trim_start_matches('+').to_owned();
        let door = self.door.lock().unwrap().clone().unwrap();
        door.guess(receipt, Guesses { guesses, number }).await.unwrap();
    }

    async fn status(&self, id: &str) -> String {
        self.ada.challenge(id).await.ok().word("status").to_owned()
    }

    async fn parked(&self) -> i64 {
        let db = self.world.app(Env::Live).await.db.clone();
        let sql = Sql("SELECT COUNT(*) FROM early_receipts");
        db.row::<(i64,)>(sql, args![]).await.unwrap().unwrap().0
    }
}

async fn the_number_decides_between_two_messages_that_a_receipt_may_mean(world: &World) {
    let scene = scene(world).await;
    let (ten, sixteen) = (scene.send("0110").await, scene.send("0116").await);
    scene.bring(&phone("0110")).await;
    assert_eq!(scene.status(&ten).await, "delivered");
    assert_eq!(scene.status(&sixteen).await, "sent", "a stranger's");
    // From nobody's number: it may belong to an answer that is yet to come. Some carriers write
    // another number than the message's; so after a while the id as it is counts.
    scene.bring("+33612340999").await;
    assert_eq!(scene.parked().await, 3);
    assert_eq!(scene.status(&sixteen).await, "sent");
    eventually(async || {
        world.advance(3_000).await;
        (scene.parked().await == 0).then_some(())
    })
    .await;
    assert_eq!(scene.status(&sixteen).await, "delivered");
}

async fn a_number_may_be_written_as_dialled_at_home(world: &World) {
    let scene = scene(world).await;
    let (_ten, sixteen) = (scene.send("0110").await, scene.send("0116").await);
    scene.bring("0612340116").await;
    assert_eq!(scene.status(&sixteen).await, "delivered");
}

async fn a_receipt_that_led_home_late_leads_to_nobody_else(world: &World) {
    let scene = scene(world).await;
    scene.bring(&phone("0110")).await;
    scene.bring(&phone("0110")).await;
    assert_eq!(scene.parked().await, 3, "once, under each id that it may mean");
    let ten = scene.send("0110").await;
    scene.ada.until(&ten, |now| now["status"] == "delivered").await;
    eventually(async || (scene.parked().await == 0).then_some(())).await;
    let sixteen = scene.send("0116").await;
    world.advance(6_000).await;
    assert_eq!(scene.status(&sixteen).await, "sent", "a stranger's");
}
