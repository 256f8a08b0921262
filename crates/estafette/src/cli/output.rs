//! Where answers go: the standard output carries the answer and nothing else; questions, hints,
//! logs and errors go to the error output. A reader that has gone, such as `head`, is no error.

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
            line(std::io::stdout(), &object.to_string());
        } else {
            line(std::io::stdout(), text().trim_end());
        }
    }

    /// Something for people only, as it happens.
    pub(super) fn tell(self, text: &str) {
        if !self.json {
            line(std::io::stdout(), text);
        }
    }

    /// Like [`Self::tell`], where the standard output is kept for the answer.
    pub(super) fn hint(self, text: &str) {
        if !self.json {
            line(std::io::stderr(), text);
        }
    }
}

/// Says why a command failed.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    line(std::io::stderr(), &format!("error: {error:#}"));
    ExitCode::FAILURE
}

fn line(mut to: impl Write, text: &str) {
    let _written = writeln!(to, "{text}").and_then(|()| to.flush());
}
