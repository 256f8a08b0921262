//! Texts that need UCS-2 for a typographic quote or an accent, rewritten so that GSM-7 does.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use crate::gsm7;

/// The same text in characters of GSM-7, or the text itself if it cannot be: when one character
/// has no equivalent, UCS-2 is needed anyway, and the others had better stay.
///
/// - Quotes, dashes, spaces, bullets and the ellipsis become their ASCII forms; characters without
///   width vanish.
/// - Letters lose the accents that GSM-7 does not have: `ê` → `e`, `ç` → `c`, `ž` → `z`; `é`, `à`,
///   `ñ` and `ü` stay. Ligatures and letters of their own are spelled out: `œ` → `oe`, `ł` → `l`,
///   `þ` → `th`.
/// - Superscripts, fractions and other compatible forms become plain: `²` → `2`, `½` → `1/2`.
/// - Other scripts and emoji have no equivalent.
#[must_use]
pub fn transliterate(text: &str) -> Cow<'_, str> {
    if text.chars().all(gsm7::has) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for letter in text.nfc() {
        if gsm7::has(letter) {
            plain.push(letter);
        } else if let Some(equivalent) = equivalent(letter) {
            plain.push_str(equivalent);
        } else if !push_without_accents(letter, &mut plain) {
            return Cow::Borrowed(text);
        }
    }
    Cow::Owned(plain)
}

/// Appends the base of a letter; `false` if GSM-7 does not have it either.
fn push_without_accents(letter: char, plain: &mut String) -> bool {
    std::iter::once(letter).nfkd().all(|piece| {
        if is_accent(piece) {
            return true;
        }
        match equivalent(piece) {
            Some(equivalent) => plain.push_str(equivalent),
            None if gsm7::has(piece) => plain.push(piece),
            None => return false,
        }
        true
    })
}

/// Combining diacritical marks.
const fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// Characters, and what stands for each of them.
const EQUIVALENTS: &[(&str, &str)] = &[
    ("‘’‚‛′‹›`´ʼʻˈ", "'"),
    ("“”„‟″«»〝〞¨", "\""),
    ("‐‑‒–—―−⁃¬¯", "-"),
    ("…", "..."),
    ("•·‣◦∙●▪", "*"),
    ("\t\u{a0}\u{1680}\u{202f}\u{205f}\u{3000}", " "),
    ("\u{b}\u{85}\u{2028}\u{2029}", "\n"),
    ("œ", "oe"),
    ("Œ", "OE"),
    ("ł", "l"),
    ("Ł", "L"),
    ("đð", "d"),
    ("ĐÐ", "D"),
    ("þ", "th"),
    ("Þ", "TH"),
    ("ħ", "h"),
    ("Ħ", "H"),
    ("ı", "i"),
    ("ŧ", "t"),
    ("Ŧ", "T"),
    ("ŋ", "n"),
    ("Ŋ", "N"),
    ("ĸ", "k"),
    ("ə℮", "e"),
    ("Ə", "E"),
    ("ẞ", "SS"),
    ("µμ", "u"),
    ("×", "x"),
    ("÷⁄∕", "/"),
    ("°º", "o"),
    ("ª", "a"),
    ("¢", "c"),
    ("©", "(c)"),
    ("®", "(R)"),
    ("™", "TM"),
    ("¦", "|"),
    ("¸", ","),
    ("≤", "<="),
    ("≥", ">="),
    ("≠", "!="),
    ("≈", "~"),
    ("→", "->"),
    ("←", "<-"),
];

/// Soft hyphens, joiners, directions, variation selectors, byte order marks.
const fn has_no_width(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(letter, '\u{2060}' | '\u{fe0e}' | '\u{fe0f}' | '\u{feff}')
}

fn equivalent(letter: char) -> Option<&'static str> {
    match letter {
        // Spaces of all widths.
        '\u{2000}'..='\u{200a}' => Some(" "),
        _ if has_no_width(letter) => Some(""),
        _ => EQUIVALENTS.iter().find(|(from, _)| from.contains(letter)).map(|(_, to)| *to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typography_and_accents_become_what_gsm7_has() {
        for (text, plain) in [
            ("L’été, c’est «\u{a0}ça\u{a0}» – œuvre…", "L'été, c'est \" ca \" - oeuvre..."),
            ("Ê Î Ô Û ë ï â ç À Č ž ő ế", "E I O U e i a c A C z o e"),
            ("e\u{301}te\u{302}", "éte"),
            ("5 × 2² = 20 °C\u{200b}", "5 x 22 = 20 oC"),
            ("Zażółć gęślą jaźń", "Zazolc gesla jazn"),
            ("½ ﬁn № 3", "1/2 fin No 3"),
            ("tab\there", "tab here"),
        ] {
            let found = transliterate(text);
            assert_eq!(found, plain);
            assert!(found.chars().all(gsm7::has), "{found}");
        }
    }

    #[test]
    fn a_text_that_needs_ucs2_anyway_keeps_its_typography() {
        for text in ["L’été 😀", "«Привет»", "„你好“", "naïve ♥"] {
            assert!(matches!(transliterate(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn every_equivalent_is_gsm7_and_stands_for_what_is_not() {
        for (from, to) in EQUIVALENTS {
            assert!(to.chars().all(gsm7::has), "{to}");
            assert!(!from.chars().any(gsm7::has), "{from}");
        }
    }

    #[test]
    fn a_text_in_gsm7_is_left_alone() {
        let text = "Déjà vu: ÇA c'est 5 € [ok] {\\}";
        assert!(matches!(transliterate(text), Cow::Borrowed(same) if same == text));
    }
}
