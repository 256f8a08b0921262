//! A message centre that speaks SMPP: it takes every message, sends receipts, and does what the
//! last four digits of a destination ask for, so that every fate of a message can be seen on a
//! laptop.
//!
//! | ends in | outcome |
//! |---|---|
//! | 9001 | throttled the first two times, then accepted |
//! | 9002, 9003 | refused: bad destination, system error |
//! | 9004 | accepted, never answered; the receipt comes |
//! | 9005 | accepted, and the connection cut instead of an answer |
//! | 9006 | accepted, no receipt |
//! | 9011 to 9015 | receipt `UNDELIV`, `EXPIRED`, `REJECTD`, `DELETED`, `UNKNOWN` |
//! | 9016 | receipt `ENROUTE`, then `DELIVRD` |
//! | 9017, 9018 | receipt before the answer; receipt twice |
//! | 9019 | receipt `DELIVRD`, then `UNDELIV` |
//! | any other | accepted, then `DELIVRD` |

mod behaviour;
mod board;
mod control;
mod script;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use clock::Clock;
use smpp::{Message, MessageState};
use tokio::net::TcpListener;

use board::Board;

pub use behaviour::{IdStyle, ReceiptForm, SmscOptions};
pub use board::{Carried, Stats};
pub use script::{Long, Mobile};

/// The server, bound but not yet answering.
#[derive(Debug)]
pub struct Smsc {
    listener: TcpListener,
    board: Arc<Board>,
}

/// The centre's other side: its handsets. Clones share it.
#[derive(Clone, Debug)]
pub struct Handsets(Arc<Board>);

impl Smsc {
    /// Binds the address.
    ///
    /// # Errors
    /// The address is in use, or not ours.
    pub async fn bind(
        address: SocketAddr,
        options: SmscOptions,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, board: Arc::new(Board::new(options, clock)) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Its handsets.
    #[must_use]
    pub fn handsets(&self) -> Handsets {
        Handsets(Arc::clone(&self.board))
    }

    /// Serves what its other side can be told to do, over HTTP, until it is dropped.
    ///
    /// # Errors
    /// The socket is gone.
    pub async fn serve_control(handsets: Handsets, listener: TcpListener) -> std::io::Result<()> {
        axum::serve(listener, control::router(handsets)).await
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                self.board.clock.sleep(100).await;
                continue;
            };
            // A test on this machine; without it, answers wait for the client's next packet.
            let _best_effort = stream.set_nodelay(true);
            tokio::spawn(session::serve(stream, Arc::clone(&self.board)));
        }
    }
}

impl Handsets {
    /// What arrived, newest last, as far as it is remembered.
    #[must_use]
    pub fn messages(&self) -> Vec<Carried> {
        self.0.carried()
    }

    /// How many arrived, as far as they are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.received()
    }

    /// A handset writes. `false`: nobody is bound to receive it.
    #[must_use]
    pub fn write(&self, mobile: &Mobile) -> bool {
        self.write_as(mobile, Long::Udh8, false)
    }

    /// The same, cut in this way; the last part first, if it is `shuffled`.
    #[must_use]
    pub fn write_as(&self, mobile: &Mobile, long: Long, shuffled: bool) -> bool {
        let mut parts: Vec<Message> = script::mobile(mobile, long, self.0.next_reference());
        if shuffled {
            parts.reverse();
        }
        self.0.is_anyone_bound() && parts.into_iter().all(|part| self.0.deliver_to_anyone(part))
    }

    /// Sends one more receipt for a message that is remembered, by the id that was answered.
    /// `false`: there is none.
    #[must_use]
    pub fn receipt(&self, id: &str, state: MessageState, error: Option<&str>) -> bool {
        self.0.receipt_again(id, state, error)
    }

    /// Forgets what arrived.
    pub fn forget(&self) {
        self.0.forget();
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Counts from zero.
    pub fn reset_stats(&self) {
        self.0.reset_stats();
    }

    /// How the centre behaves.
    #[must_use]
    pub fn options(&self) -> SmscOptions {
        self.0.options()
    }

    /// Makes it behave otherwise from now on.
    pub fn behave(&self, options: SmscOptions) {
        self.0.behave(options);
    }

    /// Cuts all connections.
    pub fn kick(&self) {
        self.0.kick_all();
    }

    /// Whether anybody is bound to receive messages.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.0.is_anyone_bound()
    }

    /// Ends every session in order.
    pub fn unbind(&self) {
        self.0.unbind_all();
    }
}
