//! The words of a text, as they are put into the index and looked for. Both engines get the same
//! plain words, so that they find the same: lower case, without accents, letters and digits only.

use unicode_normalization::UnicodeNormalization;

use crate::kit::id::AccountId;

/// Longest word that is kept, characters; what is longer is cut there, in texts and searches alike.
const LONGEST: usize = 40;
/// Words of a search that count.
const MOST_WORDS: usize = 10;
/// Found messages that are looked at for one search.
pub(super) const MOST_FOUND: i64 = 1_000;

/// The words of a text, with blanks between.
fn words(text: &str) -> Vec<String> {
    let plain: String = text
        .chars()
        .map(narrow)
        // Marks stand behind their letter where macOS writes it.
        .nfc()
        .flat_map(char::to_lowercase)
        .filter(|letter| !is_mark_of_a_letter(*letter))
        .map(unaccented)
        .map(|letter| if letter.is_alphanumeric() { letter } else { ' ' })
        .collect();
    plain
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(LONGEST).collect())
        .collect()
}

/// The letters of fullwidth forms, which keyboards for Chinese and Japanese write.
fn narrow(letter: char) -> char {
    match letter {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        other => other,
    }
}

/// The letters of French without their marks; people leave those out when they search.
const fn unaccented(letter: char) -> char {
    match letter {
        'à' | 'â' | 'ä' | 'á' | 'ã' | 'å' => 'a',
        'ç' => 'c',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'î' | 'ï' | 'í' | 'ì' => 'i',
        'ô' | 'ö' | 'ó' | 'ò' | 'õ' => 'o',
        'ù' | 'û' | 'ü' | 'ú' => 'u',
        'ÿ' => 'y',
        'ñ' => 'n',
        'ς' => 'σ',
        other => other,
    }
}

const fn is_mark_of_a_letter(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// A word without any marks, where it has some: it is in the index beside the word itself, by which
/// texts are found that were written before it was.
fn bare(word: &str) -> Option<String> {
    let unmarked = |letter| match letter {
        'đ' => 'd',
        'ħ' => 'h',
        'ı' => 'i',
        'ł' => 'l',
        'ø' => 'o',
        'ŧ' => 't',
        other => other,
    };
    // Marks by themselves, and the rest together again: Korean is written of such parts.
    let marks_apart = word.nfd().filter(|letter| !is_mark_of_a_letter(*letter));
    let bare: String = marks_apart.nfc().map(unmarked).collect();
    (bare != word).then_some(bare)
}

/// What the index keeps of a message. Whose it is, and whether a user may see it, are words of it.
pub(super) fn indexed(account: &AccountId, is_note: bool, text: &str) -> String {
    let visible = if is_note { NOTE } else { PUBLIC };
    let mut words = words(text);
    let bare: Vec<String> = words.iter().filter_map(|word| bare(word)).collect();
    words.extend(bare);
    format!("{} {visible} {}", mark(account), words.join(" "))
}

/// What to look for: all of these words, in what an account has. None when the text has none.
pub(super) fn looked_for(
    reader: super::Reader<'_>,
    account: Option<&AccountId>,
    text: &str,
) -> Option<String> {
    let mut wanted: Vec<String> = words(text).into_iter().take(MOST_WORDS).collect();
    // The words that say whose a text is, and who sees it, are not for searching: no text has them.
    if wanted.iter().any(|word| word == NOTE || word == PUBLIC || is_mark(word)) {
        return None;
    }
    if wanted.is_empty() {
        return None;
    }
    wanted.extend(account.map(mark));
    if matches!(reader, super::Reader::User(_)) {
        wanted.push(PUBLIC.to_owned());
    }
    // Quoted, a word is a word for FTS5, never one of its operators.
    Some(wanted.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" "))
}

const NOTE: &str = "visibilitynote";
const PUBLIC: &str = "visibilitypublic";

fn mark(account: &AccountId) -> String {
    account.as_str().replace('_', "")
}

/// Whether a word may be such a mark: `acc` and the 26 letters of an id.
fn is_mark(word: &str) -> bool {
    word.len() == 29 && word.starts_with("acc")
}

#[cfg(test)]
mod tests {
    use super::{indexed, looked_for};
    use crate::kit::id::AccountId;
    use crate::support::Reader;

    #[test]
    fn a_text_becomes_plain_words() {
        let account = AccountId::stored("acc_1".to_owned());
        let made = indexed(&account, false, "Reçu à 12:30, \"NEAR\" +33612345678!");
        assert_eq!(made, "acc1 visibilitypublic recu a 12 30 near 33612345678");
    }

    #[test]
    fn a_user_looks_only_at_what_is_theirs_and_public() {
        let account = AccountId::stored("acc_1".to_owned());
        let made = looked_for(Reader::User(&account), Some(&account), "near OR* x").unwrap();
        assert_eq!(made, "\"near\" \"or\" \"x\" \"acc1\" \"visibilitypublic\"");
        assert_eq!(looked_for(Reader::Staff, None, "  ?! "), None);
        assert_eq!(looked_for(Reader::Staff, Some(&account), "visibilitypublic"), None);
        let of_one = looked_for(Reader::Staff, Some(&account), "near").unwrap();
        assert_eq!(of_one, "\"near\" \"acc1\"");
        let made = indexed(&account, true, "Dvořák, Łódź, 한국");
        assert_eq!(made, "acc1 visibilitynote dvořak łodź 한국 dvorak lodz");
        let apart = "Dvor\u{30c}a\u{301}k, \u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}";
        let made = indexed(&account, true, apart);
        assert_eq!(made, "acc1 visibilitynote dvořak 한국 dvorak");
        assert_eq!(looked_for(Reader::Staff, None, apart).unwrap(), "\"dvořak\" \"한국\"");
        let written = ["e\u{301}t\u{e9}", "ÉTÉ", "\u{ff45}t\u{e9}"];
        assert!(
            written.iter().all(|text| {
                looked_for(Reader::Staff, None, text).as_deref() == Some("\"ete\"")
            })
        );
    }
}
