//! Templates: what an author declares, the rules that the upstream holds it to, and what a filled
//! one says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest name, characters.
pub const LONGEST_NAME: usize = 512;
/// Longest body, characters.
pub const LONGEST_BODY: usize = 1024;
/// Longest footer, characters.
pub const LONGEST_FOOTER: usize = 60;
/// Longest text of a button, characters.
const LONGEST_LABEL: usize = 25;
/// Longest address behind a button, characters.
const LONGEST_URL: usize = 2000;
/// Longest number behind a button, characters.
const LONGEST_PHONE: usize = 20;
/// Buttons of one template: of all kinds, with addresses, with numbers.
const MOST_BUTTONS: [usize; 3] = [10, 2, 1];
/// More variables than any body has room for.
const MOST_VARIABLES: usize = 200;

/// What a template is for. It decides the price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Category {
    /// About something that the person ordered or asked for.
    Utility,
    /// Anything that sells.
    Marketing,
    /// Carries a passcode. Its text is the upstream's own.
    Authentication,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Utility, Self::Marketing, Self::Authentication];

    /// As stored and sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Utility => "UTILITY",
            Self::Marketing => "MARKETING",
            Self::Authentication => "AUTHENTICATION",
        }
    }

    /// The category of a word, in whatever case the upstream writes it.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str().eq_ignore_ascii_case(word))
    }
}

/// A button under a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Button {
    /// Opens an address, which may end in one variable.
    Url {
        /// What is written on it.
        text: String,
        /// Where it leads.
        url: String,
    },
    /// Calls a number.
    PhoneNumber {
        /// What is written on it.
        text: String,
        /// Whom it calls.
        phone_number: String,
    },
    /// Sends its text back.
    QuickReply {
        /// What is written on it.
        text: String,
    },
}

impl Button {
    /// What is written on it.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Url { text, .. } | Self::PhoneNumber { text, .. } | Self::QuickReply { text } => {
                text
            }
        }
    }
}

/// What is wrong with a part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, behind the field: empty, or such as `/0/url`.
    pub place: String,
    /// What kind of fault.
    pub kind: Kind,
    /// A sentence without its subject.
    pub detail: String,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something is missing.
    Required,
    /// It is of another type.
    Type,
    /// It is none of the possible words.
    Word,
    /// Too short.
    Short,
    /// Too long, or too many.
    Long,
    /// Nobody knows it.
    Unknown,
    /// Variables are not numbered as they must be.
    Variables,
    /// Not an address.
    Url,
    /// Not a phone number.
    Phone,
}

fn fault(place: impl Into<String>, kind: Kind, detail: impl Into<String>) -> Fault {
    Fault { place: place.into(), kind, detail: detail.into() }
}

/// Whether a name is one that the upstream takes.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_letter)
}

/// A language as the upstream writes it (`pt_BR`); `None` = it is no code of a language.
#[must_use]
pub fn language(text: &str) -> Option<String> {
    let (base, region) = text.split_once(['_', '-']).map_or((text, None), |(b, r)| (b, Some(r)));
    let is_base = (2..=3).contains(&base.len()) && base.bytes().all(|b| b.is_ascii_lowercase());
    let is_region = |region: &str| {
        (2..=4).contains(&region.len()) && region.bytes().all(|b| b.is_ascii_alphabetic())
    };
    match region {
        _ if !is_base => None,
        None => Some(base.to_owned()),
        Some(region) => is_region(region).then(|| format!("{base}_{region}")),
    }
}

/// How many variables a text has: `{{1}}` to `{{n}}`, each at least once.
///
/// # Errors
/// When the numbers have a gap, or something in double braces is no number.
pub fn variables(text: &str) -> Result<usize, Fault> {
    let mut seen = [false; MOST_VARIABLES];
    let mut highest = 0;
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once("{{") {
        let Some((inside, behind)) = behind.split_once("}}") else {
            return Err(fault("", Kind::Variables, "has `{{` without `}}`"));
        };
        let number = inside.trim().parse::<usize>().ok();
        let place = number.and_then(|number| seen.get_mut(number.checked_sub(1)?));
        let (Some(place), Some(number)) = (place, number) else {
            let detail = "may have variables such as {{1}} only";
            return Err(fault("", Kind::Variables, detail));
        };
        *place = true;
        highest = highest.max(number);
        rest = behind;
    }
    match seen.iter().take(highest).position(|seen| !seen) {
        Some(gap) => {
            let detail = format!(
                "must number its variables 1 to {highest} without a gap: {} is missing",
                gap + 1
            );
            Err(fault("", Kind::Variables, detail))
        }
        None => Ok(highest),
    }
}

/// The text with its variables filled in. What has no value stays as it is.
#[must_use]
pub fn fill(text: &str, values: &[&str]) -> String {
    let mut filled = String::with_capacity(text.len());
    for_each_piece(text, values, |piece| filled.push_str(piece));
    filled
}

/// How many characters a text has with its variables filled in. Each may stand in it many times.
#[must_use]
pub fn filled_chars(text: &str, values: &[&str]) -> usize {
    let mut count = 0;
    for_each_piece(text, values, |piece| count += piece.chars().count());
    count
}

fn for_each_piece(text: &str, values: &[&str], mut take: impl FnMut(&str)) {
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        take(before);
        let Some((inside, after)) = behind.split_once("}}") else {
            take("{{");
            rest = behind;
            continue;
        };
        let number = inside.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(value) = number.and_then(|number| values.get(number)) {
            take(value);
        } else {
            ["{{", inside, "}}"].into_iter().for_each(&mut take);
        }
        rest = after;
    }
    take(rest);
}

/// The faults of a footer.
#[must_use]
pub fn check_footer(footer: &str) -> Option<Fault> {
    if footer.chars().count() > LONGEST_FOOTER {
        let detail = format!("must have at most {LONGEST_FOOTER} characters");
        return Some(fault("", Kind::Long, detail));
    }
    let has_variables = footer.contains("{{");
    has_variables.then(|| fault("", Kind::Variables, "must not have variables"))
}

/// Reads buttons as an author writes them; every fault is named. `strict` refuses members that
/// nobody knows.
///
/// # Errors
/// All faults, each with its place behind the field.
pub fn buttons(values: &[Value], strict: bool) -> Result<Vec<Button>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut found = Vec::new();
    let [most, ..] = MOST_BUTTONS;
    if values.len() > most {
        return Err(vec![fault("", Kind::Long, format!("must have at most {most} buttons"))]);
    }
    for (index, value) in values.iter().enumerate() {
        match button(value, strict) {
            Ok(button) => found.push(button),
            Err(more) => faults.extend(
                more.into_iter()
                    .map(|one| Fault { place: format!("/{index}{}", one.place), ..one }),
            ),
        }
    }
    faults.extend(check_order(&found));
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// How many of a kind there may be, and that quick replies stand together.
fn check_order(buttons: &[Button]) -> Option<Fault> {
    let [_, urls, phones] = MOST_BUTTONS;
    let count = |is: fn(&Button) -> bool| buttons.iter().filter(|button| is(button)).count();
    if count(|button| matches!(button, Button::Url { .. })) > urls {
        return Some(fault("", Kind::Long, format!("must have at most {urls} of type URL")));
    }
    if count(|button| matches!(button, Button::PhoneNumber { .. })) > phones {
        let detail = format!("must have at most {phones} of type PHONE_NUMBER");
        return Some(fault("", Kind::Long, detail));
    }
    let is_reply = |button: &Button| matches!(button, Button::QuickReply { .. });
    let runs = buttons.chunk_by(|one, next| is_reply(one) == is_reply(next));
    let reply_runs = runs.filter(|run| run.first().is_some_and(is_reply)).count();
    (reply_runs > 1).then(|| fault("", Kind::Word, "must have quick replies side by side"))
}

/// The members of a button, each with its longest text.
const MEMBERS: [(&str, usize); 4] = [
    ("type", LONGEST_LABEL),
    ("text", LONGEST_LABEL),
    ("url", LONGEST_URL),
    ("phone_number", LONGEST_PHONE),
];

fn button(value: &Value, strict: bool) -> Result<Button, Vec<Fault>> {
    let Some(map) = value.as_object() else {
        return Err(vec![fault("", Kind::Type, "must be an object")]);
    };
    let mut faults = Vec::new();
    let [kind, text, url, phone_number] = MEMBERS.map(|(name, longest)| {
        let read = map.get(name).map_or(Ok(None), |value| member(value, longest));
        read.unwrap_or_else(|(kind, detail)| {
            faults.push(fault(format!("/{name}"), kind, detail));
            // It is there, so it is not missed as well.
            Some(String::new())
        })
    });
    if strict {
        let is_known = |name: &&String| MEMBERS.iter().any(|(known, _)| known == name);
        let known = MEMBERS.map(|(name, _)| name).join(", ");
        faults.extend(map.keys().filter(|name| !is_known(name)).map(|name| {
            let place = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            fault(place, Kind::Unknown, format!("is not a field of a button; known: {known}"))
        }));
    }
    let mut needed = |name: &str, text: Option<String>| {
        if text.is_none() {
            faults.push(fault(format!("/{name}"), Kind::Required, "is required"));
        }
        text.unwrap_or_default()
    };
    let (kind, text) = (needed("type", kind), needed("text", text));
    let button = match kind.as_str() {
        "URL" => {
            let url = needed("url", url);
            faults.extend((!url.is_empty()).then(|| check_url(&url)).flatten());
            Some(Button::Url { text, url })
        }
        "PHONE_NUMBER" => {
            let phone_number = needed("phone_number", phone_number);
            let is_empty = phone_number.is_empty();
            faults.extend((!is_empty).then(|| check_phone(&phone_number)).flatten());
            Some(Button::PhoneNumber { text, phone_number })
        }
        "QUICK_REPLY" => Some(Button::QuickReply { text }),
        "" => None,
        _ => {
            let detail = "must be one of URL, PHONE_NUMBER, QUICK_REPLY";
            faults.push(fault("/type", Kind::Word, detail));
            None
        }
    };
    match button {
        Some(button) if faults.is_empty() => Ok(button),
        _ => Err(faults),
    }
}

/// A text of a button; `None` = it is not there.
fn member(value: &Value, longest: usize) -> Result<Option<String>, (Kind, String)> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.contains('\0') => {
            Err((Kind::Type, "must not contain the NUL character".to_owned()))
        }
        Value::String(text) if text.trim().is_empty() => {
            Err((Kind::Short, "must not be empty".to_owned()))
        }
        Value::String(text) if text.chars().count() > longest => {
            Err((Kind::Long, format!("must have at most {longest} characters")))
        }
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err((Kind::Type, "must be a string".to_owned())),
    }
}

/// A number to call: digits with the code of its country; the plus may be missing.
fn check_phone(number: &str) -> Option<Fault> {
    let digits = number.strip_prefix('+').unwrap_or(number);
    let is_good = (7..=15).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && !digits.starts_with('0');
    let detail = "must be a number with + and its country code, such as +33612345678";
    (!is_good).then(|| fault("/phone_number", Kind::Phone, detail))
}

/// An address may have one variable, at its end.
fn check_url(url: &str) -> Option<Fault> {
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Some(fault("/url", Kind::Url, "must begin with https:// or http://"));
    }
    let is_good = match variables(url) {
        Ok(0) => true,
        Ok(1) => url.trim_end().ends_with("}}") && url.matches("{{").count() == 1,
        _ => false,
    };
    (!is_good).then(|| fault("/url", Kind::Variables, "may have one variable, {{1}}, at its end"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Button, Kind, buttons, fill, is_name, language, variables};

    #[test]
    fn variables_run_from_one_without_gaps() {
        for (text, count) in [("", 0), ("Bonjour", 0), ("a {{1}} b {{2}} {{1}}", 2), ("{{ 1 }}", 1)]
        {
            assert_eq!(variables(text), Ok(count), "{text}");
        }
        for text in
            ["{{2}}", "{{1}} {{3}}", "{{0}}", "{{name}}", "{{1", "{{}}", "{{-1}}", "{{999}}"]
        {
            assert_eq!(variables(text).unwrap_err().kind, Kind::Variables, "{text}");
        }
    }

    #[test]
    fn a_filled_text_has_its_values_and_nothing_is_filled_twice() {
        assert_eq!(fill("a {{1}} b {{2}}.", &["{{2}}", "x"]), "a {{2}} b x.");
        assert_eq!(fill("{{1}} {{9}} {{", &["x"]), "x {{9}} {{");
    }

    #[test]
    fn names_and_languages_are_the_upstreams() {
        assert!(is_name("order_update_2") && !is_name("Order") && !is_name("") && !is_name("a-b"));
        assert_eq!(language("en-US").as_deref(), Some("en_US"));
        assert_eq!(language("fil").as_deref(), Some("fil"));
        assert!(language("FR").is_none() && language("fr_").is_none() && language("f").is_none());
    }

    #[test]
    fn every_fault_of_buttons_is_named_with_its_place() {
        let good = [
            json!({"type": "URL", "text": "See", "url": "https://ex.test/{{1}}"}),
            json!({"type": "QUICK_REPLY", "text": "Stop"}),
        ];
        let read = buttons(&good, true).unwrap();
        assert_eq!(read[1], Button::QuickReply { text: "Stop".to_owned() });
        let bad = [
            json!({"type": "URL", "text": "See", "url": "https://ex.test/{{1}}/x"}),
            json!({"type": "LINK", "text": "x"}),
            json!({"type": "PHONE_NUMBER", "colour": 1}),
            json!(7),
            json!({"type": "PHONE_NUMBER", "text": "Call", "phone_number": "call me"}),
        ];
        let faults = buttons(&bad, true).unwrap_err();
        let places: Vec<_> = faults.iter().map(|one| (one.place.as_str(), one.kind)).collect();
        let expected = [
            ("/0/url", Kind::Variables),
            ("/1/type", Kind::Word),
            ("/2/colour", Kind::Unknown),
            ("/2/text", Kind::Required),
            ("/2/phone_number", Kind::Required),
            ("/3", Kind::Type),
            ("/4/phone_number", Kind::Phone),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn quick_replies_stand_together() {
        let reply = json!({"type": "QUICK_REPLY", "text": "a"});
        let url = json!({"type": "URL", "text": "See", "url": "https://ex.test"});
        let is_good = |values: &[Value]| buttons(values, true).is_ok();
        assert!(is_good(&[reply.clone(), reply.clone(), url.clone()]));
        assert!(!is_good(&[reply.clone(), url.clone(), reply]));
        assert!(!is_good(&[url.clone(), url.clone(), url]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_text_is_too_strange(text in any::<String>(), braces in "[{}0-9 ]{0,40}") {
            let _count = variables(&text);
            let _count = variables(&braces);
            prop_assert_eq!(fill(&text, &[]), text);
        }
    }
}
