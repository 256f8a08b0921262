//! Whom an account sent passcodes to lately: a reply to one is for the account that sent it.

mod store;

use ::store::{Error, args};
use clock::Millis;
use futures_util::future::BoxFuture;

use self::store as sql;
use crate::app::{App, LastSent};
use crate::carriers::Channel;
use crate::kit::id::{AccountId, AttemptId};

/// Most accounts that are looked at for one person.
const MOST: i64 = 200;

/// See [`crate::app::SentTo`].
#[must_use]
pub fn sent_to<'a>(
    app: &'a App,
    channel: Channel,
    person: &'a str,
    since: Millis,
) -> BoxFuture<'a, Result<Vec<LastSent>, Error>> {
    Box::pin(async move {
        let since = AttemptId::bound(since);
        let args = args![person, &since, channel.as_str(), app.env.as_str(), MOST];
        let rows: Vec<(AccountId, AttemptId)> = app.db.rows(sql::NEWEST_LEGS, args).await?;
        let sent = |(account, leg): (AccountId, AttemptId)| LastSent { account, at: leg.time() };
        Ok(rows.into_iter().map(sent).collect())
    })
}
