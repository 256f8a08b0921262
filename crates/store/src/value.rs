//! What goes into a statement and what comes back: integers, text and bytes, nothing else, so
//! that one SQL text means the same on every engine.

use smallvec::SmallVec;

use crate::Error;

/// Up to [`Short::MAX`] bytes, kept in place. Arguments are made by the task that asks and dropped
/// by the thread that writes: an allocation that one thread makes and another frees costs both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Short {
    length: u8,
    bytes: [u8; Self::MAX],
}

impl Short {
    /// As long as an id: a [`Val`] is no larger for it.
    pub const MAX: usize = 30;

    fn of(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self { length: u8::try_from(from.len()).ok()?, bytes })
    }

    /// What it keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl std::fmt::Debug for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// One parameter or one column. Made by `From`, which keeps in place what is short enough: two that
/// say the same are equal.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Val {
    /// SQL NULL.
    #[default]
    Null,
    /// BIGINT: numbers, flags (0/1), milliseconds.
    Int(i64),
    /// TEXT that is short: ids, numbers, words.
    Word(Short),
    /// TEXT that is longer.
    Text(String),
    /// BYTEA that is short: ids in the ledger.
    Blob(Short),
    /// BYTEA that is longer: hashes and sealed secrets.
    Bytes(Vec<u8>),
}

/// A value as engines take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View<'v> {
    /// SQL NULL.
    Null,
    /// BIGINT.
    Int(i64),
    /// TEXT, as UTF-8.
    Text(&'v [u8]),
    /// BYTEA.
    Bytes(&'v [u8]),
}

impl Val {
    /// What it says.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        match self {
            Self::Null => View::Null,
            Self::Int(int) => View::Int(*int),
            Self::Word(short) => View::Text(short.as_bytes()),
            Self::Text(text) => View::Text(text.as_bytes()),
            Self::Blob(short) => View::Bytes(short.as_bytes()),
            Self::Bytes(bytes) => View::Bytes(bytes),
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let View::Text(bytes) = self.view() else { return None };
        std::str::from_utf8(bytes).ok()
    }
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
        Short::of(value.as_bytes()).map_or_else(|| Self::Text(value.to_owned()), Self::Word)
    }
}

impl From<String> for Val {
    fn from(value: String) -> Self {
        Short::of(value.as_bytes()).map_or_else(|| Self::Text(value), Self::Word)
    }
}

impl From<&String> for Val {
    fn from(value: &String) -> Self {
        Self::from(value.as_str())
    }
}

impl From<Vec<u8>> for Val {
    fn from(value: Vec<u8>) -> Self {
        Short::of(&value).map_or_else(|| Self::Bytes(value), Self::Blob)
    }
}

impl From<&[u8]> for Val {
    fn from(value: &[u8]) -> Self {
        Short::of(value).map_or_else(|| Self::Bytes(value.to_vec()), Self::Blob)
    }
}

impl<const N: usize> From<[u8; N]> for Val {
    fn from(value: [u8; N]) -> Self {
        Self::from(value.as_slice())
    }
}

impl<T: Into<Val>> From<Option<T>> for Val {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of an answer. Columns are taken out by position, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub Vec<Val>);

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
        match value {
            Val::Word(word) => String::from_utf8(word.as_bytes().to_vec()).ok(),
            Val::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromVal for Vec<u8> {
    fn from_val(value: Val) -> Option<Self> {
        match value {
            Val::Blob(blob) => Some(blob.as_bytes().to_vec()),
            Val::Bytes(bytes) => Some(bytes),
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_are_kept_in_place_and_cost_no_room() {
        assert_eq!(size_of::<Val>(), 32);
        let id = "otp_01kdvdna0de5s8mkaedhqcbgn7";
        assert_eq!(id.len(), Short::MAX);
        assert!(matches!(Val::from(id), Val::Word(_)));
        assert!(matches!(Val::from([7; 16]), Val::Blob(_)));
        let longer = format!("{id}x");
        assert!(matches!(Val::from(longer.as_str()), Val::Text(_)));
        assert!(matches!(Val::from([7; 32]), Val::Bytes(_)));
    }

    #[test]
    fn what_says_the_same_is_equal_and_comes_back_as_it_was() {
        for text in ["", "é", "otp_01kdvdna0de5s8mkaedhqcbgn7", "thirty-one bytes are one too many"]
        {
            assert_eq!(Val::from(text), Val::from(text.to_owned()));
            assert_eq!(Val::from(text).view(), View::Text(text.as_bytes()));
            assert_eq!(Val::from(text).text(), Some(text));
            assert_eq!(Val::from(text.as_bytes()).text(), None);
            assert_eq!(String::from_val(Val::from(text)).as_deref(), Some(text));
            let bytes = text.as_bytes();
            assert_eq!(Val::from(bytes), Val::from(bytes.to_vec()));
            assert_eq!(Val::from(bytes).view(), View::Bytes(bytes));
            assert_eq!(Vec::from_val(Val::from(bytes)).as_deref(), Some(bytes));
            assert_ne!(Val::from(text), Val::from(bytes));
        }
    }
}
