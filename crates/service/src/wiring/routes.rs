//! All routes in one list, and what the description says of the API as a whole.

use axum::Router;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::{edge, pages, reference, shape};
use crate::app::{App, Env};
use crate::kit::problem::ProblemBody;
use crate::{
    access, chatapp, credits, dispatch, emails, events, inbound, operator, otp, profile, retention,
    sandbox, senders, sms, support, webhooks,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "estafette",
        description = "One-time passcodes and messages over chat-app, SMS and email.\n\nErrors are \
            problems (RFC 9457); programs go by `code`. Lists are arrays, newest first; `Link` \
            leads to the next page. A POST with an `Idempotency-Key` may be repeated.",
        contact(name = "The operator of this service"),
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "/", description = "The address that serves this page: live or sandbox")),
    // Every problem answer is one of these; the pass over the document narrows its codes.
    components(schemas(ProblemBody)),
    // The order of the reference: what a developer needs first comes first.
    tags(
        (name = "OTP", description = "Send one-time passcodes, verify them, read how they stand."),
        (name = "Chat-app", description = "Messages, templates and consent sessions."),
        (name = "SMS", description = "Send SMS, read and list them."),
        (name = "Email", description = "Send email, read and list it; domains and suppressions."),
        (name = "Account", description = "Users, the profile, API keys."),
        (name = "Credits", description = "What was paid for what."),
        (name = "Senders", description = "Names that SMS come from; staff approve them."),
        (name = "Inbound", description = "What people wrote: replies, STOP and START."),
        (name = "Webhooks", description = "Where events are pushed to, and what became of them."),
        (name = "Events", description = "What happened; the same that is pushed to webhooks."),
        (name = "Support", description = "Tickets, their messages and files, live chat."),
        (name = "Sandbox", description = "Virtual handsets and mailboxes: what people received."),
        (name = "Operator", description = "For the staff who run the service.")
    )
)]
struct Description;

/// The API of the sandbox has all that callers of live have, handsets and mailboxes. What carriers
/// call is on live alone, and not in the description: each carrier knows its own shape.
fn api(env: Env) -> OpenApiRouter<App> {
    let api = OpenApiRouter::with_openapi(Description::openapi())
        .merge(otp::api::routes())
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

/// What the handlers say of themselves.
pub(super) fn described() -> utoipa::openapi::OpenApi {
    api(Env::Sandbox).into_openapi()
}

/// Everything that one environment's address answers.
pub(super) fn router(app: &App) -> Router {
    let (api, described) = api(app.env).split_for_parts();
    api.merge(pages::router(app))
        .merge(reference::router(app.env))
        .merge(emails::unsubscribe::api::router())
        .fallback(shape::no_route)
        .method_not_allowed_fallback(shape::no_method)
        .layer(edge::Edge::new(app, &described))
        .with_state(app.clone())
}
