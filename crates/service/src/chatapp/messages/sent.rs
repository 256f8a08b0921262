//! Whom an account wrote to lately: an answer is for the account that wrote.

use clock::Millis;
use futures_util::future::BoxFuture;
use store::Error;

use super::store as sql;
use crate::app::{App, LastSent};
use crate::carriers::Channel;

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
        if channel != Channel::Chatapp {
            return Ok(Vec::new());
        }
        let rows = sql::newest_to(app, person, since, MOST).await?;
        Ok(rows.into_iter().map(|(account, id)| LastSent { account, at: id.time() }).collect())
    })
}
