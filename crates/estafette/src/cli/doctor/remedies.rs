//! What to do about a database that cannot be used, by what it says of itself.

use store::Error;

use crate::config::Config;
use crate::wiring;

/// SQLSTATE 3D000: the server is there, the database is not.
const NO_DATABASE: &str = "3D000";
/// SQLSTATE class 28: the user or the password.
const NO_LOGIN: &str = "SQLSTATE 28";
/// SQLSTATE 42501: the user may not do this.
const NOT_ALLOWED: &str = "42501";
/// SQLSTATE 25006: a standby, or a user who only reads.
const READ_ONLY: &str = "25006";

/// What the operator can do.
pub(super) fn of(config: &Config, error: &Error) -> String {
    match error {
        Error::TooNew { .. } => {
            "install the newer program again, or restore a backup from before it".to_owned()
        }
        Error::MigrationChanged { .. } => {
            "install the program that made this database, or restore a backup".to_owned()
        }
        Error::Reserved { .. } => "stop the other process".to_owned(),
        Error::Unfit(why) if why.contains("may not write") => GRANT.to_owned(),
        Error::Unfit(_) => "make such a database and name it in database.url".to_owned(),
        Error::Unavailable(why) => of_text(config, why).to_owned(),
        Error::Corrupt { .. } => RESTORE.to_owned(),
    }
}

const GRANT: &str = "let this user own the database and its tables: ALTER DATABASE … OWNER TO …, \
                     REASSIGN OWNED BY … TO …";
const RESTORE: &str = "put a backup in its place; see docs/operations.md";

fn of_text(config: &Config, why: &str) -> &'static str {
    if wiring::database_file(config).is_some() {
        return of_file(why);
    }
    let is = |word: &str| why.contains(word);
    if is(NO_DATABASE) {
        "make it: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0; or correct database.url"
    } else if is(NO_LOGIN) {
        "correct the user or the password in database.url; the user needs LOGIN"
    } else if is(NOT_ALLOWED) {
        GRANT
    } else if is(READ_ONLY) {
        "name the primary in database.url, not a standby, and a user who may write"
    } else if is("TLS") || is("certificate") || is("sslrootcert") {
        "correct sslmode and sslrootcert in database.url"
    } else {
        "see that the server runs and database.url leads to it"
    }
}

fn of_file(why: &str) -> &'static str {
    let is = |word: &str| why.contains(word);
    if is("not a database") || is("malformed") {
        RESTORE
    } else if is("full") {
        "make room on its disk"
    } else {
        "see that this user may write the file and its directory"
    }
}
