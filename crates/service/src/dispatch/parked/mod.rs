//! Receipts that led nowhere when they came: kept until a message has their id, or too long.

mod store;

pub(super) use self::store::{DELETE, Parked, all, leading, of, park, unpark};
