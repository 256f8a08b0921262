//! How a transaction begins: BEGIN, and limits for this transaction only, since a pooler may hand
//! the next one to another session.

use store::{Args, Sql, args};

/// Statements for many sets are planned once, for any number of them: each finds its rows by an
/// index. Left to itself, the planner would do so anew for each group, for its size, or read all of
/// a table that was small a moment ago.
pub(super) const PLANS: [Sql; 7] = [
    Sql("SET LOCAL plan_cache_mode = force_generic_plan"),
    Sql("SET LOCAL enable_hashjoin = off"),
    Sql("SET LOCAL enable_mergejoin = off"),
    Sql("SET LOCAL enable_seqscan = off"),
    Sql("SET LOCAL enable_bitmapscan = off"),
    Sql("SET LOCAL enable_material = off"),
    Sql("SET LOCAL jit = off"),
];

/// What a batcher sends in front of a group.
pub(super) struct Opening {
    limits: [Sql; 3],
    pub(super) no_args: Args,
}

impl Opening {
    pub(super) const BEGIN: Sql = Sql("BEGIN ISOLATION LEVEL READ COMMITTED");

    /// The lock's limit is the shortest, so that it is the server that says what was waited for. A
    /// node that stopped half-way holds its locks no longer than the patience of the others.
    pub(super) fn of(patience_ms: u64) -> Self {
        let lock_ms = (patience_ms * 3 / 4).max(1);
        Self {
            limits: [
                limit("lock_timeout", lock_ms),
                limit("statement_timeout", patience_ms),
                limit("idle_in_transaction_session_timeout", patience_ms),
            ],
            no_args: args![],
        }
    }

    /// What follows BEGIN.
    pub(super) fn limits(&self, is_bulk: bool) -> impl Iterator<Item = Sql> + '_ {
        let plans = PLANS.iter().filter(move |_| is_bulk);
        self.limits.iter().chain(plans).copied()
    }

    /// All texts of it but [`PLANS`].
    pub(super) fn texts(&self) -> impl Iterator<Item = Sql> + '_ {
        std::iter::once(Self::BEGIN).chain(self.limits(false))
    }

    /// The same as one text, for what is waited for by itself.
    pub(super) fn text(&self) -> String {
        self.texts().map(|sql| sql.0).collect::<Vec<_>>().join("; ")
    }
}

/// Texts live as long as the program; there are three for each database that is opened.
fn limit(setting: &str, ms: u64) -> Sql {
    Sql(format!("SET LOCAL {setting} = {ms}").leak())
}
