//! Messages of phones as networks bring them: in parts, in any order, without an id, and again
//! until they are acknowledged. Each part is stored before that; with the last one the message is
//! put together. One that stays incomplete is delivered as far as it came.

use ::store::{Reject, WriteSet, args};
use clock::{MINUTE, Millis};
use serde_json::json;
use sms_text::ucs2;

use super::message::Message;
use super::store::{self as sql, PartRow};
use super::{Arrived, Fault, Taken, account_for, keep, opt_outs};
use crate::app::App;
use crate::carriers::{Channel, Inbound, InboundPart, NotNow};
use crate::chores::Turn;
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;

/// How long the missing parts of a message are waited for.
const WAIT_MS: i64 = 30 * MINUTE;
/// For how long the same text of the same person counts as brought again, unless it asks for what
/// does not hold: STOP, START and STOP are three messages.
const AGAIN_MS: i64 = 10 * MINUTE;
/// Another put the message together.
pub(super) const DONE: Reject = Reject("inbound_parts_done");

/// What a message was put together from.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    group: &'a [u8; 32],
    /// As they were read; another message may bring one under the same reference meanwhile.
    rows: &'a [PartRow],
}

/// Takes in a part.
///
/// # Errors
/// [`NotNow`] when it could not be stored.
pub async fn take_part(app: &App, part: &InboundPart) -> Result<(), NotNow> {
    let channel = part.message.channel.as_str();
    match take(app, part).await {
        Ok(Some(taken)) => app.metrics.inbound(channel, taken.as_str()),
        Ok(None) => {}
        Err(error) => {
            app.metrics.inbound(channel, "failed");
            tracing::warn!(%error, carrier = part.message.carrier, "inbound message not stored");
            return Err(NotNow);
        }
    }
    Ok(())
}

/// `None`: others of its message are to come.
async fn take(app: &App, part: &InboundPart) -> Result<Option<Taken>, Fault> {
    let Inbound { carrier, sender, recipient, text, received_at, .. } = &part.message;
    let shared = [carrier, sender, recipient, part.reference.as_str()];
    if part.total <= 1 {
        let [carrier, sender, recipient, reference] = shared;
        let mac = app.vault.upstream_mac(&["one", carrier, sender, recipient, reference, text]);
        let since = *received_at - AGAIN_MS;
        return finish(app, &part.message, mac, since, None).await.map(Some);
    }
    let [carrier, sender, recipient, reference] = shared;
    let total = part.total.to_string();
    let group = app.vault.upstream_mac(&["parts", carrier, sender, recipient, reference, &total]);
    let text_mac = app.vault.upstream_mac(&["text", text]).to_vec();
    let number = i64::from(part.number);
    let rows: Vec<PartRow> = app.db.rows(sql::PARTS, args![group]).await?;
    let known = rows.iter().find(|row| row.number == number);
    let is_another = rows.iter().any(|row| row.received_at < *received_at - WAIT_MS)
        || known.is_some_and(|row| row.text_mac != text_mac);
    if is_another {
        // References are used again: what was there is another message.
        close(app, &group, &rows).await?;
    } else if known.is_some_and(|row| row.is_done) {
        return Ok(Some(Taken::Known));
    }
    let mut set = WriteSet::of(carrier);
    let (message, total) = (Message::of(app, &part.message), i64::from(part.total));
    let (sender, recipient) = (message.sender.text(), message.recipient.text());
    set.push(
        sql::ADD_PART,
        args![
            group,
            number,
            total,
            carrier,
            sender,
            recipient,
            &message.text,
            text_mac,
            *received_at
        ],
    );
    app.db.commit(set).await?;
    let rows: Vec<PartRow> = app.db.rows(sql::PARTS, args![group]).await?;
    let is_whole = i64::try_from(rows.len()).unwrap_or(0) >= total;
    if !is_whole || rows.iter().any(|row| row.is_done) {
        return Ok(None);
    }
    deliver(app, &group, &rows, part.message.clone()).await.map(Some)
}

/// Puts the parts together that there are.
async fn deliver(
    app: &App,
    group: &[u8; 32],
    rows: &[PartRow],
    like: Inbound,
) -> Result<Taken, Fault> {
    let text = ucs2::join(&rows.iter().map(|row| row.text.as_str()).collect::<String>());
    let (parts, came) = (rows.first().map_or(0, |row| row.total), rows.len());
    let is_partial = i64::try_from(came).unwrap_or(i64::MAX) < parts;
    let raw = json!({
        "source_addr": like.sender, "destination_addr": like.recipient,
        "parts": parts, "received": came, "partial": is_partial,
    });
    let first = rows.iter().map(|row| row.received_at).min().unwrap_or(like.received_at);
    let Inbound { carrier, sender, recipient, .. } = &like;
    let first_ms = first.0.to_string();
    let mac = app.vault.upstream_mac(&["whole", carrier, sender, recipient, &text, &first_ms]);
    let message = Inbound { text, raw, received_at: first, ..like };
    finish(app, &message, mac, Millis(0), Some(Parts { group, rows })).await
}

/// Stores a message; with it its parts are done.
async fn finish(
    app: &App,
    inbound: &Inbound,
    mac: [u8; 32],
    since: Millis,
    parts: Option<Parts<'_>>,
) -> Result<Taken, Fault> {
    let message = Message { mac, ..Message::of(app, inbound) };
    let account = account_for(app, &message).await?;
    let is_new = opt_outs::is_new_wish(app, account.as_ref(), &message).await?;
    let since = if is_new { app.now() } else { since };
    keep(app, account.as_ref(), Arrived { message: &message, since, parts }).await
}

/// Marks the parts of a message as put together, once: whoever marks the first one first.
pub(super) fn end(set: &mut WriteSet, parts: Parts<'_>) {
    let Parts { group, rows } = parts;
    for (at, row) in rows.iter().enumerate() {
        let args = args![*group, row.number, row.text_mac.as_slice()];
        if at == 0 {
            set.guard(sql::END_PART, args, DONE);
        } else {
            set.push(sql::END_PART, args);
        }
    }
}

/// Delivers what came of a message that stays incomplete, and forgets its parts.
async fn close(app: &App, group: &[u8; 32], rows: &[PartRow]) -> Result<(), Fault> {
    let mut set = WriteSet::of("inbound_parts");
    if let Some(first) = rows.first().filter(|row| !row.is_done) {
        let (sender, recipient) = (first.sender.clone(), first.recipient.clone());
        let like = written(first.carrier.clone(), sender, recipient, first.received_at);
        if deliver(app, group, rows, like).await? == Taken::Known {
            // It was taken in before, in other parts: these are as good as put together.
            for row in rows {
                set.push(sql::DROP_PART, args![*group, row.number, row.text_mac.as_slice()]);
            }
        }
    }
    set.push(sql::DROP_PARTS, args![*group]);
    app.db.commit(set).await?;
    Ok(())
}

/// Delivers messages whose missing parts are waited for no longer, and forgets what is known of
/// those that were put together; answers how many.
///
/// # Errors
/// See [`Fault`].
pub async fn settle_parts(app: &App, turn: &Turn) -> Result<u64, Fault> {
    let mut count = 0;
    loop {
        let args = args![turn.now() - WAIT_MS, app.config.retention.chunk];
        let groups: Vec<(Vec<u8>,)> = app.db.rows(sql::OLD_PARTS, args).await?;
        for (group,) in &groups {
            let Ok(group) = <[u8; 32]>::try_from(group.as_slice()) else { continue };
            let rows: Vec<PartRow> = app.db.rows(sql::PARTS, args![group]).await?;
            close(app, &group, &rows).await?;
            count += 1;
        }
        if groups.is_empty() || !turn.rest().await {
            return Ok(count);
        }
    }
}

/// Deletes the parts of what a person wrote: of all of it, or of what would be for this account.
/// Whom it is for is found by what was sent to the person, so it goes before that.
///
/// # Errors
/// See [`Fault`].
pub(super) async fn erase_parts(
    app: &App,
    person: &Msisdn,
    account: Option<&AccountId>,
) -> Result<(), Fault> {
    let number = person.e164();
    for sender in [number, number.trim_start_matches('+')] {
        // Some carriers do not say whom it was written to, and then it is for nobody's account.
        if account.is_none() {
            erase_between(app, sender, "").await?;
        }
        let mut last = String::new();
        while let Some((recipient,)) =
            app.db.row::<(String,)>(sql::WRITTEN_TO, args![sender, &last]).await?
        {
            let is_meant = match account {
                Some(account) => is_for(app, account, sender, &recipient).await?,
                None => true,
            };
            if is_meant {
                erase_between(app, sender, &recipient).await?;
            }
            last = recipient;
        }
    }
    Ok(())
}

/// Whether what somebody writes to a number is for an account.
async fn is_for(
    app: &App,
    account: &AccountId,
    sender: &str,
    recipient: &str,
) -> Result<bool, Fault> {
    let inbound = written(String::new(), sender.to_owned(), recipient.to_owned(), app.now());
    let found = account_for(app, &Message::of(app, &inbound)).await?;
    Ok(found.as_ref() == Some(account))
}

/// Deletes all parts of somebody's messages to a number, a chunk at a time.
async fn erase_between(app: &App, sender: &str, recipient: &str) -> Result<(), Fault> {
    let chunk = app.config.retention.chunk;
    loop {
        let mut set = WriteSet::of("inbound_parts");
        set.returning_rows(sql::ERASE_PARTS, args![sender, recipient, chunk]);
        let rows: usize = app.db.commit(set).await?.rows.iter().map(Vec::len).sum();
        if rows < usize::try_from(chunk).unwrap_or(usize::MAX) {
            return Ok(());
        }
    }
}

/// An SMS without its words.
fn written(carrier: String, sender: String, recipient: String, received_at: Millis) -> Inbound {
    Inbound {
        carrier,
        upstream_id: String::new(),
        channel: Channel::Sms,
        account_id: None,
        sender,
        recipient,
        text: String::new(),
        is_words: true,
        button: None,
        context: None,
        received_at,
        raw: serde_json::Value::Null,
    }
}
