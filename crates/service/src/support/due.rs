//! What time brings: targets come near and are missed, resolved tickets close.
//! `tickets.next_at` says when; it is durable, so a crash forgets nothing.

use std::sync::atomic::Ordering;

use ::store::{FromRow, WriteSet, args};
use futures_util::{StreamExt, stream};

use super::decide::{self, Due};
use super::{Error, Reader, STALE, events, store as sql, tickets};
use crate::access::Who;
use crate::app::App;
use crate::kit::id::{AccountId, TicketId};

/// How often due work is looked for, milliseconds.
const PAUSE_MS: u64 = 1_000;
/// Tickets claimed at a time.
const BATCH: i64 = 100;
/// How long a claim keeps other nodes away, milliseconds.
const CLAIM_MS: i64 = 15_000;
/// Tickets visited at the same time.
const PARALLEL: usize = 8;

/// Does due work of both environments until the process drains.
pub async fn run(app: App) {
    while !app.draining.load(Ordering::SeqCst) {
        match run_due(&app).await {
            Ok(0) => app.rest(PAUSE_MS).await,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "due tickets not read; trying again");
                app.rest(PAUSE_MS).await;
            }
        }
    }
}

/// Visits the tickets that are due now and says how many there were.
///
/// # Errors
/// When they cannot be claimed. A visit that fails is logged, and due again when its claim ends.
pub async fn run_due(app: &App) -> Result<usize, Error> {
    let now = app.now();
    if app.db.row::<(i64,)>(sql::ANY_DUE, args![now]).await?.is_none() {
        return Ok(0);
    }
    let mut set = WriteSet::of("tickets");
    set.returning_rows(sql::CLAIM_DUE, args![now + CLAIM_MS, now, BATCH]);
    let rows = app.db.commit(set).await?.rows.into_iter().flatten();
    let due: Vec<(AccountId, TicketId)> = rows.map(FromRow::from_row).collect::<Result<_, _>>()?;
    let count = due.len();
    let visits = stream::iter(due.into_iter().map(|(account, id)| visit(app, account, id)));
    visits.buffer_unordered(PARALLEL).collect::<()>().await;
    Ok(count)
}

async fn visit(app: &App, account: AccountId, id: TicketId) {
    loop {
        match step(app, &account, &id).await {
            Ok(true) => {}
            Err(error) if error.is_race() => {}
            Ok(false) | Err(Error::Unknown) => return,
            Err(error) => {
                tracing::warn!(%error, ticket = %id, "due ticket not visited; trying again");
                return;
            }
        }
    }
}

/// One thing that is due; false when there is none any more.
async fn step(app: &App, account: &AccountId, id: &TicketId) -> Result<bool, Error> {
    let before = tickets::find(app, Reader::User(account), id).await?;
    let settings = &app.config.support;
    let mut set = WriteSet::of(account.as_str());
    let Some((due, after)) = decide::overdue(&before, settings, app.now()) else {
        let next_at = decide::next_at(&before, settings);
        set.guard(sql::POSTPONE, args![next_at, account, id, before.version], STALE);
        app.db.commit(set).await?;
        return Ok(false);
    };
    tickets::put(app, &mut set, &Who::Service, &before, &after);
    if let Some(reason) = reason(due) {
        events::changed(app, &mut set, &after, reason);
    }
    tickets::commit(app, set, &before).await?;
    Ok(true)
}

/// What is told beside a change; what is missed, and a status, tell themselves.
const fn reason(due: Due) -> Option<&'static str> {
    match due {
        Due::ReplyNear => Some("first_reply_near"),
        Due::ResolutionNear => Some("resolution_near"),
        Due::ReplyMissed | Due::ResolutionMissed | Due::Close => None,
    }
}
