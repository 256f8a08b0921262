//! Sending: what is asked for and commit A. [`carry`] takes it from there.

use std::time::Duration;

use clock::Millis;
use store::{CommitError, WriteSet};

use super::code::{code_of, mac, new_code, seal};
use super::settle::{self, Failure};
use super::store::{self as sql, NewChallenge};
use super::wording::Wording;
use super::{Attempt, Challenge, Error, LIMITED, STALE, carry};
use crate::access::idempotency::{Claim, SEEN};
use crate::app::{Account, App, Env};
use crate::carriers::Channel;
use crate::credits;
use crate::kit::id::ChallengeId;
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;
use crate::senders;

/// Times that a decision is made anew because another was faster.
const RETRIES: u32 = 40;

/// Which channels may carry a passcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Auto,
    Only(Channel),
}

impl Mode {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Only(channel) => channel.word(),
        }
    }
}

/// A passcode to send, checked.
pub(super) struct Order {
    pub(super) to: Msisdn,
    pub(super) reference: Option<String>,
    pub(super) code: Option<Secret>,
    pub(super) code_length: u32,
    pub(super) mode: Mode,
    pub(super) sender: Option<String>,
    pub(super) template: Option<String>,
    pub(super) language: Option<String>,
}

impl Order {
    /// What at most one open challenge of an account has: recipient and reference.
    fn slot(&self) -> String {
        format!("{}|{}", self.to.e164(), self.reference.as_deref().unwrap_or(""))
    }
}

/// Sends a passcode. Answers the challenge as it stands when this is known or the wait is over.
pub(super) async fn send(
    app: &App,
    account: &Account,
    order: &Order,
    claim: &Claim,
) -> Result<Challenge, Error> {
    check(app, account, order).await?;
    let mut tries = 0;
    let (challenge, attempt) = loop {
        // Most recipients have no past. The first try trusts in that, and its guard tells.
        let past = if tries == 0 { Past::None } else { Past::read(app, account, order).await? };
        match begin(app, account, order, claim, past).await {
            Err(Error::Commit(CommitError::Rejected(STALE))) if tries < RETRIES => {
                if tries > 0 {
                    tokio::time::sleep(Duration::from_millis(25)).await;
                }
                tries += 1;
            }
            Err(Error::Commit(CommitError::Rejected(STALE))) => {
                return Err(Error::ResendTooSoon { wait_s: 1 });
            }
            other => break other?,
        }
    };
    let id = challenge.id.clone();
    match carry::run(app, challenge, attempt).await? {
        Some(challenge) => Ok(challenge),
        None => sql::challenge(app, &account.id, &id).await?.ok_or(Error::Unknown),
    }
}

/// What a send with the same Idempotency-Key made, as it stands now.
pub(super) async fn seen(app: &App, account: &Account, id: &str) -> Result<Challenge, Error> {
    let id = ChallengeId::parse(id).ok_or(Error::Unknown)?;
    let challenge = sql::challenge(app, &account.id, &id).await?.ok_or(Error::Unknown)?;
    // Only while its request waits here. One that was answered when its wait was over is not taken
    // back, not even after a crash; another node says how the challenge stands.
    let may_run = !challenge.settled && challenge.status == super::Status::Sent;
    if may_run && app.carriers.inbox().is_waiting(challenge.attempt.as_str()) {
        let attempt = sql::attempt(app, &account.id, &challenge.attempt).await?;
        if attempt.is_some_and(|attempt| attempt.state == "sending") {
            return Err(Error::InProgress);
        }
    }
    Ok(challenge)
}

/// What can be refused before anything is read or written.
async fn check(app: &App, account: &Account, order: &Order) -> Result<(), Error> {
    if let Some(countries) = &account.settings.countries
        && !countries.iter().any(|country| country == order.to.country())
    {
        return Err(Error::CountryNotAllowed(order.to.country().to_owned()));
    }
    if let Some(sender) = &order.sender
        && !senders::is_approved(app, &account.id, sender).await?
    {
        return Err(Error::SenderNotApproved);
    }
    let has = |channel| app.carriers.on(channel).is_some();
    match order.mode {
        Mode::Only(channel) if !has(channel) => Err(Error::NoCarrier(channel.word())),
        Mode::Auto if !has(Channel::Chatapp) && !has(Channel::Sms) => {
            Err(Error::NoCarrier("chatapp or sms"))
        }
        _ => Ok(()),
    }
}

/// What was there before a send.
enum Past {
    /// Nothing, as far as is known: the database refuses if that is wrong.
    None,
    /// What was read.
    Read {
        /// The challenge in the slot, open or not.
        found: Option<Box<Challenge>>,
        /// Whether the recipient is known as unreachable on the chat-app.
        unreachable: bool,
    },
}

impl Past {
    async fn read(app: &App, account: &Account, order: &Order) -> Result<Self, Error> {
        let found = sql::open_in_slot(app, &account.id, &order.slot()).await?;
        let until = sql::unreachable_until(app, &account.id, order.to.e164()).await?;
        Ok(Self::Read { found: found.map(Box::new), unreachable: until > app.now() })
    }

    fn found(&self) -> Option<&Challenge> {
        if let Self::Read { found, .. } = self { found.as_deref() } else { None }
    }
}

/// Where the first attempt goes, and whether that is a fallback already.
fn first_channel(app: &App, order: &Order, past: &Past) -> (Channel, bool) {
    let known_unreachable = matches!(past, Past::Read { unreachable: true, .. });
    match order.mode {
        Mode::Only(channel) => (channel, false),
        Mode::Auto if app.carriers.on(Channel::Sms).is_none() => (Channel::Chatapp, false),
        Mode::Auto if app.carriers.on(Channel::Chatapp).is_none() => (Channel::Sms, true),
        Mode::Auto if known_unreachable => (Channel::Sms, true),
        Mode::Auto => (Channel::Chatapp, false),
    }
}

/// Commit A: the challenge, its attempt, the hold on the price and the limits, all or nothing.
async fn begin(
    app: &App,
    account: &Account,
    order: &Order,
    claim: &Claim,
    past: Past,
) -> Result<(Challenge, Attempt), Error> {
    let now = app.now();
    let (channel, fallback) = first_channel(app, order, &past);
    let price = credits::price(app, channel.word(), "authentication", order.to.country()).await?;
    let open = past.found().filter(|challenge| challenge.is_open(now));
    let id = open.map_or_else(|| ChallengeId::new(&app.clock), |open| open.id.clone());
    let attempt = settle::new_attempt(app, id.clone(), channel, price);

    let mut set = WriteSet::of(account.id.as_str());
    let slot = order.slot();
    if matches!(past, Past::None) {
        sql::no_past(&mut set, &account.id, &order.to, &slot, now);
    }
    claim.add_to(&mut set, id.as_str(), None, now);
    if app.env == Env::Live {
        count_send(app, account, &mut set, (&order.to, channel), now);
    }
    let challenge = if let Some(open) = open {
        // What the last leg still holds is free before this one's price is held.
        let challenge = resend(app, &mut set, open, order, (account, &attempt, fallback)).await?;
        credits::hold(app, &mut set, &account.id, &attempt.charge());
        challenge
    } else {
        credits::hold(app, &mut set, &account.id, &attempt.charge());
        if let Some(stale) = past.found() {
            sql::free_slot(&mut set, stale, now);
        }
        create(app, &mut set, account, order, (&slot, &attempt, fallback))
    };
    sql::insert_attempt(&mut set, &account.id, &attempt, now);
    match app.db.commit(set).await {
        Ok(_) => Ok((challenge, attempt)),
        Err(CommitError::Rejected(SEEN)) => Err(Error::InProgress),
        Err(CommitError::Rejected(LIMITED)) => {
            Err(limit(app, account, (&order.to, channel), now).await?)
        }
        Err(CommitError::Rejected(credits::INSUFFICIENT)) => {
            Err(credits::insufficient(app, &account.id, price).await.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn create(
    app: &App,
    set: &mut WriteSet,
    account: &Account,
    order: &Order,
    place: (&str, &Attempt, bool),
) -> Challenge {
    let (slot, attempt, fallback_used) = place;
    let (now, config, settings) = (app.now(), &app.config.otp, &account.settings);
    let code = order.code.clone().unwrap_or_else(|| new_code(app, order.code_length));
    let wording = Wording {
        language: Wording::language_for(order.language.clone(), order.to.country()),
        sender: order.sender.clone().or(settings.default_sender.clone()).unwrap_or_default(),
        template: order.template.clone().unwrap_or_default(),
    };
    let challenge = Challenge {
        account: account.id.clone(),
        id: attempt.challenge.clone(),
        recipient: order.to.e164().to_owned(),
        reference: order.reference.clone(),
        mode: order.mode.word().to_owned(),
        channel: attempt.channel,
        status: super::Status::Sent,
        failure_reason: None,
        attempt: attempt.id.clone(),
        provider_message_id: attempt.id.as_str().to_owned(),
        attempts: 0,
        max_attempts: config.max_attempts,
        fallback_used,
        fallback_ms: settings.otp_fallback_after_s.unwrap_or(config.fallback_after_s) * 1000,
        settled: false,
        wording: wording.to_stored(),
        expires_at: now + validity_ms(app, account),
        verified_at: None,
        created_at: now,
        code_sealed: Some(seal(app, &account.id, &attempt.challenge, &code)),
    };
    let new = NewChallenge {
        account: &account.id,
        id: &challenge.id,
        recipient: &order.to,
        reference: order.reference.as_deref(),
        slot,
        mode: order.mode.word(),
        channel: attempt.channel,
        attempt: &attempt.id,
        code_mac: mac(app, &account.id, &challenge.id, &code),
        code_sealed: challenge.code_sealed.clone().unwrap_or_default(),
        max_attempts: challenge.max_attempts,
        fallback_used,
        fallback_ms: challenge.fallback_ms,
        wording: challenge.wording.clone(),
        expires_at: challenge.expires_at,
        created_at: now,
        next_at: attempt.lease_until,
    };
    sql::insert(set, new);
    challenge
}

/// How long a code is good from now.
fn validity_ms(app: &App, account: &Account) -> i64 {
    account.settings.otp_validity_s.unwrap_or(app.config.otp.validity_s) * 1000
}

/// The same challenge goes out again; an explicit other code takes the old one's place.
async fn resend(
    app: &App,
    set: &mut WriteSet,
    open: &Challenge,
    order: &Order,
    leg: (&Account, &Attempt, bool),
) -> Result<Challenge, Error> {
    let (account, attempt, fallback_used) = leg;
    let now = app.now();
    if !open.settled {
        let stale = || Error::Commit(CommitError::Rejected(STALE));
        let last = sql::attempt(app, &open.account, &open.attempt).await?.ok_or_else(stale)?;
        if last.state == "sending" && now < last.lease_until {
            return Err(stale());
        }
        if settle::is_held(&last) {
            set.append(settle::give_back(app, open, &last, &Failure::silence()));
        }
    }
    sql::next_leg(set, open, attempt, fallback_used, now);
    let mut challenge = Challenge {
        attempt: attempt.id.clone(),
        provider_message_id: attempt.id.as_str().to_owned(),
        channel: attempt.channel,
        fallback_used,
        settled: false,
        mode: open.mode.clone(),
        ..open.clone()
    };
    if let Some(code) = &order.code
        && code_of(app, open).as_ref() != Some(code)
    {
        let sealed = seal(app, &open.account, &open.id, code);
        challenge.code_sealed = Some(sealed.clone());
        challenge.expires_at = now + validity_ms(app, account);
        let mac = mac(app, &open.account, &open.id, code);
        sql::recode(set, open, mac, sealed, challenge.expires_at);
    }
    Ok(challenge)
}

fn count_send(
    app: &App,
    account: &Account,
    set: &mut WriteSet,
    place: (&Msisdn, Channel),
    now: Millis,
) {
    let config = &app.config.otp;
    let (per_10_min, per_day) = (config.recipient_per_10_min, config.recipient_per_day);
    let limits = (per_10_min.into(), per_day.into(), config.resend_after_s * 1000);
    sql::count_send(set, (&account.id, place.0, place.1), limits, now);
}

/// Which limit refused, and for how long.
async fn limit(
    app: &App,
    account: &Account,
    place: (&Msisdn, Channel),
    now: Millis,
) -> Result<Error, Error> {
    let config = &app.config.otp;
    let sends = sql::sends(app, &account.id, place.0).await?.unwrap_or_default();
    let seconds = |ms: i64| (ms + 999).div_euclid(1000).max(1);
    let on_channel = sends[usize::from(place.1 == Channel::Sms)];
    let too_soon = on_channel + config.resend_after_s * 1000 - now.0;
    if too_soon > 0 {
        return Ok(Error::ResendTooSoon { wait_s: seconds(too_soon) });
    }
    let nth = |count: u32| sends.get(1 + count.clamp(1, 10) as usize).copied().unwrap_or(0);
    let soon = nth(config.recipient_per_10_min) + 10 * clock::MINUTE - now.0;
    let late = nth(config.recipient_per_day) + clock::DAY - now.0;
    Ok(Error::RecipientLimit { wait_s: seconds(soon.max(late)) })
}
