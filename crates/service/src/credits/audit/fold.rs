//! The sums: an account's counters beside the sums of its transfers, and the books of an
//! environment.

use ::store::{FromRow, Row, args};

use super::group::Finding;
use super::store as sql;
use crate::app::App;
use crate::credits::Error;

/// What [`sql::FOLD`] answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    pub(super) posted: Option<i64>,
    pub(super) held: Option<i64>,
    pub(super) credit_limit: Option<i64>,
    pub(super) topups: i64,
    pub(super) corrections: i64,
    pub(super) holds: i64,
    pub(super) posts: i64,
    pub(super) voids: i64,
    pub(super) refunds: i64,
}

impl FromRow for Fold {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            posted: row.take(0)?,
            held: row.take(1)?,
            credit_limit: row.take(2)?,
            topups: row.take(3)?,
            corrections: row.take(4)?,
            holds: row.take(5)?,
            posts: row.take(6)?,
            voids: row.take(7)?,
            refunds: row.take(8)?,
        })
    }
}

impl Fold {
    /// The sums of an account's transfers beside its counters. They are of one snapshot, so it is
    /// one statement, and a large account makes it a long one: it gets a thread where nobody waits.
    /// `None` = they cannot be computed, although the account can be read.
    pub(super) async fn read(app: &App, account: &str) -> Result<Option<Self>, Error> {
        let (db, args) = (app.db.clone(), args![account]);
        let runtime = tokio::runtime::Handle::current();
        let read = move || runtime.block_on(db.row::<Self>(sql::FOLD, args));
        let read = tokio::task::spawn_blocking(read).await;
        match read.unwrap_or_else(|e| Err(::store::Error::Unavailable(e.to_string()))) {
            Ok(fold) => Ok(Some(fold.unwrap_or_default())),
            // Amounts that nobody can add up, or counters that are no numbers.
            Err(_) if crate::credits::seals::terms::found(app, account).await.is_ok() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Counters and sums, where there is an account.
    pub(super) fn check(&self) -> Vec<Finding> {
        let (Some(posted), Some(held), Some(limit)) = (self.posted, self.held, self.credit_limit)
        else {
            return Vec::new();
        };
        let wide = i128::from;
        let mut findings = Vec::new();
        let spent = wide(self.posts) + wide(self.corrections);
        let expected = wide(self.topups) + wide(self.refunds) - spent;
        if wide(posted) != expected {
            findings.push(("I2", format!("posted is {posted}, its transfers say {expected}")));
        }
        let expected = wide(self.holds) - wide(self.posts) - wide(self.voids);
        if wide(held) != expected {
            findings.push(("I2", format!("held is {held}, its transfers say {expected}")));
        }
        let available = wide(posted) - wide(held) + wide(limit);
        if available < 0 || held < 0 {
            findings.push(("I3", format!("available is {available}, held is {held}")));
        }
        findings
    }
}

/// The operator's side of every movement, beside what the tenants' counters say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Books {
    tenants: i128,
    tenants_held: i128,
    topups: i128,
    sales: i128,
    sales_pending: i128,
}

impl Books {
    /// topup: topups to tenant; correction: tenant to topups; hold: tenant to sales, pending;
    /// post: tenant to sales, no longer pending; void: pending ends; refund: sales to tenant.
    pub(super) fn enter(&mut self, fold: &Fold) {
        self.tenants += i128::from(fold.posted.unwrap_or(0));
        self.tenants_held += i128::from(fold.held.unwrap_or(0));
        self.topups += i128::from(fold.corrections) - i128::from(fold.topups);
        self.sales += i128::from(fold.posts) - i128::from(fold.refunds);
        self.sales_pending +=
            i128::from(fold.holds) - i128::from(fold.posts) - i128::from(fold.voids);
    }

    pub(super) fn fault(&self) -> Option<String> {
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
