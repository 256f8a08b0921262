//! Lists: `limit`, `cursor` and the `Link` to the next page. Arrays stay arrays.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clock::Millis;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use url::form_urlencoded;

use super::msisdn::Msisdn;
use super::problem::{Item, Problem};
use super::problem_code::Code;
use super::seal::Vault;
use super::words::{Word, must_be_one_of};

/// Bytes of the keyed hash in a cursor.
const MAC: usize = 12;

/// What stands escaped in a value of a query: all but the unreserved characters of RFC 3986 §2.3.
const IN_VALUES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as it may stand in an address.
#[must_use]
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, IN_VALUES).to_string()
}

/// Which part of a list is asked for: newest first, after the id in `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// 1 to 200.
    pub limit: i64,
    /// The last id of the page before, or a text above all ids.
    pub after: String,
    /// Whose list it is: a cursor leads on in that one only. Empty = the operator's.
    owner: String,
}

impl Page {
    /// The first rows of a list.
    #[must_use]
    pub fn first(limit: i64) -> Self {
        Self { limit, after: TOP.to_owned(), owner: String::new() }
    }
}

/// Above every id: the start of a list that runs downwards.
pub const TOP: &str = "~";

/// A parameter that would be read as other text than it was written as.
fn undecodable(query: &str) -> Option<Problem> {
    let is_text = |text: &str| percent_decode_str(text).decode_utf8().is_ok();
    let pair = query.split('&').find(|pair| !is_text(pair))?;
    let name = pair.split('=').next().filter(|name| is_text(name)).unwrap_or_default();
    let detail = "must be UTF-8 once its percent-encoding is read";
    Some(Problem::bad_request(
        &format!("?{}", name.chars().take(64).collect::<String>()),
        "invalid_type",
        detail,
    ))
}

/// The query of a request, checked: unknown and repeated parameters are refused.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads a query string and refuses what is not in `known`.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        if let Some(problem) = query.and_then(undecodable) {
            return Err(problem);
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()) {
            let pointer = format!("?{}", name.chars().take(64).collect::<String>());
            if !known.contains(&name.as_ref()) {
                let detail = if known.is_empty() {
                    "is unknown; this endpoint takes no query parameters".to_owned()
                } else {
                    format!("is unknown; known: {}", known.join(", "))
                };
                return Err(Problem::bad_request(&pointer, "unknown_field", detail));
            }
            if pairs.iter().any(|(seen, _)| *seen == name) {
                return Err(Problem::bad_request(&pointer, "invalid_type", "is given twice"));
            }
            // Those of pages have codes of their own, and a socket says by its close code what a
            // token lacks.
            if value.is_empty() && !["limit", "cursor", "token"].contains(&name.as_ref()) {
                let detail = "must not be empty; leave it out";
                return Err(Problem::bad_request(&pointer, "too_short", detail));
            }
            if value.contains('\0') {
                let detail = "must not contain the NUL character";
                return Err(Problem::bad_request(&pointer, "invalid_type", detail));
            }
            pairs.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { pairs })
    }

    /// The same for callers that nobody here can correct: what is unknown is left out, and of
    /// what is given twice the first counts.
    #[must_use]
    pub fn read_known(query: Option<&str>, known: &[&str]) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or("").as_bytes());
        let kept = pairs.filter(|(name, _)| known.contains(&name.as_ref()));
        Self { pairs: kept.map(|(name, value)| (name.into_owned(), value.into_owned())).collect() }
    }

    /// The value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// One of the words of an enum.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub fn word<T: Word>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(word) = self.get(name) else { return Ok(None) };
        let detail = |_| {
            let detail = must_be_one_of::<T>();
            Problem::bad_request(&format!("?{name}"), "invalid_enum", detail)
        };
        word.parse().map(Some).map_err(detail)
    }

    /// A phone number.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub fn phone(&self, name: &str) -> Result<Option<Msisdn>, Problem> {
        let read = self.get(name).map(Msisdn::once_valid).transpose();
        read.map_err(|error| {
            let detail = error.to_string();
            Problem::bad_request(&format!("?{name}"), "invalid_phone_number", detail)
        })
    }

    /// An email address.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub fn address(&self, name: &str) -> Result<Option<email::Address>, Problem> {
        // A plus that was not escaped arrives as a space, which no address has.
        let read = self.get(name).map(|text| email::Address::parse(&text.replace(' ', "+")));
        read.transpose().map_err(|error| {
            Problem::bad_request(&format!("?{name}"), "invalid_email", error.to_string())
        })
    }

    /// An instant in RFC 3339.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub fn instant(&self, name: &str) -> Result<Option<Millis>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // A plus that was not escaped arrives as a space.
        let at = Millis::parse(&text.replace(' ', "+"));
        at.map(Some).ok_or_else(|| {
            let detail = "must be an instant in RFC 3339, such as 2026-01-31T12:00:00Z";
            Problem::bad_request(&format!("?{name}"), "invalid_type", detail)
        })
    }

    /// Reads `since` and `until` of a list whose ids are in the order of time, and lets the page
    /// begin below `until`. `bound` makes the id that parts what is older than an instant from the
    /// rest.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub fn between(
        &self,
        page: &mut Page,
        bound: impl Fn(Millis) -> String,
    ) -> Result<Since, Problem> {
        let oldest = self.instant("since")?.map(&bound).unwrap_or_default();
        if let Some(newest) = self.instant("until")?.map(&bound)
            && newest < page.after
        {
            page.after = newest;
        }
        Ok(Since(oldest))
    }

    /// The list's path with those of the `filters` that were given: what `page` and [`answer`]
    /// bind a cursor to.
    #[must_use]
    pub fn path_with(&self, path: &str, filters: &[&str]) -> String {
        let mut text = path.to_owned();
        for name in filters {
            if let Some(value) = self.get(name) {
                let joint = if text.contains('?') { '&' } else { '?' };
                text = format!("{text}{joint}{name}={}", utf8_percent_encode(value, IN_VALUES));
            }
        }
        text
    }

    /// `limit` and `cursor` of the operator's list called `list` (its path and filters).
    ///
    /// # Errors
    /// 400 `invalid_request` or `invalid_cursor`.
    pub fn page(&self, vault: &Vault, list: &str) -> Result<Page, Problem> {
        self.page_of(vault, "", list)
    }

    /// The same of the list of an account or a person.
    ///
    /// # Errors
    /// 400 `invalid_request` or `invalid_cursor`, which one of somebody else's list is, too.
    pub fn page_of(&self, vault: &Vault, owner: &str, list: &str) -> Result<Page, Problem> {
        let limit = match self.get("limit") {
            None => 50,
            Some(text) => match text.parse::<i64>() {
                Ok(limit) if (1..=200).contains(&limit) => limit,
                _ => {
                    let detail = "must be from 1 to 200";
                    return Err(Problem::bad_request("?limit", "out_of_range", detail));
                }
            },
        };
        let after = match self.get("cursor") {
            None => TOP.to_owned(),
            Some(cursor) => open(vault, [owner, list], cursor).ok_or_else(no_cursor)?,
        };
        Ok(Page { limit, after, owner: owner.to_owned() })
    }
}

/// In the signature of a handler: the endpoint takes no query parameters, and refuses all.
#[derive(Debug)]
pub struct NoQuery;

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::read(parts.uri.query(), &[]).map(|_| Self)
    }
}

/// The end of a list that runs downwards, as `since` sets it: an id, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Since(String);

impl Since {
    /// The lowest id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Those of the rows, newest first, that are not older. What was cut off was the end.
    #[must_use]
    pub fn keep<T>(&self, mut rows: Vec<T>, id_of: impl Fn(&T) -> &str) -> Vec<T> {
        if let Some(end) = rows.iter().position(|row| id_of(row) < self.0.as_str()) {
            rows.truncate(end);
        }
        rows
    }
}

/// Rows read at a time while looking for those that a filter keeps.
const STRETCH: i64 = 500;
/// Stretches looked through for one page. A filter that keeps little must not read a whole table:
/// the next page goes on behind them, so a page may be short, even empty, and still lead on.
const STRETCHES: usize = 20;

/// The rows of one page that `keep` keeps, and the id after which the next page begins, if there is
/// one. `read` answers the rows after an id, newest first, at most so many; without a filter
/// (`keep` is none) one read is enough.
///
/// # Errors
/// Those of `read`.
pub async fn sift<T, E, F: Future<Output = Result<Vec<T>, E>>>(
    page: &Page,
    read: impl Fn(String, i64) -> F,
    id_of: impl Fn(&T) -> String,
    keep: Option<&(dyn Fn(&T) -> bool + Sync)>,
) -> Result<(Vec<T>, Option<String>), E> {
    let limit = usize::try_from(page.limit).unwrap_or(50);
    let stretch = if keep.is_none() { page.limit + 1 } else { STRETCH };
    let mut found: Vec<T> = Vec::new();
    let mut after = page.after.clone();
    for _ in 0..STRETCHES {
        let rows = read(after.clone(), stretch).await?;
        let is_last = i64::try_from(rows.len()).unwrap_or(0) < stretch;
        if let Some(last) = rows.last() {
            after = id_of(last);
        }
        found.extend(rows.into_iter().filter(|row| keep.is_none_or(|keep| keep(row))));
        if found.len() > limit {
            found.truncate(limit);
            let next = found.last().map(&id_of);
            return Ok((found, next));
        }
        if is_last {
            return Ok((found, None));
        }
    }
    Ok((found, Some(after)))
}

/// The JSON array of one page, with the `Link` to the next one when there may be more.
///
/// `path` is the list's path with its filters but without `limit` and `cursor`; rows must have
/// been read with `LIMIT limit + 1`.
pub fn answer<T: Serialize>(
    vault: &Vault,
    path: &str,
    page: &Page,
    mut rows: Vec<T>,
    id_of: impl Fn(&T) -> String,
) -> Response {
    let limit = usize::try_from(page.limit).unwrap_or(50);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(id_of).filter(|_| more);
    answer_until(vault, path, page, &rows, last.as_deref())
}

/// The JSON array of one page; the next one begins after the id `last`, if there is one.
pub fn answer_until<T: Serialize>(
    vault: &Vault,
    path: &str,
    page: &Page,
    rows: &[T],
    last: Option<&str>,
) -> Response {
    leading_on(vault, path, page, axum::Json(rows).into_response(), last)
}

/// Adds the `Link` to the page after this one to an answer that is the page.
pub fn leading_on(
    vault: &Vault,
    path: &str,
    page: &Page,
    mut response: Response,
    last: Option<&str>,
) -> Response {
    let limit = page.limit;
    if let Some(last) = last {
        let joint = if path.contains('?') { '&' } else { '?' };
        let cursor = close(vault, [&page.owner, path], last);
        let link = format!("<{path}{joint}limit={limit}&cursor={cursor}>; rel=\"next\"");
        if let Ok(value) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(header::LINK, value);
        }
    }
    response
}

fn no_cursor() -> Problem {
    let detail = "is not of this list and its filters: follow the Link header as it is";
    Problem::new(Code::InvalidCursor).item(Item::at("?cursor", "invalid_type", detail))
}

fn close(vault: &Vault, [owner, list]: [&str; 2], last: &str) -> String {
    let mac = vault.cursor_mac(&[owner, list, last]);
    let mut bytes = mac.get(..MAC).unwrap_or(&mac).to_vec();
    bytes.extend_from_slice(last.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn open(vault: &Vault, [owner, list]: [&str; 2], cursor: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (mac, last) = bytes.split_at_checked(MAC)?;
    let last = std::str::from_utf8(last).ok()?;
    vault.is_cursor_mac(&[owner, list, last], mac).then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Query, TOP, close};
    use crate::kit::seal::Vault;
    use clock::{Clock, Millis};

    fn vault() -> Vault {
        Vault::from_hex(&"07".repeat(32), Clock::held(Millis(0), 1)).unwrap()
    }

    #[test]
    fn a_cursor_opens_only_its_own_list() {
        let vault = vault();
        let cursor = close(&vault, ["acc_1", "/v1/ledger"], "txn_5");
        let query = format!("cursor={cursor}&limit=7");
        let query = Query::read(Some(&query), &["limit", "cursor"]).unwrap();
        let page = query.page_of(&vault, "acc_1", "/v1/ledger").unwrap();
        assert_eq!((page.limit, page.after.as_str()), (7, "txn_5"));
        assert!(query.page_of(&vault, "acc_1", "/v1/api-keys").is_err());
        assert!(query.page_of(&vault, "acc_2", "/v1/ledger").is_err(), "somebody else's");
        assert!(query.page(&vault, "/v1/ledger").is_err(), "the operator's");
    }

    #[test]
    fn unknown_repeated_and_oversized_parameters_are_refused() {
        let known = ["limit", "cursor"];
        assert!(Query::read(Some("limt=1"), &known).is_err());
        assert!(Query::read(Some("limit=1&limit=2"), &known).is_err());
        for limit in ["0", "201", "x", "-1", ""] {
            let query = Query::read(Some(&format!("limit={limit}")), &known).unwrap();
            assert!(query.page(&vault(), "/").is_err(), "{limit}");
        }
        let page = Query::read(None, &known).unwrap().page(&vault(), "/").unwrap();
        assert_eq!((page.limit, page.after.as_str()), (50, TOP));
    }
}
