//! A message as the centre gets it: its parts, with addresses, header and validity.

use ::smpp::{Address, EsmClass, Message, Tlvs, tlv::tag, validity};
use sms_text::{Concatenation, Encoding, Reference, Segments};

use crate::carriers::{Outbound, Refusal};
use crate::config::{LongText, Smpp, ValidityForm};

/// Final receipts, of success and of failure (SMPP 3.4 §5.2.17).
const RECEIPT: u8 = 0x01;
/// `data_coding` (SMPP 3.4 §5.2.19): the centre's default alphabet, and UCS-2.
const DEFAULT_ALPHABET: u8 = 0x00;
const UCS2: u8 = 0x08;
/// Digits up to which a sender is a short code.
const SHORT_CODE_DIGITS: usize = 6;

/// One submission.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) message: Message,
    /// What it counts against the rate.
    pub(super) segments: u32,
}

/// The parts of a message; `reference` is what several of them share.
pub(super) fn of(
    settings: &Smpp,
    outbound: &Outbound,
    reference: impl FnOnce() -> u16,
) -> Result<Vec<Part>, (Refusal, &'static str)> {
    let to = outbound.to.phone().ok_or((Refusal::BadRecipient, "no_phone"))?;
    let sender =
        if outbound.sender.is_empty() { &settings.sender } else { &outbound.sender }.as_str();
    let base = Message {
        service_type: settings.service_type.as_str().into(),
        source: source(settings, sender),
        destination: destination(settings, to.e164()),
        registered_delivery: RECEIPT,
        validity_period: match settings.validity {
            ValidityForm::Absolute => validity::absolute(outbound.valid_until),
            // What is left when it is written, the link says.
            ValidityForm::Relative | ValidityForm::Omit => smpp::COctets::default(),
        },
        ..Message::default()
    };
    let text = outbound.content.text().ok_or((Refusal::Permanent, "no_text"))?.expose();
    let (kind, segments) = segments(settings.long, text)?;
    let reference = if segments.count() > 1 { reference() } else { 0 };
    Ok(cut(settings.long, &base, &segments, kind, reference))
}

/// A text in parts. A reference of 16 bits takes a letter of each: where that would make one part
/// more than was counted and charged, the reference is shorter.
fn segments(
    long: LongText,
    text: &str,
) -> Result<(Reference, Segments<'_>), (Refusal, &'static str)> {
    let of = |kind| Segments::of(text, kind).map(|segments| (kind, segments));
    let counted = of(Reference::Octet).map_err(|_| (Refusal::Permanent, "too_long"))?;
    if long != LongText::Udh16 || counted.1.count() == 1 {
        return Ok(counted);
    }
    let wide = of(Reference::Word).ok().filter(|(_, wide)| wide.count() == counted.1.count());
    Ok(wide.unwrap_or(counted))
}

fn cut(
    long: LongText,
    base: &Message,
    segments: &Segments<'_>,
    kind: Reference,
    reference: u16,
) -> Vec<Part> {
    let total = u8::try_from(segments.count()).unwrap_or(u8::MAX);
    let data_coding = match segments.encoding() {
        Encoding::Gsm7 => DEFAULT_ALPHABET,
        Encoding::Ucs2 => UCS2,
    };
    let base = Message { data_coding, ..base.clone() };
    if long == LongText::Payload && total > 1 {
        let mut octets = Vec::new();
        segments.parts().for_each(|part| part.encode_into(&mut octets));
        // SMPP 3.4 §5.3.2.32: then sm_length is 0.
        let tlvs = Tlvs::default().with(tag::MESSAGE_PAYLOAD, &octets);
        return vec![Part { message: Message { tlvs, ..base }, segments: total.into() }];
    }
    let part = |(number, part): (u8, sms_text::Part<'_>)| {
        let mut octets = Vec::new();
        let (mut esm_class, mut tlvs) = (EsmClass(0), Tlvs::default());
        if total > 1 && long == LongText::Sar {
            // SMPP 3.4 §5.3.2.22 to §5.3.2.24.
            tlvs = tlvs
                .with(tag::SAR_MSG_REF_NUM, &reference.to_be_bytes())
                .with(tag::SAR_TOTAL_SEGMENTS, &[total])
                .with(tag::SAR_SEGMENT_SEQNUM, &[number]);
        } else if total > 1 {
            esm_class = EsmClass(EsmClass::UDHI);
            Concatenation { kind, reference, total, number }.encode_into(&mut octets);
        }
        part.encode_into(&mut octets);
        let message = Message { esm_class, tlvs, short_message: octets.into(), ..base.clone() };
        Part { message, segments: 1 }
    };
    (1..).zip(segments.parts()).map(part).collect()
}

/// A name, a short code or a number, as carriers usually want them.
fn source(settings: &Smpp, sender: &str) -> Address {
    let digits = sender.trim_start_matches('+');
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let (ton, npi, value) = match () {
        // Nobody: the centre puts in its own (SMPP 3.4 §4.4.1).
        () if sender.is_empty() => (0, 0, ""),
        () if !is_number => (5, 0, sender),
        () if !sender.starts_with('+') && digits.len() <= SHORT_CODE_DIGITS => (3, 0, digits),
        () => (1, 1, digits),
    };
    Address {
        ton: settings.source_ton.unwrap_or(ton),
        npi: settings.source_npi.unwrap_or(npi),
        value: value.into(),
    }
}

fn destination(settings: &Smpp, e164: &str) -> Address {
    Address {
        ton: settings.dest_ton.unwrap_or(1),
        npi: settings.dest_npi.unwrap_or(1),
        value: e164.trim_start_matches('+').into(),
    }
}

#[cfg(test)]
mod tests {
    use clock::Millis;
    use smpp::{EsmClass, tlv::tag};

    use super::of;
    use crate::carriers::{Address, Content, Outbound, Priority};
    use crate::config::{LongText, Smpp, ValidityForm};
    use crate::kit::msisdn::Msisdn;
    use crate::kit::secret::Secret;

    fn outbound(sender: &str, text: &str) -> Outbound {
        Outbound {
            account_id: "acc".into(),
            attempt_id: "att".into(),
            to: Address::Phone(Msisdn::parse("+33612345678").unwrap()),
            sender: sender.into(),
            content: Content::Text { text: Secret::new(text.into()), parts: 1 },
            valid_until: Millis(300_000),
            priority: Priority::Transactional,
        }
    }

    #[test]
    fn addresses_and_validity_are_as_carriers_want_them() {
        let usual = Smpp::default();
        for (sender, ton, npi, value) in [
            ("ACME 24", 5, 0, "ACME 24"),
            ("38000", 3, 0, "38000"),
            ("+33612340000", 1, 1, "33612340000"),
            ("33612340000", 1, 1, "33612340000"),
            ("", 0, 0, ""),
        ] {
            let parts = of(&usual, &outbound(sender, "hi"), || 0).unwrap();
            let [part] = parts.as_slice() else { panic!("one part") };
            let source = &part.message.source;
            assert_eq!(
                (source.ton, source.npi, source.value.to_string().as_str()),
                (ton, npi, value)
            );
            assert_eq!(part.message.destination.value.to_string(), "33612345678");
            assert!(part.message.validity_period.is_empty(), "the link knows what is left");
            assert_eq!(part.message.registered_delivery, 1);
        }
        let odd = Smpp {
            sender: "Carrier".into(),
            source_ton: Some(0),
            dest_npi: Some(9),
            validity: ValidityForm::Absolute,
            ..Smpp::default()
        };
        let parts = of(&odd, &outbound("", "hi"), || 0).unwrap();
        let message = &parts[0].message;
        assert_eq!((message.source.ton, message.destination.npi), (0, 9));
        assert_eq!(message.source.value.to_string(), "Carrier");
        assert_eq!(message.validity_period.to_string(), "700101000500000+");
        let silent = Smpp { validity: ValidityForm::Omit, ..Smpp::default() };
        let parts = of(&silent, &outbound("", "hi"), || 0).unwrap();
        assert!(parts[0].message.validity_period.is_empty());
    }

    #[test]
    fn a_long_text_is_cut_as_the_settings_say() {
        let text = "é".repeat(200);
        let part = |long, at: usize| {
            let settings = Smpp { long, ..Smpp::default() };
            let mut parts = of(&settings, &outbound("A", &text), || 0x1234).unwrap();
            (parts.len(), parts.swap_remove(at))
        };
        let (count, udh8) = part(LongText::Udh8, 1);
        assert_eq!((count, udh8.message.esm_class), (2, EsmClass(EsmClass::UDHI)));
        assert_eq!(udh8.message.short_message[..6], [5, 0, 3, 0x34, 2, 2]);
        let (_, udh16) = part(LongText::Udh16, 0);
        assert_eq!(udh16.message.short_message[..7], [6, 8, 4, 0x12, 0x34, 2, 1]);
        let (count, sar) = part(LongText::Sar, 1);
        let numbered = sar.message.sar().unwrap();
        assert_eq!((count, numbered.reference, numbered.total, numbered.number), (2, 0x1234, 2, 2));
        assert_eq!((sar.message.short_message.len(), sar.message.esm_class), (47, EsmClass(0)));
        let (count, whole) = part(LongText::Payload, 0);
        assert_eq!((count, whole.segments, whole.message.short_message.len()), (1, 2, 0));
        assert_eq!(whole.message.tlvs.get(tag::MESSAGE_PAYLOAD).unwrap().len(), 200);
    }

    #[test]
    fn what_just_fits_into_ten_parts_goes_out_by_every_way() {
        let text = "a".repeat(1_530);
        for long in [LongText::Udh8, LongText::Udh16, LongText::Sar, LongText::Payload] {
            let settings = Smpp { long, ..Smpp::default() };
            let parts = of(&settings, &outbound("A", &text), || 7).unwrap();
            let segments: u32 = parts.iter().map(|part| part.segments).sum();
            assert_eq!(segments, 10, "{long:?}");
        }
    }
}
