//! Migrations on SQLite. Each runs in one transaction with its row in the table of migrations,
//! behind the write lock, so starters that come at once apply it once.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::session::{Role, Session, unavailable};
use crate::migrate::{Applied, Dialect, compare, missing, newest_of, text_for};
use store::{Error, Migration, SqliteOptions};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY, \
    name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";
const HAS_TABLE: &str =
    "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'";
const TABLES: &str = "SELECT name FROM sqlite_master WHERE type = 'table' \
    AND name NOT LIKE 'sqlite_%' ORDER BY name";
const APPLIED: &str = "SELECT version, checksum FROM schema_migrations ORDER BY version";
/// Milliseconds, at the precision of a second: a note for people, nothing depends on it.
const RECORD: &str = "INSERT INTO schema_migrations (version, name, checksum, applied_at) \
    VALUES ($1, $2, $3, CAST(strftime('%s', 'now') AS BIGINT) * 1000)";

/// Whether any migration was ever applied.
pub(super) fn has_tables(session: &Session) -> Result<bool, Error> {
    has_table(&session.conn).map_err(|error| unavailable(&error))
}

/// Applies what is missing and answers the version of the database.
pub(super) fn migrate(
    path: &Path,
    options: &SqliteOptions,
    known: &[Migration],
) -> Result<u32, Error> {
    let mut session = Session::open(path, Role::Side, options)?;
    loop {
        let applied = applied(&session.conn).map_err(|error| unavailable(&error))?;
        if missing(known, &applied)?.is_empty() {
            are_ours(&session.conn, known, &applied)?;
            return Ok(newest_of(&applied).unwrap_or(0));
        }
        step(&mut session.conn, known)?;
    }
}

/// See [`store::Engine::rehearse`].
pub(super) fn rehearse(
    path: &Path,
    options: &SqliteOptions,
    known: &[Migration],
) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| unavailable(&error);
    let mut session = Session::open(path, Role::Side, options)?;
    let applied = applied(&session.conn).map_err(failed)?;
    missing(known, &applied)?;
    are_ours(&session.conn, known, &applied)?;
    let behind_the_lock = TransactionBehavior::Immediate;
    let tx = session.conn.transaction_with_behavior(behind_the_lock).map_err(failed)?;
    tx.execute_batch("CREATE TABLE store_rehearsal (id BIGINT)").map_err(failed)?;
    tx.rollback().map_err(failed)
}

/// Refuses the file of another program before anything in it is changed. What cannot be read is
/// left to those who open it.
pub(super) fn refuse_foreign(path: &Path) -> Result<(), Error> {
    let found = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        // In this order: another process may be making the tables, all of them at once.
        .and_then(|conn| Ok((tables(&conn)?, has_table(&conn)?)));
    match found {
        Ok((names, false)) => match names.into_iter().next() {
            Some(table) => Err(Error::Foreign { table }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether the tables are those that were made.
fn are_ours(conn: &Connection, known: &[Migration], applied: &[Applied]) -> Result<(), Error> {
    let there = tables(conn).map_err(|error| unavailable(&error))?;
    compare(Dialect::Sqlite, known, applied, &there)
}

fn tables(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare(TABLES)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Applies the first missing migration, judged anew behind the write lock.
fn step(conn: &mut Connection, known: &[Migration]) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| {
        tracing::warn!(%error, "a migration failed");
        unavailable(&error)
    };
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    tx.execute_batch(TABLE).map_err(failed)?;
    let applied = applied(&tx).map_err(failed)?;
    if applied.is_empty() {
        are_ours(&tx, known, &applied)?;
    }
    if let Some(next) = missing(known, &applied)?.first() {
        tx.execute_batch(&text_for(Dialect::Sqlite, next.sql)).map_err(|error| {
            Error::Unavailable(format!("migration {} ({}): {error}", next.version, next.name))
        })?;
        let record = (next.version, next.name, next.checksum());
        tx.execute(RECORD, record).map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

fn has_table(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(conn.query_row(HAS_TABLE, [], |row| row.get::<_, i64>(0))? > 0)
}

fn applied(conn: &Connection) -> rusqlite::Result<Vec<Applied>> {
    if !has_table(conn)? {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare(APPLIED)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}
