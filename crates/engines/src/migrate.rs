//! What of the migrations is missing is decided here, for both engines alike; how a text is applied
//! is the engine's affair.

use store::{Error, Migration};

/// The kinds of engine that a part of a migration can be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The embedded engine, and the backups of every other.
    Sqlite,
    /// PostgreSQL.
    Postgresql,
}

/// A migration without the parts that are for another kind of engine.
pub(crate) fn text_for(dialect: Dialect, sql: &str) -> String {
    let own = match dialect {
        Dialect::Sqlite => "sqlite",
        Dialect::Postgresql => "postgresql",
    };
    let mut is_ours = true;
    let mut text = String::with_capacity(sql.len());
    for line in sql.lines() {
        if let Some(mark) = line.strip_prefix("--@") {
            is_ours = mark == "all" || mark == own;
        } else if is_ours {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// A row of the table of migrations: version and checksum.
pub(crate) type Applied = (u32, String);

/// What of `known` is not applied yet, in order.
///
/// # Errors
/// [`Error::TooNew`] and [`Error::MigrationChanged`].
pub(crate) fn missing<'a>(
    known: &'a [Migration],
    applied: &[Applied],
) -> Result<Vec<&'a Migration>, Error> {
    let newest = known.iter().map(|migration| migration.version).max().unwrap_or(0);
    if let Some(found) = newest_of(applied).filter(|found| *found > newest) {
        return Err(Error::TooNew { found, known: newest });
    }
    let mut missing = Vec::new();
    for migration in known {
        match applied.iter().find(|(version, _)| *version == migration.version) {
            Some((_, checksum)) if *checksum == migration.checksum() => {}
            Some(_) => return Err(Error::MigrationChanged { version: migration.version }),
            None => missing.push(migration),
        }
    }
    Ok(missing)
}

/// The tables that a migration makes, by its text for one kind of engine.
pub(crate) fn made(sql: &str) -> impl Iterator<Item = &str> {
    sql.split("CREATE TABLE ").skip(1).filter_map(|after| {
        let after = after.strip_prefix("IF NOT EXISTS ").unwrap_or(after);
        after.split(|c: char| !is_name(c)).next()
    })
}

/// The tables that there are after the migrations that were applied.
fn standing(dialect: Dialect, known: &[Migration], applied: &[Applied]) -> Vec<String> {
    let mut names = Vec::new();
    let is_applied = |it: &&Migration| applied.iter().any(|(version, _)| *version == it.version);
    for migration in known.iter().filter(is_applied) {
        let sql = text_for(dialect, migration.sql);
        names.extend(made(&sql).map(str::to_owned));
        names.retain(|name| !sql.contains(&format!("DROP TABLE {name};")));
    }
    names
}

/// Whether the tables are those of the versions that are noted.
///
/// # Errors
/// [`Error::Altered`].
pub(crate) fn compare(
    dialect: Dialect,
    known: &[Migration],
    applied: &[Applied],
    there: &[String],
) -> Result<(), Error> {
    if applied.is_empty() {
        let all: Vec<Applied> = known.iter().map(|it| (it.version, String::new())).collect();
        let ours = standing(dialect, known, &all);
        return match ours.iter().find(|name| there.contains(name)) {
            Some(name) => Err(Error::Altered(format!(
                "it has the table {name}, and schema_migrations names no version"
            ))),
            None => Ok(()),
        };
    }
    match standing(dialect, known, applied).iter().find(|name| !there.contains(name)) {
        Some(name) => Err(Error::Altered(format!("it lacks the table {name}"))),
        None => Ok(()),
    }
}

/// Whether a migration changes a table, an index on it included.
pub(crate) fn changes(sql: &str, table: &str) -> bool {
    let is_change = |statement: &&str| {
        ["ALTER ", "CREATE ", "DROP "].iter().any(|word| statement.trim_start().starts_with(word))
    };
    let has_name = |statement: &str| statement.split(|c: char| !is_name(c)).any(|it| it == table);
    sql.split(';').filter(is_change).any(has_name)
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The highest version that is applied.
pub(crate) fn newest_of(applied: &[Applied]) -> Option<u32> {
    applied.iter().map(|(version, _)| *version).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_gets_its_own_parts_of_a_migration() {
        let sql = "a;\n--@sqlite\nb;\n--@postgresql\nc;\n--@all\nd;";
        assert_eq!(text_for(Dialect::Sqlite, sql), "a;\nb;\nd;\n");
        assert_eq!(text_for(Dialect::Postgresql, sql), "a;\nc;\nd;\n");
    }

    #[test]
    fn tables_that_are_missing_or_that_no_version_explains_are_named() {
        let text = |version, sql| Migration { version, name: "m", sql };
        let known = [
            text(1, "CREATE TABLE a (x BIGINT); CREATE TABLE old (x BIGINT);"),
            text(2, "DROP TABLE old; CREATE TABLE b (x BIGINT);"),
        ];
        let compared = |applied: &[u32], there: &[&str]| {
            let applied: Vec<Applied> = applied.iter().map(|it| (*it, String::new())).collect();
            let there: Vec<String> = there.iter().map(|name| (*name).to_owned()).collect();
            let found = compare(Dialect::Sqlite, &known, &applied, &there);
            found.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(compared(&[], &["somebody's"]), "");
        assert_eq!(compared(&[1], &["a", "old"]), "");
        assert_eq!(compared(&[1, 2], &["a", "b", "somebody's"]), "");
        assert!(compared(&[1, 2], &["a"]).contains("lacks the table b"));
        assert!(compared(&[1], &["a"]).contains("lacks the table old"));
        assert!(compared(&[], &["a", "b"]).contains("it has the table a"));
    }

    #[test]
    fn what_a_migration_makes_and_changes_is_read_from_its_text() {
        let sql = "CREATE TABLE a (b BIGINT);\n\nALTER TABLE old ADD COLUMN c BIGINT;\n\
                   CREATE INDEX b_by_c ON more (c); UPDATE data SET x = 1; CREATE TABLE d(e);";
        assert_eq!(made(sql).collect::<Vec<_>>(), ["a", "d"]);
        for table in ["a", "old", "more", "d"] {
            assert!(changes(sql, table), "{table}");
        }
        for table in ["data", "ol", "b_by"] {
            assert!(!changes(sql, table), "{table}");
        }
    }
}
