//! STOP and START. Only a whole message is a keyword: "Stop. Thank you" is one like any other. And
//! no sender may be one: its name would be taken for what people are asked to answer.

use super::words::words;

words! {
    /// What a keyword asks for.
    pub enum Keyword {
        /// No more messages.
        Stop = "stop",
        /// Messages again.
        Start = "start",
    }
}

/// English: the words of the FCC (47 CFR §64.1200(a)(10)) and what carriers add to them. French:
/// STOP is what the operators' charter asks for; the others are what people write.
const STOP: &[&str] = &[
    "stop",
    "stop all",
    "stopall",
    "end",
    "quit",
    "cancel",
    "revoke",
    "unsubscribe",
    "opt out",
    "optout",
    "arret",
    "arreter",
    "desabonner",
    "desabonnement",
    "desinscrire",
    "desinscription",
];
const START: &[&str] = &[
    "start",
    "unstop",
    "resume",
    "opt in",
    "optin",
    "subscribe",
    "reprendre",
    "reabonner",
    "reinscrire",
];
/// What on a button may mean something else: an appointment is cancelled, a delivery resumed.
const OF_OTHER_MEANING: &[&str] =
    &["end", "quit", "cancel", "revoke", "start", "resume", "reprendre"];
/// Longer than any keyword, bytes: the rest of a long message need not be looked at.
const LONGEST: usize = 24;

impl Keyword {
    /// The keyword that a message is, if it is one. Case, accents, punctuation and spaces around
    /// do not count.
    #[must_use]
    pub fn in_message(text: &str) -> Option<Self> {
        let plain = plain(text)?;
        if STOP.contains(&plain.as_str()) {
            Some(Self::Stop)
        } else if START.contains(&plain.as_str()) {
            Some(Self::Start)
        } else {
            None
        }
    }

    /// The keyword that stands on a button which a person tapped, if it is one and nothing else.
    #[must_use]
    pub fn on_button(text: &str) -> Option<Self> {
        let is_other = plain(text).is_none_or(|plain| OF_OTHER_MEANING.contains(&plain.as_str()));
        if is_other { None } else { Self::in_message(text) }
    }
}

/// Lower case, without accents and punctuation, words parted by one space. None when it is longer
/// than any keyword.
fn plain(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut is_new_word = false;
    for letter in text.chars() {
        if letter.is_whitespace() || letter.is_control() {
            is_new_word = true;
            continue;
        }
        for letter in letter.to_lowercase().map(bare).filter(|letter| letter.is_alphanumeric()) {
            if std::mem::take(&mut is_new_word) && !plain.is_empty() {
                plain.push(' ');
            }
            plain.push(letter);
        }
        if plain.len() > LONGEST {
            return None;
        }
    }
    Some(plain)
}

/// The letter without its accent, for the letters of French. Accents that are characters of their
/// own are no letters and fall away as punctuation does.
const fn bare(letter: char) -> char {
    match letter {
        'à' | 'â' | 'ä' => 'a',
        'ç' => 'c',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'î' | 'ï' => 'i',
        'ô' | 'ö' => 'o',
        'ù' | 'û' | 'ü' => 'u',
        // Fullwidth forms, as keyboards of East Asia have them.
        'ａ'..='ｚ' => match char::from_u32(letter as u32 - 0xfee0) {
            Some(plain) => plain,
            None => letter,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Keyword, LONGEST, START, STOP};

    #[test]
    fn what_stands_on_a_button_may_mean_something_else() {
        for text in ["Cancel", "Start", "RESUME", "End", "Yes", ""] {
            assert_eq!(Keyword::on_button(text), None, "{text}");
        }
        assert_eq!(Keyword::on_button("Stop"), Some(Keyword::Stop));
        assert_eq!(Keyword::on_button("Désabonner"), Some(Keyword::Stop));
        assert_eq!(Keyword::on_button("Opt in"), Some(Keyword::Start));
        // Control: whoever writes it means it.
        assert_eq!(Keyword::in_message("Cancel"), Some(Keyword::Stop));
    }

    #[test]
    fn a_keyword_is_read_as_people_write_it() {
        for text in [
            "STOP",
            "stop",
            " Stop. ",
            "STOP!!!",
            "«\u{a0}stop\u{a0}»",
            "ARRÊT",
            "Arret",
            "arre\u{302}t",
            "Désinscrire",
            "opt-out",
            "Opt  Out",
            "STOP\r\n",
            "ＳＴＯＰ",
            "\u{feff}STOP\u{200b}",
            "S.T.O.P.",
            "stop 🙏",
        ] {
            assert_eq!(Keyword::in_message(text), Some(Keyword::Stop), "{text:?}");
        }
        for text in ["START", "start.", "UNSTOP", "Resume", "Reprendre", "réabonner"] {
            assert_eq!(Keyword::in_message(text), Some(Keyword::Start), "{text:?}");
        }
    }

    #[test]
    fn a_keyword_within_a_message_is_none() {
        let long = "STOP ".repeat(50_000);
        for text in [
            "",
            " ",
            "...",
            "Stop. Thank you",
            "don't stop",
            "STOP 36180",
            "stopp",
            "un stop",
            "bus stop",
            "non-stop",
            "started",
            "СТОП",
            &long,
        ] {
            assert_eq!(Keyword::in_message(text), None, "{:?}", text.get(..20));
        }
    }

    #[test]
    fn every_keyword_of_the_lists_can_be_met() {
        for word in STOP.iter().chain(START) {
            assert!(word.len() <= LONGEST && Keyword::in_message(word).is_some(), "{word}");
        }
        assert!(!STOP.iter().any(|word| START.contains(word)));
    }

    proptest! {
        #[test]
        fn no_message_is_too_strange(text in any::<String>()) {
            let found = Keyword::in_message(&text);
            prop_assert_eq!(found, Keyword::in_message(&format!("  {text}!?\n")));
        }
    }
}
