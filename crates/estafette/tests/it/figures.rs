//! The figures for the operator: the dashboard and the alerts use only metrics that there are, and
//! the page for the operator names all of them.

use std::collections::BTreeSet;
use std::path::Path;

use clock::HOUR;
use estafette::app::Env;
use estafette::metrics::{LaneNow, Metrics};
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::faults::How;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    dashboard_and_alerts_use_only_metrics_that_there_are,
    what_callers_make_up_makes_no_figures,
    a_status_makes_no_histogram_of_its_own,
    due_work_that_is_late_shows,
    the_audit_shows_what_it_found,
);

/// What the last audit found to be wrong.
const VIOLATIONS: &str = "estafette_ledger_audit_violations";
/// What Prometheus adds by itself.
const OF_PROMETHEUS: [&str; 1] = ["up"];

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The names of metrics in an expression: words that are neither in braces or brackets, nor a
/// function, nor a label after `by`, nor a word of the language.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    const BEFORE_LABELS: [&str; 4] = ["by", "without", "on", "ignoring"];
    const WORDS: [&str; 10] =
        ["sum", "max", "min", "avg", "count", "or", "and", "unless", "bool", "offset"];
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:.".contains(letter);
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(letter) = rest.chars().next() {
        let closing = match letter {
            '{' => Some('}'),
            '[' => Some(']'),
            _ => None,
        };
        if let Some(closing) = closing {
            rest = &rest[rest.find(closing).unwrap_or(rest.len() - 1)..];
        }
        let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        if word.is_empty() {
            rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
            continue;
        }
        rest = after;
        if BEFORE_LABELS.contains(&word) {
            rest = &rest[rest.find(')').unwrap_or(0)..];
        } else if !WORDS.contains(&word)
            && !word.starts_with(|first: char| first.is_ascii_digit())
            && !after.trim_start().starts_with('(')
        {
            found.insert(word.to_owned());
        }
    }
    found
}

#[test]
fn metrics_are_told_from_labels_and_functions() {
    let names = |text: &str| metrics_in(text).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(
        names("sum by (le, route) (rate(a_bucket{env=~\"x\",b=\"c\"}[5m])) > 0.01"),
        "a_bucket"
    );
    assert_eq!(
        names("time() - max(b_seconds{c!=\"d\"}) / e_total or vector(0)"),
        "b_seconds e_total"
    );
    assert_eq!(names("nothing_such"), "nothing_such");
}

/// Every `expr` of a document.
fn expressions(document: &Value, found: &mut Vec<String>) {
    match document {
        Value::Object(map) => {
            found.extend(map.get("expr").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| expressions(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// The metrics and the families of the page.
fn exported(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    let samples = page.lines().filter(|line| !line.starts_with('#')).map(name).collect();
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(name).collect();
    (samples, families)
}

/// A service that has done a bit of everything.
async fn busy(world: &World) {
    let ada = world.account("ada").await;
    ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    ada.verify(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let erasure = json!({"phone": phone("5678")});
    let staff = world.staff().await;
    world.post(Env::Live, "/v1/admin/erasures").bearer(staff).json(erasure).await.ok();
    world.advance(HOUR).await;
    world.housekeep().await;
    world.advance(1_000).await;
    troubled(&world.app(Env::Live).await.metrics);
}

/// What takes hours of trouble to come about is noted by hand.
fn troubled(metrics: &Metrics) {
    metrics.webhook_try("delivered", 5, 20);
    metrics.otp_fraud("FR", "watched");
    metrics.receipt_parked("main");
    metrics.lane(LaneNow { carrier: "main", submissions: 1, wait_s: 0.0, sends_only: false });
}

async fn dashboard_and_alerts_use_only_metrics_that_there_are(world: &World) {
    busy(world).await;
    // The first look at the ledger, which the chores take, may be under way still.
    let page = eventually(async || {
        let page = world.metrics().await.ok();
        page.text.contains("\nestafette_ledger_audit_violations").then_some(page)
    })
    .await;
    let (samples, families) = exported(&page.text);
    let mut used = vec![];
    expressions(&serde_json::from_str(&document("grafana.json")).unwrap(), &mut used);
    assert!(used.len() > 15, "only {} expressions in the dashboard", used.len());
    let alerts = document("alerts.yml");
    let lines: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert!(lines.len() > 10, "only {} alerts", lines.len());
    used.extend(lines.into_iter().map(str::to_owned));
    for expression in &used {
        let names = metrics_in(expression);
        assert!(!names.is_empty(), "no metric in: {expression}");
        for name in names {
            let is_there = samples.contains(&name) || OF_PROMETHEUS.contains(&name.as_str());
            assert!(is_there, "there is no {name}, used in: {expression}");
        }
    }
    let operations = document("operations.md");
    for family in &families {
        assert!(operations.contains(&format!("`{family}")), "operations.md does not name {family}");
    }
}

/// What scanners send: paths and methods that there are not.
async fn scan(world: &World, word: &str) {
    for (number, method) in ["BREW", "PROPFIND", "TRACE", "PUT", "GET"].iter().enumerate() {
        world.call(method, Env::Sandbox, "/v1/me").await;
        world.call(method, Env::Sandbox, &format!("/v1/{word}/{number}")).await;
        world.call(method, Env::Live, &format!("/{word}-{number}")).await;
    }
}

async fn what_callers_make_up_makes_no_figures(world: &World) {
    let routes = |page: &str| -> BTreeSet<String> {
        let samples = page.lines().filter(|line| line.contains("route="));
        samples.map(|line| line.rsplit_once(' ').unwrap_or_default().0.to_owned()).collect()
    };
    scan(world, "pangolin").await;
    let before = world.metrics().await.ok();
    scan(world, "aardvark").await;
    let after = world.metrics().await.ok();
    assert_eq!(routes(&after.text), routes(&before.text));
    assert!(after.text.contains("method=\"_OTHER\",route=\"unmatched\""), "{}", after.text);
    for made_up in ["BREW", "PROPFIND", "pangolin", "aardvark"] {
        assert!(!after.text.contains(made_up), "{made_up}: {}", after.text);
    }
    let statuses = |line: &&str| line.contains("_bucket") && line.contains("status=");
    assert_eq!(after.text.lines().find(statuses), None, "a histogram for each status");
}

/// The value of a metric without labels.
async fn value(world: &World, name: &str) -> Option<f64> {
    let page = world.metrics().await.ok();
    let line = page.text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")))?;
    Some(line.parse().unwrap())
}

async fn due_work_that_is_late_shows(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    // Nobody can claim it.
    world.faults.plan("UPDATE challenges SET next_at", How::Unavailable, usize::MAX);
    world.stand_still_for(1_000_000).await;
    let late = eventually(|| async {
        let late = value(world, "estafette_due_oldest_seconds").await?;
        (late > 600.0).then_some(late)
    })
    .await;
    assert!(late < 1_000.0, "it was due when the passcode expired: {late}");
    world.faults.forget();
}

async fn the_audit_shows_what_it_found(world: &World) {
    let ada = world.account("ada").await;
    assert_eq!(value(world, VIOLATIONS).await, None, "nothing is said before");
    world.advance(HOUR).await;
    world.housekeep().await;
    world.advance(1).await;
    let found = || async { value(world, VIOLATIONS).await };
    let clean = crate::world::eventually(found).await;
    assert!(clean.abs() < 0.1, "{clean}");
    let app = world.app(Env::Sandbox).await;
    let change = |by: i64| {
        let mut set = store::WriteSet::of("story");
        let sql = store::Sql("UPDATE accounts SET posted = posted + $1 WHERE account_id = $2");
        set.push(sql, store::args![by, &ada.account_id]);
        app.db.commit(set)
    };
    change(1).await.unwrap();
    world.advance(2 * HOUR).await;
    world.housekeep().await;
    world.advance(1).await;
    let broken = || async { found().await.filter(|violations| *violations > 0.5) };
    crate::world::eventually(broken).await;
    change(-1).await.unwrap();
}

async fn a_status_makes_no_histogram_of_its_own(world: &World) {
    let ada = world.account("ada").await;
    let lines = async || {
        let page = world.metrics().await.ok();
        let is_it = |line: &&str| line.contains("duration") && line.contains("/v1/otp/send");
        page.text.lines().filter(is_it).count()
    };
    ada.send(json!({"to": phone("5678")})).await.ok();
    let before = lines().await;
    assert!(before > 10, "{before}");
    ada.send(json!({"to": "12"})).await.problem("validation_failed");
    ada.send(json!({"to": phone("0031")})).await.problem("insufficient_credits");
    assert_eq!(lines().await, before);
    let page = world.metrics().await.ok();
    let answers = page.text.lines().filter(|line| line.contains("/v1/otp/send\",status="));
    assert_eq!(answers.count(), 3, "one counter for each status");
}
