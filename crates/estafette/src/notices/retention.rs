//! What is forgotten of notices, and when: the proof in one as soon as the mail is out (that is not
//! here), the row `retention.tokens_d` after it was written.

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
    let args = args![turn.now() - retention.tokens_d * DAY, retention.chunk];
    sweep(app, turn, "notices", sql::FORGET, &args).await
}
