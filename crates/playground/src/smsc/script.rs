//! What the centre answers and which receipts it sends, from the destination alone.

use clock::Millis;
use serde::Deserialize;
use smpp::{Address, EsmClass, Message, MessageState, Status, Tlvs, tlv::tag};
use sms_text::{Concatenation, Encoding, Reference, Segments};

use super::ReceiptForm;

/// What a handset writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mobile {
    /// Its number.
    pub from: String,
    /// Whom it writes to: a number or a short code.
    pub to: String,
    /// What it writes.
    pub text: String,
}

/// How a long text of a handset is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Long {
    /// By a header with a reference of 8 bits.
    #[default]
    Udh8,
    /// The same of 16 bits.
    Udh16,
    /// By fields of SMPP.
    Sar,
    /// Not at all: it is in a field.
    Payload,
}

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

/// What a receipt tells.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) id: &'a str,
    pub(super) state: MessageState,
    /// Another error code than the state usually has.
    pub(super) error: Option<&'a str>,
    pub(super) at: Millis,
    pub(super) form: ReceiptForm,
}

/// The state that goes by this word.
pub(super) fn state_of(word: &str) -> Option<MessageState> {
    (0..=9).filter_map(MessageState::of_code).find(|state| words(*state).0 == word)
}

/// A receipt as SMPP 3.4 appendix B has it, or its TLVs, or both.
pub(super) fn receipt(of: &Message, told: Told<'_>) -> Message {
    let Told { id, state, error, at, form } = told;
    let (word, code, usual) = words(state);
    let error = error.unwrap_or(usual);
    let date = smpp::validity::absolute(at).to_string();
    let date = date.get(..10).unwrap_or_default();
    let arrived = u8::from(state == MessageState::Delivered);
    let text = format!(
        "id:{id} sub:001 dlvrd:00{arrived} submit date:{date} done date:{date} stat:{word} \
         err:{error} text:"
    );
    let id = format!("{id}\0");
    let mut tlvs = Tlvs::default();
    if form != ReceiptForm::Text {
        tlvs =
            tlvs.with(tag::RECEIPTED_MESSAGE_ID, id.as_bytes()).with(tag::MESSAGE_STATE, &[code]);
    }
    let text = if form == ReceiptForm::Tlv { String::new() } else { text };
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
pub(super) fn mobile(mobile: &Mobile, long: Long, reference: u16) -> Vec<Message> {
    let kind = if long == Long::Udh16 { Reference::Word } else { Reference::Octet };
    let Ok(segments) = Segments::of(&mobile.text, kind) else { return vec![] };
    let total = u8::try_from(segments.count()).unwrap_or(u8::MAX);
    let base = Message {
        source: Address::international(mobile.from.trim_start_matches('+')),
        destination: Address { ton: 3, npi: 0, value: mobile.to.as_str().into() },
        data_coding: if segments.encoding() == Encoding::Gsm7 { 0x00 } else { 0x08 },
        ..Message::default()
    };
    if long == Long::Payload {
        let mut octets = vec![];
        segments.parts().for_each(|part| part.encode_into(&mut octets));
        let tlvs = Tlvs::default().with(tag::MESSAGE_PAYLOAD, &octets);
        return vec![Message { tlvs, ..base }];
    }
    let part = |(number, part): (u8, sms_text::Part<'_>)| {
        let (mut octets, mut tlvs, mut esm_class) = (vec![], Tlvs::default(), EsmClass(0));
        if total > 1 && long == Long::Sar {
            tlvs = tlvs
                .with(tag::SAR_MSG_REF_NUM, &reference.to_be_bytes())
                .with(tag::SAR_TOTAL_SEGMENTS, &[total])
                .with(tag::SAR_SEGMENT_SEQNUM, &[number]);
        } else if total > 1 {
            esm_class = EsmClass(EsmClass::UDHI);
            Concatenation { kind, reference, total, number }.encode_into(&mut octets);
        }
        part.encode_into(&mut octets);
        Message { esm_class, tlvs, short_message: octets.into(), ..base.clone() }
    };
    (1..).zip(segments.parts()).map(part).collect()
}
