//! The object of an event of support, as its user's endpoints show it at the time of the event.

use futures_util::future::BoxFuture;
use store::Error;

use super::{Reader, messages, tickets, view};
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

async fn ticket(app: &App, news: EventRef<'_>) -> Result<Option<String>, super::Error> {
    let Some(id) = TicketId::parse(news.object_id) else { return Ok(None) };
    let mut ticket = tickets::find(app, Reader::User(news.account), &id).await?;
    let mut words = news.state.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_default();
    let reason = word();
    // Without its state (somebody was erased) it is shown as it stands now.
    if let Ok(status) = word().parse() {
        ticket.status = status;
        ticket.priority = word().parse().unwrap_or(ticket.priority);
        let assignee = word();
        ticket.assignee = (assignee != "-").then(|| StaffId::stored(assignee.to_owned()));
    }
    let view = view::TicketView::from(ticket);
    let Ok(serde_json::Value::Object(mut data)) = serde_json::to_value(view) else {
        return Ok(None);
    };
    data.insert("reason".to_owned(), reason.into());
    Ok(serde_json::to_string(&data).ok())
}
