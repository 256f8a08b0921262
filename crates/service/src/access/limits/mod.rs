//! Limits on how many of something an account may have. Each room counts its own rows with a guard
//! in the write set that adds one. This module makes such sets wait for each other, because sets
//! that run on several nodes at the same time do not see each other's rows.

mod store;

use ::store::{WriteSet, args};

use self::store as sql;
use crate::kit::id::AccountId;
use crate::kit::words::words;

words! {
    /// What an account may have only so many of.
    pub enum Limited {
        /// API keys that are active.
        Keys = "keys",
        /// Senders of SMS.
        Senders = "senders",
        /// Domains of emails.
        EmailDomains = "email_domains",
        /// Emails of the service to the account's user.
        Notices = "notices",
        /// Prices, of which there may be any number, but a new one ends others.
        Prices = "prices",
        /// Templates of the chat-app.
        Templates = "templates",
        /// Tickets that are not closed.
        Tickets = "tickets",
        /// Webhook targets.
        Webhooks = "webhooks",
    }
}

/// Makes this set wait for all others of the account that add the same. A guard behind it, which
/// counts the rows, sees what they added.
pub fn one_by_one(set: &mut WriteSet, account: &AccountId, limited: Limited) {
    set.push(sql::NEXT, args![account, limited.as_str()]);
}

/// The same of what belongs to no account.
pub fn one_by_one_for_all(set: &mut WriteSet, limited: Limited) {
    set.push(sql::NEXT, args!["", limited.as_str()]);
}
