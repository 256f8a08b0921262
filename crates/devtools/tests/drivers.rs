//! The drivers against a stand-in for the service: they measure, and they catch what is broken.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// A running stand-in, killed at the end of the test.
struct Fake {
    child: Child,
    url: String,
    _data: TempDir,
}

impl Fake {
    fn start(fault: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_fake-service"))
            .env("ESTAFETTE__DATA_DIR", data.path())
            .env("ESTAFETTE__SERVER__SANDBOX", &address)
            .env("FAKE_FAULT", fault)
            .spawn()
            .unwrap();
        for _ in 0..500 {
            if TcpStream::connect(&address).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        Self { child, url: format!("http://{address}"), _data: data }
    }

    fn drive(&self, arguments: &str) -> (bool, Value) {
        let pid = self.child.id().to_string();
        let mut all: Vec<&str> = arguments.split_whitespace().collect();
        all.extend(["--url", &self.url]);
        if all.first() != Some(&"slow") {
            all.extend(["--key", "est_test_fake"]);
        }
        if all.first() == Some(&"load") {
            all.extend(["--json", "--server-pid", &pid]);
        }
        told(&devtools(&all, ""))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn devtools(arguments: &[&str], fault: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_devtools"));
    // Data that a failed run keeps goes with the test.
    let room = tempfile::tempdir().unwrap();
    command.args(arguments).env("FAKE_FAULT", fault).env("TMPDIR", room.path()).output().unwrap()
}

fn told(output: &Output) -> (bool, Value) {
    let error = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report, but: {error}"));
    (output.status.success(), report)
}

fn crash(fault: &str, more: &[&str]) -> (bool, Value) {
    let mut all = vec!["crash", "--binary", env!("CARGO_BIN_EXE_fake-service")];
    all.extend(["--kills", "4", "--check-every", "2", "--clients", "4", "--seed", "3"]);
    all.extend(["--settle-s", "1"]);
    all.extend(more);
    told(&devtools(&all, fault))
}

#[test]
fn a_closed_loop_reports_every_figure() {
    let fake = Fake::start("");
    let (passed, report) = fake.drive("load --seconds 0.5 --warmup-s 0.1 --clients 4 --seed 1");
    assert!(passed, "{report}");
    assert!(report["operations"].as_u64().unwrap() > 100, "{report}");
    for figure in ["throughput_per_s", "p50_ms", "p99_ms", "max_ms", "rss_mib", "rss_peak_mib"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
    }
    assert!(report["cpu_us_per_op"].is_number() && report["driver_cpu_us_per_op"].is_number());
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let fake = Fake::start("");
    let (passed, report) = fake.drive("load --rate 200 --seconds 1 --warmup-s 0 --clients 4");
    assert!(passed, "{report}");
    assert_eq!(report["operations"], 200, "{report}");
}

#[test]
fn verify_status_and_mixed_are_answered_as_expected() {
    let fake = Fake::start("");
    let (passed, report) = fake.drive("load --workload verify --prefill 300 --warmup-s 0");
    assert!(passed, "{report}");
    assert_eq!((&report["operations"], &report["prefilled_used_up"]), (&300.into(), &true.into()));
    for workload in ["status", "mixed", "verify --wrong"] {
        let run = format!("load --prefill 100 --seconds 0.3 --warmup-s 0 --workload {workload}");
        let (passed, report) = fake.drive(&run);
        assert!(passed && report["operations"].as_u64().unwrap() > 100, "{report}");
    }
}

#[test]
fn errors_fail_the_run_unless_they_are_excused() {
    let fake = Fake::start("limit");
    let run = "load --seconds 0.3 --warmup-s 0 --clients 2";
    let (passed, report) = fake.drive(run);
    assert!(!passed);
    assert_eq!(report["errors"]["429"]["sample"], "rate_limited");
    let (passed, report) = fake.drive(&format!("{run} --allow-status 503,429"));
    assert!(passed, "{report}");
}

#[test]
fn exact_guesses_pass_the_race_and_one_too_many_does_not() {
    let (passed, report) = Fake::start("").drive("race --wrong-guesses 200");
    assert!(passed, "{report}");
    assert_eq!(
        (&report["wrong"]["evaluated"], &report["right"]["verified"]),
        (&5.into(), &1.into())
    );
    let (passed, report) = Fake::start("guess").drive("race --wrong-guesses 200");
    assert!(!passed, "{report}");
    assert_eq!(report["wrong"]["evaluated"], 6);
}

const SLOW: &str =
    "slow --shape silent --shape half-head --shape half-body --each 5 --seconds 3 --decent 2";

#[test]
fn slow_clients_that_are_thrown_out_pass_and_are_timed() {
    let (passed, report) = Fake::start("hasty").drive(SLOW);
    assert!(passed, "{report}");
    assert!(report["decent"]["requests"].as_u64().unwrap() > 50, "{report}");
    for shape in report["shapes"].as_array().unwrap() {
        assert_eq!((&shape["clients"], &shape["closed"]), (&5.into(), &5.into()), "{shape}");
        let seconds = shape["p50_s"].as_f64().unwrap();
        assert!((0.9..2.0).contains(&seconds), "{shape}");
    }
}

#[test]
fn slow_clients_that_stay_are_caught() {
    let (passed, report) = Fake::start("").drive(SLOW);
    assert!(!passed, "{report}");
    for shape in report["shapes"].as_array().unwrap() {
        assert_eq!((&shape["closed"], &shape["still_open"]), (&0.into(), &5.into()), "{shape}");
    }
}

#[test]
fn a_service_that_keeps_its_word_survives_the_kills() {
    let (passed, report) = crash("", &[]);
    assert!(passed, "{report}");
    assert_eq!(report["kills"], 4);
    assert!(report["acknowledged"].as_u64().unwrap() > 100, "{report}");
    assert!(report["replays"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_service_that_forgets_sends_is_caught() {
    let (passed, report) = crash("lose", &[]);
    assert!(!passed && report["lost"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_service_that_forgets_keys_is_caught() {
    let (passed, report) = crash("double", &[]);
    assert!(!passed && report["double"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["lost"], 0, "{report}");
}

#[test]
fn the_positive_control_is_caught() {
    let (passed, report) = crash("", &["--control", "lose-acks"]);
    assert!(!passed, "{report}");
    assert_eq!((&report["lost"], &report["mismatched"]), (&1.into(), &1.into()), "{report}");
}
