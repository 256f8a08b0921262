//! Rate limits per API key and route class (GCRA), and the headers that show them.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::{Quota, RateLimiter};

use super::problem::Problem;
use super::problem_code::Code;

type Limiter = RateLimiter<
    u64,
    governor::state::keyed::DashMapStateStore<u64>,
    DefaultClock,
    StateInformationMiddleware,
>;

/// Which budget a request draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// What makes a carrier work and costs credits.
    Send,
    /// Everything else.
    Read,
}

impl Class {
    const fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
        }
    }
}

/// The limits of this node. Exact limits (recipient, credits) are guards in the database.
#[derive(Clone)]
pub struct Throttle {
    send: Arc<(Limiter, u32)>,
    read: Arc<(Limiter, u32)>,
}

impl Throttle {
    /// Requests per second of each class; the burst is twice that.
    #[must_use]
    pub fn new(send_per_s: u32, read_per_s: u32) -> Self {
        Self { send: Arc::new(limiter(send_per_s)), read: Arc::new(limiter(read_per_s)) }
    }

    /// Takes one request of `who` from its budget. The headers go on the answer, good or bad.
    ///
    /// # Errors
    /// 429 `rate_limited` with `Retry-After`.
    pub fn take(&self, class: Class, who: &str) -> Result<HeaderMap, Problem> {
        let (limiter, per_s) = match class {
            Class::Send => &*self.send,
            Class::Read => &*self.read,
        };
        match limiter.check_key(&key_of(who)) {
            Ok(state) => Ok(headers(class, *per_s, state.remaining_burst_capacity(), 1)),
            Err(refusal) => {
                let wait = refusal.wait_time_from(DefaultClock::default().now());
                let wait_s = i64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(1).max(1);
                let mut problem = Problem::new(Code::RateLimited).retry_after_s(wait_s);
                for (name, value) in &headers(class, *per_s, 0, wait_s) {
                    let name = if name == "ratelimit" { "ratelimit" } else { "ratelimit-policy" };
                    problem = problem.header(name, value.clone());
                }
                Err(problem)
            }
        }
    }

    /// Forgets callers that have their whole budget again, so that memory stays bounded.
    pub fn forget_idle(&self) {
        self.send.0.retain_recent();
        self.read.0.retain_recent();
    }
}

fn limiter(per_s: u32) -> (Limiter, u32) {
    let rate = NonZeroU32::new(per_s).unwrap_or(NonZeroU32::MIN);
    let burst = NonZeroU32::new(per_s.saturating_mul(2)).unwrap_or(NonZeroU32::MIN);
    let quota = Quota::per_second(rate).allow_burst(burst);
    (RateLimiter::dashmap(quota).with_middleware::<StateInformationMiddleware>(), per_s)
}

/// A 64-bit hash stands for the caller: a collision would only share a budget.
fn key_of(who: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    who.hash(&mut hasher);
    hasher.finish()
}

/// IETF draft "RateLimit header fields for HTTP": policy and what is left.
fn headers(class: Class, per_s: u32, remaining: u32, reset_s: i64) -> HeaderMap {
    let word = class.word();
    let mut headers = HeaderMap::with_capacity(2);
    let policy = format!("\"{word}\";q={per_s};w=1");
    let left = format!("\"{word}\";r={remaining};t={reset_s}");
    if let (Ok(policy), Ok(left)) = (HeaderValue::from_str(&policy), HeaderValue::from_str(&left)) {
        headers.insert("ratelimit-policy", policy);
        headers.insert("ratelimit", left);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::{Class, Throttle};

    #[test]
    fn a_caller_gets_its_burst_and_then_waits_while_others_go_on() {
        let throttle = Throttle::new(2, 1);
        for _ in 0..4 {
            assert!(throttle.take(Class::Send, "key_a").is_ok());
        }
        assert!(throttle.take(Class::Send, "key_a").is_err());
        assert!(throttle.take(Class::Send, "key_b").is_ok());
        assert!(throttle.take(Class::Read, "key_a").is_ok());
    }
}
