//! What the parser of settings says, in the words of those who write them: without this program's
//! types, and without the value, which may be a secret.

use toml::Value;
use toml::de::{DeTable, DeValue, Error};

/// A whole number that is out of its type's range.
pub(super) struct OutOfRange {
    pub(super) given: i64,
    /// The nearest number that the type can hold.
    pub(super) nearest: i64,
}

/// What is wrong, behind the name of the key.
pub(super) fn reason(error: &Error) -> String {
    let message = error.message().lines().next().unwrap_or_default();
    if let Some(OutOfRange { given, .. }) = out_of_range(error) {
        let what = if given < 0 { "must not be negative" } else { "is too large" };
        return format!("{what}: {given}");
    }
    if let Some((_, expected)) = message.split_once(", expected ") {
        return match message {
            _ if message.starts_with("unknown variant") => {
                format!("must be {}", expected.replace('`', ""))
            }
            _ if message.starts_with("unknown field") => unknown_key(message, expected),
            _ => format!("must be {}", called(expected)),
        };
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("{} is missing", field.trim_matches('`'));
    }
    message.to_owned()
}

/// The key that is not known is named, with the one that it was probably meant to be.
fn unknown_key(message: &str, expected: &str) -> String {
    let given = message.split('`').nth(1).unwrap_or_default();
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let distance = |key: &&&str| strsim::osa_distance(key, given);
    match known.iter().filter(|key| distance(key) <= 2).min_by_key(distance) {
        Some(meant) => format!("there is no key {given}; did you mean {meant}?"),
        None => format!("there is no key {given}; the keys are {}", known.join(", ")),
    }
}

/// A type, as a person calls it.
fn called(expected: &str) -> &str {
    match expected {
        "i64" | "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number",
        "a string" | "string" => "text, between quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table with keys",
        expected if expected.starts_with("struct ") => "a table with keys",
        expected => expected,
    }
}

/// The number, if that is what is wrong.
pub(super) fn out_of_range(error: &Error) -> Option<OutOfRange> {
    let said = error.message().strip_prefix("invalid value: integer `")?;
    let (given, expected) = said.split_once("`, expected ")?;
    let given: i64 = given.parse().ok()?;
    let largest = match expected.trim() {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        _ => i64::MAX,
    };
    Some(OutOfRange { given, nearest: given.clamp(0, largest) })
}

/// Why a text is not TOML.
pub(super) fn syntax(error: &Error) -> String {
    let message = error.message().lines().next().unwrap_or("this is not TOML");
    // One of the two has the number in it, which may be a password without its quotes.
    if message.contains("as i128") || message.contains("overflowed") {
        return "the number is too large (text goes between quotes)".to_owned();
    }
    let said = message.strip_suffix(", expected nothing").unwrap_or(message);
    let unquoted = ["invalid float", "invalid integer", "invalid date", "string values"];
    if unquoted.iter().any(|word| said.starts_with(word)) {
        return format!("{said} (text goes between quotes)");
    }
    said.to_owned()
}

/// What the variable of a setting begins with.
pub(super) const PREFIX: &str = "ESTAFETTE__";

/// The variable of a setting.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// The line of each key of a file, by its path; of a list of tables, the line of its first.
pub(super) fn lines(text: &str) -> Vec<(Vec<String>, usize)> {
    let mut found = vec![];
    if let Ok(table) = DeTable::parse(text) {
        note(text, table.get_ref(), &[], &mut found);
    }
    found
}

fn note(text: &str, table: &DeTable<'_>, above: &[String], found: &mut Vec<(Vec<String>, usize)>) {
    for (key, value) in table {
        let mut path = above.to_vec();
        path.push(key.get_ref().to_string());
        if let DeValue::Table(inner) = value.get_ref() {
            note(text, inner, &path, found);
        }
        found.push((path, line_at(text, key.span().start)));
    }
}

/// The line of a position, from 1.
pub(super) fn line_at(text: &str, position: usize) -> usize {
    text.get(..position).unwrap_or_default().matches('\n').count() + 1
}

/// The key on the line of a position in a text that is no TOML, with its section; `None` where the
/// line does not look like one. What is behind the `=` may be a secret and is not read.
pub(super) fn key_at(text: &str, position: usize) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let name = |name: &str| {
        let name = name.trim();
        (!name.is_empty() && name.chars().all(is_plain)).then(|| name.to_owned())
    };
    let line = text.get(..position)?.matches('\n').count();
    let key = name(text.lines().nth(line)?.split_once('=')?.0)?;
    let header = |line: &str| line.trim().strip_prefix('[').map(str::to_owned);
    let above = text.lines().take(line).filter_map(header).last();
    let Some(above) = above else { return Some(key) };
    let section = above.trim_start_matches('[').split(']').next().and_then(name)?;
    Some(format!("{section}.{key}"))
}

/// Puts a number in the place of another, to see what is said of it.
pub(super) fn replace(values: &mut toml::Table, key: &str, number: i64) {
    let mut path = key.split('.').peekable();
    let mut table = values;
    while let Some(name) = path.next() {
        if path.peek().is_none() {
            table.insert(name.to_owned(), Value::Integer(number));
            return;
        }
        let Some(Value::Table(inner)) = table.get_mut(name) else { return };
        table = inner;
    }
}
