//! A number that the centre cannot stand: it cuts the connection or says nothing. Messages beside
//! it have their own fates.

use playground::smsc::IdStyle;
use serde_json::json;

use super::{PRICE, START, Scene, scene};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_number_that_makes_the_centre_cut_takes_no_neighbours_second_try_with_it,
    a_number_that_is_never_answered_for_holds_up_no_neighbour,
);

/// How long the centre takes to answer, while a story needs all to be unanswered: its own time.
const AGES_MS: i64 = 60_000;
/// And a while that makes tries overlap unless they go one by one.
const A_WHILE_MS: i64 = 150;

impl Scene<'_> {
    /// How often the centre got messages to each of these.
    fn times(&self, numbers: &[String]) -> Vec<usize> {
        numbers.iter().map(|number| self.centre.came_to(number).len()).collect()
    }

    /// Waits for a centre that got each of these so often, while time passes.
    async fn until_times(&self, numbers: &[String], times: usize) {
        eventually(async || {
            self.world.advance(500).await;
            self.times(numbers).iter().all(|found| *found == times).then_some(())
        })
        .await;
    }

    fn centre_answers_after(&self, answer_ms: i64) {
        let mut options = self.centre.handsets.options();
        options.answer_ms = answer_ms;
        self.centre.handsets.behave(options);
    }

    /// Nobody knows what became of it, and nobody pays.
    async fn until_given_up(&self, poison: &str) {
        let read = self.until(poison, "expired").await;
        assert_eq!(read.field("error")["code"], "no_receipt", "{}", read.text);
        assert_eq!(read.field("charged_credits"), 0, "{}", read.text);
    }
}

async fn a_number_that_makes_the_centre_cut_takes_no_neighbours_second_try_with_it(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let numbers: Vec<String> = (0..3).map(|number| phone(&format!("567{number}"))).collect();
    let poison = phone("9005");
    // All of them are in the window when the connection is cut.
    scene.centre_answers_after(AGES_MS);
    let mut ids = Vec::new();
    for number in &numbers {
        ids.push(scene.text(number, json!({})).await);
    }
    eventually(async || (scene.times(&numbers) == [1; 3]).then_some(())).await;
    let poisoned = scene.text(&poison, json!({"validity_s": 600})).await;
    scene.until(&poisoned, "submitted").await;
    // The control: the cut does hit those beside it, so that their fates are unknown.
    for id in &ids {
        assert_eq!(scene.until(id, "submitted").await.field("error"), &json!(null));
    }
    // Second tries go one by one: what is cut then is the poison's connection, and nobody else's.
    scene.centre_answers_after(A_WHILE_MS);
    scene.until_times(&numbers, 2).await;
    scene.until_times(std::slice::from_ref(&poison), 2).await;
    for id in &ids {
        scene.until(id, "delivered").await;
    }
    assert_eq!(scene.ada.balance().await, START - 4 * PRICE, "the poison's price is held");
    world.advance(661_000).await;
    scene.until_given_up(&poisoned).await;
    assert_eq!((scene.times(&numbers), scene.times(&[poison])), (vec![2; 3], vec![2]));
    assert_eq!(scene.ada.balance().await, START - 3 * PRICE, "each neighbour is charged once");
}

async fn a_number_that_is_never_answered_for_holds_up_no_neighbour(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "response_s = 5").await;
    let neighbours: Vec<String> = (0..4).map(|number| phone(&format!("567{number}"))).collect();
    // Two of them: the second try of one does not keep the other from its own.
    let poison = ["+33612349004".to_owned(), "+33612359004".to_owned()];
    let mut poisoned = Vec::new();
    for number in &poison {
        poisoned.push(scene.text(number, json!({"validity_s": 600})).await);
    }
    eventually(async || (scene.times(&poison) == [1; 2]).then_some(())).await;
    // The clock stands still: the window holds both, and neighbours pass.
    for number in &neighbours[..2] {
        let id = scene.text(number, json!({})).await;
        scene.until(&id, "delivered").await;
    }
    scene.until_times(&poison, 2).await;
    for number in &neighbours[2..] {
        let id = scene.text(number, json!({})).await;
        eventually(async || {
            world.advance(500).await;
            (scene.ada.sms(&id).await.ok().word("status") == "delivered").then_some(())
        })
        .await;
    }
    for id in &poisoned {
        assert_eq!(scene.ada.sms(id).await.ok().word("status"), "submitted");
    }
    assert_eq!(scene.ada.balance().await, START - 6 * PRICE, "their price is held");
    world.advance(661_000).await;
    for id in &poisoned {
        scene.until_given_up(id).await;
    }
    assert_eq!((scene.times(&poison), scene.times(&neighbours)), (vec![2; 2], vec![1; 4]));
    assert_eq!(scene.ada.balance().await, START - 4 * PRICE);
}
