//! The SQL of what carriers call the parts that they have.

use clock::DAY;
use store::{Db, Error, FromRow, Row, Sql, WriteSet, args};

use crate::app::App;
use crate::dispatch::Attempt;
use crate::dispatch::store::Found;
use crate::kit::id::{AccountId, AttemptId};
use crate::kit::seal::hex;

/// How long after a message news of it come at the latest, milliseconds.
const LATEST_NEWS_MS: i64 = 7 * DAY;

/// A carrier begins its ids anew some day: the newest message counts.
const SUBMITTED: Sql = Sql("INSERT INTO submissions (carrier, provider_id, account_id, \
     attempt_id, part, parts, fate) VALUES ($1, $2, $3, $4, $5, $6, NULL) \
     ON CONFLICT (carrier, provider_id) DO UPDATE SET account_id = excluded.account_id, \
     attempt_id = excluded.attempt_id, part = excluded.part, parts = excluded.parts, \
     fate = NULL /*BULK*/");
const FOUND: Sql = Sql("INSERT INTO submissions (carrier, provider_id, account_id, attempt_id, \
     part, parts, fate) VALUES ($1, $2, $3, $4, 1, 1, NULL) ON CONFLICT DO NOTHING /*BULK*/");
/// Where an id leads that is known: the attempt, how many parts it has, and whether a receipt with
/// that id came before it was known.
const LEAD: Sql = Sql("SELECT a.attempt_id, a.object_id, a.channel, a.state, a.credits, \
     a.lease_until, a.account_id, a.give_up_at, a.kind, a.carrier, a.priority, a.tries, a.resends, \
     a.queued_at, a.next_at, a.refused_by, s.provider_id, s.parts, (SELECT MAX(1) \
     FROM early_receipts e WHERE e.carrier = s.carrier AND e.provider_id = s.provider_id) \
     FROM submissions s JOIN attempts a ON a.account_id = s.account_id \
     AND a.attempt_id = s.attempt_id WHERE s.carrier = $1 AND s.provider_id = $2 /*MANY*/");
/// The first final fate of a part stays.
const SET_FATE: Sql = Sql("UPDATE submissions SET fate = $1 \
     WHERE carrier = $2 AND provider_id = $3 AND fate IS NULL /*BULK*/");
const FATES: Sql = Sql("SELECT fate FROM submissions WHERE attempt_id = $1 AND account_id = $2 \
     AND carrier = $3");
const FATE: Sql = Sql("SELECT fate FROM submissions WHERE carrier = $1 AND provider_id = $2");
/// What carriers call the parts of a message, as long as it names somebody.
const OF_OBJECT: Sql = Sql("SELECT carrier, provider_id FROM submissions WHERE account_id = $1 \
     AND attempt_id IN (SELECT attempt_id FROM attempts WHERE account_id = $1 AND object_id = $2) \
     AND provider_id NOT LIKE ' %'");
const DROP: Sql = Sql("DELETE FROM submissions WHERE carrier = $1 AND provider_id = $2");
const HIDE: Sql =
    Sql("UPDATE submissions SET provider_id = $1 WHERE carrier = $2 AND provider_id = $3");

/// The next carrier that has had something.
const NEXT_CARRIER: Sql =
    Sql("SELECT carrier FROM submissions WHERE carrier > $1 ORDER BY carrier LIMIT 1");
/// Whether an SMS that a carrier has is still to be told of.
const OPEN_AT: Sql = Sql("SELECT s.carrier FROM submissions s JOIN attempts a \
     ON a.account_id = s.account_id AND a.attempt_id = s.attempt_id \
     WHERE s.carrier = $1 AND a.channel = 'sms' AND a.state IN ('accepted', 'unknown') LIMIT 1");

/// A part that a carrier has.
#[derive(Clone, Copy)]
pub(in crate::dispatch) struct Submission<'a> {
    /// Which, from 1.
    pub(in crate::dispatch) part: i64,
    /// Of how many.
    pub(in crate::dispatch) parts: i64,
    pub(in crate::dispatch) of: &'a Attempt,
}

/// Keeps the carrier's id of a part, for receipts that name nothing else.
pub(in crate::dispatch) fn submitted(
    set: &mut WriteSet,
    carrier: &str,
    key: &str,
    it: Submission<'_>,
) {
    let Submission { part, parts, of } = it;
    set.push(SUBMITTED, args![carrier, key, &of.account, &of.id, part, parts]);
}

/// What a carrier calls an attempt, unless that is known.
pub(in crate::dispatch) fn found(set: &mut WriteSet, carrier: &str, key: &str, of: &Attempt) {
    set.push(FOUND, args![carrier, key, &of.account, &of.id]);
}

/// Where a carrier's id leads.
pub(in crate::dispatch) struct Lead {
    pub(in crate::dispatch) key: String,
    /// How many parts the message has.
    pub(in crate::dispatch) parts: i64,
    /// Whether a receipt with this id waits that came before it was known.
    pub(in crate::dispatch) has_early: bool,
    pub(in crate::dispatch) found: Found,
}

impl FromRow for Lead {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (key, parts) = (row.take(16)?, row.take(17)?);
        let has_early = row.take::<Option<i64>>(18)?.is_some();
        Ok(Self { key, parts, has_early, found: Found::from_row(row)? })
    }
}

/// Where a carrier's id leads, if it is known.
pub(in crate::dispatch) async fn lead(
    app: &App,
    carrier: &str,
    key: &str,
) -> Result<Option<Lead>, Error> {
    app.db.row(LEAD, args![carrier, key]).await
}

/// The kind and id of what went out under a carrier's id, if it is this account's.
///
/// # Errors
/// When the database cannot be read.
pub async fn object_of(
    app: &App,
    account: &AccountId,
    carrier: &str,
    provider_id: &str,
) -> Result<Option<(String, String)>, Error> {
    let found = lead(app, carrier, provider_id).await?.map(|lead| lead.found);
    let own = found.filter(|found| found.attempt.account == *account);
    Ok(own.map(|found| (found.kind, found.attempt.object_id)))
}

/// The carriers at which SMS are open, without those that are `known` or simulated.
///
/// # Errors
/// When the database cannot be read.
pub async fn open_elsewhere(db: &Db, known: &[&str]) -> Result<Vec<String>, Error> {
    let mut open = Vec::new();
    let mut last = String::new();
    while let Some((carrier,)) = db.row::<(String,)>(NEXT_CARRIER, args![&last]).await? {
        let is_known = known.contains(&carrier.as_str()) || carrier.starts_with("simulated-");
        if !is_known && db.row::<(String,)>(OPEN_AT, args![&carrier]).await?.is_some() {
            open.push(carrier.clone());
        }
        last = carrier;
    }
    Ok(open)
}

/// What carriers call the parts of a message: the carrier, and its id.
pub(in crate::dispatch) async fn of_object(
    app: &App,
    account: &AccountId,
    object_id: &str,
) -> Result<Vec<(String, String)>, Error> {
    app.db.rows(OF_OBJECT, args![account, object_id]).await
}

/// Puts a keyed hash in the place of a carrier's id, which may name a person.
pub(in crate::dispatch) fn hide(app: &App, set: &mut WriteSet, carrier: &str, key: &str) {
    let hidden = hidden(app, carrier, key);
    set.push(DROP, args![carrier, &hidden]);
    set.push(HIDE, args![hidden, carrier, key]);
}

/// Whether an id was hidden of which news may still come: a carrier begins its ids anew some day,
/// and then it is another message's.
pub(in crate::dispatch) async fn is_hidden(
    app: &App,
    carrier: &str,
    key: &str,
) -> Result<bool, Error> {
    let lead = lead(app, carrier, &hidden(app, carrier, key)).await?;
    let since = app.now() - LATEST_NEWS_MS;
    Ok(lead.is_some_and(|lead| lead.found.attempt.id.time() >= since))
}

/// What stands for a carrier's id: no id begins with a space.
fn hidden(app: &App, carrier: &str, key: &str) -> String {
    format!(" {}", hex(&app.vault.upstream_mac(&["hidden id", carrier, key])))
}

/// Notes what became of a part, unless that is known.
pub(in crate::dispatch) fn set_fate(set: &mut WriteSet, carrier: &str, key: &str, fate: &str) {
    set.push(SET_FATE, args![fate, carrier, key]);
}

/// What became of a part.
pub(in crate::dispatch) async fn fate(
    app: &App,
    carrier: &str,
    key: &str,
) -> Result<Option<String>, Error> {
    let found: Option<(Option<String>,)> = app.db.row(FATE, args![carrier, key]).await?;
    Ok(found.and_then(|(fate,)| fate))
}

/// What became of the parts of an attempt, as far as their ids are known.
pub(in crate::dispatch) async fn fates(
    app: &App,
    account: &AccountId,
    attempt: &AttemptId,
    carrier: &str,
) -> Result<Vec<Option<String>>, Error> {
    let rows: Vec<(Option<String>,)> = app.db.rows(FATES, args![attempt, account, carrier]).await?;
    Ok(rows.into_iter().map(|(fate,)| fate).collect())
}
