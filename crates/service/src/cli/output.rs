//! Where answers go: the standard output carries the answer and nothing else; questions, hints,
//! logs and errors go to the error output. A reader that has gone, such as `head`, is no error; an
//! answer that a full disk did not take is one, or a backup of it would be thought made.

use std::io::{ErrorKind, Write};

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
    ///
    /// # Errors
    /// When nobody will ever read it, although somebody is there.
    pub(super) fn answer(
        self,
        object: &Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), Unwritten> {
        let text = if self.json { object.to_string() } else { text() };
        answered(line(std::io::stdout(), text.trim_end()))
    }

    /// Why a command failed, on the error output.
    pub(super) fn failed(self, error: &str) {
        if self.json {
            said(line(std::io::stderr(), &json!({ "error": error }).to_string()));
        } else {
            said(line(std::io::stderr(), &format!("error: {error}")));
        }
    }

    /// Something for people only, as it happens.
    pub(super) fn tell(self, text: &str) {
        if !self.json {
            said(line(std::io::stdout(), text));
        }
    }

    /// Like [`Self::tell`], where the standard output is kept for the answer.
    pub(super) fn hint(self, text: &str) {
        if !self.json {
            said(line(std::io::stderr(), text));
        }
    }
}

/// What a command answers did not reach the standard output.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the standard output: {0}")]
pub(super) struct Unwritten(std::io::Error);

impl Unwritten {
    /// With what was made nonetheless, and how to go on from there.
    pub(super) fn beside(self, made: &str) -> anyhow::Error {
        anyhow::anyhow!("{self}. {made}")
    }
}

/// Whether an answer was written.
pub(super) fn answered(written: std::io::Result<()>) -> Result<(), Unwritten> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Unwritten(error)),
        _ => Ok(()),
    }
}

/// Nobody is left to be told that something beside the answer was not.
fn said(_written: std::io::Result<()>) {}

fn line(mut to: impl Write, text: &str) -> std::io::Result<()> {
    writeln!(to, "{text}").and_then(|()| to.flush())
}
