//! What a file is, by its content alone. Each image is followed from its first byte to its last,
//! because a file that begins as an image may go on as something else: a polyglot passes every look
//! at first bytes. Of a PDF, the first line and the end are looked at.

/// A type that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Pdf,
    Jpeg,
    Png,
    Gif,
    Webp,
}

impl FileKind {
    const ALL: [Self; 5] = [Self::Pdf, Self::Jpeg, Self::Png, Self::Gif, Self::Webp];

    /// The media type.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Extensions that fit, the usual one first.
    pub(super) const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Pdf => &["pdf"],
            Self::Jpeg => &["jpg", "jpeg"],
            Self::Png => &["png"],
            Self::Gif => &["gif"],
            Self::Webp => &["webp"],
        }
    }

    /// Whether a declared media type says the same.
    pub(super) fn is_declared_as(self, declared: &str) -> bool {
        let essence = declared.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        essence == self.media_type() || (self == Self::Jpeg && essence == "image/jpg")
    }

    /// The kind of a whole file.
    ///
    /// # Errors
    /// Why it is none, in words that go behind "The file".
    pub(super) fn of(bytes: &[u8]) -> Result<Self, &'static str> {
        let begins = |kind: &Self| match kind {
            Self::Pdf => bytes.starts_with(b"%PDF-"),
            Self::Jpeg => bytes.starts_with(&[0xff, 0xd8, 0xff]),
            Self::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            Self::Gif => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
            Self::Webp => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        };
        let Some(kind) = Self::ALL.into_iter().find(begins) else {
            return Err("is not a PDF, JPG, PNG, GIF or WEBP");
        };
        let end = match kind {
            Self::Pdf => {
                return if pdf_ends(bytes) {
                    Ok(kind)
                } else {
                    Err("begins as a PDF, and its first line or its end is not that of one")
                };
            }
            Self::Jpeg => jpeg(bytes),
            Self::Png => png(bytes),
            Self::Gif => gif(bytes),
            Self::Webp => webp(bytes),
        };
        match end {
            None => Err("is truncated or damaged"),
            Some(end) if end < bytes.len() => Err("contains data after the end of the image"),
            Some(_) => Ok(kind),
        }
    }
}

/// A first line of its own (ISO 32000-1 §7.5.2), and `%%EOF` with nothing but white space behind it
/// (§7.5.5). What is between is not followed: readers find it from the end, in any order.
fn pdf_ends(bytes: &[u8]) -> bool {
    let Some([major, b'.', minor, b'\r' | b'\n']) = bytes.get(5..9) else { return false };
    if !(major.is_ascii_digit() && minor.is_ascii_digit()) {
        return false;
    }
    let tail = bytes.trim_ascii_end();
    tail.len() > 16 && tail.ends_with(b"%%EOF")
}

fn be32(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

/// Chunks from IHDR to IEND (PNG, third edition, §5.3). Answers where it ends.
fn png(bytes: &[u8]) -> Option<usize> {
    let mut at = 8;
    let mut is_first = true;
    loop {
        let length = be32(bytes, at)?;
        let kind = bytes.get(at + 4..at + 8)?;
        if is_first != (kind == b"IHDR") {
            return None;
        }
        is_first = false;
        // Length, type, data, check sum.
        at = at.checked_add(length)?.checked_add(12)?;
        if at > bytes.len() {
            return None;
        }
        if kind == b"IEND" {
            return (length == 0).then_some(at);
        }
    }
}

/// A whole PNG with nothing but its picture. Its texts and colour profiles are compressed, and
/// a few hundred kilobytes of them may become gigabytes.
pub(super) fn picture_of_png(bytes: &[u8]) -> Vec<u8> {
    let mut bare = bytes.get(..8).unwrap_or_default().to_vec();
    let mut at = 8;
    while let (Some(length), Some(kind)) = (be32(bytes, at), bytes.get(at + 4..at + 8)) {
        let end = at.saturating_add(length).saturating_add(12);
        if matches!(kind, b"IHDR" | b"PLTE" | b"tRNS" | b"IDAT" | b"IEND") {
            bare.extend_from_slice(bytes.get(at..end).unwrap_or_default());
        }
        at = end;
    }
    bare
}

/// Segments to the scans, and over them to EOI (ITU-T T.81 §B.1.1).
fn jpeg(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            // Fill bytes.
            0xff => at += 1,
            0xd9 => return Some(at + 2),
            0x01 | 0xd0..=0xd8 => at += 2,
            0x00 => return None,
            _ => {
                let high = usize::from(*bytes.get(at + 2)?);
                let length = (high << 8) | usize::from(*bytes.get(at + 3)?);
                if length < 2 {
                    return None;
                }
                at += 2 + length;
                if marker == 0xda {
                    at = after_scan(bytes, at)?;
                }
            }
        }
    }
}

/// Where the next marker is that is neither data nor a restart.
fn after_scan(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        match *bytes.get(at + 1)? {
            0x00 | 0xd0..=0xd7 => at += 2,
            0xff => at += 1,
            _ => return Some(at),
        }
    }
}

/// Blocks to the trailer (`GIF89a` §17 and following).
fn gif(bytes: &[u8]) -> Option<usize> {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let blocks = |mut at: usize| -> Option<usize> {
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1 + length;
            if length == 0 {
                return Some(at);
            }
        }
    };
    let mut at = 13 + table(*bytes.get(10)?);
    let mut images = 0;
    loop {
        match *bytes.get(at)? {
            0x3b => return (images > 0).then_some(at + 1),
            0x21 => at = blocks(at + 2)?,
            0x2c => {
                images += 1;
                at = blocks(at + 11 + table(*bytes.get(at + 9)?))?;
            }
            _ => return None,
        }
    }
}

/// One RIFF chunk that is all there is (WebP container specification).
fn webp(bytes: &[u8]) -> Option<usize> {
    let four: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
    let length = usize::try_from(u32::from_le_bytes(four)).ok()?;
    let end = length.checked_add(8)?;
    let is_image = matches!(bytes.get(12..16)?, b"VP8 " | b"VP8L" | b"VP8X");
    (is_image && end <= bytes.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::{FileKind, picture_of_png};

    fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], &kind, data, b"crc!"].concat()
    }

    #[test]
    fn a_picture_has_no_profile_and_no_text() {
        let start = b"\x89PNG\r\n\x1a\n".to_vec();
        let kept = |kind| chunk(kind, b"data");
        let bare = [start.clone(), kept(*b"IHDR"), kept(*b"IDAT"), chunk(*b"IEND", b"")].concat();
        let full = [
            start,
            kept(*b"IHDR"),
            chunk(*b"iCCP", &[7; 5_000]),
            chunk(*b"zTXt", b"bomb"),
            kept(*b"IDAT"),
            chunk(*b"iTXt", b"bomb"),
            chunk(*b"IEND", b""),
        ];
        assert_eq!(picture_of_png(&full.concat()), bare);
        assert_eq!(picture_of_png(&bare), bare);
    }

    #[test]
    fn a_pdf_has_a_first_line_and_an_end() {
        let is_pdf = |bytes: &[u8]| FileKind::of(bytes) == Ok(FileKind::Pdf);
        assert!(is_pdf(b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n%%EOF\n"));
        assert!(is_pdf(b"%PDF-2.0\r\n1 0 obj\n%%EOF"));
        assert!(!is_pdf(b"%PDF-1.4 <html><script>alert(1)</script> %%EOF"));
        assert!(!is_pdf(b"%PDF-1.4\n1 0 obj"));
    }
}
