//! The SQL of links.

use clock::Millis;
use store::{Error, FromRow, Row, Sql, WriteSet, args};

use super::Link;
use crate::app::{App, Env};
use crate::kit::id::AccountId;

/// Links an account of one environment, and no other.
const PUT: Sql = Sql("INSERT INTO chatapp_links (account_id, phone_number_id, waba_id, \
     secrets_sealed, revision, linked_at) \
     SELECT a.account_id, $1, $2, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT) FROM accounts a \
     WHERE a.account_id = $6 AND a.env = $7 \
     ON CONFLICT (account_id) DO UPDATE SET phone_number_id = excluded.phone_number_id, \
     waba_id = excluded.waba_id, secrets_sealed = excluded.secrets_sealed, \
     revision = excluded.revision, linked_at = excluded.linked_at");
const ALL: Sql = Sql("SELECT account_id, phone_number_id, waba_id, secrets_sealed, revision \
     FROM chatapp_links WHERE account_id > $1 ORDER BY account_id LIMIT 10000");

const ONE: Sql = Sql("SELECT phone_number_id, waba_id, linked_at FROM chatapp_links \
     WHERE account_id = $1");
const DELETE: Sql = Sql("DELETE FROM chatapp_links WHERE account_id = $1");

/// What an account is linked to, as staff see it.
pub(super) struct Current {
    pub(super) phone_number_id: String,
    pub(super) waba_id: String,
    pub(super) linked_at: Millis,
}

impl FromRow for Current {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (phone_number_id, waba_id) = (row.take(0)?, row.take(1)?);
        Ok(Self { phone_number_id, waba_id, linked_at: row.take(2)? })
    }
}

/// A link as stored. No `Debug`: it holds what is sealed.
pub(super) struct Stored {
    pub(super) account: AccountId,
    pub(super) phone_number_id: String,
    pub(super) waba_id: String,
    pub(super) secrets_sealed: Vec<u8>,
    pub(super) revision: i64,
}

impl FromRow for Stored {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            account: row.take(0)?,
            phone_number_id: row.take(1)?,
            waba_id: row.take(2)?,
            secrets_sealed: row.take(3)?,
            revision: row.take(4)?,
        })
    }
}

/// Links an account; refused where live has none of the id.
pub(super) fn put(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    link: &Link,
    secrets_sealed: Vec<u8>,
) {
    let revision = i64::try_from(1 + app.clock.below(u64::MAX / 4)).unwrap_or(1);
    let args = args![
        &link.phone_number_id,
        &link.waba_id,
        secrets_sealed,
        revision,
        app.now(),
        account,
        Env::Live.as_str()
    ];
    set.guard(PUT, args, super::NO_ACCOUNT);
}

/// What an account is linked to; `None` = nothing of its own.
pub(super) async fn one(app: &App, account: &AccountId) -> Result<Option<Current>, Error> {
    app.db.row(ONE, args![account]).await
}

/// Ends a link; the set is refused where there is none.
pub(super) fn remove(set: &mut WriteSet, account: &AccountId) {
    set.guard(DELETE, args![account], super::NO_LINK);
}

/// Every link: there are as many as staff made.
pub(super) async fn all(app: &App) -> Result<Vec<Stored>, Error> {
    app.db.rows(ALL, args![""]).await
}
