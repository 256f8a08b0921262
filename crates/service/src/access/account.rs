//! An account, as far as requests need it.

use store::args;

use super::store as sql;
use crate::app::{Account, App};
use crate::kit::id::AccountId;

/// The part of an account that requests need.
///
/// # Errors
/// See [`store::Error`].
pub async fn account(app: &App, id: &AccountId) -> Result<Option<Account>, store::Error> {
    let row: Option<sql::AccountRow> = app.db.row(sql::ACCOUNT, args![id]).await?;
    Ok(row.map(|sql::AccountRow(account)| account))
}
