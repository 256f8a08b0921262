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

/// What a budget is of: its word in the headers, and what it counts, in the plural.
#[derive(Clone, Copy)]
struct Kind {
    word: &'static str,
    what: &'static str,
}

const SEND: Kind = Kind { word: "send", what: "sends with one API key" };
const READ: Kind = Kind { word: "read", what: "requests with one API key or session" };
const GUEST: Kind =
    Kind { word: "guest", what: "logins, sign-ups and password changes from one address" };
const PASSWORD: Kind = Kind { word: "password", what: "password changes of one person" };
const NOTE: Kind = Kind { word: "note", what: "refused requests of one member of staff" };
const SIGNUP: Kind = Kind { word: "signup", what: "new users from one address" };
const REFUSAL: Kind =
    Kind { word: "refusal", what: "refused sends of one account with an Idempotency-Key" };
const KEY: Kind = Kind { word: "keys", what: "new email domains of one account" };
const TEMPLATE: Kind =
    Kind { word: "templates", what: "template requests of one account to the chat-app" };
const REPLY: Kind = Kind { word: "replies", what: "replies of one account's virtual handsets" };
const ACCOUNT_SEND: Kind = Kind { word: "account-send", what: "sends of one account" };
const ACCOUNT_READ: Kind = Kind { word: "account-read", what: "requests of one account" };

/// So many requests in so many seconds, and at once.
struct Budget {
    word: &'static str,
    /// The limit in a sentence, for whoever met it.
    rule: String,
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
        let per_second = |kind, requests| Arc::new(Budget::per_second(kind, requests));
        let per_minute = |kind, requests| Arc::new(Budget::per_minute(kind, requests));
        let per_hour = |kind, requests| Arc::new(Budget::per_hour(kind, requests));
        Self {
            send: per_second(SEND, send_per_s),
            read: per_second(READ, read_per_s),
            guest: per_minute(GUEST, guest_per_min),
            password: per_hour(PASSWORD, PASSWORDS_PER_HOUR),
            note: per_minute(NOTE, NOTES_PER_MIN),
            signup: Arc::new(Budget::sign_ups(signup_per_min)),
            refusal: per_second(REFUSAL, send_per_s / SENDS_PER_REFUSAL),
            keys: per_hour(KEY, KEYS_PER_HOUR),
            templates: per_hour(TEMPLATE, TEMPLATES_PER_HOUR),
            replies: per_hour(REPLY, replies_per_hour),
            send_of_account: per_second(ACCOUNT_SEND, send_per_s.saturating_mul(KEYS)),
            read_of_account: per_second(ACCOUNT_READ, read_per_s.saturating_mul(KEYS)),
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
    fn per_second(kind: Kind, requests: u32) -> Self {
        let burst = requests.saturating_mul(2);
        // So many in two seconds, which may all come in the first.
        Self::of(kind, Quota::per_second(some(requests)).allow_burst(some(burst)), burst, 2)
    }

    fn per_minute(kind: Kind, requests: u32) -> Self {
        Self::of(kind, Quota::per_minute(some(requests)), requests, 60)
    }

    fn sign_ups(per_min: u32) -> Self {
        let burst = per_min.saturating_mul(2);
        let quota = Quota::per_minute(some(per_min)).allow_burst(some(burst));
        Self::of(SIGNUP, quota, burst, 120)
    }

    fn per_hour(kind: Kind, requests: u32) -> Self {
        Self::of(kind, Quota::per_hour(some(requests)), requests, 3_600)
    }

    fn of(kind: Kind, quota: Quota, requests: u32, window_s: u32) -> Self {
        let Kind { word, what } = kind;
        let limiter = RateLimiter::dashmap(quota).with_middleware::<StateInformationMiddleware>();
        let policy = shown(format!("\"{word}\";q={requests};w={window_s}"));
        let rule = match window_s {
            60 => format!("At most {requests} {what} in a minute"),
            3_600 => format!("At most {requests} {what} in an hour"),
            _ => format!("At most {requests} {what} in {window_s} seconds"),
        };
        let one_more_s = window_s.div_ceil(requests.max(1)).into();
        Self { word, rule, limiter, policy, one_more_s }
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
        let detail = format!("{}; the next may come in {wait_s} s.", self.rule);
        let problem = Problem::new(Code::RateLimited).detail(detail).retry_after_s(wait_s);
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
