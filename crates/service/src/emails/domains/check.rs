//! The daily look at domains that are verified already. DNS has bad days, and people move their
//! zones: a domain whose records are gone stays verified for three days more, and says so.

use ::store::{WriteSet, args};
use clock::{DAY, HOUR};

use super::{Domain, Status, look, sql};
use crate::access::retention::Accounts;
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::emails::Error;
use crate::kit::id::AccountId;

/// How long a domain stays verified without its records.
const GRACE_MS: i64 = 3 * DAY;
/// How old the last look has to be, a little less than the chore's pace.
const FRESH_MS: i64 = DAY - HOUR;

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
    let missing_since = (!found.is_enough()).then(|| domain.missing_since.unwrap_or(now));
    let is_lost = missing_since.is_some_and(|since| now - since >= GRACE_MS);
    let status = if is_lost { Status::Pending } else { Status::Verified };
    let verified_at = domain.verified_at.filter(|_| !is_lost);
    let missing_since = missing_since.filter(|_| !is_lost);
    let mut set = WriteSet::of(account.as_str());
    let (words, seen) = (found.to_stored(), found.seen_to_stored());
    let (id, checked_at) = (&domain.id, domain.checked_at);
    let status_word = status.as_str();
    let args =
        args![status_word, words, now, verified_at, missing_since, seen, account, id, checked_at];
    set.push(sql::CHECKED_AGAIN, args);
    app.db.commit(set).await?;
    if is_lost {
        tracing::warn!(domain = id.as_str(), "a domain lost its records: it is not verified");
    }
    Ok(status)
}
