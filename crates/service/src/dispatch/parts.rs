//! Receipts of carriers that know only their own ids: which attempt one is about, where the id may
//! be written in another form than the carrier's answer had it, and what it means for a message of
//! several parts.

use std::sync::atomic::Ordering;

use ::store::{CommitError, Error, WriteSet};
use futures_util::future::try_join_all;

use super::entry::Opened;
use super::parked::{self, Parked};
use super::recent::{self, Remembered};
use super::store::Found;
use super::submissions::{self, Lead};
use super::{Attempt, Entry, retention};
use crate::app::App;
use crate::carriers::{Fate, Guess, Guesses, Receipt};
use crate::kit::seal::{hex, sha256};

/// Digits at the end by which two ways of writing a number are compared.
const TAIL_DIGITS: usize = 7;
/// How long a receipt waits whose id leads to another number: so long after it the answer may come
/// that it belongs to.
const PATIENCE_MS: i64 = 10_000;

/// Where a receipt leads.
pub(super) struct Place {
    /// The carrier's id that led there; `None` = it brought ours back.
    pub(super) key: Option<String>,
    /// How many parts the message has.
    pub(super) parts: i64,
    /// Whether receipts wait that came before the id was known.
    pub(super) has_early: bool,
    /// The attempt as it stood.
    pub(super) found: Found,
    /// Its message, once somebody asked for it.
    pub(super) opened: Option<Box<dyn Opened>>,
}

impl Place {
    /// Where an id of ours leads.
    pub(super) const fn of(found: Found) -> Self {
        Self { key: None, parts: 1, has_early: false, found, opened: None }
    }

    fn by(lead: Lead) -> Self {
        let Lead { key, parts, has_early, found } = lead;
        Self { key: Some(key), parts, has_early, found, opened: None }
    }

    fn remembered(key: &str, remembered: Remembered, owners: &[Entry]) -> Self {
        let Remembered { found, message } = remembered;
        let opened = Entry::find(owners, &found.kind).and_then(|entry| (entry.reopen)(message));
        Self { key: Some(key.to_owned()), parts: 1, has_early: false, found, opened }
    }
}

/// Where a carrier's id leads.
async fn look_up(
    app: &App,
    carrier: &str,
    key: &str,
    owners: &[Entry],
) -> Result<Option<Place>, Error> {
    if let Some(remembered) = recent::lead(app, carrier, key) {
        return Ok(Some(Place::remembered(key, remembered, owners)));
    }
    Ok(submissions::lead(app, carrier, key).await?.map(Place::by))
}

/// The message that a receipt of a carrier is about. Its id counts as it is where that leads to the
/// number that the receipt comes from. Where it does not, the one guess counts that does; else the
/// receipt may be early, and meant for a message whose id is not known yet.
pub(super) async fn find(
    app: &App,
    receipt: &Receipt,
    guesses: Option<&Guesses>,
    owners: &[Entry],
) -> Result<Option<Place>, Error> {
    let (carrier, own) = (receipt.carrier.as_str(), receipt.provider_id.as_deref());
    let Some(own) = own else { return Ok(None) };
    let Some(guesses) = guesses else { return look_up(app, carrier, own, owners).await };
    if let Some(mut place) = look_up(app, carrier, own, owners).await? {
        let known = number_of(app, owners, &mut place).await?;
        if known.is_none_or(|known| may_be_one(known, &guesses.number)) {
            return Ok(Some(place));
        }
    }
    // Most carriers write an id in one way only, so the other ways are asked for last.
    let others =
        guesses.guesses.iter().map(|guess| look_up(app, carrier, &guess.provider_id, owners));
    let places = try_join_all(others).await?;
    let wanted = mac(app, &guesses.number);
    let mut hits = Vec::new();
    for mut place in places.into_iter().flatten() {
        if goes_to(app, owners, &mut place, &wanted).await? {
            hits.push(place);
        }
    }
    let (1, Some(hit)) = (hits.len(), hits.pop()) else { return Ok(None) };
    name_setting(app, carrier, guesses, &hit);
    Ok(Some(hit))
}

/// Whether two ways of writing may mean one number. Some carriers write it as dialled at home, or
/// leave it out.
fn may_be_one(one: &str, other: &str) -> bool {
    let tail = |text: &str| {
        let digits = text.chars().rev().filter(char::is_ascii_digit);
        digits.take(TAIL_DIGITS).collect::<String>()
    };
    let (one, other) = (tail(one), tail(other));
    other.len() < TAIL_DIGITS || one == other
}

/// Says once, at this node, what the settings of a carrier should say.
fn name_setting(app: &App, carrier: &str, guesses: &Guesses, hit: &Place) {
    let is_hit = |guess: &&Guess| Some(&guess.provider_id) == hit.key.as_ref();
    let Some(Guess { setting, .. }) = guesses.guesses.iter().find(is_hit) else { return };
    let lane = app.carriers.lane(carrier);
    if lane.is_some_and(|lane| lane.receipts.guessed.fetch_add(1, Ordering::Relaxed) == 0) {
        let advice = format!("sms.carriers.{carrier}.message_id = {setting:?}");
        tracing::warn!(carrier, advice, "receipts write ids in another form than answers");
    }
}

/// Where a parked receipt leads by now. Its own id counts after a while, whatever the number.
pub(super) async fn place_of(
    app: &App,
    parked: &Parked,
    owners: &[Entry],
) -> Result<Option<Place>, Error> {
    let Parked { carrier, provider_id, recipient_mac, is_guess, received_at, .. } = parked;
    let Some(mut place) = look_up(app, carrier, provider_id, owners).await? else {
        return Ok(None);
    };
    let Some(wanted) = recipient_mac else { return Ok(Some(place)) };
    let is_patient = *is_guess || app.now() < *received_at + PATIENCE_MS;
    let is_meant = !is_patient || goes_to(app, owners, &mut place, wanted).await?;
    Ok(Some(place).filter(|_| is_meant))
}

/// Whether a message goes to the number that this stands for.
async fn goes_to(
    app: &App,
    owners: &[Entry],
    place: &mut Place,
    wanted: &[u8],
) -> Result<bool, Error> {
    let number = number_of(app, owners, place).await?;
    Ok(number.is_some_and(|number| mac(app, number) == wanted))
}

/// The number that a message goes to, as far as it is known.
async fn number_of<'p>(
    app: &App,
    owners: &[Entry],
    place: &'p mut Place,
) -> Result<Option<&'p str>, Error> {
    if place.opened.is_none() {
        let Some(entry) = Entry::find(owners, &place.found.kind) else { return Ok(None) };
        place.opened = (entry.open)(app, &place.found.attempt).await?;
    }
    Ok(place.opened.as_ref().and_then(|message| message.number()))
}

/// Stands for a number, however it is written.
fn mac(app: &App, number: &str) -> Vec<u8> {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    app.vault.upstream_mac(&["receipt from", digits.trim_start_matches('0')]).to_vec()
}

/// What a receipt of a part means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weighed {
    /// It decides about the message.
    Decides,
    /// It is noted, and others are to come.
    Noted,
}

/// Weighs a receipt of one part: a message is delivered when all parts are, and one that is not
/// brought makes it undelivered. The first final word about a part counts.
pub(super) async fn weigh(
    app: &App,
    receipt: &Receipt,
    place: &Place,
) -> Result<Weighed, retention::Error> {
    let (Some(key), parts @ 2..) = (&place.key, place.parts) else { return Ok(Weighed::Decides) };
    if receipt.fate == Fate::Sent {
        return Ok(Weighed::Noted);
    }
    let carrier = receipt.carrier.as_str();
    let Attempt { account, id: attempt, .. } = &place.found.attempt;
    let mut set = WriteSet::of(account.as_str());
    submissions::set_fate(&mut set, carrier, key, &receipt.fate.to_stored());
    app.db.commit(set).await?;
    let delivered = Fate::Delivered.to_stored();
    if receipt.fate != Fate::Delivered {
        let known = submissions::fate(app, carrier, key).await?;
        let is_contradiction = known.is_some_and(|known| known == delivered);
        return Ok(if is_contradiction { Weighed::Noted } else { Weighed::Decides });
    }
    let fates = submissions::fates(app, account, attempt, carrier).await?;
    let arrived = fates.iter().flatten().filter(|fate| **fate == delivered).count();
    let is_last = i64::try_from(arrived).unwrap_or(i64::MAX) >= parts;
    Ok(if is_last { Weighed::Decides } else { Weighed::Noted })
}

/// Whether a receipt names a message whose recipient is erased. What it may mean besides is not
/// asked: it could be another's.
pub(super) async fn is_hidden(app: &App, receipt: &Receipt) -> Result<bool, Error> {
    match receipt.provider_id.as_deref() {
        Some(id) => submissions::is_hidden(app, &receipt.carrier, id).await,
        None => Ok(false),
    }
}

/// Parks a receipt that leads nowhere: the id that it names, or may mean, may be stored a moment
/// later.
pub(super) async fn park(
    app: &App,
    receipt: &Receipt,
    guesses: Option<&Guesses>,
) -> Result<(), CommitError> {
    let of_ours = receipt.echo.as_ref().map(|echo| echo.attempt_id.clone());
    let own = receipt.provider_id.clone().or(of_ours).unwrap_or_default();
    let recipient_mac = guesses.map(|guesses| mac(app, &guesses.number));
    let fate = receipt.fate.to_stored();
    let whence = recipient_mac.as_deref().map(hex).unwrap_or_default();
    let error = receipt.error.as_deref().unwrap_or_default();
    let text = format!("{own}\n{whence}\n{fate}\n{error}");
    let guessed = guesses.into_iter().flat_map(|guesses| &guesses.guesses);
    let guessed = guessed.map(|guess| guess.provider_id.clone());
    // See `overtaken`.
    let hinted = receipt.hint.as_ref().map(|hint| hint.attempt_id.clone());
    let meant = guessed.chain(hinted).filter(|id| *id != own).map(|id| (id, true));
    let ids: Vec<(String, bool)> = meant.chain([(own.clone(), false)]).collect();
    let at = ids.iter().map(|(id, _)| recent::early_at(app, &receipt.carrier, id)).max();
    let received_at = at.unwrap_or_else(|| app.now());
    let all = ids.iter().map(|(provider_id, is_guess)| Parked {
        carrier: receipt.carrier.clone(),
        provider_id: provider_id.clone(),
        digest: sha256(text.as_bytes()).to_vec(),
        fate: fate.clone(),
        error: receipt.error.clone(),
        recipient_mac: recipient_mac.clone(),
        is_guess: *is_guess,
        siblings: ids.iter().map(|(id, _)| id.clone()).filter(|id| id != provider_id).collect(),
        received_at,
    });
    parked::park(app, &all.collect::<Vec<_>>()).await?;
    for (id, _) in &ids {
        recent::came_early(app, &receipt.carrier, id, received_at);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::may_be_one;

    #[test]
    fn a_number_may_be_written_in_many_ways() {
        let known = "+33612345678";
        for same in
            ["33612345678", "+33 6 12 34 56 78", "0612345678", "612345678", "", "ACME", "38000"]
        {
            assert!(may_be_one(known, same), "{same}");
        }
        for other in ["33612345679", "33699345678", "0612345677"] {
            assert!(!may_be_one(known, other), "{other}");
        }
    }
}
