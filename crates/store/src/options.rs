//! Which engines a program has, and how they use the machine. The program names them (`main`), so
//! that all that uses a database is compiled beside them and not after them.

use std::path::Path;
use std::sync::Arc;

use crate::{Db, Error, Stmt};

/// The engines of a program.
#[derive(Clone, Copy)]
pub struct Engines {
    /// Opens a file of SQLite, or makes one.
    pub sqlite: fn(&Path, SqliteOptions) -> Result<Db, Error>,
    /// Prepares connections to a PostgreSQL server: none is made yet.
    pub postgres: fn(&str, &PostgresOptions) -> Result<Db, Error>,
    /// What is wrong with the URL of a PostgreSQL database, as far as that can be seen from it;
    /// never with the URL in it, which holds a password.
    pub check_url: fn(&str) -> Result<(), String>,
}

impl std::fmt::Debug for Engines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engines")
    }
}

impl Default for Engines {
    /// None: whatever is to be opened is refused.
    fn default() -> Self {
        Self { sqlite: |_, _| Err(none()), postgres: |_, _| Err(none()), check_url: |_| Ok(()) }
    }
}

fn none() -> Error {
    Error::Unavailable("this program was built without a database".to_owned())
}

/// Called before each statement of a set; a test may sleep or panic in it.
pub type Fault = Arc<dyn Fn(&Stmt) + Send + Sync>;

/// How SQLite uses the machine.
#[derive(Clone)]
pub struct SqliteOptions {
    /// Sets that may wait; one more is refused as overloaded.
    pub queue: usize,
    /// Sets that share a transaction at most.
    pub group: usize,
    /// Read-only connections.
    pub readers: usize,
    /// Bytes of write-ahead log after which the writer starts the log anew. Everybody waits for
    /// that, 10 to 20 ms: under full load it is so much that less than one wait in 100 is longer.
    pub wal_limit_bytes: u64,
    /// Page cache of the writer, in KiB. At each commit SQLite looks through its whole hash table,
    /// so it is small: a send takes 7 % less CPU than with 32 MiB. What a group changes may
    /// exceed it.
    pub cache_kib: u32,
    /// Page cache of each reader, in KiB.
    pub reader_cache_kib: u32,
    /// How long to wait for another process that holds the database, in milliseconds.
    pub busy_timeout_ms: u64,
    /// For tests: what happens before each statement of a set.
    #[doc(hidden)]
    pub fault: Option<Fault>,
    /// For tests: the size of a disk that gets full, in pages.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            queue: 8192,
            group: 512,
            readers: 4,
            wal_limit_bytes: 192 << 20,
            cache_kib: 8 << 10,
            reader_cache_kib: 8 << 10,
            busy_timeout_ms: 10_000,
            fault: None,
            max_pages: None,
        }
    }
}

/// How PostgreSQL is used.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Connections that write; sets of one shard always take the same.
    pub batchers: usize,
    /// Connections that read.
    pub readers: usize,
    /// Sets that may wait; one more is refused as overloaded.
    pub queue: usize,
    /// Sets that share a transaction at most.
    pub group: usize,
    /// Whether statements are prepared once for each connection. Off for poolers that do not
    /// follow prepared statements from one server connection to the next.
    pub prepared_statements: bool,
    /// How long a set or a read waits for a server that does not answer, in milliseconds.
    pub patience_ms: u64,
    /// How long an unanswered COMMIT is looked up before its callers learn that nobody knows, in
    /// milliseconds.
    pub unknown_ms: u64,
    /// For tests: what happens before each statement of a set.
    #[doc(hidden)]
    pub fault: Option<Fault>,
    /// For tests: take a COMMIT that was not answered for one that did not happen.
    #[doc(hidden)]
    pub trusts_silence: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            batchers: 2,
            readers: 4,
            queue: 8192,
            group: 128,
            prepared_statements: true,
            patience_ms: 2_000,
            unknown_ms: 20_000,
            fault: None,
            trusts_silence: false,
        }
    }
}
