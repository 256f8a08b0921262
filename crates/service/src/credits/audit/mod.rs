//! Proves the ledger: reads every row that there is, whatever its id looks like, and checks what
//! must hold.
//!
//! - I1 per environment, debits equal credits over the books `topups`, `tenants` and `sales`.
//! - I2 an account's counters equal the fold of its transfers (read in one snapshot).
//! - I3 nothing is spent beyond the credit limit, and nothing negative is held.
//! - I4 a hold is resolved at most once; those still open when their message ended are listed as
//!   dangling, after a horizon.
//! - I5 a message that was accepted or delivered is posted, one still on its way is held; no
//!   attempt is gone but those that retention deleted.
//! - I6 a message that was refused is voided; one that failed is voided or refunded.
//! - I7 a refund is of a posted hold and of its amount.
//! - I9 no transfer was changed or made up: its keyed hash fits.
//! - S1 the chain of seals is whole, and all of it is the service's own.
//! - S2 the transfers of each sealed block are those that were sealed.
//! - S3 the audit log's lines are the service's own, and those that were sealed.
//! - S4 limits, billing modes, states and owners of accounts are those on record.
//! - S5 every account that something names is there.
//! - S6 the chain holds the seals that are known from elsewhere.
//! - S7 rows are being sealed.
//!
//! The service may be running: what looks wrong between two reads is read again after a moment,
//! and again, until it is right or stays wrong.

mod chain;
mod fold;
mod group;
mod log;
mod named;
mod store;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ::store::args;
use clock::Millis;
use futures_util::future::BoxFuture;
use serde::Serialize;

use self::fold::{Books, Fold};
use self::named::Named;
use self::store as sql;
use self::walk::Walk;
use super::Error;
use super::seals::terms;
use super::seals::{self, Kind, NOBODY};
use crate::access::retention::Accounts;
use crate::app::App;
use crate::chores::Turn;
use crate::kit::id::TransferId;
use crate::kit::sealing::SealHead;
use crate::kit::walk::Found;

/// A hold that is still open so long after its message ended dangles, milliseconds: by then due
/// work has been there.
pub const HORIZON_MS: i64 = 5 * clock::MINUTE;
/// While the service runs, rows are sealed within an hour; with none for so much longer, somebody
/// removed the seals or switched them off, milliseconds.
pub const UNSEALED_MS: i64 = clock::DAY;
/// Findings of each kind that a report names; the others are counted.
pub const MOST: usize = 1_000;
/// What is in flight has landed after this.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// Looks at what seems wrong. Something may land between the two reads of each.
const LOOKS: u32 = 3;

/// How an audit is done.
#[derive(Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Holds that are open so long after their message ended are dangling.
    pub horizon_ms: i64,
    /// By which time they are old; `None` = now.
    pub as_of: Option<Millis>,
    /// New rows must be sealed within this time; `None` = it does not matter.
    pub unsealed_ms: Option<i64>,
    /// A seal that was kept elsewhere.
    pub since: Option<SealHead>,
    /// Whose pauses to make; without a turn it goes on as fast as it can.
    pub turn: Option<&'a Turn>,
}

/// What the audit found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Accounts read.
    pub accounts: u64,
    /// Transfers read.
    pub transfers: u64,
    /// Transfers that no seal covers yet.
    pub unsealed: u64,
    /// Seals read.
    pub seals: u64,
    /// Lines of the audit log read.
    pub log_lines: u64,
    /// Holds that are not resolved yet.
    pub holds_open: u64,
    /// Attempts of which nobody knows whether the carrier has them.
    pub attempts_unknown: u64,
    /// How many holds are open although their message ended before the horizon.
    pub dangling_found: u64,
    /// The first [`MOST`] of them.
    pub dangling: Vec<Dangling>,
    /// How much is that must not be.
    pub violations_found: u64,
    /// The first [`MOST`] of it.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether the ledger is sound and nothing dangles.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.violations_found == 0 && self.dangling_found == 0
    }

    fn blame(&mut self, invariant: &'static str, account: &str, object: &str, detail: String) {
        self.violations_found += 1;
        if self.violations.len() < MOST {
            let (account_id, object_id) = (account.to_owned(), object.to_owned());
            self.violations.push(Violation { invariant, account_id, object_id, detail });
        }
    }

    fn dangle(&mut self, hold: Dangling) {
        self.dangling_found += 1;
        if self.dangling.len() < MOST {
            self.dangling.push(hold);
        }
    }
}

/// A hold that is open although its message ended before the horizon.
#[derive(Clone, Debug, Serialize)]
pub struct Dangling {
    /// The account.
    pub account_id: String,
    /// The hold.
    pub transfer_id: String,
    /// What it is for.
    pub object_id: String,
    /// Credits that it keeps.
    pub amount: i64,
    /// How old it is, milliseconds.
    pub age_ms: i64,
}

impl fmt::Display for Dangling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account_id, transfer_id, object_id, amount, age_ms } = self;
        let age_h = age_ms / clock::HOUR;
        write!(f, "{transfer_id} of {account_id} holds {amount} for {object_id} since {age_h} h")
    }
}

/// A broken invariant.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// `I1` to `I9`, `S1` to `S7`.
    pub invariant: &'static str,
    /// The account, or the environment for `I1`; empty where it is about neither.
    pub account_id: String,
    /// The row, where it is about one.
    pub object_id: String,
    /// What is wrong.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.invariant)?;
        for about in [&self.account_id, &self.object_id].into_iter().filter(|id| !id.is_empty()) {
            write!(f, " {}", about.escape_debug())?;
        }
        write!(f, ": {}", self.detail.escape_debug())
    }
}

/// Reads everything and reports. Holds that are open `horizon_ms` after their message
/// ended are dangling.
///
/// # Errors
/// [`Error::Db`] when the database cannot be read to the end.
pub async fn audit(app: &App, horizon_ms: i64) -> Result<Report, Error> {
    let scope = Scope { horizon_ms, ..Scope::default() };
    Ok(read_all(app, &scope).await?.unwrap_or_default())
}

/// The same with all that can be asked for; `None` when the turn was over before the end.
///
/// # Errors
/// [`Error::Db`] when the database cannot be read to the end.
#[must_use]
pub fn read_all<'a>(
    app: &'a App,
    scope: &'a Scope<'a>,
) -> BoxFuture<'a, Result<Option<Report>, Error>> {
    // Awaited in several places, each of which would be compiled with all of it.
    Box::pin(look_at_all(app, scope))
}

async fn look_at_all(app: &App, scope: &Scope<'_>) -> Result<Option<Report>, Error> {
    let mut report = Report::default();
    let end = seals::newest(&app.db).await.ok().flatten().map_or(0, |seal| seal.number);
    let known: Vec<SealHead> = scope.since.into_iter().chain(app.sealing.head()).collect();
    chain::check(app, &mut report, &known, scope.turn).await?;
    log::check(app, &mut report, end, scope.turn).await?;
    for (place,) in app.db.rows::<(String,)>(sql::NAMELESS, args![""]).await? {
        report.blame("S5", "", "", format!("a row of {place} has no id that the service gives"));
    }
    let mut books: BTreeMap<String, Books> = BTreeMap::new();
    let mut named = Named::default();
    while let Some(account) = named.next(app, &mut report).await? {
        let found = of_account(app, &mut report, &account, scope, end).await?;
        if let Some((terms, fold)) = &found {
            books.entry(terms.env.clone()).or_default().enter(fold);
            check_terms(app, &mut report, &account).await?;
        }
        if let Some(turn) = scope.turn
            && !turn.breathe().await
        {
            return Ok(None);
        }
    }
    for (env, books) in &books {
        if let Some(detail) = books.fault() {
            report.blame("I1", env, "", detail);
        }
    }
    check_pace(app, &mut report, scope).await?;
    Ok(Some(report))
}

/// A pause between two chunks; `false` = leave the rest.
async fn rest(turn: Option<&Turn>) -> bool {
    match turn {
        Some(turn) => turn.rest().await,
        None => true,
    }
}

/// One account: its sums and its rows. `None` where the sums are not to be had.
async fn of_account(
    app: &App,
    report: &mut Report,
    account: &str,
    scope: &Scope<'_>,
    end: i64,
) -> Result<Option<(terms::Terms, Fold)>, Error> {
    let found = match terms::found(app, account).await {
        Ok(found) => found,
        Err(Error::Db(::store::Error::Corrupt { .. })) => {
            report.blame("S4", account, "", "the account cannot be read".to_owned());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut sums = None;
    if found.is_some() {
        report.accounts += 1;
        sums = Fold::read(app, account).await?;
        for (invariant, detail) in sums.as_ref().map(Fold::check).unwrap_or_default() {
            report.blame(invariant, account, "", detail);
        }
        if sums.is_none() {
            report.blame("I2", account, "", "its sums cannot be computed".to_owned());
        }
    } else {
        report.blame("S5", account, "", "rows name this account, and it is gone".to_owned());
    }
    let suspects = Vec::new();
    Walk { app, account, report, scope, end, suspects }.run(found.as_ref()).await?;
    Ok(found.zip(sums))
}

/// How the account pays, beside what is on record.
async fn check_terms(app: &App, report: &mut Report, account: &str) -> Result<(), Error> {
    for look in 1..=LOOKS {
        let Some(found) = terms::found(app, account).await? else { return Ok(()) };
        let record = terms::on_record(app, account, None).await?;
        let detail = match record.terms {
            Some(terms) => terms.difference(&found),
            None => Some("the audit log does not say who made the account".to_owned()),
        };
        let Some(detail) = detail else { return Ok(()) };
        if look == LOOKS {
            report.blame("S4", account, "", detail);
        } else {
            // Between the two reads somebody may have changed both.
            tokio::time::sleep(SECOND_LOOK).await;
        }
    }
    Ok(())
}

/// While the service runs, a fence is published every half an hour. Prices that were held a day
/// after the newest fence say that it ran without: commands hold none.
async fn check_pace(app: &App, report: &mut Report, scope: &Scope<'_>) -> Result<(), Error> {
    let Some(unsealed_ms) = scope.unsealed_ms else { return Ok(()) };
    let fence = seals::newest_of(app, NOBODY, Kind::Fence).await?;
    let Some(fence) = fence else { return Ok(()) };
    // A service that was just started has not come to it yet.
    let settled = TransferId::bound(Millis(app.now().0 - 2 * clock::HOUR));
    let late = TransferId::bound(fence.sealed_at + unsealed_ms);
    let mut accounts = Accounts::default();
    while let Some(account) = accounts.next(app).await? {
        let args = args![&account, &late, &settled];
        // Whatever somebody made of its id.
        let held: Option<Found<(String,)>> = app.db.row(sql::HELD_BETWEEN, args).await?;
        if held.is_some() {
            let detail = "for more than a day no transfer was sealed, while new ones were made";
            report.blame("S7", account.as_str(), "", detail.to_owned());
            return Ok(());
        }
    }
    Ok(())
}
