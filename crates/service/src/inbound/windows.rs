//! Messaging windows: for a day after a person wrote by the chat-app, the account that they wrote
//! to may write freely. A person who is erased has none.

use ::store::{Error, Reject, WriteSet, args};
use clock::DAY;

use super::store as sql;
use crate::app::App;
use crate::kit::id::{AccountId, InboundId};
use crate::kit::msisdn::Msisdn;

/// The person wrote nothing to this account within a day.
pub const CLOSED: Reject = Reject("window_closed");
/// How long a message opens the window, milliseconds.
const WINDOW_MS: i64 = DAY;

/// Whether the person's window is open, and stays so for a while.
///
/// # Errors
/// When the database cannot be read.
pub async fn is_open(
    app: &App,
    account: &AccountId,
    person: &Msisdn,
    for_ms: i64,
) -> Result<bool, Error> {
    let since = app.now() - WINDOW_MS + for_ms;
    let args = args![person.e164(), account, &InboundId::bound(since), since];
    Ok(app.db.row::<(i64,)>(sql::IS_WINDOW_CLOSED, args).await?.is_none())
}

/// Refuses the set with [`CLOSED`] unless the person's window is open. What was said within it came
/// in within it, so a short stretch of their newest messages tells.
pub fn guard(app: &App, set: &mut WriteSet, account: &AccountId, person: &Msisdn) {
    let since = app.now() - WINDOW_MS;
    let args = args![person.e164(), account, &InboundId::bound(since), since];
    set.absent(sql::IS_WINDOW_CLOSED, args, CLOSED);
}
