//! Stories of the queued way out, told with a channel of their own: notes have no row, what they
//! are to do is in their id. The carrier does what a story says.

mod fates;
mod figures;
mod nodes;
mod turns;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use estafette::app::{App, Env};
use estafette::carriers::{
    Address, Carrier, Carriers, Channel, Content, Door, Echo, Fate, Outbound, Outcome, Pace,
    Priority, Receipt, Refusal,
};
use estafette::dispatch::{
    self, Attempt, Entry, Failure, Leg, NewLeg, News, Owner, Slot, State, Then, Unsure,
};
use estafette::kit::id::AccountId;
use estafette::kit::msisdn::Msisdn;
use estafette::kit::secret::Secret;
use estafette::otp::Otp;
use futures_util::future::BoxFuture;
use store::{Error, Sql, WriteSet, args};
use tokio::sync::Semaphore;

use crate::world::{Tenant, World, eventually};

/// How long a note is worth sending, milliseconds.
const LIFE_MS: i64 = 60_000;

static CHANNELS: [Entry; 2] = [Entry::of::<Otp>(), Entry::of::<Notes>()];

/// What notes heard, with their ids.
static HEARD: Mutex<Vec<(String, &'static str)>> = Mutex::new(Vec::new());

struct Notes;

#[derive(Clone)]
struct Note {
    account: AccountId,
    id: String,
}

impl Note {
    /// Whether its id asks for this.
    fn asks_for(&self, rule: &str) -> bool {
        self.id.starts_with(rule)
    }
}

impl Owner for Notes {
    const KIND: &'static str = "note";
    type Message = Note;

    fn reason(_: Channel) -> &'static str {
        "note"
    }

    async fn load(_: &App, account: &AccountId, id: &str) -> Result<Option<Note>, Error> {
        Ok(Some(Note { account: account.clone(), id: id.to_owned() }))
    }

    fn content(_: &App, note: &Note, a: &Attempt) -> Option<Outbound> {
        Some(Outbound {
            account_id: note.account.as_str().to_owned(),
            attempt_id: a.id.as_str().to_owned(),
            to: recipient(),
            sender: String::new(),
            content: Content::Text { text: Secret::new(note.id.clone()), parts: 1 },
            valid_until: a.give_up_at,
            priority: a.priority,
        })
    }

    fn wait_ms(_: &App) -> u64 {
        0
    }

    fn waits_on(_: Channel) -> bool {
        false
    }

    fn may_name(_: &Note) -> bool {
        true
    }

    fn after(app: &App, note: &Note, _: &Attempt, _: &Failure) -> Then {
        if note.asks_for("retry") { Then::Retry { at: app.now() + 10_000 } } else { Then::End }
    }

    fn unknown(_: &App, note: &Note, a: &Attempt) -> Unsure {
        if note.asks_for("again") && a.resends == 0 {
            Unsure::Again { after_ms: 3_000 }
        } else {
            Unsure::Stays
        }
    }

    fn keeps_price(_: &Attempt, why: &Failure) -> bool {
        why.refusal == Some(Refusal::Undelivered) || why.state == State::Lapsed
    }

    fn adopt(_: &App, _: &mut WriteSet, _: &mut Note, _: &Attempt, _: &Failure) {}

    fn decide(_: &App, _: &mut WriteSet, note: &mut Note, _: &Attempt, news: News<'_>) {
        let word = match news {
            News::Accepted { .. } => "accepted",
            News::Delivered { .. } | News::Read { .. } => "delivered",
            News::Unknown => "unknown",
            News::Retry { .. } => "retry",
            News::Over(_) => "over",
            News::Owed(_) => "owed",
        };
        HEARD.lock().unwrap().push((note.id.clone(), word));
    }
}

fn recipient() -> Address {
    Address::Phone(Msisdn::parse("+33612345678").unwrap())
}

/// What a carrier does, and what was done with it.
struct Script {
    /// What it answers, one after the other; then it accepts.
    answers: Mutex<VecDeque<Outcome>>,
    /// Notes that it lets through. Passcodes need none.
    gate: Semaphore,
    /// What it was given, in that order.
    given: Mutex<Vec<String>>,
    under_way: AtomicUsize,
    most: AtomicUsize,
    /// What it takes for each.
    delay_ms: AtomicU64,
}

impl Script {
    fn new(is_open: bool) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::default(),
            gate: Semaphore::new(if is_open { 1_000_000 } else { 0 }),
            given: Mutex::default(),
            under_way: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            delay_ms: AtomicU64::new(0),
        })
    }

    fn given(&self) -> Vec<String> {
        self.given.lock().unwrap().clone()
    }

    fn answer(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        self.answers.lock().unwrap().extend(outcomes);
    }

    /// Waits until it was given so many.
    async fn until_given(&self, count: usize) -> Vec<String> {
        eventually(async || Some(self.given()).filter(|given| given.len() >= count)).await
    }
}

fn refused(class: Refusal) -> Outcome {
    Outcome::Refused { class, code: "scripted".to_owned() }
}

struct Stage {
    name: &'static str,
    window: usize,
    backs_off: bool,
    script: Arc<Script>,
}

impl Stage {
    fn carrier(name: &'static str, window: usize, script: &Arc<Script>) -> Arc<dyn Carrier> {
        Arc::new(Self { name, window, backs_off: false, script: Arc::clone(script) })
    }

    /// One whose lane rests when it is down.
    fn backing_off(name: &'static str, script: &Arc<Script>) -> Arc<dyn Carrier> {
        Arc::new(Self { name, window: 4, backs_off: true, script: Arc::clone(script) })
    }
}

impl Carrier for Stage {
    fn name(&self) -> &str {
        self.name
    }

    fn pace(&self) -> Pace {
        Pace { window: self.window, per_s: None, backs_off: self.backs_off }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let script = &self.script;
            if let Content::Text { text, .. } = &message.content {
                script.given.lock().unwrap().push(text.expose().to_owned());
                let now = script.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                script.most.fetch_max(now, Ordering::SeqCst);
                script.gate.acquire().await.unwrap().forget();
                script.under_way.fetch_sub(1, Ordering::SeqCst);
            } else {
                script.given.lock().unwrap().push("passcode".to_owned());
            }
            let delay = script.delay_ms.load(Ordering::SeqCst);
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            let provider_id = format!("p.{}", message.attempt_id);
            let next = script.answers.lock().unwrap().pop_front();
            next.unwrap_or(Outcome::Accepted { provider_id })
        })
    }
}

/// A live account whose notes go by one carrier.
struct Scene<'w> {
    world: &'w World,
    ada: Tenant<'w>,
    sms: Arc<Script>,
    door: Arc<Mutex<Option<Door>>>,
}

/// A lane of so many submissions; notes get through once the gate is open.
async fn scene(world: &World, window: usize, is_open: bool) -> Scene<'_> {
    let sms = Script::new(is_open);
    let door = Arc::new(Mutex::new(None));
    let (script, shown) = (sms.clone(), door.clone());
    let make = move |_: &clock::Clock, door: &Door| {
        *shown.lock().unwrap() = Some(door.clone());
        Carriers::of(vec![], vec![Stage::carrier("stage", window, &script)])
    };
    world.give_channels(&CHANNELS, Box::new(make)).await;
    let ada = world.live_account("ada", 1_000).await;
    Scene { world, ada, sms, door }
}

/// Commit A of a note, and its place in the lane.
async fn record(
    world: &World,
    tenant: &Tenant<'_>,
    id: &str,
    (channel, priority): (Channel, Priority),
) -> (App, Slot, Leg<Notes>) {
    let app = world.app(Env::Live).await;
    let account = AccountId::parse(&tenant.account_id).unwrap();
    let leg = NewLeg {
        account: &account,
        object_id: id,
        channel,
        to: &recipient(),
        priority,
        credits: 1,
        give_up_at: world.now() + LIFE_MS,
    };
    let slot = dispatch::slot(&app, &leg).expect("a carrier");
    let attempt = slot.attempt(&app, &leg);
    let mut set = WriteSet::of(account.as_str());
    dispatch::open::<Notes>(&app, &mut set, &attempt);
    app.db.commit(set).await.unwrap();
    let note = Note { account, id: id.to_owned() };
    (app, slot, Leg::new(note, attempt))
}

async fn send(world: &World, tenant: &Tenant<'_>, id: &str, way: (Channel, Priority)) {
    let (app, slot, leg) = record(world, tenant, id, way).await;
    slot.go(&app, leg);
}

impl Scene<'_> {
    /// Sends a note by SMS.
    async fn send(&self, id: &str, priority: Priority) {
        send(self.world, &self.ada, id, (Channel::Sms, priority)).await;
    }

    /// Sends so many.
    async fn send_many(&self, name: &str, count: usize, priority: Priority) {
        for number in 0..count {
            self.send(&format!("{name} {number}"), priority).await;
        }
    }

    fn open_the_gate(&self) {
        self.sms.gate.add_permits(1_000_000);
    }

    /// State, tries and resends of a note's attempt.
    async fn attempt(&self, id: &str) -> (String, i64, i64) {
        let sql = Sql("SELECT state, tries, resends FROM attempts WHERE object_id = $1");
        let db = self.world.app(Env::Live).await.db.clone();
        db.row(sql, args![id]).await.unwrap().expect("an attempt")
    }

    /// Waits until the attempt of a note stands so.
    async fn until(&self, id: &str, state: &str) {
        eventually(async || {
            let now = self.attempt(id).await;
            (now.0 == state).then_some(())
        })
        .await;
    }

    /// Waits until so many attempts stand so.
    async fn until_count(&self, state: &str, count: i64) {
        for _ in 0..1_500 {
            if self.count(state).await == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let sql = Sql("SELECT state, COUNT(*) FROM attempts GROUP BY state");
        let db = self.world.app(Env::Live).await.db.clone();
        let counts: Vec<(String, i64)> = db.rows(sql, args![]).await.unwrap();
        let page = self.world.metrics().await.ok();
        let unwritten: Vec<_> = page
            .text
            .lines()
            .filter(|line| line.starts_with("estafette_settlements_unwritten"))
            .collect();
        panic!("not {count} {state}: {counts:?}, {unwritten:?}");
    }

    /// How many attempts stand so.
    async fn count(&self, state: &str) -> i64 {
        let sql = Sql("SELECT COUNT(*) FROM attempts WHERE state = $1");
        let db = self.world.app(Env::Live).await.db.clone();
        db.row::<(i64,)>(sql, args![state]).await.unwrap().unwrap().0
    }

    /// A receipt for a note.
    async fn bring(&self, id: &str, fate: Fate) {
        let sql = Sql("SELECT attempt_id FROM attempts WHERE object_id = $1");
        let db = self.world.app(Env::Live).await.db.clone();
        let (attempt_id,): (String,) = db.row(sql, args![id]).await.unwrap().unwrap();
        let account_id = self.ada.account_id.clone();
        let receipt = Receipt {
            hint: None,
            carrier: "stage".to_owned(),
            echo: Some(Echo { account_id, attempt_id }),
            provider_id: None,
            fate,
            error: None,
        };
        let door = self.door.lock().unwrap().clone().expect("a carrier");
        door.receipt(receipt).await.unwrap();
    }
}

/// What a note heard.
fn heard(id: &str) -> Vec<&'static str> {
    let heard = HEARD.lock().unwrap();
    heard.iter().filter(|(of, _)| of == id).map(|(_, word)| *word).collect()
}
