//! PDUs that centres of the field really send. Each is to be read, and none may end a session.

use bytes::{BufMut, Bytes, BytesMut};

/// A PDU with this header and body, whatever they are.
pub(crate) fn pdu(command_id: u32, status: u32, sequence: u32, body: &[u8]) -> Bytes {
    let mut octets = BytesMut::new();
    octets.put_u32(u32::try_from(16 + body.len()).unwrap());
    octets.put_u32(command_id);
    octets.put_u32(status);
    octets.put_u32(sequence);
    octets.put_slice(body);
    octets.freeze()
}

/// The fields of a `deliver_sm`, to be spoiled one at a time.
#[derive(Clone)]
struct Deliver {
    service_type: Vec<u8>,
    source: (u8, u8, Vec<u8>),
    esm_class: u8,
    priority: u8,
    schedule: &'static [u8],
    validity: &'static [u8],
    registered: u8,
    data_coding: u8,
    text: Vec<u8>,
    tail: Vec<u8>,
}

const RECEIPT: &[u8] = b"id:1000000001 sub:001 dlvrd:001 submit date:2611221005 \
    done date:2611221006 stat:DELIVRD err:000 text:hi";

impl Deliver {
    fn receipt() -> Self {
        Self { esm_class: 0x04, text: RECEIPT.to_vec(), ..Self::mobile() }
    }

    fn mobile() -> Self {
        Self {
            service_type: vec![],
            source: (1, 1, b"33612345678".to_vec()),
            esm_class: 0,
            priority: 0,
            schedule: b"",
            validity: b"",
            registered: 0,
            data_coding: 0,
            text: b"STOP".to_vec(),
            tail: vec![],
        }
    }

    fn pdu(self) -> Bytes {
        let mut body = self.service_type;
        body.extend([0, self.source.0, self.source.1]);
        body.extend(self.source.2);
        body.extend(b"\0\x03\x0038000\0");
        body.extend([self.esm_class, 0, self.priority]);
        body.extend(self.schedule);
        body.push(0);
        body.extend(self.validity);
        body.extend([0, self.registered, 0, self.data_coding, 0]);
        body.push(u8::try_from(self.text.len()).unwrap());
        body.extend(self.text);
        body.extend(self.tail);
        pdu(0x05, 0, 7, &body)
    }
}

fn tlv(tag: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = tag.to_be_bytes().to_vec();
    octets.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
    octets.extend(value);
    octets
}

fn receipts() -> Vec<(&'static str, Bytes)> {
    let receipt = Deliver::receipt;
    let with = |tail: Vec<u8>| Deliver { tail, ..receipt() }.pdu();
    let state = tlv(0x427, &[2]);
    let whole = [tlv(0x1E, b"1000000001\0"), state.clone(), tlv(0x423, &[3, 0, 0])].concat();
    vec![
        ("receipt, text only", receipt().pdu()),
        ("receipt with TLVs", with(whole)),
        ("receipted_message_id without NUL", with([tlv(0x1E, b"1000000001"), state].concat())),
        ("message_state 77", with(tlv(0x427, &[77]))),
        ("network_error_code of 4 octets", with(tlv(0x423, &[3, 0, 0, 9]))),
        ("vendor TLV 0x1400", with(tlv(0x1400, b"abc"))),
        ("vendor TLV 0x2150 without value", with(tlv(0x2150, b""))),
        ("a TLV that runs over", with(vec![0, 0x1E, 0, 200, b'1'])),
        ("two spare octets", with(vec![0, 0])),
        ("data_coding 0xF1", Deliver { data_coding: 0xF1, ..receipt() }.pdu()),
        ("esm_class 0x20", Deliver { esm_class: 0x20, ..receipt() }.pdu()),
        ("esm_class 0x44", Deliver { esm_class: 0x44, ..receipt() }.pdu()),
    ]
}

fn mobiles() -> Vec<(&'static str, Bytes)> {
    let mobile = Deliver::mobile;
    let payload = Deliver { text: vec![], tail: tlv(0x424, &[b'x'; 600]), ..mobile() };
    let from = |ton, npi, value: &[u8]| Deliver { source: (ton, npi, value.to_vec()), ..mobile() };
    vec![
        ("message_payload of 600 octets", payload.pdu()),
        ("validity_period of 12", Deliver { validity: b"261122100500", ..mobile() }.pdu()),
        ("schedule_delivery_time 0", Deliver { schedule: b"0", ..mobile() }.pdu()),
        ("priority 9", Deliver { priority: 9, ..mobile() }.pdu()),
        ("registered_delivery 0xE1", Deliver { registered: 0xE1, ..mobile() }.pdu()),
        ("TON 9, NPI 99", from(9, 99, b"33612345678").pdu()),
        ("source_addr of 30", from(1, 1, &[b'3'; 30]).pdu()),
        ("service_type of 8", Deliver { service_type: b"ABCDEFGH".to_vec(), ..mobile() }.pdu()),
        ("Latin-1 in source_addr", from(5, 0, b"Caf\xE9").pdu()),
        ("sm_length 255", Deliver { text: vec![b'x'; 255], ..mobile() }.pdu()),
    ]
}

/// Those that bring a message or a receipt.
pub(crate) fn messages() -> Vec<(&'static str, Bytes)> {
    let data =
        b"\0\x01\x0133612345678\0\x03\x0038000\0\x04\0\0\0\x1E\0\x031\x002\x04\x27\0\x01\x02";
    let mut all = receipts();
    all.extend(mobiles());
    all.push(("receipt as data_sm", pdu(0x103, 0, 7, data)));
    all
}

/// Answers to a `submit_sm` with the number 2, and whether each means that it was taken.
pub(crate) fn answers() -> Vec<(&'static str, Bytes, bool)> {
    let resp = |status, body: &[u8]| pdu(0x8000_0004, status, 2, body);
    vec![
        ("normal", resp(0, b"1000000001\0"), true),
        ("refused without body", resp(0x0B, b""), false),
        ("refused with an empty id", resp(0x0B, b"\0"), false),
        ("accepted without body", resp(0, b""), true),
        ("id without NUL", resp(0, b"1000000001"), true),
        ("id of 70 characters", resp(0, &[[b'7'; 70].as_slice(), b"\0"].concat()), true),
        ("a carrier's own status", resp(0x405, b""), false),
        ("generic_nack", pdu(0x8000_0000, 0x03, 2, b""), false),
    ]
}

/// Answers to a bind with the number 1, and whether each means that it was accepted.
pub(crate) fn bind_answers() -> Vec<(&'static str, Bytes, bool)> {
    let resp = |status, body: &[u8]| pdu(0x8000_0009, status, 1, body);
    vec![
        ("with sc_interface_version", resp(0, b"smsc\0\x02\x10\0\x01\x34"), true),
        ("accepted without body", resp(0, b""), true),
        ("refused without body", resp(0x0E, b""), false),
        ("system_id of 20 characters", resp(0, b"SMSC-WITH-A-LONG-ID-\0"), true),
    ]
}

/// Everything else.
pub(crate) fn others() -> Vec<(&'static str, Bytes)> {
    vec![
        ("enquire_link", pdu(0x15, 0, 9, b"")),
        ("enquire_link with a spare octet", pdu(0x15, 0, 9, b"\0")),
        ("enquire_link_resp with a spare octet", pdu(0x8000_0015, 0, 9, b"\0")),
        ("generic_nack", pdu(0x8000_0000, 0x03, 9, b"")),
        ("alert_notification", pdu(0x102, 0, 9, b"\x01\x0133612345678\0\x01\x0138000\0")),
        ("unknown command", pdu(0x0001_0200, 0, 9, b"what")),
    ]
}
