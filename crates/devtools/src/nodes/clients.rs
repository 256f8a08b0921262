//! Clients that know all nodes: what fails at one is tried once at the next, under the same key.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    api::Api,
    crash::{
        journal::Log,
        plan::{Plan, Planned},
    },
    stopwatch,
    wire::{Conn, Reply},
};

/// Before a request that failed twice is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// One for each node.
    pub(crate) apis: Vec<Api>,
    /// What to send.
    pub(crate) plan: Plan,
    /// Names the keys of this run.
    pub(crate) seed: u64,
    /// The next request of the plan.
    pub(crate) next: AtomicU64,
    /// Set when the clients shall stop.
    pub(crate) over: AtomicBool,
    /// Requests that failed at their first node.
    pub(crate) failed_once: AtomicU64,
    /// Requests that failed at the next node as well.
    pub(crate) failed_twice: AtomicU64,
    /// The last success, and the longest time without one so far.
    pub(crate) calm: Mutex<(Instant, Duration)>,
    /// Sends answered with 200.
    pub(crate) successes: AtomicU64,
}

impl Crowd {
    /// Nothing sent yet.
    pub(crate) fn new(apis: Vec<Api>, seed: u64) -> Self {
        Self {
            apis,
            plan: Plan::new(seed),
            seed,
            next: AtomicU64::new(0),
            over: AtomicBool::new(false),
            failed_once: AtomicU64::new(0),
            failed_twice: AtomicU64::new(0),
            calm: Mutex::new((stopwatch::now(), Duration::ZERO)),
            successes: AtomicU64::new(0),
        }
    }

    /// The longest time without a success since the last call.
    pub(crate) fn longest_gap(&self) -> Duration {
        let mut calm = self.calm.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = calm.1.max(calm.0.elapsed());
        calm.1 = Duration::ZERO;
        longest
    }

    fn succeeded(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        let mut calm = self.calm.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, longest) = *calm;
        *calm = (stopwatch::now(), longest.max(last.elapsed()));
    }

    fn planned(&self) -> Planned {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let mut planned = self.plan.request(index);
        // Only a request with a key may be tried at another node.
        planned.key.get_or_insert_with(|| format!("nodes-{}-{index}", self.seed));
        planned
    }
}

/// Whether another node might do better.
fn has_failed(reply: &std::io::Result<Reply>) -> bool {
    reply.as_ref().map_or(true, |reply| reply.status >= 500)
}

/// Sends until told to stop; starts at node `at`.
///
/// # Errors
/// When a request cannot be rendered.
pub(crate) async fn drive(crowd: Arc<Crowd>, at: usize) -> Result<Log> {
    let mut conns: Vec<_> = crowd.apis.iter().map(|api| Conn::new(&api.address)).collect();
    let (mut log, mut open) = (Log::default(), VecDeque::<Planned>::new());
    let (mut at, mut out) = (at % conns.len(), Vec::new());
    while !crowd.over.load(Ordering::Relaxed) {
        let repeated = open.pop_front();
        let is_repeat = repeated.is_some();
        let planned = repeated.unwrap_or_else(|| crowd.planned());
        let mut reply = None;
        for attempt in 0..2 {
            let (Some(api), Some(conn)) = (crowd.apis.get(at), conns.get_mut(at)) else { break };
            api.send(&mut out, 0, &planned.send, planned.key.as_deref())?;
            let answer = conn.call(&out).await;
            if !has_failed(&answer) {
                reply = answer.ok();
                break;
            }
            // A node that stops says 503 before it closes: a connection kept from then would fail
            // the try after the next restart, at a node that works.
            *conn = Conn::new(&api.address);
            at = (at + 1) % conns.len();
            let count = if attempt == 0 { &crowd.failed_once } else { &crowd.failed_twice };
            count.fetch_add(1, Ordering::Relaxed);
        }
        let Some(reply) = reply else {
            open.push_back(planned);
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if reply.status == 200 {
            crowd.succeeded();
        }
        log.note(planned, &reply, is_repeat);
        if !log.pending.is_empty() {
            // In progress at a node that may be gone: it is asked again later.
            open.extend(log.pending.drain(..));
            tokio::time::sleep(PAUSE).await;
        }
    }
    log.pending.extend(open);
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::{Crowd, has_failed};
    use crate::{api::Api, wire::Reply};

    #[test]
    fn only_a_server_that_cannot_is_given_up_for_another() {
        let reply = |status| {
            Ok(Reply { status, body: Vec::new(), replayed: false, close: false, link: None })
        };
        for (status, failed) in [(200, false), (409, false), (422, false), (500, true), (503, true)]
        {
            assert_eq!(has_failed(&reply(status)), failed, "{status}");
        }
        assert!(has_failed(&Err(std::io::ErrorKind::ConnectionRefused.into())));
    }

    #[test]
    fn every_request_has_a_key_of_its_own() {
        let api = Api::new("http://127.0.0.1:1", vec![String::new()]).unwrap();
        let crowd = Crowd::new(vec![api], 5);
        let keys: std::collections::HashSet<_> =
            (0..100).map(|_| crowd.planned().key.unwrap()).collect();
        assert_eq!(keys.len(), 100);
    }
}
