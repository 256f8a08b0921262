//! The SQL of what staff see of an email's attempts.

use store::{Error, FromRow, Row, Sql, args};

use super::Tried;
use crate::app::App;
use crate::emails::MOST_RECIPIENTS;
use crate::kit::id::{AccountId, EmailId};

const TRIED: Sql = Sql("SELECT a.attempt_id, r.position, a.carrier, a.state, a.tries, a.error, \
     a.transcript FROM email_recipients r JOIN attempts a \
     ON a.account_id = r.account_id AND a.attempt_id = r.attempt_id \
     WHERE r.account_id = $1 AND r.email_id = $2 ORDER BY r.position LIMIT $3");

impl FromRow for Tried {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            position: row.take(1)?,
            carrier: row.take(2)?,
            state: row.take(3)?,
            tries: row.take(4)?,
            error: row.take(5)?,
            transcript: row.take(6)?,
        })
    }
}

/// The attempts of an email, in the order of its recipients.
pub(super) async fn tried(
    app: &App,
    account: &AccountId,
    id: &EmailId,
) -> Result<Vec<Tried>, Error> {
    let most = i64::try_from(MOST_RECIPIENTS).unwrap_or(50);
    app.db.rows(TRIED, args![account, id, most]).await
}
