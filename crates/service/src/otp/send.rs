//! Sending: what is asked for and commit A. [`carry_until`] takes it from there.

use std::time::Duration;

use store::{CommitError, WriteSet};
use tokio::time::Instant;

use super::code::{code_of, mac, new_code, seal};
use super::limits::{self, LIMITED, Way};
use super::order::Order;
use super::owner::Otp;
use super::store::{self as sql, NewChallenge, NextLeg};
use super::wording::Wording;
use super::{Challenge, Error, Fallback, Mode, Reason, STALE, Status, fraud, sender};
use crate::access::idempotency::{Claim, Seen};
use crate::app::{Account, App};
use crate::carriers::{Address, Channel, Priority, Refusal, Rehearsed};
use crate::credits;
use crate::dispatch::{self, Attempt, Carried, Failure, Leg, NewLeg, State, carry_until};
use crate::kit::conversion::Excess;
use crate::kit::id::ChallengeId;
use crate::senders;

/// Times that a decision is made anew because another was faster.
const RETRIES: u32 = 40;
/// How long it may take at the end to read how a send stands, milliseconds.
const LAST_LOOK_MS: u64 = 2_000;

/// What a send came to.
pub(super) struct Sent {
    /// The challenge, as far as is durably known.
    pub(super) challenge: Challenge,
    /// Why this request is refused although it was recorded; what it cost is given back.
    pub(super) refusal: Option<Error>,
    /// Whether the chat-app refused the recipient within the last day.
    pub(super) is_unreachable: bool,
}

/// Sends a passcode, and answers when what became of it is known or the wait is over.
pub(super) async fn send(
    app: &App,
    account: &Account,
    order: &Order,
    claim: &Claim,
) -> Result<Sent, Error> {
    let answer_by = answer_by(app);
    let counted = check(app, account, order).await?;
    match order.mode {
        Mode::Only(Channel::Sms) => dispatch::look_up(app, &order.to).await,
        Mode::Only(_) => {}
        // Where the chat-app goes first, the answer has time.
        Mode::Auto if app.carriers.offers(Channel::Chatapp, account.id.as_str()) => {
            dispatch::look_up_meanwhile(app, &order.to);
        }
        Mode::Auto => dispatch::look_up(app, &order.to).await,
    }
    let recorded = record(app, account, order, claim).await;
    let is_new = recorded.as_ref().is_ok_and(|recorded| recorded.is_new);
    match counted {
        Counted::No => {}
        _ if !is_new => fraud::take_back_from(app, account, &order.to),
        Counted::Within => {}
        Counted::Beyond(excess) => fraud::tell_excess(app, account, order, &excess),
    }
    let Recorded { leg, was_unreachable, .. } = recorded?;
    let (mut leg, carried) = carry_until(app, leg, answer_by).await;
    let reason = match carried {
        Carried::Stands => None,
        Carried::Over(ending) => Some(Reason::of_ending(&ending)),
        Carried::Moved => read_again(app, &mut leg).await,
    };
    let refused_now =
        |(channel, why): &(Channel, Failure)| *channel == Channel::Chatapp && why.is_unreachable();
    let is_unreachable = was_unreachable || leg.failures.iter().any(refused_now);
    let refusal = reason.and_then(Reason::refusal);
    if let (Some(reason), Some(_)) = (reason, &refusal)
        && let Err(error) = claim.tell(app, reason.as_str()).await
    {
        tracing::warn!(%error, "a repeat will not be told that this send was refused");
    }
    Ok(Sent { challenge: leg.message, refusal, is_unreachable })
}

/// Until when a send that begins now may wait for carriers: the rest of the time of its request is
/// for reading how it stands.
fn answer_by(app: &App) -> Instant {
    let limit_ms = app.config.server.request_timeout_ms;
    Instant::now() + Duration::from_millis(limit_ms - (limit_ms / 10).min(LAST_LOOK_MS))
}

/// What commit A left.
struct Recorded {
    leg: Leg<Otp>,
    /// Whether the chat-app had refused the recipient before.
    was_unreachable: bool,
    /// Whether the challenge is new, and no resend.
    is_new: bool,
}

/// Commit A, made anew while another is faster.
async fn record(
    app: &App,
    account: &Account,
    order: &Order,
    claim: &Claim,
) -> Result<Recorded, Error> {
    let mut tries = 0;
    loop {
        // Most recipients have no past. The first try trusts in that, and its guard tells.
        let past = if tries == 0 { Past::None } else { Past::read(app, account, order).await? };
        match begin(app, account, order, claim, past).await {
            Err(Error::Commit(CommitError::Rejected(STALE))) if tries < RETRIES => {
                // What was faster may be this very request, at a node that was killed.
                if claim.is_lost(app).await {
                    return Err(Error::InProgress);
                }
                if tries > 0 {
                    tokio::time::sleep(Duration::from_millis(25)).await;
                }
                tries += 1;
            }
            Err(Error::Commit(CommitError::Rejected(STALE))) => {
                return Err(Error::ResendTooSoon { wait_s: 1 });
            }
            other => return other,
        }
    }
}

/// Somebody else moved the challenge, or may have: how it stands now, and why it failed if it did.
/// What cannot be read stays as it was known.
async fn read_again(app: &App, leg: &mut Leg<Otp>) -> Option<Reason> {
    let challenge = &leg.message;
    let now = sql::challenge(app, &challenge.account, &challenge.id).await.ok().flatten()?;
    if now.status == Status::Sent && now.attempt == leg.attempt.id {
        leg.message = now;
        return None;
    }
    if let Ok(true) = limits::is_unreachable(app, &challenge.account, &challenge.recipient).await {
        let why = Failure::refused(Refusal::Unreachable, String::new());
        leg.failures.push((Channel::Chatapp, why));
    }
    leg.message = now;
    leg.message.failure_reason.filter(|_| leg.message.status == Status::Failed)
}

/// What a send with the same Idempotency-Key made, as it stands now; refused, if it was.
pub(super) async fn seen(app: &App, account: &Account, seen: &Seen) -> Result<Sent, Error> {
    let id = ChallengeId::parse(&seen.object_id).ok_or(Error::Unknown)?;
    let challenge = sql::challenge(app, &account.id, &id).await?.ok_or(Error::Unknown)?;
    // Only while its request waits here. One that was answered when its wait was over is not taken
    // back, not even after a crash; another node says how the challenge stands.
    let may_run = !challenge.settled && challenge.status == Status::Sent;
    if may_run && app.carriers.inbox().is_asked_for(challenge.attempt.as_str()) {
        let attempt = dispatch::attempt(app, &account.id, &challenge.attempt).await?;
        if attempt.is_some_and(|attempt| attempt.state == State::Sending) {
            return Err(Error::InProgress);
        }
    }
    let told = seen.answer.as_deref().and_then(|word| word.parse().ok());
    let is_unreachable = limits::is_unreachable(app, &account.id, &challenge.recipient).await?;
    Ok(Sent { challenge, refusal: told.and_then(Reason::refusal), is_unreachable })
}

/// What can be refused before anything is recorded. What passes is counted by the guard.
async fn check(app: &App, account: &Account, order: &Order) -> Result<Counted, Error> {
    rehearse(app, account, order).await?;
    if let Some(countries) = &account.settings.countries
        && !countries.iter().any(|country| country == order.to.country())
    {
        return Err(Error::CountryNotAllowed(order.to.country().to_owned()));
    }
    if let Some(sender) = &order.sender
        && !senders::is_approved(app, &account.id, sender).await?
    {
        return Err(Error::SenderNotApproved(senders::why_not(app, &account.id, sender).await?));
    }
    let has = |channel| app.carriers.leads(channel, account.id.as_str(), &order.to);
    // There may be a route for the network of the number alone.
    if order.mode != Mode::Only(Channel::Chatapp) && !has(Channel::Sms) {
        dispatch::look_up(app, &order.to).await;
    }
    let (first, _) = first_channel(app, account, order, &Past::None);
    match order.mode {
        Mode::Only(channel) if !has(channel) => Err(Error::NoCarrier(without(channel))),
        Mode::Auto if !has(Channel::Chatapp) && !has(Channel::Sms) => Err(Error::NoCarrier(
            "No chat-app carrier is set up for this account, and no SMS carrier for this number",
        )),
        _ if first == Channel::Sms && !dispatch::is_reached(app, &account.id, &order.to).await => {
            Err(Error::OutOfReach)
        }
        _ => match fraud::check(app, account, order).await? {
            fraud::Judged::Within => Ok(Counted::Within),
            fraud::Judged::Beyond(excess) => Ok(Counted::Beyond(excess)),
            fraud::Judged::Blocked(excess) => {
                let found = sql::open_in_slot(app, &account.id, order).await?;
                // The same passcode again is no other one.
                if found.is_some_and(|found| found.is_open(app.now())) {
                    return Ok(Counted::No);
                }
                fraud::tell_excess(app, account, order, &excess);
                Err(Error::FraudBlocked(excess.place))
            }
        },
    }
}

/// Whether the guard against fraud counted a send.
enum Counted {
    No,
    Within,
    /// A budget is used up.
    Beyond(Excess),
}

/// What it means that there is no carrier.
const fn without(channel: Channel) -> &'static str {
    match channel {
        // It would reach all numbers, unlike one of SMS.
        Channel::Chatapp => "No chat-app carrier is set up for this account",
        Channel::Sms => "No SMS carrier serves this number",
        Channel::Email => "No email carrier is set up",
    }
}

/// What the sandbox refuses as live would, by the recipient's last four digits.
async fn rehearse(app: &App, account: &Account, order: &Order) -> Result<(), Error> {
    let to = &order.to;
    match app.carriers.rehearsed(to) {
        None => Ok(()),
        Some(Rehearsed::CountryNotAllowed) => {
            Err(Error::CountryNotAllowed(to.country().to_owned()))
        }
        Some(Rehearsed::InsufficientCredits) => {
            let (channel, _) = first_channel(app, account, order, &Past::None);
            let price = credits::price(app, channel.as_str(), "authentication", to.country());
            let required = price.await?;
            Err(credits::Error::Insufficient { required, available: 0 }.into())
        }
        Some(Rehearsed::ResendTooSoon) => {
            let before = sql::newest_by_recipient(app, &account.id, to).await?;
            before.map_or(Ok(()), |_| Err(Error::ResendTooSoon { wait_s: 30 }))
        }
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
        /// The newest challenge of the recipient or of the reference.
        newest: Option<ChallengeId>,
    },
}

impl Past {
    async fn read(app: &App, account: &Account, order: &Order) -> Result<Self, Error> {
        let found = sql::open_in_slot(app, &account.id, order).await?;
        let unreachable = limits::is_unreachable(app, &account.id, order.to.e164()).await?;
        let mut newest = sql::newest_by_recipient(app, &account.id, &order.to).await?;
        if let Some(reference) = &order.reference {
            newest = newest.max(sql::newest_by_reference(app, &account.id, reference).await?);
        }
        Ok(Self::Read { found: found.map(Box::new), unreachable, newest })
    }

    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Read { unreachable: true, .. })
    }

    /// An id above those of the challenges before, whatever the clock says.
    fn new_id(&self, app: &App) -> ChallengeId {
        match self {
            Self::Read { newest: Some(newest), .. } => ChallengeId::above(&app.clock, newest),
            _ => ChallengeId::new(&app.clock),
        }
    }

    fn found(&self) -> Option<&Challenge> {
        if let Self::Read { found, .. } = self { found.as_deref() } else { None }
    }
}

/// Where the first attempt goes, and whether that is a fallback already.
fn first_channel(app: &App, account: &Account, order: &Order, past: &Past) -> (Channel, bool) {
    let has = |channel| app.carriers.leads(channel, account.id.as_str(), &order.to);
    match order.mode {
        Mode::Only(channel) => (channel, false),
        Mode::Auto if !has(Channel::Sms) => (Channel::Chatapp, false),
        // Where there is no chat-app, SMS takes nobody's place.
        Mode::Auto if !has(Channel::Chatapp) => (Channel::Sms, false),
        Mode::Auto if past.is_unreachable() => (Channel::Sms, true),
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
) -> Result<Recorded, Error> {
    let (channel, fallback) = first_channel(app, account, order, &past);
    if fallback {
        dispatch::look_up(app, &order.to).await;
        // Nothing is recorded that waits for a carrier in vain.
        if !dispatch::is_reached(app, &account.id, &order.to).await {
            return Err(Error::OutOfReach);
        }
    }
    let now = app.now();
    let price = credits::price(app, channel.as_str(), "authentication", order.to.country()).await?;
    let open = past.found().filter(|challenge| challenge.is_open(now));
    let id = open.map_or_else(|| past.new_id(app), |open| open.id.clone());
    let new_end = now + validity_ms(app, account);
    // A resend with another code starts its validity anew.
    let give_up_at = open.map_or(new_end, |open| open.expires_at.max(new_end));
    let leg = NewLeg {
        account: &account.id,
        object_id: id.as_str(),
        channel,
        to: &Address::Phone(order.to.clone()),
        priority: Priority::Passcode,
        credits: price,
        give_up_at,
    };
    let attempt = Attempt::new(app, &leg);

    let mut set = WriteSet::of(account.id.as_str());
    if matches!(past, Past::None) {
        sql::no_past(&mut set, &account.id, order, &id, now);
    }
    claim.add_to(&mut set, id.as_str(), None, now);
    let way = Way { account: &account.id, to: &order.to, channel };
    limits::count_send(app, &mut set, way);
    let planned = Planned { account, order, attempt: &attempt, fallback_used: fallback };
    let challenge = if let Some(open) = open {
        // What the last leg still holds is free before this one's price is held.
        let challenge = resend(app, &mut set, open, &planned).await?;
        dispatch::open::<Otp>(app, &mut set, &attempt);
        challenge
    } else {
        dispatch::open::<Otp>(app, &mut set, &attempt);
        if let Some(stale) = past.found() {
            sql::free_slot(&mut set, stale, now);
        }
        let sender = sender::of(app, account, order).await?;
        create(app, &mut set, &id, &planned, sender)
    };
    match app.db.commit(set).await {
        Ok(_) => {
            let is_new = past.found().is_none_or(|found| found.id != challenge.id);
            if is_new {
                fraud::sent(app, &order.to, &attempt.carrier);
            }
            let was_unreachable = past.is_unreachable();
            Ok(Recorded { leg: Leg::asked(challenge, attempt), was_unreachable, is_new })
        }
        Err(CommitError::Rejected(LIMITED)) => Err(limits::which(app, way).await?),
        Err(CommitError::Rejected(credits::INSUFFICIENT)) => {
            Err(credits::insufficient(app, &account.id, price).await.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// What a request sends, and how.
struct Planned<'a> {
    account: &'a Account,
    order: &'a Order,
    attempt: &'a Attempt,
    fallback_used: bool,
}

fn create(
    app: &App,
    set: &mut WriteSet,
    id: &ChallengeId,
    planned: &Planned<'_>,
    sender: String,
) -> Challenge {
    let Planned { account, order, attempt, fallback_used } = *planned;
    let slot = order.slot();
    let (now, config, settings) = (app.now(), &app.config.otp, &account.settings);
    let code = order.code.clone().unwrap_or_else(|| new_code(app, order.code_length));
    let sealed = seal(app, &account.id, id, &code);
    let wording = Wording {
        language: Wording::language_for(order.language.clone(), order.to.country()),
        sender,
        template: order.template.clone().unwrap_or_default(),
    };
    let after_s = settings.otp_fallback_after_s.unwrap_or(config.fallback_after_s);
    let has_sms = app.carriers.offers(Channel::Sms, account.id.as_str());
    let challenge = Challenge {
        account: account.id.clone(),
        id: id.clone(),
        recipient: order.to.e164().to_owned(),
        reference: order.reference.clone(),
        mode: order.mode,
        channel: attempt.channel,
        status: Status::Sent,
        failure_reason: None,
        attempt: attempt.id.clone(),
        provider_message_id: attempt.id.as_str().to_owned(),
        attempts: 0,
        max_attempts: config.max_attempts,
        fallback_used,
        fallback: Fallback::new(after_s * 1000, has_sms),
        settled: false,
        wording: wording.to_stored(),
        asks_consent: order.asks_consent,
        expires_at: now + validity_ms(app, account),
        verified_at: None,
        created_at: id.time(),
        code: Some(sealed.clone()),
    };
    let new = NewChallenge {
        env: app.env.as_str(),
        account: &account.id,
        id: &challenge.id,
        recipient: &order.to,
        reference: order.reference.as_deref(),
        slot: &slot,
        mode: order.mode,
        channel: attempt.channel,
        attempt: &attempt.id,
        code_mac: mac(app, &account.id, &challenge.id, &code),
        code: &sealed,
        max_attempts: challenge.max_attempts,
        fallback_used,
        fallback: challenge.fallback,
        wording: challenge.wording.clone(),
        asks_consent: challenge.asks_consent,
        expires_at: challenge.expires_at,
        created_at: challenge.created_at,
        next_at: attempt.lease_until,
    };
    sql::insert(set, new);
    challenge
}

/// How long a code is good from now.
fn validity_ms(app: &App, account: &Account) -> i64 {
    account.settings.otp_validity_s.unwrap_or(app.config.otp.validity_s) * 1000
}

/// The same challenge goes out again, by the way that this request asks for; an explicit other code
/// takes the old one's place.
async fn resend(
    app: &App,
    set: &mut WriteSet,
    open: &Challenge,
    planned: &Planned<'_>,
) -> Result<Challenge, Error> {
    let Planned { account, order, attempt, fallback_used } = *planned;
    let now = app.now();
    if !open.settled {
        let stale = || Error::Commit(CommitError::Rejected(STALE));
        let last = dispatch::attempt(app, &open.account, &open.attempt).await?.ok_or_else(stale)?;
        if last.state == State::Sending && now < last.lease_until {
            return Err(stale());
        }
        if last.state.is_held() {
            dispatch::give_back::<Otp>(app, set, &last, &Failure::silence());
        }
    }
    let mut before = Wording::of_stored(&open.wording);
    before.sender = sender::again(app, account, order, before.sender).await?;
    let (mode, asks_consent) = (order.mode, order.asks_consent);
    sql::next_leg(set, open, NextLeg { attempt, mode, fallback_used, asks_consent }, now);
    let next = open.carried_by(attempt, fallback_used);
    let mut challenge = Challenge { mode, asks_consent, ..next };
    let wording = before.asked_anew(order).to_stored();
    if wording != open.wording {
        sql::reword(set, open, &wording);
        challenge.wording = wording;
    }
    if let Some(code) = &order.code
        && code_of(app, open).as_ref() != Some(code)
    {
        let sealed = seal(app, &open.account, &open.id, code);
        challenge.expires_at = now + validity_ms(app, account);
        let mac = mac(app, &open.account, &open.id, code);
        sql::recode(set, open, mac, &sealed, challenge.expires_at);
        challenge.code = Some(sealed);
    }
    Ok(challenge)
}
