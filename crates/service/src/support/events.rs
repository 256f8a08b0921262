//! The events of support: `support.message` for every message that a user may see,
//! `support.ticket` for changes of a ticket. `view` shows the object of one.

use store::{WriteSet, args};

use super::{Ticket, store as sql};
use crate::app::App;
use crate::events;
use crate::kit::id::{AccountId, EventId, TicketMessageId};

/// Tells of a message that is in this set, unless it is a note.
pub(super) fn written(app: &App, set: &mut WriteSet, account: &AccountId, id: &TicketMessageId) {
    let (node, due) = events::address(app);
    let event = EventId::new(&app.clock);
    set.push(sql::TELL_MESSAGE, args![&event, node, due, account, id]);
    set.ring(events::BELL);
}

/// Tells of a ticket as it stands in this set, and why.
pub(super) fn changed(app: &App, set: &mut WriteSet, ticket: &Ticket, reason: &'static str) {
    let (node, due) = events::address(app);
    let event = EventId::new(&app.clock);
    set.push(sql::TELL_TICKET, args![&event, reason, node, due, &ticket.account, &ticket.id]);
    set.ring(events::BELL);
}
