//! Receipts of carriers that know only their own ids: which attempt one is about, where the id may
//! be written in another form than the carrier's answer had it, and what it means for a message of
//! several parts.

use ::store::{CommitError, Error, WriteSet};

use super::parked::{self, Parked};
use super::store::{self as sql, Found};
use super::{Entry, retention};
use crate::app::App;
use crate::carriers::{Fate, Guesses, Receipt};
use crate::kit::id::{AccountId, AttemptId};
use crate::kit::seal::sha256;

/// Where a receipt leads.
pub(super) struct Place {
    pub(super) account: AccountId,
    pub(super) attempt: AttemptId,
    /// The id that led there, and how many parts the message has; `None` = all of it.
    pub(super) part: Option<(String, i64)>,
}

/// Where a carrier's id leads.
pub(super) async fn look_up(app: &App, carrier: &str, key: &str) -> Result<Option<Place>, Error> {
    let found = sql::submission(app, carrier, key).await?;
    Ok(found.map(|(account, attempt, parts)| {
        let part = (parts > 1).then(|| (key.to_owned(), parts));
        Place { account, attempt, part }
    }))
}

/// The one message to the number that the receipt comes from, if just one of the guesses leads to
/// such: a wrong guess would attach a receipt to a stranger's message.
pub(super) async fn guess(
    app: &App,
    receipt: &Receipt,
    guesses: &Guesses,
    owners: &[Entry],
) -> Result<Option<Place>, Error> {
    let wanted = mac(app, &guesses.number);
    let mut hits = Vec::new();
    for key in &guesses.provider_ids {
        if let Some(place) = look_up(app, &receipt.carrier, key).await?
            && goes_to(app, owners, &place, &wanted).await?
        {
            hits.push(place);
        }
    }
    if hits.len() != 1 {
        return Ok(None);
    }
    let carrier = receipt.carrier.as_str();
    tracing::debug!(carrier, "a receipt writes its id in another form: set `message_id`");
    Ok(hits.pop())
}

/// Whether a message goes to the number that this stands for.
pub(super) async fn goes_to(
    app: &App,
    owners: &[Entry],
    place: &Place,
    wanted: &[u8],
) -> Result<bool, Error> {
    let found = sql::find(app, &place.account, &place.attempt).await?;
    let Some(Found { attempt, kind }) = found else { return Ok(false) };
    let Some(entry) = Entry::find(owners, &kind) else { return Ok(false) };
    let number = (entry.number)(app, &attempt).await?;
    Ok(number.is_some_and(|number| mac(app, &number) == wanted))
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
    let Some((key, parts)) = &place.part else { return Ok(Weighed::Decides) };
    if receipt.fate == Fate::Sent {
        return Ok(Weighed::Noted);
    }
    let carrier = receipt.carrier.as_str();
    let mut set = WriteSet::of(place.account.as_str());
    sql::set_fate(&mut set, carrier, key, &receipt.fate.to_stored());
    app.db.commit(set).await?;
    let delivered = Fate::Delivered.to_stored();
    if receipt.fate != Fate::Delivered {
        let known = sql::fate(app, carrier, key).await?;
        let is_contradiction = known.is_some_and(|known| known == delivered);
        return Ok(if is_contradiction { Weighed::Noted } else { Weighed::Decides });
    }
    let fates = sql::fates(app, &place.account, &place.attempt, carrier).await?;
    let arrived = fates.iter().flatten().filter(|fate| **fate == delivered).count();
    let is_last = i64::try_from(arrived).unwrap_or(i64::MAX) >= *parts;
    Ok(if is_last { Weighed::Decides } else { Weighed::Noted })
}

/// Parks a receipt that leads nowhere: the id that it names, or may mean, may be stored a moment
/// later.
pub(super) async fn park(
    app: &App,
    receipt: &Receipt,
    guesses: Option<&Guesses>,
) -> Result<(), CommitError> {
    let of_ours = receipt.echo.as_ref().map(|echo| echo.attempt_id.clone());
    let provider_id = receipt.provider_id.clone().or(of_ours).unwrap_or_default();
    let fate = receipt.fate.to_stored();
    let text = format!("{fate}\n{}", receipt.error.as_deref().unwrap_or_default());
    let certain = Parked {
        carrier: receipt.carrier.clone(),
        provider_id,
        digest: sha256(text.as_bytes()).to_vec(),
        fate,
        error: receipt.error.clone(),
        recipient_mac: None,
    };
    let guessed = guesses.into_iter().flat_map(|guesses| {
        let recipient_mac = Some(mac(app, &guesses.number));
        guesses.provider_ids.iter().map(move |key| (key.clone(), recipient_mac.clone()))
    });
    let guessed = guessed.map(|(provider_id, recipient_mac)| Parked {
        provider_id,
        recipient_mac,
        ..certain.clone()
    });
    let mut all: Vec<Parked> = guessed.collect();
    all.push(certain);
    parked::park(app, &all).await
}
