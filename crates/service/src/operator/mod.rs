//! Rank 8: what the operator's staff does over HTTP, under `/v1/admin`. Every change writes a
//! line of the audit log in the same write set.

pub mod accounts;
pub mod api;
pub mod carriers;
pub mod credits;
pub mod keys;
pub mod log;
pub mod prices;
pub mod store;
