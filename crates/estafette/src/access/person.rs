//! People: users with one account for each environment, the operator's staff, their logins.

use store::{CommitError, Reject, Sql, WriteSet, args};

use clock::Millis;
use serde_json::json;

use super::audit::{By, Entry, record};
use super::caller::{Caller, Portal, Staff, Who};
use super::store as sql;
use super::token::{self, Kind};
use super::{Error, password};
use crate::app::{Account, App, Env};
use crate::kit::id::{AccountId, StaffId, UserId};
use crate::kit::secret::Secret;

pub(super) const EMAIL_TAKEN: Reject = Reject("email_taken");
pub(super) const PASSWORD_CHANGED: Reject = Reject("password_changed");
const ATTEMPT_RACED: Reject = Reject("login_attempt_raced");

/// Failures that are free of waiting.
const FREE_FAILURES: i64 = 5;
/// Longest wait after a failure, milliseconds.
const LONGEST_WAIT: i64 = 15 * clock::MINUTE;
/// Tries to count an attempt while others of the same person are being counted.
const COUNT_TRIES: u32 = 20;
/// Most characters of an email address.
const LONGEST_EMAIL: usize = 254;

/// Puts the play money of a new sandbox account into its write set; credits are of a higher rank.
pub type Grant = fn(&App, &mut WriteSet, &AccountId);

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

/// A login that went well.
#[derive(Clone, Debug)]
pub struct Login {
    /// The token; it exists in this answer only.
    pub token: Secret,
    /// When it ends.
    pub expires_at: Millis,
    /// The user's or the staff member's id.
    pub id: String,
    /// Their email.
    pub email: String,
}

/// An email address as it is stored: trimmed and in lower case; `None` when it is none.
#[must_use]
pub fn email(typed: &str) -> Option<String> {
    let text = typed.trim().to_lowercase();
    let (name, domain) = text.split_once('@')?;
    let is_good = !name.is_empty()
        && !domain.contains('@')
        && domain.contains('.')
        && !domain.split('.').any(str::is_empty)
        && text.chars().count() <= LONGEST_EMAIL
        && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    is_good.then_some(text)
}

/// Makes the write set of a new user and both accounts, without the sandbox's play money. The
/// commit is refused as [`Error::EmailTaken`] when someone has the email.
#[must_use]
pub fn new_user_set(app: &App, email: &str, hash: &str) -> (NewUser, WriteSet) {
    let new = NewUser {
        id: UserId::new(&app.clock),
        email: email.to_owned(),
        live: AccountId::new(&app.clock),
        sandbox: AccountId::new(&app.clock),
    };
    let now = app.now();
    let mut set = WriteSet::of(new.id.as_str());
    set.guard(sql::ADD_USER, args![&new.id, email, hash, now], EMAIL_TAKEN);
    for (account, env) in [(&new.live, Env::Live), (&new.sandbox, Env::Sandbox)] {
        set.push(sql::ADD_ACCOUNT, args![account, &new.id, env.word(), now]);
    }
    (new, set)
}

/// Makes a user and both accounts. `actor` is who does it; `None` = the new user.
///
/// # Errors
/// [`Error::InvalidEmail`], [`Error::Password`], [`Error::EmailTaken`], [`Error::Overloaded`],
/// [`Error::Hashing`], [`Error::Commit`].
pub async fn signup(
    app: &App,
    grant: Grant,
    credentials: Credentials<'_>,
    actor: Option<&Who>,
    request_id: &str,
) -> Result<NewUser, Error> {
    let email = email(credentials.email).ok_or(Error::InvalidEmail)?;
    password::check(credentials.password.expose()).map_err(Error::Password)?;
    let hash = password::hash(app, credentials.password).await?;
    let (new, mut set) = new_user_set(app, &email, &hash);
    grant(app, &mut set, &new.sandbox);
    let myself = Who::User(new.id.clone());
    let by = By { who: actor.unwrap_or(&myself), request_id };
    let detail = json!({ "live": new.live.as_str(), "sandbox": new.sandbox.as_str() });
    note(app, &mut set, by, ("user.create", new.id.as_str(), detail));
    app.db.commit(set).await?;
    Ok(new)
}

/// Makes a member of the operator's staff.
///
/// # Errors
/// As [`signup`].
pub async fn add_staff(
    app: &App,
    credentials: Credentials<'_>,
    by: By<'_>,
) -> Result<StaffId, Error> {
    let email = email(credentials.email).ok_or(Error::InvalidEmail)?;
    password::check(credentials.password.expose()).map_err(Error::Password)?;
    let hash = password::hash(app, credentials.password).await?;
    let id = StaffId::new(&app.clock);
    let mut set = WriteSet::of(id.as_str());
    set.guard(sql::ADD_STAFF, args![&id, email, hash, app.now()], EMAIL_TAKEN);
    note(app, &mut set, by, ("staff.create", id.as_str(), json!({})));
    app.db.commit(set).await?;
    Ok(id)
}

/// The part of an account that requests need.
///
/// # Errors
/// See [`store::Error`].
pub async fn account(app: &App, id: &AccountId) -> Result<Option<Account>, store::Error> {
    let row: Option<sql::AccountRow> = app.db.row(sql::ACCOUNT, args![id]).await?;
    Ok(row.map(|sql::AccountRow(account)| account))
}

/// The email of a user.
///
/// # Errors
/// See [`store::Error`].
pub async fn email_of(app: &App, user: &UserId) -> Result<Option<String>, store::Error> {
    let person: Option<sql::Person> = app.db.row(sql::USER_BY_ID, args![user]).await?;
    Ok(person.map(|person| person.email))
}

/// Opens the portal for a user.
///
/// # Errors
/// [`Error::InvalidLogin`], [`Error::TooManyLogins`], [`Error::Overloaded`], [`Error::Hashing`],
/// [`Error::Db`], [`Error::Commit`].
pub async fn login(app: &App, credentials: Credentials<'_>) -> Result<Login, Error> {
    let person = prove(app, Kind::Portal, credentials).await?;
    let mut set = WriteSet::of(&person.id);
    let args = args![person.id.as_str(), person.password_hash.as_str()];
    set.guard(sql::CLEAR_USER_LOGIN, args, PASSWORD_CHANGED);
    issue(app, set, Kind::Portal, (person.id, person.email)).await
}

/// Opens the operator's routes for a member of staff.
///
/// # Errors
/// As [`login`].
pub async fn staff_login(
    app: &App,
    credentials: Credentials<'_>,
    request_id: &str,
) -> Result<Login, Error> {
    let person = prove(app, Kind::Staff, credentials).await?;
    let mut set = WriteSet::of(&person.id);
    let args = args![person.id.as_str(), person.password_hash.as_str()];
    set.guard(sql::CLEAR_STAFF_LOGIN, args, PASSWORD_CHANGED);
    let who = Who::Staff(StaffId::stored(person.id.clone()));
    note(app, &mut set, By { who: &who, request_id }, ("staff.login", &person.id, json!({})));
    issue(app, set, Kind::Staff, (person.id, person.email)).await
}

/// Opens the portal for a user who signed up a moment ago.
///
/// # Errors
/// [`Error::Overloaded`], [`Error::Commit`].
pub async fn login_new(app: &App, new: &NewUser) -> Result<Login, Error> {
    let set = WriteSet::of(new.id.as_str());
    issue(app, set, Kind::Portal, (new.id.as_str().to_owned(), new.email.clone())).await
}

/// Ends the token of this caller.
///
/// # Errors
/// [`Error::Overloaded`], [`Error::Commit`].
pub async fn logout(app: &App, caller: &Caller<Portal>) -> Result<(), Error> {
    let mut set = WriteSet::of(caller.who.id());
    if let Some(hash) = caller.token {
        token::revoke(app, &mut set, hash);
    }
    app.db.commit(set).await?;
    Ok(())
}

/// Ends the token of this member of staff.
///
/// # Errors
/// [`Error::Overloaded`], [`Error::Commit`].
pub async fn staff_logout(app: &App, staff: &Staff) -> Result<(), Error> {
    let mut set = WriteSet::of(staff.id.as_str());
    token::revoke(app, &mut set, staff.token);
    note(app, &mut set, staff.by(), ("staff.logout", staff.id.as_str(), json!({})));
    app.db.commit(set).await?;
    Ok(())
}

/// Replaces a user's password and ends all their other tokens.
///
/// # Errors
/// [`Error::Password`]; [`Error::InvalidLogin`] when `current` is wrong; else as [`login`].
pub async fn change_password(
    app: &App,
    caller: &Caller<Portal>,
    current: &Secret,
    new: &Secret,
) -> Result<(), Error> {
    password::check(new.expose()).map_err(Error::Password)?;
    let id = caller.who.id();
    let find = || app.db.row::<sql::Person>(sql::USER_BY_ID, args![id]);
    let person = count_attempt(app, Kind::Portal, find).await?;
    let stored = person.as_ref().map(|person| person.password_hash.as_str());
    let is_right = password::is_right(app, current, stored).await?;
    let person = person.filter(|_| is_right).ok_or(Error::InvalidLogin)?;
    let hash = password::hash(app, new).await?;
    let mut set = WriteSet::of(id);
    let args = args![hash, id, person.password_hash];
    set.guard(sql::CHANGE_PASSWORD, args, PASSWORD_CHANGED);
    token::revoke_all(app, &mut set, id, caller.token);
    note(app, &mut set, caller.by(), ("user.password", id, json!({})));
    app.db.commit(set).await?;
    Ok(())
}

/// The person with these credentials. The answer for an unknown email takes as long as the one
/// for a wrong password, and is the same.
async fn prove(app: &App, kind: Kind, credentials: Credentials<'_>) -> Result<sql::Person, Error> {
    let person = match email(credentials.email) {
        Some(email) => {
            let by_email = match kind {
                Kind::Portal => sql::USER_BY_EMAIL,
                Kind::Staff => sql::STAFF_BY_EMAIL,
            };
            let find = || app.db.row::<sql::Person>(by_email, args![email.as_str()]);
            count_attempt(app, kind, find).await?
        }
        None => None,
    };
    let stored = person.as_ref().map(|person| person.password_hash.as_str());
    let is_right = password::is_right(app, credentials.password, stored).await?;
    person.filter(|_| is_right).ok_or(Error::InvalidLogin)
}

/// Counts an attempt as failed before the password is looked at, so that guesses sent all at once
/// are no cheaper than one after the other. A success clears the count.
async fn count_attempt<F>(
    app: &App,
    kind: Kind,
    find: impl Fn() -> F,
) -> Result<Option<sql::Person>, Error>
where
    F: Future<Output = Result<Option<sql::Person>, store::Error>>,
{
    for _ in 0..COUNT_TRIES {
        let Some(person) = find().await? else { return Ok(None) };
        let now = app.now();
        if person.next_login_at > now {
            return Err(Error::TooManyLogins { wait_s: seconds(person.next_login_at - now) });
        }
        let next = now + wait_after(person.failed_logins + 1);
        let mut set = WriteSet::of(&person.id);
        let args = args![next, person.id.as_str(), person.failed_logins];
        set.guard(charge(kind), args, ATTEMPT_RACED);
        match app.db.commit(set).await {
            Ok(_) => return Ok(Some(person)),
            Err(CommitError::Rejected(ATTEMPT_RACED)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::TooManyLogins { wait_s: 1 })
}

const fn charge(kind: Kind) -> Sql {
    match kind {
        Kind::Portal => sql::CHARGE_USER_LOGIN,
        Kind::Staff => sql::CHARGE_STAFF_LOGIN,
    }
}

/// Milliseconds to wait after so many failures: none, then 1 s and twice as long each time.
fn wait_after(failures: i64) -> i64 {
    let over = failures - FREE_FAILURES;
    if over < 0 {
        return 0;
    }
    let doubled = u32::try_from(over).ok().and_then(|over| 1_000_i64.checked_shl(over.min(20)));
    doubled.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
}

/// Whole seconds, rounded up.
const fn seconds(ms: i64) -> i64 {
    (ms + 999) / 1_000
}

async fn issue(
    app: &App,
    mut set: WriteSet,
    kind: Kind,
    (id, email): (String, String),
) -> Result<Login, Error> {
    let (token, expires_at) = token::new_token(app, &mut set, kind, &id);
    app.db.commit(set).await?;
    Ok(Login { token, expires_at, id, email })
}

fn note(
    app: &App,
    set: &mut WriteSet,
    by: By<'_>,
    (action, object_id, detail): (&'static str, &str, serde_json::Value),
) {
    let (actor, request_id) = (by.who, by.request_id);
    record(app, set, &Entry { actor, action, object_id, account: None, request_id, detail });
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_WAIT, email, seconds, wait_after};

    #[test]
    fn emails_are_trimmed_lower_cased_and_checked() {
        assert_eq!(email(" Ana.B@Example.COM "), Some("ana.b@example.com".to_owned()));
        let long = format!("{}@example.com", "x".repeat(243));
        let bad = [
            "",
            "a",
            "a@",
            "@b.c",
            "a@b",
            "a@@b.c",
            "a@b@c.d",
            "a b@c.d",
            "a@b..c",
            "a@.c",
            "a@b.",
            "a\u{0}@b.c",
            &long,
        ];
        for text in bad {
            assert_eq!(email(text), None, "{text}");
        }
    }

    #[test]
    fn four_failures_are_free_and_then_each_doubles_the_wait() {
        assert_eq!((0..=4).map(wait_after).max(), Some(0));
        assert_eq!(wait_after(5), 1_000);
        assert_eq!(wait_after(6), 2_000);
        assert_eq!(wait_after(14), 512_000);
        for failures in [15, 30, 200, i64::MAX] {
            assert_eq!(wait_after(failures), LONGEST_WAIT, "{failures}");
        }
    }

    #[test]
    fn a_part_of_a_second_is_waited_as_a_whole_one() {
        assert_eq!((seconds(1), seconds(1_000), seconds(1_001)), (1, 1, 2));
    }
}
