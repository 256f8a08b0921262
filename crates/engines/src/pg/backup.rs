//! A backup of PostgreSQL is a database of the embedded engine: the same tables, made by the same
//! migrations, with all rows as of one moment. It needs no other program to be opened, looked at
//! or run on.

use std::path::Path;

use futures_util::TryStreamExt;
use rusqlite::{Connection as File, ToSql, params_from_iter};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::failure::Failure;
use super::value::row_of;
use crate::backup::{Copied, publish};
use crate::lite;
use crate::migrate::{Dialect, text_for};
use store::{Args, Error, FromRow, Row, Sql};

/// One moment for all tables.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
const MIGRATIONS: Sql = Sql("SELECT version, name, checksum, applied_at, body \
    FROM schema_migrations ORDER BY version");
/// The same as the embedded engine's own.
const TABLE: &str = "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, \
    name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";
const RECORD: &str = "INSERT INTO schema_migrations (version, name, checksum, applied_at) \
    VALUES (?1, ?2, ?3, ?4)";
/// Rows on their way from one database to the other.
const CHUNK: usize = 500;
const CHUNKS: usize = 4;

/// What travels to the thread that writes the file.
enum Part {
    Migration(u32, String, String, i64, String),
    Ask(tokio::sync::oneshot::Sender<Vec<Table>>),
    Rows(String, Vec<Row>),
    End,
}

/// A table and its columns, as the file has them.
struct Table {
    name: String,
    columns: Vec<String>,
}

/// Copies everything to the new file `to`.
pub(super) async fn copy(connection: &Connection, to: &Path) -> Result<(), Error> {
    let (send, receive) = mpsc::channel(CHUNKS);
    let to = to.to_owned();
    let written =
        tokio::task::spawn_blocking(move || publish(&to, |partial| write(partial, receive)));
    let read = read(connection, send).await;
    let written = written.await.unwrap_or_else(|error| Err(Error::Unavailable(error.to_string())));
    // If the file failed, that is the cause; a file that only got no end is not.
    match read {
        Ok(()) => written,
        Err(Some(failure)) => Err(failure),
        Err(None) => written.and(Err(Error::Unavailable("backup: the file was closed".to_owned()))),
    }
}

/// Reads one snapshot; `Err(None)` when nobody takes it.
async fn read(connection: &Connection, to: mpsc::Sender<Part>) -> Result<(), Option<Error>> {
    let failed = |failure: Failure| Some(Error::from(failure));
    let corrupt = |error: Error| Some(error);
    connection.run_text(BEGIN).await.map_err(failed)?;
    let migrations = connection.run(MIGRATIONS, &Args::new()).await.map_err(failed)?;
    for mut row in migrations.rows {
        let body: String = row.take(4).map_err(corrupt)?;
        let applied_at: i64 = row.take(3).map_err(corrupt)?;
        let (version, name, checksum) = <(u32, String, String)>::from_row(row).map_err(corrupt)?;
        let part = Part::Migration(version, name, checksum, applied_at, body);
        to.send(part).await.map_err(|_| None)?;
    }
    let (ask, tables) = tokio::sync::oneshot::channel();
    to.send(Part::Ask(ask)).await.map_err(|_| None)?;
    for table in tables.await.map_err(|_| None)? {
        read_table(connection, &table, &to).await?;
    }
    connection.run_text("COMMIT").await.map_err(failed)?;
    to.send(Part::End).await.map_err(|_| None)
}

async fn read_table(
    connection: &Connection,
    table: &Table,
    to: &mpsc::Sender<Part>,
) -> Result<(), Option<Error>> {
    let failed = |error: tokio_postgres::Error| Some(Error::from(Failure::of(&error)));
    let columns = quoted(&table.columns);
    let select = format!("SELECT {columns} FROM \"{}\"", table.name);
    let none = std::iter::empty::<(i64, tokio_postgres::types::Type)>();
    let rows = connection.client().query_typed_raw(&select, none).await.map_err(failed)?;
    let mut rows = std::pin::pin!(rows);
    let mut chunk = Vec::with_capacity(CHUNK);
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        chunk.push(row_of(&row).map_err(|failure| Some(failure.into()))?);
        if chunk.len() == CHUNK {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK));
            to.send(Part::Rows(insert(table), full)).await.map_err(|_| None)?;
        }
    }
    to.send(Part::Rows(insert(table), chunk)).await.map_err(|_| None)
}

fn quoted(columns: &[String]) -> String {
    columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ")
}

fn insert(table: &Table) -> String {
    let places = vec!["?"; table.columns.len()].join(", ");
    format!("INSERT INTO \"{}\" ({}) VALUES ({places})", table.name, quoted(&table.columns))
}

/// Writes the file, in one transaction.
fn write(partial: &Path, mut parts: mpsc::Receiver<Part>) -> Copied {
    let mut file = lite::backup::blank(partial)?;
    let tx = file.transaction()?;
    tx.execute_batch(TABLE)?;
    loop {
        match parts.blocking_recv() {
            Some(Part::Migration(version, name, checksum, applied_at, body)) => {
                tx.execute_batch(&text_for(Dialect::Sqlite, &body))?;
                tx.execute(RECORD, (version, name, checksum, applied_at))?;
            }
            Some(Part::Ask(tables)) => {
                // A file that nobody waits for gets no more parts.
                let _gone = tables.send(emptied(&tx)?);
            }
            Some(Part::Rows(insert, rows)) => {
                let mut insert = tx.prepare_cached(&insert)?;
                for row in &rows {
                    let values = row.0.iter().map(lite::session::input);
                    insert.execute(params_from_iter(values))?;
                }
            }
            Some(Part::End) => break,
            None => return Err("the database was lost".into()),
        }
    }
    tx.commit()?;
    file.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// All tables but that of the migrations, without the rows that migrations may have put in. A full
/// text index is one virtual table, which fills the tables behind it by itself.
fn emptied(file: &File) -> rusqlite::Result<Vec<Table>> {
    let mut names = file.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'schema_migrations' \
         AND name NOT LIKE 'sqlite_%' AND name NOT IN (SELECT name FROM pragma_table_list \
         WHERE type = 'shadow') ORDER BY name",
    )?;
    let names = names.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut tables = Vec::with_capacity(names.len());
    for name in names {
        file.execute(&format!("DELETE FROM \"{name}\""), [])?;
        let is_virtual = "SELECT type = 'virtual' FROM pragma_table_list WHERE name = ?1";
        let is_virtual: bool = file.query_row(is_virtual, [&name], |row| row.get(0))?;
        let mut columns = file.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = columns.query_map([&name as &dyn ToSql], |row| row.get(0))?;
        let mut columns: Vec<String> = columns.collect::<Result<_, _>>()?;
        if is_virtual {
            columns.insert(0, "rowid".to_owned());
        }
        tables.push(Table { name, columns });
    }
    Ok(tables)
}
