//! One try: sign, send, say what came back. Nothing is stored here.

use std::sync::Arc;

use clock::Millis;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use tokio::time::Instant;

use super::outcome::{self, EndedTry, TryOutcome};
use super::secret::{self, Key};
use super::{Error, Target};
use crate::app::App;
use crate::kit::id::{DeliveryId, EventId};
use crate::kit::outgoing::{Answer, Destination, NoAnswer, Outgoing};

/// Who sends, for the receiver's log.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("estafette/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Headers of Standard Webhooks 1.0.0; the last two are hints of ours, and not signed.
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const DELIVERY: HeaderName = HeaderName::from_static("webhook-delivery-id");
const ATTEMPT: HeaderName = HeaderName::from_static("webhook-attempt");
/// How long keys are used before it is looked whether one has expired, milliseconds.
const KEYS_MS: i64 = 60_000;

/// A delivery to be tried.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) delivery: DeliveryId,
    pub(super) event: EventId,
    pub(super) body: Bytes,
    pub(super) step: i64,
    pub(super) attempts: i64,
    pub(super) due_at: Millis,
    /// Whether somebody asked for this try.
    pub(super) is_asked_for: bool,
}

impl Job {
    /// The wish that this try fulfils, by its time. No wish has the other one.
    pub(super) fn wish(&self) -> Millis {
        if self.is_asked_for { self.due_at } else { Millis(-1) }
    }
}

/// A try and what came of it.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) job: Job,
    /// Where it was sent.
    pub(super) url: Arc<str>,
    pub(super) at: Millis,
    pub(super) latency_ms: i64,
    pub(super) status: Option<u16>,
    pub(super) failure: Option<(&'static str, String)>,
    pub(super) asked_ms: Option<i64>,
    pub(super) body: Option<Vec<u8>>,
}

impl Tried {
    /// What it means for the delivery.
    pub(super) fn outcome(&self) -> TryOutcome {
        outcome::outcome(self.status)
    }

    /// Whether the delivery was not tried before.
    pub(super) fn is_first(&self) -> bool {
        self.job.attempts == 0
    }

    /// Whether it was sent to where the target is now: else it says nothing of it.
    pub(super) fn was_at(&self, target: &Target) -> bool {
        *self.url == *target.url
    }

    /// Whether a target is gone, as far as this tells: one that has moved meanwhile is not.
    pub(super) fn ends(&self, target: &Target) -> bool {
        self.outcome() == TryOutcome::Gone && self.was_at(target)
    }

    /// What it means for the target.
    pub(super) fn ended(&self) -> EndedTry {
        EndedTry { outcome: self.outcome(), asked_ms: self.asked_ms, latency_ms: self.latency_ms }
    }
}

/// A target made ready for many tries.
#[derive(Clone)]
pub(super) struct Aim {
    url: Arc<str>,
    sealed: Vec<u8>,
    place: Option<Destination>,
    way_out: Outgoing,
    keys: Vec<Key>,
    until: Millis,
}

impl Aim {
    /// Reads the URL and opens the secrets.
    ///
    /// # Errors
    /// [`Error::Sealed`]: without a signature nothing is sent.
    pub(super) fn at(app: &App, target: &Target) -> Result<Self, Error> {
        let now = app.now();
        Ok(Self {
            url: target.url.as_str().into(),
            sealed: target.sealed.clone(),
            // A URL that was taken and is no longer had a development switch behind it.
            place: app.outgoing.of(target.env).destination(&target.url).ok(),
            way_out: app.outgoing.of(target.env).clone(),
            keys: super::open(app, target)?.keys(now),
            until: now + KEYS_MS,
        })
    }

    /// Whether it is still what the target says.
    pub(super) fn fits(&self, target: &Target, now: Millis) -> bool {
        now < self.until && *self.url == *target.url && self.sealed == target.sealed
    }

    /// Tries a delivery.
    pub(super) async fn shoot(&self, app: &App, job: Job) -> Tried {
        let (at, begun) = (app.now(), Instant::now());
        let answer = match &self.place {
            Some(place) => self.way_out.post(place, self.headers(&job, at), job.body.clone()).await,
            None => Err(NoAnswer::NotAllowed("the URL is no longer accepted")),
        };
        let latency_ms = i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut tried = Tried {
            job,
            url: Arc::clone(&self.url),
            at,
            latency_ms,
            status: None,
            failure: None,
            asked_ms: None,
            body: None,
        };
        match answer {
            Ok(Answer { status, headers, body }) => {
                let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                tried.asked_ms = outcome::asked_wait_ms(status, asked, app.now());
                tried.status = Some(status);
                tried.body = Some(body);
            }
            Err(failure) => tried.failure = Some((failure.as_str(), failure.to_string())),
        }
        tried
    }

    fn headers(&self, job: &Job, at: Millis) -> HeaderMap {
        let at_s = at.0.div_euclid(1_000).to_string();
        let signed = secret::signatures(&self.keys, job.event.as_str(), &at_s, &job.body);
        let mut headers = HeaderMap::with_capacity(10);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ATTEMPT, HeaderValue::from(job.attempts + 1));
        for (name, value) in [
            (ID, job.event.as_str()),
            (TIMESTAMP, at_s.as_str()),
            (SIGNATURE, signed.as_str()),
            (DELIVERY, job.delivery.as_str()),
        ] {
            // Ids, digits and base64 are always good values.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        headers
    }
}
