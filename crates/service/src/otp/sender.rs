//! Whom a passcode by SMS is from.

use super::Error;
use super::order::Order;
use crate::app::{Account, App};
use crate::senders;

/// The sender that is asked for, else the account's own for as long as it is approved; empty = the
/// carrier's own.
pub(super) async fn of(app: &App, account: &Account, order: &Order) -> Result<String, Error> {
    match (&order.sender, &account.settings.default_sender) {
        (Some(asked), _) => Ok(asked.clone()),
        (None, Some(own)) if senders::is_approved(app, &account.id, own).await? => Ok(own.clone()),
        (None, _) => Ok(String::new()),
    }
}

/// The sender of the same passcode again: the one of `before`, unless it is no longer approved.
pub(super) async fn again(
    app: &App,
    account: &Account,
    order: &Order,
    before: String,
) -> Result<String, Error> {
    if before.is_empty() || senders::is_approved(app, &account.id, &before).await? {
        return Ok(before);
    }
    of(app, account, order).await
}
