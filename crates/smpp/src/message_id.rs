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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// These mean the message.
    pub certain: Vec<String>,
    /// These may mean another message: believe one only if it is the only hit, and the receipt
    /// comes from the number that the message went to.
    pub guessed: Vec<String>,
}

/// Where to look for the message of a receipt.
#[must_use]
pub fn candidates(id: &COctets, form: IdForm) -> Candidates {
    let same = key(id);
    let (hexadecimal, decimal) = (to_hexadecimal(&same), to_decimal(&same));
    let certain = |converted: Option<String>| Candidates {
        certain: vec![converted.unwrap_or_else(|| same.clone())],
        guessed: vec![],
    };
    match form {
        IdForm::Text => certain(None),
        IdForm::Hexadecimal => certain(decimal),
        IdForm::Decimal => certain(hexadecimal),
        IdForm::Auto => {
            let mut guessed: Vec<String> = hexadecimal.into_iter().chain(decimal).collect();
            guessed.retain(|other| *other != same);
            Candidates { certain: vec![same], guessed }
        }
    }
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
        let candidates = candidates(&receipt.into(), form);
        (candidates.certain.contains(&stored), candidates.guessed.contains(&stored))
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
        // 0x10 is 16: the message with the decimal id 10 is another one.
        assert_eq!(found("10", "10", IdForm::Hexadecimal), (false, false));
        assert_eq!(found("16", "10", IdForm::Hexadecimal), (true, false));
    }
}
