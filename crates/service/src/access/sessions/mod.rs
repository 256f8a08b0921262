//! Where a user is logged in: their valid portal tokens, to list and to end.

pub mod api;

use clock::Millis;
use serde_json::json;
use store::{WriteSet, args};

use super::audit::By;
use super::audit::record;
use super::person::about;
use super::store as sql;
use super::{Error, token};
use crate::app::App;
use crate::kit::id::SessionId;
use crate::kit::page::Page;

/// A login that is still good.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// When the person logged in.
    pub created_at: Millis,
    /// When its token ends.
    pub expires_at: Millis,
    /// The hash of the token.
    token_hash: Vec<u8>,
}

impl Session {
    /// Whether this is the login of the request.
    #[must_use]
    pub fn is_of(&self, token: Option<[u8; 32]>) -> bool {
        token.is_some_and(|hash| hash.as_slice() == self.token_hash)
    }
}

impl From<sql::SessionRow> for Session {
    fn from(row: sql::SessionRow) -> Self {
        let sql::SessionRow { id, token_hash, created_at, expires_at } = row;
        Self { id, created_at, expires_at, token_hash }
    }
}

/// One page of a person's logins, newest first, with one row more when there are more.
///
/// # Errors
/// [`Error::Db`].
pub async fn list(app: &App, person: &str, page: &Page) -> Result<Vec<Session>, Error> {
    let args = args![person, page.after.as_str(), app.now(), page.limit + 1];
    let rows: Vec<sql::SessionRow> = app.db.rows(sql::SESSIONS, args).await?;
    Ok(rows.into_iter().map(Session::from).collect())
}

/// One login.
///
/// # Errors
/// [`Error::NoSuchSession`], [`Error::Db`].
pub async fn find(app: &App, person: &str, id: &SessionId) -> Result<Session, Error> {
    let args = args![person, id, app.now()];
    let row: Option<sql::SessionRow> = app.db.row(sql::SESSION, args).await?;
    row.map(Session::from).ok_or(Error::NoSuchSession)
}

/// Ends one login at once.
///
/// # Errors
/// [`Error::NoSuchSession`], [`Error::Overloaded`], [`Error::Db`], [`Error::Commit`].
pub async fn end(app: &App, id: &SessionId, by: By<'_>) -> Result<(), Error> {
    let session = find(app, by.who.id(), id).await?;
    let mut set = WriteSet::of(by.who.id());
    set.push(sql::REVOKE_TOKEN, args![app.now(), session.token_hash]);
    record(app, &mut set, &about(by, "session.end", id.as_str(), json!({})));
    app.db.commit(set).await?;
    token::ended(app, by.who.id());
    Ok(())
}

/// Ends all logins of the person, the one of the request as well, and all resets.
///
/// # Errors
/// [`Error::Overloaded`], [`Error::Commit`].
pub async fn end_all(app: &App, by: By<'_>) -> Result<(), Error> {
    let person = by.who.id();
    let mut set = WriteSet::of(person);
    token::revoke_all(app, &mut set, person, None);
    token::end_resets(app, &mut set, person);
    record(app, &mut set, &about(by, "session.end_all", person, json!({})));
    app.db.commit(set).await?;
    token::ended(app, person);
    Ok(())
}
