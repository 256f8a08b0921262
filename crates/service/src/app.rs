//! Rank 3: what every request has at hand. Cloning is cheap. One `App` for each environment; they
//! share everything but the environment itself and its carriers.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Clock, Millis};
use futures_util::future::BoxFuture;
use moka::sync::Cache;
use store::{Db, WriteSet};
use tokio::sync::{Notify, SetOnce};

use crate::carriers::{Carriers, Channel, Handsets};
use crate::config::Config;
use crate::kit::conversion::Conversion;
use crate::kit::described::described;
use crate::kit::dns::Dns;
use crate::kit::hashers::Hashers;
use crate::kit::id::{AccountId, KeyId};
use crate::kit::msisdn::Msisdn;
use crate::kit::outgoing::Outgoing;
use crate::kit::seal::Vault;
use crate::kit::sealing::Sealing;
use crate::kit::shelf::Shelf;
use crate::kit::throttle::Throttle;
use crate::kit::words::words;
use crate::metrics::Metrics;
use crate::sockets::Hub;

words! {
    /// One of the two environments that a process serves.
    pub enum Env {
        /// Real carriers, real credits.
        Live = "live",
        /// Simulated carriers, play money.
        Sandbox = "sandbox",
    }
}

described!(
    Env as "Environment": "Which of the two: real carriers or simulated ones.",
    Self::ALL.iter().map(|env| env.as_str())
);

words! {
    /// How an account pays.
    pub enum BillingMode {
        /// Before it sends.
        Prepaid = "prepaid",
        /// Afterwards, down to its credit limit.
        Postpaid = "postpaid",
    }
}

described!(
    BillingMode as "BillingMode": "How an account pays.",
    Self::ALL.iter().map(|mode| mode.as_str())
);

/// What an account may set for its passcodes; `None` = the deployment's setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Validity of a passcode, seconds, 60 to 600.
    pub otp_validity_s: Option<i64>,
    /// Seconds without a `delivered` receipt until SMS takes over, 5 to 120.
    pub otp_fallback_after_s: Option<i64>,
    /// ISO 3166 codes that may be sent to; `None` = all.
    pub countries: Option<Vec<String>>,
    /// The sender of SMS where a request names none.
    pub default_sender: Option<String>,
    /// Countries and beginnings of numbers that the guard against pumping leaves alone.
    pub otp_fraud_allow: Option<Vec<String>>,
}

words! {
    /// What an account may do.
    pub enum Standing {
        /// Made by a sign-up that the operator has not looked at: it can be read.
        Pending = "pending",
        /// Everything that its keys and owner ask for.
        Active = "active",
        /// Stopped by the operator: its owner can read it.
        Suspended = "suspended",
    }
}

described!(
    Standing as "AccountStatus": "Where an account stands. A pending one can be read until the \
        operator made it active; a suspended one, too, in the portal.",
    Self::ALL.iter().map(|standing| standing.as_str())
);

/// An account as requests see it; remembered for a few seconds.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its environment.
    pub env: Env,
    /// What it may do.
    pub standing: Standing,
    /// Its settings.
    pub settings: Settings,
}

/// What a known API key opens.
#[derive(Clone, Debug)]
pub struct KnownKey {
    /// The key's id, for limits and the audit log.
    pub key: KeyId,
    /// Its account.
    pub account: Arc<Account>,
    /// Its scopes, as a bit set (see `access::Scope`).
    pub scopes: u16,
}

/// What this node remembers for at most five seconds, so that a disable is obeyed soon everywhere
/// and at once here.
#[derive(Clone)]
pub struct Memo {
    /// API keys by hash.
    pub keys: Cache<[u8; 32], Arc<KnownKey>>,
    /// Prices by `channel|category|country`.
    pub prices: Cache<String, KnownPrice>,
    /// Accounts that somebody pushes events of.
    pub listeners: Cache<AccountId, ()>,
    /// What carriers took last, in the words of the room that sent it, which says for how long it
    /// counts.
    pub recent: Arc<Shelf<Box<dyn Any + Send + Sync>>>,
}

/// Messages that a node remembers after a carrier took them, some KB each.
const MOST_RECENT: usize = 8_192;

/// A price as it was at an instant.
#[derive(Clone, Copy, Debug)]
pub struct KnownPrice {
    /// Credits; `None` = not sold.
    pub credits: Option<i64>,
    /// When it was looked up.
    pub at: Millis,
    /// It may be another one from then on.
    pub until: Millis,
}

impl Default for Memo {
    fn default() -> Self {
        let life = Duration::from_secs(5);
        Self {
            keys: Cache::builder().max_capacity(50_000).time_to_live(life).build(),
            prices: Cache::builder().max_capacity(10_000).time_to_live(life).build(),
            listeners: Cache::builder().max_capacity(50_000).time_to_live(life).build(),
            recent: Arc::new(Shelf::new(MOST_RECENT)),
        }
    }
}

/// What an event says of an object, for the room that can show the object.
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'a> {
    /// Whose object.
    pub account: &'a AccountId,
    /// The event's kind, such as `otp.status`.
    pub kind: &'a str,
    /// The object.
    pub object_id: &'a str,
    /// What was so, in the words of the object's room.
    pub state: &'a str,
}

/// Shows an object as its endpoint does, as of an event: a JSON object, or none when it is gone.
/// Events know no rooms; `wiring` knows which room to ask.
pub type Tell =
    for<'a> fn(&'a App, EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, store::Error>>;

/// An account that sent something to a person, and when it did so last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSent {
    /// Which account.
    pub account: AccountId,
    /// Its newest message to the person.
    pub at: Millis,
}

/// Accounts of this environment that may send as this number or name.
pub type OwnersOf =
    for<'a> fn(&'a App, &'a str) -> BoxFuture<'a, Result<Vec<AccountId>, store::Error>>;

/// Accounts of this environment that sent something to this number by this channel after an
/// instant, each once.
pub type SentTo = for<'a> fn(
    &'a App,
    Channel,
    &'a str,
    Millis,
) -> BoxFuture<'a, Result<Vec<LastSent>, store::Error>>;

/// Who writes to whom: asked to find the account that a person's message is for. Rooms that know
/// are beside or above the one that asks, so `wiring` lists them.
#[derive(Clone, Copy)]
pub struct Correspondence {
    /// Asked first.
    pub owners_of: OwnersOf,
    /// One for each room that sends.
    pub sent_to: &'static [SentTo],
    /// Asked what follows, once it is known whom the message is for.
    pub hear: Hear,
}

/// What a person wrote to an account, for the room that may have asked for it. No `Debug`: it holds
/// what they wrote.
#[derive(Clone, Copy)]
pub struct Heard<'a> {
    /// Whom it is for.
    pub account: &'a AccountId,
    /// Who wrote.
    pub person: &'a Msisdn,
    /// The way it came.
    pub channel: Channel,
    /// All of it.
    pub text: &'a str,
    /// The payload of the button that they tapped.
    pub button: Option<&'a str>,
    /// Which carrier brought it.
    pub carrier: &'a str,
    /// That carrier's id of the message that was answered.
    pub context: Option<&'a str>,
    /// Whether it is STOP.
    pub is_stop: bool,
    /// When they did, by the carrier's clock.
    pub said_at: Millis,
    /// Whether the account may be charged: not once a set was refused because it could not pay.
    pub can_pay: bool,
}

/// What follows from what a person wrote.
pub struct Reaction {
    /// To be written beside the message. Where it is refused, the room is asked again.
    pub set: WriteSet,
    /// What the event of the message says of a button.
    pub button: Option<&'static str>,
}

impl Reaction {
    /// Nothing, in this shard.
    #[must_use]
    pub fn none(shard: &str) -> Self {
        Self { set: WriteSet::of(shard), button: None }
    }
}

/// Finds out what follows from what a person wrote; it writes nothing itself.
pub type Hear = for<'a> fn(&'a App, Heard<'a>) -> BoxFuture<'a, Result<Reaction, store::Error>>;

/// The ways out to URLs of tenants: connections and names that the sandbox uses push none out that
/// live does.
pub struct WaysOut {
    /// Of live.
    pub live: Outgoing,
    /// Of the sandbox.
    pub sandbox: Outgoing,
}

impl WaysOut {
    /// That of an environment.
    #[must_use]
    pub const fn of(&self, env: Env) -> &Outgoing {
        match env {
            Env::Live => &self.live,
            Env::Sandbox => &self.sandbox,
        }
    }

    /// Closes connections that were idle for too long.
    pub fn forget_idle(&self) {
        self.live.forget_idle();
        self.sandbox.forget_idle();
    }
}

/// The parts that both environments share.
pub struct Shared {
    /// A number that no other process has: who left work, and who has it.
    pub node: i64,
    /// The ways out to URLs of tenants.
    pub outgoing: WaysOut,
    /// What domains publish.
    pub dns: Dns,
    /// Where files are kept.
    pub storage: Arc<dyn object_store::ObjectStore>,
    /// Open sockets.
    pub sockets: Hub,
    /// Shows the objects of events.
    pub tell: Tell,
    /// Finds the account that a person's message is for.
    pub correspondence: Correspondence,
    /// Storage.
    pub db: Db,
    /// Time, ids and chance.
    pub clock: Clock,
    /// Settings.
    pub config: Config,
    /// Keys.
    pub vault: Vault,
    /// Memory of a few seconds.
    pub memo: Memo,
    /// Rate limits.
    pub throttle: Throttle,
    /// The virtual handsets of the sandbox.
    pub handsets: Handsets,
    /// Figures for the operator.
    pub metrics: Metrics,
    /// Passcodes sent and verified.
    pub conversion: Conversion,
    /// Places for hashing passwords: each takes memory, so only a few at a time.
    pub hashers: Hashers,
    /// Set once the database is there and up to date.
    pub open: AtomicBool,
    /// What this process knows of the ledger's seals.
    pub sealing: Sealing,
    /// Set while the process stops.
    pub draining: AtomicBool,
    /// Rung when that begins.
    pub drains: Notify,
    /// Why this process must not go on, once that is so.
    pub given_up: SetOnce<String>,
}

/// What handlers and jobs work with.
#[derive(Clone)]
pub struct App {
    /// The environment.
    pub env: Env,
    /// Ways out, by the environment's type.
    pub carriers: Arc<Carriers>,
    shared: Arc<Shared>,
}

impl std::ops::Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl App {
    /// The view of one environment.
    #[must_use]
    pub fn new(env: Env, carriers: Carriers, shared: Arc<Shared>) -> Self {
        Self { env, carriers: Arc::new(carriers), shared }
    }

    /// The instant now.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Whether the database is there and up to date. Until then nothing is served.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Whether the process is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// The process stops: no new work begins, and whoever rests wakes.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.drains.notify_waiters();
    }

    /// This process would do harm if it went on: it stops, and says why.
    pub fn give_up(&self, why: String) {
        if self.given_up.set(why).is_ok() {
            self.drain();
        }
    }

    /// Waits so many milliseconds, or until the process stops.
    pub async fn rest(&self, ms: u64) {
        let mut drains = pin!(self.drains.notified());
        // From here on a stop is heard; one before is seen.
        drains.as_mut().enable();
        if !self.is_draining() {
            tokio::select! {
                () = self.clock.tick(ms) => {}
                () = drains => {}
            }
        }
    }

    /// Unknown fields are refused on the sandbox, so that a typing slip is found before live.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.env == Env::Sandbox
    }

    /// The public address of this environment.
    #[must_use]
    pub fn base_url(&self) -> &str {
        match self.env {
            Env::Live => &self.config.server.live_url,
            Env::Sandbox => &self.config.server.sandbox_url,
        }
    }
}
