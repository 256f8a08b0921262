//! SQL as text: what has to be said differently to PostgreSQL, and the order of parameters. The
//! texts are the program's own, so this looks at words and quotes and need not parse SQL.

use std::borrow::Cow;

/// Where a statement claims rows that another process may be claiming at the same time.
const CLAIM: &str = "/*SKIP LOCKED*/";

/// Around a subquery whose rows are found one by one, by an index on the column before it: with
/// `IN` the planner may rather read all that the other conditions leave, which is dear where that
/// is much more. `= ANY (ARRAY(…))` leaves it no choice.
const EACH: (&str, &str) = ("IN (/*EACH*/", "/*END*/)");

/// Between a table with a full text index and the words to look for, as SQLite's FTS5 has it.
const MATCH: &str = " MATCH $";

/// Before a part that only PostgreSQL runs, and after it.
const OURS: (&str, &str) = ("/*POSTGRESQL ", "*/");

/// What a statement that only SQLite runs begins with.
const THEIRS: &str = "/*SQLITE*/";

/// Whether PostgreSQL runs it.
pub(super) fn is_ours(sql: &str) -> bool {
    !sql.starts_with(THEIRS)
}

/// A statement as PostgreSQL takes it.
pub(super) fn of_statement(sql: &'static str) -> Cow<'static, str> {
    let mut said = Cow::Borrowed(sql);
    if let Some((before, rest)) = sql.split_once(OURS.0)
        && let Some((part, after)) = rest.split_once(OURS.1)
    {
        said = Cow::Owned([before, part, after].concat());
    }
    if said.contains(CLAIM) {
        let (open, close) = EACH;
        let skips = said.replace(CLAIM, "FOR UPDATE SKIP LOCKED");
        said = Cow::Owned(skips.replace(open, "= ANY (ARRAY(").replace(close, "))"));
    }
    if said.contains(MATCH) {
        said = Cow::Owned(search(&said));
    }
    said
}

/// `TABLE MATCH $1` looks for rows with all words of `$1`: there is a column `tokens` for it here.
fn search(sql: &str) -> String {
    let (before, after) = sql.split_once(MATCH).unwrap_or((sql, ""));
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let (number, rest) = after.split_at(digits);
    format!("{before}.tokens @@ plainto_tsquery('simple', ${number}){rest}")
}

/// A migration as PostgreSQL takes it: every text column sorts by its bytes, as on SQLite,
/// whatever the database's own order is. Lists are paged by that order.
pub(super) fn of_migration(sql: &str) -> String {
    let mut said = String::with_capacity(sql.len() + 512);
    let mut before = "";
    for (is_code, part) in parts(sql) {
        if !is_code {
            said.push_str(part);
            continue;
        }
        let mut rest = part;
        while let Some(start) = rest.find(is_letter) {
            let tail = &rest[start..];
            let word = &tail[..tail.find(|c| !is_letter(c)).unwrap_or(tail.len())];
            said.push_str(&rest[..start]);
            said.push_str(word);
            // CAST(… AS TEXT) takes no collation.
            if word.eq_ignore_ascii_case("TEXT") && !before.eq_ignore_ascii_case("AS") {
                said.push_str(" COLLATE \"C\"");
            }
            before = word;
            rest = &tail[word.len()..];
        }
        said.push_str(rest);
    }
    said
}

/// The number of parameters, which must be `$1..$n` in order of first use: SQLite would number
/// them so whatever their names say.
pub(super) fn parameters(sql: &str) -> Result<usize, String> {
    let mut highest = 0;
    for (_, part) in parts(sql).filter(|(is_code, _)| *is_code) {
        if part.contains('?') {
            return Err("a parameter is ?: use $1..$n".to_owned());
        }
        for (at, _) in part.match_indices('$') {
            let digits = &part[at + 1..];
            let digits =
                &digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())];
            let number: usize = digits.parse().unwrap_or(0);
            if number == 0 || number > highest + 1 {
                return Err(format!(
                    "parameter {} is not ${}: use $1..$n in order",
                    highest + 1,
                    highest + 1
                ));
            }
            highest = highest.max(number);
        }
    }
    Ok(highest)
}

/// Whether a text only reads.
pub(super) fn is_read(sql: &str) -> bool {
    let first = sql.trim_start();
    first.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("SELECT"))
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The pieces of a text in order, each with whether it is code: not a literal, a quoted name or a
/// comment.
pub(super) fn parts(sql: &str) -> impl Iterator<Item = (bool, &str)> {
    const MARKS: [(&str, &str); 4] = [("'", "'"), ("\"", "\""), ("--", "\n"), ("/*", "*/")];
    let mut rest = sql;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = MARKS.iter().filter_map(|mark| rest.find(mark.0).map(|at| (at, mark))).min();
        let (is_code, end) = match next {
            None => (true, rest.len()),
            Some((0, (open, close))) => {
                let inside = &rest[open.len()..];
                let end = inside.find(close).map_or(rest.len(), |at| open.len() + at + close.len());
                (false, end)
            }
            Some((at, _)) => (true, at),
        };
        let (part, left) = rest.split_at(end);
        rest = left;
        Some((is_code, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_columns_sort_by_their_bytes() {
        let sql = "-- TEXT in a comment\nCREATE TABLE t (id TEXT PRIMARY KEY, text_at BIGINT, \
            \"TEXT\" text NOT NULL DEFAULT 'TEXT', CHECK (CAST(text_at AS TEXT) <> ''));";
        assert_eq!(
            of_migration(sql),
            "-- TEXT in a comment\nCREATE TABLE t (id TEXT COLLATE \"C\" PRIMARY KEY, text_at \
             BIGINT, \"TEXT\" text COLLATE \"C\" NOT NULL DEFAULT 'TEXT', \
             CHECK (CAST(text_at AS TEXT) <> ''));"
        );
    }

    #[test]
    fn a_claim_skips_what_others_hold() {
        let sql = "UPDATE t SET a = 1 WHERE id IN (SELECT id FROM t LIMIT $1 /*SKIP LOCKED*/)";
        assert!(of_statement(sql).ends_with("LIMIT $1 FOR UPDATE SKIP LOCKED)"));
        let sql = "WITH f AS (SELECT id FROM t LIMIT $1 /*SKIP LOCKED*/) \
            UPDATE t SET a = 1 WHERE id IN (/*EACH*/SELECT f.id FROM f/*END*/) AND a = 0";
        assert!(
            of_statement(sql).ends_with("WHERE id = ANY (ARRAY(SELECT f.id FROM f)) AND a = 0")
        );
        assert!(matches!(of_statement("SELECT 1"), Cow::Borrowed("SELECT 1")));
    }

    #[test]
    fn each_engine_runs_what_is_meant_for_it() {
        let sql = "UPDATE t SET a = 1 /*POSTGRESQL , b = 2 */ WHERE id = $1";
        assert_eq!(of_statement(sql), "UPDATE t SET a = 1 , b = 2  WHERE id = $1");
        let both = "UPDATE t SET a = 1 /*POSTGRESQL , b = 2 */ WHERE id IN (SELECT id FROM t \
            LIMIT $1 /*SKIP LOCKED*/)";
        assert!(of_statement(both).contains(", b = 2 "), "the marks do not hide each other");
        assert!(of_statement(both).ends_with("FOR UPDATE SKIP LOCKED)"));
        assert!(is_ours(sql) && !is_ours("/*SQLITE*/ UPDATE t SET b = 2"));
    }

    #[test]
    fn a_search_is_said_in_the_words_of_postgresql() {
        let sql = "SELECT a FROM t WHERE t MATCH $1 AND b = $2";
        let said = "SELECT a FROM t WHERE t.tokens @@ plainto_tsquery('simple', $1) AND b = $2";
        assert_eq!(of_statement(sql), said);
    }

    #[test]
    fn parameters_are_counted_and_their_order_checked() {
        assert_eq!(parameters("a = $1 AND b = $2 AND c = $1"), Ok(2));
        assert_eq!(parameters("a = '$7 ?' AND b = $1 -- $9"), Ok(1));
        for bad in ["a = $2 AND b = $1", "a = $", "a = $0", "a = ?", "a = $1 AND b = $3"] {
            assert!(parameters(bad).unwrap_err().contains("$1"), "{bad}");
        }
    }

    #[test]
    fn a_read_is_told_from_a_write() {
        assert!(is_read(" select 1") && !is_read("DELETE FROM t") && !is_read("x"));
    }
}
