//! The clients that send while the service is killed under them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::Result;

use super::{
    journal::{Acked, Log},
    plan::{Plan, Planned},
};
use crate::{
    api::{self, Api},
    stopwatch,
    wire::{Conn, Reply},
};

/// What the clients of one uptime share.
#[derive(Debug)]
pub(crate) struct Uptime {
    /// Where and as whom.
    pub(crate) api: Api,
    /// What to send.
    pub(crate) plan: Plan,
    /// The next request of the plan; goes on over restarts.
    pub(crate) next: Arc<AtomicU64>,
    /// Set once the service is dead.
    pub(crate) over: AtomicBool,
}

/// How a send ended.
pub(crate) enum Fate {
    /// 200, with the challenge and whether it was a replay.
    Acked { id: String, replayed: bool },
    /// The recipient cannot be reached: final, nothing is owed.
    Refused,
    /// No final answer yet: in progress, a 5xx, or none at all.
    Open,
    /// Anything else.
    Unexpected(String),
}

/// Reads the answer to a send.
pub(crate) fn fate(reply: &Reply) -> Fate {
    let code = api::problem_code(&reply.body);
    match (reply.status, code.as_str(), api::challenge(&reply.body)) {
        (200, _, Some(challenge)) => Fate::Acked { id: challenge.id, replayed: reply.replayed },
        (422, "recipient_unreachable", _) => Fate::Refused,
        (409, "idempotency_in_progress", _) | (500..=599, _, _) => Fate::Open,
        (status, code, _) => Fate::Unexpected(format!("send: {status} {code}")),
    }
}

/// Repeats `pending`, then sends new requests until the service dies.
///
/// # Errors
/// When a request cannot be rendered.
pub(crate) async fn drive(uptime: Arc<Uptime>, pending: Vec<Planned>) -> Result<Log> {
    let mut conn = Conn::new(&uptime.api.address);
    let (mut out, mut log) = (Vec::new(), Log::default());
    let mut pending = VecDeque::from(pending);
    let mut asked = None;
    while !uptime.over.load(Ordering::Relaxed) {
        let repeat = pending.pop_front();
        let repeated = repeat.is_some();
        let planned = repeat
            .unwrap_or_else(|| uptime.plan.request(uptime.next.fetch_add(1, Ordering::Relaxed)));
        uptime.api.send(&mut out, 0, &planned.send, planned.key.as_deref())?;
        let Ok(reply) = conn.call(&out).await else {
            log.lost(planned);
            break;
        };
        let next = planned.is_answered().then(|| planned.send.to.clone());
        log.note(planned, &reply, repeated);
        // Whoever was asked one send before answers, and twice: their prompt is there by now.
        if let Some(person) = std::mem::replace(&mut asked, next) {
            for _ in 0..2 {
                let path = format!("/v1/sandbox/handsets/{person}/replies");
                uptime.api.post(&mut out, &path, None, br#"{"button":"yes"}"#)?;
                let Ok(reply) = conn.call(&out).await else { break };
                log.answers += u64::from(reply.status == 200);
            }
        }
    }
    log.pending.extend(pending);
    Ok(log)
}

impl Log {
    /// Notes the answer to `planned`.
    pub(crate) fn note(&mut self, planned: Planned, reply: &Reply, repeated: bool) {
        match fate(reply) {
            Fate::Acked { id, replayed } => {
                self.replays += u64::from(replayed);
                let at = stopwatch::now();
                self.acked.push(Acked { id, planned, at, verified: false, repeated });
            }
            Fate::Refused => self.refused += 1,
            Fate::Open => self.lost(planned),
            Fate::Unexpected(what) => self.unexpected.push(what),
        }
    }

    fn lost(&mut self, planned: Planned) {
        if planned.key.is_some() {
            self.pending.push(planned);
        } else {
            self.unanswered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Log, Plan, Planned};
    use crate::wire::Reply;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, body: body.as_bytes().to_vec(), replayed: false, close: false, link: None }
    }

    #[test]
    fn a_keyed_send_stays_open_until_it_is_answered() {
        let plan = Plan::new(1);
        let is_keyed = |p: &Planned| p.key.is_some() && p.send.text.is_none();
        let keyed = (0..100).map(|i| plan.request(i)).find(is_keyed).unwrap();
        let mut log = Log::default();
        log.note(keyed.clone(), &reply(409, r#"{"code":"idempotency_in_progress"}"#), true);
        log.note(keyed.clone(), &reply(503, r#"{"code":"overloaded"}"#), true);
        assert_eq!(log.pending.len(), 2);
        log.note(keyed.clone(), &reply(422, r#"{"code":"recipient_unreachable"}"#), true);
        log.note(keyed.clone(), &reply(200, r#"{"challenge_id":"otp_1"}"#), true);
        assert_eq!((log.refused, log.acked.len()), (1, 1));
        log.note(keyed, &reply(422, r#"{"code":"idempotency_key_reused"}"#), true);
        assert_eq!(log.unexpected, ["send: 422 idempotency_key_reused"]);
    }
}
