//! Rank 6: what people write: replies by SMS and on the chat-app, and STOP.
//!
//! Carriers bring messages to one door ([`take_in`]). A message becomes a row, the event that tells
//! of it, and the opt-out if it is STOP, in one write set, or it is known already and nothing
//! happens. What was brought before is known by the carrier's id ([`store`]'s `SEE`), not by the
//! account: whom it would be for may have changed meanwhile. What else follows from it (a consent
//! session that it opens) is written in the same set; `App::correspondence.hear` says what.
//!
//! Whom it is for: the account that the carrier names (a handset of the sandbox), else the one
//! whose approved sender was written to, else the one that wrote to this person last ([`route`]).
//! What is for nobody is parked under the empty account, and counted.

pub mod api;
mod message;
pub mod opt_outs;
mod parts;
pub mod retention;
mod route;
mod store;
mod view;
pub mod windows;

use ::store::{CommitError, Error, Reject, WriteSet, args};
use clock::Millis;
use futures_util::future::join_all;

use self::message::{Address, Message};
use self::opt_outs::Wish;
use self::store as sql;
use crate::app::{App, Heard, Reaction};
use crate::carriers::{Channel, Inbound, NotNow};
use crate::credits::INSUFFICIENT;
use crate::events::{self, Kind, Note};
use crate::kit::id::{AccountId, InboundId};
use crate::kit::keywords::Keyword;
use crate::kit::page::{self, Page};
use crate::kit::words::words;

pub use parts::take_part;
pub use view::show;

/// The message was taken in before.
const SEEN: Reject = Reject("inbound_seen");
/// Messages of a batch that are taken in at the same time.
const PARALLEL: usize = 32;
/// Times that what follows is decided anew because another was faster.
const TRIES: usize = 20;

/// A message that a person sent, as the API shows it.
#[derive(Clone)]
pub struct Notification {
    /// Its id.
    pub id: InboundId,
    /// The way it came.
    pub channel: Channel,
    /// Who wrote.
    pub sender: String,
    /// The number or name that was written to.
    pub recipient: String,
    /// What they wrote.
    pub message: String,
    /// When the carrier received it.
    pub received_at: Millis,
    /// When it came in here.
    pub created_at: Millis,
}

words! {
    /// What became of a message.
    enum Taken {
        /// Its account has it.
        Stored = "stored",
        /// It is for nobody.
        Parked = "parked",
        /// It was taken in before.
        Known = "known",
    }
}

/// Takes in what people wrote. Each message is stored by itself, so that none keeps another one
/// away; brought again, it changes nothing.
///
/// # Errors
/// [`NotNow`] when some could not be stored: they, or all, are to be brought again.
pub async fn take_in(app: &App, messages: &[Inbound]) -> Result<(), NotNow> {
    let (mut failed, mut first) = (0_usize, None);
    // Of two wishes of one instant the later one holds: of those that come together, STOP.
    let is_stop = |it: &&Inbound| Keyword::in_message(&it.text) == Some(Keyword::Stop);
    let (stops, others): (Vec<&Inbound>, Vec<&Inbound>) = messages.iter().partition(is_stop);
    for some in others.chunks(PARALLEL).chain(stops.chunks(PARALLEL)) {
        let taken = join_all(some.iter().map(|message| take_one(app, message))).await;
        for (message, taken) in some.iter().zip(taken) {
            let outcome = taken.map_or_else(
                |error| {
                    failed += 1;
                    first.get_or_insert(error);
                    "failed"
                },
                Taken::as_str,
            );
            app.metrics.inbound(message.channel.as_str(), outcome);
        }
    }
    let Some(error) = first else { return Ok(()) };
    // One line for all: while the database is away, carriers bring everything again and again.
    tracing::warn!(%error, failed, "inbound messages not stored");
    Err(NotNow)
}

async fn take_one(app: &App, inbound: &Inbound) -> Result<Taken, Fault> {
    let message = Message::of(app, inbound);
    let account = match &inbound.account_id {
        Some(account) => Some(AccountId::stored(account.clone())),
        None => account_for(app, &message).await?,
    };
    keep(app, account.as_ref(), Arrived { message: &message, since: Millis(0), parts: None }).await
}

/// What is to be made durable.
struct Arrived<'a> {
    message: &'a Message,
    /// What was seen before counts as new.
    since: Millis,
    /// The parts that it was put together from: with it they are done.
    parts: Option<parts::Parts<'a>>,
}

/// Makes a message durable, and what follows from it; who comes second finds that it is.
async fn keep(
    app: &App,
    account: Option<&AccountId>,
    arrived: Arrived<'_>,
) -> Result<Taken, Fault> {
    let mut can_pay = true;
    for _ in 0..TRIES {
        let reaction = follow(app, account, arrived.message, can_pay).await?;
        let follows = !reaction.set.is_empty();
        match app.db.commit(write(app, account, &arrived, reaction)).await {
            Ok(_) if account.is_some() => return Ok(Taken::Stored),
            Ok(_) => return Ok(Taken::Parked),
            Err(CommitError::Rejected(SEEN | parts::DONE)) => return Ok(Taken::Known),
            Err(CommitError::Rejected(INSUFFICIENT)) if can_pay => can_pay = false,
            // What follows was decided on something older: another was faster.
            Err(CommitError::Rejected(_)) if follows => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(CommitError::Overloaded.into())
}

/// Asks what follows from a message whose account is known.
async fn follow(
    app: &App,
    account: Option<&AccountId>,
    message: &Message,
    can_pay: bool,
) -> Result<Reaction, Error> {
    let (Some(account), Address::Phone(person)) = (account, &message.sender) else {
        return Ok(Reaction::none(""));
    };
    let heard = Heard {
        account,
        person,
        channel: message.channel,
        text: &message.text,
        button: message.button.as_deref(),
        carrier: &message.carrier,
        context: message.context.as_deref(),
        is_stop: message.keyword == Some(Keyword::Stop),
        said_at: message.received_at,
        can_pay,
    };
    (app.correspondence.hear)(app, heard).await
}

/// Takes in that a person wants no more of the account that writes to them, or does again, where
/// they told the upstream so and not us.
///
/// # Errors
/// [`NotNow`] when it could not be stored.
pub async fn prefer(app: &App, told: &Inbound, keyword: Keyword) -> Result<(), NotNow> {
    let kept = async {
        let message = Message { keyword: Some(keyword), ..Message::of(app, told) };
        let account = match &told.account_id {
            Some(account) => Some(AccountId::stored(account.clone())),
            None => account_for(app, &message).await?,
        };
        if let (Some(account), Address::Phone(person)) = (account, &message.sender) {
            let mut set = WriteSet::of(account.as_str());
            let (channel, said_at) = (message.channel, message.received_at);
            opt_outs::note(app, &mut set, &account, Wish { person, keyword, channel, said_at });
            // What ends with STOP ends with this.
            set.append(follow(app, Some(&account), &message, true).await?.set);
            app.db.commit(set).await?;
        }
        Ok::<(), Fault>(())
    };
    kept.await.map_err(|error| {
        tracing::warn!(%error, "what a person prefers is not stored");
        NotNow
    })
}

/// Asks the rooms that know who writes to whom.
async fn account_for(app: &App, message: &Message) -> Result<Option<AccountId>, Error> {
    let ask = app.correspondence;
    let owners = (ask.owners_of)(app, message.recipient.text()).await?;
    let mut senders = Vec::new();
    if let (Address::Phone(person), false) = (&message.sender, owners.len() == 1) {
        let since = app.now() - route::MEMORY_MS;
        for sent_to in ask.sent_to {
            senders.extend(sent_to(app, message.channel, person.e164(), since).await?);
        }
    }
    // What comes here by the chat-app came to the deployment's number.
    if let (Channel::Chatapp, Some(cloud)) = (message.channel, app.carriers.cloud()) {
        let linked = cloud.numbers().linked();
        senders.retain(|sent| !linked.contains_key(sent.account.as_str()));
    }
    Ok(route::choose(&owners, &senders))
}

/// The row, its event, the opt-out if it is one, and what else follows.
fn write(
    app: &App,
    account: Option<&AccountId>,
    arrived: &Arrived<'_>,
    reaction: Reaction,
) -> WriteSet {
    let Arrived { message, since, parts } = *arrived;
    let nobody = nobody();
    let whose = account.unwrap_or(&nobody);
    let id = InboundId::new(&app.clock);
    let mut set = WriteSet::of(whose.as_str());
    set.guard(sql::SEE, args![message.mac, app.now(), since], SEEN);
    let row = args![
        whose,
        &id,
        message.channel.as_str(),
        &message.carrier,
        &message.upstream_id,
        message.sender.text(),
        message.recipient.text(),
        &message.text,
        &message.raw_json,
        message.received_at,
        app.now(),
    ];
    set.push(sql::INSERT, row);
    if let Some(parts) = parts {
        parts::end(&mut set, parts);
    }
    let Some(account) = account else { return set };
    let kind = kind_of(message.channel);
    let state = message.keyword.map(Keyword::as_str).or(reaction.button).unwrap_or_default();
    let note = Note { account, kind, object_id: id.as_str(), sequence: 1, state };
    events::note(app, &mut set, note);
    if let (Address::Phone(person), Some(keyword)) = (&message.sender, message.keyword) {
        let (channel, said_at) = (message.channel, message.received_at);
        opt_outs::note(app, &mut set, account, Wish { person, keyword, channel, said_at });
    }
    set.append(reaction.set);
    set
}

const fn kind_of(channel: Channel) -> Kind {
    match channel {
        Channel::Sms | Channel::Email => Kind::SmsInbound,
        Channel::Chatapp => Kind::ChatappInbound,
    }
}

/// Under whom messages are parked that are for no account.
fn nobody() -> AccountId {
    AccountId::stored(String::new())
}

/// Which messages of an account are asked for.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only of this channel.
    pub channel: Option<Channel>,
    /// Only of this sender, as stored.
    pub sender: Option<String>,
    /// Only to this recipient, as stored.
    pub recipient: Option<String>,
    /// Not before this instant.
    pub since: Option<Millis>,
    /// Before this instant.
    pub until: Option<Millis>,
}

impl Filter {
    fn keeps(&self, row: &Notification) -> bool {
        self.channel.is_none_or(|channel| channel == row.channel)
            && self.recipient.as_ref().is_none_or(|recipient| *recipient == row.recipient)
    }
}

/// One page of an account's messages, newest first, and the id after which the next one begins.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(
    app: &App,
    account: &AccountId,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Notification>, Option<String>), Error> {
    let bound = |at: Option<Millis>| at.map(|at| InboundId::bound(at).as_str().to_owned());
    let (oldest, newest) = (bound(filter.since).unwrap_or_default(), bound(filter.until));
    let read = |after: String, limit| {
        let before = newest.clone().map_or(after.clone(), |newest| newest.min(after));
        match &filter.sender {
            Some(sender) => {
                let args = args![sender, account, before, &oldest, limit];
                app.db.rows(sql::STRETCH_OF_SENDER, args)
            }
            None => app.db.rows(sql::STRETCH, args![account, before, &oldest, limit]),
        }
    };
    let keep = |row: &Notification| filter.keeps(row);
    let is_sifted = filter.channel.is_some() || filter.recipient.is_some();
    let keep = is_sifted.then_some(&keep as &(dyn Fn(&Notification) -> bool + Sync));
    page::sift(page, read, |row: &Notification| row.id.as_str().to_owned(), keep).await
}

/// One page of the messages that are for no account.
///
/// # Errors
/// When the database cannot be read.
pub async fn parked(
    app: &App,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Notification>, Option<String>), Error> {
    list(app, &nobody(), filter, page).await
}

/// One message of an account, with the carrier's payload as JSON.
///
/// # Errors
/// When the database cannot be read.
pub async fn find(
    app: &App,
    account: &AccountId,
    id: &InboundId,
) -> Result<Option<(Notification, String)>, Error> {
    let whole: Option<sql::Whole> = app.db.row(sql::BY_ID, args![account, id]).await?;
    Ok(whole.map(|whole| (whole.notification, whole.raw_json)))
}

/// What goes wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A read failed.
    #[error(transparent)]
    Db(#[from] Error),
    /// A write failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}
