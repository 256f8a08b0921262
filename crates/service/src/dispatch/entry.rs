//! A channel, for code that knows only an attempt's stored row.

use std::any::Any;

use futures_util::future::BoxFuture;

use super::{Attempt, Unwritten};
use crate::app::App;
use crate::carriers::{Permit, Receipt};

/// What is done with an attempt, by the kind that is stored with it.
pub struct Entry {
    pub(super) kind: &'static str,
    pub(super) take_out: fn(App, Attempt, Permit) -> BoxFuture<'static, ()>,
    pub(super) visit: for<'a> fn(&'a App, Attempt) -> Visited<'a>,
    pub(super) open: for<'a> fn(&'a App, &'a Attempt) -> Opening<'a>,
    /// The same of a message that the node remembers.
    pub(super) reopen: fn(Kept) -> Option<Box<dyn Opened>>,
}

/// A message that the node remembers, of the type that the channel of its kind has.
pub(super) type Kept = Box<dyn Any + Send + Sync>;

/// The message of an attempt, if it is still kept.
pub(super) type Opening<'a> = BoxFuture<'a, Result<Option<Box<dyn Opened>>, ::store::Error>>;

/// The message of an attempt, in hand for a receipt.
pub(super) trait Opened: Send + Sync {
    /// The number that it goes to, as far as it is known.
    fn number(&self) -> Option<&str>;

    /// Makes a receipt durable.
    fn take_in<'a>(
        self: Box<Self>,
        app: &'a App,
        attempt: Attempt,
        receipt: &'a Receipt,
    ) -> BoxFuture<'a, Result<(), Unwritten>>;
}

/// The outer error is a read that failed.
pub(super) type Visited<'a> = BoxFuture<'a, Result<Result<(), Unwritten>, ::store::Error>>;

impl Entry {
    /// The entry for this kind.
    pub(super) fn find<'a>(owners: &'a [Self], kind: &str) -> Option<&'a Self> {
        owners.iter().find(|entry| entry.kind == kind)
    }
}
