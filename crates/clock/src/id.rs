//! TypeIDs: a prefix and 26 characters of lower-case Crockford base32 of a UUID.

use uuid::Uuid;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// What each byte stands for; [`NO_DIGIT`] of those that are none. Ids are read from every row.
const VALUES: [u8; 256] = values();
const NO_DIGIT: u8 = 0xff;
const LENGTH: usize = 26;

const fn values() -> [u8; 256] {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 32_u8 {
        values[ALPHABET[value as usize] as usize] = value;
        value += 1;
    }
    values
}

/// `prefix_` and 26 characters. The first carries 3 bits, the others 5 each.
#[must_use]
pub fn typeid(prefix: &str, uuid: Uuid) -> String {
    let mut rest = uuid.as_u128();
    let mut digits = [b'0'; LENGTH];
    for digit in digits.iter_mut().rev() {
        let value = usize::try_from(rest & 31).unwrap_or(0);
        *digit = ALPHABET.get(value).copied().unwrap_or(b'0');
        rest >>= 5;
    }
    let mut text = String::with_capacity(prefix.len() + 1 + LENGTH);
    text.push_str(prefix);
    text.push('_');
    text.push_str(str::from_utf8(&digits).unwrap_or_default());
    text
}

/// The UUID inside a TypeID with this prefix; `None` when the text is none.
#[must_use]
pub fn typeid_uuid(prefix: &str, text: &str) -> Option<Uuid> {
    let digits = text.strip_prefix(prefix)?.strip_prefix('_')?;
    if digits.len() != LENGTH || !digits.starts_with(['0', '1', '2', '3', '4', '5', '6', '7']) {
        return None;
    }
    let mut value = 0_u128;
    for byte in digits.bytes() {
        let digit = VALUES.get(usize::from(byte)).copied().filter(|digit| *digit != NO_DIGIT)?;
        value = (value << 5) | u128::from(digit);
    }
    Some(Uuid::from_u128(value))
}

#[cfg(test)]
mod tests {
    use super::{typeid, typeid_uuid};
    use uuid::Uuid;

    #[test]
    fn the_published_example_of_the_typeid_specification_holds() {
        let uuid = Uuid::parse_str("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        assert_eq!(typeid("prefix", uuid), "prefix_01h455vb4pex5vsknk084sn02q");
        assert_eq!(typeid_uuid("prefix", "prefix_01h455vb4pex5vsknk084sn02q"), Some(uuid));
    }

    #[test]
    fn texts_that_are_no_ids_are_refused() {
        for text in ["", "otp_", "otp_8zzzzzzzzzzzzzzzzzzzzzzzzz", "key_01h455vb4pex5vsknk084sn02q"]
        {
            assert_eq!(typeid_uuid("otp", text), None, "{text}");
        }
    }
}
