//! CPU time and memory of a process, from `/proc`.

use std::fs;

/// The kernel reports CPU time in hundredths of a second to every program.
const TICK_US: f64 = 10_000.0;

/// CPU time of `pid` (`self` for this process) in µs, user and system; `None` if it is gone.
pub(crate) fn cpu_us(pid: &str) -> Option<f64> {
    stat_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Resident memory of `pid` in MiB, now and at its peak.
pub(crate) fn rss_mib(pid: &str) -> Option<(f64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((field_mib(&status, "VmRSS:")?, field_mib(&status, "VmHWM:")?))
}

fn stat_ticks(stat: &str) -> Option<f64> {
    // The name in parentheses may itself hold spaces, so count from its end.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) * TICK_US)
}

fn field_mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::{cpu_us, field_mib, rss_mib, stat_ticks};

    #[test]
    fn fields_are_found_behind_an_awkward_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0";
        assert_eq!(stat_ticks(stat), Some(420_000.0));
        assert_eq!(field_mib("VmHWM:\t  2048 kB\nVmRSS: 1024 kB\n", "VmRSS:"), Some(1.0));
    }

    #[test]
    fn this_process_has_memory_and_a_missing_one_has_none() {
        assert!(rss_mib("self").is_some_and(|(rss, peak)| rss > 0.0 && peak >= rss * 0.5));
        assert_eq!(cpu_us("0"), None);
    }
}
