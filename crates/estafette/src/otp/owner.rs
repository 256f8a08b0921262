//! Passcodes as a channel of their own: what goes out, what follows a leg that failed, and what the
//! news of an attempt mean for the challenge.

use store::{Error, WriteSet};

use super::code::code_of;
use super::store::{self as sql, NextLeg};
use super::wording::Wording;
use super::{Challenge, Reason, Status, events, limits};
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

    fn content(app: &App, c: &Challenge, a: &Attempt) -> Option<Outbound> {
        let code = code_of(app, c)?;
        let wording = Wording::of_stored(&c.wording);
        Some(Outbound {
            account_id: c.account.as_str().to_owned(),
            attempt_id: a.id.as_str().to_owned(),
            to: recipient(c),
            sender: wording.sender.clone(),
            content: Content::Passcode {
                text: Secret::new(wording.text(code.expose())),
                template: wording.template(),
                code,
            },
            valid_until: c.expires_at,
        })
    }

    fn wait_ms(app: &App) -> u64 {
        app.config.otp.receipt_wait_ms
    }

    /// The chat-app accepts messages to people whom it cannot reach: only a receipt knows.
    fn waits_on(channel: Channel) -> bool {
        channel == Channel::Chatapp
    }

    fn may_name(c: &Challenge) -> bool {
        is_number(&c.recipient)
    }

    fn number(c: &Challenge) -> Option<&str> {
        is_number(&c.recipient).then_some(c.recipient.as_str())
    }

    fn after(app: &App, c: &Challenge, a: &Attempt, _: &Failure) -> Then {
        let is_current = c.attempt == a.id;
        let can_fall_back = c.falls_back() && c.is_open(app.now());
        if !is_current || !can_fall_back || !app.carriers.offers(Channel::Sms, c.account.as_str()) {
            return Then::End;
        }
        Then::Leg { channel: Channel::Sms, category: "authentication", to: recipient(c) }
    }

    fn adopt(app: &App, set: &mut WriteSet, c: &mut Challenge, (leg, why): (&Attempt, &Failure)) {
        note_unreachable(app, set, c, c.channel, why);
        let (mode, asks_consent) = (c.mode, c.asks_consent);
        let next = NextLeg { attempt: leg, mode, fallback_used: true, asks_consent };
        sql::next_leg(set, c, next, app.now());
        limits::count_fallback(app, set, c);
        *c = c.carried_by(leg, true);
    }

    fn decide(app: &App, set: &mut WriteSet, c: &mut Challenge, a: &Attempt, news: News<'_>) {
        if let News::Over(Ending { why, .. }) | News::Owed(why) = news {
            note_unreachable(app, set, c, a.channel, why);
        }
        // News of an attempt that another took the place of change nothing else.
        if c.attempt != a.id {
            return;
        }
        match news {
            News::Accepted { provider_id } => {
                sql::settle(set, c, provider_id, Status::Sent, next_visit(app, c));
                events::stands(app, set, c, Status::Sent);
                provider_id.clone_into(&mut c.provider_message_id);
                c.settled = true;
            }
            News::Read { .. } if a.state == State::Delivered => {}
            News::Delivered { provider_id } | News::Read { provider_id } => {
                delivered(app, set, c, a, provider_id);
            }
            News::Unknown => {
                sql::postpone(set, c, next_visit(app, c));
                events::stands(app, set, c, Status::Sent);
            }
            News::Over(ending) => over(app, set, c, ending),
            News::Owed(_) => sql::leg_over(set, c, c.expires_at.min(app.now() + OWED_MS)),
            // Passcodes go out inline: there is no later.
            News::Retry { .. } => {}
        }
    }
}

fn recipient(c: &Challenge) -> Address {
    Address::Phone(Msisdn::stored(c.recipient.clone()))
}

fn delivered(
    app: &App,
    set: &mut WriteSet,
    c: &mut Challenge,
    a: &Attempt,
    provider_id: Option<&str>,
) {
    let provider_id = provider_id.unwrap_or(&c.provider_message_id).to_owned();
    if a.state == State::Sending {
        events::went_out(app, set, c, &provider_id);
    }
    sql::settle(set, c, &provider_id, Status::Delivered, c.expires_at);
    events::stands(app, set, c, Status::Delivered);
    if c.asks_consent && a.channel == Channel::Chatapp {
        ask_consent(app, set, c);
    }
    c.provider_message_id = provider_id;
    if c.status == Status::Sent {
        c.status = Status::Delivered;
    }
    c.settled = true;
}

/// The person has the passcode on the chat-app, so they can be asked there.
fn ask_consent(app: &App, set: &mut WriteSet, c: &Challenge) {
    let language = Wording::of_stored(&c.wording).language;
    let wanted = Wanted {
        account: &c.account,
        challenge_id: c.id.as_str(),
        recipient: &c.recipient,
        language: &language,
    };
    chatapp::want(app, set, wanted);
}

fn over(app: &App, set: &mut WriteSet, c: &mut Challenge, ending: &Ending) {
    let reason = Reason::of_ending(ending);
    if ending.is_last {
        sql::fail(set, c, reason);
        events::failed(app, set, c, reason);
        if c.status == Status::Sent {
            c.status = Status::Failed;
            c.failure_reason = Some(reason);
        }
    }
    sql::leg_over(set, c, c.expires_at);
}

/// Remembers that the chat-app refused the recipient, if that is why.
fn note_unreachable(app: &App, set: &mut WriteSet, c: &Challenge, channel: Channel, why: &Failure) {
    if channel == Channel::Chatapp && why.is_unreachable() {
        limits::remember_unreachable(app, set, c);
    }
}

/// When a challenge needs a visit after a submission: the watchdog's time, or its end.
fn next_visit(app: &App, c: &Challenge) -> clock::Millis {
    if c.falls_back() { c.expires_at.min(app.now() + c.fallback_ms) } else { c.expires_at }
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
