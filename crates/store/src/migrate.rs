//! Migrations: numbered SQL texts that are applied once and never change. What is missing is
//! decided here, for every engine alike; how a text is applied is the engine's affair.

use crate::Error;

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number; ascending in the list.
    pub version: u32,
    /// A few words for whoever reads the table of migrations.
    pub name: &'static str,
    /// The statements, separated by semicolons, without BEGIN and COMMIT. What only one kind of
    /// engine takes stands between a line `--@sqlite` or `--@postgresql` and a line `--@all`.
    pub sql: &'static str,
}

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

impl Migration {
    /// FNV-1a of the text, in hex: enough to notice an edit, not a protection against forgers.
    pub(crate) fn checksum(&self) -> String {
        let hash = self.sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
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

    #[test]
    fn the_checksum_is_fnv_1a_and_so_the_same_for_ever() {
        let migration = |sql| Migration { version: 1, name: "x", sql };
        assert_eq!(migration("").checksum(), "cbf29ce484222325");
        assert_eq!(migration("foobar").checksum(), "85944171f73967e8");
    }
}
