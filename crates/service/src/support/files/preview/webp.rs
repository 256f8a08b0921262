//! WebP, read: of an animation, the first frame.

use std::io::Cursor;

use image_webp::WebPDecoder;

use super::picture::{Layout, Picture, Size, Undrawn};

/// Memory that a byte of lossless data may make the decoder take for tables of codes, bytes: 60 of
/// them name a group of five tables of 4 KiB, and it has no bound for their number.
const CODES_FOR_A_BYTE: usize = 350;

/// The pixels.
///
/// # Errors
/// It is too large, or cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Picture, Undrawn> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes))?;
    let (width, height) = decoder.dimensions();
    let size = Size::taken(width, height)?;
    // The decoder takes memory for what a frame says, and compares the two too late, or never.
    let lossy = lossy_frame(bytes, size, decoder.is_animated());
    if lossy.is_some_and(|(frame, expected)| stated(frame) != Some(expected)) {
        return Err(Undrawn::Unreadable);
    }
    let layout = if decoder.has_alpha() { Layout::Rgba } else { Layout::Rgb };
    // Data of a lossy frame are copied twice.
    let pixels = size.pixels() * working(&mut decoder) + 2 * bytes.len();
    let codes = lossless_bytes(bytes, decoder.is_animated()) * CODES_FOR_A_BYTE;
    let beside = pixels.saturating_add(codes);
    let mut picture = Picture::room(size, layout, beside)?;
    decoder.read_image(&mut picture.samples)?;
    Ok(picture)
}

/// What the decoder takes for each pixel beside the picture, bytes.
fn working(decoder: &mut WebPDecoder<Cursor<&[u8]>>) -> usize {
    // A canvas and a frame.
    if decoder.is_animated() {
        return 8;
    }
    let is_lossy = decoder.is_lossy() && decoder.num_frames() == 0;
    match (is_lossy, decoder.has_alpha()) {
        // One of brightness, half of one of color, and something of each block.
        (true, false) => 2,
        // Also its alpha, which is a picture of its own at first.
        (true, true) => 8,
        // Transforms, of 16 pixels at least.
        (false, true) => 1,
        // Also a picture with alpha.
        (false, false) => 5,
    }
}

/// A chunk (WebP container specification).
struct Chunk<'a> {
    kind: [u8; 4],
    data: &'a [u8],
}

fn chunks(mut bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    std::iter::from_fn(move || {
        let (kind, rest) = bytes.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let data = rest.get(..length).unwrap_or(rest);
        bytes = rest.get(length.next_multiple_of(2)..).unwrap_or_default();
        Some(Chunk { kind: *kind, data })
    })
}

/// The bytes of the data without loss that are read: of the picture, or of its alpha.
fn lossless_bytes(bytes: &[u8], is_animated: bool) -> usize {
    let longest = |chunks: &mut dyn Iterator<Item = Chunk<'_>>| {
        let lossless = chunks.filter(|chunk| matches!(&chunk.kind, b"VP8L" | b"ALPH"));
        lossless.map(|chunk| chunk.data.len()).max().unwrap_or(0)
    };
    let mut chunks = chunks(bytes.get(12..).unwrap_or_default());
    if !is_animated {
        return longest(&mut chunks);
    }
    let frame = chunks.find(|chunk| &chunk.kind == b"ANMF");
    let inner = frame.and_then(|frame| frame.data.get(16..)).unwrap_or_default();
    longest(&mut self::chunks(inner))
}

/// The lossy frame that is read, if one is, and the size that what is around it gives it.
fn lossy_frame(bytes: &[u8], canvas: Size, is_animated: bool) -> Option<(&[u8], Size)> {
    let mut chunks = chunks(bytes.get(12..)?);
    if !is_animated {
        return Some((chunks.find(|chunk| &chunk.kind == b"VP8 ")?.data, canvas));
    }
    let frame = chunks.find(|chunk| &chunk.kind == b"ANMF")?.data;
    let side = |at: usize| match *frame.get(at..at + 3)? {
        [low, middle, high] => usize::try_from(u32::from_le_bytes([low, middle, high, 0])).ok(),
        _ => None,
    };
    let size = Size { width: side(6)? + 1, height: side(9)? + 1 };
    let mut inner = self::chunks(frame.get(16..)?);
    let first = inner.next()?;
    match &first.kind {
        b"VP8 " => Some((first.data, size)),
        // Whatever comes behind the alpha.
        b"ALPH" => Some((inner.next()?.data, size)),
        _ => None,
    }
}

/// The size that a lossy frame gives itself (RFC 6386 §9.1).
fn stated(frame: &[u8]) -> Option<Size> {
    let [tag, _, _, 0x9d, 0x01, 0x2a, sides @ ..] = frame else { return None };
    let [low, wide, little, high, ..] = *sides else { return None };
    let side = |bytes| usize::from(u16::from_le_bytes(bytes) & 0x3fff);
    let size = Size { width: side([low, wide]), height: side([little, high]) };
    (tag & 1 == 0).then_some(size)
}

#[cfg(test)]
mod tests {
    use image_webp::{ColorType, WebPEncoder};

    use super::read;
    use crate::support::files::preview::picture::{Layout, Picture, Size, Undrawn};
    use crate::support::files::preview::samples::{cut, gradient};

    // Left red, right blue, of 16 times 16 pixels, by Pillow.
    const LOSSY: &[u8] =
        b"RIFF<\0\0\0WEBPVP8 0\0\0\0p\x01\0\x9d\x01*\x10\0\x10\0\x02\xc0L%\xa0\x02t\x01@\0\0\
        \xfe\xf0\xcb?\xfe\x8f\xbf\xfe\xb6\xff\xfdh\x7f\xad\xbf\xad\xb7\xffm\x0fM\xff\xfe\xb4\
        \x13@\0";
    const LOSSY_ALPHA: &[u8] =
        b"RIFFf\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\x0f\0\0\x0f\0\0ALPH\x0f\0\0\0\x01\x10\x12\
        \x10\xd7=\x97d5\"&\xc0$\x7f\x01\0VP8 0\0\0\0p\x01\0\x9d\x01*\x10\0\x10\0\x02\xc0L%\
        \xa0\x02t\x01@\0\0\xfe\xf0\xcb?\xfe\x8f\xbf\xfe\xb6\xff\xfdh\x7f\xad\xbf\xad\xb7\xff\
        m\x0fM\xff\xfe\xb4\x13@\0";
    const MOVING: &[u8] =
        b"RIFF\xda\0\0\0WEBPVP8X\x0a\0\0\0\x12\0\0\0\x0f\0\0\x0f\0\0ANIM\x06\0\0\0\0\0\0\0\0\0\
        ANMF`\0\0\0\0\0\0\0\0\0\x0f\0\0\x0f\0\0\0\0\0\x02ALPH\x0f\0\0\0\x01\x10\x12\x10\xd7=\
        \x97d5\"&\xc0$\x7f\x01\0VP8 0\0\0\0p\x01\0\x9d\x01*\x10\0\x10\0\x02\xc0L%\xa0\x02t\
        \x01@\0\0\xfe\xf0\xcb?\xfe\x8f\xbf\xfe\xb6\xff\xfdh\x7f\xad\xbf\xad\xb7\xffm\x0fM\
        \xff\xfe\xb4\x13@\0ANMFF\0\0\0\0\0\0\0\0\0\x0f\0\0\x0f\0\0\0\0\0\0VP8 .\0\0\0\xd4\
        \x01\0\x9d\x01*\x10\0\x10\0\0\0L%\xa0\x02t\xba\x01\xf8\0\x03\xb0\0\xfe\xddD\x7f\xf3\
        \xf3;\xb7\x17\xf5[\xff\xafG\xf3\xd1\xfc\xf4\x7f\x8e\x10\0";
    const MOVING_LOSSLESS: &[u8] =
        b"RIFF\x8e\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x0f\0\0\x0f\0\0ANIM\x06\0\0\0\0\0\0\0\0\0\
        ANMF2\0\0\0\0\0\0\0\0\0\x0f\0\0\x0f\0\0\0\0\0\x02VP8L\x19\0\0\0/\x0f\xc0\x03\0\x0f\
        \x10\xf3\xbf\xff\xf3\x1f\x0e\xc4\x82\xc9\xfc\xa5\xbb3\x88\xe8\x7f\xe4\x02\0ANMF(\0\0\
        \0\0\0\0\0\0\0\x0f\0\0\x0f\0\0\0\0\0\0VP8L\x0f\0\0\0/\x0f\xc0\x03\0\x07\xd0\xff\x88\
        \xfe\x07\"\xa2\xff\x01\0";

    fn lossless(picture: &Picture, colors: ColorType) -> Vec<u8> {
        let mut out = vec![];
        let (width, height) = (picture.size.width, picture.size.height);
        let (width, height) = (width.try_into().unwrap(), height.try_into().unwrap());
        WebPEncoder::new(&mut out).encode(&picture.samples, width, height, colors).unwrap();
        out
    }

    /// The same with other bytes, wherever it has some.
    fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    }

    #[test]
    fn what_loses_nothing_is_read() {
        let size = Size { width: 40, height: 24 };
        let kinds = [(Layout::Rgb, ColorType::Rgb8), (Layout::Rgba, ColorType::Rgba8)];
        for (layout, colors) in kinds {
            let picture = gradient(size, layout);
            let bytes = lossless(&picture, colors);
            assert_eq!(read(&bytes).as_ref(), Ok(&picture));
            cut(&bytes, read);
        }
    }

    #[test]
    fn what_loses_something_and_what_moves_is_read() {
        let (red, blue) = ([255, 0, 0], [0, 0, 255]);
        for (bytes, alpha) in
            [(LOSSY, 255), (LOSSY_ALPHA, 128), (MOVING, 128), (MOVING_LOSSLESS, 255)]
        {
            let picture = read(bytes).unwrap();
            assert_eq!(picture.size, Size { width: 16, height: 16 });
            let rgba = picture.rgba();
            let is_near = |at: usize, color: [u8; 3], alpha: u8| {
                let [colors @ .., seen] = rgba.as_chunks::<4>().0[at];
                seen == alpha && colors.iter().zip(color).all(|(one, two)| one.abs_diff(two) < 9)
            };
            assert!(is_near(8 * 16 + 2, red, 255) && is_near(8 * 16 + 13, blue, alpha));
            cut(bytes, read);
        }
    }

    #[test]
    fn a_header_is_believed_before_memory_is_taken() {
        let canvas = |width: u32, height: u32| {
            let (width, height) = ((width - 1).to_le_bytes(), (height - 1).to_le_bytes());
            let sides = [&width[..3], &height[..3]].concat();
            patched(LOSSY_ALPHA, b"\x0f\0\0\x0f\0\0", &sides)
        };
        for (width, height) in [(20_001, 1), (12_001, 10_000), (1 << 24, 1)] {
            assert_eq!(read(&canvas(width, height)), Err(Undrawn::TooLarge), "{width} {height}");
        }
        assert_eq!(read(&canvas(12_000, 10_000)), Err(Undrawn::Unreadable));
        // 14 bits each, and one for alpha.
        let head = ((14_000_u32 - 1) << 14 | (14_000 - 1) | 1 << 28).to_le_bytes();
        let picture = gradient(Size { width: 2, height: 2 }, Layout::Rgba);
        let mut bytes = lossless(&picture, ColorType::Rgba8);
        bytes[21..25].copy_from_slice(&head);
        assert_eq!(read(&bytes), Err(Undrawn::TooLarge));
        let large = patched(LOSSY, b"\x10\0\x10\0", b"\x00\x20\x00\x20");
        assert_eq!(read(&large), Err(Undrawn::Unreadable));
    }

    #[test]
    fn data_that_may_name_too_many_tables_are_not_read() {
        let picture = gradient(Size { width: 40, height: 24 }, Layout::Rgb);
        let mut bytes = lossless(&picture, ColorType::Rgb8);
        for (length, is_read) in [(100_000_u32, true), (500_000, false)] {
            bytes.resize(20 + usize::try_from(length).unwrap(), 0);
            bytes[4..8].copy_from_slice(&(length + 12).to_le_bytes());
            bytes[16..20].copy_from_slice(&length.to_le_bytes());
            assert_eq!(read(&bytes).is_ok(), is_read, "{length}");
        }
    }

    #[test]
    fn a_frame_has_the_size_that_it_is_given() {
        for bytes in [LOSSY_ALPHA, MOVING] {
            for sides in [b"\xff\x3f\xff\x3f", b"\x08\0\x10\0", b"\x10\0\x11\0", b"\0\0\0\0"] {
                let bytes = patched(bytes, b"\x10\0\x10\0", sides);
                assert_eq!(read(&bytes), Err(Undrawn::Unreadable), "{sides:?}");
            }
            let no_key = patched(bytes, b"p\x01\0\x9d", b"q");
            assert_eq!(read(&no_key), Err(Undrawn::Unreadable));
        }
    }
}
