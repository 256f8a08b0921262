//! The virus scanner: clamd, over TCP or a socket file, where one is configured. What it cannot
//! judge is not taken.

use std::time::Duration;

use clamav_client::tokio as clamd;

/// What it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    Clean,
    /// The name of what it found.
    Infected(String),
    /// It did not answer, or not in its words.
    Silent,
}

/// Lets it look at a file. No address: there is none.
pub(super) async fn look(address: &str, timeout: Duration, bytes: &[u8]) -> Scan {
    if address.is_empty() {
        return Scan::Clean;
    }
    let asked = async {
        match address.strip_prefix("unix:") {
            Some(path) => {
                clamd::scan_buffer(bytes, clamd::Socket { socket_path: path }, None).await
            }
            None => clamd::scan_buffer(bytes, clamd::Tcp { host_address: address }, None).await,
        }
    };
    match tokio::time::timeout(timeout, asked).await {
        Ok(Ok(answer)) => read(&String::from_utf8_lossy(&answer)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the virus scanner cannot be reached");
            Scan::Silent
        }
        Err(_) => {
            tracing::warn!("the virus scanner is not responding");
            Scan::Silent
        }
    }
}

/// Whether it answers.
///
/// # Errors
/// Why it does not.
pub async fn probe(address: &str, timeout: Duration) -> Result<(), String> {
    let asked = async {
        match address.strip_prefix("unix:") {
            Some(path) => clamd::ping(clamd::Socket { socket_path: path }).await,
            None => clamd::ping(clamd::Tcp { host_address: address }).await,
        }
    };
    match tokio::time::timeout(timeout, asked).await {
        Ok(Ok(answer)) if answer == clamav_client::PONG => Ok(()),
        Ok(Ok(_)) => Err("what answers is no clamd".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err(format!("no answer in {} s", timeout.as_secs())),
    }
}

/// `stream: OK`, or `stream: NAME FOUND` (clamd(8), INSTREAM).
fn read(answer: &str) -> Scan {
    let answer = answer.trim_end_matches(['\0', '\n']);
    let Some(said) = answer.strip_prefix("stream: ") else {
        tracing::warn!("the virus scanner answers in words of its own");
        return Scan::Silent;
    };
    match said.strip_suffix(" FOUND") {
        Some(name) => Scan::Infected(name.chars().take(100).collect()),
        None if said == "OK" => Scan::Clean,
        None => Scan::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::{Scan, read};

    #[test]
    fn only_ok_is_clean() {
        assert_eq!(read("stream: OK\0"), Scan::Clean);
        assert_eq!(read("stream: Eicar FOUND\0"), Scan::Infected("Eicar".to_owned()));
        for other in ["", "OK", "stream: OK?", "INSTREAM size limit exceeded. ERROR"] {
            assert_eq!(read(other), Scan::Silent, "{other}");
        }
    }
}
