//! How a domain stands by its records, and the daily look at those that are verified already. DNS
//! has bad days, and people move their zones: a domain whose records are gone stays verified for
//! three days more, and says so.

use ::store::{WriteSet, args};
use clock::{DAY, HOUR, Millis};

use super::{Domain, Found, Status, look, sql};
use crate::access::retention::Accounts;
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::emails::Error;
use crate::kit::id::AccountId;

/// How long a domain stays verified without its records.
const GRACE_MS: i64 = 3 * DAY;
/// How old the last look has to be, a little less than the chore's pace.
const FRESH_MS: i64 = DAY - HOUR;

/// How a domain stands.
pub(super) struct Standing {
    pub(super) status: Status,
    pub(super) verified_at: Option<Millis>,
    pub(super) missing_since: Option<Millis>,
}

impl Standing {
    /// By what a look at its records found, whoever asked for it.
    pub(super) fn of(domain: &Domain, found: &Found, now: Millis) -> Self {
        if found.is_enough() {
            let verified_at = domain.verified_at.or(Some(now));
            return Self { status: Status::Verified, verified_at, missing_since: None };
        }
        let since = domain.missing_since.unwrap_or(now);
        if domain.status == Status::Pending || now - since >= GRACE_MS {
            return Self { status: Status::Pending, verified_at: None, missing_since: None };
        }
        let missing_since = Some(since);
        Self { status: Status::Verified, verified_at: domain.verified_at, missing_since }
    }
}

/// Looks at all verified domains of live again; answers how many are not verified any more.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn check_again(app: &App, turn: &Turn) -> Result<u64, Error> {
    let (mut lost, mut accounts) = (0, Accounts::default());
    while turn.breathe().await
        && let Some((account, env)) = accounts.next_with_env(app).await?
    {
        if env != Env::Live {
            continue;
        }
        let args = args![&account, turn.now() - FRESH_MS];
        let domains: Vec<Domain> = app.db.rows(sql::TO_CHECK, args).await?;
        for domain in domains {
            lost += u64::from(check_one(app, turn, &account, domain).await? == Status::Pending);
            if !turn.rest().await {
                return Ok(lost);
            }
        }
    }
    Ok(lost)
}

async fn check_one(
    app: &App,
    turn: &Turn,
    account: &AccountId,
    domain: Domain,
) -> Result<Status, Error> {
    let found = look(app, &domain).await;
    let now = turn.now();
    let Standing { status, verified_at, missing_since } = Standing::of(&domain, &found, now);
    let mut set = WriteSet::of(account.as_str());
    let (words, seen) = (found.to_stored(), found.seen_to_stored());
    let (id, checked_at) = (&domain.id, domain.checked_at);
    let status_word = status.as_str();
    let args =
        args![status_word, words, now, verified_at, missing_since, seen, account, id, checked_at];
    set.push(sql::CHECKED_AGAIN, args);
    app.db.commit(set).await?;
    if status == Status::Pending {
        tracing::warn!(domain = id.as_str(), "a domain lost its records: it is not verified");
    }
    Ok(status)
}
