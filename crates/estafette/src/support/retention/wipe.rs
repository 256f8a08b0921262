//! Takes a phone number out of a text, however it is written: with blanks, dots, dashes, slashes
//! or brackets between its digits, with `+` or `00` in front.

/// What stands for a number that was erased.
const ERASED: &str = "[erased]";

/// The text without a number, given as its digits; `None` when it does not have it.
pub(super) fn without(text: &str, digits: &str) -> Option<String> {
    if digits.is_empty() {
        return None;
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, tail) = rest.split_at(start);
        clean.push_str(before);
        if let Some(length) = length_of(tail, digits) {
            found = true;
            let kept = clean.trim_end_matches('+').len();
            clean.truncate(kept);
            clean.push_str(ERASED);
            rest = tail.get(length..).unwrap_or_default();
        } else {
            let (digit, tail) = tail.split_at(1);
            clean.push_str(digit);
            rest = tail;
        }
    }
    clean.push_str(rest);
    found.then_some(clean)
}

/// How many bytes at the start of a text are the number.
fn length_of(text: &str, digits: &str) -> Option<usize> {
    let mut wanted = digits.chars().peekable();
    for (at, letter) in text.char_indices() {
        if wanted.peek() == Some(&letter) {
            wanted.next();
            if wanted.peek().is_none() {
                return Some(at + letter.len_utf8());
            }
        } else if !is_between(letter) {
            return None;
        }
    }
    None
}

const fn is_between(letter: char) -> bool {
    matches!(letter, ' ' | '\u{a0}' | '\u{202f}' | '.' | '-' | '/' | '(' | ')')
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn a_number_goes_however_it_is_written() {
        for written in ["+33612345678", "33612345678", "+33 6 12 34 56 78", "+33 (6) 12.34-56/78"] {
            let text = format!("call {written} now");
            assert_eq!(without(&text, "33612345678").as_deref(), Some("call [erased] now"));
        }
        let twice = "+33612345678+33612345678";
        assert_eq!(without(twice, "33612345678").as_deref(), Some("[erased][erased]"));
        assert_eq!(without("9933612345678", "33612345678").as_deref(), Some("99[erased]"));
    }

    #[test]
    fn other_numbers_stay() {
        for text in ["", "+33612345679", "33 a 612345678", "3361234567", "é 33612345678é"] {
            let has = text.contains("33612345678");
            assert_eq!(without(text, "33612345678").is_some(), has, "{text}");
        }
    }
}
