//! The engines that execute write sets: SQLite in this process, and PostgreSQL with what speaks its
//! protocol. They know nothing of a domain, and no domain knows them: `main` names them.

mod backup;
mod lite;
mod migrate;
mod pg;

use store::{Db, Engines};

pub use lite::Lite;
pub use pg::Pg;

/// Both.
pub const ALL: Engines = Engines {
    sqlite: |path, options| Lite::open(path, options).map(Db::new),
    postgres: |url, options| Pg::open(url, options).map(Db::new),
    check_url: Pg::check_url,
};
