//! The operator's staff: who they are, and the record of failed logins in their name.

pub mod api;

use clock::Millis;
use serde_json::json;
use store::{CommitError, Reject, WriteSet, args};

use super::address::{self, email, in_unicode};
use super::audit::{By, record};
use super::door::Guest;
use super::idempotency::Claim;
use super::password::{self, Asker};
use super::person::{Credentials, EMAIL_TAKEN, about};
use super::store as sql;
use super::who::Who;
use super::{Error, token};
use crate::app::App;
use crate::kit::id::StaffId;
use crate::kit::page::Page;
use crate::kit::task;
use crate::kit::throttle::Class;

const NO_SUCH_STAFF: Reject = Reject("no_such_staff");
const KEEPER_GONE: Reject = Reject("keeper_gone");

/// A member of staff, without the password.
#[derive(Clone, Debug)]
pub struct StaffMember {
    /// Their id.
    pub id: StaffId,
    /// What they log in with.
    pub email: String,
    /// When they were added.
    pub created_at: Millis,
    /// When they last logged in.
    pub last_login_at: Option<Millis>,
}

/// Makes a member of the operator's staff. A repeat of the claim's request is shown the password
/// again if it was made up.
///
/// # Errors
/// [`Error::InvalidEmail`], [`Error::Password`], [`Error::EmailTaken`], [`Error::Overloaded`],
/// [`Error::OverShare`], [`Error::Hashing`], [`Error::Commit`].
pub async fn add_staff(
    app: &App,
    credentials: Credentials<'_>,
    by: By<'_>,
    claim: &Claim,
    is_made_up: bool,
) -> Result<StaffId, Error> {
    let email = email(credentials.email).ok_or(Error::InvalidEmail)?;
    password::check(credentials.password.expose(), &email).map_err(Error::Password)?;
    let hash = password::hash(app, &asker(by), credentials.password).await?;
    let id = StaffId::new(&app.clock);
    let mut set = WriteSet::of(id.as_str());
    let other = in_unicode(&email);
    if other != email {
        // A row from before domains were stored in ASCII.
        set.absent(sql::STAFF_BY_EMAIL, args![&other, &other, &other], EMAIL_TAKEN);
    }
    set.guard(sql::ADD_STAFF, args![&id, email.as_str(), hash, app.now()], EMAIL_TAKEN);
    let shown = is_made_up.then_some(credentials.password);
    let sealed = shown.and_then(|password| claim.seal(app, id.as_str(), password));
    claim.add_to(&mut set, id.as_str(), sealed, app.now());
    record(app, &mut set, &about(by, "staff.create", id.as_str(), json!({ "email": email })));
    app.db.commit(set).await?;
    Ok(id)
}

/// Whose share of the hashers is used.
#[must_use]
pub fn asker(by: By<'_>) -> Asker {
    match by.who {
        Who::Staff(id) => Asker::staff(id.as_str()),
        _ => Asker::command_line(),
    }
}

/// One page of the staff, newest first, with one row more when there are more.
///
/// # Errors
/// [`Error::Db`].
pub async fn list_staff(app: &App, page: &Page) -> Result<Vec<StaffMember>, Error> {
    Ok(app.db.rows(sql::STAFF, args![page.after.as_str(), page.limit + 1]).await?)
}

/// The email of a member of staff.
///
/// # Errors
/// [`Error::NoSuchStaff`], [`Error::Db`].
pub async fn email_of(app: &App, id: &str) -> Result<String, Error> {
    let person: Option<sql::Person> = app.db.row(sql::STAFF_BY_ID, args![id]).await?;
    person.map(|person| person.email).ok_or(Error::NoSuchStaff)
}

/// The member of staff with this email.
///
/// # Errors
/// [`Error::NoSuchPerson`], [`Error::Db`].
pub async fn staff_of(app: &App, typed: &str) -> Result<StaffId, Error> {
    email(typed).ok_or(Error::InvalidEmail)?;
    let person = address::find(app, sql::STAFF_BY_EMAIL, typed).await?;
    person.map(|person| StaffId::stored(person.id)).ok_or(Error::NoSuchPerson)
}

/// Removes a member of staff, whose tokens end at once. Over HTTP somebody must remain: the one
/// who removes, or for those who remove themselves somebody else. The row of whoever remains is
/// locked, so that two who remove each other at the same moment do not both succeed.
///
/// # Errors
/// [`Error::NoSuchStaff`], [`Error::LastStaff`], [`Error::Overloaded`], [`Error::Db`],
/// [`Error::Commit`].
pub async fn remove_staff(app: &App, id: &StaffId, by: By<'_>) -> Result<(), Error> {
    let person: Option<sql::Person> = app.db.row(sql::STAFF_BY_ID, args![id]).await?;
    let person = person.ok_or(Error::NoSuchStaff)?;
    let mut set = WriteSet::of(id.as_str());
    if let Who::Staff(remover) = by.who {
        let keeper = if remover == id { another_than(app, id).await? } else { remover.clone() };
        set.guard(sql::KEEP_STAFF, args![&keeper], KEEPER_GONE);
    }
    set.guard(sql::REMOVE_STAFF, args![id], NO_SUCH_STAFF);
    token::revoke_all(app, &mut set, id.as_str(), None);
    record(
        app,
        &mut set,
        &about(by, "staff.remove", id.as_str(), json!({ "email": person.email })),
    );
    match app.db.commit(set).await {
        Ok(_) => {
            token::ended(app, id.as_str());
            Ok(())
        }
        Err(CommitError::Rejected(NO_SUCH_STAFF)) => Err(Error::NoSuchStaff),
        Err(CommitError::Rejected(KEEPER_GONE)) => Err(Error::LastStaff),
        Err(error) => Err(error.into()),
    }
}

async fn another_than(app: &App, id: &StaffId) -> Result<StaffId, Error> {
    let two = list_staff(app, &Page::first(1)).await?;
    two.into_iter().map(|one| one.id).find(|one| one != id).ok_or(Error::LastStaff)
}

/// Notes a login that was refused at the staff's door. Strangers cause these lines, so there are
/// only so many in a minute for each member of staff, and for all emails that are nobody's. Behind
/// the answer: the time taken would tell which emails belong to somebody.
pub(super) fn note_refused_login(app: &App, staff: Option<&str>, refused: &Error, guest: &Guest) {
    let action = match refused {
        Error::InvalidLogin => "staff.login_failed",
        Error::TooManyLogins { .. } => "staff.login_refused",
        _ => return,
    };
    let (app, guest) = (app.clone(), guest.clone());
    let staff = staff.unwrap_or_default().to_owned();
    task::spawn(async move {
        if let Err(error) = note_refusal(&app, &staff, action, &guest).await {
            tracing::warn!(%error, action, "a refused login of staff is not in the audit log");
        }
    });
}

/// Notes a refusal, if there is room for it.
async fn note_refusal(
    app: &App,
    staff: &str,
    action: &'static str,
    guest: &Guest,
) -> Result<(), Error> {
    if app.throttle.take(Class::Note, staff).is_err() {
        return Ok(());
    }
    let mut set = WriteSet::of("staff_refusals");
    let by = By { who: &Who::Stranger, request_id: &guest.request_id };
    record(app, &mut set, &about(by, action, staff, json!({ "network": guest.network })));
    app.db.commit(set).await?;
    Ok(())
}
