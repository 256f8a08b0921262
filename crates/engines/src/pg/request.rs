//! What a batcher sends: texts without parameters, and statements with their arguments.

use store::{Args, Sql};

/// One thing to send.
#[derive(Clone, Copy)]
pub(super) enum Request<'r> {
    /// Statements without parameters, such as COMMIT. They run whatever failed before them.
    Text(&'r str),
    /// A statement without parameters that what follows it depends on, such as BEGIN. It runs
    /// whatever failed before it.
    First(Sql),
    /// A statement whose text and arguments were checked. It is skipped after one that failed,
    /// unless a text or a first one stands between them.
    Bound { sql: Sql, args: &'r Args },
    /// A text for many sets that the connection knows, with the arguments of each.
    Bulk { sql: Sql, args: &'r [&'r Args] },
}

impl Request<'_> {
    /// Whether it is skipped after one that failed.
    pub(super) fn follows(&self) -> bool {
        matches!(self, Self::Bound { .. } | Self::Bulk { .. })
    }

    /// Whether such ones may follow it.
    pub(super) fn leads(&self) -> bool {
        !matches!(self, Self::Text(_))
    }
}
