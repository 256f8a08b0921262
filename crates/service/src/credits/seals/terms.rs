//! How an account pays, as the audit log says: limits that nobody set do not follow from it. The
//! log is kept for a year or so, accounts are kept for ever; so each round seals what the log says.

use ::store::{FromRow, Row, args};
use serde::{Deserialize, Serialize};

use super::{Kind, newest_of, store as sql};
use crate::access::audit::{Line, lines_of_account};
use crate::app::App;
use crate::credits::Error;

/// Lines of the audit log read at a time.
const CHUNK: i64 = 200;
/// The line of an account that is made, with its terms.
const CREATED: &str = "account.create";
/// The line of an account that was there before the seals, likewise.
pub(super) const ADOPTED: &str = "account.adopt";

/// What an account is and how it pays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// `live` or `sandbox`.
    pub env: String,
    /// Whose it is.
    #[serde(rename = "user_id")]
    pub user: String,
    /// What it may do.
    pub status: String,
    /// `prepaid` or `postpaid`.
    pub billing_mode: String,
    /// How far below zero it may go.
    pub credit_limit: i64,
}

impl FromRow for Terms {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            env: row.take(0)?,
            user: row.take(1)?,
            status: row.take(2)?,
            billing_mode: row.take(3)?,
            credit_limit: row.take(4)?,
        })
    }
}

impl Terms {
    /// What is known after a line of the audit log: one of an account's first lines has all of it,
    /// the others what they change.
    fn after(known: Option<Self>, line: &Line) -> Option<Self> {
        if matches!(line.action.as_str(), CREATED | ADOPTED) {
            return serde_json::from_str(&line.detail).ok().or(known);
        }
        let mut terms = known?;
        let detail: serde_json::Value = serde_json::from_str(&line.detail).unwrap_or_default();
        let word = |name: &str| detail[name].as_str().map(str::to_owned);
        terms.status = word("status").unwrap_or(terms.status);
        terms.billing_mode = word("billing_mode").unwrap_or(terms.billing_mode);
        terms.credit_limit = detail["credit_limit"].as_i64().unwrap_or(terms.credit_limit);
        Some(terms)
    }

    /// Where an account's terms differ from these, in words.
    #[must_use]
    pub fn difference(&self, found: &Self) -> Option<String> {
        let mut differences = Vec::new();
        let mut compare = |name: &str, now: &str, known: &str| {
            if now != known {
                differences.push(format!("{name} is {now}, on record is {known}"));
            }
        };
        compare("env", &found.env, &self.env);
        compare("user_id", &found.user, &self.user);
        compare("billing_mode", &found.billing_mode, &self.billing_mode);
        compare("credit_limit", &found.credit_limit.to_string(), &self.credit_limit.to_string());
        compare("status", &found.status, &self.status);
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

/// What is on record of an account.
pub struct Record {
    /// What the newest seal and the lines after it say; `None` = nothing.
    pub terms: Option<Terms>,
    /// The last line that was read; empty = none.
    pub until: String,
    /// The newest seal of the account's terms.
    pub seal: Option<super::Seal>,
}

/// The terms that an account has in its row; `None` = there is no such account.
///
/// # Errors
/// [`Error::Db`].
pub async fn found(app: &App, account: &str) -> Result<Option<Terms>, Error> {
    Ok(app.db.row(sql::TERMS, args![account]).await?)
}

/// The terms that are on record, up to the line of the audit log before `end`; `None` = to its end.
///
/// # Errors
/// [`Error::Db`].
pub async fn on_record(app: &App, account: &str, end: Option<&str>) -> Result<Record, Error> {
    let seal = newest_of(app, account, Kind::Terms).await?;
    let mut terms = seal.as_ref().and_then(|seal| serde_json::from_str(&seal.detail).ok());
    let mut until = seal.as_ref().map(|seal| seal.until.clone()).unwrap_or_default();
    loop {
        let rows = lines_of_account(app, account, &until, CHUNK).await?;
        let is_last = i64::try_from(rows.len()).unwrap_or(CHUNK) < CHUNK;
        let before = until.clone();
        for line in rows.into_iter().filter_map(|line| line.row) {
            if end.is_some_and(|end| line.id.as_str() >= end) {
                return Ok(Record { terms, until, seal });
            }
            if line.is_genuine(&app.vault) {
                terms = Terms::after(terms, &line);
            }
            until = line.id;
        }
        if is_last || until == before {
            return Ok(Record { terms, until, seal });
        }
    }
}
