//! Rank 4: who may call. Users with a password, one account for each environment, tokens for
//! people, keys for programs. A handler's `Caller<…>` or `Staff` argument is its authorization.

mod account;
mod address;
pub mod api;
pub mod audit;
pub mod caller;
mod door;
mod guesses;
pub mod holder;
pub mod idempotency;
pub mod key;
pub mod limits;
mod login;
pub mod password;
mod person;
pub mod refused;
pub mod retention;
mod scope;
pub mod sessions;
pub mod staff;
mod store;
pub mod token;
mod who;

use ::store::{CommitError, Reject, WriteSet, args};
use clock::Millis;

pub use account::account;
pub use address::{email, spellings};
pub use audit::{By, Entry, record};
pub use caller::{
    Caller, CheckOtp, Myself, Policy, Portal, ReadAccount, ReadInbound, RequestNotes, SendOtp,
    Staff, TestCaller, client_of, forget_account,
};
pub use door::{Guest, Leaver};
pub use login::{
    Identity, Login, Owner, Passwords, Prover, admit, change_password, login, login_again, logout,
    once_with_password, reset_set, set_password,
};
pub use person::{
    Credentials, MadeBy, NewUser, Newcomer, Terms, email_of, new_user_set, proved, signup, user,
    user_of,
};
pub use scope::Scope;
pub use staff::{StaffMember, add_staff};
pub use who::Who;

use crate::app::{Account, App};
use crate::kit::id::{AccountId, KeyId};
use crate::kit::page::Page;
use crate::kit::seal::sha256;
use crate::kit::secret::Secret;
use idempotency::{Claim, Seen};
use limits::Limited;

/// Active keys of an account at most.
pub const MOST_KEYS: i64 = 100;
const KEY_DISABLED: Reject = Reject("key_disabled");
const TOO_MANY_KEYS: Reject = Reject("too_many_keys");

/// What goes wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Email or password is wrong; which one is not told.
    #[error("email or password is wrong")]
    InvalidLogin,
    /// Too many failures: wait.
    #[error("too many failed logins, wait {wait_s} s")]
    TooManyLogins {
        /// Seconds to wait.
        wait_s: i64,
    },
    /// The email is no address.
    #[error("the email is not a valid address")]
    InvalidEmail,
    /// Someone has this email already.
    #[error("the email is already registered")]
    EmailTaken,
    /// The password breaks a rule.
    #[error("the password {0}")]
    Password(password::Fault),
    /// The new password in the place of another one breaks a rule.
    #[error("the new password {0}")]
    NewPassword(password::Fault),
    /// Nobody has this email.
    #[error("no user has this email")]
    NoSuchPerson,
    /// Nobody on the staff has this id.
    #[error("nobody on the staff has this id")]
    NoSuchStaff,
    /// No such login of this person, or it has ended.
    #[error("there is no such login")]
    NoSuchSession,
    /// Nobody would be left who could let others in.
    #[error("the last member of staff can be removed only at the command line")]
    LastStaff,
    /// The account has [`MOST_KEYS`] active keys.
    #[error("the account has {MOST_KEYS} active keys; disable one first")]
    TooManyKeys,
    /// No such key of this account.
    #[error("there is no such API key")]
    NoSuchKey,
    /// Too many passwords wait to be hashed, or too many writes.
    #[error("the service is busy")]
    Overloaded,
    /// Too many passwords of one person or address wait to be hashed.
    #[error("too many requests from the same client are waiting")]
    OverShare,
    /// The password hasher failed.
    #[error("hashing failed: {0}")]
    Hashing(String),
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A write failed.
    #[error(transparent)]
    Commit(CommitError),
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Rejected(person::EMAIL_TAKEN) => Self::EmailTaken,
            CommitError::Rejected(login::PASSWORD_CHANGED) => Self::InvalidLogin,
            CommitError::Rejected(TOO_MANY_KEYS) => Self::TooManyKeys,
            CommitError::Overloaded => Self::Overloaded,
            other => Self::Commit(other),
        }
    }
}

/// An API key as its owner sees it, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// The owner's name for it.
    pub name: String,
    /// The part that may be shown.
    pub prefix: String,
    /// Whether it opens anything.
    pub active: bool,
    /// What it may do, as a bit set; see [`Scope::words`].
    pub scopes: u16,
    /// When it was made.
    pub created_at: Millis,
}

impl From<store::KeyRow> for ApiKey {
    fn from(row: store::KeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            prefix: row.prefix,
            active: row.active,
            scopes: Scope::stored(&row.scopes),
            created_at: row.created_at,
        }
    }
}

/// What a new key is to be.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The owner's name for it, 1 to 100 characters.
    pub name: String,
    /// What it may do, as a bit set; see [`Scope::set`].
    pub scopes: u16,
}

/// Makes a key for an account. The raw key exists in this answer only.
///
/// # Errors
/// [`Error::TooManyKeys`], [`Error::Overloaded`], [`Error::Commit`].
pub async fn create_key(
    app: &App,
    account: &Account,
    wanted: &NewKey,
    by: By<'_>,
    claim: &Claim,
) -> Result<(Secret, ApiKey), Error> {
    let raw = key::make(&app.clock, account.env);
    let id = KeyId::new(&app.clock);
    let made = ApiKey {
        created_at: id.time(),
        id,
        name: wanted.name.clone(),
        prefix: key::prefix(&raw),
        active: true,
        scopes: wanted.scopes,
    };
    let words = Scope::words(made.scopes).join(" ");
    let mut set = WriteSet::of(account.id.as_str());
    let sealed = claim.seal(app, made.id.as_str(), &raw);
    claim.add_to(&mut set, made.id.as_str(), sealed, made.created_at);
    let row = args![
        &account.id,
        &made.id,
        made.name.as_str(),
        made.prefix.as_str(),
        words.as_str(),
        made.created_at,
    ];
    limits::one_by_one(&mut set, &account.id, Limited::Keys);
    set.absent(store::LAST_OF_ALL, args![&account.id, MOST_KEYS - 1], TOO_MANY_KEYS);
    set.push(store::ADD_KEY, row);
    let hash = sha256(raw.expose().as_bytes());
    set.push(store::ADD_KEY_HASH, args![hash, &account.id, &made.id]);
    let detail = serde_json::json!({ "name": made.name, "scopes": words });
    record(app, &mut set, &entry(by, "api_key.create", &account.id, &made.id, detail));
    app.db.commit(set).await?;
    Ok((raw, made))
}

/// The key that an earlier, equal request made; with the raw key for ten minutes.
///
/// # Errors
/// [`Error::NoSuchKey`], [`Error::Db`].
pub async fn replay_key(
    app: &App,
    account: &AccountId,
    seen: &Seen,
) -> Result<(Option<Secret>, ApiKey), Error> {
    let made = find_key(app, account, &KeyId::stored(seen.object_id.clone())).await?;
    Ok((seen.secret(app), made))
}

/// One page of an account's keys, newest first, and one more if there is one.
///
/// # Errors
/// [`Error::Db`].
pub async fn list_keys(app: &App, account: &AccountId, page: &Page) -> Result<Vec<ApiKey>, Error> {
    let args = args![account, page.after.as_str(), page.limit + 1];
    let rows: Vec<store::KeyRow> = app.db.rows(store::KEYS, args).await?;
    Ok(rows.into_iter().map(ApiKey::from).collect())
}

/// Ends a key, on this node at once. Ending it again changes nothing.
///
/// # Errors
/// [`Error::NoSuchKey`], [`Error::Overloaded`], [`Error::Db`], [`Error::Commit`].
pub async fn disable_key(
    app: &App,
    account: &AccountId,
    id: &KeyId,
    by: By<'_>,
) -> Result<(), Error> {
    if find_key(app, account, id).await?.active {
        let mut set = WriteSet::of(account.as_str());
        set.guard(store::DISABLE_KEY, args![app.now(), account, id], KEY_DISABLED);
        let detail = serde_json::json!({});
        record(app, &mut set, &entry(by, "api_key.disable", account, id, detail));
        match app.db.commit(set).await {
            // Someone else ended it at the same moment.
            Ok(_) | Err(CommitError::Rejected(KEY_DISABLED)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    caller::forget_key(app, id);
    Ok(())
}

async fn find_key(app: &App, account: &AccountId, id: &KeyId) -> Result<ApiKey, Error> {
    let row: Option<store::KeyRow> = app.db.row(store::KEY, args![account, id]).await?;
    row.map(ApiKey::from).ok_or(Error::NoSuchKey)
}

fn entry<'a>(
    by: By<'a>,
    action: &'static str,
    account: &'a AccountId,
    key: &'a KeyId,
    detail: serde_json::Value,
) -> Entry<'a> {
    Entry {
        actor: by.who,
        action,
        object_id: key.as_str(),
        account: Some(account),
        request_id: by.request_id,
        detail,
    }
}
