//! What a database from before the seals has: lines of the audit log without a keyed hash, accounts
//! that no line says the terms of. It is accepted as it is, once, by the run that adds the seals.
//! At any other time, such a line or account counts as forged.

use ::store::WriteSet;

use super::terms::{ADOPTED, found};
use crate::access::retention::Accounts;
use crate::access::{Entry, Who, audit, record};
use crate::app::App;
use crate::credits::Error;

/// The version of the schema that has seals.
pub const SINCE: u32 = 6;

/// Takes everything there is for the service's own.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn adopt(app: &App) -> Result<(), Error> {
    audit::adopt(app).await?;
    let mut accounts = Accounts::default();
    while let Some(account) = accounts.next(app).await? {
        let Some(terms) = found(app, account.as_str()).await? else { continue };
        let entry = Entry {
            actor: &Who::Service,
            action: ADOPTED,
            object_id: account.as_str(),
            account: Some(&account),
            request_id: "",
            detail: serde_json::json!(terms),
        };
        let mut set = WriteSet::of(account.as_str());
        record(app, &mut set, &entry);
        app.db.commit(set).await?;
    }
    Ok(())
}
