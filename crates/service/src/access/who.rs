//! Who acts: for limits, and for the audit log.

use crate::kit::id::{KeyId, StaffId, UserId};

/// An actor, for limits and the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A program with an API key.
    Key(KeyId),
    /// A user in the portal.
    User(UserId),
    /// A member of the operator's staff.
    Staff(StaffId),
    /// The operator at the command line.
    Cli,
    /// The service, by itself.
    Service,
    /// Nobody known: who failed to log in.
    Stranger,
}

impl Who {
    /// Which of them, as stored.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::User(_) => "user",
            Self::Staff(_) => "staff",
            Self::Cli => "cli",
            Self::Service => "service",
            Self::Stranger => "stranger",
        }
    }

    /// The actor's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Key(id) => id.as_str(),
            Self::User(id) => id.as_str(),
            Self::Staff(id) => id.as_str(),
            Self::Cli => "cli",
            Self::Service => "service",
            Self::Stranger => "",
        }
    }
}
