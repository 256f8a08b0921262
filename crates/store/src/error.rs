//! What can go wrong with whatever is no commit.

/// What went wrong with a read, a migration or a backup.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be reached or used now; the text is for the operator's log.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// A column is not what the code expects.
    #[error("column {column} is missing or of another type than expected")]
    Corrupt {
        /// Position in the row.
        column: usize,
    },
    /// A migration that was applied is not the one this program carries.
    #[error("migration {version} in the database differs from the one in this program")]
    MigrationChanged {
        /// Its number.
        version: u32,
    },
    /// The database is newer than this program.
    #[error("the database is at migration {found}, this program knows {known}; run a newer one")]
    TooNew {
        /// What the database has.
        found: u32,
        /// What this program has.
        known: u32,
    },
    /// The database can never be used as it is; the text says what to change.
    #[error("the database cannot be used: {0}")]
    Unfit(String),
    /// The database is not one of ours.
    #[error("it is another program's database: it has the table {table}, and none of estafette's")]
    Foreign {
        /// A table that it has.
        table: String,
    },
    /// Somebody has changed the tables.
    #[error("the database's schema is not what this program made: {0}; restore a backup")]
    Altered(String),
    /// Another process serves from the database.
    #[error(
        "{place} is in use by another `serve`{by}: only one at a time. Stop that one, or give this \
         one another --data-dir",
        by = holder.map(|id| format!(" (process id {id})")).unwrap_or_default()
    )]
    Reserved {
        /// The database.
        place: String,
        /// The other process, where it could be read.
        holder: Option<u32>,
    },
}

impl Error {
    /// What is wrong, to be put into another error that says that the storage is unavailable.
    #[must_use]
    pub fn into_why(self) -> String {
        match self {
            Self::Unavailable(why) => why,
            other => other.to_string(),
        }
    }
}
