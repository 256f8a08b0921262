//! What a file is, by its content alone: its first bytes say the type. A file that is cut off, or
//! goes on behind its end as photos of many cameras do, is taken. It may go on as something else,
//! and no look at its bytes can tell: that is why a download never runs, and a preview is drawn
//! anew. What is plainly a page of the web is refused all the same.

/// How far from its beginning and from its end a file is looked at for markup, bytes.
const LOOK: usize = 1_024;
/// What no image and no PDF has there.
const MARKUP: [&str; 5] = ["<!doctype", "<html", "<iframe", "<script", "<svg"];

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
            return Err("is not a PDF, JPG, PNG, GIF or WEBP");
        };
        let ends = [bytes.get(..LOOK), bytes.get(bytes.len().saturating_sub(LOOK)..)];
        if ends.into_iter().any(|end| is_markup(end.unwrap_or(bytes))) {
            return Err("contains HTML");
        }
        Ok(kind)
    }
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
        assert_eq!(FileKind::of(b"\x89PNG\r\n\x1a\n\0\0"), Ok(FileKind::Png));
        assert_eq!(FileKind::of(b"RIFF\x04\0\0\0WEBP"), Ok(FileKind::Webp));
        assert!(FileKind::of(b"RIFF\x04\0\0\0WAVE").is_err());
        assert!(FileKind::of(b"junk\n%PDF-1.4").is_err());
        assert!(FileKind::of(b"").is_err());
    }

    #[test]
    fn a_page_of_the_web_is_no_image() {
        let last = [&b"GIF89a"[..], &[0; 5_000], b"<sCript>alert(1)</script>"].concat();
        for page in [&b"GIF89a/*<script>*/=1"[..], b"%PDF-1.4 <!DOCTYPE html>", &last] {
            assert_eq!(FileKind::of(page), Err("contains HTML"));
        }
    }
}
