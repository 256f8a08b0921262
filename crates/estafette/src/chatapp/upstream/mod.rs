//! Callbacks of the chat-app's upstream: stored, answered, and then taken in item by item, each in
//! a write set of its own. A callback that comes twice changes nothing, and an item that fails
//! keeps no other one away; the callback is looked at again until all of it is taken in.
//!
//! On a number that accounts share, a message is for exactly one of them: whose prompt was tapped,
//! whose message is answered, who has an active session, and else as for any channel (`inbound`).

pub mod api;
mod scope;
mod store;

use ::store::{Bell, CommitError};
use clock::{DAY, MINUTE, Millis};
use cloud_api::callback::{self, Fate as Told, Item, Message, Status};
use futures_util::{StreamExt, stream};

use self::scope::Scope;
use self::store::{self as sql, Stored};
use super::templates::live;
use crate::app::App;
use crate::carriers::cloud_api::{NAME, read_echo, refusal};
use crate::carriers::{Channel, Door, Fate, Inbound, NotNow, Receipt};
use crate::inbound;
use crate::kit::id::CallbackId;

/// Where the upstream calls.
pub const PATH: &str = "/v1/upstream/chatapp";
/// Rings when a callback was stored.
const BELL: Bell = Bell("chatapp callbacks");
/// How often callbacks are looked for without being asked, milliseconds.
const PAUSE_MS: u64 = 1_000;
/// Callbacks claimed at a time.
const BATCH: i64 = 16;
/// How long a claim keeps other nodes away, milliseconds.
const CLAIM_MS: i64 = MINUTE;
/// When one that was not taken in whole is looked at again, milliseconds.
const RETRY_MS: i64 = 2_000;
/// For how long that is tried, milliseconds.
const GIVE_UP_MS: i64 = 7 * DAY;
/// Callbacks looked at at the same time.
const CALLBACKS: usize = 8;
/// Items taken in at the same time.
const PARALLEL: usize = 32;

/// Stores a callback and whose it is; it is taken in by [`run`].
async fn keep(app: &App, signer: &str, body: &[u8]) -> Result<(), CommitError> {
    let id = CallbackId::new(&app.clock);
    let sealed = app.vault.seal(&place(&id), body);
    sql::keep(app, (&id, signer), sealed, BELL).await
}

fn place(id: &CallbackId) -> [&str; 3] {
    ["chatapp_callbacks", id.as_str(), ""]
}

/// Takes callbacks in until the process drains.
pub async fn run(app: App, door: Door) {
    while !app.is_draining() {
        match run_due(&app, &door).await {
            Ok(0) => tokio::select! {
                () = app.db.rung(BELL) => {}
                () = app.rest(PAUSE_MS) => {}
            },
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "callbacks not read; trying again");
                app.rest(1_000).await;
            }
        }
    }
}

/// Takes in the callbacks that are due now and says how many there were.
///
/// # Errors
/// When they cannot be claimed.
pub async fn run_due(app: &App, door: &Door) -> Result<usize, CommitError> {
    let due = sql::claim_due(app, BATCH, app.now() + CLAIM_MS).await?;
    let count = due.len();
    let visits = due.into_iter().map(|stored| visit(app, door, stored));
    stream::iter(visits).buffer_unordered(CALLBACKS).collect::<()>().await;
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
    let body = app.vault.open(&place(&stored.id), &stored.body_sealed);
    let Some(items) = body.as_deref().and_then(callback::decode) else {
        tracing::error!(callback = %stored.id, "a callback that cannot be read is dropped");
        return Ok(());
    };
    // What a person wrote goes in the order in which it came; statuses find their own.
    let (mut statuses, mut messages, mut templates) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Status(status) => statuses.push(status),
            Item::Message(message) => messages.push(message),
            Item::Template(news) => templates.push(news),
            Item::Other(field) => tracing::info!(field, "a callback of another field"),
        }
    }
    let scope = Scope::of(app, &stored.waba_id);
    let receipts = statuses.into_iter().map(receipt).filter(|receipt| scope.covers(receipt));
    let receipts = receipts.map(|receipt| door.receipt(receipt));
    let taken: Vec<Result<(), NotNow>> =
        stream::iter(receipts).buffer_unordered(PARALLEL).collect().await;
    let mut all = taken.into_iter().fold(Ok(()), Result::and);
    for message in messages {
        all = all.and(hear(app, &scope, message).await);
    }
    for news in templates.iter().filter(|news| scope.is_of(&news.waba_id)) {
        if let Err(error) = live::hear(app, news).await {
            tracing::warn!(%error, "news of a template not kept");
            all = Err(NotNow);
        }
    }
    all
}

fn receipt(status: Status) -> Receipt {
    let (fate, error) = match status.fate {
        Told::Sent => (Fate::Sent, None),
        Told::Delivered => (Fate::Delivered, None),
        Told::Read => (Fate::Read, None),
        Told::Failed { class, code } => (Fate::Failed(refusal(class)), Some(code)),
    };
    Receipt {
        carrier: NAME.to_owned(),
        echo: status.echo.as_deref().and_then(read_echo),
        provider_id: Some(status.id),
        fate,
        error,
    }
}

async fn hear(app: &App, scope: &Scope, message: Message) -> Result<(), NotNow> {
    let account = match scope.account_for(app, &message).await {
        Ok(account) => account,
        Err(error) => {
            tracing::warn!(%error, "whom a message is for cannot be read");
            return Err(NotNow);
        }
    };
    let inbound = Inbound {
        carrier: NAME.to_owned(),
        upstream_id: message.id,
        channel: Channel::Chatapp,
        account_id: account.map(String::from),
        sender: number(message.from),
        recipient: number(message.display_phone_number),
        text: message.text,
        button: message.button,
        received_at: Millis(message.at_ms),
        raw: message.raw,
    };
    inbound::take_in(app, &[inbound]).await
}

/// The upstream writes numbers without a plus.
fn number(digits: String) -> String {
    let is_number = digits.len() >= 7 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { format!("+{digits}") } else { digits }
}
