//! Rate limits per API key and route class, per account, or per address where there is no key yet
//! (GCRA), and the headers that show them.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::{Quota, RateLimiter};

use super::id::AccountId;
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
    /// What hashes a password, by address.
    Guest,
    /// Changes of one person's password.
    Password,
    /// Refusals of staff that the audit log notes, by member of staff: strangers cause them.
    Note,
    /// New users, by address.
    Signup,
    /// Refusals of sends that are kept for their repeats, by account: they cost nothing.
    Refusal,
    /// Keys made for domains that send email, by account: each takes half a second of a core.
    Keys,
    /// Questions about templates that go to the chat-app, by account: the chat-app counts those of
    /// all accounts together.
    Templates,
    /// What people at virtual handsets write, by account: it costs nothing, and is kept.
    Replies,
}

/// An account may do as much as so many of its keys.
const KEYS: u32 = 5;

/// The limits of this node. Exact limits (recipient, credits) are guards in the database.
#[derive(Clone)]
pub struct Throttle {
    send: Arc<Budget>,
    read: Arc<Budget>,
    guest: Arc<Budget>,
    password: Arc<Budget>,
    note: Arc<Budget>,
    signup: Arc<Budget>,
    refusal: Arc<Budget>,
    keys: Arc<Budget>,
    templates: Arc<Budget>,
    replies: Arc<Budget>,
    send_of_account: Arc<Budget>,
    read_of_account: Arc<Budget>,
}

/// Changes of one person's password in an hour, right or wrong.
const PASSWORDS_PER_HOUR: u32 = 20;
/// Refusals of one member of staff that are noted in a minute.
const NOTES_PER_MIN: u32 = 10;

/// Domains of one account in an hour that get keys: as many as it may have, and some mistakes.
const KEYS_PER_HOUR: u32 = 60;

/// Questions about templates of one account in an hour. The chat-app takes 200 in an hour for a
/// new business account, and 5,000 for one that sends.
const TEMPLATES_PER_HOUR: u32 = 200;

/// Refusals that are kept for an account are to its sends as one to so many.
const SENDS_PER_REFUSAL: u32 = 10;

const POLICY: &str = "ratelimit-policy";
const LEFT: &str = "ratelimit";

/// The headers of a budget: IETF draft "RateLimit header fields for HTTP".
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// How much is allowed.
    policy: HeaderValue,
    /// What is left of it.
    left: HeaderValue,
}

impl RateLimit {
    /// The headers by their names.
    #[must_use]
    pub fn headers(&self) -> [(HeaderName, &HeaderValue); 2] {
        const NAMES: [HeaderName; 2] =
            [HeaderName::from_static(POLICY), HeaderName::from_static(LEFT)];
        let [policy, left] = NAMES;
        [(policy, &self.policy), (left, &self.left)]
    }
}

/// So many requests in so many seconds, and at once.
struct Budget {
    word: &'static str,
    limiter: Limiter,
    policy: HeaderValue,
    /// In how many seconds one more request is free, at the latest.
    one_more_s: i64,
}

impl Throttle {
    /// Requests per second of the classes, per minute for guests and sign-ups, per hour for
    /// replies; the burst is twice that, for guests and replies once.
    #[must_use]
    pub fn new(
        send_per_s: u32,
        read_per_s: u32,
        guest_per_min: u32,
        signup_per_min: u32,
        replies_per_hour: u32,
    ) -> Self {
        let per_second = |word, requests| Arc::new(Budget::per_second(word, requests));
        Self {
            send: per_second("send", send_per_s),
            read: per_second("read", read_per_s),
            guest: Arc::new(Budget::per_minute("guest", guest_per_min)),
            password: Arc::new(Budget::per_hour("password", PASSWORDS_PER_HOUR)),
            note: Arc::new(Budget::per_minute("note", NOTES_PER_MIN)),
            signup: Arc::new(Budget::sign_ups(signup_per_min)),
            refusal: per_second("refusal", send_per_s / SENDS_PER_REFUSAL),
            keys: Arc::new(Budget::per_hour("keys", KEYS_PER_HOUR)),
            templates: Arc::new(Budget::per_hour("templates", TEMPLATES_PER_HOUR)),
            replies: Arc::new(Budget::per_hour("replies", replies_per_hour)),
            send_of_account: per_second("account-send", send_per_s.saturating_mul(KEYS)),
            read_of_account: per_second("account-read", read_per_s.saturating_mul(KEYS)),
        }
    }

    /// Takes one request of `who` from its budget. The headers go on the answer, good or bad.
    ///
    /// # Errors
    /// 429 `rate_limited` with `Retry-After`.
    pub fn take(&self, class: Class, who: &str) -> Result<RateLimit, Problem> {
        match class {
            Class::Send => self.send.take(who),
            Class::Read => self.read.take(who),
            Class::Guest => self.guest.take(who),
            Class::Password => self.password.take(who),
            Class::Note => self.note.take(who),
            Class::Signup => self.signup.take(who),
            Class::Refusal => self.refusal.take(who),
            Class::Keys => self.keys.take(who),
            Class::Templates => self.templates.take(who),
            Class::Replies => self.replies.take(who),
        }
    }

    /// Takes one request from the budget that all callers of an account share.
    ///
    /// # Errors
    /// 429 `rate_limited` with `Retry-After`.
    pub fn take_of_account(&self, class: Class, account: &AccountId) -> Result<(), Problem> {
        let budget = match class {
            Class::Send => &self.send_of_account,
            Class::Read => &self.read_of_account,
            Class::Guest
            | Class::Password
            | Class::Note
            | Class::Signup
            | Class::Refusal
            | Class::Keys
            | Class::Templates
            | Class::Replies => return Ok(()),
        };
        budget.check(account.as_str()).map(drop).map_err(|wait_s| budget.refusal(wait_s))
    }

    /// Forgets callers that have their whole budget again, so that memory stays bounded.
    pub fn forget_idle(&self) {
        let Self { send, read, guest, password, note, signup, refusal, keys, templates, .. } = self;
        let all = [send, read, guest, password, note, signup, refusal, keys, templates];
        let of_accounts = [&self.send_of_account, &self.read_of_account, &self.replies];
        for budget in all.iter().chain(&of_accounts) {
            budget.limiter.retain_recent();
        }
    }
}

impl Budget {
    fn per_second(word: &'static str, requests: u32) -> Self {
        let burst = requests.saturating_mul(2);
        // So many in two seconds, which may all come in the first.
        Self::of(word, Quota::per_second(some(requests)).allow_burst(some(burst)), burst, 2)
    }

    fn per_minute(word: &'static str, requests: u32) -> Self {
        Self::of(word, Quota::per_minute(some(requests)), requests, 60)
    }

    fn sign_ups(per_min: u32) -> Self {
        let burst = per_min.saturating_mul(2);
        let quota = Quota::per_minute(some(per_min)).allow_burst(some(burst));
        Self::of("signup", quota, burst, 120)
    }

    fn per_hour(word: &'static str, requests: u32) -> Self {
        Self::of(word, Quota::per_hour(some(requests)), requests, 3_600)
    }

    fn of(word: &'static str, quota: Quota, requests: u32, window_s: u32) -> Self {
        let limiter = RateLimiter::dashmap(quota).with_middleware::<StateInformationMiddleware>();
        let policy = shown(format!("\"{word}\";q={requests};w={window_s}"));
        Self { word, limiter, policy, one_more_s: window_s.div_ceil(requests.max(1)).into() }
    }

    /// How many requests are left at once, or after how many seconds there is one.
    fn check(&self, who: &str) -> Result<u32, i64> {
        match self.limiter.check_key(&key_of(who)) {
            Ok(state) => Ok(state.remaining_burst_capacity()),
            Err(refusal) => {
                let wait = refusal.wait_time_from(DefaultClock::default().now());
                Err(i64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(1).max(1))
            }
        }
    }

    fn take(&self, who: &str) -> Result<RateLimit, Problem> {
        self.check(who)
            .map(|remaining| self.rate_limit(remaining, self.one_more_s))
            .map_err(|wait_s| self.refusal(wait_s))
    }

    fn refusal(&self, wait_s: i64) -> Problem {
        let RateLimit { policy, left } = self.rate_limit(0, wait_s);
        let problem = Problem::new(Code::RateLimited).retry_after_s(wait_s);
        problem.header(POLICY, policy).header(LEFT, left)
    }

    fn rate_limit(&self, remaining: u32, one_more_s: i64) -> RateLimit {
        let left = shown(format!("\"{}\";r={remaining};t={one_more_s}", self.word));
        RateLimit { policy: self.policy.clone(), left }
    }
}

/// Words and numbers as a header; both are always valid there.
fn shown(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

fn some(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
}

/// A 64-bit hash stands for the caller: a collision would only share a budget.
fn key_of(who: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    who.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{AccountId, Class, Throttle};

    #[test]
    fn a_caller_gets_its_burst_and_then_waits_while_others_go_on() {
        let throttle = Throttle::new(2, 1, 3, 2, 1);
        for _ in 0..4 {
            assert!(throttle.take(Class::Send, "key_a").is_ok());
        }
        assert!(throttle.take(Class::Send, "key_a").is_err());
        assert!(throttle.take(Class::Send, "key_b").is_ok());
        assert!(throttle.take(Class::Read, "key_a").is_ok());
    }

    #[test]
    fn the_keys_of_an_account_share_a_budget_of_five() {
        let throttle = Throttle::new(2, 1, 3, 2, 1);
        let [one, other] = [1, 2].map(|n| AccountId::of(uuid::Uuid::from_u128(n)));
        for _ in 0..20 {
            assert!(throttle.take_of_account(Class::Send, &one).is_ok());
        }
        assert!(throttle.take_of_account(Class::Send, &one).is_err());
        assert!(throttle.take_of_account(Class::Read, &one).is_ok());
        assert!(throttle.take_of_account(Class::Send, &other).is_ok());
    }

    #[test]
    fn guests_are_counted_by_the_minute() {
        let throttle = Throttle::new(2, 1, 3, 2, 1);
        for left in ["2", "1", "0"] {
            let limit = throttle.take(Class::Guest, "203.0.113.7").unwrap();
            let [policy, remaining] = limit.headers();
            assert_eq!(
                (policy.0.as_str(), remaining.0.as_str()),
                ("ratelimit-policy", "ratelimit")
            );
            assert_eq!(policy.1, "\"guest\";q=3;w=60");
            assert_eq!(remaining.1, format!("\"guest\";r={left};t=20").as_str());
        }
        assert!(throttle.take(Class::Guest, "203.0.113.7").is_err());
        assert!(throttle.take(Class::Guest, "203.0.113.8").is_ok());
    }
}
