//! Migrations on PostgreSQL. Each runs in one transaction that first adds its row to the table of
//! migrations: whoever comes second waits at that row, so however many nodes start at once, each
//! migration happens once. No advisory locks: poolers and other engines do not have them.

use super::connection::Connection;
use super::failure::Failure;
use super::{text, writer};
use crate::migrate::{Applied, Dialect, missing, newest_of, text_for};
use crate::value::FromRow;
use crate::{About, Args, Error, Migration, Sql, args};

/// With the text of each, so that a backup can make the same tables.
const TABLE: &str = "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, \
    name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL, body TEXT NOT NULL)";
const HAS_TABLE: Sql = Sql("SELECT COUNT(*) FROM pg_catalog.pg_class \
    WHERE oid = to_regclass('schema_migrations')");
const ABOUT: Sql = Sql("SELECT current_setting('server_version'), \
     CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)");
const ENCODING: Sql = Sql("SELECT current_setting('server_encoding')");
const APPLIED: Sql = Sql("SELECT version, checksum FROM schema_migrations ORDER BY version");
/// A table of ours that this user may not write.
const DENIED: Sql = Sql("SELECT c.relname::text FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_class m ON m.oid = to_regclass('schema_migrations') \
    WHERE c.relkind = 'r' AND c.relnamespace = m.relnamespace AND c.relowner = m.relowner \
    AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
    AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) \
    ORDER BY c.relname LIMIT 1");
const RECORD: Sql =
    Sql("INSERT INTO schema_migrations (version, name, checksum, applied_at, body) \
    VALUES ($1, $2, $3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT), $4) \
    ON CONFLICT (version) DO NOTHING");
/// Another node's migration may take as long as it takes.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0";
/// A change of a table that is in use must not stand in front of everybody for long.
const BOUND: &str = "SET LOCAL lock_timeout = '10s'";

/// Applies what is missing and answers the version of the database.
pub(super) async fn migrate(connection: &Connection, known: &[Migration]) -> Result<u32, Error> {
    check_encoding(connection).await?;
    if !has_tables(connection).await? {
        create_tables(connection).await?;
    }
    loop {
        let applied = applied(connection).await?;
        let Some(next) = missing(known, &applied)?.first().copied() else {
            writer::forget_old(connection).await?;
            return Ok(newest_of(&applied).unwrap_or(0));
        };
        if let Err(failure) = step(connection, next).await {
            // The connection is this function's caller's, and ends with it.
            let (version, name, why) = (next.version, next.name, failure.text());
            return Err(Error::Unavailable(format!("migration {version} ({name}): {why}")));
        }
    }
}

/// See [`crate::Engine::rehearse`].
pub(super) async fn rehearse(connection: &Connection, known: &[Migration]) -> Result<(), Error> {
    check_encoding(connection).await?;
    if has_tables(connection).await? {
        let rows = connection.run(DENIED, &Args::new()).await?.rows;
        if let Some(denied) = rows.into_iter().next() {
            let (table,) = <(String,)>::from_row(denied)?;
            return Err(Error::Unfit(format!("this user may not write its table {table}")));
        }
        missing(known, &applied(connection).await?)?;
    }
    // The connection is the caller's, and ends with it, so what fails half-way stays nowhere.
    connection.run_text("BEGIN; CREATE TABLE store_rehearsal (id BIGINT); ROLLBACK").await?;
    Ok(())
}

async fn check_encoding(connection: &Connection) -> Result<(), Error> {
    let found = connection.run(ENCODING, &Args::new()).await?.rows.into_iter().next();
    let (encoding,) = <(String,)>::from_row(found.ok_or(Error::Corrupt { column: 0 })?)?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(Error::Unfit(format!("it has encoding {encoding}; make one with ENCODING 'UTF8'")))
}

/// Whether any migration was ever applied.
pub(super) async fn has_tables(connection: &Connection) -> Result<bool, Error> {
    let found = connection.run(HAS_TABLE, &Args::new()).await?.rows.into_iter().next();
    let (count,) = <(i64,)>::from_row(found.ok_or(Error::Corrupt { column: 0 })?)?;
    Ok(count > 0)
}

/// What the server says of itself.
pub(super) async fn about(connection: &Connection) -> Result<About, Error> {
    let found = connection.run(ABOUT, &Args::new()).await?.rows.into_iter().next();
    let (version, clock) = <(String, i64)>::from_row(found.ok_or(Error::Corrupt { column: 0 })?)?;
    Ok(About { version: format!("PostgreSQL {version}"), clock_ms: Some(clock) })
}

/// The engine's own tables. Nodes that start at once may collide here: then one of them made them.
async fn create_tables(connection: &Connection) -> Result<(), Error> {
    let all = format!(
        "{BEGIN}; {}; {}; COMMIT",
        text::of_migration(TABLE),
        text::of_migration(writer::TABLE)
    );
    let Err(failure) = connection.run_text(&all).await else { return Ok(()) };
    if let Failure::Lost(_) = failure {
        return Err(failure.into());
    }
    connection.run_text("ROLLBACK").await?;
    if has_tables(connection).await? { Ok(()) } else { Err(failure.into()) }
}

async fn step(connection: &Connection, next: &Migration) -> Result<(), Failure> {
    connection.run_text(BEGIN).await?;
    let record = args![next.version, next.name, next.checksum(), next.sql];
    // Waits for a node that is at the same migration.
    if connection.run(RECORD, &record).await?.count == 1 {
        connection.run_text(BOUND).await?;
        let sql = text_for(Dialect::Postgresql, next.sql);
        connection.run_text(&text::of_migration(&sql)).await?;
    }
    connection.run_text("COMMIT").await
}

async fn applied(connection: &Connection) -> Result<Vec<Applied>, Error> {
    let rows = connection.run(APPLIED, &Args::new()).await?.rows;
    rows.into_iter().map(<(u32, String)>::from_row).collect()
}
