//! What a passcode says: French and English, one GSM-7 segment, the code first.

use super::order::Order;
use crate::carriers::Template;

/// Countries whose people are written to in French where a request does not say.
const FRENCH: &[&str] = &[
    "BE", "BF", "BI", "BJ", "BL", "CD", "CF", "CG", "CI", "CM", "DJ", "DZ", "FR", "GA", "GF", "GN",
    "GP", "HT", "KM", "LU", "MA", "MC", "MF", "MG", "ML", "MQ", "MR", "NC", "NE", "PF", "PM", "RE",
    "SN", "TD", "TG", "TN", "WF", "YT",
];

/// How a challenge is worded; kept with it, so that a later leg says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wording {
    /// `fr` or `en`, or a template's own locale.
    pub(super) language: String,
    /// The sender of the SMS; empty = the carrier's own.
    pub(super) sender: String,
    /// The chat-app template; empty = the deployment's own.
    pub(super) template: String,
}

impl Wording {
    /// The language of a request, else of the recipient's country.
    pub(super) fn language_for(asked: Option<String>, country: &str) -> String {
        asked.unwrap_or_else(|| if FRENCH.contains(&country) { "fr" } else { "en" }.to_owned())
    }

    /// With what a later request says; what it leaves out stays.
    pub(super) fn asked_anew(self, order: &Order) -> Self {
        Self {
            language: order.language.clone().unwrap_or(self.language),
            sender: order.sender.clone().unwrap_or(self.sender),
            template: order.template.clone().unwrap_or(self.template),
        }
    }

    /// As stored: three fields that cannot contain the separator.
    pub(super) fn to_stored(&self) -> String {
        format!("{}\n{}\n{}", self.language, self.sender, self.template)
    }

    /// From what is stored.
    pub(super) fn of_stored(stored: &str) -> Self {
        let mut parts = stored.split('\n').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        Self { language: part(), sender: part(), template: part() }
    }

    /// The text of an SMS, and what the default template says.
    pub(super) fn text(&self, code: &str) -> String {
        if self.language.starts_with("fr") {
            format!("{code} est votre code de vérification. Ne le donnez à personne.")
        } else {
            format!("{code} is your verification code. Do not share it with anyone.")
        }
    }

    pub(super) fn template(&self) -> Template {
        Template { name: self.template.clone(), language: self.language.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::Wording;

    #[test]
    fn the_text_is_one_segment_with_the_code_first() {
        for language in ["fr", "fr_CA", "en", "de"] {
            let wording = Wording {
                language: language.into(),
                sender: "ACME".into(),
                template: String::new(),
            };
            assert_eq!(Wording::of_stored(&wording.to_stored()), wording);
            let text = wording.text("12345678");
            assert!(text.starts_with("12345678 "));
            // é and à are in the GSM 03.38 default alphabet; everything else here is ASCII.
            assert!(text.chars().all(|letter| letter.is_ascii() || "éà".contains(letter)));
            assert!(text.chars().count() <= 160);
        }
    }
}
