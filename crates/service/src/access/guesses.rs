//! How often somebody failed to prove who they are. Counted by what was tried *and* from where, for
//! emails that exist and those that do not: a stranger who fails makes only themselves wait, and
//! learns nothing from it.

use clock::{HOUR, Millis};
use store::{CommitError, Reject, WriteSet, args};

use super::store as sql;
use super::token::Kind;
use super::{Error, address};
use crate::app::App;

const RACED: Reject = Reject("guess_raced");

/// How long a failure is remembered, milliseconds; longer than any wait.
pub(super) const LIFE: i64 = HOUR;
/// Failures that are free of waiting.
const FREE_FAILURES: i64 = 5;
/// Longest wait after a failure, milliseconds.
const LONGEST_WAIT: i64 = 15 * clock::MINUTE;
/// Tries to count an attempt while others of the same guesser are being counted.
const COUNT_TRIES: u32 = 20;
/// What clocks of several nodes may differ by, milliseconds.
const CLOCKS_DIFFER_MS: i64 = clock::MINUTE;

/// Whoever tries: what they try, and from which address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guesser {
    mac: [u8; 32],
}

impl Guesser {
    /// One who logs in. An email that is none counts as well, as typed; no spelling of one gets
    /// more guesses than another.
    pub(super) fn of_login(app: &App, kind: Kind, typed: &str, client: &str) -> Self {
        let email = address::email(typed).unwrap_or_else(|| address::plain(typed));
        Self { mac: app.vault.guesser_mac(&[kind.as_str(), &email, client]) }
    }

    /// One who signs up: each email that is taken is an answer that they should not get often.
    pub(super) fn of_signup(app: &App, address: &str) -> Self {
        Self { mac: app.vault.guesser_mac(&["signup", "", address]) }
    }

    /// Refuses one who has to wait.
    pub(super) async fn must_not_wait(&self, app: &App) -> Result<(), Error> {
        self.known(app).await.map(drop)
    }

    /// Counts an attempt as failed before it is looked at, so that guesses sent all at once are no
    /// cheaper than one after the other. A success is to [`Self::forgive`]. Answers the failures
    /// so far.
    pub(super) async fn count(&self, app: &App) -> Result<i64, Error> {
        for _ in 0..COUNT_TRIES {
            let known = self.known(app).await?;
            let now = app.now();
            let failures = known.failures_at(now) + 1;
            let mut set = WriteSet::of("failed_logins");
            let next = now + wait_after(failures);
            let args = args![self.mac, failures, next, now, known.count, known.failed_at];
            set.guard(sql::COUNT_FAILURE, args, RACED);
            match app.db.commit(set).await {
                Ok(_) => return Ok(failures),
                Err(CommitError::Rejected(RACED)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooManyLogins { wait_s: 1 })
    }

    /// Forgets the failures, in the write set of what was proved.
    pub(super) fn forgive(&self, set: &mut WriteSet) {
        set.push(sql::FORGIVE_FAILURES, args![self.mac]);
    }

    async fn known(&self, app: &App) -> Result<sql::Failures, Error> {
        let row: Option<sql::Failures> = app.db.row(sql::FAILURES, args![self.mac]).await?;
        let known = row.unwrap_or_default();
        // A failure in the future was noted by a clock that was wrong.
        let is_odd = known.failed_at - app.now() > CLOCKS_DIFFER_MS;
        let wait_ms = if is_odd { 0 } else { known.next_try_at - app.now() };
        if wait_ms > 0 { Err(Error::TooManyLogins { wait_s: seconds(wait_ms) }) } else { Ok(known) }
    }
}

impl sql::Failures {
    fn failures_at(&self, now: Millis) -> i64 {
        if now - self.failed_at < LIFE { self.count } else { 0 }
    }
}

/// Milliseconds to wait after so many failures: none, then 1 s and twice as long each time.
fn wait_after(failures: i64) -> i64 {
    let over = failures - FREE_FAILURES;
    if over < 0 {
        return 0;
    }
    let doubled = u32::try_from(over).ok().and_then(|over| 1_000_i64.checked_shl(over.min(20)));
    doubled.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
}

/// Whole seconds, rounded up.
const fn seconds(ms: i64) -> i64 {
    (ms + 999) / 1_000
}

#[cfg(test)]
mod tests {
    use super::{LIFE, LONGEST_WAIT, seconds, wait_after};

    #[test]
    fn four_failures_are_free_and_then_each_doubles_the_wait() {
        assert_eq!((0..=4).map(wait_after).max(), Some(0));
        assert_eq!(wait_after(5), 1_000);
        assert_eq!(wait_after(6), 2_000);
        assert_eq!(wait_after(14), 512_000);
        for failures in [15, 30, 200, i64::MAX] {
            assert_eq!(wait_after(failures), LONGEST_WAIT, "{failures}");
        }
        const { assert!(LONGEST_WAIT < LIFE, "a wait is never forgotten") };
    }

    #[test]
    fn a_part_of_a_second_is_waited_as_a_whole_one() {
        assert_eq!((seconds(1), seconds(1_000), seconds(1_001)), (1, 1, 2));
    }
}
