//! Receipts: what a `deliver_sm` or `data_sm` says about an earlier message, in TLVs or in the
//! text that SMPP 3.4 describes in appendix B and every centre writes in its own way.

use bytes::Bytes;

use crate::message::Message;
use crate::tlv::tag;
use crate::wire::COctets;

/// `message_state` (SMPP 3.4 §5.2.28; 0 and 9 are of 5.0 §4.7.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// Not sent yet.
    Scheduled,
    /// On its way.
    Enroute,
    /// Arrived.
    Delivered,
    /// Its validity ended first.
    Expired,
    /// Deleted at the centre.
    Deleted,
    /// It cannot arrive.
    Undeliverable,
    /// Accepted on the subscriber's behalf, without a delivery.
    Accepted,
    /// Nobody knows.
    Unknown,
    /// Refused.
    Rejected,
    /// Left out.
    Skipped,
}

impl MessageState {
    /// From the TLV; `None` for a number that says nothing.
    #[must_use]
    pub const fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Scheduled,
            1 => Self::Enroute,
            2 => Self::Delivered,
            3 => Self::Expired,
            4 => Self::Deleted,
            5 => Self::Undeliverable,
            6 => Self::Accepted,
            7 => Self::Unknown,
            8 => Self::Rejected,
            9 => Self::Skipped,
            _ => return None,
        })
    }

    /// From the word after `stat:`, in any case; `None` for a word that says nothing.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Some(match word.to_ascii_uppercase().as_str() {
            "SCHEDULED" | "SCHEDUL" => Self::Scheduled,
            "ENROUTE" | "BUFFRED" | "BUFFERD" | "BUFFERED" | "SENT" => Self::Enroute,
            "DELIVRD" | "DELIVERED" | "DELIVRE" => Self::Delivered,
            "EXPIRED" => Self::Expired,
            "DELETED" => Self::Deleted,
            "UNDELIV" | "UNDELIVERED" | "UNDELIVERABLE" | "UNDELVD" | "FAILED" => {
                Self::Undeliverable
            }
            "ACCEPTD" | "ACCEPTED" | "ACKED" => Self::Accepted,
            "UNKNOWN" | "UNKNWN" => Self::Unknown,
            "REJECTD" | "REJECTED" => Self::Rejected,
            "SKIPPED" => Self::Skipped,
            _ => return None,
        })
    }

    /// Whether nothing comes after it, as far as the centre knows.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Scheduled | Self::Enroute | Self::Accepted | Self::Unknown)
    }
}

/// `network_error_code` (SMPP 3.4 §5.3.2.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetworkError {
    /// The kind of network: 1 ANSI-136, 2 IS-95, 3 GSM, and carriers' own.
    pub network: u8,
    /// Its code. Of a value with more than two octets, all of them.
    pub code: u32,
}

/// What a receipt says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The centre's id of the message, as the receipt writes it ([`crate::message_id`]).
    pub message_id: Option<COctets>,
    /// What became of it.
    pub state: MessageState,
    /// The code after `err:`.
    pub error: Option<COctets>,
    /// The code of the TLV.
    pub network_error: Option<NetworkError>,
}

impl Receipt {
    /// The receipt that a message is; `None`: it comes from a handset. TLVs win over the text.
    ///
    /// Some centres do not mark receipts (§5.2.12): a `receipted_message_id`, or a text that begins
    /// with `id:` and has a `stat:`, is one as well.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        let class = message.esm_class;
        let is_marked = class.is_receipt() || class.is_intermediate();
        // Some centres add an empty one to each message.
        let id = message.tlvs.get(tag::RECEIPTED_MESSAGE_ID).map(|value| without_nul(&value));
        let id = id.filter(|id| !id.is_empty());
        let text = TextReceipt::new(&message.body(), message.data_coding);
        if !is_marked && id.is_none() && !text.is_receipt() {
            return None;
        }
        let code = message.tlvs.get(tag::MESSAGE_STATE).and_then(|value| value.first().copied());
        let state = code.and_then(MessageState::of_code);
        let state = state.or_else(|| MessageState::of_word(text.value("stat:")?));
        let is_final = !class.is_intermediate();
        let otherwise = if is_final { MessageState::Unknown } else { MessageState::Enroute };
        Some(Self {
            message_id: id.or_else(|| text.value("id:").map(Into::into)),
            state: state.unwrap_or(otherwise),
            error: text.value("err:").map(Into::into),
            network_error: message
                .tlvs
                .get(tag::NETWORK_ERROR_CODE)
                .and_then(|value| network_error(&value)),
        })
    }
}

/// Some centres leave the NUL out (§5.3.2.12 wants it).
fn without_nul(value: &Bytes) -> COctets {
    let end = value.iter().position(|octet| *octet == 0).unwrap_or(value.len());
    value.slice(..end).into()
}

fn network_error(value: &Bytes) -> Option<NetworkError> {
    let (network, code) = value.split_first()?;
    let code = code.iter().take(4).fold(0, |code, octet| (code << 8) | u32::from(*octet));
    Some(NetworkError { network: *network, code })
}

/// The longest text that is looked at: receipts quote at most twenty characters of theirs.
const MOST_TEXT: usize = 1_024;

const KEYS: [&str; 8] =
    ["id:", "sub:", "dlvrd:", "submit date:", "done date:", "stat:", "err:", "text:"];

/// `id:… sub:… dlvrd:… submit date:… done date:… stat:… err:… text:…`, in any order and case, and
/// with any of them missing (appendix B).
struct TextReceipt {
    text: String,
    lower: String,
    /// Where the quoted message begins, which may say anything.
    quoted: usize,
}

impl TextReceipt {
    fn new(body: &[u8], data_coding: u8) -> Self {
        // UCS-2 and its class variants: only ASCII is of interest, which is every second octet.
        let is_wide = matches!(data_coding, 0x08 | 0x18..=0x1B) && body.first() == Some(&0);
        let body = body.get(..MOST_TEXT).unwrap_or(body).iter();
        let step = if is_wide { 2 } else { 1 };
        let text: String = body
            .skip(step - 1)
            .step_by(step)
            .map(|octet| if octet.is_ascii() { char::from(*octet) } else { '?' })
            .collect();
        let lower = text.to_ascii_lowercase();
        let quoted = position(&lower, "text:").unwrap_or(lower.len());
        Self { text, lower, quoted }
    }

    fn is_receipt(&self) -> bool {
        self.lower.trim_start().starts_with("id:") && self.value("stat:").is_some()
    }

    /// The word behind a key: before the quoted message, or behind it where it came first.
    fn value(&self, key: &str) -> Option<&str> {
        let head = self.lower.get(..self.quoted).unwrap_or(&self.lower);
        let start = position(head, key).or_else(|| position(&self.lower, key))? + key.len();
        let rest = self.text.get(start..)?.trim_start_matches(' ');
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '\0' | ',' | ';');
        let word = rest.split(ends).next()?;
        let is_key = |key: &&str| word.to_ascii_lowercase().starts_with(*key);
        (!word.is_empty() && !KEYS.iter().any(is_key)).then_some(word)
    }
}

/// Where a key stands that does not continue a word.
fn position(text: &str, key: &str) -> Option<usize> {
    let begins = |at: usize| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    text.match_indices(key).map(|(at, _)| at).find(|at| begins(*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::EsmClass;
    use crate::tlv::Tlvs;

    fn marked(text: &str) -> Message {
        let short_message = Bytes::copy_from_slice(text.as_bytes());
        Message { esm_class: EsmClass(0x04), short_message, ..Message::default() }
    }

    fn read(text: &str) -> (Option<String>, MessageState, Option<String>) {
        let receipt = Receipt::of(&marked(text)).unwrap();
        let text = |octets: Option<COctets>| octets.map(|octets| octets.to_string());
        (text(receipt.message_id), receipt.state, text(receipt.error))
    }

    fn told(
        id: &str,
        state: MessageState,
        error: &str,
    ) -> (Option<String>, MessageState, Option<String>) {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (text(id), state, text(error))
    }

    #[test]
    fn texts_of_many_centres_are_read() {
        use MessageState::{
            Accepted, Delivered, Enroute, Expired, Rejected, Undeliverable, Unknown,
        };
        let whole = "id:0123456789 sub:001 dlvrd:001 submit date:1507011015 done date:1507011016 \
            stat:DELIVRD err:000 text:hello";
        for (text, told) in [
            (whole, told("0123456789", Delivered, "000")),
            (
                "id:1 submit date:260101 done date:260101 stat:UNDELIV err:034",
                told("1", Undeliverable, "034"),
            ),
            ("ID:AbC STAT:expired ERR:0A1 TEXT:", told("AbC", Expired, "0A1")),
            ("stat:REJECTD id:7 err:69", told("7", Rejected, "69")),
            ("id: 8 stat: ACCEPTD err: text:", told("8", Accepted, "")),
            ("id:9,stat:BUFFRED;", told("9", Enroute, "")),
            ("id:9, stat:BUFFRED; err:1", told("9", Enroute, "1")),
            (
                "id:550e8400-e29b-41d4-a716-446655440000 stat:FAILED",
                told("550e8400-e29b-41d4-a716-446655440000", Undeliverable, ""),
            ),
            ("id:3 stat:DELIVRD text:stat:UNDELIV id:4 err:9", told("3", Delivered, "9")),
            ("text:x id:5 stat:DELIVRD err:0", told("5", Delivered, "0")),
            ("msgid:2 id:6 stat:WHATEVER", told("6", Unknown, "")),
            ("", told("", Unknown, "")),
        ] {
            assert_eq!(read(text), told, "{text}");
        }
    }

    #[test]
    fn tlvs_win_over_the_text() {
        let mut message = marked("id:1 stat:DELIVRD err:000");
        message.tlvs = Tlvs::default()
            .with(tag::RECEIPTED_MESSAGE_ID, b"77\0")
            .with(tag::MESSAGE_STATE, &[5])
            .with(tag::NETWORK_ERROR_CODE, &[3, 0, 34]);
        let receipt = Receipt::of(&message).unwrap();
        assert_eq!(receipt.message_id, Some("77".into()));
        assert_eq!(receipt.state, MessageState::Undeliverable);
        assert_eq!(receipt.network_error, Some(NetworkError { network: 3, code: 34 }));
    }

    #[test]
    fn odd_tlvs_are_read_as_far_as_they_make_sense() {
        let mut message = marked("id:1 stat:EXPIRED");
        message.tlvs = Tlvs::default()
            .with(tag::RECEIPTED_MESSAGE_ID, b"no nul")
            .with(tag::MESSAGE_STATE, &[77])
            .with(tag::NETWORK_ERROR_CODE, &[3, 0, 0, 34]);
        let receipt = Receipt::of(&message).unwrap();
        assert_eq!(receipt.message_id, Some("no nul".into()));
        assert_eq!(receipt.state, MessageState::Expired);
        assert_eq!(receipt.network_error, Some(NetworkError { network: 3, code: 34 }));
        message.tlvs = Tlvs::default().with(tag::NETWORK_ERROR_CODE, &[]);
        assert_eq!(Receipt::of(&message).unwrap().network_error, None);
    }

    #[test]
    fn unmarked_receipts_are_recognised_and_handsets_are_not_taken_for_them() {
        let unmarked = |text: &str| Message { esm_class: EsmClass(0), ..marked(text) };
        assert!(Receipt::of(&unmarked("id:1 sub:001 stat:DELIVRD")).is_some());
        let mut by_tlv = unmarked("");
        by_tlv.tlvs = Tlvs::default().with(tag::RECEIPTED_MESSAGE_ID, b"1\0");
        assert!(Receipt::of(&by_tlv).is_some());
        for text in ["STOP", "id:1", "my id: is stat:us", "stat:DELIVRD", ""] {
            assert_eq!(Receipt::of(&unmarked(text)), None, "{text}");
        }
        let mut empty = unmarked("STOP");
        for value in [&b""[..], b"\0"] {
            empty.tlvs = Tlvs::default().with(tag::RECEIPTED_MESSAGE_ID, value);
            assert_eq!(Receipt::of(&empty), None, "{value:?}");
        }
        let intermediate = Message { esm_class: EsmClass(0x20), ..marked("id:1") };
        assert_eq!(Receipt::of(&intermediate).unwrap().state, MessageState::Enroute);
        let with_header = Message { esm_class: EsmClass(0x44), ..marked("id:1 stat:DELIVRD") };
        assert_eq!(Receipt::of(&with_header).unwrap().state, MessageState::Delivered);
    }

    #[test]
    fn a_receipt_in_ucs2_is_read() {
        let wide: Vec<u8> = "id:12 stat:DELIVRD".bytes().flat_map(|octet| [0, octet]).collect();
        let mut message = marked("");
        (message.short_message, message.data_coding) = (wide.into(), 0x08);
        let receipt = Receipt::of(&message).unwrap();
        assert_eq!(
            (receipt.message_id, receipt.state),
            (Some("12".into()), MessageState::Delivered)
        );
    }
}
