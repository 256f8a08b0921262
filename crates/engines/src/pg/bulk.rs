//! The same statement of many sets as one: the arguments travel as arrays, and the server starts,
//! runs and ends it once. Only texts that say so are written like this; [`store::Sql`] tells what
//! their author vouches for.

use std::fmt::Write as _;

use tokio_postgres::types::Type;

use super::text::parts;

/// Sets may run the text together.
const BULK: &str = "/*BULK*/";
/// The same for a counter that many sets change: `$1` is added up by `$2`, the key of the row. What
/// follows is asked of each set, what stands before it of the row and the sum.
const SUM: &str = "/*BULK SUM*/";
/// Reads may run the text together.
const MANY: &str = "/*MANY*/";
/// The arguments of one set, in a statement for many.
const ONE: &str = "one";
/// Sums of their arguments.
const ALL: &str = "total";

/// What a statement for many sets answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The number of rows that were changed: one for each set that changed one.
    Count,
    /// The same of rows that are added.
    Added,
    /// Nothing that anybody asks.
    Unasked,
    /// The places of the sets that found something, from 1.
    Places,
    /// Numbers that add up to that of the sets that changed a row.
    Parts,
    /// It has no form for many: it is run for each, while the others of its sets are not.
    Each,
}

/// A text for many sets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bulk {
    pub(super) text: String,
    pub(super) answer: Answer,
}

/// Sets that get in each other's way cost their group a second run. Where that happens, the groups
/// that follow are not run like this: 2 at first, up to 64 while it goes on.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rest: u32,
    misses: u32,
}

impl Pace {
    pub(super) fn may(&mut self) -> bool {
        let may = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        may
    }

    pub(super) fn missed(&mut self) {
        self.misses = (self.misses + 1).min(6);
        self.rest = 1 << self.misses;
    }

    pub(super) fn went_well(&mut self) {
        self.misses = 0;
    }
}

/// Whether sets may run it together.
pub(super) fn is_bulk(sql: &str) -> bool {
    sql.contains(BULK) || sql.contains(SUM)
}

/// Whether reads may run it together. The mark ends the text, so that a read costs no search.
pub(super) fn is_gathered(sql: &str) -> bool {
    sql.ends_with(MANY)
}

/// The text for many reads: their rows, each with the place of its read, from 1, in a column of its
/// own at the end. `OFFSET 0` has the server look for those of one read after those of another, in
/// the way in which it looks for one; the arrays come from a `SELECT`, so that it does not plan
/// anew for their lengths.
pub(super) fn of_read(sql: &str, types: &[Type]) -> Option<String> {
    let from = arrays(ONE, types, Lengths::Hidden)?;
    let found = with_columns(sql.trim_end_matches(MANY).trim_end(), ONE);
    Some(format!(
        "SELECT found.*, {ONE}.place FROM {from} CROSS JOIN LATERAL ({found} OFFSET 0) AS found"
    ))
}

/// The text for many sets, if it is one of the known forms. `types` are those of the parameters.
pub(super) fn of(sql: &str, types: &[Type]) -> Option<Bulk> {
    if let Some((head, tail)) = sql.split_once(SUM) {
        return sum(head, tail, types);
    }
    let sql = sql.replace(BULK, "");
    let sql = sql.trim();
    let from = arrays(ONE, types, Lengths::Shown)?;
    let (text, answer) = if sql.starts_with("SELECT ") {
        let found = with_columns(sql, ONE);
        (format!("SELECT {ONE}.place FROM {from} WHERE EXISTS ({found})"), Answer::Places)
    } else if let Some(at) = at_top(sql, " VALUES (") {
        let (head, rest) = (&sql[..at], &sql[at + " VALUES (".len()..]);
        let end = closing(rest)?;
        let (values, tail) = (with_columns(&rest[..end], ONE), &rest[end + 1..]);
        // What is done at a conflict sees the row, not the arguments.
        if tail.contains('$') {
            return None;
        }
        (format!("{head} SELECT {values} FROM {from}{tail}"), Answer::Added)
    } else {
        let at = at_top(sql, " WHERE ")?;
        let joined = match sql.split(' ').next()? {
            "UPDATE" => " FROM",
            "INSERT" => ",",
            _ => return None,
        };
        let (head, tail) = (with_columns(&sql[..at], ONE), with_columns(&sql[at..], ONE));
        (format!("{head}{joined} {from}{tail}"), Answer::Count)
    };
    Some(Bulk { text, answer })
}

fn sum(head: &str, tail: &str, types: &[Type]) -> Option<Bulk> {
    let at = at_top(head, " WHERE ")?;
    let (change, row) = (with_columns(&head[..at], ALL), with_columns(head[at..].trim_end(), ALL));
    let (from, each) = (arrays(ONE, types, Lengths::Shown)?, with_columns(tail.trim(), ONE));
    let each = each.replacen("AND", "WHERE", 1);
    let text = format!(
        "{change} FROM (SELECT CAST(SUM({ONE}.p1) AS BIGINT) AS p1, {ONE}.p2 AS p2, \
         COUNT(*) AS sets FROM {from} {each} GROUP BY {ONE}.p2) AS {ALL}{row} RETURNING {ALL}.sets"
    );
    Some(Bulk { text, answer: Answer::Parts })
}

/// Whether the planner sees how long the arrays are.
#[derive(Clone, Copy)]
enum Lengths {
    Shown,
    Hidden,
}

/// The arguments of all sets as a table: `p1`, `p2`, … and `place`.
fn arrays(name: &str, types: &[Type], lengths: Lengths) -> Option<String> {
    let (open, close) = match lengths {
        Lengths::Shown => ("", ""),
        Lengths::Hidden => ("(SELECT ", ")"),
    };
    let (mut values, mut columns) = (String::new(), String::new());
    for (index, kind) in types.iter().enumerate() {
        let number = index + 1;
        let _infallible = write!(values, "{open}CAST(${number} AS {}[]){close}, ", name_of(kind)?);
        let _infallible = write!(columns, "p{number}, ");
    }
    let values = values.trim_end_matches(", ");
    Some(format!("unnest({values}) WITH ORDINALITY AS {name}({columns}place)"))
}

fn name_of(kind: &Type) -> Option<&'static str> {
    match *kind {
        Type::INT8 => Some("BIGINT"),
        Type::TEXT => Some("TEXT"),
        Type::BYTEA => Some("BYTEA"),
        _ => None,
    }
}

/// The parameters become columns of the table of arguments.
fn with_columns(sql: &str, table: &str) -> String {
    let mut said = String::with_capacity(sql.len() + 64);
    for (is_code, part) in parts(sql) {
        if is_code {
            said.push_str(&part.replace('$', &format!("{table}.p")));
        } else {
            said.push_str(part);
        }
    }
    said
}

/// Where a word stands outside of all parentheses.
fn at_top(sql: &str, word: &str) -> Option<usize> {
    let mut matches = sql.match_indices(word).map(|(at, _)| at);
    matches.find(|at| depth(&sql[..*at]) == 0)
}

/// Where the parenthesis closes that was opened just before.
fn closing(sql: &str) -> Option<usize> {
    sql.match_indices(')').map(|(at, _)| at).find(|at| depth(&sql[..=*at]) == -1)
}

/// Parentheses that are open at the end.
fn depth(sql: &str) -> i32 {
    let code = parts(sql).filter(|(is_code, _)| *is_code).flat_map(|(_, part)| part.chars());
    code.fold(0, |depth, letter| match letter {
        '(' => depth + 1,
        ')' => depth - 1,
        _ => depth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(sql: &str, types: &[Type]) -> String {
        of(sql, types).unwrap().text
    }

    #[test]
    fn values_become_rows_of_arrays() {
        let sql = "INSERT INTO t (a, b, c) VALUES ($1, 'x)$', ($2)) \
                   ON CONFLICT DO NOTHING /*BULK*/";
        assert_eq!(
            said(sql, &[Type::TEXT, Type::INT8]),
            "INSERT INTO t (a, b, c) SELECT one.p1, 'x)$', (one.p2) \
             FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS BIGINT[])) \
             WITH ORDINALITY AS one(p1, p2, place) ON CONFLICT DO NOTHING"
        );
    }

    #[test]
    fn an_update_finds_its_rows_among_the_arrays() {
        let sql = "UPDATE t SET a = (SELECT b FROM s WHERE c = $1) WHERE d = $2 /*BULK*/";
        assert_eq!(
            said(sql, &[Type::BYTEA, Type::INT8]),
            "UPDATE t SET a = (SELECT b FROM s WHERE c = one.p1) FROM unnest(CAST($1 AS BYTEA[]), \
             CAST($2 AS BIGINT[])) WITH ORDINALITY AS one(p1, p2, place) WHERE d = one.p2"
        );
    }

    #[test]
    fn what_is_copied_from_rows_finds_them_among_the_arrays() {
        let sql = "INSERT INTO t (a) SELECT b FROM s WHERE c = $1 /*BULK*/";
        assert_eq!(
            said(sql, &[Type::TEXT]),
            "INSERT INTO t (a) SELECT b FROM s, unnest(CAST($1 AS TEXT[])) WITH ORDINALITY AS \
             one(p1, place) WHERE c = one.p1"
        );
    }

    #[test]
    fn a_search_tells_who_found_something() {
        let bulk = of("SELECT a FROM t WHERE b = $1 /*BULK*/", &[Type::TEXT]).unwrap();
        assert_eq!(bulk.answer, Answer::Places);
        assert!(bulk.text.starts_with("SELECT one.place FROM unnest("));
        assert!(bulk.text.ends_with(" WHERE EXISTS (SELECT a FROM t WHERE b = one.p1)"));
    }

    #[test]
    fn a_counter_is_changed_once_by_the_sum() {
        let sql = "UPDATE t SET n = n - $1 WHERE id = $2 AND n >= $1 /*BULK SUM*/ AND EXISTS \
                   (SELECT 1 FROM s WHERE k = $3)";
        let bulk = of(sql, &[Type::INT8, Type::TEXT, Type::TEXT]).unwrap();
        assert_eq!(bulk.answer, Answer::Parts);
        assert_eq!(
            bulk.text,
            "UPDATE t SET n = n - total.p1 FROM (SELECT CAST(SUM(one.p1) AS BIGINT) AS p1, \
             one.p2 AS p2, COUNT(*) AS sets FROM unnest(CAST($1 AS BIGINT[]), CAST($2 AS TEXT[]), \
             CAST($3 AS TEXT[])) WITH ORDINALITY AS one(p1, p2, p3, place) WHERE EXISTS (SELECT 1 \
             FROM s WHERE k = one.p3) GROUP BY one.p2) AS total WHERE id = total.p2 \
             AND n >= total.p1 RETURNING total.sets"
        );
    }

    #[test]
    fn many_reads_are_told_apart_by_their_places() {
        let sql = "SELECT a, b FROM t WHERE a = $1 AND b > $2 ORDER BY b LIMIT 2 /*MANY*/";
        assert_eq!(
            of_read(sql, &[Type::TEXT, Type::INT8]).unwrap(),
            "SELECT found.*, one.place FROM unnest((SELECT CAST($1 AS TEXT[])), (SELECT CAST($2 AS \
             BIGINT[]))) WITH ORDINALITY AS one(p1, p2, place) CROSS JOIN LATERAL (SELECT a, b \
             FROM t WHERE a = one.p1 AND b > one.p2 ORDER BY b LIMIT 2 OFFSET 0) AS found"
        );
    }

    #[test]
    fn other_types_and_forms_are_not_known() {
        assert_eq!(of("UPDATE t SET a = $1 WHERE b = $2 /*BULK*/", &[Type::BOOL]), None);
        assert_eq!(of("DELETE FROM t WHERE a = $1 /*BULK*/", &[Type::INT8]), None);
    }
}
