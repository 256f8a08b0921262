//! Domains that an account may write from. It proves that a domain is its own by records in DNS:
//! one with a token of the account's, the keys that sign its mail, and where reports of it go.

pub mod api;
mod check;
mod keys;
mod records;
mod store;

use endpoints::ToSchema;
use std::collections::BTreeMap;

use ::store::{Error as DbError, Reject, WriteSet, args};
use clock::Millis;
use futures_util::future::join_all;
use serde::Serialize;

use self::check::Standing;
pub use self::check::check_again;
pub(super) use self::keys::Signers;
use self::records::{Record, Seen};
use self::store as sql;
use super::Error;
use crate::access::audit::{self, By, Entry};
use crate::access::idempotency::Claim;
use crate::access::limits::{self, Limited};
use crate::app::{App, Env};
use crate::carriers::simulated;
use crate::kit::id::{AccountId, EmailDomainId};
use crate::kit::seal::hex;
use crate::kit::throttle::Class;
use crate::kit::words::words;

/// Domains of one account.
pub const MOST: i64 = 50;

/// Most texts at the name of a record that are kept to be shown.
const MOST_SEEN: usize = 5;
/// Their longest, characters: a key of 4,096 bits has about 750.
const LONGEST_SEEN: usize = 1_000;

/// The account has [`MOST`] domains.
const FULL: Reject = Reject("email_domains_full");
/// Another request added the domain at the same moment.
const ADDED: Reject = Reject("email_domain_added");
/// The account may not write from the domain.
pub(super) const NOT_VERIFIED: Reject = Reject("email_domain_not_verified");

/// Whom notices of the service come from, on the shared domain.
pub(super) const NOTICES_FROM: &str = "no-reply";

/// Local parts of a shared domain that look like the operator's own.
const RESERVED: [&str; 10] = [
    "abuse",
    "admin",
    "administrator",
    "bounce",
    "hostmaster",
    "mailer-daemon",
    NOTICES_FROM,
    "postmaster",
    "root",
    "security",
];

words! {
    /// Whether a domain may be written from.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = EmailDomainStatus)]
    pub(super) enum Status {
        /// Not all of its records are seen yet.
        Pending = "pending",
        /// It may.
        Verified = "verified",
    }
}

/// Which records of a domain were seen as they should be, and what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    records: Vec<Record>,
    /// By the word of a record; one of which no server said anything is not among them.
    seen: BTreeMap<String, Vec<String>>,
}

impl Found {
    fn stored(words: &str, seen: &str) -> Self {
        let records = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        Self { records, seen: serde_json::from_str(seen).unwrap_or_default() }
    }

    fn to_stored(&self) -> String {
        self.records.iter().map(|record| record.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn seen_to_stored(&self) -> String {
        serde_json::to_string(&self.seen).unwrap_or_default()
    }

    fn has(&self, record: Record) -> bool {
        self.records.contains(&record)
    }

    /// What was at its name; `None` = nobody could say.
    fn seen(&self, record: Record) -> Option<&[String]> {
        self.seen.get(record.as_str()).map(Vec::as_slice)
    }

    /// Adds what was seen of a record.
    fn note(&mut self, record: Record, seen: Seen) {
        if seen.is_good {
            self.records.push(record);
        }
        let shown = seen.texts.into_iter().take(MOST_SEEN);
        let shown = shown.map(|text| text.chars().take(LONGEST_SEEN).collect()).collect();
        self.seen.insert(record.as_str().to_owned(), shown);
    }

    /// Whether nothing is missing that has to be there.
    fn is_enough(&self) -> bool {
        Record::ALL.iter().all(|record| !record.is_required() || self.has(*record))
    }
}

/// A domain of an account.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    id: EmailDomainId,
    name: String,
    status: Status,
    /// What its ownership record says.
    token: String,
    /// The public halves of its keys.
    rsa_key: Vec<u8>,
    ed25519_key: Vec<u8>,
    found: Found,
    created_at: Millis,
    checked_at: Option<Millis>,
    verified_at: Option<Millis>,
    /// Since when something is missing that has to be there, of one that is still verified.
    missing_since: Option<Millis>,
}

/// Whether an address is on a domain that every account may write from. On a shared domain of live,
/// what looks like the operator's own address is nobody's, not even as the name of another one.
pub(super) fn is_shared(app: &App, from: &email::Mailbox) -> bool {
    let domain = from.address.domain();
    match app.env {
        Env::Sandbox if domain == simulated::DOMAIN => true,
        _ => is_on_shared(app, domain) && !looks_reserved(app, from),
    }
}

/// Whether a domain is the operator's, from which every account may write.
pub(super) fn is_on_shared(app: &App, domain: &str) -> bool {
    let shared = &app.config.email.shared_domain;
    !shared.is_empty() && domain.eq_ignore_ascii_case(shared)
}

fn looks_reserved(app: &App, from: &email::Mailbox) -> bool {
    // A reader is shown the name, often without the address behind it.
    let name = from.name.as_deref().unwrap_or_default();
    let words =
        name.split(|letter: char| letter.is_whitespace() || "<>()[]\"',;:".contains(letter));
    let mut named = words.filter_map(|word| email::Address::parse(word).ok());
    let is_ours = |address: email::Address| is_on_shared(app, address.domain());
    is_reserved(from.address.local())
        || named.any(|address| is_reserved(address.local()) && is_ours(address))
}

fn is_reserved(local: &str) -> bool {
    let local = plain(local);
    RESERVED.iter().any(|reserved| plain(reserved) == local)
}

/// A local part as people read it: they take `noreply` and `no.reply` for the same. What is behind
/// the + is for the reader's filters.
fn plain(local: &str) -> String {
    let read = local.split('+').next().unwrap_or_default();
    let letters = read.chars().filter(|letter| !"-._".contains(*letter));
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Refuses the set with [`NOT_VERIFIED`] if the account may not write from this domain. It writes
/// nothing.
pub(super) fn guard(set: &mut WriteSet, account: &AccountId, domain: &str) {
    set.absent(sql::IS_NOT_VERIFIED, args![account, domain], NOT_VERIFIED);
}

/// Whether some account may write from this domain.
pub(super) async fn is_anybodys(app: &App, domain: &str) -> Result<bool, DbError> {
    Ok(app.db.row::<(String,)>(sql::IS_ANYBODYS, args![domain]).await?.is_some())
}

/// Adds a domain; one that was added before stays as it is.
async fn add(
    app: &App,
    account: &AccountId,
    name: &str,
    by: By<'_>,
    claim: &Claim,
) -> Result<Domain, Error> {
    if let Some(known) = known(app, account, name, claim).await? {
        return Ok(known);
    }
    let id = EmailDomainId::new(&app.clock);
    if app.env == Env::Live {
        app.throttle.take(Class::Keys, account.as_str()).map_err(Error::TooManyKeys)?;
    }
    let keys = keys::make(app, account, name).await.ok_or(Error::NoKeys)?;
    let mut random = [0_u8; 16];
    app.clock.fill(&mut random);
    let mut set = WriteSet::of(account.as_str());
    limits::one_by_one(&mut set, account, Limited::EmailDomains);
    set.absent(sql::LAST_OF_ALL, args![account, name, MOST - 1], FULL);
    let sealed = keys.seal(app, account, &id);
    let args = args![
        account,
        &id,
        name,
        hex(&random),
        keys.rsa_public,
        keys.ed25519_public,
        sealed,
        id.time()
    ];
    set.guard(sql::INSERT, args, ADDED);
    let detail = serde_json::json!({ "domain": name });
    let entry = Entry::of_account(account, id.as_str(), by, "email_domain.add", detail);
    audit::record(app, &mut set, &entry);
    claim.add_to(&mut set, id.as_str(), None, app.now());
    match app.db.commit(set).await {
        Err(::store::CommitError::Rejected(FULL)) => Err(Error::TooManyDomains),
        // The id of this one never comes to be, so nothing may name it.
        Err(::store::CommitError::Rejected(ADDED)) => {
            known(app, account, name, claim).await?.ok_or(Error::Unknown)
        }
        Err(error) => Err(error.into()),
        Ok(_) => {
            let found = app.db.row(sql::BY_NAME, args![account, name]).await?;
            found.ok_or(Error::Unknown)
        }
    }
}

/// The domain of a name that was added before, for which the claim then stands.
async fn known(
    app: &App,
    account: &AccountId,
    name: &str,
    claim: &Claim,
) -> Result<Option<Domain>, Error> {
    let known: Option<Domain> = app.db.row(sql::BY_NAME, args![account, name]).await?;
    if let Some(known) = &known {
        claim.stand_for(app, known.id.as_str()).await?;
    }
    Ok(known)
}

async fn find(
    app: &App,
    account: &AccountId,
    id: &EmailDomainId,
) -> Result<Option<Domain>, DbError> {
    app.db.row(sql::BY_ID, args![account, id]).await
}

/// At most so many domains before an id, newest first.
async fn stretch(
    app: &App,
    account: &AccountId,
    before: &str,
    limit: i64,
) -> Result<Vec<Domain>, DbError> {
    app.db.rows(sql::PAGE, args![account, before, limit]).await
}

/// Looks at the records of a domain, and says how it stands by them.
async fn verify(
    app: &App,
    account: &AccountId,
    domain: Domain,
    claim: &Claim,
) -> Result<Domain, Error> {
    let found = look(app, &domain).await;
    let now = app.now();
    let Standing { status, verified_at, missing_since } = Standing::of(&domain, &found, now);
    let mut set = WriteSet::of(account.as_str());
    let (stored, seen) = (found.to_stored(), found.seen_to_stored());
    let status_word = status.as_str();
    let args =
        args![status_word, stored, now, verified_at, missing_since, seen, account, &domain.id];
    set.push(sql::CHECKED, args);
    claim.add_to(&mut set, domain.id.as_str(), None, now);
    app.db.commit(set).await?;
    Ok(Domain { status, found, checked_at: Some(now), verified_at, missing_since, ..domain })
}

/// Which records are there. The sandbox has a DNS of its own, in which everybody has published
/// what they should, but nobody has a name under `.invalid` (RFC 2606 §2).
async fn look(app: &App, domain: &Domain) -> Found {
    let is_sandbox = app.env == Env::Sandbox;
    let is_invalid = domain.name.ends_with(".invalid");
    let looks = Record::ALL.iter().map(|&record| async move {
        match (is_sandbox, is_invalid) {
            (true, true) => Ok(Seen::default()),
            (true, false) => Ok(Seen { is_good: true, texts: vec![record.value(app, domain)] }),
            (false, _) => record.look(app, domain).await,
        }
    });
    let mut found = Found::default();
    for (record, seen) in Record::ALL.iter().zip(join_all(looks).await) {
        match seen {
            Ok(seen) => found.note(*record, seen),
            // Where nobody can say, it stays as it was.
            Err(_) if domain.found.has(*record) => found.records.push(*record),
            Err(_) => {}
        }
    }
    found
}

/// What signs the mail of a domain; `None` where nothing does: in the sandbox.
pub(super) async fn signers(
    app: &App,
    account: &AccountId,
    name: &str,
) -> Result<Option<Signers>, Error> {
    let found: Option<(EmailDomainId, Option<Vec<u8>>)> =
        app.db.row(sql::KEYS, args![account, name]).await?;
    let Some((id, Some(sealed))) = found else { return Ok(None) };
    Signers::open(app, account, &id, name, &sealed).ok_or(Error::NoKeys).map(Some)
}

async fn remove(app: &App, account: &AccountId, domain: &Domain, by: By<'_>) -> Result<(), Error> {
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::DELETE, args![account, &domain.id]);
    let (id, detail) = (domain.id.as_str(), serde_json::json!({ "domain": domain.name }));
    let entry = Entry::of_account(account, id, by, "email_domain.remove", detail);
    audit::record(app, &mut set, &entry);
    Ok(app.db.commit(set).await.map(drop)?)
}
