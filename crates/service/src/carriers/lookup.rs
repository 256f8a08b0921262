//! Which network a number is in, where people keep their numbers when they change networks: asked
//! over HTTP, remembered for a while, and never waited for beyond a limit. Whatever goes wrong, the
//! prefix decides. A number goes to the configured URL and nowhere else; remembered is a keyed hash
//! of it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::{Clock, Millis};
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use sha2::Sha256;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::config;
use crate::kit::outgoing::{Destination, Outgoing};
use crate::kit::words::words;

/// How long an answer may take that is waited for no more: the next message knows it.
const LATE: Duration = Duration::from_secs(2);
/// Questions at the same time.
const AT_ONCE: usize = 64;
/// Failures in a row after which nobody is asked for a while.
const FAILURES: u32 = 5;
const REST: Duration = Duration::from_secs(10);
/// The longest name of a network.
const MOST_CHARS: usize = 64;

words! {
    /// What came of a question.
    pub enum Asked {
        /// It was known.
        Known = "known",
        /// It was answered in time.
        Answered = "answered",
        /// Not in time.
        Late = "late",
        /// Not, or not in a way that is understood.
        Failed = "failed",
        /// It was not asked: too many questions at once, or too many failures.
        Skipped = "skipped",
    }
}

/// The place that is asked, and what it said.
pub struct Lookup {
    inner: Arc<Inner>,
    wait: Duration,
}

struct Inner {
    settings: config::SmsLookup,
    outgoing: Outgoing,
    clock: Clock,
    /// Of this process: what is remembered means nothing outside of it.
    key: Hmac<Sha256>,
    memory: Mutex<Memory>,
    room: Semaphore,
}

/// An answer that says nothing of a network.
struct NotUnderstood;

type Digest = [u8; 32];

#[derive(Default)]
struct Memory {
    known: HashMap<Digest, Known>,
    /// The same, the oldest first.
    order: VecDeque<Digest>,
    failures: u32,
    rests_until: Option<Instant>,
}

struct Known {
    /// `None` = the number has none that is told.
    network: Option<Arc<str>>,
    until: Millis,
}

impl Lookup {
    /// The place of the settings; `None` = there is none.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn new(settings: &config::SmsLookup, clock: &Clock) -> Result<Option<Arc<Self>>, String> {
        if settings.url.expose().is_empty() {
            return Ok(None);
        }
        // As long as a block of SHA-256 (RFC 2104 §3).
        let mut key = [0; 64];
        clock.fill(&mut key);
        let inner = Inner {
            settings: settings.clone(),
            outgoing: Outgoing::to_upstreams(LATE, LATE)?,
            clock: clock.clone(),
            key: <Hmac<Sha256> as KeyInit>::new(&key.into()),
            memory: Mutex::default(),
            room: Semaphore::new(AT_ONCE),
        };
        let wait = Duration::from_millis(settings.timeout_ms);
        Ok(Some(Arc::new(Self { inner: Arc::new(inner), wait })))
    }

    /// The network of a number, as far as it is remembered.
    #[must_use]
    pub fn network(&self, number: &str) -> Option<Arc<str>> {
        let (digest, now) = (self.inner.digest(number), self.inner.clock.now());
        let memory = self.inner.memory();
        memory.known.get(&digest).filter(|known| now < known.until)?.network.clone()
    }

    /// Asks about a number that is not remembered, and waits for the answer as long as the settings
    /// say.
    pub async fn ask(&self, number: &str) -> Asked {
        let inner = &self.inner;
        if inner.remembers(number) {
            return Asked::Known;
        }
        if inner.is_resting() || inner.room.available_permits() == 0 {
            return Asked::Skipped;
        }
        let asked = tokio::spawn(Arc::clone(inner).exchange(number.to_owned()));
        match tokio::time::timeout(self.wait, asked).await {
            Ok(Ok(true)) => Asked::Answered,
            Ok(_) => Asked::Failed,
            // It goes on, and says by itself how it ends.
            Err(_) => Asked::Late,
        }
    }
}

impl Inner {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn digest(&self, number: &str) -> Digest {
        self.key.clone().chain_update(number).finalize().into_bytes().into()
    }

    fn remembers(&self, number: &str) -> bool {
        let (digest, now) = (self.digest(number), self.clock.now());
        self.memory().known.get(&digest).is_some_and(|known| now < known.until)
    }

    fn is_resting(&self) -> bool {
        self.memory().rests_until.is_some_and(|until| Instant::now() < until)
    }

    fn failed(&self) {
        let mut memory = self.memory();
        memory.failures += 1;
        if memory.failures >= FAILURES {
            memory.rests_until = Some(Instant::now() + REST);
        }
    }

    /// Asks, and answers whether there was an answer.
    async fn exchange(self: Arc<Self>, number: String) -> bool {
        let Ok(_room) = self.room.acquire().await else { return false };
        let digits = number.trim_start_matches('+');
        let url = self.settings.url.expose().replace("{number}", digits);
        let Ok(place) = Destination::parse_long(&url, true) else { return false };
        let said = match self.outgoing.get(&place, self.headers()).await {
            Ok(answer) if (200..300).contains(&answer.status) => self.read(&answer.body),
            // It does not know this number.
            Ok(answer) if answer.status == 404 => Ok(None),
            Ok(_) | Err(_) => Err(NotUnderstood),
        };
        let is_answered = said.is_ok();
        match said {
            Ok(network) => self.remember(&number, network),
            Err(NotUnderstood) => self.failed(),
        }
        is_answered
    }

    fn headers(&self) -> HeaderMap {
        let config::SmsLookup { header, token, .. } = &self.settings;
        let value = HeaderValue::try_from(token.expose()).ok().filter(|value| !value.is_empty());
        HeaderName::try_from(header).ok().zip(value).into_iter().collect()
    }

    /// The network that an answer names, if it names one.
    fn read(&self, body: &[u8]) -> Result<Option<Arc<str>>, NotUnderstood> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| NotUnderstood)?;
        let mut network = String::new();
        for pointer in &self.settings.network {
            match answer.pointer(pointer) {
                Some(Value::String(text)) => network.push_str(text),
                Some(Value::Number(number)) => network.push_str(&number.to_string()),
                Some(Value::Null) | None => return Ok(None),
                Some(_) => return Err(NotUnderstood),
            }
        }
        let network = network.trim().to_lowercase();
        let is_name = !network.is_empty() && network.chars().count() <= MOST_CHARS;
        Ok(is_name.then(|| network.into()))
    }

    fn remember(&self, number: &str, network: Option<Arc<str>>) {
        let until = self.clock.now() + self.settings.cache_s * 1_000;
        let digest = self.digest(number);
        let mut memory = self.memory();
        (memory.failures, memory.rests_until) = (0, None);
        if memory.known.insert(digest, Known { network, until }).is_none() {
            memory.order.push_back(digest);
        }
        while memory.order.len() > self.settings.cache_numbers {
            if let Some(oldest) = memory.order.pop_front() {
                memory.known.remove(&oldest);
            }
        }
    }
}
