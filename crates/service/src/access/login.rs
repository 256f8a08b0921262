//! Logins and passwords, for users and staff alike: whoever proves their identity gets a token.

use clock::Millis;
use serde_json::json;
use store::{Reject, Sql, WriteSet, args};

use super::address::{self, email};
use super::audit::{By, record};
use super::door::Guest;
use super::guesses::Guesser;
use super::idempotency::{self, Claim, Once, Repeatable, Seen};
use super::password::{self, Asker};
use super::person::{Credentials, about};
use super::store as sql;
use super::token::{self, Kind};
use super::who::Who;
use super::{Error, staff};
use crate::app::App;
use crate::kit::hashers::{Desk, Seat};
use crate::kit::id::{StaffId, UserId};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::seal::hex;
use crate::kit::secret::Secret;

pub(super) const PASSWORD_CHANGED: Reject = Reject("password_changed");

/// A login that went well.
#[derive(Clone, Debug)]
pub struct Login {
    /// The token. It exists in this answer, and for ten minutes in those to its repeats.
    pub token: Secret,
    /// When it ends.
    pub expires_at: Millis,
    /// The user's or the staff member's id.
    pub id: String,
    /// Their email.
    pub email: String,
    /// Whether an earlier request made it.
    pub is_repeated: bool,
}

/// A person who changes their own password.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Who it is: a user or a member of staff.
    pub by: By<'a>,
    /// The token that goes on.
    pub token: Option<[u8; 32]>,
    /// Where they are.
    pub guest: &'a Guest,
}

impl Kind {
    const fn by_email(self) -> Sql {
        match self {
            Self::Portal => sql::USER_BY_EMAIL,
            Self::Staff => sql::STAFF_BY_EMAIL,
        }
    }

    const fn by_id(self) -> Sql {
        match self {
            Self::Portal => sql::USER_BY_ID,
            Self::Staff => sql::STAFF_BY_ID,
        }
    }

    const fn logged_in(self) -> Sql {
        match self {
            Self::Portal => sql::USER_LOGGED_IN,
            Self::Staff => sql::STAFF_LOGGED_IN,
        }
    }

    const fn change_password(self) -> Sql {
        match self {
            Self::Portal => sql::CHANGE_USER_PASSWORD,
            Self::Staff => sql::CHANGE_STAFF_PASSWORD,
        }
    }

    const fn password_action(self) -> &'static str {
        match self {
            Self::Portal => "user.password",
            Self::Staff => "staff.password",
        }
    }

    const fn desk(self) -> Desk {
        match self {
            Self::Portal => Desk::Public,
            Self::Staff => Desk::Staff,
        }
    }

    const fn desk_of_changes(self) -> Desk {
        match self {
            Self::Portal => Desk::Changes,
            Self::Staff => Desk::Staff,
        }
    }

    pub(super) fn who(self, id: &str) -> Who {
        match self {
            Self::Portal => Who::User(UserId::stored(id.to_owned())),
            Self::Staff => Who::Staff(StaffId::stored(id.to_owned())),
        }
    }
}

/// Opens the portal for a user, or the operator's routes for a member of staff.
///
/// # Errors
/// [`Error::InvalidLogin`], [`Error::TooManyLogins`], [`Error::Overloaded`], [`Error::OverShare`],
/// [`Error::Hashing`], [`Error::Db`], [`Error::Commit`].
pub async fn login(
    app: &App,
    kind: Kind,
    credentials: Credentials<'_>,
    guest: &Guest,
    claim: &Claim,
) -> Result<Login, Error> {
    let person = address::find(app, kind.by_email(), credentials.email).await?;
    let known = person.as_ref().map(|person| person.id.clone());
    let attempt = Attempt {
        guesser: Guesser::of_login(app, kind, credentials.email, &guest.address),
        asker: Asker::at(kind.desk(), &guest.address),
        password: credentials.password,
    };
    let proved = attempt.prove(app, person).await;
    if let (Kind::Staff, Err(refused)) = (kind, &proved) {
        staff::note_refused_login(app, known.as_deref(), refused, guest);
    }
    let (person, _) = proved?;
    let mut set = WriteSet::of(&person.id);
    let args = args![app.now(), person.id.as_str(), person.password_hash.as_str()];
    set.guard(kind.logged_in(), args, PASSWORD_CHANGED);
    attempt.guesser.forgive(&mut set);
    if kind == Kind::Staff {
        let by = By { who: &kind.who(&person.id), request_id: &guest.request_id };
        record(app, &mut set, &about(by, "staff.login", &person.id, json!({})));
    }
    let login = admit(app, &mut set, kind, Identity { id: person.id, email: person.email }, claim);
    app.db.commit(set).await?;
    Ok(login)
}

/// Who logs in.
pub struct Identity {
    /// The user's or the staff member's id.
    pub id: String,
    /// Their email.
    pub email: String,
}

/// Adds a login to a write set: the token, and what a repeat of the request needs of it.
#[must_use]
pub fn admit(
    app: &App,
    set: &mut WriteSet,
    kind: Kind,
    identity: Identity,
    claim: &Claim,
) -> Login {
    let Identity { id, email } = identity;
    let (token, expires_at) = token::new_token(app, set, kind, &id);
    claim.add_to(set, &id, claim.seal(app, &id, &token), app.now());
    Login { token, expires_at, id, email, is_repeated: false }
}

/// The login of an earlier, equal request: with its token for ten minutes, as long as that is good.
/// After that the password counts anew: a token that has ended is no answer, nor is none.
///
/// # Errors
/// As [`login`].
pub async fn login_again(
    app: &App,
    kind: Kind,
    credentials: Credentials<'_>,
    guest: &Guest,
    seen: &Seen,
) -> Result<Login, Error> {
    let person: Option<sql::Person> = app.db.row(kind.by_id(), args![&seen.object_id]).await?;
    let person = person.ok_or(Error::InvalidLogin)?;
    match seen.secret(app) {
        Some(token) if token::is_good(app, token::hash(token.expose())).await? => {
            let expires_at = seen.created_at + token::life_ms(app, kind);
            let (id, email) = (person.id, person.email);
            Ok(Login { token, expires_at, id, email, is_repeated: true })
        }
        _ => login(app, kind, credentials, guest, &Claim::default()).await,
    }
}

/// Who shows a password.
#[derive(Clone, Copy)]
pub struct Prover<'a> {
    /// A user or a member of staff.
    pub kind: Kind,
    /// Whose password it is: an email or an id.
    pub whose: &'a str,
    /// Where they are.
    pub guest: &'a Guest,
}

/// Carries out, once, a request with a password. Who sends other passwords under a key that they
/// know would learn from the refusals which is the right one: that counts as guessing.
///
/// # Errors
/// As [`idempotency::once`]; 429 `too_many_logins`.
pub async fn once_with_password<T>(
    app: &App,
    prover: Prover<'_>,
    request: Repeatable<'_>,
    fresh: impl AsyncFnOnce(Claim) -> Result<T, Problem>,
    again: impl AsyncFnOnce(Seen) -> Result<T, Problem>,
) -> Result<Once<T>, Problem> {
    let Prover { kind, whose, guest } = prover;
    let guesser = Guesser::of_login(app, kind, whose, &guest.address);
    let again = async |seen: Seen| {
        guesser.must_not_wait(app).await?;
        again(seen).await
    };
    let done = idempotency::once(app, request, fresh, again).await;
    if done.as_ref().is_err_and(|problem| problem.code() == Code::IdempotencyKeyReused) {
        guesser.count(app).await?;
    }
    done
}

/// Ends the token that a person called with.
///
/// # Errors
/// [`Error::Overloaded`], [`Error::Commit`].
pub async fn logout(
    app: &App,
    kind: Kind,
    by: By<'_>,
    token: [u8; 32],
    claim: &Claim,
) -> Result<(), Error> {
    let mut set = WriteSet::of(by.who.id());
    claim.add_to(&mut set, &hex(&token), None, app.now());
    token::revoke(app, &mut set, token);
    if kind == Kind::Staff {
        record(app, &mut set, &about(by, "staff.logout", by.who.id(), json!({})));
    }
    app.db.commit(set).await?;
    token::ended(app, by.who.id());
    Ok(())
}

/// A person's passwords, as a change names them.
#[derive(Clone, Copy)]
pub struct Passwords<'a> {
    /// The one that they have.
    pub current: &'a Secret,
    /// The one that they want.
    pub new: &'a Secret,
}

/// Replaces a person's password and ends all their other tokens and resets.
///
/// # Errors
/// [`Error::NewPassword`]; [`Error::InvalidLogin`] when `current` is wrong; else as [`login`].
pub async fn change_password(
    app: &App,
    kind: Kind,
    owner: Owner<'_>,
    passwords: Passwords<'_>,
    claim: &Claim,
) -> Result<(), Error> {
    let Passwords { current, new } = passwords;
    // Only who knows the current password gets further with it, so this tells nobody what it is.
    if current.expose() == new.expose() {
        return Err(Error::NewPassword(password::Fault::Unchanged));
    }
    let id = owner.by.who.id();
    let person: Option<sql::Person> = app.db.row(kind.by_id(), args![id]).await?;
    let email = person.as_ref().map_or("", |person| &person.email);
    password::check(new.expose(), email).map_err(Error::NewPassword)?;
    let attempt = Attempt {
        guesser: Guesser::of_login(app, kind, email, &owner.guest.address),
        asker: Asker::at(kind.desk_of_changes(), &owner.guest.address).known_as(id),
        password: current,
    };
    let (person, place) = attempt.prove(app, person).await?;
    let hash = password::hash_at(app, place, new).await?;
    let mut set = replace_password(app, kind, &person, &hash, owner.token);
    token::end_resets(app, &mut set, &person.id);
    attempt.guesser.forgive(&mut set);
    claim.add_to(&mut set, id, None, app.now());
    record(app, &mut set, &about(owner.by, kind.password_action(), id, json!({})));
    app.db.commit(set).await?;
    token::ended(app, id);
    Ok(())
}

/// Gives a person another password, without the old one, and ends all their tokens and resets.
/// Answers whose.
///
/// # Errors
/// [`Error::NoSuchPerson`], [`Error::Password`], [`Error::Hashing`], [`Error::Db`],
/// [`Error::Commit`].
pub async fn set_password(
    app: &App,
    kind: Kind,
    credentials: Credentials<'_>,
    by: By<'_>,
) -> Result<String, Error> {
    let email = email(credentials.email).ok_or(Error::InvalidEmail)?;
    password::check(credentials.password.expose(), &email).map_err(Error::Password)?;
    let person = address::find(app, kind.by_email(), credentials.email).await?;
    let person = person.ok_or(Error::NoSuchPerson)?;
    let hash = password::hash(app, &Asker::command_line(), credentials.password).await?;
    let mut set = replace_password(app, kind, &person, &hash, None);
    token::end_resets(app, &mut set, &person.id);
    record(app, &mut set, &about(by, kind.password_action(), &person.id, json!({})));
    app.db.commit(set).await?;
    token::ended(app, &person.id);
    Ok(person.id)
}

/// The write set of a new password for a user who proved that their email reaches them: it ends all
/// their logins, and what failed from this address does not make them wait.
///
/// # Errors
/// [`Error::NoSuchPerson`], [`Error::NewPassword`], [`Error::Overloaded`], [`Error::OverShare`],
/// [`Error::Hashing`], [`Error::Db`].
pub async fn reset_set(
    app: &App,
    user: &UserId,
    new: &Secret,
    guest: &Guest,
) -> Result<WriteSet, Error> {
    let person: Option<sql::Person> = app.db.row(sql::USER_BY_ID, args![user]).await?;
    let person = person.ok_or(Error::NoSuchPerson)?;
    password::check(new.expose(), &person.email).map_err(Error::NewPassword)?;
    let asker = Asker::at(Desk::Changes, &guest.address).known_as(&person.id);
    let hash = password::hash(app, &asker, new).await?;
    let mut set = replace_password(app, Kind::Portal, &person, &hash, None);
    let guesser = Guesser::of_login(app, Kind::Portal, &person.email, &guest.address);
    guesser.forgive(&mut set);
    let who = Who::User(user.clone());
    let by = By { who: &who, request_id: &guest.request_id };
    let detail = json!({ "network": guest.network });
    record(app, &mut set, &about(by, "user.password_reset", &person.id, detail));
    Ok(set)
}

/// A password that somebody shows.
struct Attempt<'a> {
    guesser: Guesser,
    asker: Asker,
    password: &'a Secret,
}

impl Attempt<'_> {
    /// The person, if this is their password, and the seat at the hashers. It takes as long where
    /// there is nobody. Who has to wait does not stand in line; who stands there is counted once
    /// they have a seat, so that the rows of failures grow no faster than passwords can be hashed.
    async fn prove(
        &self,
        app: &App,
        person: Option<sql::Person>,
    ) -> Result<(sql::Person, Seat), Error> {
        self.guesser.must_not_wait(app).await?;
        let seat = password::seat(app, &self.asker).await?;
        self.guesser.count(app).await?;
        let stored = person.as_ref().map(|person| person.password_hash.as_str());
        let (is_right, seat) = password::is_right(seat, self.password, stored).await?;
        let person = person.filter(|_| is_right).ok_or(Error::InvalidLogin)?;
        Ok((person, seat))
    }
}

fn replace_password(
    app: &App,
    kind: Kind,
    person: &sql::Person,
    hash: &str,
    keep: Option<[u8; 32]>,
) -> WriteSet {
    let mut set = WriteSet::of(&person.id);
    let args = args![hash, person.id.as_str(), person.password_hash.as_str()];
    set.guard(kind.change_password(), args, PASSWORD_CHANGED);
    token::revoke_all(app, &mut set, &person.id, keep);
    set
}
