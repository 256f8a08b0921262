//! `--over smpp`: the live environment sends by the playground's message centre, which outlives the
//! service and knows what phones got.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, Result, ensure};
use clock::Clock;
use playground::smsc::{Handsets, Smsc, SmscOptions};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{check::Findings, journal::Acked, server::Server};
use crate::{
    api::{Api, Bearer},
    stopwatch,
    wire::Conn,
};

/// Segments that may be unanswered: as many may be under way at a kill, and go out again.
const WINDOW: u64 = 10;
/// More than any run sends.
const KEPT: usize = 10_000_000;
/// How long a bind may take.
const PATIENCE: Duration = Duration::from_secs(30);
const STAFF: &str = "staff@example.com";
const OWNER: &str = "crash@example.com";
const PASSWORD: &str = "a long enough passphrase";

/// The centre.
#[derive(Debug)]
pub(crate) struct Centre {
    handsets: Handsets,
    port: u16,
    task: JoinHandle<()>,
    /// How many messages had come at each kill.
    kills: Vec<usize>,
}

impl Drop for Centre {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Centre {
    /// A centre on a free port.
    ///
    /// # Errors
    /// When it cannot listen.
    pub(crate) async fn open() -> Result<Self> {
        let options = SmscOptions { receipt_ms: 50, keep: KEPT, ..SmscOptions::default() };
        let smsc = Smsc::bind("127.0.0.1:0".parse()?, options, Clock::system()).await?;
        let (port, handsets) = (smsc.address()?.port(), smsc.handsets());
        let task = tokio::spawn(smsc.serve());
        Ok(Self { handsets, port, task, kills: Vec::new() })
    }

    /// What makes the service send by it.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ESTAFETTE__SMS__CARRIERS__MAIN__KIND", "smpp".to_owned()),
            ("ESTAFETTE__SMS__CARRIERS__MAIN__PORT", self.port.to_string()),
            ("ESTAFETTE__SMS__CARRIERS__MAIN__WINDOW", WINDOW.to_string()),
            ("ESTAFETTE__SMS__ROUTES", r#"[{prefix = "+", carriers = ["main"]}]"#.to_owned()),
        ]
    }

    /// Returns when the service is bound. Where nodes share a database, a bind of a node that died
    /// is free only when its lease ends.
    ///
    /// # Errors
    /// When it does not come.
    pub(crate) async fn bound(&self) -> Result<()> {
        let begin = stopwatch::now();
        while !self.handsets.is_bound() {
            ensure!(begin.elapsed() < PATIENCE, "the service is not bound");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The service was killed, and what it had handed over has come.
    pub(crate) fn killed(&mut self) {
        self.kills.push(self.handsets.count());
    }

    /// When each text came, by the count of messages.
    fn came(&self) -> HashMap<String, Vec<usize>> {
        let mut came: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, message) in self.handsets.messages().into_iter().enumerate() {
            came.entry(message.text).or_default().push(at);
        }
        came
    }

    /// Whether every message arrived that was acknowledged, and how many did twice: of those that
    /// came between two kills at most a window, after the second, and none more than twice. What is
    /// still queued has as long as it takes, unless nothing arrives for `patience`.
    ///
    /// # Errors
    /// When the service is not bound any more.
    pub(crate) async fn judged(&self, acked: &[Acked], patience: Duration) -> Result<Findings> {
        self.bound().await?;
        let (mut fewest, mut since) = (u64::MAX, stopwatch::now());
        loop {
            let found = judge(&self.came(), acked, &self.kills);
            if found.lost < fewest {
                (fewest, since) = (found.lost, stopwatch::now());
            }
            if found.lost == 0 || since.elapsed() > patience {
                return Ok(found);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

fn judge(came: &HashMap<String, Vec<usize>>, acked: &[Acked], kills: &[usize]) -> Findings {
    let checks = acked.len() as u64;
    let mut findings = Findings { checks, ..Findings::default() };
    // Of what was under way at each kill, how much came again.
    let mut again = vec![0; kills.len()];
    for Acked { id, planned, .. } in acked {
        let came = planned.send.text.as_ref().and_then(|text| came.get(text));
        match came.map_or(&[][..], Vec::as_slice) {
            [] => {
                findings.lost += 1;
                findings.name(format!("{id} never came to the centre"));
            }
            [_] => {}
            [first, second] => {
                findings.sms_twice += 1;
                let kill = kills.partition_point(|at| at <= first);
                let has_died = kills.get(kill).is_some_and(|at| at <= second);
                if let Some(count) = again.get_mut(kill).filter(|_| has_died) {
                    *count += 1;
                } else {
                    findings.unexpected += 1;
                    findings.name(format!("{id} came twice, and no kill was between"));
                }
            }
            more => {
                findings.unexpected += 1;
                findings.name(format!("{id} came to the centre {} times", more.len()));
            }
        }
    }
    for (kill, count) in again.into_iter().enumerate().filter(|(_, count)| *count > WINDOW) {
        findings.unexpected += 1;
        findings.name(format!("{count} came again after kill {kill}, and the window is {WINDOW}"));
    }
    findings
}

/// An account of live with credits and a sender; its API key.
///
/// # Errors
/// When the service refuses any of that.
pub(crate) async fn make_account(server: &Server) -> Result<String> {
    let made = ["account", "add", "--email", OWNER, "--password-stdin", "--json"];
    let made = server.json_said(&made, PASSWORD).await?;
    let account = made.pointer("/accounts/live").and_then(Value::as_str);
    let account = account.context("account add: no accounts.live")?;
    let staff = ["staff", "add", "--email", STAFF, "--password-stdin", "--json"];
    server.json_said(&staff, PASSWORD).await?;
    let api = Api::new(&server.live_url(), vec![String::new()])?;
    let (owner, staff) =
        (log_in(&api, "/v1/auth/login", OWNER), log_in(&api, "/v1/admin/auth/login", STAFF));
    let (owner, staff) = (owner.await?, staff.await?);
    let sender = Bearer { method: "POST", path: "/v1/senders", token: &owner };
    let sender = ask(&api, &sender, &json!({"value": "ACME"})).await?;
    let id = sender.get("id").and_then(Value::as_str).context("no id of a sender")?;
    let path = format!("/v1/admin/senders/{id}");
    let approve = Bearer { method: "PATCH", path: &path, token: &staff };
    ask(&api, &approve, &json!({"status": "approved"})).await?;
    let path = format!("/v1/admin/accounts/{account}");
    let settle = Bearer { method: "PATCH", path: &path, token: &staff };
    ask(&api, &settle, &json!({"settings": {"default_sender": "ACME"}})).await?;
    server.fund(account).await
}

async fn log_in(api: &Api, path: &str, email: &str) -> Result<String> {
    let body = json!({"email": email, "password": PASSWORD});
    let answer = ask(api, &Bearer { method: "POST", path, token: "" }, &body).await?;
    let token = answer.get("token").and_then(Value::as_str);
    Ok(token.context("a login without a token")?.to_owned())
}

async fn ask(api: &Api, call: &Bearer<'_>, body: &Value) -> Result<Value> {
    let mut out = Vec::new();
    api.as_bearer(&mut out, call, &serde_json::to_vec(body)?)?;
    let reply = Conn::new(&api.address).call(&out).await?;
    let says = String::from_utf8_lossy(&reply.body);
    ensure!(reply.status == 200, "{} {}: {} {says}", call.method, call.path, reply.status);
    Ok(serde_json::from_slice(&reply.body)?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{WINDOW, judge};
    use crate::{
        crash::{journal::Acked, plan::Plan},
        stopwatch,
    };

    #[test]
    fn what_is_missing_or_came_too_often_is_found() {
        let plan = Plan::of_sms(1);
        let acked = |index| Acked {
            id: format!("sms_{index}"),
            planned: plan.request(index),
            at: stopwatch::now(),
            verified: false,
            repeated: false,
        };
        let all: Vec<_> = (0..2 * WINDOW).map(acked).collect();
        let text = |acked: &Acked| acked.planned.send.text.clone().unwrap();
        // All come, then all of them again, so often.
        let came = |times: usize| -> HashMap<_, _> {
            let each = all.iter().enumerate();
            each.map(|(at, it)| (text(it), (0..times).map(|n| at + n * all.len()).collect()))
                .collect()
        };
        let window = all.len() / 2;
        assert!(judge(&came(1), &all, &[window]).clean());
        let twice = judge(&came(2), &all, &[window, 2 * window]);
        assert!(twice.clean() && twice.sms_twice == 2 * WINDOW);
        let at_one = judge(&came(2), &all, &[2 * window, 4 * window]);
        assert_eq!(at_one.unexpected, 1, "a window for each kill, not for all of them");
        assert_eq!(judge(&came(2), &all, &[]).unexpected, 2 * WINDOW, "without a kill, none");
        assert_eq!(judge(&came(3), &all, &[window]).unexpected, 2 * WINDOW);
        assert_eq!(judge(&HashMap::new(), &all, &[window]).lost, 2 * WINDOW);
    }
}
