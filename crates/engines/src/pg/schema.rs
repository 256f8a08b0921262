//! Migrations on PostgreSQL. Each runs in one transaction that first adds its row to the table of
//! migrations: whoever comes second waits at that row, so however many nodes start at once, each
//! migration happens once. No advisory locks: poolers and other engines do not have them.

use super::connection::Connection;
use super::failure::Failure;
use super::{text, writer};
use crate::migrate::{Applied, Dialect, changes, compare, made, missing, newest_of, text_for};
use store::{About, Args, Error, FromRow, Migration, Sql, args};

/// With the text of each, so that a backup can make the same tables.
const TABLE: &str = "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, \
    name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL, body TEXT NOT NULL)";
/// Other programs have a table of this name, too.
const HAS_TABLE: Sql = Sql("SELECT COUNT(*) FROM pg_catalog.pg_class c \
    WHERE c.oid = to_regclass('schema_migrations') AND 5 = (SELECT COUNT(*) \
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
    AND NOT a.attisdropped \
    AND a.attname IN ('version', 'name', 'checksum', 'applied_at', 'body'))");
/// A table where ours would be made, one that tells more than `schema_migrations` first. Those of
/// extensions are nobody's.
const FIRST_TABLE: Sql = Sql("SELECT c.relname::text FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND n.nspname = current_schema() \
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid \
    AND d.classid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'e') \
    ORDER BY c.relname = 'schema_migrations', c.relname LIMIT 1");
const ABOUT: Sql = Sql("SELECT current_setting('server_version'), concat_ws(', ', \
     CASE current_setting('synchronous_commit') WHEN 'off' THEN 'synchronous_commit = off' END, \
     CASE current_setting('fsync') WHEN 'off' THEN 'fsync = off' END, \
     CASE current_setting('full_page_writes') WHEN 'off' THEN 'full_page_writes = off' END)");
/// The time now, not that of the transaction's begin.
pub(super) const CLOCK: Sql =
    Sql("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)");
const ENCODING: Sql = Sql("SELECT current_setting('server_encoding')");
const APPLIED: Sql = Sql("SELECT version, checksum FROM schema_migrations ORDER BY version");
/// Of tables with these names those that this user may not write, or does not own.
const NOT_OURS: Sql = Sql("SELECT name, writes FROM (SELECT c.relname::text AS name, \
    CASE WHEN has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
    AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') \
    THEN 1::bigint ELSE 0::bigint END AS writes, pg_has_role(c.relowner, 'USAGE') AS owns \
    FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_class m ON m.oid = to_regclass('schema_migrations') \
    WHERE c.relkind = 'r' AND c.relnamespace = m.relnamespace \
    AND c.relname = ANY (string_to_array($1, ','))) AS found \
    WHERE writes = 0 OR NOT owns ORDER BY writes, name");
/// Of tables with these names those beside the table of migrations, as a statement names them.
const MADE: Sql = Sql("SELECT c.oid::regclass::text FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_class m ON m.oid = to_regclass('schema_migrations') \
    WHERE c.relkind = 'r' AND c.relnamespace = m.relnamespace \
    AND c.relname = ANY (string_to_array($1, ','))");
/// The tables beside the table of migrations, or where it would be.
const TABLES: Sql = Sql("SELECT c.relname::text FROM pg_catalog.pg_class c \
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = coalesce((SELECT m.relnamespace \
    FROM pg_catalog.pg_class m WHERE m.oid = to_regclass('schema_migrations')), \
    to_regnamespace(current_schema()))");
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
    if has_tables(connection).await? {
        check_tables(connection, known).await?;
    } else {
        create_tables(connection).await?;
    }
    loop {
        let applied = applied(connection).await?;
        let next = missing(known, &applied)?.first().copied();
        let Some(next) = next else {
            are_ours(connection, known, &applied).await?;
            writer::forget_old(connection).await?;
            return Ok(newest_of(&applied).unwrap_or(0));
        };
        if let Err(failure) = step(connection, next).await {
            // The connection is this function's caller's, and ends with it.
            let (version, name, why) = (next.version, next.name, failure.text());
            let text = format!("migration {version} ({name}): {why}");
            let is_own = matches!(failure, Failure::Own(_));
            return Err(if is_own { Error::Unfit(text) } else { Error::Unavailable(text) });
        }
    }
}

/// See [`store::Engine::rehearse`].
pub(super) async fn rehearse(connection: &Connection, known: &[Migration]) -> Result<(), Error> {
    check_encoding(connection).await?;
    if has_tables(connection).await? {
        check_tables(connection, known).await?;
        are_ours(connection, known, &applied(connection).await?).await?;
    }
    // The connection is the caller's, and ends with it, so what fails half-way stays nowhere.
    connection.run_text("BEGIN; CREATE TABLE store_rehearsal (id BIGINT); ROLLBACK").await?;
    Ok(())
}

/// Whether the tables are those that were made.
async fn are_ours(
    connection: &Connection,
    known: &[Migration],
    applied: &[Applied],
) -> Result<(), Error> {
    let rows = connection.run(TABLES, &Args::new()).await?.rows;
    let there: Result<Vec<(String,)>, Error> = rows.into_iter().map(FromRow::from_row).collect();
    let there: Vec<String> = there?.into_iter().map(|(name,)| name).collect();
    compare(Dialect::Postgresql, known, applied, &there)
}

async fn check_encoding(connection: &Connection) -> Result<(), Error> {
    let found = connection.run(ENCODING, &Args::new()).await?.rows.into_iter().next();
    let (encoding,) = <(String,)>::from_row(found.ok_or(Error::Corrupt { column: 0 })?)?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(Error::Unfit(format!("it has encoding {encoding}; make one with ENCODING 'UTF8'")))
}

/// The engine's own tables and those of the migrations, some of which may be gone again.
fn tables(known: &[Migration]) -> Vec<String> {
    let mut names = vec!["schema_migrations".to_owned(), "store_writers".to_owned()];
    for migration in known {
        let sql = text_for(Dialect::Postgresql, migration.sql);
        names.extend(made(&sql).map(str::to_owned));
    }
    names
}

/// See [`store::Engine::unmake`]. A table that was in the way of a migration is not one of its own.
pub(super) async fn unmake(connection: &Connection, known: &[Migration]) -> Result<(), Error> {
    if !has_tables(connection).await? {
        return Ok(());
    }
    let applied = applied(connection).await?;
    let is_applied = |it: &&Migration| applied.iter().any(|(version, _)| *version == it.version);
    let done: Vec<Migration> = known.iter().filter(is_applied).copied().collect();
    let found = connection.run(MADE, &args![tables(&done).join(",")]).await?.rows;
    let names: Result<Vec<(String,)>, Error> = found.into_iter().map(FromRow::from_row).collect();
    let names: Vec<String> = names?.into_iter().map(|(name,)| name).collect();
    // Without CASCADE: what somebody else built on them is in the way, and stays.
    Ok(connection.run_text(&format!("DROP TABLE {}", names.join(", "))).await?)
}

/// Whether this user may write every table of ours, and change those that a migration changes: to
/// wait would help against neither.
async fn check_tables(connection: &Connection, known: &[Migration]) -> Result<(), Error> {
    let names = tables(known).join(",");
    let rows = connection.run(NOT_OURS, &args![names]).await?.rows;
    if rows.is_empty() {
        return Ok(());
    }
    let missing = missing(known, &applied(connection).await?)?;
    for row in rows {
        let (table, writes) = <(String, i64)>::from_row(row)?;
        if writes == 0 {
            return Err(Error::Unfit(format!("this user may not write its table {table}")));
        }
        let is_changed =
            |next: &&&Migration| changes(&text_for(Dialect::Postgresql, next.sql), &table);
        if let Some(next) = missing.iter().find(is_changed) {
            let version = next.version;
            return Err(Error::Unfit(format!(
                "its table {table} belongs to another role, and migration {version} changes it"
            )));
        }
    }
    Ok(())
}

/// See [`store::Engine::has_tables`].
pub(super) async fn has_tables(connection: &Connection) -> Result<bool, Error> {
    // In this order: another process may be making the tables, all of them at once.
    let first = connection.run(FIRST_TABLE, &Args::new()).await?.rows.into_iter().next();
    if has_own(connection).await? {
        return Ok(true);
    }
    match first.map(<(String,)>::from_row).transpose()? {
        Some((table,)) => Err(Error::Foreign { table }),
        None => Ok(false),
    }
}

async fn has_own(connection: &Connection) -> Result<bool, Error> {
    let found = connection.run(HAS_TABLE, &Args::new()).await?.rows.into_iter().next();
    let (count,) = <(i64,)>::from_row(found.ok_or(Error::Corrupt { column: 0 })?)?;
    Ok(count > 0)
}

/// What the server says of itself.
pub(super) async fn about(connection: &Connection) -> Result<About, Error> {
    let found = connection.run(ABOUT, &Args::new()).await?.rows.into_iter().next();
    let found = found.ok_or(Error::Corrupt { column: 0 })?;
    let (version, careless) = <(String, String)>::from_row(found)?;
    let version = format!("PostgreSQL {version}");
    Ok(About { version, careless })
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
    if has_own(connection).await? { Ok(()) } else { Err(failure.into()) }
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
