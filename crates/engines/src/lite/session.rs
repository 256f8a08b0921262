//! One connection to SQLite: its settings, its prepared statements, and the way values go in
//! and out.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, Statement};
use tokio::time::Instant;

use store::{Args, Error, Row, Sql, SqliteOptions, Val, View};

/// Statements that stay prepared on a connection.
const PREPARED: usize = 256;
/// Page cache of connections that are rarely used, in KiB.
const SMALL_CACHE_KIB: u32 = 2 << 10;
/// Most pages that a commit writes to the log have one new entry of an index, and go there whole:
/// see docs/decisions/0035-small-pages.md.
const PAGE_BYTES: i64 = 2 << 10;
/// What a group may change before its pages go to the log early, in KiB.
const SPILL_KIB: i64 = 32 << 10;
const RETRY: Duration = Duration::from_millis(10);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that executes sets.
    Writer,
    /// One of those that answer reads.
    Reader,
    /// Checkpoints and migrations.
    Side,
}

/// Why a statement failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// With the text of the statement, without its arguments.
    pub(super) error: Error,
    /// Whether the database, not the statement, is to blame.
    pub(super) broken: bool,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// A connection and what is known of its statements.
pub(super) struct Session {
    pub(super) conn: Connection,
    /// Number of parameters of each text that was checked, by the text's address and length.
    checked: HashMap<(usize, usize), usize>,
}

impl Session {
    /// Opens a file that exists.
    pub(super) fn open(path: &Path, role: Role, options: &SqliteOptions) -> Result<Self, Error> {
        let access = match role {
            Role::Reader => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Role::Writer | Role::Side => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let conn = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| unavailable(&error))?;
        configure(&conn, role, options).map_err(|error| unavailable(&error))?;
        Ok(Self { conn, checked: HashMap::new() })
    }

    /// Runs a statement to its end and collects its rows.
    pub(super) fn query(&mut self, sql: Sql, args: &Args) -> Result<Vec<Row>, Failure> {
        rows_of(&mut *self.bound(sql, args)?, sql)
    }

    /// Prepares a text and answers the number of its parameters.
    pub(super) fn check(&mut self, sql: Sql) -> Result<usize, Failure> {
        self.prepared(sql).map(|(_, parameters)| parameters)
    }

    fn bound(&mut self, sql: Sql, args: &Args) -> Result<CachedStatement<'_>, Failure> {
        let (mut statement, parameters) = self.prepared(sql)?;
        bind(&mut statement, parameters, sql, args)?;
        Ok(statement)
    }

    fn prepared(&mut self, sql: Sql) -> Result<(CachedStatement<'_>, usize), Failure> {
        let statement = self.conn.prepare_cached(sql.0).map_err(|error| failure(&error, sql.0))?;
        let address = (sql.0.as_ptr().addr(), sql.0.len());
        if let Some(parameters) = self.checked.get(&address) {
            return Ok((statement, *parameters));
        }
        let parameters = parameters(&statement, sql)?;
        self.checked.insert(address, parameters);
        Ok((statement, parameters))
    }
}

/// How many parameters a statement has, which are in order.
pub(super) fn parameters(statement: &Statement<'_>, sql: Sql) -> Result<usize, Failure> {
    let parameters = statement.parameter_count();
    // SQLite numbers `$n` by first appearance: another order would swap values silently.
    for index in 1..=parameters {
        if statement.parameter_name(index) != Some(format!("${index}").as_str()) {
            let why = format!("parameter {index} is not ${index}: use $1..$n in order");
            return Err(misuse(&why, sql));
        }
    }
    Ok(parameters)
}

/// Gives a statement its arguments.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    parameters: usize,
    sql: Sql,
    args: &Args,
) -> Result<(), Failure> {
    if parameters != args.len() {
        let why = format!("{} arguments for {parameters} parameters", args.len());
        return Err(misuse(&why, sql));
    }
    for (index, value) in args.iter().enumerate() {
        statement
            .raw_bind_parameter(index + 1, input(value))
            .map_err(|error| failure(&error, sql.0))?;
    }
    Ok(())
}

/// Runs a statement that has its arguments to its end and collects its rows.
pub(super) fn rows_of(statement: &mut Statement<'_>, sql: Sql) -> Result<Vec<Row>, Failure> {
    let columns = statement.column_count();
    let mut found = Vec::new();
    // Dropping `rows` resets the statement, which ends the read transaction.
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| failure(&error, sql.0))? {
        let mut values = Vec::with_capacity(columns);
        for column in 0..columns {
            let value = row.get_ref(column).map_err(|error| failure(&error, sql.0))?;
            values.push(value_of(value));
        }
        found.push(Row(values));
    }
    Ok(found)
}

fn configure(conn: &Connection, role: Role, options: &SqliteOptions) -> rusqlite::Result<()> {
    conn.busy_timeout(Duration::from_millis(options.busy_timeout_ms))?;
    conn.set_prepared_statement_cache_capacity(PREPARED);
    // Without it, a statement is parsed and planned again each time that a value is bound which the
    // planner would look up in its statistics: a fifth of the CPU of an SMS, for the same plan.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let cache = match role {
        Role::Writer => options.cache_kib,
        Role::Reader => options.reader_cache_kib,
        Role::Side => SMALL_CACHE_KIB,
    };
    conn.pragma_update(None, "cache_size", -i64::from(cache))?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "foreign_keys", "OFF")?;
    if role == Role::Reader {
        return Ok(());
    }
    // Of a new file; one that exists keeps its own.
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    enter_wal(conn, Duration::from_millis(options.busy_timeout_ms))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    // A group that changes more than the cache holds goes to the log once all the same.
    conn.pragma_update(None, "cache_spill", -SPILL_KIB)?;
    // What is deleted is overwritten in its page: a number that was erased must not stay there.
    set(conn, "secure_delete", 1)?;
    set(conn, "wal_autocheckpoint", 0)?;
    let limit = i64::try_from(options.wal_limit_bytes).unwrap_or(i64::MAX);
    set(conn, "journal_size_limit", limit)?;
    if let Some(pages) = options.max_pages.filter(|_| role == Role::Writer) {
        set(conn, "max_page_count", i64::from(pages))?;
    }
    Ok(())
}

/// Sets a pragma that answers with its new value.
fn set(conn: &Connection, pragma: &str, value: i64) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, pragma, value, |row| row.get::<_, i64>(0)).map(drop)
}

/// Turns the log on. SQLite does not always wait when several processes do this at once.
fn enter_wal(conn: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let mode = conn
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(_) => return Err(rusqlite::Error::InvalidQuery),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(RETRY);
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn input(value: &Val) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value.view() {
        View::Null => ValueRef::Null,
        View::Int(int) => ValueRef::Integer(int),
        View::Text(text) => ValueRef::Text(text),
        View::Bytes(bytes) => ValueRef::Blob(bytes),
    })
}

/// What the engine itself never writes becomes a value of another type than its column's: whoever
/// takes the column is told that it is corrupt, and whoever audits can go on to the next row.
fn value_of(value: ValueRef<'_>) -> Val {
    match value {
        ValueRef::Null => Val::Null,
        ValueRef::Integer(int) => Val::Int(int),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Val::from(text),
            Err(_) => Val::from(text),
        },
        ValueRef::Blob(bytes) => Val::from(bytes),
        ValueRef::Real(real) => Val::from(real.to_string()),
    }
}

/// What SQLite says, as an error of the store.
pub(super) fn unavailable(error: &rusqlite::Error) -> Error {
    Error::Unavailable(error.to_string())
}

fn misuse(why: &str, sql: Sql) -> Failure {
    Failure { error: Error::Unavailable(format!("{why}, in: {}", sql.0)), broken: false }
}

pub(super) fn failure(error: &rusqlite::Error, sql: &str) -> Failure {
    let broken = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationInterrupted
        )
    );
    Failure { error: Error::Unavailable(format!("{error}, in: {sql}")), broken }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use store::args;

    const FIND: Sql = Sql("SELECT b FROM t WHERE a = $1 AND b > $2");

    /// How often a connection planned a statement anew while the values of its parameters changed.
    /// The planner would like to know them: an index holds only some of `a`.
    fn plans(role: Role, change: impl Fn(&Connection)) -> i32 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let tables = "CREATE TABLE t (a BIGINT, b BIGINT); CREATE INDEX t_b ON t (b) WHERE a = 1;";
        Connection::open(&path).unwrap().execute_batch(tables).unwrap();
        let mut session = Session::open(&path, role, &SqliteOptions::default()).unwrap();
        change(&session.conn);
        for a in 0..10 {
            session.query(FIND, &args![a, 3 - a]).unwrap();
        }
        session.conn.prepare_cached(FIND.0).unwrap().get_status(StatementStatus::RePrepare)
    }

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound() {
        for role in [Role::Writer, Role::Reader, Role::Side] {
            assert_eq!(plans(role, |_| ()), 0);
        }
        let as_usual = |conn: &Connection| {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, false).unwrap();
        };
        assert!(plans(Role::Reader, as_usual) > 5, "or SQLite needs no telling any more");
    }
}
