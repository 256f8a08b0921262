//! How many of some things an account may have. The rooms count what is theirs with a guard in the
//! write set that adds one; here is what makes such sets wait for each other, because sets that run
//! at the same time on several nodes do not see each other's rows.

mod store;

use ::store::{WriteSet, args};

use self::store as sql;
use crate::kit::id::AccountId;

/// What an account may have only so many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// API keys that are active.
    Keys,
    /// Senders of SMS.
    Senders,
    /// Templates of the chat-app.
    Templates,
    /// Webhook targets.
    Webhooks,
}

impl Limited {
    /// As stored.
    const fn word(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Senders => "senders",
            Self::Templates => "templates",
            Self::Webhooks => "webhooks",
        }
    }
}

/// Makes this set wait for all others of the account that add the same. A guard behind it, which
/// counts the rows, sees what they added.
pub fn one_by_one(set: &mut WriteSet, account: &AccountId, limited: Limited) {
    set.push(sql::NEXT, args![account, limited.word()]);
}
