//! Answers that staff keep at hand, with variables that a ticket fills in.

pub mod api;
mod store;

use ::store::{CommitError, FromRow, Reject, Row, WriteSet, args};
use clock::Millis;

use self::store as sql;
use super::{Error, LONGEST_MESSAGE, Reader, Ticket, tickets};
use crate::access::idempotency::Claim;
use crate::access::{By, Entry, record};
use crate::app::App;
use crate::kit::id::{CannedReplyId, TicketId};
use crate::kit::page::Page;

/// All that a deployment may have.
const MOST: i64 = 1_000;
/// Somebody deleted it meanwhile.
const GONE: Reject = Reject("canned_reply_gone");
/// The names between two pairs of braces.
pub const VARIABLES: [&str; 4] = ["ticket_id", "subject", "priority", "status"];

/// An answer kept at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    id: CannedReplyId,
    title: String,
    body: String,
    created_at: Millis,
    updated_at: Millis,
}

impl FromRow for Reply {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            id: row.take(0)?,
            title: row.take(1)?,
            body: row.take(2)?,
            created_at: row.take(3)?,
            updated_at: row.take(4)?,
        })
    }
}

/// The first variable of a text that is none of ours.
fn stranger(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}")?;
        if !VARIABLES.contains(&name.trim()) {
            return Some(name);
        }
        rest = after;
    }
    None
}

/// A text with its variables filled in.
fn fill(text: &str, ticket: &Ticket) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        filled.push_str(before);
        filled.push_str(match name.trim() {
            "ticket_id" => ticket.id.as_str(),
            "subject" => &ticket.subject,
            "priority" => ticket.priority.as_str(),
            _ => ticket.status.as_str(),
        });
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// A reply for a ticket.
pub(super) async fn filled(
    app: &App,
    reply: Option<&CannedReplyId>,
    ticket: &TicketId,
) -> Result<String, Error> {
    let wrong = Error::Field { field: "canned_reply_id", detail: "must be the id of a reply" };
    let Some(reply) = reply else { return Err(wrong) };
    let reply = find(app, reply).await.map_err(|error| error.or_unknown(wrong))?;
    let ticket = tickets::find(app, Reader::Staff, ticket).await?;
    let text = fill(&reply.body, &ticket);
    if text.chars().count() > LONGEST_MESSAGE {
        let detail = "is longer than 10,000 characters once it is filled in";
        return Err(Error::Field { field: "canned_reply_id", detail });
    }
    Ok(text)
}

async fn find(app: &App, id: &CannedReplyId) -> Result<Reply, Error> {
    app.db.row(sql::REPLY, args![id]).await?.ok_or(Error::Unknown)
}

/// One page, newest first, and one more if there is one.
async fn list(app: &App, page: &Page) -> Result<Vec<Reply>, Error> {
    Ok(app.db.rows(sql::REPLIES, args![page.after.as_str(), page.limit + 1]).await?)
}

/// A reply to be kept, or what becomes of one; what is `None` stays.
#[derive(Debug, Default)]
struct Draft {
    title: Option<String>,
    body: Option<String>,
}

async fn keep(app: &App, draft: Draft, by: By<'_>, claim: &Claim) -> Result<Reply, Error> {
    let (id, now) = (CannedReplyId::new(&app.clock), app.now());
    if app.db.row::<(CannedReplyId,)>(sql::LAST_OF_ALL, args![MOST - 1]).await?.is_some() {
        return Err(full());
    }
    let mut set = WriteSet::of("canned_replies");
    claim.add_to(&mut set, id.as_str(), None, now);
    let (title, body) = (draft.title.unwrap_or_default(), draft.body.unwrap_or_default());
    set.push(sql::KEEP, args![&id, title.as_str(), body.as_str(), now]);
    note(app, &mut set, &id, by, "canned_reply.create");
    app.db.commit(set).await?;
    Ok(Reply { id, title, body, created_at: now, updated_at: now })
}

fn full() -> Error {
    Error::Full(format!("There are {MOST} replies already. Delete one first."))
}

async fn change(app: &App, id: &CannedReplyId, draft: Draft, by: By<'_>) -> Result<Reply, Error> {
    let (before, now) = (find(app, id).await?, app.now());
    let mut set = WriteSet::of("canned_replies");
    set.guard(sql::CHANGE, args![draft.title.clone(), draft.body.clone(), now, id], GONE);
    note(app, &mut set, id, by, "canned_reply.change");
    commit(app, set).await?;
    let (title, body) = (draft.title.unwrap_or(before.title), draft.body.unwrap_or(before.body));
    // Nothing that fails behind the commit hides it.
    let after = Reply { title, body, updated_at: now, ..before };
    Ok(find(app, id).await.unwrap_or(after))
}

async fn delete(app: &App, id: &CannedReplyId, by: By<'_>) -> Result<Reply, Error> {
    let reply = find(app, id).await?;
    let mut set = WriteSet::of("canned_replies");
    set.guard(sql::DELETE, args![id], GONE);
    note(app, &mut set, id, by, "canned_reply.delete");
    commit(app, set).await?;
    Ok(reply)
}

async fn commit(app: &App, set: WriteSet) -> Result<(), Error> {
    match app.db.commit(set).await {
        Err(CommitError::Rejected(GONE)) => Err(Error::Unknown),
        done => Ok(done.map(drop)?),
    }
}

fn note(app: &App, set: &mut WriteSet, id: &CannedReplyId, by: By<'_>, action: &'static str) {
    let (object_id, request_id, detail) = (id.as_str(), by.request_id, serde_json::json!({}));
    record(
        app,
        set,
        &Entry { actor: by.who, action, object_id, account: None, request_id, detail },
    );
}

#[cfg(test)]
mod tests {
    use super::stranger;

    #[test]
    fn a_variable_that_does_not_exist_is_found() {
        assert_eq!(stranger("{{subject}} {{ ticket_id }} {single} }} {{"), None);
        assert_eq!(stranger("{{subject}} {{name}}"), Some("name"));
    }
}
