//! A channel, for whoever knows of an attempt only what is stored.

use futures_util::future::BoxFuture;

use super::{Attempt, Owner, Unwritten, door, due, queue};
use crate::app::App;
use crate::carriers::{Receipt, Turn};

/// What is done with an attempt, by the kind that is stored with it.
pub struct Entry {
    pub(super) kind: &'static str,
    pub(super) take_in: TakeIn,
    pub(super) take_out: fn(App, Attempt, Turn) -> BoxFuture<'static, ()>,
    pub(super) visit: for<'a> fn(&'a App, Attempt) -> Visited<'a>,
    pub(super) number: for<'a> fn(&'a App, &'a Attempt) -> Number<'a>,
}

/// The number that a message goes to.
type Number<'a> = BoxFuture<'a, Result<Option<String>, ::store::Error>>;

type TakeIn = for<'a> fn(&'a App, Attempt, &'a Receipt) -> Visited<'a>;
/// The outer error is a read that failed.
pub(super) type Visited<'a> = BoxFuture<'a, Result<Result<(), Unwritten>, ::store::Error>>;

impl Entry {
    /// The entry of a channel.
    #[must_use]
    pub const fn of<O: Owner>() -> Self {
        Self {
            kind: O::KIND,
            take_in: |app, a, receipt| Box::pin(door::take_in::<O>(app, a, receipt)),
            take_out: |app, a, turn| Box::pin(queue::take_out::<O>(app, a, turn)),
            visit: |app, a| Box::pin(due::visit::<O>(app, a)),
            number: |app, a| {
                Box::pin(async move {
                    let message = O::load(app, &a.account, &a.object_id).await?;
                    Ok(message.as_ref().and_then(O::number).map(str::to_owned))
                })
            },
        }
    }

    /// The entry for this kind.
    pub(super) fn find<'a>(owners: &'a [Self], kind: &str) -> Option<&'a Self> {
        owners.iter().find(|entry| entry.kind == kind)
    }
}
