//! What SQLite would do with a statement: the check that every text of the service goes through
//! in its tests.

use super::session::{Session, unavailable};
use store::{Error, Plan, Sql};

/// Prepares the statement and reads its query plan.
pub(super) fn of(session: &mut Session, sql: Sql) -> Result<Plan, Error> {
    let parameters = session.check(sql)?;
    let steps = steps(session, sql).map_err(|error| unavailable(&error))?;
    // Reading the rows of a subquery is no scan of a table; how those come about has its own step.
    let inner: Vec<&str> = steps
        .iter()
        .filter_map(|step| step.strip_prefix("CO-ROUTINE ").or(step.strip_prefix("MATERIALIZE ")))
        .collect();
    let scans = steps.iter().filter(|step| is_costly(step, &inner)).cloned().collect();
    Ok(Plan { parameters, scans })
}

fn steps(session: &Session, sql: Sql) -> rusqlite::Result<Vec<String>> {
    let mut statement = session.conn.prepare(&format!("EXPLAIN QUERY PLAN {}", sql.0))?;
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        steps.push(row.get(3)?);
    }
    Ok(steps)
}

fn is_costly(step: &str, inner: &[&str]) -> bool {
    if step.contains("USE TEMP B-TREE") {
        return true;
    }
    let Some(scanned) = step.strip_prefix("SCAN ") else { return false };
    // A row of a full text index by its number.
    if scanned.ends_with("VIRTUAL TABLE INDEX 0:=") {
        return false;
    }
    let constant = scanned.contains("CONSTANT ROW");
    let subquery = scanned.starts_with("(subquery") || scanned.starts_with("SUBQUERY");
    let name = scanned.split(' ').next().unwrap_or(scanned);
    !constant && !subquery && !inner.contains(&name)
}
