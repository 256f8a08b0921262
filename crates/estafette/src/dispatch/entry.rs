//! A channel, for code that knows only an attempt's stored row.

use futures_util::future::BoxFuture;

use super::{Attempt, Unwritten};
use crate::app::App;
use crate::carriers::{Permit, Receipt};

/// What is done with an attempt, by the kind that is stored with it.
pub struct Entry {
    pub(super) kind: &'static str,
    pub(super) take_in: TakeIn,
    pub(super) take_out: fn(App, Attempt, Permit) -> BoxFuture<'static, ()>,
    pub(super) visit: for<'a> fn(&'a App, Attempt) -> Visited<'a>,
    pub(super) number: for<'a> fn(&'a App, &'a Attempt) -> Number<'a>,
}

/// The number that a message goes to.
pub(super) type Number<'a> = BoxFuture<'a, Result<Option<String>, ::store::Error>>;

pub(super) type TakeIn = for<'a> fn(&'a App, Attempt, &'a Receipt) -> Visited<'a>;
/// The outer error is a read that failed.
pub(super) type Visited<'a> = BoxFuture<'a, Result<Result<(), Unwritten>, ::store::Error>>;

impl Entry {
    /// The entry for this kind.
    pub(super) fn find<'a>(owners: &'a [Self], kind: &str) -> Option<&'a Self> {
        owners.iter().find(|entry| entry.kind == kind)
    }
}
