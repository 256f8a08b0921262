//! All accounts that anything names, in their order, whatever somebody wrote into the tables.

use ::store::{Sql, args};

use super::{Report, store as sql};
use crate::app::App;
use crate::credits::Error;
use crate::kit::walk::Found;

/// Rows of one table whose account cannot be read, before the rest of it is given up.
const MOST_UNREADABLE: i64 = 100;

/// One table, and the next account that it names.
struct Source {
    table: &'static str,
    next: Sql,
    ahead: Option<String>,
}

/// The walk over all tables that name accounts.
pub(super) struct Named {
    after: Option<String>,
    sources: Vec<Source>,
}

impl Default for Named {
    fn default() -> Self {
        let tables = [
            ("accounts", sql::NEXT_ACCOUNT),
            ("transfers", sql::NEXT_OF_TRANSFERS),
            ("challenges", sql::NEXT_OF_CHALLENGES),
            ("sms_messages", sql::NEXT_OF_MESSAGES),
            ("chatapp_messages", sql::NEXT_OF_CHATAPP),
            ("attempts", sql::NEXT_OF_ATTEMPTS),
            ("seals", sql::NEXT_OF_SEALS),
            ("late_transfers", sql::NEXT_OF_LATE),
        ];
        let source = |(table, next)| Source { table, next, ahead: None };
        Self { after: None, sources: tables.map(source).into() }
    }
}

impl Named {
    /// The next account; `None` at the end. Rows that name none that can be read are reported.
    pub(super) async fn next(
        &mut self,
        app: &App,
        report: &mut Report,
    ) -> Result<Option<String>, Error> {
        let after = self.after.as_deref();
        for source in &mut self.sources {
            // What is ahead of all that was answered is still ahead.
            if after.is_none() || source.ahead.as_deref() == after {
                source.ahead = source.behind(app, report, after.unwrap_or_default()).await?;
            }
        }
        let lowest = self.sources.iter().filter_map(|source| source.ahead.clone()).min();
        self.after.clone_from(&lowest);
        Ok(lowest)
    }
}

impl Source {
    async fn behind(
        &self,
        app: &App,
        report: &mut Report,
        after: &str,
    ) -> Result<Option<String>, Error> {
        for unreadable in 0..MOST_UNREADABLE {
            let args = args![after, unreadable];
            let Some(found) = app.db.row::<Found<(String,)>>(self.next, args).await? else {
                return Ok(None);
            };
            if found.id.is_some() {
                return Ok(found.id);
            }
            let detail = format!("a row of {} names an account that cannot be read", self.table);
            report.blame("S5", "", after, detail);
        }
        let detail = format!("the accounts in {} after this one were not read", self.table);
        report.blame("S5", "", after, detail);
        Ok(None)
    }
}
