//! Proves the ledger: reads every account and transfer in chunks and checks what must hold.
//!
//! - I1 per environment, debits equal credits over the books `topups`, `tenants` and `sales`.
//! - I2 an account's counters equal the fold of its transfers (read in one snapshot).
//! - I3 nothing is spent beyond the credit limit, and nothing negative is held.
//! - I4 a hold is resolved at most once; open ones older than the horizon are listed as dangling.
//! - I5 a message that was accepted or delivered is posted, one still on its way is held.
//! - I6 a message that was refused is voided; one that failed is voided or refunded.
//! - I7 a refund is of a posted hold and of its amount.
//! - I9 no transfer was changed: its keyed hash fits.
//!
//! The service may be running: what looks wrong between two reads is read again after a moment,
//! and again, until it is right or stays wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use ::store::args;
use serde::Serialize;
use uuid::Uuid;

use super::store::{self, Fold};
use super::{Error, Transfer, resolution_of};
use crate::app::App;
use crate::jobs::Turn;
use crate::kit::id::{AccountId, AttemptId, TransferId};

/// An older hold that is still open dangles, milliseconds: by then every passcode has expired and
/// been visited.
pub const HORIZON_MS: i64 = 15 * clock::MINUTE;
const CHUNK: i64 = 1_000;
/// What is in flight has landed after this.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// Looks at what seems wrong. Something may land between the two reads of each.
const LOOKS: u32 = 3;

/// What the audit found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Accounts read.
    pub accounts: u64,
    /// Transfers read.
    pub transfers: u64,
    /// Holds that are not resolved yet.
    pub holds_open: u64,
    /// Attempts of which nobody knows whether the carrier has them.
    pub attempts_unknown: u64,
    /// Open holds older than the horizon.
    pub dangling: Vec<Dangling>,
    /// What must not be.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether the ledger is sound and nothing dangles.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty() && self.dangling.is_empty()
    }

    fn blame(&mut self, invariant: &'static str, account: &str, object: &str, detail: String) {
        let (account_id, object_id) = (account.to_owned(), object.to_owned());
        self.violations.push(Violation { invariant, account_id, object_id, detail });
    }
}

/// An open hold older than the horizon.
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

/// A broken invariant.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// `I1` to `I9`.
    pub invariant: &'static str,
    /// The account, or the environment for `I1`.
    pub account_id: String,
    /// The transfer or attempt, where it is about one.
    pub object_id: String,
    /// What is wrong.
    pub detail: String,
}

/// A hold with its resolution and refund, or a movement by hand: the transfers of one UUID but
/// for its two lowest bits.
#[derive(Clone, Debug, Default)]
struct Group {
    first: Option<Transfer>,
    second: Option<Transfer>,
    refund: Option<Transfer>,
    stray: Option<Transfer>,
}

impl Group {
    fn put(&mut self, transfer: Transfer) {
        let place = match transfer.id.uuid().as_u128() & 3 {
            0 => &mut self.first,
            1 => &mut self.second,
            2 => &mut self.refund,
            _ => &mut self.stray,
        };
        *place = Some(transfer);
    }

    fn is_open(&self) -> bool {
        self.second.is_none() && self.first.as_ref().is_some_and(|first| first.kind == "hold")
    }

    fn is_resolved_as(&self, kind: &str) -> bool {
        self.second.as_ref().is_some_and(|second| second.kind == kind)
    }
}

/// One finding before it has an account: invariant and words.
type Finding = (&'static str, String);

/// Reads everything and reports. Open holds older than `horizon_ms` are dangling.
///
/// # Errors
/// [`Error::Db`] when the database cannot be read to the end.
pub async fn audit(app: &App, horizon_ms: i64) -> Result<Report, Error> {
    Ok(read_all(app, horizon_ms, None).await?.unwrap_or_default())
}

/// The same beside everything else, with pauses; `None` when the turn was over before the end.
///
/// # Errors
/// [`Error::Db`] when the database cannot be read to the end.
pub async fn audit_slowly(
    app: &App,
    horizon_ms: i64,
    turn: &Turn,
) -> Result<Option<Report>, Error> {
    read_all(app, horizon_ms, Some(turn)).await
}

async fn read_all(
    app: &App,
    horizon_ms: i64,
    turn: Option<&Turn>,
) -> Result<Option<Report>, Error> {
    let mut report = Report::default();
    let mut books: BTreeMap<String, Books> = BTreeMap::new();
    let mut after = String::new();
    loop {
        let accounts: Vec<(AccountId, String)> =
            app.db.rows(store::ACCOUNTS, args![&after, CHUNK]).await?;
        let Some((last, _)) = accounts.last() else { break };
        last.as_str().clone_into(&mut after);
        for (account, env) in &accounts {
            report.accounts += 1;
            let fold = fold(app, account).await?;
            for (invariant, detail) in check_fold(&fold) {
                report.blame(invariant, account.as_str(), "", detail);
            }
            report.transfers += u64::try_from(fold.transfers).unwrap_or(0);
            books.entry(env.clone()).or_default().enter(&fold);
            let mut walk = Walk { app, account, report: &mut report, turn, suspects: Vec::new() };
            walk.run(horizon_ms).await?;
            if let Some(turn) = turn
                && !turn.breathe().await
            {
                return Ok(None);
            }
        }
    }
    for (env, books) in &books {
        if let Some(detail) = books.fault() {
            report.blame("I1", env, "", detail);
        }
    }
    Ok(Some(report))
}

/// The sums of an account's transfers beside its counters. They are of one snapshot, so it is one
/// statement, and a large account makes it a long one: it gets a thread where nobody waits.
async fn fold(app: &App, account: &AccountId) -> Result<Fold, Error> {
    let (db, args) = (app.db.clone(), args![account]);
    let runtime = tokio::runtime::Handle::current();
    let read = move || runtime.block_on(db.row::<Fold>(store::FOLD, args));
    let read = tokio::task::spawn_blocking(read).await;
    let fold = read.unwrap_or_else(|e| Err(::store::Error::Unavailable(e.to_string())))?;
    Ok(fold.unwrap_or_default())
}

/// The operator's side of every movement, beside what the tenants' counters say.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    tenants: i128,
    tenants_held: i128,
    topups: i128,
    sales: i128,
    sales_pending: i128,
}

impl Books {
    /// topup: topups to tenant; correction: tenant to topups; hold: tenant to sales, pending;
    /// post: tenant to sales, no longer pending; void: pending ends; refund: sales to tenant.
    fn enter(&mut self, fold: &Fold) {
        self.tenants += i128::from(fold.posted.unwrap_or(0));
        self.tenants_held += i128::from(fold.held.unwrap_or(0));
        self.topups += i128::from(fold.corrections) - i128::from(fold.topups);
        self.sales += i128::from(fold.posts) - i128::from(fold.refunds);
        self.sales_pending +=
            i128::from(fold.holds) - i128::from(fold.posts) - i128::from(fold.voids);
    }

    fn fault(&self) -> Option<String> {
        let Self { tenants, tenants_held, topups, sales, sales_pending } = self;
        let is_even = tenants + topups + sales == 0 && tenants_held == sales_pending;
        (!is_even).then(|| {
            format!(
                "books do not balance: tenants {tenants}, topups {topups}, sales {sales}; \
                 held {tenants_held}, pending sales {sales_pending}"
            )
        })
    }
}

fn check_fold(fold: &Fold) -> Vec<Finding> {
    let (Some(posted), Some(held), Some(limit)) = (fold.posted, fold.held, fold.credit_limit)
    else {
        return vec![("I2", "the account disappeared".to_owned())];
    };
    let wide = i128::from;
    let mut findings = Vec::new();
    let spent = wide(fold.posts) + wide(fold.corrections);
    let expected = wide(fold.topups) + wide(fold.refunds) - spent;
    if wide(posted) != expected {
        findings.push(("I2", format!("posted is {posted}, its transfers say {expected}")));
    }
    let expected = wide(fold.holds) - wide(fold.posts) - wide(fold.voids);
    if wide(held) != expected {
        findings.push(("I2", format!("held is {held}, its transfers say {expected}")));
    }
    let available = wide(posted) - wide(held) + wide(limit);
    if available < 0 || held < 0 {
        findings.push(("I3", format!("available is {available}, held is {held}")));
    }
    findings
}

/// The walk through one account's transfers and attempts.
struct Walk<'a> {
    app: &'a App,
    account: &'a AccountId,
    report: &'a mut Report,
    /// Pauses, where there are to be some.
    turn: Option<&'a Turn>,
    suspects: Vec<u128>,
}

impl Walk<'_> {
    async fn run(&mut self, horizon_ms: i64) -> Result<(), Error> {
        let mut groups: BTreeMap<u128, Group> = BTreeMap::new();
        let mut after = String::new();
        let mut checked = None;
        loop {
            let rows = self.transfers(&after, "~", CHUNK).await?;
            let is_last = i64::try_from(rows.len()).unwrap_or(CHUNK) < CHUNK;
            if let Some(last) = rows.last() {
                last.id.as_str().clone_into(&mut after);
            }
            for transfer in rows {
                groups.entry(transfer.id.uuid().as_u128() & !3).or_default().put(transfer);
            }
            // The last group of a full chunk may go on in the next one.
            let mut rest = BTreeMap::new();
            if !is_last && let Some((key, group)) = groups.pop_last() {
                rest.insert(key, group);
            }
            let until = if is_last { Some(u128::MAX) } else { groups.keys().last().copied() };
            if let Some(until) = until {
                self.compare(&groups, checked, until).await?;
                checked = Some(until);
            }
            for group in groups.values() {
                self.age(group, horizon_ms);
            }
            groups = rest;
            if is_last || !self.rest().await {
                break;
            }
        }
        self.look_again().await
    }

    /// A pause between two chunks; `false` = leave the rest.
    async fn rest(&self) -> bool {
        match self.turn {
            Some(turn) => turn.rest().await,
            None => true,
        }
    }

    async fn transfers(&self, after: &str, to: &str, max: i64) -> Result<Vec<Transfer>, Error> {
        let args = args![self.account, after, to, max];
        Ok(self.app.db.rows(store::TRANSFERS, args).await?)
    }

    async fn attempts(
        &self,
        after: Option<u128>,
        to: u128,
    ) -> Result<Vec<(AttemptId, String)>, Error> {
        let id = |key| AttemptId::of(Uuid::from_u128(key)).to_string();
        let to = if to == u128::MAX { "~".to_owned() } else { id(to) };
        let args = args![self.account, after.map(id).unwrap_or_default(), to];
        Ok(self.app.db.rows(store::ATTEMPTS, args).await?)
    }

    /// Notes the groups that look wrong, alone or beside the attempts of their range.
    async fn compare(
        &mut self,
        groups: &BTreeMap<u128, Group>,
        after: Option<u128>,
        until: u128,
    ) -> Result<(), Error> {
        let attempts = self.attempts(after, until).await?;
        let none = Group::default();
        for (attempt, state) in attempts {
            self.report.attempts_unknown += u64::from(state == "unknown");
            let key = attempt.uuid().as_u128();
            if check_fate(&state, groups.get(&key).unwrap_or(&none)).is_some() {
                self.suspects.push(key);
            }
        }
        for (key, group) in groups {
            if !self.check_group(group).is_empty() {
                self.suspects.push(*key);
            }
        }
        Ok(())
    }

    fn age(&mut self, group: &Group, horizon_ms: i64) {
        let Some(hold) = group.first.as_ref().filter(|_| group.is_open()) else { return };
        self.report.holds_open += 1;
        let age_ms = self.app.now().0.saturating_sub(hold.created_at.0);
        if age_ms > horizon_ms {
            self.report.dangling.push(Dangling {
                account_id: self.account.to_string(),
                transfer_id: hold.id.to_string(),
                object_id: hold.object_id.clone(),
                amount: hold.amount,
                age_ms,
            });
        }
    }

    /// Reads what looked wrong again, all suspects after one pause, and blames what stays wrong.
    async fn look_again(&mut self) -> Result<(), Error> {
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.sort_unstable();
        suspects.dedup();
        for look in 1..=LOOKS {
            if suspects.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(SECOND_LOOK).await;
            let mut guilty = Vec::new();
            for key in suspects {
                let findings = self.examine(key).await?;
                if findings.is_empty() {
                    continue;
                }
                guilty.push(key);
                if look == LOOKS {
                    for (object, (invariant, detail)) in findings {
                        self.report.blame(invariant, self.account.as_str(), &object, detail);
                    }
                }
            }
            suspects = guilty;
        }
        Ok(())
    }

    /// What is wrong with one group and its attempt now, with the id of the thing concerned.
    async fn examine(&self, key: u128) -> Result<Vec<(String, Finding)>, Error> {
        let attempts = self.attempts(key.checked_sub(1), key).await?;
        let last = TransferId::of(Uuid::from_u128(key | 3)).to_string();
        let before = TransferId::of(Uuid::from_u128(key.saturating_sub(1))).to_string();
        let mut group = Group::default();
        for transfer in self.transfers(&before, &last, 4).await? {
            group.put(transfer);
        }
        let object = TransferId::of(Uuid::from_u128(key)).to_string();
        let of_group = self.check_group(&group).into_iter();
        let mut findings: Vec<_> = of_group.map(|finding| (object.clone(), finding)).collect();
        for (attempt, state) in attempts {
            findings.extend(check_fate(&state, &group).map(|found| (attempt.to_string(), found)));
        }
        Ok(findings)
    }

    fn check_group(&self, group: &Group) -> Vec<Finding> {
        let mut findings = check_shape(group);
        let rows = [&group.first, &group.second, &group.refund, &group.stray];
        for transfer in rows.into_iter().flatten() {
            if transfer.mac != transfer.seal(&self.app.vault, self.account) {
                let detail = format!("{} {} was changed", transfer.kind, transfer.id);
                findings.push(("I9", detail));
            }
            if transfer.amount < 0 {
                findings.push(("I1", format!("{} has a negative amount", transfer.id)));
            }
        }
        findings
    }
}

/// What the transfers of one group must be to each other.
fn check_shape(group: &Group) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(stray) = &group.stray {
        findings.push(("I1", format!("{} {} belongs to no book", stray.kind, stray.id)));
    }
    match &group.first {
        Some(first) if matches!(first.kind.as_str(), "topup" | "correction" | "hold") => {}
        Some(first) => {
            findings.push(("I1", format!("{} {} belongs to no book", first.kind, first.id)));
        }
        None if group.second.is_some() || group.refund.is_some() => {
            findings.push(("I4", "a resolution or refund has no hold".to_owned()));
        }
        // Nothing at all: a group that was only asked for because of an attempt.
        None => {}
    }
    let Some(hold) = &group.first else { return findings };
    if let Some(second) = &group.second {
        let is_resolution = matches!(second.kind.as_str(), "post" | "void") && hold.kind == "hold";
        if !is_resolution || second.of.as_ref() != Some(&hold.id) || second.amount != hold.amount {
            findings.push(("I4", format!("{} does not resolve its hold as it is", second.id)));
        }
    }
    if let Some(refund) = &group.refund {
        let is_of_post = refund.of.as_ref() == Some(&resolution_of(&hold.id));
        let is_refund = refund.kind == "refund" && group.is_resolved_as("post");
        if !is_refund || !is_of_post || refund.amount > hold.amount {
            findings.push(("I7", format!("{} does not refund a posted hold", refund.id)));
        }
    }
    findings
}

/// What the money must say of a message whose attempt is in `state`.
fn check_fate(state: &str, group: &Group) -> Option<Finding> {
    let is_held = group.first.as_ref().is_some_and(|first| first.kind == "hold");
    let is_open = group.is_open() && group.refund.is_none();
    let is_voided = group.is_resolved_as("void") && group.refund.is_none();
    let is_posted = group.is_resolved_as("post");
    let is_refunded = is_posted && group.refund.is_some();
    let (invariant, is_right) = match state {
        "sending" | "unknown" => ("I5", is_open),
        "accepted" | "delivered" => ("I5", is_posted && !is_refunded),
        "refused" => ("I6", is_voided),
        "failed" | "lapsed" => ("I6", is_voided || is_refunded),
        _ => ("I5", false),
    };
    let money = match (is_held, is_refunded, is_posted, is_voided, is_open) {
        (false, ..) => "not held",
        (_, true, ..) => "refunded",
        (_, _, true, ..) => "posted",
        (_, _, _, true, _) => "voided",
        (.., true) => "held",
        _ => "in disorder",
    };
    let is_sound = is_held && is_right;
    (!is_sound).then(|| (invariant, format!("the attempt is {state}, its credits are {money}")))
}
