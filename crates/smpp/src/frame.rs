//! The borders of PDUs. They are given by `command_length` alone (SMPP 3.4 §3.2.1): whatever is
//! inside a PDU, the next one is found.

use bytes::{Buf, Bytes, BytesMut};

use crate::pdu::HEADER;

/// The longest PDU that is looked into: a `message_payload` of 65,535 octets and all other fields.
pub const MOST_OCTETS: usize = 72 * 1024;

/// The longest that is skipped. Beyond this it is no SMPP: `GET ` would be a PDU of a gigabyte.
const MOST_SKIPPED: usize = 16 * 1024 * 1024;

/// What is found in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole PDU.
    Whole(Bytes),
    /// A PDU longer than [`MOST_OCTETS`], whose number this is. Its body is skipped.
    Oversized {
        /// `sequence_number`.
        sequence: u32,
    },
}

/// The stream has no borders any more: the connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("command_length is {0}")]
pub struct FramingLost(pub u32);

/// Cuts a stream into PDUs.
#[derive(Debug, Default)]
pub struct Framer {
    /// Octets of an oversized PDU that are still to come.
    skip: usize,
}

impl Framer {
    /// Takes the next PDU off the stream; `None` when it is not all there.
    ///
    /// # Errors
    /// [`FramingLost`]: a length that no PDU has.
    pub fn next(&mut self, stream: &mut BytesMut) -> Result<Option<Frame>, FramingLost> {
        let skipped = self.skip.min(stream.len());
        stream.advance(skipped);
        self.skip -= skipped;
        if self.skip > 0 {
            return Ok(None);
        }
        let Some(mut header) = stream.get(..HEADER) else {
            return early_loss(stream);
        };
        let length = header.get_u32();
        header.advance(8);
        let sequence = header.get_u32();
        let octets = checked(length)?;
        if octets > MOST_OCTETS {
            self.skip = octets - HEADER;
            stream.advance(HEADER);
            return Ok(Some(Frame::Oversized { sequence }));
        }
        if stream.len() < octets {
            stream.reserve(octets - stream.len());
            return Ok(None);
        }
        Ok(Some(Frame::Whole(stream.split_to(octets).freeze())))
    }
}

/// A wrong length is seen as soon as it is there.
fn early_loss(stream: &BytesMut) -> Result<Option<Frame>, FramingLost> {
    if let Some(mut length) = stream.get(..4) {
        checked(length.get_u32())?;
    }
    Ok(None)
}

fn checked(length: u32) -> Result<usize, FramingLost> {
    let octets = usize::try_from(length).map_err(|_| FramingLost(length))?;
    if (HEADER..=MOST_SKIPPED).contains(&octets) { Ok(octets) } else { Err(FramingLost(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(length: u32, sequence: u32) -> Vec<u8> {
        [length, 0x15, 0, sequence].into_iter().flat_map(u32::to_be_bytes).collect()
    }

    #[test]
    fn a_pdu_is_found_however_the_stream_is_cut() {
        let mut octets = header(18, 1);
        octets.extend([9, 9]);
        octets.extend(header(16, 2));
        let (mut framer, mut stream) = (Framer::default(), BytesMut::new());
        let mut found = vec![];
        for octet in octets {
            stream.extend_from_slice(&[octet]);
            found.extend(framer.next(&mut stream).unwrap());
        }
        assert_eq!(found.len(), 2);
        assert!(stream.is_empty());
    }

    #[test]
    fn an_oversized_pdu_is_skipped_without_being_kept() {
        let mut framer = Framer::default();
        let mut stream = BytesMut::from(&header(1_048_576, 7)[..]);
        assert_eq!(framer.next(&mut stream), Ok(Some(Frame::Oversized { sequence: 7 })));
        let mut left = 1_048_576 - HEADER;
        while left > 0 {
            let chunk = left.min(4_000);
            stream.extend_from_slice(&vec![0xFF; chunk]);
            left -= chunk;
            assert_eq!(framer.next(&mut stream), Ok(None));
            assert!(stream.is_empty());
        }
        stream.extend_from_slice(&header(16, 8));
        assert!(matches!(framer.next(&mut stream), Ok(Some(Frame::Whole(_)))));
    }

    #[test]
    fn lengths_that_no_pdu_has_are_seen_at_once() {
        for (octets, length) in [(&b"GET "[..], 0x4745_5420), (&[0, 0, 0, 15], 15), (&[0; 4], 0)] {
            let lost = Framer::default().next(&mut BytesMut::from(octets));
            assert_eq!(lost, Err(FramingLost(length)));
        }
    }
}
