//! Where answers go: the standard output carries the answer and nothing else; questions, hints,
//! logs and errors go to the error output. A reader that has gone, such as `head`, is no error.

use std::io::Write;

use serde_json::{Value, json};

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

    /// Why a command failed, on the error output.
    pub(super) fn failed(self, error: &str) {
        if self.json {
            line(std::io::stderr(), &json!({ "error": error }).to_string());
        } else {
            line(std::io::stderr(), &format!("error: {error}"));
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

fn line(mut to: impl Write, text: &str) {
    let _written = writeln!(to, "{text}").and_then(|()| to.flush());
}
