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
        Ok(Self { handsets, port, task: tokio::spawn(smsc.serve()) })
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

    /// How often it got each text.
    fn times(&self) -> HashMap<String, u64> {
        let mut times = HashMap::new();
        for message in self.handsets.messages() {
            *times.entry(message.text).or_default() += 1;
        }
        times
    }

    /// Whether every message arrived that was acknowledged, and how many did twice: at most a
    /// window for each kill may, and none more than twice. What is still queued has as long as it
    /// takes, unless nothing arrives for `patience`.
    ///
    /// # Errors
    /// When the service is not bound any more.
    pub(crate) async fn judged(
        &self,
        acked: &[Acked],
        kills: u64,
        patience: Duration,
    ) -> Result<Findings> {
        self.bound().await?;
        let (mut fewest, mut since) = (u64::MAX, stopwatch::now());
        loop {
            let found = judge(&self.times(), acked, kills);
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

fn judge(times: &HashMap<String, u64>, acked: &[Acked], kills: u64) -> Findings {
    let checks = acked.len() as u64;
    let mut findings = Findings { checks, ..Findings::default() };
    for Acked { id, planned, .. } in acked {
        let times = planned.send.text.as_ref().and_then(|text| times.get(text));
        match times.copied().unwrap_or_default() {
            0 => {
                findings.lost += 1;
                findings.name(format!("{id} never came to the centre"));
            }
            1 => {}
            2 => findings.sms_twice += 1,
            more => {
                findings.unexpected += 1;
                findings.name(format!("{id} came to the centre {more} times"));
            }
        }
    }
    if findings.sms_twice > WINDOW * kills {
        findings.unexpected += 1;
        findings.name(format!("{} came twice, and windows are {WINDOW}", findings.sms_twice));
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
        let came = |times| -> HashMap<_, _> { all.iter().map(|it| (text(it), times)).collect() };
        assert!(judge(&came(1), &all, 1).clean());
        let twice = judge(&came(2), &all, 2);
        assert!(twice.clean() && twice.sms_twice == 2 * WINDOW);
        assert_eq!(judge(&came(2), &all, 1).unexpected, 1, "more than a window for each kill");
        assert_eq!(judge(&came(3), &all, 9).unexpected, 2 * WINDOW);
        assert_eq!(judge(&HashMap::new(), &all, 1).lost, 2 * WINDOW);
    }
}
