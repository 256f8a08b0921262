//! Rank 6: the one way out, for every channel. A channel keeps what its customers see (its
//! *message*: a passcode, an SMS); here is what carries it: *attempts*, each one submission to one
//! carrier, with the hold on its price; the news of them; and what follows when one fails.
//!
//! A channel is an [`Owner`]. In commit A it [`open`]s an attempt beside its own row. There are two
//! ways out. *Inline*: the request itself [`carry`]s it and waits for what comes at once. *Queued*:
//! it takes a [`slot`] first; where the carrier's lane has room on this node, the message goes out
//! as soon as commit A is durable, else it waits in the database for any node with room (`queue`).
//!
//! All news, from a carrier's answer, a receipt or a time that is over (`due`), ends in [`settle`]
//! or [`over`]: they guard the state that the attempt was read in, move the money, and let the
//! owner write its own row and event into the same set. Whoever is second is refused and reads
//! again.

pub mod api;
mod bell;
mod binds;
mod carry;
mod claims;
mod door;
mod due;
mod elsewhere;
mod entry;
mod failover;
mod failure;
mod in_hand;
mod networks;
mod overtaken;
mod owners;
mod parked;
mod parts;
mod queue;
mod recent;
pub mod recipients;
pub mod retention;
pub mod routes;
mod settle;
mod store;
mod stranded;
mod submissions;
mod submit;
mod waiting;

use endpoints::ToSchema;
use std::future::Future;

use ::store::{Reject, WriteSet};
use clock::Millis;
use serde::Serialize;

use crate::app::App;
use crate::carriers::inbox::Asker;
use crate::carriers::{Address, Channel, Outbound, Priority};
use crate::credits;
use crate::kit::id::{AccountId, AttemptId, TransferId};
use crate::kit::words::words;

pub use binds::{close as close_binds, keep as keep_binds};
pub use carry::{carry_on, carry_until};
pub use claims::{Claim, Claims, Round};
pub use door::{Answer, Desk, TakeInbound, TakePart, run, take_in_overtaken};
pub use due::{keep_leases, oldest_due, run_due, watch};
pub use entry::Entry;
pub use failure::Failure;
pub use networks::{look_up, look_up_meanwhile};
pub use queue::{Slot, drained, serve, slot};
pub use routes::{follow as follow_routes, refresh as refresh_routes};
pub use settle::{arrived, buy, give_back, may_arrive, open, over, settle, write};
pub use store::{attempt, attempt_of, has_other_leg, oldest_queued};
pub use submissions::{object_of, open_elsewhere};
pub use waiting::is_reached;

/// Another was faster: read again and decide again. No other refusal of a guard is a lost race.
pub const STALE: Reject = Reject("dispatch_stale");
/// How long a submission may take before its outcome counts as unknown, milliseconds.
pub const LEASE_MS: i64 = 15_000;
/// The same of a queued one, whose lease the node prolongs while the submission lasts: what a node
/// leaves that dies is found so soon.
const QUEUED_LEASE_MS: i64 = 4_000;

words! {
    /// Where an attempt stands: `queued` (it waits for its carrier, or for its next try),
    /// `sending`, `unknown` (nobody knows whether the carrier has it), `accepted`, `delivered`,
    /// `undelivered` (it costs something all the same), `refused`, `failed`, `lapsed` (nobody
    /// said anything in time), `expired` (its time was over before it went out).
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = AttemptState)]
    pub enum State {
        /// It waits for its carrier's lane, or for the time of its next try.
        Queued = "queued",
        /// On its way to the carrier, until its lease ends.
        Sending = "sending",
        /// Nobody knows whether the carrier has it.
        Unknown = "unknown",
        /// The carrier has it.
        Accepted = "accepted",
        /// A receipt says that it arrived.
        Delivered = "delivered",
        /// A receipt says that it will not arrive, and it costs something all the same.
        Undelivered = "undelivered",
        /// The carrier did not take it.
        Refused = "refused",
        /// A receipt says that it will not arrive.
        Failed = "failed",
        /// Nobody said anything in time.
        Lapsed = "lapsed",
        /// The same, and later a receipt said that it arrived. Its price stays given back.
        Late = "late",
        /// Its time was over before it went out.
        Expired = "expired",
    }
}

impl State {
    /// Whether the price is still only held.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Queued | Self::Sending | Self::Unknown)
    }

    /// Whether news can still change it: states only move upwards.
    #[must_use]
    pub const fn is_undecided(self) -> bool {
        self.is_held() || matches!(self, Self::Accepted)
    }
}

/// One submission of a message to a carrier.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose message.
    pub account: AccountId,
    /// Its id; its hold in the ledger has the same uuid.
    pub id: AttemptId,
    /// The message.
    pub object_id: String,
    /// The way it goes.
    pub channel: Channel,
    /// By whom; empty = nobody can.
    pub carrier: String,
    /// Who goes first.
    pub priority: Priority,
    /// Where it stands.
    pub state: State,
    /// Its price.
    pub credits: i64,
    /// Submissions so far; one that was throttled does not count, nor one whose message another
    /// carrier takes at once.
    pub tries: i64,
    /// Submissions that followed one of unknown fate.
    pub resends: i64,
    /// Until when the submission may take.
    pub lease_until: Millis,
    /// Since when its lane may take it; `None` = it is not in the queue.
    pub queued_at: Option<Millis>,
    /// When due work looks at it; `None` = its message's own row keeps the time.
    pub next_at: Option<Millis>,
    /// When its message ends, whatever became of it.
    pub give_up_at: Millis,
    /// Carriers that did not take it, since its last round over all of them.
    pub refused_by: Vec<String>,
}

/// What a message of the channel is to be sent by next.
#[derive(Clone, Copy, Debug)]
pub struct NewLeg<'a> {
    /// Whose message.
    pub account: &'a AccountId,
    /// The message.
    pub object_id: &'a str,
    /// The way it goes.
    pub channel: Channel,
    /// Where it goes.
    pub to: &'a Address,
    /// Who goes first.
    pub priority: Priority,
    /// Its price.
    pub credits: i64,
    /// When its message ends, whatever became of it: no hold is older.
    pub give_up_at: Millis,
}

impl Attempt {
    /// Whether two readings are of the same submission, as far as its counts tell.
    #[must_use]
    pub fn is_same_try(&self, other: &Self) -> bool {
        (self.tries, self.resends) == (other.tries, other.resends)
    }

    /// An attempt that is about to be submitted inline; [`open`] makes it so. The message's own row
    /// keeps the time.
    #[must_use]
    pub fn new(app: &App, leg: &NewLeg<'_>) -> Self {
        let lane = app.carriers.best(leg.channel, leg.account.as_str(), leg.priority, leg.to);
        let carrier = lane.map(|lane| lane.carrier().name().to_owned());
        Self::by(app, leg, carrier.unwrap_or_default())
    }

    /// The same by a carrier that is chosen. Whoever asks for the best one takes its turn.
    fn by(app: &App, leg: &NewLeg<'_>, carrier: String) -> Self {
        Self {
            account: leg.account.clone(),
            id: AttemptId::of(credits::new_hold(app)),
            object_id: leg.object_id.to_owned(),
            channel: leg.channel,
            carrier,
            priority: leg.priority,
            state: State::Sending,
            credits: leg.credits,
            tries: 1,
            resends: 0,
            lease_until: app.now() + LEASE_MS,
            queued_at: None,
            next_at: None,
            give_up_at: leg.give_up_at,
            refused_by: Vec::new(),
        }
    }

    /// Whether its carrier's answer is lost. One that is to go out once more goes no more when it
    /// is heard of.
    fn is_lost(&self) -> bool {
        let is_to_go_again = self.state == State::Queued && self.resends > 0;
        self.state == State::Unknown || is_to_go_again
    }

    /// When due work looks at it next after it went out, if at all: then, or when it waits no more.
    fn look_at<O: Owner>(&self, at: Millis) -> Option<Millis> {
        self.next_at.filter(|_| !O::KEEPS_TIME).map(|_| at.min(self.silent_at::<O>()))
    }

    /// Until when a receipt is waited for.
    fn silent_at<O: Owner>(&self) -> Millis {
        self.give_up_at + O::RECEIPTS_LATE_MS
    }

    /// Its price, held under the attempt's own uuid; none where there is nothing to hold.
    fn charge<O: Owner>(&self) -> Option<credits::Charge> {
        let is_free = O::IS_FREE_AT_ZERO && self.credits == 0;
        (!is_free).then(|| credits::Charge {
            hold: TransferId::of(self.id.uuid()),
            amount: self.credits,
            reason: O::reason(self.channel),
            object_id: self.object_id.clone(),
        })
    }
}

/// What is new of an attempt, for its owner.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// The carrier has it.
    Accepted {
        /// The carrier's id of the message.
        provider_id: &'a str,
    },
    /// The recipient has it.
    Delivered {
        /// The carrier's id of the message, where it is known.
        provider_id: Option<&'a str>,
    },
    /// The recipient read it, hence has it.
    Read {
        /// The carrier's id of the message, where it is known.
        provider_id: Option<&'a str>,
    },
    /// Nobody knows whether the carrier has it.
    Unknown,
    /// It did not work out, and goes out again later.
    Retry {
        /// Why it did not.
        why: &'a Failure,
        /// When it does.
        at: Millis,
    },
    /// It did not work out, and nothing follows.
    Over(&'a Ending),
    /// It did not work out; the next leg is owed, because it could not be made now.
    Owed(&'a Failure),
}

/// The end of a message's last leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why the leg did not work out.
    pub why: Failure,
    /// Whether the leg that would have followed could not be paid.
    pub is_unpaid: bool,
    /// Whether no other leg has brought the message or still may: one leg that fails never ends
    /// what another brought.
    pub is_last: bool,
}

/// What follows an attempt that did not work out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    End,
    /// Another leg, if it has a price and can be paid.
    Leg {
        /// By this channel.
        channel: Channel,
        /// At the price of this category in the recipient's country.
        category: &'static str,
        /// Where it goes.
        to: Address,
    },
    /// Another leg, which cannot be made here and now. Due work asks again, at whichever node.
    Owed,
    /// The same submission at a later time, its price held meanwhile. Only of one that went out
    /// through a queue and that the carrier does not have, and while its message lasts; else
    /// nothing follows.
    Retry {
        /// When.
        at: Millis,
    },
}

/// What follows a submission of unknown fate that went out through a queue. A receipt settles it at
/// any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsure {
    /// Nothing until the message ends: it is never sent again blindly.
    Stays,
    /// It goes out again, under the same id. Only where the channel's own rules say so.
    Again {
        /// After so many milliseconds without a receipt.
        after_ms: i64,
    },
}

/// A channel, as far as carrying needs to know it. What writes is pure: it adds to the set, and
/// changes the message in hand to what it will be when the set is durable.
pub trait Owner: Send + Sync + Sized + 'static {
    /// The word for its messages in `attempts.kind`.
    const KIND: &'static str;
    /// Whether an attempt at the price of 0 has no place in the ledger. Else it holds 0 credits.
    const IS_FREE_AT_ZERO: bool = false;
    /// Whether all that changes what a receipt is settled with is guarded, so that a node may
    /// remember it (`recent`).
    const IS_REMEMBERED: bool = false;
    /// Whether the channel's own row says when due work looks after what went out. Attempts then
    /// have due work of their own only while they are in a queue, or come from one.
    const KEEPS_TIME: bool = false;
    /// How long after a message's end a receipt may tell that it came before that, milliseconds.
    const RECEIPTS_LATE_MS: i64 = 0;
    /// What a customer sees.
    type Message: Clone + Send + Sync + 'static;

    /// Why an attempt costs something, for the ledger.
    fn reason(channel: Channel) -> &'static str;

    /// Reads a message.
    fn load(
        app: &App,
        account: &AccountId,
        id: &str,
    ) -> impl Future<Output = Result<Option<Self::Message>, ::store::Error>> + Send;

    /// What goes out; `None` when it is not kept any more.
    fn content(app: &App, message: &Self::Message, attempt: &Attempt) -> Option<Outbound>;

    /// Whether its recipient, who may have asked for silence while it waited, still gets it.
    fn is_wanted(
        _app: &App,
        _message: &Self::Message,
    ) -> impl Future<Output = Result<bool, ::store::Error>> + Send {
        std::future::ready(Ok(true))
    }

    /// Milliseconds for which an answer waits for the first receipt.
    fn wait_ms(app: &App) -> u64;

    /// Whether it waits for one after an acceptance. After an answer that was lost it always does.
    fn waits_on(channel: Channel) -> bool;

    /// A carrier's id as it may be stored: none once the recipient is forgotten, it can hold the
    /// number.
    fn may_name(message: &Self::Message) -> bool;

    /// The number that it goes to, as far as it is known: a receipt whose id is a guess is believed
    /// only if it comes from there.
    fn number(_message: &Self::Message) -> Option<&str> {
        None
    }

    /// Whether an SMS may follow it.
    fn may_fall_back(_app: &App, _message: &Self::Message, _attempt: &Attempt) -> bool {
        false
    }

    /// What follows when an attempt did not work out.
    fn after(app: &App, message: &Self::Message, attempt: &Attempt, why: &Failure) -> Then;

    /// What follows when nobody knows whether the carrier has a queued one.
    fn unknown(_app: &App, _message: &Self::Message, _attempt: &Attempt) -> Unsure {
        Unsure::Stays
    }

    /// Whether a leg that the carrier had, and that failed so, costs something all the same.
    #[must_use]
    fn keeps_price(_attempt: &Attempt, _why: &Failure) -> bool {
        false
    }

    /// Whether a copy that did not go out says nothing of one that did before it.
    #[must_use]
    fn may_have_arrived(_attempt: &Attempt, _why: &Failure) -> bool {
        false
    }

    /// Whether late news of this attempt still say something: another may have taken its place.
    #[must_use]
    fn may_arrive_late(_message: &Self::Message, _attempt: &Attempt) -> bool {
        false
    }

    /// Another leg takes the place of the one that failed.
    fn adopt(
        app: &App,
        set: &mut WriteSet,
        message: &mut Self::Message,
        leg: &Attempt,
        why: &Failure,
    );

    /// Writes what the news means for the message. The attempt reads as before it.
    fn decide(
        app: &App,
        set: &mut WriteSet,
        message: &mut Self::Message,
        attempt: &Attempt,
        news: News<'_>,
    );

    /// Counts news of an attempt, good or final, that are durable. The attempt reads as before
    /// them.
    fn count(_app: &App, _message: &Self::Message, _attempt: &Attempt, _news: News<'_>) {}
}

/// A message on its way, as far as is durably known, and its current attempt.
pub struct Leg<O: Owner> {
    /// The message.
    pub message: O::Message,
    /// What it goes by.
    pub attempt: Attempt,
    /// What did not work out on the way.
    pub failures: Vec<(Channel, Failure)>,
    /// Who is told what comes of it.
    asker: Asker,
    /// The carrier's ids of its parts, where it went out in several.
    parts: Vec<String>,
    /// What the carrier and we said at the last submission, where that is kept.
    transcript: Option<String>,
}

impl<O: Owner> Leg<O> {
    /// A message and what it goes by.
    #[must_use]
    pub fn new(message: O::Message, attempt: Attempt) -> Self {
        let (failures, parts, asker) = (Vec::new(), Vec::new(), Asker::Nobody);
        Self { message, attempt, failures, asker, parts, transcript: None }
    }

    /// The same for a request that is answered with what comes of it.
    #[must_use]
    pub fn asked(message: O::Message, attempt: Attempt) -> Self {
        Self { asker: Asker::Request, ..Self::new(message, attempt) }
    }
}

/// What came of carrying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Nothing is left to do now: the leg shows how it stands.
    Stands,
    /// It reached nobody, and what it cost is given back.
    Over(Ending),
    /// Somebody else moved it meanwhile, or may have: nothing was heard for as long as was waited.
    Moved,
}

/// What follows after one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing now.
    Nothing(Carried),
    /// The leg's new attempt.
    Attempt,
}

/// Why a write set did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// Another was faster: read again and decide again.
    Stale,
    /// The service failed. Due work finds what is not written, so this is nobody's answer.
    Lost,
}
