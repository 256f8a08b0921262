//! Settings that are one of a few words.

use serde::{Deserialize, Serialize};

use crate::kit::words::{UnknownWord, must_be_one_of, words};

words! {
    /// What the guard against passcodes that nobody verifies does.
    #[derive(Deserialize, Serialize)]
    #[serde(try_from = "String", into = "&'static str")]
    pub enum FraudGuard {
        /// Nothing.
        Off = "off",
        /// It tells of them.
        Watch = "watch",
        /// It refuses them.
        Block = "block",
    }

    /// Where virtual handsets are.
    #[derive(Deserialize, Serialize)]
    #[serde(try_from = "String", into = "&'static str")]
    pub enum HandsetStore {
        /// In memory, unless nodes share the database.
        Auto = "auto",
        /// In memory.
        Memory = "memory",
        /// In the database.
        Database = "database",
    }

    /// How the log is written.
    #[derive(Deserialize, Serialize)]
    #[serde(try_from = "String", into = "&'static str")]
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// For programs.
        Json = "json",
    }
}

macro_rules! from_settings {
    ($($choice:ident),+) => { $(
        impl TryFrom<String> for $choice {
            type Error = String;

            fn try_from(word: String) -> Result<Self, String> {
                word.parse().map_err(|UnknownWord| must_be_one_of::<Self>())
            }
        }

        impl From<$choice> for &'static str {
            fn from(choice: $choice) -> Self {
                choice.as_str()
            }
        }
    )+ };
}

from_settings!(FraudGuard, HandsetStore, LogFormat);
