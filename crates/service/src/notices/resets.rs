//! Resets of passwords that were asked for. The request writes the email that was typed, sealed,
//! with its answer; whether there is such a user is looked up behind it, so that neither the answer
//! nor its time tells.

use ::store::{CommitError, Error as DbError, Reject, WriteSet, args};
use clock::{DAY, HOUR, Millis};

pub use super::store::Asked;

use super::{Kind, MOVED, Reader, prove, store as sql};
use crate::access::limits::{self, Limited};
use crate::access::{self, Error};
use crate::app::App;
use crate::kit::id::NoticeId;

/// The user got enough of them.
const ENOUGH: Reject = Reject("resets_enough");

/// Adds to a write set that somebody asked for a reset by this email, as they typed it.
pub fn ask(app: &App, set: &mut WriteSet, typed: &str) {
    let id = NoticeId::new(&app.clock);
    let sealed = app.vault.seal(&place(&id), typed.as_bytes());
    set.push(sql::ASK_RESET, args![&id, sealed, app.now()]);
}

/// What was asked for and not looked at, the oldest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn asked(app: &App, limit: i64) -> Result<Vec<Asked>, DbError> {
    app.db.rows(sql::RESETS_ASKED, args![app.now() - DAY, limit]).await
}

/// Mails the user with this email a way to set another password. Nothing happens, and nobody is
/// told, where there is no such user, or where they got as many in the last hour as one gets.
///
/// # Errors
/// See [`CommitError`]; [`MOVED`] if another node was faster.
pub async fn answer(app: &App, asked: &Asked) -> Result<(), CommitError> {
    let Some(email) = app.vault.open(&place(&asked.id), &asked.sealed) else {
        return forget(app, asked).await;
    };
    let user = match access::user_of(app, &String::from_utf8_lossy(&email)).await {
        Ok(user) => user,
        Err(Error::Db(error)) => return Err(error.into()),
        Err(_) => return forget(app, asked).await,
    };
    let mut set = WriteSet::of(user.live.as_str());
    set.guard(sql::END_ASKED, args![&asked.id], MOVED);
    limits::one_by_one(&mut set, &user.live, Limited::Notices);
    let since: Millis = app.now() - HOUR;
    let most = app.config.email.resets_per_hour - 1;
    let kind = Kind::PasswordReset;
    set.absent(sql::IS_ENOUGH, args![&user.id, kind.as_str(), since, most], ENOUGH);
    prove(app, &mut set, Reader { user: &user.id, live: &user.live }, kind, &asked.id);
    match app.db.commit(set).await {
        Err(CommitError::Rejected(ENOUGH)) => forget(app, asked).await,
        done => done.map(drop),
    }
}

async fn forget(app: &App, asked: &Asked) -> Result<(), CommitError> {
    let mut set = WriteSet::of(asked.id.as_str());
    set.guard(sql::END_ASKED, args![&asked.id], MOVED);
    app.db.commit(set).await.map(drop)
}

/// Where an email is sealed for.
fn place(id: &NoticeId) -> [&str; 2] {
    ["reset_requests", id.as_str()]
}
