//! A line of the log that says once a minute what may happen a thousand times a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const SILENCE: Duration = Duration::from_mins(1);

/// When the line was last written.
#[derive(Debug, Default)]
pub struct Alarm(Mutex<Option<Instant>>);

impl Alarm {
    /// Whether to write it now; then it was.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= SILENCE);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_due_once_a_minute() {
        let alarm = Alarm::default();
        assert!(alarm.is_due() && !alarm.is_due());
        tokio::time::advance(SILENCE).await;
        assert!(alarm.is_due() && !alarm.is_due());
    }
}
