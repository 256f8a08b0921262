//! CPU time and memory of a process, from `/proc`.

use std::fs;

/// The kernel reports CPU time in hundredths of a second to every program.
const TICK_US: f64 = 10_000.0;

/// CPU time of `pid` (`self` for this process) in µs, user and system; `None` if it is gone.
pub(crate) fn cpu_us(pid: &str) -> Option<f64> {
    Some(sum_of_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, 2)? * TICK_US)
}

/// CPU time of `pids` and of all their children, also those that have ended, in µs: a database
/// server has a process for each connection. `None` if one of them is gone.
pub(crate) fn cpu_us_of_trees(pids: &[u32]) -> Option<f64> {
    let mut all: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let parents = parents();
    let mut at = 0;
    while let Some(parent) = all.get(at).cloned() {
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid.clone());
        all.extend(children.collect::<Vec<_>>());
        at += 1;
    }
    let ticks = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        sum_of_ticks(&stat, 4)
    };
    let (given, found) = all.split_at_checked(pids.len())?;
    let mut sum = given.iter().map(ticks).sum::<Option<f64>>()?;
    // A child may end between the look at the list and the look at itself.
    sum += found.iter().filter_map(ticks).sum::<f64>();
    Some(sum * TICK_US)
}

/// Every process and its parent.
fn parents() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let of = |pid: String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = after_name(&stat)?.nth(1)?.to_owned();
        Some((pid, parent))
    };
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter_map(of).collect()
}

/// Resident memory of `pid` in MiB, now and at its peak.
pub(crate) fn rss_mib(pid: &str) -> Option<(f64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((field_mib(&status, "VmRSS:")?, field_mib(&status, "VmHWM:")?))
}

/// The first two CPU times are the process's own (user, system), the next two those of its children
/// that have ended (proc(5)).
fn sum_of_ticks(stat: &str, times: usize) -> Option<f64> {
    let fields: Vec<&str> = after_name(stat)?.skip(11).take(times).collect();
    fields.iter().map(|field| field.parse::<f64>().ok()).sum()
}

/// The fields behind the name, which is in parentheses and may itself hold spaces.
fn after_name(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace())
}

fn field_mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::{TICK_US, cpu_us, cpu_us_of_trees, field_mib, rss_mib, sum_of_ticks};

    #[test]
    fn fields_are_found_behind_an_awkward_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 5 1 0";
        assert_eq!(sum_of_ticks(stat, 2), Some(42.0));
        assert_eq!(sum_of_ticks(stat, 4), Some(48.0));
        assert_eq!(field_mib("VmHWM:\t  2048 kB\nVmRSS: 1024 kB\n", "VmRSS:"), Some(1.0));
    }

    #[test]
    fn this_process_has_memory_and_a_missing_one_has_none() {
        assert!(rss_mib("self").is_some_and(|(rss, peak)| rss > 0.0 && peak >= rss * 0.5));
        assert_eq!(cpu_us("0"), None);
        assert_eq!(cpu_us_of_trees(&[0]), None);
    }

    #[test]
    fn children_count_while_they_run_and_when_they_have_ended() {
        let spin = || {
            let mut child = std::process::Command::new("sh");
            child.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
            child.spawn().unwrap()
        };
        let before = cpu_us_of_trees(&[std::process::id()]).unwrap();
        assert!(spin().wait().unwrap().success());
        let ended = cpu_us_of_trees(&[std::process::id()]).unwrap();
        assert!(ended - before >= TICK_US, "{before} {ended}");
    }
}
