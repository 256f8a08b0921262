//! The one shape of every error answer: RFC 9457 `application/problem+json`.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::item_code::ItemCode;
use super::json::unescaped;
use super::problem_code::Code;

/// A commit refused with this raced with the same request under the same `Idempotency-Key`.
pub const IN_PROGRESS: store::Reject = store::Reject("idempotency_in_progress");
/// Items that an answer lists, whatever was wrong.
const LISTED: usize = 20;
/// Longest pointer of an item, characters: names of unknown fields are as long as callers like.
const POINTER: usize = 200;

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, endpoints::ToSchema)]
pub struct Item {
    /// RFC 6901 pointer into the body, `?name` for a query parameter, `header:Name` for a header.
    pub pointer: String,
    /// What is wrong, for programs.
    #[schema(value_type = ItemCode)]
    pub code: &'static str,
    /// What is wrong, in a sentence for people.
    #[serde(serialize_with = "as_sentence")]
    pub detail: String,
}

fn as_sentence<S: Serializer>(detail: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&sentence(detail))
}

/// Words as a sentence: with a capital, and a full stop where none ends them.
#[must_use]
pub fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if words.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

impl Item {
    /// A fault at a pointer.
    #[must_use]
    pub fn at(pointer: &str, code: impl Into<ItemCode>, detail: impl Into<String>) -> Self {
        let (code, detail) = (code.into().as_str(), detail.into());
        let Some((end, _)) = pointer.char_indices().nth(POINTER) else {
            return Self { pointer: pointer.to_owned(), code, detail };
        };
        // A pointer that is cut leads nowhere: what the place is in has one.
        let shown = pointer.get(..end).unwrap_or_default();
        let within = shown.rsplit_once('/').map_or("", |(within, _)| within).to_owned();
        let whole = if within.is_empty() { "the body " } else { "" };
        let detail = format!("{whole}has a member, too long to be named here, that {detail}");
        Self { pointer: within, code, detail }
    }

    /// Where and what, in a sentence; the body itself has no name.
    fn sentence(&self) -> String {
        let Self { pointer, detail, .. } = self;
        let place = match (pointer.strip_prefix('?'), pointer.strip_prefix("header:")) {
            (Some(name), _) => format!("the query parameter `{name}` "),
            (_, Some(name)) => format!("the header `{name}` "),
            _ if pointer.is_empty() => String::new(),
            _ => format!("the field `{}` ", unescaped(pointer.trim_start_matches('/'))),
        };
        sentence(&format!("{place}{detail}"))
    }
}

/// What is wrong with a request: the first faults, and how many there are.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    listed: Vec<Item>,
    count: usize,
}

impl Faults {
    /// One more.
    pub fn push(&mut self, item: Item) {
        self.count += 1;
        if self.listed.len() < LISTED {
            self.listed.push(item);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one of those that are listed is of this member of the body.
    pub(super) fn are_of(&self, name: &str) -> bool {
        self.listed.iter().any(|item| item.pointer.split('/').nth(1) == Some(name))
    }
}

impl From<Vec<Item>> for Faults {
    fn from(items: Vec<Item>) -> Self {
        let mut faults = Self::default();
        for item in items {
            faults.push(item);
        }
        faults
    }
}

/// An error, RFC 9457. Programs go by `code`.
#[derive(Debug, Serialize, endpoints::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// Address of the page that explains the code.
    #[schema(format = "uri")]
    pub r#type: String,
    /// What happened, the same for every occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Stable, for programs.
    pub code: Code,
    /// What happened this time, for people.
    pub detail: String,
    /// Quote it when asking for help.
    pub request_id: String,
    /// What is at fault in the request, where that is known: the first 20 places.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 20)]
    pub errors: Option<Vec<Item>>,
}

/// An error answer in the making. The edge adds `request_id` and the address in `type`.
#[derive(Clone, Debug)]
pub struct Problem {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    detail: Option<String>,
    faults: Faults,
    /// Members of this problem's own, each once.
    more: Vec<(Cow<'static, str>, Value)>,
    headers: HeaderMap,
    cause: Option<String>,
}

/// What a 401 asks for (RFC 9110 §11.6.1).
const KEY_OR_TOKEN: &str =
    "ApiKey realm=\"estafette\", header=\"X-API-Key\", Bearer realm=\"estafette\"";
const TOKEN: &str = "Bearer realm=\"estafette\"";

impl Problem {
    /// The media type of every problem (RFC 9457).
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// A problem with nothing but its code.
    #[must_use]
    pub fn new(code: Code) -> Self {
        let mut headers = HeaderMap::new();
        if code.status() == 401 {
            let takes_keys = matches!(code, Code::InvalidApiKey | Code::MissingCredentials);
            let value = if takes_keys { KEY_OR_TOKEN } else { TOKEN };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(value));
        }
        // A carrier that is not there comes when somebody brings it, not in a second.
        let is_passing = matches!(code.status(), 429 | 503) && code != Code::CarrierUnavailable;
        if is_passing || code == Code::IdempotencyInProgress {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        let inner = Inner {
            code,
            detail: None,
            faults: Faults::default(),
            more: Vec::new(),
            headers,
            cause: None,
        };
        Self { inner: Box::new(inner) }
    }

    /// A 401 of an endpoint that takes no API key.
    #[must_use]
    pub fn only_token(mut self) -> Self {
        self.inner.headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(TOKEN));
        self
    }

    /// What an earlier request of the same `Idempotency-Key` was told.
    #[must_use]
    pub fn replayed(mut self) -> Self {
        self.inner.headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
        self
    }

    /// 422 `validation_failed` with its items.
    #[must_use]
    pub fn invalid(faults: impl Into<Faults>) -> Self {
        let mut problem = Self::new(Code::ValidationFailed);
        problem.inner.faults = faults.into();
        problem
    }

    /// 400 `invalid_request` about one place outside the body.
    #[must_use]
    pub fn bad_request(
        pointer: &str,
        code: impl Into<ItemCode>,
        detail: impl Into<String>,
    ) -> Self {
        let mut problem = Self::new(Code::InvalidRequest);
        problem.inner.faults.push(Item::at(pointer, code, detail));
        problem
    }

    /// One more place at fault.
    #[must_use]
    pub fn item(mut self, item: Item) -> Self {
        self.inner.faults.push(item);
        self
    }

    /// A sentence for the person who reads it; never a secret or a whole phone number.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.inner.detail = Some(detail.into());
        self
    }

    /// That sentence, or the title where there is none.
    #[must_use]
    pub fn said(&self) -> &str {
        self.inner.detail.as_deref().unwrap_or_else(|| self.inner.code.title())
    }

    /// An additional member.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.inner.more.push((name.into(), value.into()));
        self
    }

    /// What really happened: for the log, never for the caller.
    #[must_use]
    pub fn because(mut self, cause: &dyn std::fmt::Display) -> Self {
        self.inner.cause = Some(cause.to_string());
        self
    }

    /// Tells the caller how many seconds to wait.
    #[must_use]
    pub fn retry_after_s(mut self, seconds: i64) -> Self {
        self.inner.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        self
    }

    /// Does not ask to wait: waiting helps nothing.
    #[must_use]
    pub fn for_good(mut self) -> Self {
        self.inner.headers.remove(header::RETRY_AFTER);
        self
    }

    /// An additional header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.inner.headers.insert(name, value);
        self
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.inner.code
    }

    /// The fields at fault, as far as they are listed.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.inner.faults.listed
    }

    /// What really happened, for the log.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.inner.cause.as_deref()
    }

    /// As kept for a repeat of its request; `None` where a repeat may be told otherwise: faults of
    /// the request are found again, and what asks to wait is not final.
    #[must_use]
    pub fn to_stored(&self) -> Option<String> {
        let Inner { code, detail, faults, more, .. } = &*self.inner;
        let is_refused_send = matches!(
            code,
            Code::MessagingWindowClosed | Code::NoActiveSession | Code::TemplateNotApproved
        );
        let is_final = is_refused_send || matches!(code.status(), 402 | 403 | 422);
        (is_final && faults.is_empty()).then(|| {
            let more = more.iter().map(|(name, value)| (name.as_ref().to_owned(), value.clone()));
            let more: Map<String, Value> = more.collect();
            serde_json::json!({ "code": code.as_str(), "detail": detail, "more": more }).to_string()
        })
    }

    /// What [`Self::to_stored`] kept.
    #[must_use]
    pub fn stored(text: &str) -> Option<Self> {
        let mut members: Map<String, Value> = serde_json::from_str(text).ok()?;
        let mut problem = Self::new(members.get("code")?.as_str()?.parse().ok()?);
        problem.inner.detail = members.get("detail").and_then(Value::as_str).map(str::to_owned);
        if let Some(Value::Object(more)) = members.remove("more") {
            let more = more.into_iter().map(|(name, value)| (name.into(), value));
            problem.inner.more = more.collect();
        }
        Some(problem)
    }

    /// The finished answer, as the edge sends it.
    #[must_use]
    pub fn render(mut self, base_url: &str, request_id: &str) -> Response {
        let mut response = Response::new(Body::from(self.body(base_url, request_id)));
        *response.status_mut() = self.status();
        *response.headers_mut() = std::mem::take(&mut self.inner.headers);
        let kind = HeaderValue::from_static(Self::MEDIA_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    /// The body of the finished answer.
    #[must_use]
    pub fn body(&self, base_url: &str, request_id: &str) -> String {
        let problem = Finished { inner: &self.inner, said: self.sentence(), base_url, request_id };
        // It consists of texts and numbers, which can be written.
        serde_json::to_string(&problem).unwrap_or_default()
    }

    fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.inner.code.status());
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The problem as one of several in an answer: `code`, `detail`, and `errors` where there are
    /// any, whose pointers begin with `place`.
    #[must_use]
    pub fn part(&self, place: &str) -> Value {
        let inner = &self.inner;
        let mut body = Map::new();
        body.insert("code".into(), inner.code.as_str().into());
        body.insert("detail".into(), self.sentence().into());
        let listed = inner.faults.listed.iter();
        let items: Vec<Item> = listed
            .map(|item| Item::at(&format!("{place}{}", item.pointer), item.code, &*item.detail))
            .collect();
        if !items.is_empty() {
            body.insert("errors".into(), serde_json::json!(items));
        }
        Value::Object(body)
    }

    /// What it says to a person: its own words, or else what is at fault, or what to do.
    pub(crate) fn sentence(&self) -> Cow<'_, str> {
        if let Some(detail) = &self.inner.detail {
            return detail.into();
        }
        let Faults { listed, count } = &self.inner.faults;
        match listed.as_slice() {
            // What happened is the title; this says what to do.
            [] => self.inner.code.advice().into(),
            [item] => item.sentence().into(),
            [first, ..] => {
                format!("{} {count} fields are invalid; see `errors`.", first.sentence()).into()
            }
        }
    }
}

/// A problem with what only the edge knows, as it is written.
struct Finished<'p> {
    inner: &'p Inner,
    said: Cow<'p, str>,
    base_url: &'p str,
    request_id: &'p str,
}

impl Serialize for Finished<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Inner { code, faults, more, .. } = self.inner;
        let mut body = serializer.serialize_map(None)?;
        let kind = format_args!("{}/errors/{}", self.base_url, code.as_str());
        body.serialize_entry("type", &kind)?;
        body.serialize_entry("title", code.title())?;
        body.serialize_entry("status", &code.status())?;
        body.serialize_entry("code", code.as_str())?;
        body.serialize_entry("detail", &self.said)?;
        body.serialize_entry("request_id", self.request_id)?;
        if !faults.is_empty() {
            body.serialize_entry("errors", &faults.listed)?;
        }
        for (name, value) in more {
            body.serialize_entry(name, value)?;
        }
        body.end()
    }
}

/// Handlers answer problems; the edge finds them in the response's extensions and renders them
/// with the request's id and address.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        let code = match error {
            store::Error::Unavailable(_) => Code::StorageUnavailable,
            _ => Code::InternalError,
        };
        Self::new(code).because(&error)
    }
}

/// For commits whose guards have all been told apart before; a refusal left over is a fault.
impl From<store::CommitError> for Problem {
    fn from(error: store::CommitError) -> Self {
        let code = match error {
            // An ordinary answer to a client that asks twice at once: nothing for the log.
            store::CommitError::Rejected(IN_PROGRESS) => {
                return Code::IdempotencyInProgress.into();
            }
            store::CommitError::Overloaded => Code::Overloaded,
            store::CommitError::Unavailable(_) => Code::StorageUnavailable,
            store::CommitError::Rejected(_) => Code::InternalError,
            store::CommitError::Unknown(_) => Code::DeadlineExceeded,
        };
        Self::new(code).because(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, POINTER, Problem, sentence};

    #[test]
    fn faults_are_told_in_sentences() {
        for (pointer, detail, told) in [
            ("/to", "is required", "The field `to` is required."),
            ("/messages/0/to", "is required", "The field `messages/0/to` is required."),
            (
                "?limit",
                "must be from 1 to 200",
                "The query parameter `limit` must be from 1 to 200.",
            ),
            ("header:Host", "must be given once", "The header `Host` must be given once."),
            ("", "the body must be a JSON object", "The body must be a JSON object."),
        ] {
            assert_eq!(Item::at(pointer, "required", detail).sentence(), told);
        }
        assert_eq!(sentence("is over."), "Is over.");
        let shown = serde_json::json!(Item::at("/to", "required", "is required"));
        assert_eq!(shown["detail"], "Is required.");
    }

    #[test]
    fn of_several_faults_the_first_is_told_and_how_many_there_are() {
        let fault = |place| Item::at(place, "required", "is required");
        let problem = Problem::invalid(vec![fault("/to"), fault("/code")]);
        let told = "The field `to` is required. 2 fields are invalid; see `errors`.";
        assert_eq!(problem.sentence(), told);
    }

    #[test]
    fn a_pointer_that_would_be_cut_leads_to_what_the_place_is_in() {
        let long = "x".repeat(POINTER);
        for (pointer, within) in [(format!("/a/b/{long}"), "/a/b"), (format!("/{long}"), "")] {
            let item = Item::at(&pointer, "unknown_field", "is not a field of this request");
            assert_eq!(item.pointer, within);
            assert!(item.sentence().contains("has a member"), "{}", item.sentence());
        }
    }
}
