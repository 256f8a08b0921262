//! The object of an event of support, as its user's endpoints show it at the time of the event.

use clock::Millis;
use futures_util::future::BoxFuture;
use store::Error;

use super::{Reader, Ticket, messages, tickets, view};
use crate::app::{App, EventRef};
use crate::events::Kind;
use crate::kit::id::{StaffId, TicketId, TicketMessageId};

/// The object of an event, as of the event.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let shown = if news.kind == Kind::SupportMessage.as_str() {
            message(app, news).await
        } else {
            ticket(app, news).await
        };
        match shown {
            Ok(shown) => Ok(shown),
            Err(super::Error::Db(error)) => Err(error),
            // It is gone.
            Err(_) => Ok(None),
        }
    })
}

async fn message(app: &App, news: EventRef<'_>) -> Result<Option<String>, super::Error> {
    let Some(id) = TicketMessageId::parse(news.object_id) else { return Ok(None) };
    let reader = Reader::User(news.account);
    let message = messages::by_id(app, reader, &id).await?;
    let view = view::told(app, message).await?;
    Ok(view.and_then(|view| serde_json::to_string(&view).ok()))
}

/// Makes a ticket what it was when a change of it was told. Without that (somebody was erased) it
/// is shown as it stands now, and so is what versions before did not keep.
fn as_told(ticket: &mut Ticket, state: &str) {
    let mut words = state.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let Some(status) = word().and_then(|word| word.parse().ok()) else { return };
    ticket.status = status;
    ticket.priority = word().and_then(|word| word.parse().ok()).unwrap_or(ticket.priority);
    let text = |word: &str| (word != "-").then(|| word.to_owned());
    ticket.assignee = word().and_then(text).map(StaffId::stored);
    let number = |word: &str| word.parse::<i64>().ok();
    let Some(updated_at) = word().and_then(number) else { return };
    ticket.updated_at = Millis(updated_at);
    ticket.shown_seq = word().and_then(number).unwrap_or(ticket.shown_seq);
    ticket.user_read_seq = word().and_then(number).unwrap_or(ticket.user_read_seq);
    ticket.resolved_at = word().and_then(number).map(Millis);
    ticket.closed_at = word().and_then(number).map(Millis);
    ticket.rating = word().and_then(number);
    ticket.merged_into = word().and_then(text).map(TicketId::stored);
}

async fn ticket(app: &App, news: EventRef<'_>) -> Result<Option<String>, super::Error> {
    let Some(id) = TicketId::parse(news.object_id) else { return Ok(None) };
    let mut ticket = tickets::find(app, Reader::User(news.account), &id).await?;
    let (reason, state) = news.state.split_once(' ').unwrap_or((news.state, ""));
    as_told(&mut ticket, state);
    let view = view::TicketView::from(ticket);
    let Ok(serde_json::Value::Object(mut data)) = serde_json::to_value(view) else {
        return Ok(None);
    };
    data.insert("reason".to_owned(), reason.into());
    Ok(serde_json::to_string(&data).ok())
}
