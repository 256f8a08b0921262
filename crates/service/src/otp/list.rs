//! Lists of challenges. Expiry is a fact of time, so the filter by status looks at how a challenge
//! reads now, not at what is stored.

use store::Error;

use super::{Challenge, Status, store as sql};
use crate::app::App;
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::page::{self, Page, Query, Since};
use crate::kit::problem::Problem;

/// Which challenges a list is of.
pub(super) struct Filter {
    to: Option<String>,
    reference: Option<String>,
    status: Option<Status>,
    since: Since,
}

impl Filter {
    /// Reads the filters of a query; `until` moves the page.
    ///
    /// # Errors
    /// 400 `invalid_request` naming the parameter.
    pub(super) fn read(query: &Query, page: &mut Page) -> Result<Self, Problem> {
        Ok(Self {
            to: query.phone("to")?.map(|to| to.e164().to_owned()),
            reference: query.get("reference").map(str::to_owned),
            status: query.word("status")?,
            since: query.between(page, |at| ChallengeId::bound(at).into())?,
        })
    }
}

/// One page, newest first, and the id after which the next begins.
///
/// # Errors
/// See [`Error`].
pub(super) async fn list(
    app: &App,
    account: &AccountId,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Challenge>, Option<String>), Error> {
    let now = app.now();
    let read = async |after: String, limit| {
        let rows = match (&filter.to, &filter.reference) {
            (Some(to), _) => sql::list_to(app, account, to, &after, limit).await?,
            (None, Some(reference)) => {
                sql::list_called(app, account, reference, &after, limit).await?
            }
            (None, None) => sql::list(app, account, &after, limit).await?,
        };
        Ok(filter.since.keep(rows, |challenge: &Challenge| challenge.id.as_str()))
    };
    let keeps = |challenge: &Challenge| {
        filter.status.is_none_or(|status| status == challenge.shown_status(now))
            && filter.reference.as_ref().is_none_or(|own| challenge.reference.as_ref() == Some(own))
    };
    let is_sifted = filter.status.is_some() || filter.reference.is_some() && filter.to.is_some();
    let keep = is_sifted.then_some(&keeps as &(dyn Fn(&Challenge) -> bool + Sync));
    page::sift(page, read, |challenge: &Challenge| challenge.id.as_str().to_owned(), keep).await
}
