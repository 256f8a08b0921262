//! What a file is, by its content alone. Each format is followed from its first byte to its last,
//! because a file that begins as an image may go on as something else: a polyglot passes every look
//! at first bytes.

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
            return Err("begins as none of PDF, JPG, PNG, GIF and WEBP");
        };
        let end = match kind {
            Self::Pdf => {
                return if pdf_ends(bytes) { Ok(kind) } else { Err("has no end of a PDF") };
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

/// `%%EOF` and nothing but white space behind it (ISO 32000-1 §7.5.5).
fn pdf_ends(bytes: &[u8]) -> bool {
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
