//! What the server says, read out of its messages.

use postgres_protocol::message::backend::{DataRowBody, ErrorResponseBody, RowDescriptionBody};
use tokio_postgres::fallible_iterator::FallibleIterator;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::stream::lost;
use super::texts::misuse;
use super::value::decode;
use store::{Row, Sql};

/// Types that the store does not have are told by none of its values.
pub(super) fn type_of_oid(oid: u32) -> Type {
    Type::from_oid(oid).unwrap_or(Type::UNKNOWN)
}

pub(super) fn columns(body: &RowDescriptionBody) -> Result<Vec<Option<Type>>, Failure> {
    let kinds = body.fields().map(|field| Ok(Type::from_oid(field.type_oid())));
    kinds.collect().map_err(|error| lost(&error))
}

/// A row, or that it has a column of a type that the store does not have.
pub(super) fn row_of(
    kinds: &[Option<Type>],
    body: &DataRowBody,
) -> Result<Result<Row, Failure>, Failure> {
    let ranges = body
        .ranges()
        .map(|range| Ok(range.map(|range| body.buffer().get(range).unwrap_or_default())));
    let raw: Vec<Option<&[u8]>> = ranges.collect().map_err(|error| lost(&error))?;
    let take = |(column, raw)| {
        let kind = kinds.get(column).and_then(Option::as_ref);
        kind.and_then(|kind| decode(kind, raw)).ok_or(Failure::Corrupt(column))
    };
    Ok(raw.into_iter().enumerate().map(take).collect::<Result<_, _>>().map(Row))
}

/// What an error says; an error of the whole where nothing more will come.
pub(super) fn failed(body: &ErrorResponseBody) -> Result<Failure, Failure> {
    let (mut code, mut message) = (String::new(), String::new());
    let mut fields = body.fields();
    while let Some(field) = fields.next().map_err(|error| lost(&error))? {
        match field.type_() {
            b'C' => String::from_utf8_lossy(field.value_bytes()).as_ref().clone_into(&mut code),
            b'M' => String::from_utf8_lossy(field.value_bytes()).as_ref().clone_into(&mut message),
            _ => {}
        }
    }
    match Failure::said(&code, &message) {
        failure @ Failure::Lost(_) => Err(failure),
        failure => Ok(failure),
    }
}

/// A failure with the text of the statement, where that is to blame.
pub(super) fn in_text(failure: Failure, sql: Sql) -> Failure {
    match failure {
        Failure::Own(why) => misuse(&why, sql),
        other => other,
    }
}

pub(super) fn disorder() -> Failure {
    Failure::Lost("the server answered out of order".to_owned())
}
