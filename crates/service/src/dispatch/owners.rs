//! How a channel becomes an [`Entry`]: what is done with its attempts, for its kind of message.

use futures_util::future::BoxFuture;

use super::entry::Opened;
use super::{Attempt, Entry, Leg, Owner, Unwritten, door, due, queue};
use crate::app::App;
use crate::carriers::Receipt;

impl Entry {
    /// The entry of a channel.
    #[must_use]
    pub const fn of<O: Owner>() -> Self {
        Self {
            kind: O::KIND,
            take_out: |app, a, permit| Box::pin(queue::take_out::<O>(app, a, permit)),
            visit: |app, a| Box::pin(due::visit::<O>(app, a)),
            open: |app, a| {
                Box::pin(async move {
                    let message = O::load(app, &a.account, &a.object_id).await?;
                    Ok(message.map(|message| Box::new(Message::<O>(message)) as Box<dyn Opened>))
                })
            },
            reopen: |message| {
                let message = message.downcast::<O::Message>().ok()?;
                Some(Box::new(Message::<O>(*message)))
            },
        }
    }
}

/// A message of a channel, for code that does not know which.
struct Message<O: Owner>(O::Message);

impl<O: Owner> Opened for Message<O> {
    fn number(&self) -> Option<&str> {
        O::number(&self.0)
    }

    fn take_in<'a>(
        self: Box<Self>,
        app: &'a App,
        attempt: Attempt,
        receipt: &'a Receipt,
    ) -> BoxFuture<'a, Result<(), Unwritten>> {
        Box::pin(door::take_in(app, Leg::<O>::new(self.0, attempt), receipt))
    }
}
