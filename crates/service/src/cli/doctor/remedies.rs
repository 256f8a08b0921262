//! What to do about settings, a database or a master key that cannot be used.

use std::io::ErrorKind;
use std::path::Path;

use store::Error;

use super::machine;
use crate::config::{Config, LoadError};
use crate::kit::folder::{self, Useless, WRITABLE};
use crate::kit::seal::KeyError;
use crate::wiring::{self, CannotListen, OpenError};

/// SQLSTATE 3D000: the server is there, the database is not.
const NO_DATABASE: &str = "3D000";
/// SQLSTATE class 28: the user or the password.
const NO_LOGIN: &str = "SQLSTATE 28";
/// SQLSTATE 53300: all connections are taken.
const TOO_MANY: &str = "53300";
/// SQLSTATE 55000: the database takes no connections.
const NOT_NOW: &str = "55000";
/// SQLSTATE 42501: the user may not do this.
const NOT_ALLOWED: &str = "42501";
/// SQLSTATE 25006: a standby, or a user who only reads.
const READ_ONLY: &str = "25006";

/// What the operator can do about the error of a command, where that does not say it itself.
pub(in crate::cli) fn of_error(config: &Config, error: &anyhow::Error) -> Option<String> {
    if let Some(why) = error.downcast_ref::<Useless>() {
        return Some(why.remedy.to_owned());
    }
    if let Some(listener) = error.downcast_ref::<CannotListen>() {
        return Some(listener.remedy());
    }
    if let Some(key) = error.downcast_ref::<KeyError>() {
        match key {
            KeyError::File(_, why) if is_full(why) => {
                let remedy = machine::lacking(config).and_then(|finding| finding.remedy);
                return Some(remedy.unwrap_or_else(|| ROOM.to_owned()));
            }
            KeyError::File(..) | KeyError::Malformed | KeyError::TooMany(_) => {}
            // They say it themselves.
            KeyError::Missing { .. } | KeyError::Changed(_) | KeyError::Forgotten(_) => {
                return None;
            }
        }
        let size = wiring::database_file(config).and_then(|file| Some(file.metadata().ok()?.len()));
        let is_first = size.is_none_or(|bytes| bytes == 0) && !config.database.is_shared();
        return Some(if is_first { of_first_key(error) } else { of_key(error) });
    }
    let opened = error.downcast_ref::<OpenError>().and_then(|opened| match opened {
        OpenError::Db(error) => Some(error),
        _ => None,
    });
    match opened.or_else(|| error.downcast_ref::<Error>())? {
        Error::Unavailable(why) => specific(config, why),
        error @ Error::Foreign { .. } => Some(of(config, error)),
        // So do these.
        _ => None,
    }
}

/// What the operator can do about a database.
pub(super) fn of(config: &Config, error: &Error) -> String {
    match error {
        Error::TooNew { .. } => {
            "install the newer program again, or restore a backup from before it".to_owned()
        }
        Error::MigrationChanged { .. } => {
            "install the program that made this database, or restore a backup".to_owned()
        }
        Error::Reserved { .. } => "stop the other process".to_owned(),
        Error::Unfit(why) if why.contains("encoding") => {
            "make such a database and name it in database.url".to_owned()
        }
        Error::Unfit(_) => GRANT.to_owned(),
        Error::Unavailable(why) => of_text(config, why),
        Error::Foreign { .. } if config.database.is_shared() => {
            "make a database, or a schema, for estafette alone, and name it in database.url"
                .to_owned()
        }
        Error::Foreign { .. } => "name another place with --data-dir or database.url".to_owned(),
        Error::Corrupt { .. } | Error::Altered(_) => RESTORE.to_owned(),
    }
}

/// What the operator can do about a master key that cannot be read.
pub(super) fn of_key(error: &anyhow::Error) -> String {
    match error.downcast_ref::<KeyError>() {
        Some(KeyError::File(file, why)) if why.kind() == ErrorKind::PermissionDenied => {
            format!(
                "run this as the user of the service, or give that user the file: chown … {file}"
            )
        }
        _ => "put the key of this database there: without it codes, secrets and the ledger's \
              seals cannot be read"
            .to_owned(),
    }
}

/// The same where no database is there that needs a certain one.
pub(super) fn of_first_key(error: &anyhow::Error) -> String {
    match error.downcast_ref::<KeyError>() {
        Some(KeyError::File(_, why)) if why.kind() == ErrorKind::PermissionDenied => of_key(error),
        _ => "put a good key in its place, or remove it: the first start makes one".to_owned(),
    }
}

/// What the operator can do about settings that cannot be read.
pub(super) fn of_settings(error: &LoadError) -> &'static str {
    match error {
        LoadError::Unreadable { why, .. } if why.kind() == ErrorKind::NotFound => {
            "name a file that exists with --config; `estafette config --template` writes a new one"
        }
        LoadError::Unreadable { why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            "run this as the user of the service, or let that user read the file"
        }
        LoadError::Unreadable { .. } => "name a file of settings with --config",
        LoadError::SecretFile { .. } => {
            "put the secret into that file, readable by the user of the service"
        }
        _ => "correct it; `estafette config --template` explains every setting",
    }
}

/// Where nothing more is known.
pub(super) const REACH: &str = "see that the server runs and database.url leads to it";
const WRITES: &str = "see that this user may write the file and its directory";
const GRANT: &str = "let this user own the database and its tables: ALTER DATABASE … OWNER TO …, \
                     REASSIGN OWNED BY … TO …";
const ROOM: &str = "make room on its disk";
const RESTORE: &str = "put a backup in its place; see operations.md in the documentation";

/// What the operator can do about a file that somebody else has locked.
pub(super) fn of_lock(file: &Path) -> String {
    let at = folder::shown(file);
    let at = at.display();
    format!(
        "another process holds a lock on it: `fuser {at}` or `lsof {at}` names it; stop \
         that process, or wait until it is done"
    )
}

fn is_full(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn of_text(config: &Config, why: &str) -> String {
    specific(config, why).unwrap_or_else(|| {
        let on_server = config.database.is_shared();
        let remedy = if on_server { REACH } else { WRITES };
        remedy.to_owned()
    })
}

/// Where the text tells more than that it does not work.
fn specific(config: &Config, why: &str) -> Option<String> {
    match wiring::database_file(config) {
        Some(file) if why.contains("locked") => Some(of_lock(&file)),
        Some(_) if why.contains("unable to open") || why.contains("Too many open files") => {
            machine::lacking(config).and_then(|finding| finding.remedy)
        }
        Some(_) => of_file(why).map(str::to_owned),
        None => of_server(why).map(str::to_owned),
    }
}

fn of_server(why: &str) -> Option<&'static str> {
    let is = |word: &str| why.contains(word);
    Some(if is("password missing") {
        "put the password into database.url, or the whole URL into a file and name that as \
         database.url_file"
    } else if is(TOO_MANY) {
        "raise max_connections of the server, or lower database.batchers and database.readers"
    } else if is(NOT_NOW) {
        "let the database take connections: ALTER DATABASE … ALLOW_CONNECTIONS true"
    } else if is(NO_DATABASE) {
        "make it: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0; or correct database.url"
    } else if is(NO_LOGIN) {
        "correct the user or the password in database.url; the user needs LOGIN"
    } else if is(NOT_ALLOWED) {
        GRANT
    } else if is(READ_ONLY) {
        "name the primary in database.url, not a standby, and a user who may write"
    } else if is("has expired") || is("not valid yet") {
        "give the server a valid certificate, and see that this machine's clock is right"
    } else if is("for another name") {
        "write the name of the certificate as the host in database.url"
    } else if is("self-signed") {
        "give the server a certificate that an authority signed, and name the authority's file \
         with sslrootcert in database.url"
    } else if is("not trusted") {
        "name the file of that authority in database.url: ?sslrootcert=FILE"
    } else if is("TLS") || is("certificate") || is("sslrootcert") {
        "correct sslmode and sslrootcert in database.url"
    } else {
        return None;
    })
}

fn of_file(why: &str) -> Option<&'static str> {
    let is = |word: &str| why.contains(word);
    Some(if is("not a database") || is("malformed") {
        RESTORE
    } else if is("full") || is("No space left") || is("quota") {
        ROOM
    } else if is("Read-only") || is("readonly") {
        WRITABLE
    } else {
        return None;
    })
}
