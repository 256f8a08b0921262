//! The statements of the writer, which stay prepared and are found by the address of their text:
//! rusqlite's own cache copies and hashes the text, half a kilobyte, at each use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, Statement};

use super::session::{Failure, bind, failure, parameters, rows_of};
use store::{Args, Row, Sql};

/// A text's address and length: it is the program's own, so it never changes.
type Address = (usize, usize);

/// A connection and its statements.
pub(super) struct Kept<'c> {
    pub(super) conn: &'c Connection,
    /// With the number of their parameters.
    statements: HashMap<Address, (Statement<'c>, usize)>,
}

impl<'c> Kept<'c> {
    /// Without any statement yet.
    pub(super) fn on(conn: &'c Connection) -> Self {
        Self { conn, statements: HashMap::new() }
    }

    /// Runs a statement without parameters and results, such as COMMIT.
    pub(super) fn run(&mut self, text: &'static str) -> Result<(), Failure> {
        let (statement, _) = self.prepared(Sql(text))?;
        statement.raw_execute().map(drop).map_err(|error| failure(&error, text))
    }

    /// Runs a statement that returns nothing; answers the number of rows it changed.
    pub(super) fn execute(&mut self, sql: Sql, args: &Args) -> Result<usize, Failure> {
        let (statement, parameters) = self.prepared(sql)?;
        bind(statement, *parameters, sql, args)?;
        let ran = statement.raw_execute().map_err(|error| failure(&error, sql.0));
        statement.clear_bindings();
        ran
    }

    /// Runs a statement to its end and collects its rows.
    pub(super) fn query(&mut self, sql: Sql, args: &Args) -> Result<Vec<Row>, Failure> {
        let (statement, parameters) = self.prepared(sql)?;
        bind(statement, *parameters, sql, args)?;
        let found = rows_of(statement, sql);
        statement.clear_bindings();
        found
    }

    fn prepared(&mut self, sql: Sql) -> Result<&mut (Statement<'c>, usize), Failure> {
        let address = (sql.0.as_ptr().addr(), sql.0.len());
        match self.statements.entry(address) {
            Entry::Occupied(kept) => Ok(kept.into_mut()),
            Entry::Vacant(place) => {
                let statement = self.conn.prepare(sql.0);
                let statement = statement.map_err(|error| failure(&error, sql.0))?;
                let parameters = parameters(&statement, sql)?;
                Ok(place.insert((statement, parameters)))
            }
        }
    }
}
