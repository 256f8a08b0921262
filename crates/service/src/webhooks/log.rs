//! The delivery log of a target.

use store::args;

use super::{Attempt, Delivery, Error, store as sql};
use crate::app::App;
use crate::kit::id::{AccountId, WebhookId};
use crate::kit::page::{self, Page, Since};

/// Tries that are shown of one delivery: it may be tried again as often as somebody asks.
pub const MOST_TRIES: usize = 100;

/// Which deliveries are shown; what is empty does not filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `pending`, `delivered`, `failed` or `exhausted`.
    pub status: String,
    /// The event's type.
    pub kind: String,
    /// The end of the list.
    pub since: Since,
}

impl Filter {
    fn keeps(&self, delivery: &Delivery) -> bool {
        (self.status.is_empty() || delivery.state == self.status)
            && (self.kind.is_empty() || delivery.kind == self.kind)
    }
}

/// One page of a target's deliveries, newest event first, and the id after which the next begins.
///
/// # Errors
/// [`Error::Db`].
pub async fn page(
    app: &App,
    account: &AccountId,
    id: &WebhookId,
    filter: &Filter,
    page: &Page,
) -> Result<(Vec<Delivery>, Option<String>), Error> {
    let read = async |after: String, limit| {
        let rows = app.db.rows(sql::LOG, args![account, id, after, limit]).await?;
        Ok::<_, store::Error>(filter.since.keep(rows, |row: &Delivery| row.id.as_str()))
    };
    let keep = |delivery: &Delivery| filter.keeps(delivery);
    let is_filtered = !(filter.status.is_empty() && filter.kind.is_empty());
    let keep: Option<&(dyn Fn(&Delivery) -> bool + Sync)> =
        if is_filtered { Some(&keep) } else { None };
    let id_of = |delivery: &Delivery| delivery.id.as_str().to_owned();
    Ok(page::sift(page, read, id_of, keep).await?)
}

/// How much of a try is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    Whole,
    /// All but what the receiver answered, which is not read.
    InShort,
}

/// The newest [`MOST_TRIES`] tries of a delivery, in their order.
///
/// # Errors
/// [`Error::Db`].
pub async fn attempts(
    app: &App,
    account: &AccountId,
    delivery: &Delivery,
    detail: Detail,
) -> Result<Vec<Attempt>, Error> {
    let (first, others) = match detail {
        Detail::Whole => (sql::FIRST_TRY, sql::TRIES),
        Detail::InShort => (sql::FIRST_TRY_IN_SHORT, sql::TRIES_IN_SHORT),
    };
    let (webhook, id) = (&delivery.webhook, &delivery.id);
    let most = i64::try_from(MOST_TRIES).unwrap_or(i64::MAX);
    let mut tries: Vec<Attempt> = app.db.rows(others, args![account, webhook, id, most]).await?;
    if tries.len() < MOST_TRIES {
        tries.extend(app.db.rows::<Attempt>(first, args![account, webhook, id]).await?);
    }
    tries.reverse();
    Ok(tries)
}
