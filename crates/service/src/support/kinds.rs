//! The words of support: status, priority and side, as types.

use crate::kit::described::described;
use crate::kit::words::words;

words! {
    /// Where a ticket stands.
    pub enum Status {
        /// Staff is to act.
        Open = "open",
        /// The user is to answer.
        Pending = "pending",
        /// Somebody else is waited for.
        OnHold = "on_hold",
        /// Done; an answer of the user opens it again.
        Resolved = "resolved",
        /// Over for good.
        Closed = "closed",
    }
    /// How urgent a ticket is.
    pub enum Priority {
        /// Can wait.
        Low = "low",
        /// As most are.
        Normal = "normal",
        /// Before others.
        High = "high",
    }
    /// The side that a message comes from.
    pub enum Side {
        /// The account's owner.
        User = "user",
        /// The operator's staff.
        Admin = "admin",
    }
}

impl Status {
    /// Whether nobody waits for staff, so that targets stand still.
    #[must_use]
    pub const fn is_paused(self) -> bool {
        !matches!(self, Self::Open)
    }
}

described!(
    Status as "TicketStatus": "Where a ticket stands.",
    Self::ALL.iter().map(|status| status.as_str())
);
described!(
    Priority as "TicketPriority": "How urgent a ticket is.",
    Self::ALL.iter().map(|priority| priority.as_str())
);
described!(
    Side as "TicketSide": "The side that a message comes from.",
    Self::ALL.iter().map(|side| side.as_str())
);
