//! A leg that another took the place of, and that arrived all the same.

mod store;

use ::store::WriteSet;

use self::store as sql;
use super::events;
use super::{Challenge, Status};
use crate::app::App;
use crate::dispatch::Attempt;

/// The code is there, if the challenge still waits for news.
pub(super) fn arrived(
    app: &App,
    set: &mut WriteSet,
    challenge: &mut Challenge,
    leg: &Attempt,
    provider_id: Option<&str>,
) {
    if challenge.status == Status::Sent && challenge.is_open(app.now()) {
        sql::arrived(set, challenge, leg, provider_id);
        events::stands(app, set, challenge, Status::Delivered);
        challenge.status = Status::Delivered;
    }
}
