//! The guard against pumping: traffic that somebody makes for the money that numbers earn, and that
//! nobody verifies. What an account sends to a country and to a range of numbers is held against
//! what is verified there (`kit::conversion`). A send waits for none of this: the figures are in
//! memory, and written down by a task of their own.

pub mod api;
mod store;

use std::collections::BTreeSet;

use ::store::{CommitError, Error as DbError, Reject, WriteSet, args};
use clock::{DAY, Millis};
use serde_json::json;

use self::store as sql;
use super::order::Order;
use super::{Error, Mode, STALE, Status, events, store as challenges, verify};
use crate::access;
use crate::access::idempotency::Claim;
use crate::access::retention::sweep;
use crate::app::{Account, App, Env};
use crate::carriers::Channel;
use crate::chores::Turn;
use crate::config::FraudGuard;
use crate::events::{self as all_events, Event, Kind};
use crate::kit::conversion::{Counts, Excess, Figure, Span, Unwritten, exempt_of, places};
use crate::kit::id::{AccountId, ChallengeId, EventId};
use crate::kit::msisdn::Msisdn;
use crate::kit::task;

/// How often what is new is written down, milliseconds.
const FLUSH_MS: u64 = 1_000;
/// How old the view of what other nodes counted may be.
const FRESH_MS: i64 = 30_000;
/// Most figures of an account that are read.
const MOST_ROWS: i64 = 20_000;
/// How long hours and days are kept.
const HOURS_MS: i64 = 2 * DAY;
const DAYS_MS: i64 = 62 * DAY;
/// It was told of before.
const TOLD: Reject = Reject("fraud_told");

/// How a passcode that is about to be sent stands to the budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It is counted.
    Within,
    /// It is counted, and nobody is expected to verify it.
    Beyond(Excess),
    /// The same where the guard blocks: it is not counted.
    Blocked(Excess),
}

/// Counts a passcode that is about to be sent. One that no carrier gets is to be
/// [taken back](take_back), and one beyond a budget to be [told of](tell_excess).
pub(super) async fn check(app: &App, account: &Account, order: &Order) -> Result<Judged, Error> {
    let guard = app.config.otp.fraud_guard;
    let goes_by_sms = order.mode != Mode::Only(Channel::Chatapp);
    if app.env == Env::Live && is_allowed(account, &order.to) {
        count_exempt(app, &account.id, &order.to, Counts { sent: 1, verified: 0 });
        return Ok(Judged::Within);
    }
    if app.env != Env::Live || guard == FraudGuard::Off || !goes_by_sms {
        count(app, &account.id, &order.to, Counts { sent: 1, verified: 0 });
        return Ok(Judged::Within);
    }
    let is_blocking = guard == FraudGuard::Block;
    let (id, now) = (account.id.as_str(), app.now());
    if is_blocking {
        read_unless_since(app, &account.id, Millis(0)).await?;
    } else if !read_if_free(app, &account.id).await {
        // It is not known yet what was verified, and a passcode does not wait for that.
        count(app, &account.id, &order.to, Counts { sent: 1, verified: 0 });
        return Ok(Judged::Within);
    }
    let places = places(order.to.country(), order.to.e164());
    let mut excess = app.conversion.claim(id, &places, now, is_blocking);
    if is_blocking && excess.is_some() {
        // Nothing is written down, nor read with it, while all is blocked: people may have
        // verified on other nodes.
        read_unless_since(app, &account.id, now - FRESH_MS).await?;
        excess = app.conversion.claim(id, &places, now, is_blocking);
    }
    Ok(match excess {
        None => Judged::Within,
        Some(excess) if is_blocking => Judged::Blocked(excess),
        Some(excess) => Judged::Beyond(excess),
    })
}

/// A passcode beyond a budget was sent, or refused for that. The same one again is none.
pub(super) fn tell_excess(app: &App, account: &Account, order: &Order, excess: &Excess) {
    app.conversion.tell(account.id.as_str(), excess);
    app.metrics.otp_fraud(order.to.country(), action(app.config.otp.fraud_guard));
}

/// What was counted is counted no more.
const BACK: Counts = Counts { sent: -1, verified: 0 };

/// A passcode that was counted went to nobody: its send was refused, no carrier took it, or it was
/// the same passcode again.
pub(super) fn take_back_from(app: &App, account: &Account, to: &Msisdn) {
    // Where staff vouches for the number now.
    if app.env == Env::Live && is_allowed(account, to) {
        count_exempt(app, &account.id, to, BACK);
    } else {
        count(app, &account.id, to, BACK);
    }
}

/// The same where the account is yet to be read, beside what goes on.
pub(super) fn take_back(app: &App, account: &AccountId, to: Msisdn) {
    if app.env != Env::Live {
        return count(app, account, &to, BACK);
    }
    let (app, account) = (app.clone(), account.clone());
    task::spawn(async move {
        match access::account(&app, &account).await {
            Ok(Some(account)) => take_back_from(&app, &account, &to),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a passcode that went to nobody stays counted"),
        }
    });
}

/// What becomes of a passcode beyond a budget, as counted and told.
const fn action(guard: FraudGuard) -> &'static str {
    match guard {
        FraudGuard::Block => "blocked",
        FraudGuard::Watch | FraudGuard::Off => "watched",
    }
}

/// Whether staff vouches for a country, or for numbers with this beginning.
fn is_allowed(account: &Account, to: &Msisdn) -> bool {
    let allowed = account.settings.otp_fraud_allow.as_deref().unwrap_or_default();
    allowed.iter().any(|place| place == to.country() || to.e164().starts_with(place.as_str()))
}

/// A passcode is on its way to a carrier, for the first time.
pub(super) fn sent(app: &App, to: &Msisdn, carrier: &str) {
    tell(app, to.country(), carrier, "sent");
}

/// A carrier has a passcode, the first one or the next.
pub(super) fn taken(app: &App, recipient: &str, carrier: &str) {
    tell(app, Msisdn::stored(recipient.to_owned()).country(), carrier, "taken");
}

/// A passcode to this number was verified, which this carrier had last.
pub(super) fn verified(app: &App, account: &Account, recipient: &str, carrier: &str) {
    let (to, counts) = (Msisdn::stored(recipient.to_owned()), Counts { sent: 0, verified: 1 });
    if app.env == Env::Live && is_allowed(account, &to) {
        count_exempt(app, &account.id, &to, counts);
    } else {
        count(app, &account.id, &to, counts);
    }
    tell(app, to.country(), carrier, "verified");
}

fn tell(app: &App, country: &str, carrier: &str, outcome: &'static str) {
    app.metrics.otp_conversion(app.env.as_str(), country, carrier, outcome);
}

/// Counts what is shown of a country and is no matter of its budgets.
fn count_exempt(app: &App, account: &AccountId, to: &Msisdn, counts: Counts) {
    let places = [to.country().to_owned(), exempt_of(to.country())];
    app.conversion.note(account.as_str(), &places, app.now(), counts);
}

fn count(app: &App, account: &AccountId, to: &Msisdn, counts: Counts) {
    let places = places(to.country(), to.e164());
    // Nothing is judged in the sandbox; its countries are shown.
    let counted = if app.env == Env::Live { &places[..] } else { &places[..1] };
    app.conversion.note(account.as_str(), counted, app.now(), counts);
}

/// Writes down what is counted, until the process drains.
pub async fn run(app: App) {
    while !app.is_draining() {
        app.rest(FLUSH_MS).await;
        if let Err(error) = flush(&app).await {
            tracing::warn!(%error, "conversion not written; trying again");
        }
    }
}

/// Writes down what is counted, and tells what is to be told.
///
/// # Errors
/// It is kept, and written down the next time.
pub async fn flush(app: &App) -> Result<(), CommitError> {
    let _turn = app.conversion.writing.lock().await;
    let Unwritten { figures: mut by_account, excesses } = app.conversion.take();
    let told = excesses.iter().map(|(account, _)| account.clone());
    let all: BTreeSet<String> = by_account.keys().cloned().chain(told).collect();
    let mut failed = None;
    for account in all {
        let figures = by_account.remove(&account).unwrap_or_default();
        let own = excesses.iter().filter(|(whose, _)| *whose == account);
        let own: Vec<Excess> = own.map(|(_, excess)| excess.clone()).collect();
        if let Err(error) = write(app, &account, &figures).await {
            app.conversion.put_back(&account, unwritten(&error, figures), own);
            failed = Some(error);
            continue;
        }
        let id = AccountId::stored(account);
        for excess in own {
            if let Err(error) = tell_of(app, &id, &excess).await {
                app.conversion.put_back(id.as_str(), Vec::new(), vec![excess]);
                failed = Some(error);
            }
        }
        if !app.conversion.is_read_since(id.as_str(), app.now() - FRESH_MS)
            && let Err(error) = read(app, &id).await
        {
            tracing::debug!(%error, "conversion not read; the last figures hold");
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Writes down what is counted of one account.
async fn write_down(app: &App, account: &AccountId) -> Result<(), CommitError> {
    let _turn = app.conversion.writing.lock().await;
    let figures = app.conversion.take_of(account.as_str());
    if figures.is_empty() {
        return Ok(());
    }
    let written = write(app, account.as_str(), &figures).await;
    if let Err(error) = &written {
        app.conversion.put_back(account.as_str(), unwritten(error, figures), Vec::new());
    }
    written
}

/// What is to be written another time. What may have been written is not counted twice.
fn unwritten(error: &CommitError, figures: Vec<Figure>) -> Vec<Figure> {
    if matches!(error, CommitError::Unknown(_)) { Vec::new() } else { figures }
}

async fn write(app: &App, account: &str, figures: &[Figure]) -> Result<(), CommitError> {
    let mut set = WriteSet::of(account);
    for Figure { place, span, bucket, counts: Counts { sent, verified } } in figures {
        let args = args![account, span.as_str(), *bucket, place.as_str(), *sent, *verified];
        // Behind what passcodes change, as everywhere.
        set.push_contended(sql::ADD, args);
    }
    app.db.commit(set).await.map(drop)
}

/// Tells of a budget that is used up, unless another node did, or this one before a restart. Its
/// figures are written by now.
async fn tell_of(app: &App, account: &AccountId, excess: &Excess) -> Result<(), CommitError> {
    let mut set = WriteSet::of(account.as_str());
    let args = args![account, excess.span.as_str(), excess.bucket, &excess.place];
    set.contended(sql::TELL, args, TOLD);
    emit(app, &mut set, account, excess);
    match app.db.commit(set).await {
        Ok(_) | Err(CommitError::Rejected(TOLD)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn emit(app: &App, set: &mut WriteSet, account: &AccountId, excess: &Excess) {
    let Excess { place, span, counts, budget, .. } = excess;
    let is_range = place.starts_with('+');
    let event = Event {
        account,
        id: &EventId::new(&app.clock),
        kind: Kind::OtpFraud,
        object_id: place,
        // The hours and the days of a place are numbered apart; the instant rises over both.
        sequence: app.now().0,
        data: json!({
            "country": (!is_range).then_some(place),
            "prefix": is_range.then_some(place),
            "window": span.name(),
            "sent": counts.sent,
            "verified": counts.verified,
            "budget": budget,
            "action": action(app.config.otp.fraud_guard),
        }),
    };
    all_events::emit(app, set, &event);
}

/// Reads what all nodes counted of an account, unless that was done since.
async fn read_unless_since(app: &App, account: &AccountId, at: Millis) -> Result<(), DbError> {
    if app.conversion.is_read_since(account.as_str(), at) {
        return Ok(());
    }
    // What is being written down meanwhile would be in neither view.
    let _turn = app.conversion.writing.lock().await;
    if app.conversion.is_read_since(account.as_str(), at) {
        return Ok(());
    }
    read(app, account).await
}

/// Reads what all nodes counted of an account that this process has not read yet, unless something
/// else is being read or written down. Answers whether it is known.
async fn read_if_free(app: &App, account: &AccountId) -> bool {
    let is_known = || app.conversion.is_read_since(account.as_str(), Millis(0));
    if is_known() {
        return true;
    }
    let Ok(_turn) = app.conversion.writing.try_lock() else { return false };
    if !is_known()
        && let Err(error) = read(app, account).await
    {
        tracing::debug!(%error, "conversion not read; this passcode is counted, and not judged");
    }
    is_known()
}

/// Reads what all nodes counted of an account.
async fn read(app: &App, account: &AccountId) -> Result<(), DbError> {
    let now = app.now();
    let since = app.conversion.since(account.as_str(), now);
    let mut found = Vec::new();
    for (span, first) in [(Span::Day, since.day), (Span::Hour, since.hour)] {
        let args = args![account, span.as_str(), first, span.bucket(now), MOST_ROWS];
        let rows: Vec<(i64, String, i64, i64)> = app.db.rows(sql::SINCE, args).await?;
        let figure = |(bucket, place, sent, verified)| {
            let counts = Counts { sent, verified };
            Figure { place, span, bucket, counts }
        };
        found.extend(rows.into_iter().map(figure));
    }
    app.conversion.read(account.as_str(), found, since, now);
    Ok(())
}

/// A day of a country.
pub(super) struct Line {
    pub(super) day: i64,
    pub(super) country: String,
    pub(super) counts: Counts,
}

/// What was sent and verified by country and day, newest first.
pub(super) async fn by_day(
    app: &App,
    account: &AccountId,
    since: Millis,
    until: Millis,
) -> Result<Vec<Line>, Error> {
    write_down(app, account).await?;
    let (first, last) = (Span::Day.bucket(since), Span::Day.bucket(until));
    let rows: Vec<(i64, String, i64, i64)> =
        app.db.rows(sql::BY_DAY, args![account, first, last, MOST_ROWS]).await?;
    // One that was taken back after midnight may be missing from the day that it was not sent on.
    let line = |(day, country, sent, verified): (i64, String, i64, i64)| Line {
        day,
        country,
        counts: Counts { sent: sent.max(0), verified },
    };
    Ok(rows.into_iter().map(line).collect())
}

/// A verification that was made elsewhere: the challenge is verified from now on. One that is
/// verified already stays so.
pub(super) async fn report(
    app: &App,
    whose: &Account,
    id: &ChallengeId,
    claim: &Claim,
) -> Result<super::Challenge, Error> {
    let (account, now) = (&whose.id, app.now());
    let before = challenges::challenge(app, account, id).await?.ok_or(Error::Unknown)?;
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, id.as_str(), None, now);
    set.returning(sql::VERIFIED_ELSEWHERE, args![now, account, id], STALE);
    events::judged(app, &mut set, account, id);
    match app.db.commit(set).await {
        Ok(done) => {
            let (recipient, carrier): (String, String) = done.only()?;
            verified(app, whose, &recipient, &carrier);
            // Nothing that fails behind the commit hides it.
            let found = challenges::challenge(app, account, id).await.ok().flatten();
            return Ok(found.unwrap_or_else(|| before.verified_at(now)));
        }
        Err(CommitError::Rejected(STALE)) => match verify::why_not(app, account, id).await? {
            // The key stands for what there is.
            Error::AlreadyVerified => claim.stand_for(app, id.as_str()).await?,
            error => return Err(error),
        },
        Err(error) => return Err(error.into()),
    }
    let found = challenges::challenge(app, account, id).await?;
    found.filter(|challenge| challenge.status == Status::Verified).ok_or(Error::Unknown)
}

/// Deletes figures that nobody asks for any more; answers how many rows.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let mut deleted = 0;
    for (span, kept_ms) in [(Span::Hour, HOURS_MS), (Span::Day, DAYS_MS)] {
        let before = span.bucket(turn.now() - kept_ms);
        let args = args![span.as_str(), before, app.config.retention.chunk];
        deleted += sweep(app, turn, "otp_conversion", sql::FORGET, &args).await?;
    }
    Ok(deleted)
}
