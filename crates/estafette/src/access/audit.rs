//! The audit log: who did what to which object, written in the same write set as the deed.

use store::{WriteSet, args};

use super::caller::Who;
use super::store as sql;
use crate::app::App;
use crate::kit::id::{AccountId, AuditId};

/// Who acts, and in which request.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// The actor.
    pub who: &'a Who,
    /// The id of the request; empty on the command line.
    pub request_id: &'a str,
}

impl By<'static> {
    /// The operator at the command line.
    pub const CLI: Self = By { who: &Who::Cli, request_id: "" };
}

/// One line of the log.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Who did it.
    pub actor: &'a Who,
    /// What was done, such as `api_key.create`.
    pub action: &'static str,
    /// What it was done to.
    pub object_id: &'a str,
    /// The account that it concerns, if it is one.
    pub account: Option<&'a AccountId>,
    /// The id of the request; empty on the command line.
    pub request_id: &'a str,
    /// What else is worth knowing. Never a secret.
    pub detail: serde_json::Value,
}

/// Adds a line to the write set of the deed.
pub fn record(app: &App, set: &mut WriteSet, entry: &Entry<'_>) {
    let args = args![
        &AuditId::new(&app.clock),
        app.now(),
        entry.actor.kind(),
        entry.actor.id(),
        entry.action,
        entry.object_id,
        entry.account.map(AccountId::as_str),
        entry.request_id,
        entry.detail.to_string(),
    ];
    set.push(sql::ADD_AUDIT_ENTRY, args);
}
