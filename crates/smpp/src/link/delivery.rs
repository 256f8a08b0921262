//! What a link tells its caller: messages and receipts, and late answers.

use tokio::sync::mpsc;

use crate::message::Message;
use crate::session::Ticket;
use crate::status::Status;

use super::Outcome;

/// Something that comes by itself.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub enum News<K> {
    /// A message of a handset, or a receipt ([`crate::Receipt::of`]).
    Delivery(Delivery),
    /// The outcome of a submission that nobody waits for any more, or that was
    /// [`Outcome::Unknown`] before.
    AnsweredLate {
        /// The caller's name of it.
        key: K,
        /// What became of it.
        outcome: Outcome,
    },
}

/// An answer of the caller.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    /// Which session the message came on.
    pub(super) session: u64,
    pub(super) ticket: Ticket,
    pub(super) status: Status,
}

/// A message that came. The centre is told only what the caller decides; one that is dropped is
/// sent back to come again.
#[derive(Debug)]
pub struct Delivery {
    message: Message,
    session: u64,
    ticket: Option<Ticket>,
    answers: mpsc::UnboundedSender<Acknowledgement>,
}

impl Delivery {
    pub(super) const fn new(
        message: Message,
        session: u64,
        ticket: Ticket,
        answers: mpsc::UnboundedSender<Acknowledgement>,
    ) -> Self {
        Self { message, session, ticket: Some(ticket), answers }
    }

    /// What came.
    #[must_use]
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// It is stored: the centre may forget it.
    pub fn acknowledge(mut self) {
        self.answer(Status::ROK);
    }

    /// It is refused: [`Status::RX_T_APPN`] for now, [`Status::RX_R_APPN`] for good.
    pub fn refuse(mut self, status: Status) {
        self.answer(status);
    }

    fn answer(&mut self, status: Status) {
        if let Some(ticket) = self.ticket.take() {
            let answer = Acknowledgement { session: self.session, ticket, status };
            // The session is gone: the centre sends it again on the next.
            let _gone = self.answers.send(answer);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.answer(Status::RX_T_APPN);
    }
}
