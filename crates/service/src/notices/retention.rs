//! What is forgotten of notices, and when: the proof in one as soon as the mail is out (that is not
//! here), the row `retention.tokens_d` after it was written; a reset that nobody could look at
//! after a day.

use ::store::{CommitError, args};
use clock::DAY;

use super::store as sql;
use crate::access::retention::sweep;
use crate::app::App;
use crate::chores::Turn;

/// Deletes old notices; answers how many.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let retention = &app.config.retention;
    let asked = args![turn.now() - DAY, retention.chunk];
    let count = sweep(app, turn, "reset_requests", sql::FORGET_ASKED, &asked).await?;
    let args = args![turn.now() - retention.tokens_d * DAY, retention.chunk];
    Ok(count + sweep(app, turn, "notices", sql::FORGET, &args).await?)
}
