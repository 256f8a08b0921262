//! Rank 2: the ways out. A carrier takes one message and reports its outcome; it knows nothing
//! about accounts, prices or storage. One folder per carrier.

pub mod binds;
pub mod cloud_api;
pub mod door;
mod failover;
pub mod handsets;
mod inbound;
pub mod inbox;
pub mod lane;
pub mod lookup;
pub mod mailboxes;
mod outbound;
mod refusal;
pub mod routes;
pub mod simulated;
pub mod smpp;
pub mod sms_http;
pub mod smtp;
mod upstream;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::config::{self, SmsCarrier};
use crate::kit::described::described;
use crate::kit::msisdn::Msisdn;
use crate::kit::words::words;

use binds::{Binds, Load, Presence};
use lookup::Lookup;
use routes::{InForce, Route, RouteFault, Table, Wanted};

pub use cloud_api::CloudApi;
pub use door::{Door, Guess, Guesses, NotNow};
pub use failover::Untaken;
pub use handsets::Handsets;
pub use inbound::{Inbound, InboundPart};
pub use inbox::Inbox;
pub use lane::{Lane, Pace, Permit, Priority, Subject};
pub use mailboxes::Mailboxes;
pub use outbound::{Address, Content, Mail, Outbound, QuickReply, Template};
pub use refusal::{Refusal, code_of};
pub use simulated::{Rehearsed, Script};
pub use upstream::{Called, Taken};

words! {
    /// The way a message travels.
    pub enum Channel {
        /// The chat app.
        Chatapp = "chatapp",
        /// SMS.
        Sms = "sms",
        /// Email.
        Email = "email",
    }
}

described!(
    Channel as "Channel": "The way a message travels.",
    Self::ALL.iter().map(|channel| channel.as_str())
);

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The carrier took it.
    Accepted {
        /// The carrier's id of the message.
        provider_id: String,
    },
    /// The same of a message that went in several parts, of which receipts tell one by one.
    InParts {
        /// The carrier's ids, in the order of the parts.
        provider_ids: Vec<String>,
    },
    /// The carrier did not take it, and says so for certain.
    Refused {
        /// What kind of refusal.
        class: Refusal,
        /// The carrier's own code, for support.
        code: String,
    },
    /// Maybe it was taken: the answer was lost. Never sent again blindly.
    Unknown,
}

impl Outcome {
    /// As counted.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted { .. } | Self::InParts { .. } => "accepted",
            Self::Refused { class, .. } if class.is_of_recipient() => "undeliverable",
            Self::Refused { .. } => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// What a carrier answered.
#[derive(Clone, Debug)]
pub struct Answered {
    /// What became of the submission.
    pub outcome: Outcome,
    /// What was said meanwhile, where the carrier keeps that: without secrets, people and content.
    pub transcript: Option<String>,
}

impl From<Outcome> for Answered {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, transcript: None }
    }
}

/// What a receipt says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// On its way.
    Sent,
    /// It arrived.
    Delivered,
    /// The recipient read it.
    Read,
    /// It will not arrive.
    Failed(Refusal),
    /// The carrier did not take it, and says so late.
    Refused(Refusal),
}

/// Our own ids of a submission, as a carrier brings them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Whose message it was.
    pub account_id: String,
    /// The submission.
    pub attempt_id: String,
}

impl Fate {
    /// As stored.
    #[must_use]
    pub fn to_stored(self) -> String {
        match self {
            Self::Sent => "sent".to_owned(),
            Self::Delivered => "delivered".to_owned(),
            Self::Read => "read".to_owned(),
            Self::Failed(refusal) => format!("failed {}", refusal.as_str()),
            Self::Refused(refusal) => format!("refused {}", refusal.as_str()),
        }
    }

    /// From what is stored.
    #[must_use]
    pub fn of_stored(text: &str) -> Option<Self> {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("sent", _) => Some(Self::Sent),
            ("delivered", _) => Some(Self::Delivered),
            ("read", _) => Some(Self::Read),
            ("failed", word) => word.parse().ok().map(Self::Failed),
            ("refused", word) => word.parse().ok().map(Self::Refused),
            _ => None,
        }
    }
}

/// News of an earlier submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Who brings it: [`Carrier::name`].
    pub carrier: String,
    /// What it is about, where the carrier echoes our ids; else its own id says.
    pub echo: Option<Echo>,
    /// What it came for, where its own id leads nowhere: the answer that named it was lost.
    pub hint: Option<Echo>,
    /// The carrier's id of the message, where the receipt names it.
    pub provider_id: Option<String>,
    /// What happened.
    pub fate: Fate,
    /// The carrier's error code.
    pub error: Option<String>,
}

/// A way out.
pub trait Carrier: Send + Sync + 'static {
    /// Its name in logs and for the operator.
    fn name(&self) -> &str;
    /// Whether receipts bring our ids back. Where they do not, the carrier's own id is kept until
    /// the message has ended.
    fn echoes(&self) -> bool {
        true
    }
    /// How much it may be given.
    fn pace(&self) -> Pace {
        Pace::default()
    }
    /// What its id of a message is kept and found by: receipts may write it in another way.
    fn key_of(&self, provider_id: &str) -> String {
        provider_id.to_owned()
    }
    /// Whether this node reaches it.
    fn presence(&self) -> Presence {
        Presence::Here
    }
    /// Its connections, where they need slots.
    fn binds(&self) -> Option<&dyn Binds> {
        None
    }
    /// What is wrong with its connections, for the operator; `None` = nothing is known.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// Takes a callback of its gateway; `None` = nobody calls it back.
    fn call_back<'a>(&'a self, _: &'a Called) -> Option<BoxFuture<'a, Taken>> {
        None
    }
    /// How busy it is.
    fn load(&self) -> Load {
        Load::default()
    }
    /// Hands a message over. Takes at most a few seconds.
    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome>;
    /// The same, for the record.
    fn submit_on_record<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Answered> {
        Box::pin(async { self.submit(message).await.into() })
    }
}

/// The carriers of one environment, chosen when the process starts, each behind its lane.
#[derive(Clone, Default)]
pub struct Carriers {
    chatapp: Vec<Arc<Lane>>,
    /// The numbers behind the chat-app's lane, where it is the real one.
    cloud: Option<Arc<CloudApi>>,
    sms: Vec<Arc<Lane>>,
    email: Vec<Arc<Lane>>,
    /// Which of them takes which SMS. All clones see a change.
    table: Arc<InForce>,
    /// Which did at first: as the settings say, or all of them in turn.
    settled: Arc<Table>,
    /// Who knows the networks of ported numbers.
    lookup: Option<Arc<Lookup>>,
    handsets: Option<Handsets>,
    inbox: Inbox,
}

impl Carriers {
    /// No way out: what live has before anything is configured.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The sandbox's: simulated, with virtual handsets behind them.
    #[must_use]
    pub fn simulated(clock: &clock::Clock, door: &Door, handsets: Handsets) -> Self {
        let carrier = |channel| -> Arc<dyn Carrier> {
            let (clock, door) = (clock.clone(), door.clone());
            Arc::new(simulated::Simulated::new(channel, clock, door, handsets.clone()))
        };
        let (chatapp, sms) = (carrier(Channel::Chatapp), carrier(Channel::Sms));
        Self { handsets: Some(handsets), ..Self::of(vec![chatapp], vec![sms]) }
    }

    /// These, for each channel the best first.
    #[must_use]
    pub fn of(chatapp: Vec<Arc<dyn Carrier>>, sms: Vec<Arc<dyn Carrier>>) -> Self {
        let chatapp = chatapp.into_iter().map(Lane::of).collect();
        let sms: Vec<_> = sms.into_iter().map(Lane::of).collect();
        let settled = Arc::new(Table::all(&sms));
        let table = Arc::new(InForce::at_first(&settled));
        Self { chatapp, sms, table, settled, ..Self::default() }
    }

    /// The same with this carrier for email.
    #[must_use]
    pub fn with_email(mut self, carrier: Arc<dyn Carrier>) -> Self {
        self.email.push(Lane::of(carrier));
        self
    }

    /// With the chat-app of the settings, and of the accounts that are linked later.
    ///
    /// # Errors
    /// What of the settings cannot be used.
    pub fn with_chatapp(self, settings: &config::Chatapp, door: &Door) -> Result<Self, String> {
        let cloud = Arc::new(CloudApi::new(settings, door.clone())?);
        let carrier: Arc<dyn Carrier> = Arc::clone(&cloud) as _;
        Ok(Self { chatapp: vec![Lane::of(carrier)], cloud: Some(cloud), ..self })
    }

    /// The numbers of the real chat-app.
    #[must_use]
    pub fn cloud(&self) -> Option<&Arc<CloudApi>> {
        self.cloud.as_ref()
    }

    /// With the SMS carriers of the settings, behind their routes.
    ///
    /// # Errors
    /// What of the settings cannot be used.
    pub fn with_sms(
        self,
        sms: &config::Sms,
        clock: &clock::Clock,
        public_url: &str,
        door: &Door,
    ) -> Result<Self, String> {
        let mut lanes = Vec::new();
        for (name, settings) in sms.all() {
            let carrier: Arc<dyn Carrier> = match settings {
                SmsCarrier::Smpp(smpp) => {
                    Arc::new(smpp::Smpp::new(name, *smpp, clock.clone(), door.clone())?)
                }
                SmsCarrier::Http(http) => {
                    let url = format!("{public_url}/v1/upstream/sms/{name}");
                    Arc::new(sms_http::SmsHttp::new(name, *http, clock.clone(), url, door.clone())?)
                }
            };
            lanes.push(Lane::of(carrier));
        }
        let table = Table::of(sms.routes.iter().map(Route::from).collect(), &lanes)
            .map_err(|fault| format!("sms.routes: {fault}"))?;
        let settled = Arc::new(table);
        let table = Arc::new(InForce::at_first(&settled));
        let lookup = Lookup::new(&sms.lookup, clock)?;
        Ok(Self { sms: lanes, table, settled, lookup, ..self })
    }

    /// Puts other routes in force, unless later ones are; all sends after this take them. Their
    /// version is that of what is stored.
    ///
    /// Answers the carriers that they name and that there are not.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn set_routes(
        &self,
        version: i64,
        routes: Vec<Route>,
    ) -> Result<BTreeSet<String>, RouteFault> {
        let table = Arc::new(Table::stored(routes, &self.sms)?);
        let unknown = table.unknown(&self.sms);
        self.table.swap(version, table);
        Ok(unknown)
    }

    /// The same of the routes that were in force at first.
    pub fn reset_routes(&self, version: i64) {
        self.table.swap(version, Arc::clone(&self.settled));
    }

    /// Whether these routes could be put in force.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check_routes(&self, routes: &[Route]) -> Result<(), RouteFault> {
        Table::of(routes.to_vec(), &self.sms).map(drop)
    }

    /// Whether the networks of numbers can be looked up.
    #[must_use]
    pub const fn knows_networks(&self) -> bool {
        self.lookup.is_some()
    }

    /// The routes in force.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        self.table.now()
    }

    /// The carrier that is to take a message: the best that does not fail now, else the best.
    #[must_use]
    pub fn best(
        &self,
        channel: Channel,
        account: &str,
        priority: Priority,
        to: &Address,
    ) -> Option<Arc<Lane>> {
        let works = |lane: &&Arc<Lane>| !lane.is_resting_for(account);
        let first = |lanes: &[Arc<Lane>]| lanes.iter().find(works).or(lanes.first()).cloned();
        match (channel, to) {
            (Channel::Chatapp, Address::Phone(_)) => {
                first(&self.chatapp).filter(|_| self.offers(channel, account))
            }
            (Channel::Sms, Address::Phone(number)) => {
                let network = self.lookup.as_ref().and_then(|it| it.network(number.e164()));
                let (class, network) = (routes::Class::of(priority), network.as_deref());
                self.table().choose(Wanted { account, class, number: number.e164(), network })
            }
            (Channel::Email, Address::Email(_)) => first(&self.email),
            (_, Address::Phone(_) | Address::Email(_)) => None,
        }
    }

    /// Whether an account's messages go anywhere on a channel.
    #[must_use]
    pub fn offers(&self, channel: Channel, account: &str) -> bool {
        match channel {
            Channel::Sms => !self.sms.is_empty() && !self.table().is_empty(),
            Channel::Chatapp => {
                let has_number = |cloud: &Arc<CloudApi>| cloud.numbers().of(account).is_some();
                !self.chatapp.is_empty() && self.cloud.as_ref().is_none_or(has_number)
            }
            Channel::Email => !self.email.is_empty(),
        }
    }

    /// Who is to be asked for the network of a number, before a message to it is routed: nobody
    /// where no route depends on it.
    #[must_use]
    pub fn lookup_for(&self, to: &Msisdn) -> Option<&Arc<Lookup>> {
        self.lookup.as_ref().filter(|_| self.table().asks(to.e164()))
    }

    /// Whether an account's passcodes go to this number on a channel.
    #[must_use]
    pub fn leads(&self, channel: Channel, account: &str, to: &Msisdn) -> bool {
        let has_route = || self.table_says(account, to, Table::leads);
        self.offers(channel, account) && (channel != Channel::Sms || has_route())
    }

    /// Whether a carrier of an account's passcodes to this number by SMS is connected.
    #[must_use]
    pub fn is_reached(&self, account: &str, to: &Msisdn) -> bool {
        self.table_says(account, to, Table::is_reached)
    }

    fn table_says(&self, account: &str, to: &Msisdn, so: fn(&Table, Wanted<'_>) -> bool) -> bool {
        let (class, number) = (routes::Class::Passcode, to.e164());
        let network = self.lookup.as_ref().and_then(|lookup| lookup.network(number));
        so(&self.table(), Wanted { account, class, number, network: network.as_deref() })
    }

    /// All lanes.
    pub fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.chatapp.iter().chain(&self.sms).chain(&self.email)
    }

    /// The lane of the carrier of this name.
    #[must_use]
    pub fn lane(&self, carrier: &str) -> Option<&Arc<Lane>> {
        self.lanes().find(|lane| lane.carrier().name() == carrier)
    }

    fn of_channel(&self, channel: Channel) -> &[Arc<Lane>] {
        match channel {
            Channel::Chatapp => &self.chatapp,
            Channel::Sms => &self.sms,
            Channel::Email => &self.email,
        }
    }

    /// Whether the real chat-app has no number yet.
    fn is_bare(&self) -> bool {
        self.cloud.as_ref().is_some_and(|cloud| cloud.numbers().is_empty())
    }

    /// Where senders of this process wait for receipts.
    #[must_use]
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What a number scripts that a send is refused with as on live; nothing where phones are real.
    #[must_use]
    pub fn rehearsed(&self, to: &Msisdn) -> Option<Rehearsed> {
        self.handsets.as_ref().and_then(|_| simulated::rehearsed(to))
    }

    /// What an address scripts, where mailboxes are simulated.
    #[must_use]
    pub fn scripted(&self, to: &email::Address) -> Option<simulated::Script> {
        self.handsets.as_ref().and_then(|_| simulated::script_of(to))
    }

    /// The virtual handsets, where there are any.
    #[must_use]
    pub fn handsets(&self) -> Option<&Handsets> {
        self.handsets.as_ref()
    }

    /// Each lane with its channel, for the operator.
    pub fn by_channel(&self) -> impl Iterator<Item = (Channel, &Arc<Lane>)> {
        [Channel::Chatapp, Channel::Sms, Channel::Email]
            .into_iter()
            .flat_map(|channel| self.of_channel(channel).iter().map(move |lane| (channel, lane)))
            .filter(|(channel, _)| *channel != Channel::Chatapp || !self.is_bare())
    }
}
