//! `validity_period` and `schedule_delivery_time` (SMPP 3.4 §7.1.1).

use chrono::{DateTime, Datelike as _};
use clock::Millis;

use crate::wire::COctets;

/// `YYMMDDhhmmss000R`: from the moment that the centre gets it (§7.1.1.2). More than 31 days become
/// 31 days: months have no length here. Less than a second becomes a second.
#[must_use]
pub fn relative(seconds: u32) -> COctets {
    let seconds = seconds.clamp(1, 31 * 86_400);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hours, minutes, seconds) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("0000{days:02}{hours:02}{minutes:02}{seconds:02}000R").into()
}

/// `YYMMDDhhmmsstnnp` in UTC (§7.1.1.1); empty for a time before 1970 or after 9999.
#[must_use]
pub fn absolute(at: Millis) -> COctets {
    let at = DateTime::from_timestamp_millis(at.0.max(0)).filter(|at| at.year() <= 9999);
    let Some(at) = at else { return COctets::default() };
    let tenths = at.timestamp_subsec_millis() / 100;
    format!("{}{tenths}00+", at.format("%y%m%d%H%M%S")).into()
}

#[cfg(test)]
mod tests {
    use clock::Millis;

    use super::{absolute, relative};

    #[test]
    fn times_are_written_as_the_specification_shows_them() {
        assert_eq!(relative(300).to_string(), "000000000500000R");
        assert_eq!(relative(0).to_string(), "000000000001000R");
        assert_eq!(relative(86_400 * 2 + 3_600 * 3 + 61).to_string(), "000002030101000R");
        assert_eq!(relative(u32::MAX).to_string(), "000031000000000R");
        let at = Millis::parse("2026-11-22T10:05:09.7Z").unwrap();
        assert_eq!(absolute(at).to_string(), "261122100509700+");
        assert_eq!(absolute(Millis(i64::MAX)).to_string(), "");
    }
}
