//! An instant in milliseconds since 1970, as it is stored and shown.

use std::fmt;
use std::ops::{Add, Sub};

/// 9999-12-31T23:59:59.999Z.
const END_MS: i64 = 253_402_300_799_999;

/// Milliseconds since the Unix epoch, UTC. Shown as RFC 3339 with `Z` and three decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    pub(crate) fn of_the_machine() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since.map_or(0, |past| i64::try_from(past.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Reads RFC 3339, any offset and any number of decimals. The last day of the year 9999, which
    /// clients write for "no end", is read as well.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let at = chrono::DateTime::parse_from_rfc3339(text).ok()?;
        Some(Self(at.timestamp_millis()))
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
        // RFC 3339 has years of four digits only.
        let at = chrono::DateTime::from_timestamp_millis(self.0.min(END_MS)).unwrap_or_default();
        f.write_str(&at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
    }
}

#[cfg(test)]
mod tests {
    use super::Millis;

    #[test]
    fn instants_are_shown_in_utc_with_three_decimals() {
        assert_eq!(Millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Millis(1_700_000_000_120).to_string(), "2023-11-14T22:13:20.120Z");
        assert_eq!(Millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Millis::parse("2023-11-14T23:13:20.12+01:00"), Some(Millis(1_700_000_000_120)));
    }

    #[test]
    fn what_other_programs_write_is_read() {
        for (text, ms) in [
            ("2023-11-14T22:13:20.1204567890123Z", Some(1_700_000_000_120)),
            ("2023-11-14T23:13:20.1204567890+01:00", Some(1_700_000_000_120)),
            ("9999-12-30T22:00:01Z", Some(253_402_207_201_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("9999-12-31T23:59:59.9999999999Z", Some(253_402_300_799_999)),
            ("9999-12-31T23:59:59-08:00", Some(253_402_329_599_000)),
            ("9999-12-31T23:59:59", None),
            ("9999-12-32T00:00:00Z", None),
            ("10000-01-01T00:00:00Z", None),
            ("2016-12-31T23:59:60Z", Some(1_483_228_800_000)),
            ("2023-11-14t22:13:20z", Some(1_700_000_000_000)),
            ("2023-11-14T22:13:20.Z", None),
            ("2023-11-14T22:13:20", None),
            ("2023-11-14", None),
            ("2023-11-14.1234567890Z", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(Millis::parse(text), ms.map(Millis), "{text}");
        }
    }
}
