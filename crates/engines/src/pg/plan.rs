//! What PostgreSQL would do with a statement: the check that every text of the service goes
//! through in its tests. An empty table is cheapest to scan, so scans and sorts are made dear
//! first; those that are left have no index to avoid them.

use super::bulk;
use super::connection::Connection;
use super::failure::Failure;
use super::text;
use super::texts::misuse;
use super::value::is_readable;
use store::{Error, Plan, Sql};

const BEGIN: &str = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off";

/// Prepares the statement and reads its generic plan, and that of its form for many reads.
pub(super) async fn of(connection: &Connection, sql: Sql) -> Result<Plan, Error> {
    connection.prepare(std::iter::once(sql)).await.map_err(|(_, failure)| failure)?;
    let parameters = text::parameters(sql.0).map_err(|why| misuse(&why, sql))?;
    let text = text::of_statement(sql.0);
    let prepared = connection.client().prepare(&text).await;
    let prepared = prepared.map_err(|error| Failure::of(&error))?;
    // Columns of other types could be written but not read.
    if let Some(column) = prepared.columns().iter().find(|column| !is_readable(column.type_())) {
        let why = format!("column {} is {}: CAST it", column.name(), column.type_());
        return Err(misuse(&why, sql).into());
    }
    let mut scans = scans(connection, &text, parameters).await?;
    if bulk::is_gathered(sql.0) {
        let many = bulk::of_read(&text, prepared.params());
        let many = many.ok_or_else(|| misuse("it has no form for many reads", sql))?;
        scans.extend(self::scans(connection, &many, parameters).await?);
    }
    Ok(Plan { parameters, scans })
}

async fn scans(
    connection: &Connection,
    text: &str,
    parameters: usize,
) -> Result<Vec<String>, Error> {
    let nulls = vec!["NULL"; parameters].join(", ");
    let call = if parameters == 0 { String::new() } else { format!("({nulls})") };
    let explain = format!(
        "{BEGIN}; PREPARE planned AS {text}; EXPLAIN (COSTS OFF) EXECUTE planned{call}; \
         DEALLOCATE planned; ROLLBACK"
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
    Ok(costly(&lines))
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
