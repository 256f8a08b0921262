//! File names: what is left of one that a stranger chose.

use unicode_normalization::UnicodeNormalization;

use super::kinds::FileKind;

/// Longest name, characters.
const LONGEST: usize = 120;

/// A name without a path, control characters and marks that turn the direction of text around, in
/// one form of accents. An empty one is named after its kind.
pub(super) fn tidied(given: &str, kind: FileKind) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or("");
    let clean: String = last.nfc().filter(|letter| is_harmless(*letter)).collect();
    let clean = clean.trim().trim_start_matches('.');
    let usual = kind.extensions().first().copied().unwrap_or_default();
    let (stem, extension) = clean.rsplit_once('.').unwrap_or((clean, usual));
    let stem = stem.trim();
    let stem = if stem.is_empty() { "file" } else { stem };
    let room = LONGEST - extension.chars().count().min(10) - 1;
    let stem: String = stem.chars().take(room).collect();
    format!("{stem}.{extension}")
}

/// The extension of a name, in lower case; empty when it has none.
pub(super) fn extension(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or("");
    let letters: String = last.chars().filter(|letter| is_harmless(*letter)).collect();
    let extension = letters.trim().rsplit_once('.').map(|(_, extension)| extension.to_owned());
    extension.unwrap_or_default().to_lowercase()
}

/// Not a control character, an invisible one, or one that reorders text (UAX #9).
fn is_harmless(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '"' | '<' | '>')
}

#[cfg(test)]
mod tests {
    use super::{extension, tidied};
    use crate::support::files::kinds::FileKind;

    #[test]
    fn a_name_is_only_a_name() {
        for (given, left) in [
            ("../../etc/passwd.png", "passwd.png"),
            ("C:\\Users\\a b.png", "a b.png"),
            ("e\u{301}te\u{301}.png", "été.png"),
            ("gnp\u{202e}exe.png", "gnpexe.png"),
            ("a\r\nSet-Cookie: x.png", "aSet-Cookie: x.png"),
            (".png", "png.png"),
            ("", "file.png"),
            ("\"><script>.png", "script.png"),
        ] {
            assert_eq!(tidied(given, FileKind::Png), left, "{given:?}");
        }
        let long = format!("{}.png", "x".repeat(500));
        assert_eq!(tidied(&long, FileKind::Png).chars().count(), 120);
    }

    #[test]
    fn the_extension_is_the_last_one() {
        for (given, found) in [
            ("a.PNG", "png"),
            ("a.png.exe", "exe"),
            ("png", ""),
            ("a.png ", "png"),
            ("a.exe\u{200b}.png", "png"),
            ("dir.png/a", ""),
        ] {
            assert_eq!(extension(given), found, "{given:?}");
        }
    }
}
