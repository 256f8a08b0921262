//! What a batcher sends: texts without parameters, and statements with their arguments.

use store::{Args, Sql};

/// One thing to send.
#[derive(Clone, Copy)]
pub(super) enum Request<'r> {
    /// Statements without parameters, such as BEGIN. They run whatever failed before them.
    Text(&'r str),
    /// A statement whose text and arguments were checked. It is skipped after one that failed,
    /// unless a text stands between them.
    Bound { sql: Sql, args: &'r Args },
    /// A text for many sets that the connection knows, with the arguments of each.
    Bulk { sql: Sql, args: &'r [&'r Args] },
}

impl Request<'_> {
    pub(super) fn is_bound(&self) -> bool {
        matches!(self, Self::Bound { .. } | Self::Bulk { .. })
    }
}
