//! What the centre answers and which receipts it sends, from the destination alone.

use clock::Millis;
use smpp::{Address, EsmClass, Message, MessageState, Status, Tlvs, tlv::tag};
use sms_text::{Concatenation, Encoding, Reference, Segments};

use super::board::Mobile;

/// How a submission is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Taken, and said so.
    Accept,
    /// Not taken.
    Refuse(Status),
    /// Not taken the first two times.
    ThrottleTwice,
    /// Taken, and nothing said.
    Silence,
    /// Taken, and the connection cut.
    Cut,
}

/// What is to happen to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) reply: Reply,
    /// Whether the first receipt goes before the answer.
    pub(super) is_early: bool,
    /// The states that receipts tell, one after the other.
    pub(super) receipts: &'static [MessageState],
}

/// The plan for a destination.
pub(super) fn plan(destination: &str) -> Plan {
    use MessageState::{Deleted, Delivered, Enroute, Expired, Rejected, Undeliverable, Unknown};
    let start = destination.len().saturating_sub(4);
    let tail = destination.get(start..).unwrap_or_default();
    let reply = match tail {
        "9001" => Reply::ThrottleTwice,
        "9002" => Reply::Refuse(Status::RINVDSTADR),
        "9003" => Reply::Refuse(Status::RSYSERR),
        "9004" => Reply::Silence,
        "9005" => Reply::Cut,
        _ => Reply::Accept,
    };
    let receipts: &[MessageState] = match tail {
        "9002" | "9003" | "9006" => &[],
        "9011" => &[Undeliverable],
        "9012" => &[Expired],
        "9013" => &[Rejected],
        "9014" => &[Deleted],
        "9015" => &[Unknown],
        "9016" => &[Enroute, Delivered],
        "9018" => &[Delivered, Delivered],
        "9019" => &[Delivered, Undeliverable],
        _ => &[Delivered],
    };
    Plan { reply, is_early: tail == "9017", receipts }
}

/// The word, the code of the TLV and the error code of a state.
fn words(state: MessageState) -> (&'static str, u8, &'static str) {
    match state {
        MessageState::Scheduled => ("SCHEDUL", 0, "000"),
        MessageState::Enroute => ("ENROUTE", 1, "000"),
        MessageState::Delivered => ("DELIVRD", 2, "000"),
        MessageState::Expired => ("EXPIRED", 3, "027"),
        MessageState::Deleted => ("DELETED", 4, "012"),
        MessageState::Undeliverable => ("UNDELIV", 5, "034"),
        MessageState::Accepted => ("ACCEPTD", 6, "000"),
        MessageState::Unknown => ("UNKNOWN", 7, "000"),
        MessageState::Rejected => ("REJECTD", 8, "069"),
        MessageState::Skipped => ("SKIPPED", 9, "000"),
    }
}

/// A receipt as SMPP 3.4 appendix B has it, with the TLVs.
pub(super) fn receipt(of: &Message, id: &str, state: MessageState, at: Millis) -> Message {
    let (word, code, error) = words(state);
    let date = smpp::validity::absolute(at).to_string();
    let date = date.get(..10).unwrap_or_default();
    let arrived = u8::from(state == MessageState::Delivered);
    let text = format!(
        "id:{id} sub:001 dlvrd:00{arrived} submit date:{date} done date:{date} stat:{word} \
         err:{error} text:"
    );
    let id = format!("{id}\0");
    let tlvs = Tlvs::default()
        .with(tag::RECEIPTED_MESSAGE_ID, id.as_bytes())
        .with(tag::MESSAGE_STATE, &[code]);
    Message {
        source: of.destination.clone(),
        destination: of.source.clone(),
        esm_class: EsmClass(if state.is_final() { 0x04 } else { 0x20 }),
        short_message: text.into(),
        tlvs,
        ..Message::default()
    }
}

/// The parts of what a handset writes; none of a text that is too long.
pub(super) fn mobile(mobile: &Mobile, reference: u16) -> Vec<Message> {
    let Ok(segments) = Segments::of(&mobile.text, Reference::Octet) else { return vec![] };
    let total = u8::try_from(segments.count()).unwrap_or(u8::MAX);
    let part = |(number, part): (u8, sms_text::Part<'_>)| {
        let mut octets = vec![];
        if total > 1 {
            let kind = Reference::Octet;
            Concatenation { kind, reference, total, number }.encode_into(&mut octets);
        }
        part.encode_into(&mut octets);
        Message {
            source: Address::international(mobile.from.trim_start_matches('+')),
            destination: Address { ton: 3, npi: 0, value: mobile.to.as_str().into() },
            esm_class: EsmClass(if total > 1 { EsmClass::UDHI } else { 0 }),
            data_coding: if part.encoding == Encoding::Gsm7 { 0x00 } else { 0x08 },
            short_message: octets.into(),
            ..Message::default()
        }
    };
    (1..).zip(segments.parts()).map(part).collect()
}
