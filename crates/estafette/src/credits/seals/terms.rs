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

/// What an account is and how it pays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// `live` or `sandbox`.
    pub env: String,
    /// Whose it is.
    pub user: String,
    /// `None` = no line says so.
    pub status: Option<String>,
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
    /// Those of an account as it is made.
    fn of_new(found: &Self) -> Self {
        let (env, user) = (found.env.clone(), found.user.clone());
        let billing_mode = "prepaid".to_owned();
        Self { env, user, status: None, billing_mode, credit_limit: 0 }
    }

    /// What a line of the audit log changes.
    fn apply(&mut self, line: &Line) {
        let detail: serde_json::Value = serde_json::from_str(&line.detail).unwrap_or_default();
        let word = |name: &str| detail[name].as_str().map(str::to_owned);
        self.status = word("status").or(self.status.take());
        if let Some(mode) = word("billing_mode") {
            self.billing_mode = mode;
        }
        if let Some(limit) = detail["credit_limit"].as_i64() {
            self.credit_limit = limit;
        }
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
        if let (Some(now), Some(known)) = (&found.status, &self.status) {
            compare("status", now, known);
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

/// What is on record of an account.
pub struct Record {
    /// What the newest seal and the lines after it say.
    pub terms: Terms,
    /// The last line that was read; empty = none.
    pub until: String,
    /// The newest seal of the account's terms.
    pub seal: Option<super::Seal>,
}

/// Which lines of the audit log count.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    /// Up to here they may lack their hash.
    pub legacy_until: &'a str,
    /// Those before this id; `None` = all.
    pub end: Option<&'a str>,
}

/// The terms that an account has in its row; `None` = there is no such account.
///
/// # Errors
/// [`Error::Db`].
pub async fn found(app: &App, account: &str) -> Result<Option<Terms>, Error> {
    Ok(app.db.row(sql::TERMS, args![account]).await?)
}

/// The terms that are on record. Environment and user, which no line changes, are the `found` ones
/// until they are sealed.
///
/// # Errors
/// [`Error::Db`].
pub async fn on_record(
    app: &App,
    account: &str,
    found: &Terms,
    lines: Lines<'_>,
) -> Result<Record, Error> {
    let seal = newest_of(app, account, Kind::Terms).await?;
    let sealed = seal.as_ref().and_then(|seal| serde_json::from_str(&seal.detail).ok());
    let mut terms = sealed.unwrap_or_else(|| Terms::of_new(found));
    let mut until = seal.as_ref().map(|seal| seal.until.clone()).unwrap_or_default();
    loop {
        let rows = lines_of_account(app, account, &until, CHUNK).await?;
        let is_last = i64::try_from(rows.len()).unwrap_or(CHUNK) < CHUNK;
        let before = until.clone();
        for line in rows.into_iter().filter_map(|line| line.row) {
            if lines.end.is_some_and(|end| line.id.as_str() >= end) {
                return Ok(Record { terms, until, seal });
            }
            if line.is_genuine(&app.vault, lines.legacy_until) {
                terms.apply(&line);
            }
            until = line.id;
        }
        if is_last || until == before {
            return Ok(Record { terms, until, seal });
        }
    }
}
