//! Callbacks of the chat-app's upstream: stored, answered, and then taken in item by item, each in
//! a write set of its own. A callback that comes twice changes nothing, and an item that fails
//! keeps no other one away; the callback is looked at again until all of it is taken in. A single
//! status, which most callbacks are, is settled before the answer instead, and stored only where
//! that does not work at once.
//!
//! Whoever has a linked business account has its secret, and may sign what they like as often as
//! they like. So each signer's callbacks wait in a line of their own, which is worked on beside
//! the others'; and of each so many are in hand and so many wait, beyond which the upstream is told
//! to come again.
//!
//! On a number that accounts share, a message is for exactly one of them: whose prompt was tapped,
//! whose message is answered, who has an active session, and else as for any channel (`inbound`).

pub mod api;
mod lines;
mod scope;
mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use ::store::{Bell, CommitError};
use clock::{DAY, MINUTE, Millis};
use cloud_api::callback::{
    self, Account, Fate as Told, Item, Message, Preference, Status, Template,
};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::timeout;

use self::lines::Lines;
use self::scope::Scope;
use self::store::{self as sql, Stored};
use super::links;
use super::templates::live;
use crate::app::App;
use crate::carriers::cloud_api::{NAME, read_echo, refusal};
use crate::carriers::{Channel, Door, Fate, Inbound, NotNow, Receipt};
use crate::inbound;
use crate::kit::id::CallbackId;
use crate::kit::keywords::Keyword;
use crate::kit::msisdn::Msisdn;
use crate::kit::portions::{Portion, Portions};

/// Where the upstream calls.
pub const PATH: &str = "/v1/upstream/chatapp";
/// Rings when a callback was stored.
const BELL: Bell = Bell("chatapp callbacks");
/// How often callbacks are looked for without being asked, milliseconds.
const PAUSE_MS: u64 = 1_000;
/// How long a claim keeps other nodes away, milliseconds.
const CLAIM_MS: i64 = MINUTE;
/// When one that was not taken in whole is looked at again, milliseconds.
const RETRY_MS: i64 = 2_000;
/// For how long that is tried, milliseconds.
const GIVE_UP_MS: i64 = 7 * DAY;
/// Longest body that is read before the answer, bytes: several times what one status takes.
const MOST_AT_ONCE: usize = 8 * 1024;
/// How long the upstream waits for a status to be settled before it is stored instead.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Callbacks in hand before they are answered: of the deployment, and of each linked business
/// account.
static OWN: Portions = Portions::new(512);
static OF_LINKED: Portions = Portions::new(64);
/// Callbacks of a linked business account that may wait to be taken in. Those of a busy one wait
/// for some milliseconds.
const MOST_WAITING: i64 = 256;

/// How much of a signer's is taken in at the same time.
#[derive(Clone, Copy)]
struct Pace {
    /// Callbacks.
    callbacks: usize,
    /// Items of each of them.
    items: usize,
}

impl Pace {
    const fn of(signer: &str) -> Self {
        if signer.is_empty() {
            Self { callbacks: 16, items: 32 }
        } else {
            Self { callbacks: 4, items: 8 }
        }
    }
}

/// Why a callback is not taken. Nothing of it is durable.
enum Untaken {
    /// Its signer has as many in hand, or waiting, as it may.
    Full,
    /// It cannot be stored.
    Commit(CommitError),
}

impl From<CommitError> for Untaken {
    fn from(error: CommitError) -> Self {
        if matches!(error, CommitError::Rejected(sql::FULL)) {
            Self::Full
        } else {
            Self::Commit(error)
        }
    }
}

/// Makes a callback durable: by settling it, or by storing it for [`run`], once for each of those
/// whom it may speak for.
async fn take(app: &App, signers: &[String], body: &[u8]) -> Result<(), Untaken> {
    let _in_hand = in_hand(signers).ok_or(Untaken::Full)?;
    if let [signer] = signers
        && settles(app, signer, body).await
    {
        return Ok(());
    }
    keep(app, signers, body).await
}

/// A place for each of those who signed.
fn in_hand(signers: &[String]) -> Option<Vec<Portion>> {
    let of = |signer: &String| if signer.is_empty() { &OWN } else { &OF_LINKED };
    signers.iter().map(|signer| of(signer).take(signer)).collect()
}

/// Settles the one status that a callback tells; `false` = it tells something else, or that does
/// not work at once.
async fn settles(app: &App, signer: &str, body: &[u8]) -> bool {
    let Some(cloud) = app.carriers.cloud().filter(|_| body.len() <= MOST_AT_ONCE) else {
        return false;
    };
    let items = callback::decode(body, 0).unwrap_or_default().items;
    let Ok([Item::Status(status)]) = <[Item; 1]>::try_from(items) else { return false };
    let scope = Scope::of(app, signer);
    if scope.is_strange() {
        return false;
    }
    let told = tell(app, cloud.door(), &scope, receipt(status));
    timeout(AT_ONCE, told).await.is_ok_and(|told| told.is_ok())
}

/// Stores a callback and whose it is; it is taken in by [`run`].
async fn keep(app: &App, signers: &[String], body: &[u8]) -> Result<(), Untaken> {
    let stored = |signer: &String| {
        let id = CallbackId::new(&app.clock);
        let body_sealed = app.vault.seal(&place(&id), body);
        Stored { id, waba_id: signer.clone(), body_sealed, received_at: app.now() }
    };
    let callbacks = signers.iter().map(stored).collect();
    Ok(sql::keep(app, callbacks, MOST_WAITING, BELL).await?)
}

fn place(id: &CallbackId) -> [&str; 3] {
    ["chatapp_callbacks", id.as_str(), ""]
}

/// Takes callbacks in until the process drains, those of each signer in a line beside the others'.
pub async fn run(app: App, door: Door) {
    let mut lines = Lines::default();
    let mut last = String::new();
    while !app.is_draining() {
        match lines.beside(sql::signers_due(&app)).await {
            Ok(mut signers) => {
                // Round and round, where there are more of them than lines.
                let next = signers.partition_point(|signer| *signer <= last);
                signers.rotate_left(next);
                for signer in signers {
                    if lines.has_room_for(&signer) {
                        if !signer.is_empty() {
                            last.clone_from(&signer);
                        }
                        lines.begin(&signer, serve(&app, &door, signer.clone()));
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "callbacks not read; trying again");
                lines.beside(app.rest(1_000)).await;
            }
        }
        tokio::select! {
            // There may be more of theirs.
            Some(()) = lines.end_of_one() => {}
            () = app.db.rung(BELL) => {}
            () = app.rest(PAUSE_MS) => {}
        }
    }
    while lines.end_of_one().await.is_some() {}
}

/// Takes some of a signer's in, and answers whose they were.
async fn serve(app: &App, door: &Door, signer: String) -> String {
    if let Err(error) = look(app, door, &signer).await {
        tracing::warn!(%error, "callbacks not claimed; trying again");
        app.rest(1_000).await;
    }
    signer
}

/// Takes in some of the callbacks of each signer that are due now and says how many there were.
///
/// # Errors
/// When they cannot be claimed.
pub async fn run_due(app: &App, door: &Door) -> Result<usize, CommitError> {
    let signers = sql::signers_due(app).await?;
    let looks = join_all(signers.iter().map(|signer| look(app, door, signer))).await;
    looks.into_iter().try_fold(0, |all, count| Ok(all + count?))
}

async fn look(app: &App, door: &Door, signer: &str) -> Result<usize, CommitError> {
    let pace = Pace::of(signer);
    let limit = i64::try_from(pace.callbacks).unwrap_or(1);
    let due = sql::claim_due(app, signer, limit, app.now() + CLAIM_MS).await?;
    let count = due.len();
    let visits = due.into_iter().map(|stored| visit(app, door, stored));
    stream::iter(visits).buffer_unordered(pace.callbacks).collect::<()>().await;
    Ok(count)
}

async fn visit(app: &App, door: &Door, stored: Stored) {
    let (id, age_ms) = (&stored.id, app.now() - stored.received_at);
    let done = match take_in(app, door, &stored).await {
        Ok(()) => sql::forget(app, id).await,
        // The upstream itself tries no longer.
        Err(NotNow) if age_ms > GIVE_UP_MS => {
            tracing::error!(callback = %id, "a callback that cannot be taken in is dropped");
            sql::forget(app, id).await
        }
        Err(NotNow) => {
            tracing::warn!(callback = %id, age_ms, "callback not taken in whole; trying again");
            sql::postpone(app, id, app.now() + RETRY_MS).await
        }
    };
    // It is due again when its claim ends.
    if let Err(error) = done {
        tracing::warn!(%error, callback = %id, "callback not settled");
    }
}

/// Every item by itself.
async fn take_in(app: &App, door: &Door, stored: &Stored) -> Result<(), NotNow> {
    let body = app.vault.open(&place(&stored.id), &stored.body_sealed).unwrap_or_default();
    let (mut all, mut passed) = (Ok(()), 0);
    loop {
        let Some(found) = callback::decode(&body, passed) else {
            tracing::error!(callback = %stored.id, "a callback that cannot be read is dropped");
            return Ok(());
        };
        passed += found.items.len();
        all = take_items(app, door, stored, found.items).await.and(all);
        if !found.is_cut {
            return all;
        }
    }
}

async fn take_items(
    app: &App,
    door: &Door,
    stored: &Stored,
    items: Vec<Item>,
) -> Result<(), NotNow> {
    let sorted = Sorted::of(items);
    let mut scope = Scope::of(app, &stored.waba_id);
    if app.config.database.is_shared() && sorted.is_strange_to(&scope) {
        // Another node may have linked the number.
        if let Err(error) = links::refresh_since(app, stored.received_at).await {
            tracing::warn!(%error, "chat-app links not read");
            return Err(NotNow);
        }
        scope = Scope::of(app, &stored.waba_id);
    }
    let Sorted { statuses, people, templates, wishes } = sorted;
    let parallel = Pace::of(&stored.waba_id).items;
    let receipts = statuses.into_iter().map(|status| tell(app, door, &scope, receipt(status)));
    let taken: Vec<Result<(), NotNow>> =
        stream::iter(receipts).buffer_unordered(parallel).collect().await;
    let mut all = taken.into_iter().fold(Ok(()), Result::and);
    let heard = people.into_values().map(|messages| hear_all(app, &scope, messages));
    let heard: Vec<Result<(), NotNow>> =
        stream::iter(heard).buffer_unordered(parallel).collect().await;
    all = heard.into_iter().fold(all, Result::and);
    for wish in wishes {
        all = all.and(prefer(app, &scope, wish).await);
    }
    for news in templates.iter().filter(|news| scope.is_of(&news.waba_id)) {
        if let Err(error) = live::hear(app, news).await {
            tracing::warn!(%error, "news of a template not kept");
            all = Err(NotNow);
        }
    }
    all
}

/// Brings a receipt to its message, unless it is not the signer's to tell of.
async fn tell(app: &App, door: &Door, scope: &Scope, receipt: Receipt) -> Result<(), NotNow> {
    match scope.covers(app, &receipt).await {
        Ok(true) => door.receipt(receipt).await,
        Ok(false) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "whose message a status is about cannot be read");
            Err(NotNow)
        }
    }
}

/// What a callback tells, by how it is taken in.
#[derive(Default)]
struct Sorted {
    statuses: Vec<Status>,
    /// What one person wrote goes in the order in which it came; people go side by side.
    people: BTreeMap<String, Vec<Message>>,
    templates: Vec<Template>,
    wishes: Vec<Preference>,
}

impl Sorted {
    /// Whether it tells of a number that nobody has, as far as this node knows.
    fn is_strange_to(&self, scope: &Scope) -> bool {
        let messages = self.people.values().flatten().map(|message| &message.phone_number_id);
        let mut numbers = messages.chain(self.wishes.iter().map(|wish| &wish.phone_number_id));
        scope.is_strange() || numbers.any(|number| !scope.speaks_for(number))
    }

    fn of(items: Vec<Item>) -> Self {
        let mut sorted = Self::default();
        for item in items {
            match item {
                Item::Status(status) => sorted.statuses.push(status),
                Item::Message(mut message) => {
                    message.from = dialled(message.from);
                    sorted.people.entry(message.from.clone()).or_default().push(message);
                }
                Item::Template(news) => sorted.templates.push(news),
                Item::Preference(mut wish) => {
                    wish.from = dialled(wish.from);
                    sorted.wishes.push(wish);
                }
                Item::Account(Account { waba_id, field, event }) => {
                    tracing::warn!(waba_id, field, event, "news of a business account");
                }
                Item::Other(field) => tracing::info!(field, "a callback of another field"),
            }
        }
        sorted
    }
}

fn receipt(status: Status) -> Receipt {
    let (fate, error) = match status.fate {
        Told::Sent => (Fate::Sent, None),
        Told::Delivered => (Fate::Delivered, None),
        Told::Read => (Fate::Read, None),
        Told::Failed { class, code } => (Fate::Failed(refusal(class)), Some(code)),
    };
    Receipt {
        hint: None,
        carrier: NAME.to_owned(),
        echo: status.echo.as_deref().and_then(read_echo),
        provider_id: Some(status.id),
        fate,
        error,
    }
}

/// What one person wrote, in its order. One that cannot be stored keeps no later one away.
async fn hear_all(app: &App, scope: &Scope, messages: Vec<Message>) -> Result<(), NotNow> {
    let mut all = Ok(());
    for message in messages {
        all = all.and(hear(app, scope, message).await);
    }
    all
}

/// What somebody told the upstream that they want to be sent.
async fn prefer(app: &App, scope: &Scope, wish: Preference) -> Result<(), NotNow> {
    let keyword = if wish.is_stop { Keyword::Stop } else { Keyword::Start };
    let told = Message {
        phone_number_id: wish.phone_number_id,
        display_phone_number: wish.display_phone_number,
        id: String::new(),
        from: wish.from,
        text: String::new(),
        is_words: false,
        button: None,
        context: None,
        at_ms: wish.at_ms,
        raw: Value::Null,
    };
    match addressed(app, scope, told).await? {
        Some(told) => inbound::prefer(app, &told, keyword).await,
        None => Ok(()),
    }
}

async fn hear(app: &App, scope: &Scope, message: Message) -> Result<(), NotNow> {
    match addressed(app, scope, message).await? {
        Some(message) => inbound::take_in(app, &[message]).await,
        None => Ok(()),
    }
}

/// A message as every carrier brings it, with whose it is where the chat-app can tell. `None`: it
/// is for a number that is not here, or whoever signed it may not bring it. The owner
/// of a linked business account has its secret, and could otherwise write to everybody else's
/// number.
async fn addressed(app: &App, scope: &Scope, message: Message) -> Result<Option<Inbound>, NotNow> {
    if !scope.speaks_for(&message.phone_number_id) {
        let number = message.phone_number_id.as_str();
        tracing::warn!(number, "a callback tells of a number that is none of its own; left out");
        return Ok(None);
    }
    let account = match scope.account_for(app, &message).await {
        Ok(account) => account,
        Err(error) => {
            tracing::warn!(%error, "whom a message is for cannot be read");
            return Err(NotNow);
        }
    };
    Ok(Some(Inbound {
        carrier: NAME.to_owned(),
        upstream_id: message.id,
        channel: Channel::Chatapp,
        account_id: account.map(String::from),
        sender: number(message.from),
        recipient: number(message.display_phone_number),
        text: message.text,
        is_words: message.is_words,
        button: message.button,
        context: message.context,
        // Of one that does not say when, it is now: people wait for an answer to it.
        received_at: if message.at_ms > 0 { Millis(message.at_ms) } else { app.now() },
        raw: message.raw,
    }))
}

/// The number that reaches a person, from what the upstream calls them. Some countries have changed
/// how phones are dialled, and the upstream calls people there as it did before: Brazil without the
/// 9 in front of eight digits, Mexico with a 1 and Argentina without the 9 behind the country code.
fn dialled(digits: String) -> String {
    if Msisdn::parse(&digits).is_ok() {
        return digits;
    }
    let cut = |at: usize| Some((digits.get(..at)?, digits.get(at..)?));
    let other = match digits.len() {
        12 if digits.starts_with("55") => cut(4).map(|(area, rest)| format!("{area}9{rest}")),
        13 if digits.starts_with("521") => digits.get(3..).map(|rest| format!("52{rest}")),
        12 if digits.starts_with("54") => cut(2).map(|(code, rest)| format!("{code}9{rest}")),
        _ => None,
    };
    other.filter(|other| Msisdn::parse(other).is_ok()).unwrap_or(digits)
}

/// The upstream writes numbers without a plus.
fn number(digits: String) -> String {
    let is_number = digits.len() >= 7 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { format!("+{digits}") } else { digits }
}

#[cfg(test)]
mod tests {
    use super::dialled;

    #[test]
    fn people_are_known_by_the_number_that_reaches_them() {
        for (called, reached) in [
            ("551187654388", "5511987654388"),
            ("5511987654388", "5511987654388"),
            ("5215512345679", "525512345679"),
            ("525512345679", "525512345679"),
            ("33612345678", "33612345678"),
            // A landline, which the upstream takes as well.
            ("551131234567", "551131234567"),
            ("FR.13491208655302741918", "FR.13491208655302741918"),
            ("", ""),
        ] {
            assert_eq!(dialled(called.to_owned()), reached, "{called}");
        }
    }
}
