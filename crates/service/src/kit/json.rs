//! Reading JSON from strangers. Arrays and objects are counted while they are read, so that a small
//! body of many tiny values never becomes a large structure in memory.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Elements of one array, and members of one object.
const MOST_ELEMENTS: usize = 1_000;
/// Values of a whole document, nested ones included.
const MOST_VALUES: usize = 20_000;

/// Characters of a name that a pointer to a doubled member shows.
const LONGEST_NAME: usize = 64;

/// Why a document is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not JSON, as seen at this place.
    Malformed {
        /// 1, 2, …
        line: usize,
        /// 1, 2, …
        column: usize,
        /// Why.
        why: Unread,
    },
    /// A member of this RFC 6901 pointer is given twice: whoever read the other one would
    /// understand another request (RFC 8259 §4).
    Doubled {
        /// The member.
        pointer: String,
    },
    /// There is too much at this RFC 6901 pointer.
    TooMany {
        /// The array or object, empty for the document itself.
        pointer: String,
        /// What it may have at most, for people.
        bound: String,
    },
}

/// What cannot be read of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is not JSON.
    Syntax,
    /// A number is too large for double precision, as 1e400 is.
    Number,
    /// Arrays and objects are nested more than 127 deep.
    Depth,
}

impl Unread {
    /// The parser has words for it, and no more.
    fn of(error: &serde_json::Error) -> Self {
        let told = error.to_string();
        if told.starts_with("number out of range") {
            Self::Number
        } else if told.starts_with("recursion limit exceeded") {
            Self::Depth
        } else {
            Self::Syntax
        }
    }
}

/// Reads a whole document.
///
/// # Errors
/// See [`Fault`]. Nothing is built beyond the bounds.
pub fn read(bytes: &[u8]) -> Result<Value, Fault> {
    let mut count = Count { left: MOST_VALUES, excess: None };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Bounded(&mut count).deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| match count.excess {
        Some(Excess { pointer, bound: Some(bound) }) => Fault::TooMany { pointer, bound },
        Some(Excess { pointer, bound: None }) => Fault::Doubled { pointer },
        None => {
            Fault::Malformed { line: error.line(), column: error.column(), why: Unread::of(&error) }
        }
    })
}

/// A name as one part of a pointer.
#[must_use]
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The same as it was written.
#[must_use]
pub fn unescaped(name: &str) -> String {
    // RFC 6901 §4: the other way round, `~01` would be a slash.
    name.replace("~1", "/").replace("~0", "~")
}

struct Count {
    left: usize,
    excess: Option<Excess>,
}

struct Excess {
    pointer: String,
    /// What there may be at most; `None` = one of a name.
    bound: Option<String>,
}

impl Count {
    fn refuse<E: de::Error>(&mut self, bound: String) -> E {
        self.excess = Some(Excess { pointer: String::new(), bound: Some(bound) });
        E::custom("too much")
    }

    fn refuse_second<E: de::Error>(&mut self, name: &str) -> E {
        // A name may be as long as the document; its beginning is enough to find it.
        let name: String = name.chars().take(LONGEST_NAME).collect();
        self.excess = Some(Excess { pointer: format!("/{}", escaped(&name)), bound: None });
        E::custom("given twice")
    }

    /// The pointer is put together on the way back, so that good documents do not pay for it.
    fn is_within(&mut self, part: impl fmt::Display) {
        if let Some(excess) = &mut self.excess {
            excess.pointer = format!("/{part}{}", excess.pointer);
        }
    }
}

/// One value, and everything in it.
struct Bounded<'c>(&'c mut Count);

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let Some(left) = self.0.left.checked_sub(1) else {
            return Err(self.0.refuse(format!("at most {MOST_VALUES} values in all")));
        };
        self.0.left = left;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < MOST_ELEMENTS {
            match sequence.next_element_seed(Bounded(self.0)) {
                Ok(Some(element)) => elements.push(element),
                Ok(None) => return Ok(Value::Array(elements)),
                Err(error) => {
                    self.0.is_within(elements.len());
                    return Err(error);
                }
            }
        }
        match sequence.next_element::<IgnoredAny>()? {
            None => Ok(Value::Array(elements)),
            Some(_) => Err(self.0.refuse(format!("at most {MOST_ELEMENTS} elements"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if map.len() == MOST_ELEMENTS {
                return Err(self.0.refuse(format!("at most {MOST_ELEMENTS} members")));
            }
            if map.contains_key(&name) {
                return Err(self.0.refuse_second(&name));
            }
            match members.next_value_seed(Bounded(self.0)) {
                Ok(value) => drop(map.insert(name, value)),
                Err(error) => {
                    self.0.is_within(escaped(&name));
                    return Err(error);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (String, String) {
        match read(text.as_bytes()).unwrap_err() {
            Fault::TooMany { pointer, bound } => (pointer, bound),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_part_of_a_pointer_reads_as_it_was_written() {
        for name in ["to", "a/b", "~", "~1", "~01", "/~/"] {
            assert_eq!(unescaped(&escaped(name)), name);
        }
    }

    #[test]
    fn what_is_within_bounds_reads_as_serde_reads_it() {
        for text in [
            r#"{"a": [1, -2, 3.5, true, null, "x\u00e9"], "b": {"c": {}, "a": 6.0}}"#,
            "[]",
            "18446744073709551615",
            "-0",
            "\"\\ud83d\\ude00\"",
            " null ",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_array_or_object_with_too_much_is_named_where_it_is() {
        let array = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        assert!(read(array(MOST_ELEMENTS).as_bytes()).is_ok());
        assert_eq!(refused(&array(MOST_ELEMENTS + 1)).0, "");
        let nested = format!(r#"{{"a/b": [1, {{"c": {}}}]}}"#, array(85_000));
        assert_eq!(refused(&nested), ("/a~1b/1/c".into(), "at most 1000 elements".into()));
        let members: Vec<String> = (0..=MOST_ELEMENTS).map(|n| format!(r#""{n}":0"#)).collect();
        let (pointer, bound) = refused(&format!(r#"{{"m":{{{}}}}}"#, members.join(",")));
        assert_eq!((pointer.as_str(), bound.as_str()), ("/m", "at most 1000 members"));
    }

    #[test]
    fn many_small_arrays_are_counted_together() {
        let hundred = format!("[{}]", vec!["{}"; 100].join(","));
        let many = format!("[{}]", vec![hundred; 250].join(","));
        assert_eq!(refused(&many).1, "at most 20000 values in all");
    }

    #[test]
    fn a_member_that_is_given_twice_is_named_where_it_is() {
        let doubled = |text: &str| match read(text.as_bytes()).unwrap_err() {
            Fault::Doubled { pointer } => pointer,
            other => panic!("{other:?}"),
        };
        assert_eq!(doubled(r#"{"to": "a", "to": "a"}"#), "/to");
        assert_eq!(doubled(r#"{"a": [1, {"b/c": null, "b\u002fc": 0}]}"#), "/a/1/b~1c");
        let name = "x".repeat(100_000);
        let long = format!(r#"{{"{name}": 0, "{name}": 0}}"#);
        assert_eq!(doubled(&long).len(), 1 + LONGEST_NAME);
        assert!(read(br#"{"a": {"a": [{"a": 0}, {"a": 0}]}}"#).is_ok());
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        for (text, line, column) in [("{\n  \"a\" 1}", 2, 7), ("[1] x", 1, 5), ("", 1, 0)] {
            let fault = Fault::Malformed { line, column, why: Unread::Syntax };
            assert_eq!(read(text.as_bytes()), Err(fault), "{text}");
        }
        let deep = "[".repeat(100_000);
        let why = |text: &str| match read(text.as_bytes()) {
            Err(Fault::Malformed { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(&deep), Unread::Depth);
        assert_eq!(why("{\"a\": 1e400}"), Unread::Number);
    }
}
