//! Accounts with a business account of their own: staff link them, and what they send goes out from
//! their number. Every node reads the links again and again, and at once where it hears of one.

pub mod api;
mod store;

use std::collections::HashMap;
use std::sync::Arc;

use ::store::{Bell, CommitError, Error as DbError, Reject, WriteSet};
use clock::Millis;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::store::{self as sql, Current};
use super::templates;
use crate::access::{self, By, Entry};
use crate::app::App;
use crate::carriers::cloud_api::Number;
use crate::config;
use crate::kit::id::AccountId;
use crate::kit::secret::Secret;

/// Rings when a link changed.
const BELL: Bell = Bell("chatapp links");
/// What clocks of two nodes may differ by, milliseconds.
const NODE_CLOCKS_DIFFER_MS: i64 = 5_000;
/// How often they are read without being asked, milliseconds.
const PAUSE_MS: u64 = 2_000;
/// No live account has this id.
const NO_ACCOUNT: Reject = Reject("no_live_account");

/// The account is linked to nothing of its own.
const NO_LINK: Reject = Reject("no_link");

/// A business account and its number. No `Debug`: it holds a token.
#[derive(Clone, Serialize, Deserialize)]
struct Secrets {
    access_token: String,
    app_secret: String,
    verify_token: String,
}

/// What staff links an account to.
pub(super) struct Link {
    phone_number_id: String,
    waba_id: String,
    secrets: Secrets,
}

impl Link {
    /// The deployment's settings, with this number.
    fn settings(&self, app: &App) -> config::Chatapp {
        let Secrets { access_token, app_secret, verify_token } = self.secrets.clone();
        config::Chatapp {
            phone_number_id: self.phone_number_id.clone(),
            waba_id: self.waba_id.clone(),
            access_token: Secret::new(access_token),
            app_secret: Secret::new(app_secret),
            verify_token: Secret::new(verify_token),
            ..app.config.chatapp.clone()
        }
    }
}

/// Why an account was not linked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// There is no such account on live.
    #[error("No live account has this id: what the sandbox sends reaches no phone")]
    Unknown,
    /// There is no such link.
    #[error("The account is not linked to a business account of its own")]
    NotLinked,
    /// The number is linked already, or the deployment's own, with another business account.
    #[error("is a number of another business account; check both")]
    OtherBusiness,
    /// The settings cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// Storage.
    #[error(transparent)]
    Db(#[from] DbError),
    /// Storage.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Where the secrets of a link are sealed.
fn place(account: &AccountId) -> [&str; 3] {
    ["chatapp_links", account.as_str(), ""]
}

/// Links an account, in the place of what it was linked to before; answers since when.
async fn link(app: &App, account: &AccountId, link: &Link, by: By<'_>) -> Result<Millis, Error> {
    Number::of(&link.settings(app), 1).map_err(Error::Unusable)?;
    if is_of_another(app, account, link).await? {
        return Err(Error::OtherBusiness);
    }
    let before = sql::one(app, account).await?.map(|before| before.waba_id);
    let plain = serde_json::to_vec(&link.secrets).unwrap_or_default();
    let sealed = app.vault.seal(&place(account), &plain);
    let mut set = WriteSet::of(account.as_str());
    sql::put(app, &mut set, account, link, sealed);
    // Whose the number is decides about the names of templates there, in one business account, too.
    if before.is_none_or(|before| before != link.waba_id) {
        templates::begin_anew(app, &mut set, account);
    }
    let entry = Entry {
        actor: by.who,
        action: "chatapp.link",
        object_id: account.as_str(),
        account: Some(account),
        request_id: by.request_id,
        detail: json!({
            "phone_number_id": link.phone_number_id, "waba_id": link.waba_id,
        }),
    };
    access::record(app, &mut set, &entry);
    set.ring(BELL);
    match app.db.commit(set).await {
        Ok(_) => {}
        Err(CommitError::Rejected(NO_ACCOUNT)) => return Err(Error::Unknown),
        Err(error) => return Err(error.into()),
    }
    put_in_force(app).await;
    // Nothing that fails behind the commit hides that it was linked.
    Ok(linked(app, account).await.map_or_else(|_| app.now(), |current| current.linked_at))
}

/// Here at once; on other nodes, and where it fails now, within seconds.
async fn put_in_force(app: &App) {
    if let Err(error) = refresh(app).await {
        tracing::warn!(%error, "links were not read; trying again");
    }
}

/// What an account is linked to.
async fn linked(app: &App, account: &AccountId) -> Result<Current, Error> {
    sql::one(app, account).await?.ok_or(Error::NotLinked)
}

/// Ends a link: the account sends from the deployment's number again, where there is one.
async fn unlink(app: &App, account: &AccountId, by: By<'_>) -> Result<Current, Error> {
    let was = linked(app, account).await?;
    let mut set = WriteSet::of(account.as_str());
    sql::remove(&mut set, account);
    templates::begin_anew(app, &mut set, account);
    let entry = Entry {
        actor: by.who,
        action: "chatapp.unlink",
        object_id: account.as_str(),
        account: Some(account),
        request_id: by.request_id,
        detail: json!({ "phone_number_id": was.phone_number_id, "waba_id": was.waba_id }),
    };
    access::record(app, &mut set, &entry);
    set.ring(BELL);
    match app.db.commit(set).await {
        Ok(_) => {}
        Err(CommitError::Rejected(NO_LINK)) => return Err(Error::NotLinked),
        Err(error) => return Err(error.into()),
    }
    put_in_force(app).await;
    Ok(was)
}

/// Whether the number belongs to another business account, as far as is known here: what is written
/// to a number is for one business.
async fn is_of_another(app: &App, account: &AccountId, link: &Link) -> Result<bool, DbError> {
    let differs = |number: &str, waba_id: &str| {
        number == link.phone_number_id && waba_id != link.waba_id && !waba_id.is_empty()
    };
    let own = &app.config.chatapp;
    if differs(&own.phone_number_id, &own.waba_id) {
        return Ok(true);
    }
    let all = sql::all(app).await?;
    let mut others = all.iter().filter(|other| other.account != *account);
    Ok(others.any(|other| differs(&other.phone_number_id, &other.waba_id)))
}

/// Reads the links that there are, and puts them in force.
///
/// # Errors
/// When the database cannot be read.
pub async fn refresh(app: &App) -> Result<(), DbError> {
    refresh_since(app, Millis(i64::MAX)).await
}

/// The same, unless they were read after an instant.
///
/// # Errors
/// When the database cannot be read.
pub async fn refresh_since(app: &App, at: Millis) -> Result<(), DbError> {
    let Some(cloud) = app.carriers.cloud() else { return Ok(()) };
    // One after the other: what was read before is not put in force after what was read since.
    let mut read_at = cloud.numbers().read_at.lock().await;
    // By the clock of another node, perhaps.
    if *read_at - at > NODE_CLOCKS_DIFFER_MS {
        return Ok(());
    }
    let now = app.now();
    let before = cloud.numbers().linked();
    let mut linked = HashMap::new();
    let mut numbers: HashMap<(String, i64), Arc<Number>> = HashMap::new();
    for row in sql::all(app).await? {
        let (account, revision) = (row.account.as_str().to_owned(), row.revision);
        if let Some(same) = before.get(&account).filter(|old| old.revision == revision) {
            linked.insert(account, Arc::clone(same));
            continue;
        }
        let opened = app.vault.open(&place(&row.account), &row.secrets_sealed);
        let secrets = opened.and_then(|plain| serde_json::from_slice(&plain).ok());
        let Some(secrets) = secrets else {
            tracing::error!(account, "the chat-app link of this account cannot be opened");
            continue;
        };
        let (phone_number_id, waba_id) = (row.phone_number_id, row.waba_id);
        let link = Link { phone_number_id, waba_id, secrets };
        match Number::of(&link.settings(app), revision) {
            Ok(Some(number)) => {
                let key = (link.phone_number_id.clone(), revision);
                let others =
                    before.values().chain(cloud.numbers().shared()).chain(numbers.values());
                let number = number.beside(others);
                let number = numbers.entry(key).or_insert_with(|| Arc::new(number));
                linked.insert(account, Arc::clone(number));
            }
            Ok(None) => {}
            Err(fault) => tracing::error!(account, fault, "this chat-app link cannot be used"),
        }
    }
    cloud.numbers().link(linked);
    *read_at = now;
    Ok(())
}

/// Follows the links until the process drains.
pub async fn run(app: App) {
    while !app.is_draining() {
        if let Err(error) = refresh(&app).await {
            tracing::warn!(%error, "chat-app links not read; the last ones stay in force");
        }
        tokio::select! {
            () = app.db.rung(BELL) => {}
            () = app.rest(PAUSE_MS) => {}
        }
    }
}
