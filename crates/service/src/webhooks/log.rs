//! The delivery log of a target.

use store::args;

use super::{Attempt, Delivery, Error, store as sql};
use crate::app::App;
use crate::kit::id::{AccountId, WebhookId};
use crate::kit::page::{self, Page, Since};

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

/// The tries of a delivery, first to last.
///
/// # Errors
/// [`Error::Db`].
pub async fn attempts(
    app: &App,
    account: &AccountId,
    delivery: &Delivery,
) -> Result<Vec<Attempt>, Error> {
    let read = async |sql| {
        let args = args![account, &delivery.webhook, &delivery.id];
        app.db.rows::<Attempt>(sql, args).await
    };
    let mut tries = read(sql::FIRST_TRY).await?;
    tries.extend(read(sql::TRIES).await?);
    Ok(tries)
}
