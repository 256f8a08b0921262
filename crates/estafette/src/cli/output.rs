//! Where answers go: the standard output carries the answer and nothing else; questions, hints,
//! logs and errors go to the error output.
#![expect(clippy::print_stdout, reason = "answers of the command line belong there")]

use std::io::Write;
use std::process::ExitCode;

use serde_json::Value;

/// How the caller wants the answer.
#[derive(Clone, Copy)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads.
    pub(super) const fn is_json(self) -> bool {
        self.json
    }

    /// The one answer of a command.
    pub(super) fn answer(self, object: &Value, text: impl FnOnce() -> String) {
        if self.json {
            println!("{object}");
        } else {
            println!("{}", text().trim_end());
        }
        // A reader such as `head` may have gone; that is its business.
        let _flushed = std::io::stdout().flush();
    }

    /// Something for people only, as it happens.
    pub(super) fn tell(self, text: &str) {
        if !self.json {
            println!("{text}");
        }
    }

    /// Like [`Self::tell`], where the standard output is kept for the answer.
    pub(super) fn hint(self, text: &str) {
        if !self.json {
            eprintln!("{text}");
        }
    }
}

/// Says why a command failed.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
