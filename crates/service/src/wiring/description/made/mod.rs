//! Makes the API description. Handlers describe what is their own: who may call, what comes in and
//! goes out, the codes of their own rules. What every route of a kind has in common is added here,
//! in one pass over the document: problems, headers, common parameters. A test keeps the result in
//! `openapi.json`, which is what the program serves.

mod answers;
mod examples;
mod facts;
mod pushed;
mod said;
mod shown;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::Components;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    Content, KnownFormat, ObjectBuilder, OpenApi, Ref, RefOr, Required, Schema, SchemaFormat, Type,
};

use crate::app::Env;
use crate::kit::problem::ProblemBody;
use crate::kit::problem_code::Code;
use crate::wiring::routes;
use answers::Members;
use facts::{Facts, declared};

/// Where the description of a WebSocket is: there is no operation that OpenAPI could call.
const SOCKET: &str = "x-websocket";

/// What is said of the API as a whole.
#[derive(utoipa::OpenApi)]
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

/// The description of all that the sandbox answers, which has every operation of tenants.
pub(super) fn document() -> Value {
    serde_json::to_value(openapi()).unwrap_or_default()
}

fn openapi() -> OpenApi {
    let mut document = <Description as utoipa::OpenApi>::openapi();
    document.merge(routes::api(Env::Sandbox).described());
    let mut components = document.components.take().unwrap_or_default();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let facts = Facts::of(method, path, operation);
            complete(operation, &facts, &mut components);
            if method == "PATCH" {
                need_no_body(operation, &components);
            }
        }
        set_socket_apart(item);
    }
    answers::describe_headers(&mut components);
    describe_parameters(&mut components);
    describe_schemes(&mut components);
    document.components = Some(components);
    document.webhooks = Some(pushed::requests());
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("PUT", &mut item.put),
        ("POST", &mut item.post),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn complete(operation: &mut Operation, facts: &Facts, components: &mut Components) {
    add_problems(operation, facts, components);
    add_headers(operation, facts);
    share_parameters(operation, facts);
    show_parameters(operation);
    secure(operation, facts);
    examples::add(operation, components);
    // A title has no full stop; the first sentence of a comment has.
    operation.summary =
        operation.summary.take().map(|summary| summary.trim_end_matches('.').to_owned());
    let told = operation.description.take().filter(|told| !told.is_empty());
    let told = told.map_or_else(|| facts.who(), |told| format!("{told}\n\n{}", facts.who()));
    operation.description = Some(told);
}

/// A PATCH without a body changes nothing, like one of an empty object, where that may be empty.
fn need_no_body(operation: &mut Operation, components: &Components) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    let needs_members = body.content.values().any(|content| {
        let RefOr::T(Content { schema: Some(RefOr::Ref(reference)), .. }) = content else {
            return false;
        };
        let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
        let schema = components.schemas.get(name);
        matches!(schema, Some(RefOr::T(Schema::Object(object))) if !object.required.is_empty())
    });
    if !needs_members {
        body.required = Some(Required::False);
    }
}

/// Replaces what a handler declares by answers that say everything.
fn add_problems(operation: &mut Operation, facts: &Facts, components: &mut Components) {
    let mut codes = facts.codes();
    codes.extend(declared(operation));
    let said = said::of(operation, facts, components);
    if let Some(extensions) = &mut operation.extensions {
        extensions.remove(facts::CODES);
    }
    operation.extensions = operation.extensions.take().filter(|all| !all.is_empty());
    let mut members: BTreeMap<String, Vec<Members>> = BTreeMap::new();
    let answers = std::mem::take(&mut operation.responses.responses);
    for (status, answer) in answers {
        if matches!(status.as_bytes().first(), Some(b'1'..=b'3')) {
            operation.responses.responses.insert(status, answer);
        } else {
            for own in members_of(answer) {
                codes.extend(&own.codes);
                // A plain problem adds nothing but its codes.
                if !is_plain(&own.schema) {
                    members.entry(status.clone()).or_default().push(own);
                }
            }
        }
    }
    let mut by_status: BTreeMap<String, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().to_string()).or_default().push(code);
    }
    let id = operation.operation_id.clone().unwrap_or_default();
    for (status, codes) in by_status {
        let members = members.remove(&status).unwrap_or_default();
        let told = answers::Told { operation: &id, codes: &codes, members, said: &said };
        let answer = answers::problem(components, told);
        operation.responses.responses.insert(status, answer);
    }
}

/// What a declared problem answer adds to the usual members. Its description names the codes; where
/// the codes of a status differ in their members, each code stands in the place of a media type.
fn members_of(answer: RefOr<Response>) -> Vec<Members> {
    let RefOr::T(answer) = answer else { return vec![] };
    let words = answer.description.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let named: Vec<Code> = words.filter_map(|word| word.parse().ok()).collect();
    let members = answer.content.into_iter().filter_map(|(kind, content)| {
        let RefOr::T(content) = content else { return None };
        let codes = kind.parse().map_or_else(|_| named.clone(), |code| vec![code]);
        Some(Members { codes, schema: content.schema?, example: content.example })
    });
    members.collect()
}

fn is_plain(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::Ref(to) if to.ref_location.ends_with("/Problem"))
}

fn add_headers(operation: &mut Operation, facts: &Facts) {
    let mut names = vec!["RequestId"];
    if !facts.is_socket() {
        names.extend(["RateLimit", "RateLimitPolicy"]);
    }
    if facts.has_next {
        names.push("Link");
    }
    if facts.is_keyed() {
        names.push("IdempotentReplayed");
    }
    for (status, answer) in &mut operation.responses.responses {
        if let (true, RefOr::T(answer)) = (status.starts_with('2'), answer) {
            let headers = names.iter().map(|name| answers::header(name));
            answer.headers.extend(headers.map(|(name, header)| (name, RefOr::Ref(header))));
            describe_bytes(answer);
            if facts.is_file() {
                let (name, header) = answers::header("ContentDisposition");
                answer.headers.insert(name, RefOr::Ref(header));
            }
        }
    }
}

/// What is not JSON is bytes, which generated clients hand on as they are.
fn describe_bytes(answer: &mut Response) {
    for (kind, content) in &mut answer.content {
        if let (false, RefOr::T(content)) = (kind == "application/json", content) {
            let bytes = ObjectBuilder::new()
                .schema_type(Type::String)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
            content.schema = Some(bytes.build().into());
        }
    }
}

/// Parameters that mean the same everywhere are described once.
fn share_parameters(operation: &mut Operation, facts: &Facts) {
    let mut parameters = operation.parameters.take().unwrap_or_default();
    for parameter in &mut parameters {
        if let RefOr::T(Parameter { name, parameter_in: ParameterIn::Query, .. }) = parameter {
            match name.as_str() {
                "limit" => *parameter = shared("Limit"),
                "cursor" => *parameter = shared("Cursor"),
                _ => {}
            }
        }
    }
    if facts.is_keyed() {
        parameters.push(shared("IdempotencyKey"));
    }
    operation.parameters = Some(parameters).filter(|all| !all.is_empty());
}

/// Parts of paths have an example, so that a call can be copied as it stands.
fn show_parameters(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(own) = parameter
            && own.parameter_in == ParameterIn::Path
        {
            let example = shown::part_of_path(&own.name, id).map(Into::into);
            *parameter = ParameterBuilder::from(own.clone()).example(example).build().into();
        }
    }
}

fn shared(parameter: &str) -> RefOr<Parameter> {
    RefOr::Ref(Ref::new(format!("#/components/parameters/{parameter}")))
}

fn describe_parameters(components: &mut Components) {
    let whole = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(200));
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let key = text().min_length(Some(1)).max_length(Some(255));
    for (component, name, place, schema, about) in [
        (
            "Limit",
            "limit",
            ParameterIn::Query,
            whole.default(Some(json!(50))),
            "How many there are on a page.",
        ),
        (
            "Cursor",
            "cursor",
            ParameterIn::Query,
            text(),
            "Where the page begins: from the `Link` header of the page before.",
        ),
        (
            "IdempotencyKey",
            "Idempotency-Key",
            ParameterIn::Header,
            key,
            "Makes a repeat safe: printable ASCII, such as a UUID. The same key and body within \
             24 hours have one effect.",
        ),
    ] {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(Required::False)
            .description(Some(about))
            .schema(Some(schema.build()));
        components.parameters.insert(component.to_owned(), parameter.build().into());
    }
}

/// Says in the way of OpenAPI who may call. It cannot say that one of several scopes is enough:
/// scopes are in the description.
fn secure(operation: &mut Operation, facts: &Facts) {
    let schemes = ["api_key", "api_key_bearer", "portal_token", "staff_token"];
    let is_open = |scheme: &&str| facts.opens(scheme.trim_end_matches("_bearer"));
    let requirement = |scheme: &str| SecurityRequirement::new::<_, [&str; 0], &str>(scheme, []);
    operation.security = Some(schemes.into_iter().filter(is_open).map(requirement).collect());
}

fn describe_schemes(components: &mut Components) {
    let about = "The API key (`$KEY` of the first steps): for what programs do. Every snippet that \
                 takes one has what is entered here";
    let header = ApiKey::Header(ApiKeyValue::with_description("X-API-Key", about));
    components.add_security_scheme("api_key", SecurityScheme::ApiKey(header));
    for (name, words) in [
        ("api_key_bearer", "The API key, as good as in `X-API-Key`"),
        (
            "portal_token",
            "The portal token (`$TOKEN`) from `POST /v1/auth/signup` or `login`: for what people \
             do, such as webhooks, API keys and support",
        ),
        ("staff_token", "Staff token from `POST /v1/admin/auth/login`"),
    ] {
        let bearer =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(words)).build();
        components.add_security_scheme(name, SecurityScheme::Http(bearer));
    }
}

/// A WebSocket answers 101, and no client that is generated could go on from there. Its path is
/// listed without an operation; how to open it is said in an extension.
fn set_socket_apart(item: &mut PathItem) {
    let is_socket = |operation: &Operation| operation.responses.responses.contains_key("101");
    let Some(operation) = item.get.take_if(|operation| is_socket(operation)) else { return };
    item.summary.clone_from(&operation.summary);
    item.description.clone_from(&operation.description);
    item.parameters.clone_from(&operation.parameters);
    let described = serde_json::to_value(&operation).unwrap_or_default();
    item.extensions = Some(Extensions::from_iter([(SOCKET, described)]));
}
