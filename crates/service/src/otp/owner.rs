//! Passcodes as a channel of their own: what goes out, what follows a leg that failed, and what the
//! news of an attempt mean for the challenge.

use store::{Error, WriteSet};

use super::code::code_of;
use super::store::{self as sql, NextLeg};
use super::wording::Wording;
use super::{Challenge, Reason, Status, events, fraud, late, limits};
use crate::app::App;
use crate::carriers::{Address, Channel, Content, Outbound};
use crate::chatapp::{self, Wanted};
use crate::dispatch::recipients::is_number;
use crate::dispatch::{Attempt, Ending, Failure, News, Owner, State, Then};
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;

/// How soon a fallback that could not be made is tried again, milliseconds.
pub(super) const OWED_MS: i64 = 2_000;

/// The channel of passcodes.
pub struct Otp;

impl Owner for Otp {
    const KIND: &'static str = "otp";
    const KEEPS_TIME: bool = true;
    type Message = Challenge;

    fn reason(channel: Channel) -> &'static str {
        match channel {
            Channel::Chatapp => "otp.chatapp",
            Channel::Sms | Channel::Email => "otp.sms",
        }
    }

    async fn load(app: &App, account: &AccountId, id: &str) -> Result<Option<Challenge>, Error> {
        match ChallengeId::parse(id) {
            Some(id) => sql::challenge(app, account, &id).await,
            None => Ok(None),
        }
    }

    fn content(app: &App, challenge: &Challenge, attempt: &Attempt) -> Option<Outbound> {
        let code = code_of(app, challenge)?;
        let wording = Wording::of_stored(&challenge.wording);
        Some(Outbound {
            account_id: challenge.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
            priority: attempt.priority,
            to: recipient(challenge),
            sender: wording.sender.clone(),
            content: Content::Passcode {
                text: Secret::new(wording.text(code.expose())),
                template: wording.template(),
                code,
            },
            valid_until: challenge.expires_at,
        })
    }

    fn wait_ms(app: &App) -> u64 {
        app.config.otp.receipt_wait_ms
    }

    /// The chat-app accepts messages to people whom it cannot reach: only a receipt knows.
    fn waits_on(channel: Channel) -> bool {
        channel == Channel::Chatapp
    }

    fn may_name(challenge: &Challenge) -> bool {
        is_number(&challenge.recipient)
    }

    fn number(challenge: &Challenge) -> Option<&str> {
        is_number(&challenge.recipient).then_some(challenge.recipient.as_str())
    }

    fn may_fall_back(app: &App, challenge: &Challenge, attempt: &Attempt) -> bool {
        let is_current = challenge.attempt == attempt.id;
        is_current && challenge.falls_back() && challenge.is_open(app.now())
    }

    fn after(app: &App, challenge: &Challenge, attempt: &Attempt, _: &Failure) -> Then {
        let to = recipient(challenge);
        let account = challenge.account.as_str();
        let leads = |number| app.carriers.leads(Channel::Sms, account, number);
        if !Self::may_fall_back(app, challenge, attempt) {
            return Then::End;
        }
        let is_elsewhere = challenge.fallback.is_promised() && app.config.database.is_shared();
        if is_elsewhere && !app.carriers.offers(Channel::Sms, account) {
            return Then::Owed;
        }
        if !to.phone().is_some_and(leads) {
            return Then::End;
        }
        Then::Leg { channel: Channel::Sms, category: "authentication", to }
    }

    /// The fallback took its place, and may fail: then the code is good as long as this attempt
    /// may have brought it.
    fn may_arrive_late(challenge: &Challenge, attempt: &Attempt) -> bool {
        challenge.attempt != attempt.id
    }

    fn adopt(
        app: &App,
        set: &mut WriteSet,
        challenge: &mut Challenge,
        leg: &Attempt,
        why: &Failure,
    ) {
        note_unreachable(app, set, challenge, challenge.channel, why);
        let (mode, asks_consent) = (challenge.mode, challenge.asks_consent);
        let next = NextLeg { attempt: leg, mode, fallback_used: true, asks_consent };
        sql::next_leg(set, challenge, next, app.now());
        limits::count_fallback(app, set, challenge);
        *challenge = challenge.carried_by(leg, true);
    }

    fn decide(
        app: &App,
        set: &mut WriteSet,
        challenge: &mut Challenge,
        attempt: &Attempt,
        news: News<'_>,
    ) {
        if let News::Over(Ending { why, .. }) | News::Owed(why) = news {
            note_unreachable(app, set, challenge, attempt.channel, why);
        }
        if challenge.attempt != attempt.id {
            earlier(app, set, challenge, attempt, news);
            return;
        }
        match news {
            News::Accepted { provider_id } => {
                sql::settle(set, challenge, provider_id, Status::Sent, next_visit(app, challenge));
                events::stands(app, set, challenge, Status::Sent);
                provider_id.clone_into(&mut challenge.provider_message_id);
                challenge.settled = true;
            }
            News::Read { .. } if attempt.state == State::Delivered => {}
            News::Delivered { provider_id } | News::Read { provider_id } => {
                delivered(app, set, challenge, attempt, provider_id);
            }
            News::Unknown => {
                sql::postpone(set, challenge, next_visit(app, challenge));
                events::stands(app, set, challenge, Status::Sent);
            }
            News::Over(ending) => {
                over(app, set, challenge, ending);
                if !ending.is_last && attempt.state == State::Sending && challenge.fallback_used {
                    sql::turned_to(set, challenge);
                    events::stands(app, set, challenge, Status::Sent);
                }
            }
            News::Owed(_) => {
                // A node that has SMS, if it is not this one, need not wait.
                let is_here = app.carriers.offers(Channel::Sms, challenge.account.as_str());
                let wait_ms = if is_here { OWED_MS } else { 0 };
                sql::leg_over(set, challenge, challenge.expires_at.min(app.now() + wait_ms));
            }
            // Passcodes go out inline: there is no later.
            News::Retry { .. } => {}
        }
    }

    fn count(app: &App, challenge: &Challenge, attempt: &Attempt, news: News<'_>) {
        if !attempt.state.is_held() || !is_number(&challenge.recipient) {
            return;
        }
        match news {
            // It went nowhere, or waited in vain until its time was over.
            News::Over(Ending { is_last: true, .. })
                if matches!(attempt.state, State::Sending | State::Queued) =>
            {
                let to = Msisdn::stored(challenge.recipient.clone());
                fraud::take_back(app, &challenge.account, to);
            }
            News::Unknown | News::Over(_) | News::Owed(_) | News::Retry { .. } => {}
            // The first word that the carrier has it, whichever that is.
            News::Accepted { .. } | News::Delivered { .. } | News::Read { .. } => {
                fraud::taken(app, &challenge.recipient, &attempt.carrier);
            }
        }
    }
}

fn recipient(challenge: &Challenge) -> Address {
    Address::Phone(Msisdn::stored(challenge.recipient.clone()))
}

/// News of an attempt that another took the place of: it brought the code, or has failed as well,
/// perhaps as the last.
fn earlier(
    app: &App,
    set: &mut WriteSet,
    challenge: &mut Challenge,
    attempt: &Attempt,
    news: News<'_>,
) {
    match news {
        News::Over(ending) if !challenge.falls_back() => over_at_last(app, set, challenge, ending),
        News::Delivered { provider_id } | News::Read { provider_id } => {
            late::arrived(app, set, challenge, attempt, provider_id);
        }
        _ => {}
    }
}

fn delivered(
    app: &App,
    set: &mut WriteSet,
    challenge: &mut Challenge,
    attempt: &Attempt,
    provider_id: Option<&str>,
) {
    let provider_id = provider_id.unwrap_or(&challenge.provider_message_id).to_owned();
    if attempt.state == State::Sending {
        events::went_out(app, set, challenge, &provider_id);
    }
    sql::settle(set, challenge, &provider_id, Status::Delivered, challenge.expires_at);
    events::stands(app, set, challenge, Status::Delivered);
    // Nobody asks who is erased, or whose passcode has ended badly since.
    let is_good = matches!(challenge.status, Status::Sent | Status::Delivered | Status::Verified);
    let may_ask = challenge.asks_consent && is_good && is_number(&challenge.recipient);
    if may_ask && attempt.channel == Channel::Chatapp {
        ask_consent(app, set, challenge);
    }
    challenge.provider_message_id = provider_id;
    if challenge.status == Status::Sent {
        challenge.status = Status::Delivered;
    }
    challenge.settled = true;
}

/// The person has the passcode on the chat-app, so they can be asked there.
fn ask_consent(app: &App, set: &mut WriteSet, challenge: &Challenge) {
    let language = Wording::of_stored(&challenge.wording).language;
    let wanted = Wanted {
        account: &challenge.account,
        challenge_id: challenge.id.as_str(),
        recipient: &challenge.recipient,
        language: &language,
    };
    chatapp::want(app, set, wanted);
}

fn over(app: &App, set: &mut WriteSet, challenge: &mut Challenge, ending: &Ending) {
    over_at_last(app, set, challenge, ending);
    sql::leg_over(set, challenge, challenge.expires_at);
    if !ending.is_last && challenge.falls_back() {
        sql::no_more_ways(set, challenge);
    }
}

/// Nothing brought it, and nothing may bring it any more. One whose time is over has expired, as
/// whoever read it was told: due work says so.
fn over_at_last(app: &App, set: &mut WriteSet, challenge: &mut Challenge, ending: &Ending) {
    if !ending.is_last || app.now() >= challenge.expires_at {
        return;
    }
    let reason = Reason::of_ending(ending);
    sql::fail(set, challenge, reason);
    events::failed(app, set, challenge, reason);
    if challenge.status == Status::Sent {
        challenge.status = Status::Failed;
        challenge.failure_reason = Some(reason);
    }
}

/// Remembers that the chat-app refused the recipient, if that is why.
fn note_unreachable(
    app: &App,
    set: &mut WriteSet,
    challenge: &Challenge,
    channel: Channel,
    why: &Failure,
) {
    if channel == Channel::Chatapp && why.is_unreachable() {
        limits::remember_unreachable(app, set, challenge);
    }
}

/// When a challenge needs a visit after a submission: the watchdog's time, or its end.
fn next_visit(app: &App, challenge: &Challenge) -> clock::Millis {
    if challenge.falls_back() {
        challenge.expires_at.min(app.now() + challenge.fallback.after_ms())
    } else {
        challenge.expires_at
    }
}

impl Reason {
    /// Why a challenge failed that ended so.
    pub(super) fn of_ending(ending: &Ending) -> Self {
        if ending.is_unpaid {
            return Self::InsufficientCredits;
        }
        match ending.why.state {
            _ if ending.why.is_unreachable() => Self::Unreachable,
            State::Refused => Self::CarrierError,
            _ => Self::Undelivered,
        }
    }
}
