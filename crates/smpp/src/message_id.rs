//! A centre's ids of messages. Its receipts may write them in another way than its responses did:
//! in hexadecimal instead of decimal or the reverse, without leading zeros, in another case.

use crate::wire::COctets;

/// How a carrier's receipts write the ids of its responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdForm {
    /// Not known: the same, else converted both ways.
    #[default]
    Auto,
    /// The same (SMPP 3.4 §5.3.2.12).
    Text,
    /// In hexadecimal, while the responses are decimal.
    Hexadecimal,
    /// In decimal, while the responses are hexadecimal.
    Decimal,
}

/// What an id is stored and looked up by. Hexadecimal digits and dashes: upper case, without
/// leading zeros. Anything else stays, for it may distinguish cases.
#[must_use]
pub fn key(id: &COctets) -> String {
    let text = id.to_string();
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|octet| octet.is_ascii_hexdigit() || octet == b'-') {
        return text.to_owned();
    }
    let digits = text.trim_start_matches('0').to_ascii_uppercase();
    if digits.is_empty() { "0".to_owned() } else { digits }
}

/// The keys that the message of a receipt may be stored under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// This one means the message.
    pub likely: String,
    /// These may mean another message: believe one only if it is the only hit, and the receipt
    /// comes from the number that the message went to.
    pub guessed: Vec<Guess>,
}

/// A key that a receipt may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The key.
    pub key: String,
    /// How receipts write ids if it does.
    pub form: IdForm,
}

/// Where to look for the message of a receipt.
#[must_use]
pub fn candidates(id: &COctets, form: IdForm) -> Candidates {
    let same = key(id);
    let guess = |form, key| Guess { key, form };
    // Receipts in decimal are about answers in hexadecimal, and the reverse.
    let hexadecimal = to_hexadecimal(&same).map(|key| guess(IdForm::Decimal, key));
    let decimal = to_decimal(&same).map(|key| guess(IdForm::Hexadecimal, key));
    let (likely, mut guessed) = match form {
        IdForm::Text => (same, vec![]),
        IdForm::Auto => (same, hexadecimal.into_iter().chain(decimal).collect()),
        // Whoever sees hexadecimal receipts may take this for the name of the form, while the
        // answers are hexadecimal as well.
        IdForm::Hexadecimal | IdForm::Decimal => {
            let converted = if form == IdForm::Decimal { hexadecimal } else { decimal };
            let likely = converted.map_or_else(|| same.clone(), |guess| guess.key);
            (likely, vec![guess(IdForm::Text, same)])
        }
    };
    guessed.retain(|guess| guess.key != likely);
    Candidates { likely, guessed }
}

fn to_hexadecimal(decimal: &str) -> Option<String> {
    decimal.parse::<u128>().ok().map(|number| format!("{number:X}"))
}

fn to_decimal(hexadecimal: &str) -> Option<String> {
    u128::from_str_radix(hexadecimal, 16).ok().map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(stored: &str, receipt: &str, form: IdForm) -> (bool, bool) {
        let stored = key(&stored.into());
        let Candidates { likely, guessed } = candidates(&receipt.into(), form);
        (likely == stored, guessed.iter().any(|guess| guess.key == stored))
    }

    #[test]
    fn every_way_of_writing_an_id_leads_to_its_message() {
        let (certain, guessed, lost) = ((true, false), (false, true), (false, false));
        for (stored, receipt, form, expected) in [
            ("1000000001", "1000000001", IdForm::Auto, certain),
            ("3B9ACA01", "1000000001", IdForm::Auto, guessed),
            ("1000000001", "3b9aca01", IdForm::Auto, guessed),
            ("3B9ACA01", "1000000001", IdForm::Decimal, certain),
            ("1000000001", "3B9ACA01", IdForm::Hexadecimal, certain),
            ("1000000001", "3B9ACA01", IdForm::Text, lost),
            // Set for a carrier that writes the same in both.
            ("1000000001", "1000000001", IdForm::Decimal, guessed),
            ("3B9ACA01", "3b9aca01", IdForm::Hexadecimal, guessed),
            ("00ab12", "AB12", IdForm::Text, certain),
            ("000", "0", IdForm::Auto, certain),
            ("550E8400-E29B-41D4", "550e8400-e29b-41d4", IdForm::Auto, certain),
            ("Zx9", "Zx9", IdForm::Decimal, certain),
            ("zx9", "Zx9", IdForm::Auto, lost),
            (" 12 ", "12", IdForm::Text, certain),
            // More than 64 bits.
            ("DEADBEEFDEADBEEFDEADBEEF", "68915718021581205938132336367", IdForm::Auto, guessed),
            // More than 128 bits: the same only.
            ("F".repeat(40).as_str(), "F".repeat(40).as_str(), IdForm::Hexadecimal, certain),
        ] {
            assert_eq!(found(stored, receipt, form), expected, "{stored} {receipt} {form:?}");
        }
    }

    #[test]
    fn a_configured_form_does_not_attach_a_receipt_to_a_stranger() {
        // 0x10 is 16: the message with the decimal id 10 is another one, unless its number fits.
        assert_eq!(found("10", "10", IdForm::Hexadecimal), (false, true));
        assert_eq!(found("16", "10", IdForm::Hexadecimal), (true, false));
    }

    #[test]
    fn a_guess_names_the_form_that_it_supposes() {
        let forms = |receipt: &str, form| {
            let found = candidates(&receipt.into(), form).guessed;
            found.into_iter().map(|guess| (guess.key, guess.form)).collect::<Vec<_>>()
        };
        let (hexadecimal, decimal) = (IdForm::Hexadecimal, IdForm::Decimal);
        let both = [("10".to_owned(), decimal), ("22".to_owned(), hexadecimal)];
        assert_eq!(forms("16", IdForm::Auto), both);
        assert_eq!(forms("AB", IdForm::Auto), [("171".to_owned(), hexadecimal)]);
        assert_eq!(forms("AB", hexadecimal), [("AB".to_owned(), IdForm::Text)]);
        assert_eq!(forms("Zx9", decimal), []);
    }
}
