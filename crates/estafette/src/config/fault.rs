//! What can be wrong with the settings, and where each value came from.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from, in the words of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The embedded `default.toml`.
    Default,
    /// The file of `--config`.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default.toml"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::Flag(name) => write!(f, "the flag {name}"),
        }
    }
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read or is not TOML.
    #[error("the file {file}: {reason}", file = file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What is wrong, without the text of the line: it may hold a secret.
        reason: String,
    },
    /// There is no such key.
    #[error("{key}: no such setting (from {from}); `estafette config` lists them all")]
    Unknown {
        /// Its path.
        key: String,
        /// Who gave it.
        from: Source,
    },
    /// An environment variable that lacks underscores.
    #[error("the environment variable {name} is not read; did you mean {meant}?")]
    Misspelt {
        /// Its name.
        name: String,
        /// The setting that it would be.
        meant: String,
    },
    /// A value of another type.
    #[error("{key}: expected {expected} (from {from})")]
    Mistyped {
        /// Its path.
        key: String,
        /// Who gave it.
        from: Source,
        /// What would be right.
        expected: &'static str,
    },
    /// A key given twice where neither outranks the other, such as a secret and its file.
    #[error("{key}: given twice, by {first} and by {second}")]
    Twice {
        /// Its path.
        key: String,
        /// The first.
        first: Source,
        /// The second.
        second: Source,
    },
    /// A secret's file.
    #[error("{key}: its file {file} cannot be used: {reason} (from {from})", file = file.display())]
    SecretFile {
        /// Path of the secret.
        key: String,
        /// The file.
        file: PathBuf,
        /// Who named the file.
        from: Source,
        /// What is wrong.
        reason: String,
    },
    /// A value that cannot work.
    #[error("{key}: {reason} (from {from})")]
    Invalid {
        /// Its path.
        key: String,
        /// Who gave it.
        from: Source,
        /// What is wrong.
        reason: String,
    },
}
