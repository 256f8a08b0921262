//! How a channel becomes an [`Entry`]: what is done with its attempts, for its kind of message.

use super::{Entry, Owner, door, due, queue};

impl Entry {
    /// The entry of a channel.
    #[must_use]
    pub const fn of<O: Owner>() -> Self {
        Self {
            kind: O::KIND,
            take_in: |app, a, receipt| Box::pin(door::take_in::<O>(app, a, receipt)),
            take_out: |app, a, permit| Box::pin(queue::take_out::<O>(app, a, permit)),
            visit: |app, a| Box::pin(due::visit::<O>(app, a)),
            number: |app, a| {
                Box::pin(async move {
                    let message = O::load(app, &a.account, &a.object_id).await?;
                    Ok(message.as_ref().and_then(O::number).map(str::to_owned))
                })
            },
        }
    }
}
