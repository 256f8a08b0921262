//! What PostgreSQL would do with a statement: the check that every text of the service goes
//! through in its tests. An empty table is cheapest to scan, so scans and sorts are made dear
//! first; those that are left have no index to avoid them.

use super::connection::Connection;
use super::failure::Failure;
use super::text;
use super::texts::misuse;
use super::value::is_readable;
use crate::{Error, Plan, Sql};

const BEGIN: &str = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off";

/// Prepares the statement and reads its generic plan.
pub(super) async fn of(connection: &Connection, sql: Sql) -> Result<Plan, Error> {
    connection.prepare(std::iter::once(sql)).await.map_err(|(_, failure)| failure)?;
    let parameters = text::parameters(sql.0).map_err(|why| misuse(&why, sql))?;
    check_columns(connection, sql).await?;
    let nulls = vec!["NULL"; parameters].join(", ");
    let call = if parameters == 0 { String::new() } else { format!("({nulls})") };
    let explain = format!(
        "{BEGIN}; PREPARE planned AS {}; EXPLAIN (COSTS OFF) EXECUTE planned{call}; \
         DEALLOCATE planned; ROLLBACK",
        text::of_statement(sql.0)
    );
    let told = connection.client().simple_query(&explain).await;
    let told = told.map_err(|error| Failure::of(&error))?;
    let lines: Vec<&str> = told
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    Ok(Plan { parameters, scans: costly(&lines) })
}

/// Columns of other types could be written but not read.
async fn check_columns(connection: &Connection, sql: Sql) -> Result<(), Error> {
    let prepared = connection.client().prepare(&text::of_statement(sql.0)).await;
    let prepared = prepared.map_err(|error| Failure::of(&error))?;
    match prepared.columns().iter().find(|column| !is_readable(column.type_())) {
        None => Ok(()),
        Some(column) => {
            let why = format!("column {} is {}: CAST it", column.name(), column.type_());
            Err(misuse(&why, sql).into())
        }
    }
}

/// Nodes that read a whole table or index, or sort.
fn costly(lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(node) = node(line, at) else { continue };
        let details = lines.iter().skip(at + 1).take_while(|line| self::node(line, 1).is_none());
        let has = |word: &str| details.clone().any(|line| line.trim_start().starts_with(word));
        let by_index = node.starts_with("Index ") || node.starts_with("Bitmap Index ");
        let is_costly = node.starts_with("Seq Scan")
            || node.starts_with("Sort")
            || node.starts_with("Incremental Sort")
            || (by_index && !has("Index Cond:"));
        if is_costly {
            found.push(node.to_owned());
        }
    }
    found
}

/// The node that a line names: the first line, and those with an arrow.
fn node(line: &str, at: usize) -> Option<&str> {
    let line = line.trim_start();
    if at == 0 { Some(line) } else { line.strip_prefix("->").map(str::trim_start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_sorts_and_whole_indexes_are_costly() {
        let lines = [
            "Update on accounts",
            "  ->  Nested Loop",
            "        ->  Index Scan using a on accounts",
            "              Index Cond: (id = $1)",
            "              Filter: (balance > 0)",
            "        ->  Index Only Scan using b on ledger",
            "              Filter: (amount = $2)",
            "        ->  Sort",
            "              Sort Key: x",
            "              ->  Seq Scan on notes",
        ];
        assert_eq!(
            costly(&lines),
            ["Index Only Scan using b on ledger", "Sort", "Seq Scan on notes"]
        );
        assert!(costly(&lines[..5]).is_empty());
    }
}
