//! Octets and back: our own PDUs, those of another codec, those of the field, and noise.

use bytes::{Buf, Bytes, BytesMut};
use proptest::prelude::*;
use rusmpp_core::command::owned::Command;
use rusmpp_core::decode::owned::DecodeWithLength;
use rusmpp_core::encode::{Encode, Length};
use rusmpp_core::pdus::owned::Pdu as TheirPdu;
use smpp::{
    Address, Bind, BindKind, BindResp, Body, EncodeError, EsmClass, Frame, Framer, Message,
    MessageResp, Operation, Pdu, Receipt, Status, Tlvs, message_id, tlv::tag, validity,
};

use crate::odd;

fn encoded(pdu: &Pdu) -> Bytes {
    let mut octets = BytesMut::new();
    pdu.encode_into(&mut octets).unwrap();
    octets.freeze()
}

fn submit(message: Message) -> Pdu {
    Pdu::request(2, Body::Message(Operation::Submit, message))
}

#[test]
fn the_example_of_the_specification_is_written_and_read() {
    // SMPP 3.4 §3.2.3.
    let octets = b"\x00\x00\x00\x2F\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\
        SMPP3TEST\0secret08\0SUBMIT1\0\x00\x01\x01\0";
    let bind = Bind {
        system_type: "SUBMIT1".into(),
        interface_version: 0,
        addr_ton: 1,
        addr_npi: 1,
        ..Bind::new("SMPP3TEST", "secret08")
    };
    let pdu = Pdu::request(1, Body::Bind(BindKind::Transmitter, bind));
    assert_eq!(&encoded(&pdu)[..], octets);
    assert_eq!(Pdu::decode(Bytes::from_static(octets)), Ok(pdu));
}

#[test]
fn every_field_of_a_submit_sm_has_its_place() {
    let message = Message {
        service_type: "CMT".into(),
        source: Address::alphanumeric("ACME"),
        destination: Address::international("33612345678"),
        esm_class: EsmClass(EsmClass::UDHI),
        protocol_id: 1,
        priority_flag: 2,
        schedule_delivery_time: validity::relative(60),
        validity_period: validity::relative(300),
        registered_delivery: 3,
        replace_if_present_flag: 4,
        data_coding: 5,
        sm_default_msg_id: 6,
        short_message: Bytes::from_static(b"hello"),
        tlvs: Tlvs::default().with(tag::USER_MESSAGE_REFERENCE, &[7, 8]),
    };
    let body = b"CMT\0\x05\0ACME\0\x01\x0133612345678\0\x40\x01\x02000000000100000R\0\
        000000000500000R\0\x03\x04\x05\x06\x05hello\x02\x04\x00\x02\x07\x08";
    let pdu = submit(message);
    assert_eq!(encoded(&pdu), odd::pdu(0x04, 0, 2, body));
    assert_eq!(Pdu::decode(encoded(&pdu)), Ok(pdu));
}

#[test]
fn fields_that_are_too_long_or_contain_a_nul_are_not_written() {
    let refused = |message| {
        let mut octets = BytesMut::from(&b"before"[..]);
        let error = submit(message).encode_into(&mut octets).unwrap_err();
        assert_eq!(octets, b"before"[..]);
        error
    };
    let long =
        Message { destination: Address::international(&"3".repeat(21)), ..Message::default() };
    assert_eq!(refused(long), EncodeError::TooLong { field: "destination_addr", most: 20 });
    let nul = Message { service_type: "A\0B".into(), ..Message::default() };
    assert_eq!(refused(nul), EncodeError::Nul { field: "service_type" });
    for length in [255, 256, 1_000] {
        let text = Message { short_message: vec![b'x'; length].into(), ..Message::default() };
        assert_eq!(refused(text), EncodeError::TooLong { field: "short_message", most: 254 });
    }
}

#[test]
fn what_centres_of_the_field_send_is_read() {
    for (what, octets) in odd::messages() {
        let pdu = Pdu::decode(octets).unwrap();
        let Body::Message(_, message) = pdu.body else { panic!("{what}") };
        let is_receipt = message.esm_class.0 != 0;
        assert_eq!(Receipt::of(&message).is_some(), is_receipt, "{what}");
        if is_receipt {
            assert!(Receipt::of(&message).unwrap().message_id.is_some(), "{what}");
        } else {
            assert!([4, 255, 600].contains(&message.body().len()), "{what}");
        }
    }
    for (what, octets, is_taken) in odd::answers().into_iter().chain(odd::bind_answers()) {
        let pdu = Pdu::decode(octets).unwrap();
        assert_eq!(pdu.status.is_ok(), is_taken, "{what}");
    }
    assert!(odd::others().into_iter().all(|(_, octets)| Pdu::decode(octets).is_ok()));
}

#[test]
fn ids_are_read_with_and_without_nul_and_of_any_length() {
    let id = |at: usize| match Pdu::decode(odd::answers()[at].1.clone()).unwrap().body {
        Body::MessageResp(_, resp) => resp.message_id.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!((id(0), id(3), id(4)), ("1000000001".into(), String::new(), "1000000001".into()));
    assert_eq!(id(5).len(), 70);
}

#[test]
fn neither_texts_nor_numbers_nor_passwords_are_shown_by_debug() {
    let bind = Body::Bind(BindKind::Transceiver, Bind::new("login", "hunter2"));
    let message = Message {
        destination: Address::international("33612345678"),
        short_message: Bytes::from_static(b"code 4711"),
        tlvs: Tlvs::default().with(tag::MESSAGE_PAYLOAD, b"code 4711"),
        ..Message::default()
    };
    let shown = format!("{bind:?} {:?}", submit(message));
    assert!(shown.contains("login"));
    for secret in ["hunter2", "33612345678", "4711"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// Reads a PDU with the other codec: what it makes of it, and its own octets for that.
fn theirs(octets: &[u8]) -> (Command, Vec<u8>) {
    let mut rest = BytesMut::from(&octets[4..]);
    let (command, _) = Command::decode(&mut rest, octets.len() - 4)
        .unwrap_or_else(|error| panic!("{octets:02x?}: {error:?}"));
    assert!(!rest.has_remaining());
    let mut again = vec![0; command.length()];
    assert_eq!(command.encode(&mut again), again.len());
    let mut framed = u32::try_from(again.len() + 4).unwrap().to_be_bytes().to_vec();
    framed.extend(again);
    (command, framed)
}

fn digits(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::char::range('0', '9'), length).prop_map(String::from_iter)
}

fn word(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::char::range('!', '~'), length).prop_map(String::from_iter)
}

fn address() -> impl Strategy<Value = Address> {
    (0..7_u8, 0..2_u8, digits(0..21)).prop_map(|(ton, npi, value)| Address {
        ton,
        npi,
        value: value.into(),
    })
}

fn time() -> impl Strategy<Value = smpp::COctets> {
    prop_oneof![Just(smpp::COctets::default()), (0..4_000_000_u32).prop_map(validity::relative)]
}

prop_compose! {
    fn message()(
        (service_type, source, destination) in (word(0..6), address(), address()),
        esm_class in prop::sample::select(vec![0, 0x03, 0x04, 0x20, 0x40, 0x44]),
        (protocol_id, priority_flag, registered_delivery) in (any::<u8>(), 0..4_u8, 0..4_u8),
        (schedule_delivery_time, validity_period) in (time(), time()),
        (replace_if_present_flag, sm_default_msg_id) in (0..2_u8, any::<u8>()),
        data_coding in prop::sample::select(vec![0, 1, 3, 4, 8]),
        text in prop::collection::vec(any::<u8>(), 0..255),
        payload in prop::option::of(prop::collection::vec(any::<u8>(), 0..2_000)),
        reference in prop::option::of(any::<u16>()),
    ) -> Message {
        let mut tlvs = Tlvs::default();
        if let Some(reference) = reference {
            tlvs = tlvs.with(tag::USER_MESSAGE_REFERENCE, &reference.to_be_bytes());
        }
        if let Some(payload) = payload {
            tlvs = tlvs.with(tag::MESSAGE_PAYLOAD, &payload);
        }
        Message {
            service_type: service_type.into(),
            source,
            destination,
            esm_class: EsmClass(esm_class),
            protocol_id,
            priority_flag,
            schedule_delivery_time,
            validity_period,
            registered_delivery,
            replace_if_present_flag,
            data_coding,
            sm_default_msg_id,
            short_message: text.into(),
            tlvs,
        }
    }
}

/// As `data_sm` carries it: it has fewer fields.
fn as_data(message: Message) -> Message {
    Message {
        service_type: message.service_type,
        source: message.source,
        destination: message.destination,
        esm_class: message.esm_class,
        registered_delivery: message.registered_delivery,
        data_coding: message.data_coding,
        tlvs: message.tlvs,
        ..Message::default()
    }
}

fn kind() -> impl Strategy<Value = BindKind> {
    prop::sample::select(vec![BindKind::Transmitter, BindKind::Receiver, BindKind::Transceiver])
}

fn body() -> impl Strategy<Value = Body> {
    let operation = prop::sample::select(vec![Operation::Submit, Operation::Deliver]);
    let bind = (word(1..16), word(1..9), word(0..13)).prop_map(|(system_id, password, kind)| {
        Bind { system_type: kind.into(), ..Bind::new(&system_id, &password) }
    });
    let bind_resp = (word(1..16), any::<bool>()).prop_map(|(system_id, tells)| {
        let version = Tlvs::default().with(tag::SC_INTERFACE_VERSION, &[0x34]);
        let tlvs = if tells { version } else { Tlvs::default() };
        BindResp { system_id: system_id.into(), tlvs }
    });
    let resp = |id: String| MessageResp { message_id: id.into(), tlvs: Tlvs::default() };
    prop_oneof![
        4 => (operation.clone(), message()).prop_map(|(way, message)| Body::Message(way, message)),
        2 => message().prop_map(|message| Body::Message(Operation::Data, as_data(message))),
        2 => (operation, word(0..65)).prop_map(move |(way, id)| Body::MessageResp(way, resp(id))),
        1 => word(1..65).prop_map(move |id| Body::MessageResp(Operation::Data, resp(id))),
        1 => (kind(), bind).prop_map(|(kind, bind)| Body::Bind(kind, bind)),
        1 => (kind(), bind_resp).prop_map(|(kind, resp)| Body::BindResp(kind, resp)),
        1 => prop::sample::select(vec![
            Body::Unbind, Body::UnbindResp, Body::EnquireLink, Body::EnquireLinkResp,
            Body::GenericNack,
        ]),
    ]
}

/// Octets that are a PDU nearly, or not at all.
fn spoiled() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (body(), damage, any::<prop::sample::Index>()).prop_map(|(body, damage, end)| {
        let mut octets = encoded(&Pdu::request(1, body)).to_vec();
        for (at, octet) in damage {
            // The command stays what it is most of the time.
            let at = 4 + at.index(octets.len() - 4);
            octets[at] = octet;
        }
        octets.truncate(end.index(octets.len() + 1).max(16));
        octets
    })
}

proptest! {
    #[test]
    fn a_pdu_comes_back_as_it_was(body in body(), sequence in 1..0x8000_0000_u32) {
        let pdu = Pdu { status: Status::ROK, sequence, body };
        let octets = encoded(&pdu);
        let mut stream = BytesMut::from(&octets[..]);
        let framed = Framer::default().next(&mut stream);
        prop_assert_eq!(framed, Ok(Some(Frame::Whole(octets.clone()))));
        prop_assert_eq!(Pdu::decode(octets), Ok(pdu));
    }

    #[test]
    fn another_codec_reads_the_same_and_writes_the_same(
        (body, sequence) in (body(), 1..0x8000_0000_u32),
    ) {
        let octets = encoded(&Pdu { status: Status::ROK, sequence, body: body.clone() });
        let (command, again) = theirs(&octets);
        prop_assert_eq!(command.sequence_number(), sequence);
        prop_assert_eq!(&again, &octets);
        if let (Body::Message(_, ours), Some(TheirPdu::SubmitSm(theirs))) = (body, command.pdu()) {
            let destination = theirs.destination_addr.to_string();
            prop_assert_eq!(ours.destination.value.to_string(), destination);
            prop_assert_eq!(ours.destination.ton, u8::from(theirs.dest_addr_ton));
            prop_assert_eq!(ours.source.npi, u8::from(theirs.source_addr_npi));
            prop_assert_eq!(ours.validity_period.to_string(), theirs.validity_period.to_string());
            prop_assert_eq!(ours.data_coding, u8::from(theirs.data_coding));
            prop_assert_eq!(ours.protocol_id, theirs.protocol_id);
        }
    }

    #[test]
    fn spoiled_pdus_are_read_or_refused_but_never_panic(octets in spoiled()) {
        if let Ok(pdu) = Pdu::decode(octets.into()) {
            let mut again = BytesMut::new();
            if pdu.encode_into(&mut again).is_ok() && pdu.status.is_ok() {
                prop_assert_eq!(Pdu::decode(again.freeze()), Ok(pdu.clone()));
            }
            if let Body::Message(_, message) = pdu.body {
                let _part = (message.sar(), format!("{message:?}"));
                if let Some(id) = Receipt::of(&message).and_then(|receipt| receipt.message_id) {
                    let found = message_id::candidates(&id, message_id::IdForm::Auto);
                    prop_assert!(found.guessed.len() <= 2);
                }
            }
        }
    }

    #[test]
    fn noise_is_framed_or_refused_but_never_panics(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20),
    ) {
        let (mut framer, mut stream) = (Framer::default(), BytesMut::new());
        for chunk in chunks {
            stream.extend_from_slice(&chunk);
            while let Ok(Some(frame)) = framer.next(&mut stream) {
                if let Frame::Whole(octets) = frame {
                    let _read = Pdu::decode(octets);
                }
            }
        }
    }

    #[test]
    fn receipts_of_any_text_are_read(text in "(id|stat|err|text|submit date|[ :a-z0-9]){0,30}.*") {
        let message = Message {
            esm_class: EsmClass(0x04),
            short_message: text.into_bytes().into_iter().take(254).collect(),
            ..Message::default()
        };
        prop_assert!(Receipt::of(&message).is_some());
    }
}

#[test]
fn an_empty_payload_beside_a_text_is_none() {
    let tlvs = Tlvs::default().with(tag::MESSAGE_PAYLOAD, b"");
    let both = Message { short_message: "STOP".into(), tlvs, ..Message::default() };
    assert_eq!(both.body(), "STOP");
    let tlvs = Tlvs::default().with(tag::MESSAGE_PAYLOAD, b"long");
    assert_eq!(Message { tlvs, ..both }.body(), "long", "a filled one wins");
}
