//! Live chat: the sockets of both sides of a ticket. A message is committed first; then the
//! ticket has news, and `fan` reads from the database what its sockets do not have yet. So a socket
//! gets all messages in the order of their numbers, whichever node or request wrote them, and one
//! that was away asks for what comes after the number it knows.
//!
//! Several nodes share a database: whoever writes leaves a note for each other node that has
//! sockets of the ticket (`nodes`), in the same write set.

pub mod api;
mod budget;
mod fan;
mod farewell;
mod frames;
mod nodes;
mod socket;
mod store;
mod token;

use ::store::WriteSet;

use super::Ticket;
use crate::app::App;
use crate::kit::id::{AccountId, TicketId};

pub use fan::run;
pub(super) use nodes::has_user;
pub use token::forget_tokens;

/// Why a socket is closed (RFC 6455 §7.4; 4000 and above are ours).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The process stops; connect again.
    Restart,
    /// The database failed; connect again.
    Broken,
    /// A frame that breaks the protocol.
    Protocol,
    /// A frame that is no text.
    Binary,
    /// A text that is not UTF-8.
    NotUtf8,
    /// A frame that cannot be used, and the socket asked for no `error` frames.
    Useless,
    /// The ticket is closed, and the socket asked for no `error` frames.
    Closed,
    /// A frame that is too large.
    TooLarge,
    /// The token is missing, wrong, used, or over.
    NoToken,
    /// The page or the account may not do this.
    Forbidden,
    /// There is no such ticket for whoever asks.
    NoTicket,
    /// The client does not read.
    Slow,
    /// Too many frames or sockets.
    TooMany,
}

impl Ending {
    /// The code.
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Restart => 1012,
            Self::Broken => 1011,
            Self::Protocol => 1002,
            Self::Binary => 1003,
            Self::NotUtf8 => 1007,
            Self::Useless | Self::Closed => 1008,
            Self::TooLarge => 1009,
            Self::NoToken => 4401,
            Self::Forbidden => 4403,
            Self::NoTicket => 4404,
            Self::Slow => 4408,
            Self::TooMany => 4429,
        }
    }

    /// What is said with it: a sentence.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Restart => "The service is restarting; reconnect with since.",
            Self::Broken => "The service failed; reconnect with since.",
            Self::Protocol => "This is not as in RFC 6455.",
            Self::Binary => "Send text.",
            Self::NotUtf8 => "Send UTF-8.",
            Self::Useless => "Send {\"message\": text}; features=error tells what was wrong.",
            Self::Closed => "The ticket is closed; open a new one that follows it.",
            Self::TooLarge => "A frame has at most 128 KiB.",
            Self::NoToken => "The token is not valid here, or no longer valid.",
            Self::Forbidden => "Not allowed from this origin or for this account.",
            Self::NoTicket => "There is no such ticket.",
            Self::Slow => "The client reads too slowly; reconnect with since.",
            Self::TooMany => "There are too many frames or sockets.",
        }
    }
}

/// Adds to the set of a change what tells the other nodes of it. The set must have changed the
/// ticket's row before.
pub(super) fn tell_nodes(app: &App, set: &mut WriteSet, account: &AccountId, ticket: &TicketId) {
    if app.config.database.is_shared() {
        nodes::leave_mail(app, set, account, ticket, None);
    }
}

/// Tells the sockets of this node that a ticket has news, and hints to other nodes to look for
/// what the commit left them.
pub(super) fn tell_here(app: &App, ticket: &Ticket) {
    app.sockets.news(ticket.id.as_str());
    app.db.nudge();
}
