//! Transactions as values. A domain hands over a [`WriteSet`]; an [`Engine`] groups sets, makes
//! them durable and answers each of them. Nothing of a domain is known here, nor of a database: the
//! engines are a crate of their own.

mod engine;
mod error;
mod groups;
mod migration;
mod options;
mod set;
mod value;

pub use engine::{About, CommitError, Db, Done, Engine, Plan};
pub use error::Error;
pub use groups::{GROUP_BOUNDS, GroupCounter, Groups};
pub use migration::Migration;
pub use options::{Engines, Fault, PostgresOptions, SqliteOptions};
pub use set::{Bell, Expect, Parcel, Reject, Sql, Stmt, WriteSet};
pub use value::{Args, FromRow, FromVal, Row, Short, Val, View};
