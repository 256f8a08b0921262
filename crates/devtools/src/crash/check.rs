//! Holds the service to what the clients were told: reads, verifies and repeats what the journal
//! says was acknowledged.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{
    clients::{Fate, fate},
    journal::{Acked, Journal, Log},
    plan::Planned,
};
use crate::{
    api::{self, Api, Object},
    stopwatch,
    wire::{Conn, Reply},
};

/// Connections of a sweep.
const CONNECTIONS: usize = 16;
/// A code is good for 300 s; younger than this it must not have expired.
const SURELY_VALID: Duration = Duration::from_secs(290);
/// As many findings are named as help to look.
const NAMED: usize = 20;

/// One question about an acknowledged send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Does it exist, for the same recipient?
    Read,
    /// Does its code verify?
    Verify,
    /// Does the same key and body tell the same challenge?
    Repeat,
    /// Did the handset get it at most once per channel?
    Handset,
    /// Has a carrier had it, or is it known why none has? Of SMS, which are sent after the answer.
    Sent,
}

/// What was found wrong, and how much was asked.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    /// Acknowledged challenges that do not exist.
    pub(crate) lost: u64,
    /// Challenges with another recipient than was sent to.
    pub(crate) mismatched: u64,
    /// Codes that do not verify.
    pub(crate) unverifiable: u64,
    /// Keys that made two challenges.
    pub(crate) double: u64,
    /// Handsets that got one passcode twice on one channel; told, no failure by itself.
    pub(crate) delivered_twice: u64,
    /// Handsets that got one SMS twice: what was under way at a kill, as documented.
    pub(crate) sms_twice: u64,
    /// Mailboxes that got one email twice, likewise.
    pub(crate) emails_twice: u64,
    /// SMS and emails that are still queued after the run.
    pub(crate) stuck: u64,
    /// Messages that were held or spent for more than once.
    pub(crate) charged_twice: u64,
    /// Consent sessions that a Yes opened.
    pub(crate) sessions: u64,
    /// Of these, those whose price the ledger does not have.
    pub(crate) unpaid: u64,
    /// Other answers than promised.
    pub(crate) unexpected: u64,
    /// Repeats answered as replays.
    pub(crate) replays: u64,
    /// Questions asked.
    pub(crate) checks: u64,
    /// The first few findings in words.
    pub(crate) samples: Vec<String>,
}

/// On a handset or in a mailbox.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    channel: String,
    text: String,
    code: Option<String>,
}

impl Findings {
    /// Adds another sweep's findings.
    pub(crate) fn merge(&mut self, other: Self) {
        self.lost += other.lost;
        self.mismatched += other.mismatched;
        self.unverifiable += other.unverifiable;
        self.double += other.double;
        self.delivered_twice += other.delivered_twice;
        self.sms_twice += other.sms_twice;
        self.emails_twice += other.emails_twice;
        self.stuck += other.stuck;
        self.charged_twice += other.charged_twice;
        self.sessions += other.sessions;
        self.unpaid += other.unpaid;
        self.unexpected += other.unexpected;
        self.replays += other.replays;
        self.checks += other.checks;
        self.samples.extend(other.samples);
        self.samples.truncate(NAMED);
    }

    /// Whether nothing that fails the run was found.
    pub(crate) fn clean(&self) -> bool {
        let Self { lost, mismatched, unverifiable, double, unexpected, .. } = self;
        let paid_wrong = self.charged_twice + self.unpaid;
        lost + mismatched + unverifiable + double + unexpected + self.stuck + paid_wrong == 0
    }

    pub(super) fn name(&mut self, what: String) {
        if self.samples.len() < NAMED {
            self.samples.push(what);
        }
    }

    fn judge(&mut self, ask: Ask, acked: &Acked, reply: &Reply) {
        self.checks += 1;
        match ask {
            Ask::Read => self.judge_read(acked, reply),
            Ask::Verify => self.judge_verify(acked, reply),
            Ask::Repeat => self.judge_repeat(acked, reply),
            Ask::Handset => self.judge_handset(acked, reply),
            Ask::Sent => self.judge_sent(acked, reply),
        }
    }

    fn judge_read(&mut self, acked: &Acked, reply: &Reply) {
        match api::challenge(&reply.body) {
            Some(read) if reply.status == 200 => {
                if !read.to.is(&acked.planned.send.to) || read.id != acked.id {
                    self.mismatched += 1;
                    self.name(format!("{} has another recipient", acked.id));
                }
            }
            _ => {
                self.lost += 1;
                self.name(format!("{} is lost: GET answers {}", acked.id, told(reply)));
            }
        }
    }

    fn judge_verify(&mut self, acked: &Acked, reply: &Reply) {
        let code = api::problem_code(&reply.body);
        let expired = reply.status == 410 && code == "otp_expired";
        if reply.status == 200 || (expired && acked.at.elapsed() >= SURELY_VALID) {
            return;
        }
        self.unverifiable += 1;
        self.name(format!("{} does not verify: {}", acked.id, told(reply)));
    }

    fn judge_repeat(&mut self, acked: &Acked, reply: &Reply) {
        match fate(reply) {
            Fate::Acked { id, .. } if id != acked.id => {
                self.double += 1;
                self.name(format!("one key made {} and {id}", acked.id));
            }
            Fate::Acked { replayed: true, .. } => self.replays += 1,
            _ => {
                self.unexpected += 1;
                self.name(format!("the repeat of {} answers {}", acked.id, told(reply)));
            }
        }
    }

    fn judge_sent(&mut self, acked: &Acked, reply: &Reply) {
        let status = api::challenge(&reply.body).map(|read| read.status).unwrap_or_default();
        let is_over = match acked.planned.send.object() {
            Object::Email => matches!(&*status, "sent" | "delivered" | "bounced" | "failed"),
            _ => matches!(&*status, "submitted" | "delivered" | "undelivered" | "failed"),
        };
        if !is_over {
            self.stuck += 1;
            self.name(format!("{} is {status}: {}", acked.id, told(reply)));
        }
    }

    fn judge_handset(&mut self, acked: &Acked, reply: &Reply) {
        let messages: Vec<Message> = serde_json::from_slice(&reply.body).unwrap_or_default();
        let Planned { send, code, .. } = &acked.planned;
        if let Some(text) = &send.text {
            let times = messages.iter().filter(|message| message.text.trim_end() == text).count();
            match send.object() {
                Object::Email => self.emails_twice += u64::from(times == 2),
                _ => self.sms_twice += u64::from(times == 2),
            }
            if times > 2 {
                self.unexpected += 1;
                self.name(format!("{} reached its recipient {times} times", acked.id));
            }
            return;
        }
        let mut by_channel = BTreeMap::<String, u64>::new();
        for message in messages {
            if message.code.as_deref() == Some(code) {
                *by_channel.entry(message.channel).or_default() += 1;
            }
        }
        if let Some((channel, times)) = by_channel.into_iter().find(|(_, times)| *times > 1) {
            self.delivered_twice += 1;
            self.name(format!("{} reached its {channel} handset {times} times", acked.id));
        }
    }
}

fn told(reply: &Reply) -> String {
    format!("{} {}", reply.status, api::problem_code(&reply.body)).trim_end().to_owned()
}

/// Asks all `questions` over a few connections.
///
/// # Errors
/// When a question gets no answer although the service should be up.
pub(crate) async fn sweep(api: &Api, questions: Vec<(Ask, Acked)>) -> Result<Findings> {
    let (questions, next) = (Arc::new(questions), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (api, questions, next) = (api.clone(), Arc::clone(&questions), Arc::clone(&next));
            tokio::spawn(async move {
                let mut conn = Conn::new(&api.address);
                let (mut out, mut findings) = (Vec::new(), Findings::default());
                while let Some((ask, acked)) = questions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    render(&api, &mut out, *ask, acked)?;
                    let reply = insist(&mut conn, &out).await?;
                    findings.judge(*ask, acked, &reply);
                }
                anyhow::Ok(findings)
            })
        })
        .collect();
    let mut all = Findings::default();
    for task in tasks {
        all.merge(task.await.context("a client of the driver failed")??);
    }
    Ok(all)
}

fn render(api: &Api, out: &mut Vec<u8>, ask: Ask, acked: &Acked) -> Result<()> {
    let planned = &acked.planned;
    match ask {
        Ask::Read | Ask::Sent => {
            api.get(out, 0, &format!("{}{}", planned.send.paths().1, acked.id))
        }
        Ask::Verify => api.verify(out, 0, &acked.id, &planned.code),
        Ask::Repeat => api.send(out, 0, &planned.send, planned.key.as_deref()),
        Ask::Handset => api.get(out, 0, &planned.send.place()),
    }
}

/// Asks again while the service is busy (429, 5xx), a few times.
async fn insist(conn: &mut Conn, request: &[u8]) -> Result<Reply> {
    let mut tries = 0;
    loop {
        let reply = conn.call(request).await;
        tries += 1;
        match reply {
            Ok(reply) if tries == 5 || !matches!(reply.status, 429 | 500..=599) => {
                return Ok(reply);
            }
            Err(error) if tries == 5 => {
                return Err(error).context("the service does not answer the checker");
            }
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Repeats the sends whose answer was lost until each has a final one or `patience` ends.
///
/// # Errors
/// When the service does not answer.
pub(crate) async fn settle(api: &Api, journal: &mut Journal, patience: Duration) -> Result<()> {
    let begin = stopwatch::now();
    let mut conn = Conn::new(&api.address);
    let mut out = Vec::new();
    loop {
        let mut log = Log::default();
        for planned in std::mem::take(&mut journal.pending) {
            api.send(&mut out, 0, &planned.send, planned.key.as_deref())?;
            let reply = insist(&mut conn, &out).await?;
            log.note(planned, &reply, true);
        }
        journal.absorb(log);
        if journal.pending.is_empty() || begin.elapsed() > patience {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Findings};
    use crate::{
        api::Object,
        crash::{journal::Acked, plan::Plan},
        stopwatch,
        wire::Reply,
    };

    fn of_kind(is_sms: bool) -> Acked {
        let plan = Plan::new(1);
        let mut requests = (0..100).map(|index| plan.request(index));
        let object = if is_sms { Object::Sms } else { Object::Passcode };
        let planned = requests.find(|planned| planned.send.object() == object).unwrap();
        let id = if is_sms { "sms_1" } else { "otp_1" }.to_owned();
        Acked { id, planned, at: stopwatch::now(), verified: false, repeated: false }
    }

    fn acked() -> Acked {
        of_kind(false)
    }

    fn found(ask: Ask, status: u16, body: &str, replayed: bool) -> Findings {
        found_of(&acked(), ask, status, body, replayed)
    }

    fn found_of(acked: &Acked, ask: Ask, status: u16, body: &str, replayed: bool) -> Findings {
        let mut findings = Findings::default();
        let reply =
            Reply { status, body: body.as_bytes().to_vec(), replayed, close: false, link: None };
        findings.judge(ask, acked, &reply);
        findings
    }

    #[test]
    fn an_sms_may_reach_its_handset_twice_and_no_more() {
        let acked = of_kind(true);
        let text = acked.planned.send.text.clone().unwrap();
        let message = format!(r#"{{"channel":"sms","text":"{text}","code":null}}"#);
        for (times, twice, is_clean) in [(1, 0, true), (2, 1, true), (3, 0, false)] {
            let body = format!("[{}]", vec![message.as_str(); times].join(","));
            let found = found_of(&acked, Ask::Handset, 200, &body, false);
            assert_eq!((found.sms_twice, found.clean()), (twice, is_clean), "{times}");
        }
        for (status, stuck) in [("delivered", 0), ("submitted", 0), ("queued", 1), ("expired", 1)] {
            let body = format!(r#"{{"id":"sms_1","status":"{status}"}}"#);
            assert_eq!(found_of(&acked, Ask::Sent, 200, &body, false).stuck, stuck, "{status}");
        }
    }

    #[test]
    fn a_missing_or_changed_challenge_is_found() {
        let to = acked().planned.send.to;
        let body = format!(r#"{{"challenge_id":"otp_1","to":"{to}"}}"#);
        assert!(found(Ask::Read, 200, &body, false).clean());
        assert_eq!(found(Ask::Read, 404, r#"{"code":"not_found"}"#, false).lost, 1);
        let other = r#"{"challenge_id":"otp_1","to":"+33600000000"}"#;
        assert_eq!(found(Ask::Read, 200, other, false).mismatched, 1);
    }

    #[test]
    fn a_young_code_must_verify() {
        assert!(found(Ask::Verify, 200, "{}", false).clean());
        assert_eq!(found(Ask::Verify, 410, r#"{"code":"otp_expired"}"#, false).unverifiable, 1);
    }

    #[test]
    fn a_repeat_must_tell_the_same_challenge_and_say_so() {
        let same = r#"{"challenge_id":"otp_1"}"#;
        assert_eq!(found(Ask::Repeat, 200, same, true).replays, 1);
        assert_eq!(found(Ask::Repeat, 200, same, false).unexpected, 1);
        assert_eq!(found(Ask::Repeat, 200, r#"{"challenge_id":"otp_2"}"#, true).double, 1);
    }

    #[test]
    fn the_same_passcode_twice_on_one_channel_is_told() {
        let code = acked().planned.code;
        let message = |channel| format!(r#"{{"channel":"{channel}","text":"x","code":"{code}"}}"#);
        let (chat, sms) = (message("chatapp"), message("sms"));
        assert_eq!(found(Ask::Handset, 200, &format!("[{chat},{sms}]"), false).delivered_twice, 0);
        assert_eq!(found(Ask::Handset, 200, &format!("[{sms},{sms}]"), false).delivered_twice, 1);
    }
}
