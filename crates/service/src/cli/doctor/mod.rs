//! `estafette doctor`: looks at everything that a start relies on, changes nothing, and says what
//! to do about what is wrong.

mod data;
mod listeners;
mod machine;
pub(super) mod remedies;
mod ways;

use std::process::ExitCode;

use serde_json::{Value, json};

use super::output::Output;
use crate::config::{Config, LoadError, LoadErrors};
use crate::kit::words::words;

words! {
    /// How something is.
    enum Health {
        /// As it should be.
        Fine = "ok",
        /// It works, but not all of it, or not for long.
        Warning = "warning",
        /// It does not work.
        Fault = "error",
    }
}

/// What was found out about one thing.
struct Finding {
    about: String,
    health: Health,
    found: String,
    remedy: Option<String>,
}

impl Finding {
    fn fine(about: &str, found: impl Into<String>) -> Self {
        Self { about: about.to_owned(), health: Health::Fine, found: found.into(), remedy: None }
    }

    fn warning(about: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Warning, ..Self::fault(about, found, remedy) }
    }

    fn fault(about: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { about: about.to_owned(), health: Health::Fault, found: found.into(), remedy }
    }

    fn is_fault(&self) -> bool {
        self.health == Health::Fault
    }

    fn object(&self) -> Value {
        json!({
            "about": self.about, "health": self.health.as_str(), "found": self.found,
            "remedy": self.remedy,
        })
    }

    fn line(&self) -> String {
        let Self { about, health, found, remedy } = self;
        let remedy = remedy.as_ref().map(|remedy| format!("\n{:26}-> {remedy}", ""));
        format!("{:<9} {about:<15} {found}{}", health.as_str(), remedy.unwrap_or_default())
    }
}

/// Looks at everything, for which the settings need not even be readable. Exit code 1: something
/// does not work.
pub(super) async fn run(
    settings: Result<Config, LoadErrors>,
    strangers: &[String],
    output: Output,
) -> anyhow::Result<ExitCode> {
    let mut findings = match settings {
        Ok(config) => examine(&config).await,
        Err(errors) => {
            let finding = |error: &LoadError| {
                Finding::fault("settings", error.to_string(), remedies::of_settings(error))
            };
            errors.iter().map(finding).collect()
        }
    };
    findings.extend(strangers.iter().map(|name| unread(name)));
    let count = |health| findings.iter().filter(|finding| finding.health == health).count();
    let (faults, warnings) = (count(Health::Fault), count(Health::Warning));
    let objects: Vec<Value> = findings.iter().map(Finding::object).collect();
    let object = json!({
        "ok": faults == 0, "errors": faults, "warnings": warnings, "findings": objects,
    });
    output.answer(&object, || {
        let lines: Vec<String> = findings.iter().map(Finding::line).collect();
        let verdict = match (faults, warnings) {
            (0, 0) => "All is well.".to_owned(),
            (0, _) => format!("It can serve. Warnings: {warnings}."),
            _ => format!("It cannot serve as it is. Errors: {faults}, warnings: {warnings}."),
        };
        format!("{}\n\n{verdict}", lines.join("\n"))
    })?;
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A variable that looks like a setting and is none.
fn unread(variable: &str) -> Finding {
    let remedy = "correct its name, or remove it; `estafette config --template` has every setting";
    Finding::warning("settings", super::unread(variable), remedy)
}

async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings =
        vec![Finding::fine("settings", "can be read; `estafette config` prints them")];
    let data = data::examine(config).await;
    findings.extend(machine::examine(config));
    findings.extend(machine::open_secrets(config));
    findings.extend(listeners::examine(config, data.server).await);
    findings.extend(data.findings);
    findings.extend(ways::examine(config).await);
    findings
}
