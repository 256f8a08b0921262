//! Walks through a table to its very end, whatever has been written into it: rows that cannot be
//! read are reported as such, and malformed ids do not stop the walk.

use std::collections::VecDeque;

use store::{Args, Db, Error, FromRow, Row, Sql, Val};

/// Rows read at a time.
const CHUNK: i64 = 1_000;

/// One row: its id, where that can be read, and the rest, where all of it can.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The first column.
    pub id: Option<String>,
    /// The row.
    pub row: Option<T>,
}

impl<T: FromRow> FromRow for Found<T> {
    fn from_row(row: Row) -> Result<Self, Error> {
        let id = row.clone().take(0).ok();
        Ok(Self { id, row: T::from_row(row).ok() })
    }
}

/// Rows of one statement in the order of its first column, a chunk in memory at a time. The
/// statement's last three parameters are the id to begin with (`>=`), `LIMIT` and `OFFSET`.
pub struct Feed<'a, T> {
    db: &'a Db,
    sql: Sql,
    leading: Args,
    from: String,
    /// Rows from `from` on that were seen: ids that cannot be read are passed by counting.
    skip: i64,
    buffer: VecDeque<Found<T>>,
    is_over: bool,
    chunks: u64,
}

impl<'a, T: FromRow> Feed<'a, T> {
    /// From the row with the lowest id on; `leading` are the statement's other parameters.
    #[must_use]
    pub fn new(db: &'a Db, sql: Sql, leading: Args) -> Self {
        let (from, buffer) = (String::new(), VecDeque::new());
        Self { db, sql, leading, from, skip: 0, buffer, is_over: false, chunks: 0 }
    }

    /// From this id on.
    #[must_use]
    pub fn starting_at(self, id: &str) -> Self {
        Self { from: id.to_owned(), ..self }
    }

    /// The next row, which stays the next one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn peek(&mut self) -> Result<Option<&Found<T>>, Error> {
        if self.buffer.is_empty() && !self.is_over {
            self.read().await?;
        }
        Ok(self.buffer.front())
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn next(&mut self) -> Result<Option<Found<T>>, Error> {
        self.peek().await?;
        Ok(self.buffer.pop_front())
    }

    /// Chunks read so far.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    async fn read(&mut self) -> Result<(), Error> {
        let mut args = self.leading.clone();
        args.extend([Val::from(self.from.as_str()), Val::from(CHUNK), Val::from(self.skip)]);
        let rows: Vec<Found<T>> = self.db.rows(self.sql, args).await?;
        self.chunks += 1;
        self.is_over = i64::try_from(rows.len()).unwrap_or(CHUNK) < CHUNK;
        for row in &rows {
            match &row.id {
                Some(id) => (self.from, self.skip) = (id.clone(), 1),
                None => self.skip += 1,
            }
        }
        self.buffer.extend(rows);
        // The embedded database is read in place: let others have the thread.
        tokio::task::yield_now().await;
        Ok(())
    }
}
