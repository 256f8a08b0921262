//! All routes in one list, and the API description made from them.

use axum::Router;
use axum::middleware;
use utoipa::OpenApi;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, PathItem, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use super::{edge, pages};
use crate::app::{App, Env};
use crate::{
    access, credits, dispatch, events, inbound, operator, otp, profile, retention, sandbox,
    senders, sms, support, webhooks,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "estafette",
        description = "One-time passcodes and messages over chat-app, SMS and email.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "/", description = "This address")),
    // The order of the reference: what a developer needs first comes first.
    tags(
        (name = "OTP", description = "Send one-time passcodes, verify them, read how they stand."),
        (name = "SMS", description = "Send SMS, read and list them."),
        (name = "Account", description = "Users, the profile, API keys."),
        (name = "Credits", description = "What was paid for what."),
        (name = "Senders", description = "Names that SMS come from; staff approve them."),
        (name = "Inbound", description = "What people wrote: replies, STOP and START."),
        (name = "Upstreams", description = "What carriers bring."),
        (name = "Webhooks", description = "Where events are pushed to, and what became of them."),
        (name = "Events", description = "What happened; the same that is pushed to webhooks."),
        (name = "Support", description = "Tickets, their messages and files, live chat."),
        (name = "Sandbox", description = "Virtual handsets: what a phone received."),
        (name = "Operator", description = "For the staff who run the service.")
    )
)]
struct Description;

/// The API of the sandbox, which has all routes that live has and the handsets.
fn api(env: Env) -> OpenApiRouter<App> {
    let api = OpenApiRouter::with_openapi(Description::openapi())
        .merge(otp::api::routes())
        .merge(sms::api::routes())
        .merge(profile::api::routes())
        .merge(access::api::routes())
        .merge(credits::api::routes())
        .merge(senders::api::routes())
        .merge(inbound::api::routes())
        .merge(dispatch::api::routes())
        .merge(events::api::routes())
        .merge(webhooks::api::routes())
        .merge(support::api::routes())
        .merge(operator::api::routes())
        .merge(retention::api::routes());
    match env {
        Env::Live => api,
        Env::Sandbox => api.merge(sandbox::api::routes()),
    }
}

/// The API description, OpenAPI 3.1.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = api(Env::Sandbox).into_openapi();
    for path in document.paths.paths.values_mut() {
        for operation in operations(path) {
            describe_problems(operation);
            let by_key = |scheme: &SecurityRequirement| *scheme == requirement("api_key");
            if let Some(schemes) = &mut operation.security
                && schemes.iter().any(by_key)
            {
                schemes.push(requirement("api_key_bearer"));
            }
        }
    }
    document.webhooks = Some(pushed());
    let components = document.components.get_or_insert_default();
    let header = ApiKey::Header(ApiKeyValue::new("X-API-Key"));
    components.add_security_scheme("api_key", SecurityScheme::ApiKey(header));
    for (name, words) in [
        ("api_key_bearer", "The API key, as good as in `X-API-Key`"),
        ("portal_token", "Portal token from `POST /v1/auth/login`"),
        ("staff_token", "Staff token from `POST /v1/admin/auth/login`"),
    ] {
        let bearer =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(words)).build();
        components.add_security_scheme(name, SecurityScheme::Http(bearer));
    }
    document
}

fn requirement(scheme: &str) -> SecurityRequirement {
    SecurityRequirement::new::<_, [&str; 0], &str>(scheme, [])
}

/// The requests that targets get: one for each kind of event, with its example.
fn pushed() -> Paths {
    let mut paths = Paths::new();
    for kind in events::CATALOGUE {
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("EventView")))
            .example(Some(kind.example_event()))
            .build();
        let body = RequestBodyBuilder::new()
            .content("application/json", content)
            .required(Some(Required::True));
        let taken = ResponseBuilder::new().description("Any 2xx within 15 s: it is delivered");
        let operation = OperationBuilder::new()
            .operation_id(Some(kind.word().replace('.', "_")))
            .summary(Some(kind.meaning()))
            .tag("Events")
            .request_body(Some(body.build()))
            .response("2XX", taken.build())
            .build();
        paths.paths.insert(kind.word().to_owned(), PathItem::new(HttpMethod::Post, operation));
    }
    paths
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut path.get, &mut path.put, &mut path.post, &mut path.patch, &mut path.delete]
        .into_iter()
        .filter_map(Option::as_mut)
}

/// Any operation may answer a problem: bad JSON, a missing key, too many requests, a full queue.
fn describe_problems(operation: &mut Operation) {
    let body = Ref::from_schema_name("ProblemBody");
    let content = ContentBuilder::new().schema(Some(body)).build();
    let problem = ResponseBuilder::new()
        .description("A problem; `code` says which")
        .content("application/problem+json", content)
        .build();
    operation.responses.responses.entry("default".to_owned()).or_insert(RefOr::T(problem));
}

/// Everything that one environment's address answers.
pub(super) fn router(app: &App) -> Router {
    let (api, described) = api(app.env).split_for_parts();
    let around = (app.clone(), edge::Operations::of(&described));
    api.merge(pages::router(app))
        .fallback(edge::no_route)
        .method_not_allowed_fallback(edge::no_method)
        // The edge has read the body by then, within its own limit.
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(around, edge::edge))
        .with_state(app.clone())
}
