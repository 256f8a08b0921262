//! What is remembered of a recipient: how often it was sent to, how often its codes were guessed
//! wrong, and whether the chat-app refused it. One row for each, changed in the write set of what
//! it counts.
//!
//! Limits hold on live. Wrong guesses are counted over all challenges of a recipient: whoever
//! guesses at one after the other gets no further than `otp.wrong_guesses_per_day`, and then to one
//! challenge an hour. Sends are not refused altogether, or strangers could lock a person out.

mod store;

use ::store::{Reject, WriteSet, args};
use clock::{DAY, HOUR, MINUTE, Millis};

use self::store as sql;
use super::{Challenge, Error};
use crate::app::{App, Env};
use crate::carriers::Channel;
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::msisdn::Msisdn;

/// One of the recipient's limits is reached.
pub(super) const LIMITED: Reject = Reject("otp_limited");
/// How long an unreachable recipient is remembered, milliseconds.
const UNREACHABLE_MS: i64 = DAY;
/// Digits of an instant in `recipients.wrong_at`, good from 2001 to 2286.
const INSTANT_DIGITS: usize = 13;

/// To whom a send goes, and how.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) account: &'a AccountId,
    pub(super) to: &'a Msisdn,
    pub(super) channel: Channel,
}

/// What a recipient's limits go by, milliseconds since 1970; 0 = never.
#[derive(Clone, Debug, Default)]
struct Sends {
    by_chatapp: i64,
    by_sms: i64,
    /// The last ten sends, newest first.
    last: [i64; 10],
    /// The last wrong guesses, 13 digits each, newest first.
    wrong: String,
}

impl Sends {
    /// The `nth` newest send.
    fn nth(&self, nth: u32) -> i64 {
        self.last.get(nth.clamp(1, 10) as usize - 1).copied().unwrap_or(0)
    }

    /// The `nth` newest wrong guess.
    fn nth_wrong(&self, nth: u32) -> i64 {
        let start = INSTANT_DIGITS * (nth.clamp(1, 20) as usize - 1);
        let digits = self.wrong.get(start..start + INSTANT_DIGITS);
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

/// Counts a send; the set is refused with [`LIMITED`] if a limit is reached.
pub(super) fn count_send(app: &App, set: &mut WriteSet, way: Way<'_>) {
    if app.env != Env::Live {
        return;
    }
    let (now, limits) = (app.now(), &app.config.otp);
    let at = |wanted| if way.channel == wanted { now.0 } else { 0 };
    // Where in the log of wrong guesses the one is that fills the budget.
    let nth = i64::from(limits.wrong_guesses_per_day.clamp(1, 20)) - 1;
    let guess = i64::try_from(INSTANT_DIGITS).unwrap_or_default() * nth + 1;
    let args = args![
        way.account,
        way.to.e164(),
        at(Channel::Chatapp),
        at(Channel::Sms),
        now,
        limits.recipient_per_10_min,
        now - 10 * MINUTE,
        limits.recipient_per_day,
        now - DAY,
        now - limits.resend_after_s * 1000,
        now - HOUR,
        guess
    ];
    set.contended(sql::COUNT_SEND, args, LIMITED);
}

/// Counts a fallback: it is part of a send that was let through, and counts against later ones.
pub(super) fn count_fallback(app: &App, set: &mut WriteSet, challenge: &Challenge) {
    if app.env == Env::Live {
        set.push_contended(
            sql::COUNT_FALLBACK,
            args![app.now(), &challenge.account, challenge.recipient.as_str()],
        );
    }
}

/// Counts the guess that this set has judged, if it was wrong.
pub(super) fn count_guess(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    challenge: &ChallengeId,
) {
    if app.env == Env::Live {
        set.push_contended(sql::COUNT_WRONG_GUESS, args![app.now(), account, challenge]);
    }
}

/// Which limit refused a send, and for how long.
///
/// # Errors
/// When the database cannot be read.
pub(super) async fn which(app: &App, way: Way<'_>) -> Result<Error, ::store::Error> {
    let (now, limits) = (app.now(), &app.config.otp);
    let args = args![way.account, way.to.e164()];
    let sends: Sends = app.db.row(sql::LIMITS, args).await?.unwrap_or_default();
    let seconds = |ms: i64| (ms + 999).div_euclid(1000).max(1);
    let on_channel = match way.channel {
        Channel::Chatapp => sends.by_chatapp,
        Channel::Sms | Channel::Email => sends.by_sms,
    };
    let too_soon = on_channel + limits.resend_after_s * 1000 - now.0;
    if too_soon > 0 {
        return Ok(Error::ResendTooSoon { wait_s: seconds(too_soon) });
    }
    let soon = sends.nth(limits.recipient_per_10_min) + 10 * MINUTE - now.0;
    let late = sends.nth(limits.recipient_per_day) + DAY - now.0;
    let is_guessed_at = sends.nth_wrong(limits.wrong_guesses_per_day) > (now - DAY).0;
    let apart = if is_guessed_at { sends.nth(1) + HOUR - now.0 } else { 0 };
    let many = soon.max(late);
    Ok(if apart > many {
        Error::GuessLimit { wait_s: seconds(apart) }
    } else {
        Error::RecipientLimit { wait_s: seconds(many) }
    })
}

/// Whether the chat-app refused the recipient within the last day.
///
/// # Errors
/// When the database cannot be read.
pub(super) async fn is_unreachable(
    app: &App,
    account: &AccountId,
    recipient: &str,
) -> Result<bool, ::store::Error> {
    let until = app.db.row::<(Millis,)>(sql::UNREACHABLE, args![account, recipient]).await?;
    Ok(until.is_some_and(|(until,)| until > app.now()))
}

/// Remembers for a day that the chat-app refused the recipient.
pub(super) fn remember_unreachable(app: &App, set: &mut WriteSet, challenge: &Challenge) {
    let until = app.now() + UNREACHABLE_MS;
    set.push_contended(
        sql::REMEMBER_UNREACHABLE,
        args![&challenge.account, challenge.recipient.as_str(), until],
    );
}
