//! Connections that the far side counts. A carrier that may have so many over all nodes opens one
//! only while this node holds a slot for it, which somebody with a database leases (`dispatch`).

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;

use crate::kit::words::words;

/// How many binds a carrier may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindLimits {
    /// Of all nodes together: slots are numbered below it.
    pub everywhere: usize,
    /// Of one node.
    pub here: usize,
}

/// What this node may connect with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// The slots that it holds.
    pub held: BTreeSet<i64>,
    /// Whether another node holds some whose connection does not fail.
    pub are_elsewhere: bool,
}

/// A carrier whose connections need slots.
pub trait Binds: Send + Sync {
    /// How many there may be.
    fn limits(&self) -> BindLimits;
    /// From now on these: opens what is missing, closes what is no longer held.
    fn hold(&self, slots: &Slots);
    /// The slots held here whose connection failed, and does not stand again yet.
    fn failing(&self) -> BTreeSet<i64>;
    /// Those of them whose login the carrier refuses.
    fn refused(&self) -> BTreeSet<i64>;
    /// Closes all in order, and returns when they are closed. None is opened after that.
    fn close(&self) -> BoxFuture<'_, ()>;
    /// Cuts what is still closing.
    fn cut(&self);
    /// Whether it was closed.
    fn is_closed(&self) -> bool;
}

words! {
    /// Where a carrier's connections are, as shown to the operator.
    pub enum Presence {
        /// On this node: it takes messages.
        Here = "up",
        /// On other nodes only: they take what waits in the database.
        Elsewhere = "elsewhere",
        /// Nowhere, as far as this node knows.
        Nowhere = "down",
    }
}

/// How a carrier is, as far as its lane cannot tell, for the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Binds of this node.
    pub binds: usize,
    /// Segments that may be on their way unanswered.
    pub window: usize,
    /// Those that are.
    pub in_flight: usize,
    /// Segments that wait for the window or the rate.
    pub waiting: usize,
    /// Segments a second at present; 0 = no limit.
    pub rate_per_s: u64,
    /// Answers that asked to slow down, since the start.
    pub throttled: u64,
    /// How long the latest answer took, milliseconds.
    pub round_trip_ms: u64,
    /// Whether messages go out by it and nothing comes back: no receipts, nothing that people
    /// write.
    pub sends_only: bool,
    /// Whether something that it sends from does not work, and is given nothing for now.
    pub is_resting: bool,
}
