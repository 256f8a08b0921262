//! What can be wrong with the settings, and where each value came from.

use std::fmt;
use std::path::PathBuf;

use super::plain::variable_of;

/// Where a value came from, in the words of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The embedded `default.toml`.
    Default,
    /// The file of `--config`.
    File {
        /// Which.
        file: PathBuf,
        /// The line of the key, from 1.
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default.toml"),
            Self::File { file, line: None } => write!(f, "the file {}", file.display()),
            Self::File { file, line: Some(line) } => {
                write!(f, "the file {}, line {line}", file.display())
            }
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::Flag(name) => write!(f, "the flag {name}"),
        }
    }
}

impl Source {
    /// Behind a fault; nothing where nobody set the key.
    fn behind(&self) -> String {
        if *self == Self::Default { String::new() } else { format!(" (from {self})") }
    }

    /// A key as this source writes it.
    fn spell(&self, key: &str) -> String {
        match self {
            Self::Variable(_) => variable_of(key),
            Self::Default | Self::File { .. } | Self::Flag(_) => key.to_owned(),
        }
    }
}

/// What is said of a key that is not there.
fn unknown(key: &str, from: &Source, meant: Option<&str>) -> String {
    if key.is_empty() {
        return format!("{from} names no setting");
    }
    let advice = match meant {
        Some(meant) => format!("did you mean {}?", from.spell(meant)),
        None => "`estafette config --template` lists them all".to_owned(),
    };
    format!("{key}: no such setting{}; {advice}", from.behind())
}

/// Why the settings cannot be used: all that could be found at once, at least one thing.
#[derive(Debug, thiserror::Error)]
pub struct LoadErrors(Vec<LoadError>);

impl LoadErrors {
    /// An error if there is something.
    pub(super) fn of(found: Vec<LoadError>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// Each by itself, in the order in which settings are read.
    pub fn iter(&self) -> impl Iterator<Item = &LoadError> {
        self.0.iter()
    }
}

impl From<LoadError> for LoadErrors {
    fn from(only: LoadError) -> Self {
        Self(vec![only])
    }
}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        write!(f, "the settings have {} errors:", self.0.len())?;
        self.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("the file {file} cannot be read: {why}", file = file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the file {file}: {reason}", file = file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What is wrong, without the text of the line: it may hold a secret.
        reason: String,
    },
    /// There is no such key.
    #[error("{}", unknown(key, from, meant.as_deref()))]
    Unknown {
        /// Its path.
        key: String,
        /// Who gave it.
        from: Source,
        /// The setting that is spelt almost like it.
        meant: Option<String>,
    },
    /// An environment variable that lacks underscores.
    #[error("the environment variable {name} is not read; did you mean {meant}?")]
    Misspelt {
        /// Its name.
        name: String,
        /// The setting that it would be.
        meant: String,
    },
    /// An environment variable that is not UTF-8.
    #[error("the environment variable {name} is not UTF-8")]
    NotText {
        /// Its name, with a mark for each byte that is none.
        name: String,
    },
    /// A value of another type.
    #[error("{key}: must be {expected}{}", from.behind())]
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
    #[error(
        "{key}: its file {file} cannot be used: {reason}{}", from.behind(), file = file.display()
    )]
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
    #[error("{key}: {reason}{}", from.behind())]
    Invalid {
        /// Its path.
        key: String,
        /// Who gave it.
        from: Source,
        /// What is wrong.
        reason: String,
    },
}
