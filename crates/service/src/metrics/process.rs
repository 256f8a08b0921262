//! The resources that the process uses, read from `/proc`; nothing where there is none. The names
//! are those of Prometheus' own clients.

use std::fmt::Error;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The kernel tells CPU time to programs in hundredths of a second, whatever its own clock is.
const TICKS_PER_S: f64 = 100.0;

/// Reads the figures anew at every look.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(seconds) = cpu_s(&own) {
            let counter = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "CPU time, user and system");
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        if let Some(seconds) = started_s(&own, &machine) {
            let gauge = ConstGauge::new(seconds);
            let (name, help) =
                ("process_start_time_seconds", "When the process began, in seconds since 1970");
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().and_then(|s| rss(&s)) {
            let gauge = ConstGauge::new(bytes);
            let (name, help) = ("process_resident_memory_bytes", "Resident memory");
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let gauge = ConstGauge::new(i64::try_from(open.count()).unwrap_or(i64::MAX));
            let (name, help) = ("process_open_fds", "Open files and sockets");
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

fn cpu_s(stat: &str) -> Option<f64> {
    // The name in parentheses may itself hold spaces, so count from its end.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_S)
}

/// The start of the process counts from that of the machine (`man 5 proc`).
fn started_s(own: &str, machine: &str) -> Option<f64> {
    let (_, rest) = own.rsplit_once(')')?;
    let after_boot: f64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    let boot_s: f64 = boot.trim().parse().ok()?;
    Some(boot_s + after_boot / TICKS_PER_S)
}

fn rss(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::{cpu_s, rss, started_s};

    #[test]
    fn fields_are_found_behind_an_awkward_name() {
        assert_eq!(cpu_s("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0"), Some(0.42));
        let own = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 0 0 0 0 250 0";
        assert_eq!(started_s(own, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_002.5));
        assert_eq!(started_s(own, ""), None);
        assert_eq!(rss("VmHWM:\t  2048 kB\nVmRSS: 1024 kB\n"), Some(1_048_576));
        assert_eq!((cpu_s(""), rss("")), (None, None));
    }
}
