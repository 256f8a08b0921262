//! All routes in one list.

use axum::Router;
use endpoints::ApiRouter;

use super::{edge, pages, reference, shape};
use crate::app::{App, Env};
use crate::{
    access, chatapp, credits, dispatch, emails, events, inbound, operator, otp, profile, retention,
    sandbox, senders, sms, support, webhooks,
};

/// The API of the sandbox has all that callers of live have, handsets and mailboxes. What carriers
/// call is on live alone, and not in the description: each carrier knows its own shape.
pub(super) fn api(env: Env) -> ApiRouter<App> {
    let api = otp::api::routes()
        .merge(otp::fraud::api::routes())
        .merge(chatapp::messages::api::routes())
        .merge(chatapp::templates::api::routes())
        .merge(chatapp::sessions::api::routes())
        .merge(chatapp::links::api::routes())
        .merge(sms::api::routes())
        .merge(emails::api::routes())
        .merge(profile::api::routes())
        .merge(profile::recovery::api::routes())
        .merge(access::api::routes())
        .merge(access::sessions::api::routes())
        .merge(access::staff::api::routes())
        .merge(credits::api::routes())
        .merge(senders::api::routes())
        .merge(inbound::api::routes())
        .merge(events::api::routes())
        .merge(webhooks::api::routes())
        .merge(webhooks::deliveries::api::routes())
        .merge(support::api::routes())
        .merge(support::messages::api::routes())
        .merge(support::admin::api::routes())
        .merge(support::canned::api::routes())
        .merge(support::files::api::routes())
        .merge(support::chat::api::routes())
        .merge(operator::api::routes())
        .merge(retention::api::routes());
    match env {
        Env::Live => api.merge(chatapp::upstream::api::routes()).merge(dispatch::api::routes()),
        Env::Sandbox => api.merge(sandbox::api::routes()),
    }
}

/// Everything that one environment's address answers.
pub(super) fn router(app: &App) -> Router {
    let (api, operations) = api(app.env).into_parts();
    api.merge(pages::router(app))
        .merge(reference::router(app.env))
        .merge(emails::unsubscribe::api::router())
        .fallback(shape::no_route)
        .method_not_allowed_fallback(shape::no_method)
        .layer(edge::Edge::new(app, &operations))
        .with_state(app.clone())
}
