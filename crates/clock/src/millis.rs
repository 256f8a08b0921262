//! An instant in milliseconds since 1970, as it is stored and shown.

use std::fmt;
use std::ops::{Add, Sub};

/// Milliseconds since the Unix epoch, UTC. Shown as RFC 3339 with `Z` and three decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    pub(crate) fn of_the_machine() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since.map_or(0, |past| i64::try_from(past.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Reads RFC 3339, any offset.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_millisecond()))
    }
}

impl Add<i64> for Millis {
    type Output = Self;
    fn add(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl Sub<i64> for Millis {
    type Output = Self;
    fn sub(self, ms: i64) -> Self {
        Self(self.0.saturating_sub(ms))
    }
}

impl Sub for Millis {
    type Output = i64;
    fn sub(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Millis;

    #[test]
    fn instants_are_shown_in_utc_with_three_decimals() {
        assert_eq!(Millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Millis(1_700_000_000_120).to_string(), "2023-11-14T22:13:20.120Z");
        assert_eq!(Millis::parse("2023-11-14T23:13:20.12+01:00"), Some(Millis(1_700_000_000_120)));
    }
}
