//! Reading request bodies field by field: every fault is found and named with its pointer, not
//! just the first one.

use serde_json::{Map, Value};

use super::item_code::ItemCode;
use super::json::{self, Fault, Unread};
use super::problem::{Faults, Item, Problem};
use super::problem_code::Code;
use super::words::{Word, must_be_one_of, one_of};

/// The fields of a JSON object that are not yet read. [`Fields::finish`] says what was wrong.
#[derive(Debug)]
pub struct Fields {
    map: Map<String, Value>,
    known: Vec<&'static str>,
    faults: Faults,
}

/// A text of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its place in the list, from 0.
    pub index: usize,
    /// The text.
    pub text: String,
}

impl Fields {
    /// Takes the body apart. An empty body is an empty object.
    ///
    /// # Errors
    /// 400 `invalid_json`, or 422 when the JSON is no object or holds too many values.
    pub fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let map = if bytes.is_empty() {
            Map::new()
        } else {
            match json::read(bytes) {
                Ok(Value::Object(map)) => map,
                Ok(_) => {
                    let item = Item::at("", "invalid_type", "the body must be a JSON object");
                    return Err(Problem::invalid(vec![item]));
                }
                Err(Fault::TooMany { pointer, bound }) => {
                    let item = Item::at(&pointer, "too_long", format!("must have {bound}"));
                    return Err(Problem::invalid(vec![item]));
                }
                Err(Fault::Doubled { pointer }) => {
                    let item = Item::at(&pointer, "invalid_type", "is given twice");
                    let place = &item.pointer;
                    let detail = format!("The member {place} is given twice. Send it once.");
                    return Err(Problem::new(Code::InvalidJson).detail(detail).item(item));
                }
                Err(Fault::Malformed { line, column, why }) => {
                    let why = match why {
                        Unread::Syntax => "could not be read. Send one JSON object in UTF-8.",
                        Unread::Number => "is a number that is too large. Send one below 1e308.",
                        Unread::Depth => "is nested too deeply. Send at most 127 levels.",
                    };
                    let detail = format!("Line {line}, column {column} {why}");
                    return Err(Problem::new(Code::InvalidJson).detail(detail));
                }
            }
        };
        Ok(Self { map, known: Vec::new(), faults: Faults::default() })
    }

    /// Takes an object apart that is a part of a body.
    #[must_use]
    pub fn of(map: Map<String, Value>) -> Self {
        Self { map, known: Vec::new(), faults: Faults::default() }
    }

    /// Notes a fault of one field.
    pub fn fault(&mut self, name: &str, code: impl Into<ItemCode>, detail: impl Into<String>) {
        self.faults.push(Item::at(&format!("/{name}"), code, detail));
    }

    /// Notes faults that a parser of its own found in a field.
    pub fn add(&mut self, items: Vec<Item>) {
        for item in items {
            self.faults.push(item);
        }
    }

    /// Whether a fault was noted of one of these fields, or of what is in them.
    #[must_use]
    pub fn has_faults_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.faults.are_of(name))
    }

    /// The raw value; `null` counts as absent.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// An optional text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let Value::String(text) = self.take(name)? else {
            self.fault(name, "invalid_type", "must be a string");
            return None;
        };
        if text.contains('\0') {
            // PostgreSQL has no text with it, and nobody types it.
            self.fault(name, "invalid_type", "must not contain the NUL character");
            return None;
        }
        Some(text)
    }

    /// An optional text of bounded length (in characters).
    pub fn text_within(&mut self, name: &'static str, min: usize, max: usize) -> Option<String> {
        let text = self.text(name)?;
        let length = text.chars().count();
        if length < min {
            self.fault(name, "too_short", at_least(min));
            return None;
        }
        if length > max {
            self.fault(name, "too_long", format!("must have at most {max} characters"));
            return None;
        }
        Some(text)
    }

    /// Whether a required field is missing, which is a fault. A `null` is taken, so that it is not
    /// called unknown as well.
    fn lacks(&mut self, name: &'static str, says: impl Into<String>) -> bool {
        let is_missing = self.is_missing(name);
        if is_missing {
            let _null = self.take(name);
            self.fault(name, "required", says);
        }
        is_missing
    }

    /// A required text.
    pub fn required(&mut self, name: &'static str) -> Option<String> {
        if self.lacks(name, "is required") {
            return None;
        }
        self.text(name)
    }

    /// A required text of bounded length.
    pub fn required_within(
        &mut self,
        name: &'static str,
        min: usize,
        max: usize,
    ) -> Option<String> {
        if self.is_missing(name) {
            return self.required(name);
        }
        self.text_within(name, min, max)
    }

    /// A required text that stands in one line and says something: it is shown in lists, also on
    /// terminals.
    pub fn required_line(&mut self, name: &'static str, max: usize) -> Option<String> {
        let text = self.required_within(name, 1, max)?;
        if text.contains(char::is_control) {
            let detail = "must have no line breaks or other control characters";
            self.fault(name, "invalid_type", detail);
        } else if text.trim().is_empty() {
            self.fault(name, "too_short", "must not be blank");
        }
        Some(text)
    }

    /// An optional integer within bounds.
    pub fn integer(&mut self, name: &'static str, min: i64, max: i64) -> Option<i64> {
        let value = self.take(name)?;
        match whole(&value) {
            Some(number) if (min..=max).contains(&number) => Some(number),
            Some(_) => {
                self.fault(name, "out_of_range", format!("must be from {min} to {max}"));
                None
            }
            None if value.is_number() => {
                self.fault(name, "out_of_range", format!("must be an integer from {min} to {max}"));
                None
            }
            None => {
                self.fault(name, "invalid_type", "must be an integer");
                None
            }
        }
    }

    /// A required integer within bounds.
    pub fn required_integer(&mut self, name: &'static str, min: i64, max: i64) -> Option<i64> {
        if self.lacks(name, "is required") {
            return None;
        }
        self.integer(name, min, max)
    }

    /// An optional flag.
    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.take(name)?;
        if value.as_bool().is_none() {
            self.fault(name, "invalid_type", "must be true or false");
        }
        value.as_bool()
    }

    /// An optional list of at most `most` texts. What is no text is a fault, and missing.
    pub fn texts(&mut self, name: &'static str, most: usize) -> Option<Vec<Element>> {
        let Value::Array(items) = self.take(name)? else {
            self.fault(name, "invalid_type", "must be an array of strings");
            return None;
        };
        if items.len() > most {
            self.fault(name, "too_long", format!("must have at most {most} elements"));
            return None;
        }
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Value::String(text) if text.contains('\0') => {
                    let detail = "must not contain the NUL character";
                    self.fault(&format!("{name}/{index}"), "invalid_type", detail);
                }
                Value::String(text) => texts.push(Element { index, text }),
                _ => self.fault(&format!("{name}/{index}"), "invalid_type", "must be a string"),
            }
        }
        Some(texts)
    }

    /// One of the words of an enum.
    pub fn word<T: Word>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        let found = text.parse().ok();
        if found.is_none() {
            self.fault(name, "invalid_enum", must_be_one_of::<T>());
        }
        found
    }

    /// One of the words of an enum, which must be there.
    pub fn required_word<T: Word>(&mut self, name: &'static str) -> Option<T> {
        if self.lacks(name, format!("is required, and {}", must_be_one_of::<T>())) {
            return None;
        }
        self.word(name)
    }

    /// A required list of 1 to `most` texts.
    pub fn required_texts(&mut self, name: &'static str, most: usize) -> Option<Vec<Element>> {
        if self.lacks(name, "is required") {
            return None;
        }
        let texts = self.texts(name, most)?;
        if texts.is_empty() && !self.has_faults_of(&[name]) {
            self.fault(name, "too_short", "must have at least 1 element");
        }
        Some(texts)
    }

    /// One of a list of words.
    pub fn choice(&mut self, name: &'static str, choices: &[&'static str]) -> Option<&'static str> {
        let text = self.text(name)?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            self.fault(name, "invalid_enum", one_of(choices));
        }
        found
    }

    /// Ends the reading. `strict` (the sandbox) refuses fields that nobody asked for.
    ///
    /// # Errors
    /// 422 `validation_failed` with every fault that was noted.
    pub fn finish(mut self, strict: bool) -> Result<(), Problem> {
        if strict {
            for name in self.map.keys() {
                let pointer = format!("/{}", json::escaped(name));
                let detail = if self.known.is_empty() {
                    "is not a field of this request, which has none".to_owned()
                } else {
                    format!("is not a field of this request; known: {}", self.known.join(", "))
                };
                self.faults.push(Item::at(&pointer, "unknown_field", detail));
            }
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Problem::invalid(self.faults)) }
    }

    fn is_missing(&self, name: &str) -> bool {
        self.map.get(name).is_none_or(Value::is_null)
    }
}

fn at_least(min: usize) -> String {
    if min == 1 {
        "must not be empty".to_owned()
    } else {
        format!("must have at least {min} characters")
    }
}

/// A whole number: 6.0 is the same JSON number as 6.
#[must_use]
pub fn whole(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
    let whole = |f: f64| (f.fract() == 0.0 && f.abs() < 9e15).then_some(f as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(whole))
}

#[cfg(test)]
mod tests {
    use super::Fields;

    #[test]
    fn every_fault_is_named_with_its_pointer() {
        let body = br#"{"to": null, "code": 5, "size": 99, "extra/x": 1}"#;
        let mut fields = Fields::read(body).unwrap();
        assert_eq!(fields.required("to"), None);
        assert_eq!(fields.text("code"), None);
        assert_eq!(fields.integer("size", 4, 8), None);
        let problem = fields.finish(true).unwrap_err();
        let found: Vec<_> =
            problem.items().iter().map(|item| (item.pointer.as_str(), item.code)).collect();
        assert_eq!(
            found,
            [
                ("/to", "required"),
                ("/code", "invalid_type"),
                ("/size", "out_of_range"),
                ("/extra~1x", "unknown_field")
            ]
        );
    }
}
