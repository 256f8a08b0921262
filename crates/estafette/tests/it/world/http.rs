//! Requests as a client makes them, and answers with the questions that stories ask of them.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::{contract, documented};

/// One request in the making; awaiting it sends it.
pub struct Call {
    request: reqwest::RequestBuilder,
}

impl Call {
    pub fn new(request: reqwest::RequestBuilder) -> Self {
        Self { request }
    }

    /// With an API key.
    pub fn key(self, key: &str) -> Self {
        self.header("x-api-key", key)
    }

    /// With a portal or staff token.
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// With a JSON body.
    pub fn json(self, body: impl std::borrow::Borrow<Value>) -> Self {
        Self { request: self.request.json(body.borrow()) }
    }

    /// With any body and a content type.
    pub fn raw(self, kind: &str, body: impl Into<reqwest::Body>) -> Self {
        Self { request: self.request.header("content-type", kind).body(body) }
    }

    pub fn header(self, name: &str, value: &str) -> Self {
        Self { request: self.request.header(name, value) }
    }
}

impl IntoFuture for Call {
    type Output = Answer;
    type IntoFuture = BoxFuture<'static, Answer>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, request) = self.request.build_split();
            let request = request.expect("a request");
            let (method, path) = (request.method().clone(), request.url().path().to_owned());
            let response = client.execute(request).await.expect("the service answers");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let text = response.text().await.expect("a whole answer");
            let body = serde_json::from_str(&text).unwrap_or(Value::Null);
            documented::check(method.as_str(), &path, status, &body);
            Answer { status, headers, body, text }
        })
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Answer {
    /// It must be 200.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 200, "not ok: {}", self.text);
        self
    }

    /// It must be the problem with this code, in the one shape of all problems.
    #[track_caller]
    pub fn problem(self, code: &str) -> Self {
        let expected = contract::status_of(code);
        assert_eq!(self.word("code"), code, "another problem ({}): {}", self.status, self.text);
        assert_eq!(self.status, expected, "status of {code}: {}", self.text);
        assert_eq!(self.field("status").as_u64(), Some(u64::from(expected)), "{}", self.text);
        assert_eq!(self.head("content-type"), "application/problem+json");
        assert!(!self.word("title").is_empty() && !self.word("detail").is_empty());
        let (title, detail) = (self.word("title"), self.word("detail"));
        assert_ne!(detail.trim_end_matches('.'), title, "it says what to do: {}", self.text);
        assert!(self.word("type").ends_with(&format!("/errors/{code}")), "{}", self.text);
        assert_eq!(self.word("request_id"), self.head("x-request-id"));
        for item in self.body["errors"].as_array().into_iter().flatten() {
            let code = item["code"].as_str().unwrap_or_default();
            assert!(contract::ITEM_CODES.contains(&code), "no code of an item: {}", self.text);
            let (place, said) = (item["pointer"].as_str(), item["detail"].as_str());
            assert!(place.is_some_and(is_pointer), "leads nowhere: {}", self.text);
            assert!(said.is_some_and(is_sentence), "an item is no sentence: {}", self.text);
        }
        assert!(is_sentence(detail), "no sentence: {}", self.text);
        if expected == 401 {
            assert!(self.headers.contains_key("www-authenticate"), "{}", self.text);
        }
        if expected == 429 {
            assert!(self.head("retry-after").parse::<u32>().is_ok_and(|wait| wait > 0));
        }
        // Asking again helps where something passes, and nowhere else.
        let passes = matches!(expected, 429 | 503) || code == "idempotency_in_progress";
        let waits = self.headers.contains_key("retry-after");
        assert!(passes || !waits, "it asks to wait in vain: {}", self.text);
        self
    }

    /// It must be a 422 `validation_failed` with this item.
    #[track_caller]
    pub fn fault(self, pointer: &str, item: &str) -> Self {
        let answer = self.problem("validation_failed");
        assert_eq!(answer.item(pointer), Some(item.to_owned()), "{pointer}: {}", answer.text);
        answer
    }

    /// The item code at a pointer of `errors`.
    pub fn item(&self, pointer: &str) -> Option<String> {
        let items = self.body.get("errors")?.as_array()?;
        let item = items.iter().find(|item| item["pointer"] == pointer)?;
        item["code"].as_str().map(str::to_owned)
    }

    /// A member that must be there.
    #[track_caller]
    pub fn field(&self, name: &str) -> &Value {
        self.body.get(name).unwrap_or_else(|| panic!("no {name} in {} {}", self.status, self.text))
    }

    /// A member that must be a string.
    #[track_caller]
    pub fn word(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_else(|| panic!("{name} is no string: {}", self.text))
    }

    /// A member that must be an integer.
    #[track_caller]
    pub fn number(&self, name: &str) -> i64 {
        self.field(name).as_i64().unwrap_or_else(|| panic!("{name} is no integer: {}", self.text))
    }

    /// A header, empty when it is missing.
    pub fn head(&self, name: &str) -> &str {
        self.headers.get(name).map(HeaderValue::to_str).and_then(Result::ok).unwrap_or("")
    }

    /// The elements of an answer that must be an array.
    #[track_caller]
    pub fn list(&self) -> &[Value] {
        self.body.as_array().unwrap_or_else(|| panic!("no array: {} {}", self.status, self.text))
    }

    /// The names of all members, sorted.
    #[track_caller]
    pub fn names(&self) -> Vec<&str> {
        let map = self.body.as_object().unwrap_or_else(|| panic!("no object: {}", self.text));
        let mut names: Vec<&str> = map.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// Whether a text begins and ends as a sentence does.
fn is_sentence(text: &str) -> bool {
    let first = text.chars().next();
    // Names of fields stand as they are.
    first.is_some_and(|letter| letter.is_uppercase() || letter == '`') && text.ends_with('.')
}

/// Whether it is one into the body (RFC 6901), or names a query parameter or a header.
fn is_pointer(text: &str) -> bool {
    let is_cut = text.ends_with('…');
    !is_cut && (text.is_empty() || ["/", "?", "header:"].iter().any(|kind| text.starts_with(kind)))
}

#[test]
fn fragments_are_no_sentences_and_words_no_pointers() {
    assert!(is_sentence("Is required.") && is_sentence("`detail` says it."));
    assert!(!is_sentence("is required.") && !is_sentence("/to is required.") && !is_sentence("A"));
    assert!(is_pointer("") && is_pointer("/to") && is_pointer("?limit"));
    assert!(!is_pointer("address") && !is_pointer("/aaa…"));
}
