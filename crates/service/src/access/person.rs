//! People: users, each with one account per environment, and how they are created.

use store::{Reject, WriteSet, args};

use serde_json::json;

use super::Error;
use super::address::{self, email, in_unicode};
use super::audit::{By, Entry, record};
use super::door::Guest;
use super::guesses::Guesser;
use super::password::{self, Asker};
use super::store as sql;
use super::who::Who;
use crate::app::{App, BillingMode, Env, Standing};
use crate::kit::hashers::Desk;
use crate::kit::id::{AccountId, UserId};
use crate::kit::secret::Secret;

pub(super) const EMAIL_TAKEN: Reject = Reject("email_taken");

/// What a person proves who they are with.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The email as typed.
    pub email: &'a str,
    /// The password.
    pub password: &'a Secret,
}

/// A new user and their accounts.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The user.
    pub id: UserId,
    /// The email as stored.
    pub email: String,
    /// The account of the live environment.
    pub live: AccountId,
    /// The account of the sandbox.
    pub sandbox: AccountId,
}

/// Who makes a user.
#[derive(Clone, Copy, Debug)]
pub enum MadeBy<'a> {
    /// The new user, from outside. Where nobody may sign up on live, their live account waits for
    /// the operator.
    Guest(&'a Guest),
    /// The operator at the command line, who vouches for both accounts.
    Operator,
}

impl<'a> MadeBy<'a> {
    fn newcomer(self, app: &App, email: &'a str, password_hash: &'a str) -> Newcomer<'a> {
        let (maker, request_id) = match self {
            Self::Guest(guest) => (None, guest.request_id.as_str()),
            Self::Operator => (Some(By::CLI.who), By::CLI.request_id),
        };
        let is_pending = matches!(self, Self::Guest(_)) && !app.config.access.signup_live;
        let standing = if is_pending { Standing::Pending } else { Standing::Active };
        let live = Terms { standing, ..Terms::PREPAID };
        Newcomer { email, password_hash, live, maker, request_id }
    }

    fn asker(self) -> Asker {
        match self {
            Self::Guest(guest) => Asker::at(Desk::Public, &guest.address),
            Self::Operator => Asker::command_line(),
        }
    }
}

/// How an account begins.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What it may do.
    pub standing: Standing,
    /// How it pays.
    pub billing_mode: BillingMode,
    /// How far below zero it may go, credits.
    pub credit_limit: i64,
}

impl Terms {
    /// Pays in advance, from now on.
    pub const PREPAID: Self =
        Self { standing: Standing::Active, billing_mode: BillingMode::Prepaid, credit_limit: 0 };
}

/// A user to be made, with both accounts.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer<'a> {
    /// The email as stored.
    pub email: &'a str,
    /// The hash of their password.
    pub password_hash: &'a str,
    /// How their live account begins. The one in the sandbox is [`Terms::PREPAID`].
    pub live: Terms,
    /// Who makes them; `None` = they themselves.
    pub maker: Option<&'a Who>,
    /// The request; empty on the command line.
    pub request_id: &'a str,
}

/// Makes the write set of a new user and both accounts, without the sandbox's play money. The
/// commit is refused as [`Error::EmailTaken`] when someone has the email.
#[must_use]
pub fn new_user_set(app: &App, newcomer: &Newcomer<'_>) -> (NewUser, WriteSet) {
    let new = NewUser {
        id: UserId::new(&app.clock),
        email: newcomer.email.to_owned(),
        live: AccountId::new(&app.clock),
        sandbox: AccountId::new(&app.clock),
    };
    let mut set = WriteSet::of(new.id.as_str());
    let other = in_unicode(newcomer.email);
    if other != newcomer.email {
        // A row from before domains were stored in ASCII.
        set.absent(sql::USER_BY_EMAIL, args![&other, &other, &other], EMAIL_TAKEN);
    }
    let args = args![&new.id, newcomer.email, newcomer.password_hash, app.now()];
    set.guard(sql::ADD_USER, args, EMAIL_TAKEN);
    let myself = Who::User(new.id.clone());
    let by = By { who: newcomer.maker.unwrap_or(&myself), request_id: newcomer.request_id };
    let detail = json!({ "live": new.live.as_str(), "sandbox": new.sandbox.as_str() });
    record(app, &mut set, &about(by, "user.create", new.id.as_str(), detail));
    let (user, terms) = (&new.id, newcomer.live);
    let live = NewAccount { user, account: &new.live, env: Env::Live, terms };
    add_account(app, &mut set, by, live);
    let (env, terms) = (Env::Sandbox, Terms::PREPAID);
    add_account(app, &mut set, by, NewAccount { user, account: &new.sandbox, env, terms });
    (new, set)
}

/// An account of a user who is being made.
#[derive(Clone, Copy)]
struct NewAccount<'a> {
    user: &'a UserId,
    account: &'a AccountId,
    env: Env,
    terms: Terms,
}

/// The account, and the line of the audit log that the ledger's proof knows its terms from.
fn add_account(app: &App, set: &mut WriteSet, by: By<'_>, new: NewAccount<'_>) {
    let NewAccount { user, account, env, terms } = new;
    let Terms { standing, billing_mode, credit_limit } = terms;
    let (env, status) = (env.as_str(), standing.as_str());
    let args = args![account, user, env, status, billing_mode.as_str(), credit_limit, app.now()];
    set.push(sql::ADD_ACCOUNT, args);
    let detail = json!({
        "env": env, "user_id": user.as_str(), "status": status,
        "billing_mode": billing_mode.as_str(), "credit_limit": credit_limit,
    });
    let entry = Entry {
        actor: by.who,
        action: "account.create",
        object_id: account.as_str(),
        account: Some(account),
        request_id: by.request_id,
        detail,
    };
    record(app, set, &entry);
}

/// Makes a user and both accounts. `beside` adds what belongs into the same write set: the
/// sandbox's play money, a first login.
///
/// # Errors
/// [`Error::InvalidEmail`], [`Error::Password`], [`Error::EmailTaken`], [`Error::Overloaded`],
/// [`Error::Hashing`], [`Error::Commit`]; [`Error::TooManyLogins`] for an address that was told too
/// often which emails are taken.
pub async fn signup<T>(
    app: &App,
    credentials: Credentials<'_>,
    made_by: MadeBy<'_>,
    beside: impl FnOnce(&mut WriteSet, &NewUser) -> T,
) -> Result<(NewUser, T), Error> {
    let email = email(credentials.email).ok_or(Error::InvalidEmail)?;
    password::check(credentials.password.expose(), &email).map_err(Error::Password)?;
    let guesser = match made_by {
        MadeBy::Guest(guest) => Some(Guesser::of_signup(app, &guest.address)),
        MadeBy::Operator => None,
    };
    if let Some(guesser) = &guesser {
        guesser.must_not_wait(app).await?;
    }
    let hash = password::hash(app, &made_by.asker(), credentials.password).await?;
    let (new, mut set) = new_user_set(app, &made_by.newcomer(app, &email, &hash));
    let added = beside(&mut set, &new);
    match (app.db.commit(set).await.map_err(Error::from), guesser) {
        (Err(Error::EmailTaken), Some(guesser)) => {
            guesser.count(app).await?;
            Err(Error::EmailTaken)
        }
        (done, _) => done.map(|_| (new, added)),
    }
}

/// A user who was made before, as they are now.
///
/// # Errors
/// [`Error::NoSuchPerson`], [`Error::Db`].
pub async fn user(app: &App, id: &str) -> Result<NewUser, Error> {
    let id = UserId::stored(id.to_owned());
    let email = email_of(app, &id).await?.ok_or(Error::NoSuchPerson)?;
    let live = account_of(app, &id, Env::Live).await?;
    let sandbox = account_of(app, &id, Env::Sandbox).await?;
    Ok(NewUser { id, email, live, sandbox })
}

/// The user with this email; the time that it takes tells who there is.
///
/// # Errors
/// [`Error::NoSuchPerson`], [`Error::Db`].
pub async fn user_of(app: &App, typed: &str) -> Result<NewUser, Error> {
    let person = address::find(app, sql::USER_BY_EMAIL, typed).await?;
    user(app, &person.ok_or(Error::NoSuchPerson)?.id).await
}

/// Adds to a write set that a user's email reaches them.
pub fn proved(app: &App, set: &mut WriteSet, id: &UserId, request_id: &str) {
    set.push(sql::PROVED_EMAIL, args![app.now(), id]);
    let who = Who::User(id.clone());
    let by = By { who: &who, request_id };
    record(app, set, &about(by, "user.verify_email", id.as_str(), json!({})));
}

async fn account_of(app: &App, user: &UserId, env: Env) -> Result<AccountId, Error> {
    let row: Option<sql::AccountRow> =
        app.db.row(sql::ACCOUNT_OF_USER, args![user, env.as_str()]).await?;
    row.map(|sql::AccountRow(account)| account.id).ok_or(Error::NoSuchPerson)
}

/// The email of a user.
///
/// # Errors
/// See [`store::Error`].
pub async fn email_of(app: &App, user: &UserId) -> Result<Option<String>, store::Error> {
    let person: Option<sql::Person> = app.db.row(sql::USER_BY_ID, args![user]).await?;
    Ok(person.map(|person| person.email))
}

/// A line of the audit log about a person.
pub(super) fn about<'a>(
    by: By<'a>,
    action: &'static str,
    object_id: &'a str,
    detail: serde_json::Value,
) -> Entry<'a> {
    let (actor, request_id) = (by.who, by.request_id);
    Entry { actor, action, object_id, account: None, request_id, detail }
}
