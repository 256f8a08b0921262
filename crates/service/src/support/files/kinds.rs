//! What a file is, by its content alone: its first bytes say the type. Each image is followed from
//! there to its end, because a file that begins as one may go on as something else: a polyglot
//! passes every look at first bytes. One that is cut off is taken as it is. What else a file may
//! hide no look can tell: a download never runs, and a preview is drawn anew.

/// How far from its beginning and from its end a file is looked at for markup, bytes.
const LOOK: usize = 1_024;
/// What no image and no PDF has there.
const MARKUP: [&str; 5] = ["<!doctype", "<html", "<iframe", "<script", "<svg"];
/// What a ZIP archive ends with; it is read from there.
const END_OF_ZIP: &[u8] = b"PK\x05\x06";

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

    /// The kind of a file.
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
            let is_empty = bytes.is_empty();
            return Err(if is_empty { "is empty" } else { "is not a PDF, JPG, PNG, GIF or WEBP" });
        };
        let end = match kind {
            Self::Pdf => pdf(bytes),
            Self::Jpeg => jpeg(bytes).map(|end| end + of_camera(bytes.get(end..).unwrap_or(&[]))),
            Self::Png => png(bytes),
            Self::Gif => gif(bytes),
            Self::Webp => webp(bytes),
        };
        let first = bytes.get(..LOOK).unwrap_or(bytes);
        let last = bytes.get(bytes.len().saturating_sub(LOOK)..).unwrap_or(bytes);
        if is_markup(first) || is_markup(last) {
            return Err("contains HTML");
        }
        let is_zip = last.windows(END_OF_ZIP.len()).any(|window| window == END_OF_ZIP);
        if is_zip || end.is_some_and(|end| end < bytes.len()) {
            return Err("contains data after its end");
        }
        Ok(kind)
    }
}

/// Where it ends: at its last `%%EOF`, and white space behind it (ISO 32000-1 §7.5.5, §7.2.2).
/// What is before is not followed: readers find it from the end, in any order.
fn pdf(bytes: &[u8]) -> Option<usize> {
    const EOF: &[u8] = b"%%EOF";
    let last = bytes.windows(EOF.len()).rposition(|window| window == EOF)? + EOF.len();
    let behind = bytes.get(last..)?;
    let is_space = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    Some(last + behind.iter().copied().take_while(is_space).count())
}

/// Whether it has what only a page of the web, or an SVG, has.
fn is_markup(bytes: &[u8]) -> bool {
    MARKUP.iter().any(|word| {
        bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
    })
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

/// A PNG with nothing but its picture (chunks: PNG, third edition, §5.3). Its texts and colour
/// profiles are compressed, and a few hundred kilobytes of them may become gigabytes.
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

/// How much of what follows on EOI is a camera's own: further pictures (CIPA DC-007), the film of
/// a motion photo (ISO/IEC 14496-12 §4.3), a trailer of Samsung's, and filling.
fn of_camera(rest: &[u8]) -> usize {
    let own = rest.iter().position(|byte| *byte != 0).and_then(|at| rest.get(at..));
    let is_own = own.is_none_or(|own| {
        let is_film = rest.get(4..8) == Some(b"ftyp");
        own.starts_with(&[0xff, 0xd8, 0xff]) || is_film || own.ends_with(b"SEFT")
    });
    if is_own { rest.len() } else { 0 }
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
    fn the_first_bytes_say_the_type() {
        let pdf = Ok(FileKind::Pdf);
        assert_eq!(FileKind::of(b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n%%EOF\n"), pdf);
        assert_eq!(FileKind::of(b"%PDF-1.4\n1 0 obj"), pdf, "cut off");
        let filled = [&b"%PDF-1.4 <x:xmpmeta>"[..], &[0; 5_000], b"<rdf:RDF>"].concat();
        assert_eq!(FileKind::of(&filled), pdf);
        assert_eq!(FileKind::of(b"%PDF-1.4\n%%EOF\r\n"), pdf);
        assert_eq!(FileKind::of(b"%PDF-1.4\n%%EOF\n\0\0"), pdf);
        assert!(FileKind::of(b"%PDF-1.4\n%%EOF\nMZ").is_err());
        let zip = [&b"\x89PNG\r\n\x1a\n\0\0PK\x05\x06"[..], &[0; 18]].concat();
        assert!(FileKind::of(&zip).is_err());
        assert_eq!(FileKind::of(b"\x89PNG\r\n\x1a\n\0\0"), Ok(FileKind::Png));
        assert_eq!(FileKind::of(b"RIFF\x04\0\0\0WEBP"), Ok(FileKind::Webp));
        assert!(FileKind::of(b"RIFF\x04\0\0\0WAVE").is_err());
        assert!(FileKind::of(b"junk\n%PDF-1.4").is_err());
        assert!(FileKind::of(b"").is_err());
    }

    #[test]
    fn a_photo_may_be_followed_by_what_cameras_add() {
        let photo = b"\xff\xd8\xff\xd9";
        let film = b"\0\0\0\x18ftypmp42";
        for more in [&b""[..], b"\0\0\0", b"\0\xff\xd8\xff\xe1", film, b"\0\0\x01\nSEFHSEFT"] {
            assert_eq!(FileKind::of(&[photo, more].concat()), Ok(FileKind::Jpeg), "{more:?}");
        }
        let page = [&photo[..], b"\xff\xd8\xff<script>"].concat();
        assert_eq!(FileKind::of(&page), Err("contains HTML"));
        for more in [&b"MZ"[..], b"\0MZ", b"#!/bin/sh"] {
            assert!(FileKind::of(&[photo, more].concat()).is_err(), "{more:?}");
        }
    }

    #[test]
    fn a_page_of_the_web_is_no_image() {
        let last = [&b"GIF89a"[..], &[0; 5_000], b"<sCript>alert(1)</script>"].concat();
        for page in [&b"GIF89a/*<script>*/=1"[..], b"%PDF-1.4 <!DOCTYPE html>", &last] {
            assert_eq!(FileKind::of(page), Err("contains HTML"));
        }
    }
}
