//! Transactions as values. A domain hands over a [`WriteSet`]; an [`Engine`] groups sets, makes
//! them durable and answers each of them. Nothing of a domain is known here.

mod backup;
mod engine;
mod error;
mod groups;
mod lite;
mod migrate;
mod pg;
mod set;
mod value;

pub use engine::{About, CommitError, Db, Done, Engine, Plan};
pub use error::Error;
pub use groups::{GROUP_BOUNDS, Groups};
pub use lite::{Lite, LiteOptions};
pub use migrate::Migration;
pub use pg::{Pg, PgOptions};
pub use set::{Bell, Expect, Parcel, Reject, Sql, Stmt, WriteSet};
pub use value::{Args, FromRow, FromVal, Row, Short, Val, View};
