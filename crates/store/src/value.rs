//! What goes into a statement and what comes back: integers, text and bytes, nothing else, so
//! that one SQL text means the same on every engine.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::Error;

/// One parameter or one column.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Val {
    /// SQL NULL.
    #[default]
    Null,
    /// BIGINT: numbers, flags (0/1), milliseconds.
    Int(i64),
    /// TEXT: ids, names, words.
    Text(Cow<'static, str>),
    /// BYTEA: hashes and sealed secrets.
    Bytes(Vec<u8>),
}

/// The arguments of one statement, in the order of `$1, $2, …`.
pub type Args = SmallVec<[Val; 16]>;

/// Builds [`Args`] from anything that converts into [`Val`].
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => {{
        let args: $crate::Args = [$($crate::Val::from($value)),*].into_iter().collect();
        args
    }};
}

macro_rules! ints {
    ($($int:ty),*) => { $(
        impl From<$int> for Val {
            fn from(value: $int) -> Self {
                Self::Int(value.into())
            }
        }
    )* };
}
ints!(i64, i32, u32, u16, u8, bool);

impl From<clock::Millis> for Val {
    fn from(value: clock::Millis) -> Self {
        Self::Int(value.0)
    }
}

impl From<&str> for Val {
    fn from(value: &str) -> Self {
        Self::Text(Cow::Owned(value.to_owned()))
    }
}

impl From<String> for Val {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl From<&String> for Val {
    fn from(value: &String) -> Self {
        Self::from(value.as_str())
    }
}

impl From<Vec<u8>> for Val {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl<const N: usize> From<[u8; N]> for Val {
    fn from(value: [u8; N]) -> Self {
        Self::Bytes(value.to_vec())
    }
}

impl<T: Into<Val>> From<Option<T>> for Val {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of an answer. Columns are taken out by position, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub(crate) Vec<Val>);

impl Row {
    /// Takes column `index` out of the row.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the column is missing or of another type.
    pub fn take<T: FromVal>(&mut self, index: usize) -> Result<T, Error> {
        let value = self.0.get_mut(index).map(std::mem::take);
        value.and_then(T::from_val).ok_or(Error::Corrupt { column: index })
    }
}

/// A type that one column can become.
pub trait FromVal: Sized {
    /// `None` when the value is of another type.
    fn from_val(value: Val) -> Option<Self>;
}

impl FromVal for i64 {
    fn from_val(value: Val) -> Option<Self> {
        if let Val::Int(int) = value { Some(int) } else { None }
    }
}

impl FromVal for clock::Millis {
    fn from_val(value: Val) -> Option<Self> {
        i64::from_val(value).map(Self)
    }
}

impl FromVal for u32 {
    fn from_val(value: Val) -> Option<Self> {
        if let Val::Int(int) = value { Self::try_from(int).ok() } else { None }
    }
}

impl FromVal for bool {
    fn from_val(value: Val) -> Option<Self> {
        if let Val::Int(int) = value { Some(int != 0) } else { None }
    }
}

impl FromVal for String {
    fn from_val(value: Val) -> Option<Self> {
        if let Val::Text(text) = value { Some(text.into_owned()) } else { None }
    }
}

impl FromVal for Vec<u8> {
    fn from_val(value: Val) -> Option<Self> {
        if let Val::Bytes(bytes) = value { Some(bytes) } else { None }
    }
}

impl<T: FromVal> FromVal for Option<T> {
    fn from_val(value: Val) -> Option<Self> {
        if value == Val::Null { Some(None) } else { T::from_val(value).map(Some) }
    }
}

/// A struct that one row can become.
pub trait FromRow: Sized {
    /// Reads the columns in the order of the SELECT.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a column is missing or of another type.
    fn from_row(row: Row) -> Result<Self, Error>;
}

impl FromRow for Row {
    fn from_row(row: Row) -> Result<Self, Error> {
        Ok(row)
    }
}

impl<A: FromVal> FromRow for (A,) {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok((row.take(0)?,))
    }
}

impl<A: FromVal, B: FromVal> FromRow for (A, B) {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok((row.take(0)?, row.take(1)?))
    }
}

impl<A: FromVal, B: FromVal, C: FromVal> FromRow for (A, B, C) {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok((row.take(0)?, row.take(1)?, row.take(2)?))
    }
}

impl<A: FromVal, B: FromVal, C: FromVal, D: FromVal> FromRow for (A, B, C, D) {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok((row.take(0)?, row.take(1)?, row.take(2)?, row.take(3)?))
    }
}
