//! What an operation is, and which problems follow from that: they are said here once for every
//! kind of route. What a route gives beyond them, it declares as `x-codes`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};

use crate::kit::problem_code::Code;

/// Where handlers declare the codes of their own rules: as words, or as whole problems.
pub(super) const CODES: &str = "x-codes";

/// Any request: its head, the pace at which it comes, the state of this node.
const ANY: &[Code] = &[
    Code::InvalidRequest,
    Code::RequestTimeout,
    Code::InternalError,
    Code::Overloaded,
    Code::StorageUnavailable,
    Code::Draining,
    Code::DeadlineExceeded,
];
const BY_KEY: &[Code] = &[
    Code::MissingCredentials,
    Code::InvalidApiKey,
    Code::WrongEnvironment,
    Code::AccountSuspended,
    Code::RateLimited,
];
const BY_TOKEN: &[Code] =
    &[Code::MissingCredentials, Code::InvalidToken, Code::TokenExpired, Code::RateLimited];
/// Writes need an account that is active.
const WRITES_OF_ACCOUNTS: &[Code] = &[Code::AccountSuspended, Code::AccountPending];
const WITH_JSON_BODY: &[Code] = &[Code::InvalidJson, Code::ValidationFailed];
const KEYED: &[Code] =
    &[Code::InvalidIdempotencyKey, Code::IdempotencyInProgress, Code::IdempotencyKeyReused];

/// What comes in beside the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    None,
    Json,
    Multipart,
}

/// What goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Json,
    Bytes,
    /// It goes over to WebSocket: then errors are close codes.
    Frames,
}

/// Whom an operation is for, where that changes what it may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Account,
    /// The person alone, whatever the operator thinks of the accounts.
    Person,
    /// Virtual handsets and mailboxes.
    Sandbox,
}

/// An operation as far as its problems, headers and common parameters follow from it.
pub(super) struct Facts {
    method: &'static str,
    /// The schemes that open it, each with the scopes of which a key needs one.
    schemes: BTreeMap<String, Vec<String>>,
    body: Body,
    answer: Answer,
    /// Whether its answer is one page of a list.
    pub(super) is_page: bool,
    /// Whether the `Link` header leads to more.
    pub(super) has_next: bool,
    names_an_object: bool,
    whom: Whom,
}

impl Facts {
    pub(super) fn of(method: &'static str, path: &str, operation: &Operation) -> Self {
        let body = match &operation.request_body {
            None => Body::None,
            Some(RefOr::T(body)) if body.content.contains_key("multipart/form-data") => {
                Body::Multipart
            }
            Some(_) => Body::Json,
        };
        let answers = &operation.responses.responses;
        let is_json = |name: &str| name == "application/json";
        let is_all_json = answers.iter().all(|(status, answer)| match answer {
            RefOr::T(answer) if status.starts_with('2') => {
                answer.content.keys().all(|k| is_json(k))
            }
            _ => true,
        });
        let answer = match (answers.contains_key("101"), is_all_json) {
            (true, _) => Answer::Frames,
            (false, true) => Answer::Json,
            (false, false) => Answer::Bytes,
        };
        Self {
            method,
            schemes: schemes(operation),
            body,
            answer,
            is_page: parameters(operation).any(|each| each.name == "cursor"),
            has_next: parameters(operation).any(|each| each.name == "limit"),
            names_an_object: !path.starts_with("/v1/sandbox/")
                && parameters(operation).any(|each| each.parameter_in == ParameterIn::Path),
            whom: if path.starts_with("/v1/auth/") {
                Whom::Person
            } else if path.starts_with("/v1/sandbox/") {
                Whom::Sandbox
            } else {
                Whom::Account
            },
        }
    }

    /// Whether it goes over to WebSocket.
    pub(super) fn is_socket(&self) -> bool {
        self.answer == Answer::Frames
    }

    /// Whether it answers with a file.
    pub(super) fn is_file(&self) -> bool {
        self.answer == Answer::Bytes
    }

    /// Whether a scheme opens it.
    pub(super) fn opens(&self, scheme: &str) -> bool {
        self.schemes.contains_key(scheme)
    }

    /// Whether it may be sent again under an `Idempotency-Key`.
    pub(super) fn is_keyed(&self) -> bool {
        self.method == "POST"
    }

    /// The scopes of which a key needs one; any key will do where there is none.
    pub(super) fn scopes(&self) -> &[String] {
        self.schemes.get("api_key").map_or(&[], Vec::as_slice)
    }

    /// Who may call it, in a sentence.
    pub(super) fn who(&self) -> String {
        let scopes = self.scopes();
        let words: Vec<String> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
        let key = match words.as_slice() {
            [] => "an API key".to_owned(),
            [one] => format!("an API key with the scope {one}"),
            [all @ .., last] => format!("an API key with the scope {} or {last}", all.join(", ")),
        };
        if self.is_socket() {
            let whose = if self.opens("staff_token") { "staff" } else { "portal" };
            return format!(
                "Needs a {whose} token or a one-use token, in `token` or `Authorization: Bearer`."
            );
        }
        match (self.opens("api_key"), self.opens("portal_token"), self.opens("staff_token")) {
            (true, true, _) => format!("Needs a portal token, or {key}."),
            (true, false, _) => format!("Needs {key}."),
            (false, true, _) => "Needs a portal token.".to_owned(),
            (false, false, true) => "Needs a staff token.".to_owned(),
            (false, false, false) => "Needs no credentials.".to_owned(),
        }
    }

    /// The problems that follow from its kind.
    pub(super) fn codes(&self) -> BTreeSet<Code> {
        let mut codes: BTreeSet<Code> = ANY.iter().copied().collect();
        if self.is_socket() {
            codes.insert(Code::PayloadTooLarge);
            return codes;
        }
        let mut add = |when: bool, more: &[Code]| codes.extend(more.iter().filter(|_| when));
        let by_account = self.opens("api_key") || self.opens("portal_token");
        let is_write = self.method != "GET";
        add(self.answer == Answer::Json, &[Code::NotAcceptable]);
        add(self.opens("api_key"), BY_KEY);
        add(!self.scopes().is_empty(), &[Code::InsufficientScope]);
        add(self.opens("portal_token") || self.opens("staff_token"), BY_TOKEN);
        add(self.schemes.is_empty(), &[Code::RateLimited]);
        add(is_write && by_account && self.whom != Whom::Person, WRITES_OF_ACCOUNTS);
        add(is_write && self.method != "DELETE", &[Code::UnsupportedMediaType]);
        // Also of what means nothing, such as the body of a GET.
        add(self.body != Body::Multipart, &[Code::PayloadTooLarge]);
        add(self.body == Body::Json, WITH_JSON_BODY);
        add(self.body == Body::Multipart, &[Code::ValidationFailed]);
        add(self.is_page, &[Code::InvalidCursor]);
        add(self.names_an_object, &[Code::NotFound]);
        add(self.is_keyed(), KEYED);
        codes
    }
}

/// The codes that a handler declares.
pub(super) fn declared(operation: &Operation) -> Vec<Code> {
    own(operation).filter_map(|each| code_of(each.get("code").unwrap_or(each))).collect()
}

/// What those say that a handler declares as whole problems.
pub(super) fn declared_words(operation: &Operation) -> impl Iterator<Item = (Code, &str)> {
    own(operation).filter_map(|each| Some((code_of(&each["code"])?, each["detail"].as_str()?)))
}

fn own(operation: &Operation) -> impl Iterator<Item = &Value> {
    let own = operation.extensions.as_ref().and_then(|all| all.get(CODES));
    own.and_then(Value::as_array).into_iter().flatten()
}

fn code_of(word: &Value) -> Option<Code> {
    word.as_str()?.parse().ok()
}

pub(super) fn parameters(operation: &Operation) -> impl Iterator<Item = &Parameter> {
    operation.parameters.iter().flatten().filter_map(|each| match each {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    })
}

fn schemes(operation: &Operation) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for requirement in operation.security.iter().flatten() {
        // The library shows what is in one to serde alone.
        let value = serde_json::to_value(requirement).unwrap_or_default();
        for (scheme, scopes) in value.as_object().into_iter().flatten() {
            let words = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
            found.insert(scheme.clone(), words.map(str::to_owned).collect());
        }
    }
    found
}
