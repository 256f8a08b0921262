//! The audit log as staff reads it.

pub mod api;

use ::store::{Error, args};
use clock::Millis;

use super::store;
use crate::app::App;
use crate::kit::id::AuditId;
use crate::kit::page::Page;

/// One line of the audit log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: Millis,
    /// Who: `staff`, `user`, `key` or the command line.
    pub actor_kind: String,
    /// Who, by id.
    pub actor_id: String,
    /// What was done.
    pub action: String,
    /// What it was done to.
    pub object_id: String,
    /// The account that it concerns.
    pub account_id: Option<String>,
    /// The request.
    pub request_id: String,
    /// What else is known, as JSON.
    pub detail: String,
}

/// Which lines a list shows; empty texts do not filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only what concerns this account.
    pub account: String,
    /// Only what this actor did.
    pub actor: String,
    /// Only this action.
    pub action: String,
}

/// One page, newest first, with one row more when there are more.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(app: &App, filter: &Filter, page: &Page) -> Result<Vec<LogLine>, Error> {
    let Filter { account, actor, action } = filter;
    let limit = page.limit.saturating_add(1);
    if account.is_empty() {
        return app.db.rows(store::LOG, args![&page.after, actor, action, limit]).await;
    }
    let args = args![account, &page.after, actor, action, limit];
    app.db.rows(store::LOG_OF_ACCOUNT, args).await
}
