//! Which events a target gets: names of the catalogue, families such as `chatapp.*`, or `*`.

use crate::events::Kind;
use crate::kit::described::described_words;

/// What a target gets that asked for nothing in particular.
pub const DEFAULT: &str = Kind::SmsDelivery.as_str();

/// Names in one request; there are far fewer.
pub const MOST: usize = 50;

/// The patterns of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// What was given, without repetitions, or the place of the first name that means nothing.
    ///
    /// # Errors
    /// Its index.
    pub fn read(given: Vec<String>) -> Result<Self, usize> {
        if let Some(wrong) = given.iter().position(|text| !is_known(text)) {
            return Err(wrong);
        }
        let mut patterns: Vec<String> = Vec::with_capacity(given.len());
        for text in given {
            if !patterns.contains(&text) {
                patterns.push(text);
            }
        }
        Ok(Self(patterns))
    }

    /// What is stored: names do not hold spaces.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.split(' ').map(str::to_owned).collect())
    }

    /// As stored.
    #[must_use]
    pub fn to_stored(&self) -> String {
        self.0.join(" ")
    }

    /// As given.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Whether an event of this kind is meant.
    #[must_use]
    pub fn matches(&self, kind: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix(".*") {
            Some(family) => kind.split('.').next() == Some(family),
            None => pattern == "*" || pattern == kind,
        })
    }
}

fn is_known(text: &str) -> bool {
    if text == "*" {
        return true;
    }
    let of_family =
        |family: &str| Kind::ALL.iter().any(|kind| kind.as_str().split('.').next() == Some(family));
    text.strip_suffix(".*").map_or_else(|| text.parse::<Kind>().is_ok(), of_family)
}

/// All that may be asked for, for an error.
#[must_use]
pub fn known() -> String {
    all().join(", ")
}

/// Everything that a target may ask for.
fn all() -> Vec<String> {
    let words = Kind::ALL.iter().map(|kind| kind.as_str());
    let mut families: Vec<String> = words.clone().map(family).collect();
    families.dedup();
    let everything = std::iter::once("*".to_owned());
    words.map(str::to_owned).chain(families).chain(everything).collect()
}

fn family(word: &str) -> String {
    format!("{}.*", word.split('.').next().unwrap_or_default())
}

described_words!(
    pub(super) EventPattern: "A type of event, a family of them, or everything.",
    all()
);

#[cfg(test)]
mod tests {
    use super::Patterns;

    fn read(given: &[&str]) -> Result<Patterns, usize> {
        Patterns::read(given.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn names_families_and_everything_are_known() {
        let patterns = read(&["otp.status", "chatapp.*", "otp.status"]).unwrap();
        assert_eq!(patterns.words(), ["otp.status", "chatapp.*"]);
        assert_eq!(Patterns::stored(&patterns.to_stored()), patterns);
        for (kind, fits) in [
            ("otp.status", true),
            ("chatapp.inbound", true),
            ("chatapp.consent", true),
            ("sms.delivery", false),
            ("chatappx.inbound", false),
        ] {
            assert_eq!(patterns.matches(kind), fits, "{kind}");
        }
        assert!(read(&["*"]).unwrap().matches("anything.new"));
    }

    #[test]
    fn the_first_unknown_name_is_pointed_at() {
        for wrong in ["otp.stats", "otp", "nope.*", "", "**", "otp.*.*", "*.status", " *"] {
            assert_eq!(read(&["*", wrong]), Err(1), "{wrong}");
        }
    }
}
