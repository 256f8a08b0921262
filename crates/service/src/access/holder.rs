//! Who holds a token, by its hash: for sockets, which stay open for longer than a request and are
//! asked again and again whether they may.

use store::args;

use super::store as sql;
use super::token::Kind;
use crate::app::{App, Standing};
use crate::kit::id::{AccountId, StaffId, UserId};

/// A token that is good now.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The hash of the token.
    pub hash: [u8; 32],
    /// Who it is.
    pub subject: Subject,
    /// Whether the account may only be read.
    pub is_barred: bool,
}

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A user, with their account of this environment.
    User(UserId, AccountId),
    /// A member of staff.
    Staff(StaffId),
}

/// The user behind a portal token; `None` when it is none, or over.
///
/// # Errors
/// When the database cannot be read.
pub async fn of_user(app: &App, hash: [u8; 32]) -> Result<Option<Holder>, store::Error> {
    let Some(subject) = subject(app, hash, Kind::Portal).await? else { return Ok(None) };
    let args = args![subject.as_str(), app.env.as_str()];
    let row: Option<sql::AccountRow> = app.db.row(sql::ACCOUNT_OF_USER, args).await?;
    Ok(row.map(|sql::AccountRow(account)| Holder {
        hash,
        is_barred: account.standing != Standing::Active,
        subject: Subject::User(UserId::stored(subject), account.id),
    }))
}

/// The member of staff behind a staff token; `None` when it is none, or over.
///
/// # Errors
/// When the database cannot be read.
pub async fn of_staff(app: &App, hash: [u8; 32]) -> Result<Option<Holder>, store::Error> {
    let subject = subject(app, hash, Kind::Staff).await?;
    Ok(subject.map(|subject| {
        let subject = Subject::Staff(StaffId::stored(subject));
        Holder { hash, subject, is_barred: false }
    }))
}

async fn subject(app: &App, hash: [u8; 32], kind: Kind) -> Result<Option<String>, store::Error> {
    let row: Option<sql::TokenRow> = app.db.row(sql::TOKEN, args![hash]).await?;
    let is_good = |row: &sql::TokenRow| {
        row.kind == kind.as_str() && row.revoked_at.is_none() && row.expires_at > app.now()
    };
    Ok(row.filter(is_good).map(|row| row.subject_id))
}
