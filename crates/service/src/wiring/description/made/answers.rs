//! Answers that many operations have in common: each is described once and referred to. A problem
//! answer has the codes of its status as an enum, so that generated clients can tell them apart.

use std::collections::BTreeMap;
use std::iter;

use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::{AllOfBuilder, Components, OneOfBuilder};
use utoipa::openapi::{ContentBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Schema, Type};

use super::said::Said;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// Sets of codes that many operations share, with the names of their answers. Others are called
/// after their operation.
const SHARED: &[(&str, &[Code])] = &[
    ("InvalidPageRequest", &[Code::InvalidRequest, Code::InvalidCursor]),
    ("InvalidBody", &[Code::InvalidJson, Code::InvalidRequest]),
    ("InvalidKeyedBody", &[Code::InvalidJson, Code::InvalidRequest, Code::InvalidIdempotencyKey]),
    ("InvalidKeyedRequest", &[Code::InvalidRequest, Code::InvalidIdempotencyKey]),
    ("KeyUnauthorized", &[Code::MissingCredentials, Code::InvalidApiKey]),
    ("TokenUnauthorized", &[Code::MissingCredentials, Code::InvalidToken, Code::TokenExpired]),
    (
        "Unauthorized",
        &[Code::MissingCredentials, Code::InvalidApiKey, Code::InvalidToken, Code::TokenExpired],
    ),
    ("ReadForbidden", &[Code::InsufficientScope, Code::WrongEnvironment, Code::AccountSuspended]),
    (
        "WriteForbidden",
        &[
            Code::InsufficientScope,
            Code::WrongEnvironment,
            Code::AccountSuspended,
            Code::AccountPending,
        ],
    ),
    ("KeyForbidden", &[Code::WrongEnvironment, Code::AccountSuspended]),
    ("AccountForbidden", &[Code::AccountSuspended, Code::AccountPending]),
    ("InvalidOrReused", &[Code::ValidationFailed, Code::IdempotencyKeyReused]),
    ("Unavailable", &[Code::Overloaded, Code::StorageUnavailable, Code::Draining]),
];

/// Headers of answers: the component, the name on the wire, what it says, an example.
const HEADERS: &[(&str, &str, &str, &str)] = &[
    (
        "RequestId",
        "X-Request-Id",
        "The request's id: quote it when asking for help.",
        "req_01kdvqh6m4e5s8w2t9zb3y7n1f",
    ),
    (
        "RateLimit",
        "RateLimit",
        "What is left of the budget (`r`), and in how many seconds one more is free (`t`), as in \
         the IETF draft.",
        "\"send\";r=199;t=1",
    ),
    (
        "RateLimitPolicy",
        "RateLimit-Policy",
        "The budget: `q` requests in `w` seconds, as in the IETF draft.",
        "\"send\";q=200;w=2",
    ),
    (
        "ContentDisposition",
        "Content-Disposition",
        "The file's name; previews have none and may be shown in a page.",
        "attachment; filename=\"invoice.pdf\"",
    ),
    ("RetryAfter", "Retry-After", "Seconds to wait before the next try.", "1"),
    (
        "Link",
        "Link",
        "The next page, as RFC 8288 has it; missing on the last one.",
        "</v1/messages?limit=50&cursor=b3BhcXVl>; rel=\"next\"",
    ),
    (
        "IdempotentReplayed",
        "Idempotent-Replayed",
        "`true`: an earlier request with this `Idempotency-Key` did it, and this is how it stands.",
        "true",
    ),
    (
        "WwwAuthenticate",
        "WWW-Authenticate",
        "The credentials that are taken here.",
        "Bearer realm=\"estafette\"",
    ),
];

/// Members that a problem has beside the usual ones, for some of its codes.
pub(super) struct Members {
    pub(super) codes: Vec<Code>,
    pub(super) schema: RefOr<Schema>,
    pub(super) example: Option<Value>,
}

/// What an operation answers with one status.
pub(super) struct Told<'a> {
    pub(super) operation: &'a str,
    pub(super) codes: &'a [Code],
    pub(super) members: Vec<Members>,
    /// What its problems say, where that is not what their code advises.
    pub(super) said: &'a BTreeMap<Code, Said>,
}

/// A header of answers, by its component.
pub(super) fn header(component: &str) -> (String, Ref) {
    let name = HEADERS.iter().find(|each| each.0 == component).map_or(component, |each| each.1);
    (name.to_owned(), Ref::new(format!("#/components/headers/{component}")))
}

/// Describes every header once.
pub(super) fn describe_headers(components: &mut Components) {
    for (component, _, about, example) in HEADERS {
        let kind = if *component == "RetryAfter" { Type::Integer } else { Type::String };
        let example = if kind == Type::Integer { json!(1) } else { json!(example) };
        let header = HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(kind).build()))
            .description(Some(*about))
            .example(Some(example));
        components.headers.insert((*component).to_owned(), header.build().into());
    }
}

/// Refers to the answer with these codes of one status, and describes it if it is the first such.
pub(super) fn problem(components: &mut Components, told: Told<'_>) -> RefOr<Response> {
    let Told { operation, codes, ref members, said } = told;
    let status = codes.first().map_or(500, |code| code.status());
    let shared = SHARED.iter().find(|(_, set)| *set == codes).map(|(name, _)| (*name).to_owned());
    let (base, is_shared) = match (shared, codes, members.as_slice()) {
        (Some(name), _, []) => (name, true),
        (None, [one], []) => (pascal(one.as_str()), true),
        _ => (format!("{}{status}", pascal(operation)), false),
    };
    // The schema is the same, whatever its example says.
    let variants = codes.iter().filter_map(|code| said.get(code)).map(|said| &*said.variant);
    let variants = variants.filter(|variant| is_shared && !variant.is_empty());
    let name = iter::once(&*base).chain(variants).collect::<Vec<_>>().join(".");
    let known = components.responses.contains_key(&name);
    if !known {
        let response = described(components, &base, told);
        components.responses.insert(name.clone(), response.into());
    }
    RefOr::Ref(Ref::from_response_name(name))
}

fn described(components: &mut Components, name: &str, told: Told<'_>) -> Response {
    let Told { codes, members, said, .. } = told;
    let mut examples = BTreeMap::new();
    for code in codes {
        let own = members.iter().find(|members| members.codes.contains(code));
        let code_text = code.as_str();
        let words = said.get(code);
        let key = match (own, words) {
            (Some(_), _) => format!("{name}.{code_text}"),
            (None, Some(said)) if !said.variant.is_empty() => {
                format!("{code_text}.{}", said.variant)
            }
            (None, _) => code_text.to_owned(),
        };
        let more = own.and_then(|members| members.example.as_ref());
        let problem = words.map(|said| &said.problem);
        let shown = || example(*code, problem, more).into();
        components.examples.entry(key.clone()).or_insert_with(shown);
        let reference = Ref::new(format!("#/components/examples/{key}"));
        examples.insert(code.as_str().to_owned(), RefOr::Ref(reference));
    }
    let schema = schema_of(components, name, codes, members);
    let mut content = ContentBuilder::new().schema(Some(schema)).build();
    content.examples = examples;
    let mut response =
        ResponseBuilder::new().description(about(codes)).content(Problem::MEDIA_TYPE, content);
    for component in headers_of(codes) {
        let (name, header) = header(component);
        response = response.header_ref(name, header);
    }
    response.build()
}

/// What a problem answer has in its head.
fn headers_of(codes: &[Code]) -> Vec<&'static str> {
    let mut headers = vec!["RequestId"];
    let has = |status: u16| codes.iter().any(|code| code.status() == status);
    if has(401) {
        headers.push("WwwAuthenticate");
    }
    // Whoever is known has a budget, whatever the answer.
    headers.extend(["RateLimit", "RateLimitPolicy"]);
    // What a repeat of its request is told again.
    let is_repeated = |code: &Code| {
        matches!(
            code,
            Code::CountryNotAllowed
                | Code::DomainNotVerified
                | Code::FraudBlocked
                | Code::IdempotencyKeyReused
                | Code::MessagingWindowClosed
                | Code::NoActiveSession
                | Code::OtpAlreadyVerified
                | Code::RecipientOptedOut
                | Code::SenderNotApproved
                | Code::TemplateNotApproved
        )
    };
    if has(402) || has(410) || has(502) || codes.iter().any(is_repeated) {
        headers.push("IdempotentReplayed");
    }
    if has(429) || has(503) || codes.contains(&Code::IdempotencyInProgress) {
        headers.push("RetryAfter");
    }
    headers
}

fn about(codes: &[Code]) -> String {
    match codes {
        [one] => format!("`{}`: {}.", one.as_str(), one.title()),
        more => {
            let line = |code: &Code| format!("- `{}`: {}.", code.as_str(), code.title());
            more.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A problem with one of these codes. Those with members of their own are apart, so that a program
/// that looked at the code knows what else there is.
fn schema_of(
    components: &mut Components,
    name: &str,
    codes: &[Code],
    members: Vec<Members>,
) -> RefOr<Schema> {
    let mut keep = |name: &str, schema: Schema| {
        let name = format!("{name}Problem");
        components.schemas.insert(name.clone(), schema.into());
        Ref::from_schema_name(name)
    };
    let is_own = |code: &Code| members.iter().any(|each| each.codes.contains(code));
    let plain: Vec<Code> = codes.iter().copied().filter(|code| !is_own(code)).collect();
    let mut parts = vec![];
    if !plain.is_empty() {
        parts.push(keep(name, narrowed(&plain, None)));
    }
    for Members { codes: own, schema, .. } in members {
        let names: Vec<String> = own.iter().map(|code| pascal(code.as_str())).collect();
        parts.push(keep(&names.join("Or"), narrowed(&own, Some(schema))));
    }
    if let [only] = parts.as_slice() {
        return RefOr::Ref(only.clone());
    }
    let choice = parts.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item);
    RefOr::T(Schema::OneOf(choice.build()))
}

fn narrowed(codes: &[Code], members: Option<RefOr<Schema>>) -> Schema {
    let code = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes.iter().map(|code| code.as_str())))
        .build();
    let narrow = ObjectBuilder::new().property("code", code).required("code").build();
    let all = AllOfBuilder::new().item(Ref::from_schema_name("Problem")).item(narrow);
    Schema::AllOf(match members {
        Some(members) => all.item(members).build(),
        None => all.build(),
    })
}

/// What `detail` says for example, where the advice is about `detail` itself.
const fn detail(code: Code) -> &'static str {
    match code {
        Code::InvalidJson => "Line 1, column 15 could not be read. Send one JSON object in UTF-8.",
        _ => code.advice(),
    }
}

fn example(
    code: Code,
    said: Option<&Problem>,
    more: Option<&Value>,
) -> utoipa::openapi::example::Example {
    let mut value = json!({
        "type": format!("http://127.0.0.1:8081/errors/{}", code.as_str()),
        "title": code.title(),
        "status": code.status(),
        "code": code.as_str(),
        "detail": detail(code),
        "request_id": "req_01kdvqh6m4e5s8w2t9zb3y7n1f",
    });
    if let Some(said) = said {
        value["detail"] = json!(said.sentence());
        if !said.items().is_empty() {
            value["errors"] = json!(said.items());
        }
    }
    for (name, member) in more.and_then(Value::as_object).into_iter().flatten() {
        value[name] = member.clone();
    }
    ExampleBuilder::new().summary(code.title()).value(Some(value)).build()
}

/// `not_found` as `NotFound`.
fn pascal(words: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or(String::new(), |first| first.to_uppercase().chain(letters).collect::<String>())
    };
    words.split('_').map(capital).collect()
}
