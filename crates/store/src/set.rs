//! The write set: an ordered list of statements that happen together or not at all. Rules are
//! guards in the SQL, so an engine may replay a set whenever it must.

use std::any::Any;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Args;

/// One portable SQL text: `$1, $2, …` in order of first use, BIGINT, TEXT and BYTEA only.
///
/// `/*BULK*/` at its end says that sets of the same texts may run it side by side, where the engine
/// gains by it, instead of one set after the other; so may one set that has it several times in a
/// row. It is a SELECT that must find nothing, an `INSERT … VALUES`, an `INSERT … SELECT … WHERE`
/// or an `UPDATE … WHERE`, without `RETURNING`. The engine sees to it that each set changes one row
/// of its own, and else runs them one after the other. Its author vouches for the rest: what it
/// reads is changed by such sets only in rows that two of them cannot both change.
///
/// `UPDATE … WHERE id = $2 AND … /*BULK SUM*/ AND …` is the same for a counter that many sets
/// change: `$1` (never negative) is added up over them and the row changed once. Before the mark
/// stands what is asked of the row and the sum, behind it what is asked of each set.
///
/// `/*MANY*/` at the end of a SELECT says that reads of it that come at the same time may be one
/// statement. Its author vouches that each finds a few rows by a key, and quickly.
///
/// `/*POSTGRESQL …*/` is a part that only PostgreSQL runs, without parameters of its own, and a
/// text that begins with `/*SQLITE*/` is a statement that only SQLite runs: where what one engine
/// does in passing is dear on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sql(pub &'static str);

/// Work of one kind that somebody waits for: a word of the domain's own, compared by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bell(pub &'static str);

/// What is handed to whoever answers a bell, in this process: a value of the domain's own.
pub type Parcel = Arc<dyn Any + Send + Sync>;

/// A parcel, whose it is, and the bell that rings for it.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) bell: Bell,
    pub(crate) shard: Box<str>,
    pub(crate) parcel: Parcel,
}

/// Why a guard refused a set: a word of the domain's own, compared by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reject(pub &'static str);

/// What a statement must do for its set to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Any number of rows.
    Any,
    /// Exactly one row changed, else the whole set is refused with this word.
    One(Reject),
    /// Exactly one row comes back (`RETURNING`), else the whole set is refused with this word.
    Row(Reject),
    /// Any number of rows come back (`RETURNING`).
    Rows,
    /// A SELECT that finds nothing, else the whole set is refused with this word. It writes
    /// nothing, so a refusal by it (before anything was written) costs the others nothing.
    None(Reject),
}

/// One statement of a set.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// The text.
    pub sql: Sql,
    /// Its arguments.
    pub args: Args,
    /// What it must do.
    pub expect: Expect,
    /// Whether sets of the same shard contend for its row; see [`WriteSet::contended`].
    pub is_contended: bool,
}

/// Statements that commit together. One set touches one account: the shard.
#[derive(Clone, Debug)]
pub struct WriteSet {
    shard: Box<str>,
    stmts: Vec<Stmt>,
    bells: SmallVec<[Bell; 1]>,
    handovers: Vec<Handover>,
}

impl WriteSet {
    /// An empty set of the given shard (an account id, or the id of what has no account).
    #[must_use]
    pub fn of(shard: &str) -> Self {
        Self {
            shard: shard.into(),
            stmts: Vec::with_capacity(6),
            bells: SmallVec::new(),
            handovers: Vec::new(),
        }
    }

    /// Adds a statement that may touch any number of rows.
    pub fn push(&mut self, sql: Sql, args: Args) -> &mut Self {
        self.add(sql, args, Expect::Any)
    }

    /// Adds a statement that must change exactly one row. The cheapest place is first in the set.
    pub fn guard(&mut self, sql: Sql, args: Args, reject: Reject) -> &mut Self {
        self.add(sql, args, Expect::One(reject))
    }

    /// Adds a [`Self::guard`] on a row that most sets of the shard change, such as the balance of
    /// an account. An engine may run it later, after other statements of this set and of others,
    /// so that the row is locked as shortly as can be. Hence no other statement of the set may
    /// read what it changes, and all statements that change such a row must be added like this.
    pub fn contended(&mut self, sql: Sql, args: Args, reject: Reject) -> &mut Self {
        self.contend(sql, args, Expect::One(reject))
    }

    /// The same of a statement that may change no row.
    pub fn push_contended(&mut self, sql: Sql, args: Args) -> &mut Self {
        self.contend(sql, args, Expect::Any)
    }

    /// Adds a [`Self::returning`] on a row as of [`Self::contended`].
    pub fn returning_contended(&mut self, sql: Sql, args: Args, reject: Reject) -> &mut Self {
        self.contend(sql, args, Expect::Row(reject))
    }

    /// Adds a `RETURNING` statement that must answer exactly one row, kept in [`crate::Done`].
    pub fn returning(&mut self, sql: Sql, args: Args, reject: Reject) -> &mut Self {
        self.add(sql, args, Expect::Row(reject))
    }

    /// Adds a `RETURNING` statement whose rows, however many, are kept in [`crate::Done`].
    pub fn returning_rows(&mut self, sql: Sql, args: Args) -> &mut Self {
        self.add(sql, args, Expect::Rows)
    }

    /// Adds a SELECT that must find nothing. In front of everything else it is the cheapest guard.
    pub fn absent(&mut self, sql: Sql, args: Args, reject: Reject) -> &mut Self {
        self.add(sql, args, Expect::None(reject))
    }

    /// Appends another set's statements; the shard stays this one's.
    pub fn append(&mut self, other: Self) -> &mut Self {
        for bell in other.bells {
            self.ring(bell);
        }
        self.stmts.extend(other.stmts);
        self.handovers.extend(other.handovers);
        self
    }

    /// Leaves work for others: once the set is durable, [`crate::Db::rung`] returns in this
    /// process. A hint only; whoever does the work polls for it as well.
    pub fn ring(&mut self, bell: Bell) -> &mut Self {
        if !self.bells.contains(&bell) {
            self.bells.push(bell);
        }
        self
    }

    /// The same, and hands over what the work is about ([`crate::Db::handed`]), so that it need not
    /// be read. A hint as well: a process that ends has forgotten it.
    pub fn hand(&mut self, bell: Bell, parcel: Parcel) -> &mut Self {
        self.handovers.push(Handover { bell, shard: self.shard.clone(), parcel });
        self.ring(bell)
    }

    /// What is to be handed over when the set is durable.
    pub(crate) fn take_handovers(&mut self) -> Vec<Handover> {
        std::mem::take(&mut self.handovers)
    }

    /// The bells that ring when the set is durable.
    #[must_use]
    pub fn bells(&self) -> &[Bell] {
        &self.bells
    }

    /// What routes the set to a batcher and, on a sharded engine, to a node.
    #[must_use]
    pub fn shard(&self) -> &str {
        &self.shard
    }

    /// The statements in order.
    #[must_use]
    pub fn stmts(&self) -> &[Stmt] {
        &self.stmts
    }

    /// Leaves statements out.
    pub fn retain(&mut self, keeps: impl Fn(&Stmt) -> bool) {
        self.stmts.retain(|stmt| keeps(stmt));
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stmts.is_empty()
    }

    fn contend(&mut self, sql: Sql, args: Args, expect: Expect) -> &mut Self {
        self.stmts.push(Stmt { sql, args, expect, is_contended: true });
        self
    }

    fn add(&mut self, sql: Sql, args: Args, expect: Expect) -> &mut Self {
        self.stmts.push(Stmt { sql, args, expect, is_contended: false });
        self
    }
}
