//! Counters of other programs, such as the bytes that a process has written: each is read by a
//! command before and after a run, and reported as its increase per operation.

use std::{collections::BTreeMap, str::FromStr};

use anyhow::{Context, Result, ensure};

use super::tally;

/// A command that prints a number which only grows.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    name: String,
    command: String,
}

impl FromStr for Counter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, command)) if !name.is_empty() && !command.is_empty() => {
                Ok(Self { name: name.to_owned(), command: command.to_owned() })
            }
            _ => Err("must be NAME=COMMAND".to_owned()),
        }
    }
}

impl Counter {
    async fn read(&self) -> Result<f64> {
        let Self { name, command } = self;
        let ran = tokio::process::Command::new("sh").args(["-c", command]).output().await?;
        let said = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "the counter {name} ends with {}: {said}", ran.status);
        let printed = String::from_utf8_lossy(&ran.stdout);
        printed.trim().parse().with_context(|| format!("the counter {name} printed {printed:?}"))
    }
}

/// What all counters show now.
///
/// # Errors
/// When a command fails or prints no number.
pub(crate) async fn read(counters: &[Counter]) -> Result<Vec<f64>> {
    let mut found = Vec::with_capacity(counters.len());
    for counter in counters {
        found.push(counter.read().await?);
    }
    Ok(found)
}

/// How much each has grown per operation since `before`.
///
/// # Errors
/// As [`read`].
pub(crate) async fn grown(
    counters: &[Counter],
    before: &[f64],
    operations: u64,
) -> Result<BTreeMap<String, f64>> {
    let after = read(counters).await?;
    let names = counters.iter().map(|counter| counter.name.clone());
    let readings = before.iter().zip(after);
    let grown = names.zip(readings).filter_map(|(name, (before, after))| {
        Some((name, tally::per_operation(Some(*before), Some(after), operations)?))
    });
    Ok(grown.collect())
}

#[cfg(test)]
mod tests {
    use super::{Counter, grown, read};

    #[tokio::test]
    async fn a_counter_is_what_its_command_prints() {
        let counters = ["a=echo 5", "b=echo 7.5"].map(|text| text.parse::<Counter>().unwrap());
        assert_eq!(read(&counters).await.unwrap(), [5.0, 7.5]);
        let grown = grown(&counters, &[1.0, 7.5], 2).await.unwrap();
        assert_eq!(
            grown.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), 2.0), ("b".to_owned(), 0.0)]
        );
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error() {
        for bad in ["a=exit 3", "a=echo many"] {
            assert!(read(&[bad.parse().unwrap()]).await.is_err(), "{bad}");
        }
        for bad in ["", "a", "a=", "=echo 5"] {
            assert!(bad.parse::<Counter>().is_err(), "{bad}");
        }
    }
}
