//! All routes of the operator's room.

use utoipa_axum::router::OpenApiRouter;

use super::{accounts, log, prices};
use crate::app::App;

/// The routes of this room.
pub fn routes() -> OpenApiRouter<App> {
    accounts::api::routes()
        .merge(accounts::credits_api::routes())
        .merge(prices::api::routes())
        .merge(log::api::routes())
}
