//! What went wrong at the server, by what can be done about it.

use std::error::Error as _;

use tokio_postgres::error::SqlState;

use store::Error;

/// Why a statement failed. The texts are for the operator's log: no arguments, no rows.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The connection is gone or of no use any more; another may work.
    Lost(String),
    /// A deadlock or a conflict of serializable transactions; the same again may work.
    Clash(String),
    /// An earlier statement of the transaction failed, so this one was not tried.
    Skipped,
    /// It waited too long for a lock, or took too long.
    Late(String),
    /// The server cannot go on: its disk is full, or it is out of something else.
    Broken(String),
    /// This statement or its arguments are to blame.
    Own(String),
    /// A column came back that the store has no type for.
    Corrupt(usize),
}

impl Failure {
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            // Arguments are checked before they are sent, so this is the connection.
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            return Self::Lost(of_tls(error).unwrap_or_else(|| format!("{error}{cause}")));
        };
        Self::said(db.code().code(), db.message())
    }

    /// What the server said: an SQLSTATE and its message.
    pub(super) fn said(code: &str, message: &str) -> Self {
        // The message of a data exception quotes the data.
        let what = if code.starts_with("22") { "data exception" } else { message };
        let text = format!("{what} (SQLSTATE {code})");
        match SqlState::from_code(code) {
            SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE => {
                Self::Clash(text)
            }
            // The savepoint was never set, because the transaction had failed before that.
            SqlState::IN_FAILED_SQL_TRANSACTION | SqlState::S_E_INVALID_SPECIFICATION => {
                Self::Skipped
            }
            SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => Self::Late(text),
            // Prepared statements that the server does not know, or whose tables changed.
            SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::FEATURE_NOT_SUPPORTED
            // A server that was demoted, or is starting or stopping.
            | SqlState::READ_ONLY_SQL_TRANSACTION
            | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Self::Lost(text),
            _ => match code.get(..2) {
                Some("08" | "57") => Self::Lost(text),
                Some("53" | "58" | "XX") => Self::Broken(text),
                _ => Self::Own(text),
            },
        }
    }

    /// The text, for the log and for errors.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Lost(text)
            | Self::Clash(text)
            | Self::Late(text)
            | Self::Broken(text)
            | Self::Own(text) => text,
            Self::Skipped => "an earlier statement of the transaction failed",
            Self::Corrupt(_) => "a column is of a type that the store does not have",
        }
    }
}

/// What is wrong with the server's certificate, if that is what is wrong.
fn of_tls(error: &tokio_postgres::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(found) = cause {
        let inner = found.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(tls) = tls.or_else(|| found.downcast_ref()) {
            return Some(format!("TLS: {}", words(tls)));
        }
        cause = found.source();
    }
    None
}

fn words(error: &rustls::Error) -> String {
    use rustls::CertificateError as Fault;
    let rustls::Error::InvalidCertificate(fault) = error else { return error.to_string() };
    let words = match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "has expired",
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "is not valid yet",
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            "is for another name than the one in the URL"
        }
        Fault::UnknownIssuer => "is signed by an authority that is not trusted",
        // webpki has no variant of its own for it there.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => "is self-signed",
        other => return format!("the server's certificate cannot be trusted: {other}"),
    };
    format!("the server's certificate {words}")
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        if let Failure::Corrupt(column) = failure {
            return Self::Corrupt { column };
        }
        Self::Unavailable(failure.text().to_owned())
    }
}
