//! Values on their way to PostgreSQL and back, in its binary format.

use std::error::Error as StdError;

use bytes::{BufMut as _, BytesMut};
use postgres_protocol::types::{ArrayDimension, array_to_sql};
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::failure::Failure;
use store::{Args, Row, Val, View};

/// One argument. Its `Debug` shows nothing: the client library logs arguments.
pub(super) struct Param<'a>(pub(super) &'a Val);

impl std::fmt::Debug for Param<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self.0.view() {
            View::Null => Ok(IsNull::Yes),
            View::Int(int) => int.to_sql(kind, out),
            View::Text(bytes) | View::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The arguments that several reads have for one parameter.
pub(super) struct Params<'a> {
    pub(super) asks: &'a [Args],
    pub(super) index: usize,
}

impl std::fmt::Debug for Params<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl ToSql for Params<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let values = self.asks.iter().map(|args| args.get(self.index));
        encode_column(kind, values, out).map(|_| IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The type of an array of such values.
pub(super) fn array_of(kind: &Type) -> Option<Type> {
    match *kind {
        Type::INT8 => Some(Type::INT8_ARRAY),
        Type::TEXT => Some(Type::TEXT_ARRAY),
        Type::BYTEA => Some(Type::BYTEA_ARRAY),
        _ => None,
    }
}

/// The type that a value says it has; the server works out that of NULL.
pub(super) fn type_of(value: &Val) -> Type {
    match value.view() {
        View::Null => Type::UNKNOWN,
        View::Int(_) => Type::INT8,
        View::Text(_) => Type::TEXT,
        View::Bytes(_) => Type::BYTEA,
    }
}

/// Whether a parameter may have this type at all, on every engine.
pub(super) fn is_portable(kind: &Type) -> bool {
    [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
}

/// Writes an argument as the server takes it.
pub(super) fn encode(value: &Val, out: &mut BytesMut) -> postgres_protocol::IsNull {
    match value.view() {
        View::Null => return postgres_protocol::IsNull::Yes,
        View::Int(int) => out.put_i64(int),
        View::Text(bytes) | View::Bytes(bytes) => out.put_slice(bytes),
    }
    postgres_protocol::IsNull::No
}

/// Writes the arguments that several sets have for one parameter, an array of theirs, as the server
/// takes it.
pub(super) fn encode_column<'v>(
    kind: &Type,
    values: impl ExactSizeIterator<Item = Option<&'v Val>>,
    out: &mut BytesMut,
) -> Result<postgres_protocol::IsNull, Box<dyn StdError + Sync + Send>> {
    let Kind::Array(member) = kind.kind() else { return Err("not an array".into()) };
    let count = i32::try_from(values.len())?;
    let whole = [ArrayDimension { len: count, lower_bound: 1 }];
    let value =
        |value: Option<&Val>, out: &mut BytesMut| Ok(encode(value.unwrap_or(&Val::Null), out));
    array_to_sql(whole, member.oid(), values, value, out)?;
    Ok(postgres_protocol::IsNull::No)
}

/// Reads a column, unless the store has no such type.
pub(super) fn decode(kind: &Type, raw: Option<&[u8]>) -> Option<Val> {
    if !is_readable(kind) {
        return None;
    }
    Column::from_sql_nullable(kind, raw).ok().map(|column| column.0)
}

/// A row of the server as a row of the store.
pub(super) fn row_of(row: &tokio_postgres::Row) -> Result<Row, Failure> {
    let take = |column| {
        row.try_get::<_, Column>(column).map(|got| got.0).map_err(|_| Failure::Corrupt(column))
    };
    (0..row.len()).map(take).collect::<Result<_, _>>().map(Row)
}

/// Whether a column can come back at all.
pub(super) fn is_readable(kind: &Type) -> bool {
    [Type::INT8, Type::INT4, Type::INT2, Type::BOOL, Type::TEXT, Type::VARCHAR, Type::BYTEA]
        .contains(kind)
}

struct Column(Val);

impl<'a> FromSql<'a> for Column {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(match *kind {
            Type::INT8 => Val::Int(i64::from_sql(kind, raw)?),
            Type::INT4 => Val::Int(i32::from_sql(kind, raw)?.into()),
            Type::INT2 => Val::Int(i16::from_sql(kind, raw)?.into()),
            // SQLite knows no other truth than 0 and 1.
            Type::BOOL => Val::Int(bool::from_sql(kind, raw)?.into()),
            Type::BYTEA => Val::from(raw),
            _ => Val::from(<&str>::from_sql(kind, raw)?),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Val::Null))
    }

    fn accepts(kind: &Type) -> bool {
        is_readable(kind)
    }
}
