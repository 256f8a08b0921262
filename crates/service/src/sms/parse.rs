//! From request bodies to orders: every fault found and named, and the text weighed, because the
//! price is known before anything is sent.

use std::borrow::Cow;

use sms_text::{MAX_SEGMENTS, Reference, Segments, transliterate};

use super::{Class, Encoding, VALIDITY_BOUNDS_S, VALIDITY_S};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::msisdn::Msisdn;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// A message to send, checked. No `Debug`: it holds what somebody is told.
pub(super) struct Order {
    pub(super) to: Msisdn,
    pub(super) sender: Option<String>,
    pub(super) text: String,
    pub(super) encoding: Encoding,
    pub(super) segments: i64,
    pub(super) reference: Option<String>,
    pub(super) validity_s: i64,
    pub(super) class: Class,
}

/// A text in its alphabet.
struct Weighed {
    text: String,
    encoding: Encoding,
    segments: i64,
}

/// `POST /v1/messages`.
pub(super) fn send(app: &App, body: &[u8]) -> Result<Order, Problem> {
    let mut fields = Fields::read(body)?;
    let to = fields.required("to").and_then(|text| match Msisdn::parse(&text) {
        Ok(number) => Some(number),
        Err(error) => {
            fields.fault("to", "invalid_phone_number", error.to_string());
            None
        }
    });
    let sender = fields.text_within("sender", 1, 16);
    let text = fields.required("text");
    let is_plain = fields.flag("transliterate").unwrap_or(false);
    let weighed = text.and_then(|text| weigh(&mut fields, &text, is_plain));
    let reference = fields.text_within("reference", 1, 128);
    let (shortest, longest) = VALIDITY_BOUNDS_S;
    let validity_s = fields.integer("validity_s", shortest, longest).unwrap_or(VALIDITY_S);
    let class = fields.word("class");
    fields.finish(app.is_strict())?;
    let Weighed { text, encoding, segments } = weighed.ok_or(Code::InternalError)?;
    let to = to.ok_or(Code::InternalError)?;
    let class = class.unwrap_or(Class::Transactional);
    Ok(Order { to, sender, text, encoding, segments, reference, validity_s, class })
}

fn weigh(fields: &mut Fields, text: &str, is_plain: bool) -> Option<Weighed> {
    if text.is_empty() {
        fields.fault("text", "too_short", "must have at least 1 character");
        return None;
    }
    if text.trim().is_empty() {
        fields.fault("text", "too_short", "must not be blank");
        return None;
    }
    let plain = if is_plain { transliterate(text) } else { Cow::Borrowed(text) };
    if plain.is_empty() {
        let detail = "must have a character that is left when it is transliterated";
        fields.fault("text", "too_short", detail);
        return None;
    }
    let text = cheaper(text, plain);
    let Ok(segments) = Segments::of(&text, Reference::Octet) else {
        let detail = format!(
            "must fit into {MAX_SEGMENTS} segments: 1530 characters of GSM-7, of which \
             ^ {{ }} \\ [ ] ~ | € count twice, or 670 where one is not in GSM-7"
        );
        fields.fault("text", "too_long", detail);
        return None;
    };
    let count = i64::try_from(segments.count()).unwrap_or(i64::MAX);
    let encoding = segments.encoding().into();
    Some(Weighed { encoding, segments: count, text: text.into_owned() })
}

/// The transliterated text, unless it takes more segments: "…" is one character, and "..." three.
fn cheaper<'t>(text: &'t str, plain: Cow<'t, str>) -> Cow<'t, str> {
    let count =
        |text: &str| Segments::of(text, Reference::Octet).map_or(usize::MAX, |it| it.count());
    if count(text) < count(&plain) { Cow::Borrowed(text) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::weigh;
    use crate::kit::body::Fields;

    fn weighed(text: &str, is_plain: bool) -> Option<(&'static str, i64)> {
        let mut fields = Fields::read(b"{}").unwrap();
        let found = weigh(&mut fields, text, is_plain);
        assert_eq!(found.is_none(), fields.has_faults_of(&["text"]));
        found.map(|found| (found.encoding.as_str(), found.segments))
    }

    #[test]
    fn a_text_is_weighed_as_it_goes_out() {
        assert_eq!(weighed("a", false), Some(("gsm7", 1)));
        assert_eq!(weighed(&"ê".repeat(71), false), Some(("ucs2", 2)));
        assert_eq!(weighed(&"ê".repeat(71), true), Some(("gsm7", 1)));
        // Never dearer than the text as it is.
        assert_eq!(weighed(&"…".repeat(60), true), Some(("ucs2", 1)));
        assert_eq!(weighed(&"…".repeat(50), true), Some(("gsm7", 1)));
        assert_eq!(weighed("\u{200b}", false), Some(("ucs2", 1)));
        for bad in [String::new(), "\u{200b}".to_owned(), "a".repeat(1_531), "я".repeat(671)] {
            assert_eq!(weighed(&bad, true), None);
        }
    }
}
