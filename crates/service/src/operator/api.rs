//! All routes of the operator's room.

use endpoints::ApiRouter;

use super::{accounts, carriers, credits, keys, log, prices};
use crate::app::App;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    accounts::api::routes()
        .merge(credits::api::routes())
        .merge(keys::api::routes())
        .merge(prices::api::routes())
        .merge(log::api::routes())
        .merge(carriers::api::routes())
}
