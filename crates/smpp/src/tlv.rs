//! Optional parameters: tag, length, value (SMPP 3.4 §3.2.4.1, §5.3.2).

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Tags of SMPP 3.4 §5.3.2 that are of use here.
pub mod tag {
    /// `receipted_message_id`, §5.3.2.12.
    pub const RECEIPTED_MESSAGE_ID: u16 = 0x001E;
    /// `user_message_reference`, §5.3.2.17.
    pub const USER_MESSAGE_REFERENCE: u16 = 0x0204;
    /// `sar_msg_ref_num`, §5.3.2.22.
    pub const SAR_MSG_REF_NUM: u16 = 0x020C;
    /// `sar_total_segments`, §5.3.2.23.
    pub const SAR_TOTAL_SEGMENTS: u16 = 0x020E;
    /// `sar_segment_seqnum`, §5.3.2.24.
    pub const SAR_SEGMENT_SEQNUM: u16 = 0x020F;
    /// `sc_interface_version`, §5.3.2.25.
    pub const SC_INTERFACE_VERSION: u16 = 0x0210;
    /// `network_error_code`, §5.3.2.31.
    pub const NETWORK_ERROR_CODE: u16 = 0x0423;
    /// `message_payload`, §5.3.2.32.
    pub const MESSAGE_PAYLOAD: u16 = 0x0424;
    /// `message_state`, §5.3.2.35.
    pub const MESSAGE_STATE: u16 = 0x0427;
    /// `congestion_state`, SMPP 5.0 §4.8.4.18.
    pub const CONGESTION_STATE: u16 = 0x0428;
}

/// The optional parameters of a PDU as they came, read where one is asked for. What does not end
/// within the PDU is cut there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tlvs {
    raw: Bytes,
}

impl Tlvs {
    pub(crate) const fn of(raw: Bytes) -> Self {
        Self { raw }
    }

    /// The first value with this tag.
    #[must_use]
    pub fn get(&self, tag: u16) -> Option<Bytes> {
        self.iter().find(|(found, _)| *found == tag).map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Bytes)> {
        let mut rest = self.raw.clone();
        std::iter::from_fn(move || {
            let tag = rest.try_get_u16().ok()?;
            let length = rest.try_get_u16().ok()?;
            Some((tag, rest.split_to(usize::from(length).min(rest.len()))))
        })
    }

    /// The same with one more. A value longer than 65,535 octets is cut.
    #[must_use]
    pub fn with(self, tag: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        let mut raw = BytesMut::with_capacity(self.raw.len() + 4 + value.len());
        raw.put_slice(&self.raw);
        raw.put_u16(tag);
        raw.put_u16(length);
        raw.put_slice(value.get(..usize::from(length)).unwrap_or(value));
        Self { raw: raw.freeze() }
    }

    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }
}

impl fmt::Debug for Tlvs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be texts and numbers of people.
        f.debug_list()
            .entries(self.iter().map(|(tag, value)| format!("{tag:#06x}[{}]", value.len())))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Tlvs;

    #[test]
    fn the_first_value_counts_and_one_that_runs_over_is_cut() {
        let tlvs = Tlvs::default().with(0x1E, b"abc").with(0x427, &[2]).with(0x427, &[5]);
        assert_eq!(tlvs.get(0x1E).as_deref(), Some(&b"abc"[..]));
        assert_eq!(tlvs.get(0x427).as_deref(), Some(&[2_u8][..]));
        assert_eq!(tlvs.get(0x1), None);
        let over = Tlvs::of(Bytes::from_static(&[0, 0x1E, 0, 200, b'a', b'b']));
        assert_eq!(over.get(0x1E).as_deref(), Some(&b"ab"[..]));
        let stump = Tlvs::of(Bytes::from_static(&[0, 0x1E, 0]));
        assert_eq!(stump.iter().count(), 0);
    }
}
