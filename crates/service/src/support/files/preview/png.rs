//! PNG, read and written.

use std::io::Cursor;

use ::png::{BitDepth, ColorType, Compression, Decoder, Encoder, Filter, Limits, Transformations};

use super::picture::{Layout, Picture, Size, Undrawn};

/// What the decoder may take for a row and for chunks, bytes: a row has at most 160 kB.
const WORK: usize = 1024 * 1024;

/// The pixels, with palettes looked up, of 8 bits a channel. `bytes` has nothing but its picture,
/// and is a copy.
///
/// # Errors
/// It is too large, or cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Picture, Undrawn> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: WORK });
    decoder.set_transformations(Transformations::normalize_to_color8());
    let (width, height) = decoder.read_header_info()?.size();
    let size = Size::taken(width, height)?;
    let mut reader = decoder.read_info()?;
    let layout = match reader.output_color_type().0 {
        ColorType::Grayscale => Layout::Grey,
        ColorType::GrayscaleAlpha => Layout::GreyAlpha,
        ColorType::Rgb => Layout::Rgb,
        ColorType::Rgba => Layout::Rgba,
        ColorType::Indexed => return Err(Undrawn::Unreadable),
    };
    let mut picture = Picture::room(size, layout, bytes.len())?;
    reader.next_frame(&mut picture.samples)?;
    Ok(picture)
}

/// A PNG of it.
///
/// # Errors
/// The encoder's.
pub(super) fn written(picture: &Picture) -> Result<Vec<u8>, Undrawn> {
    let mut out = Vec::new();
    let (width, height) = (picture.size.width.try_into()?, picture.size.height.try_into()?);
    let mut encoder = Encoder::new(&mut out, width, height);
    encoder.set_color(ColorType::Rgba);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Adaptive);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&picture.rgba())?;
    writer.finish()?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use ::png::{BitDepth, ColorType, Encoder, Info};

    use super::{read, written};
    use crate::support::files::kinds::picture_of_png;
    use crate::support::files::preview::picture::{Layout, Picture, Size, Undrawn};
    use crate::support::files::preview::samples::{cut, gradient};

    fn encoded(info: Info<'_>, data: &[u8]) -> Vec<u8> {
        let mut out = vec![];
        let mut writer = Encoder::with_info(&mut out, info).unwrap().write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        out
    }

    /// A row of pixels.
    fn row(color_type: ColorType, bit_depth: BitDepth, width: u32) -> Info<'static> {
        let mut info = Info::with_size(width, 1);
        info.color_type = color_type;
        info.bit_depth = bit_depth;
        info
    }

    fn read_row(info: Info<'_>, data: &[u8]) -> (Layout, Vec<u8>) {
        let picture = read(&encoded(info, data)).unwrap();
        (picture.layout, picture.samples)
    }

    fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
        let body = [&kind, data].concat();
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], &body, &crc32fast::hash(&body).to_be_bytes()].concat()
    }

    /// A file of 8 bits a channel, by hand.
    fn raw(width: u32, height: u32, kind: u8, is_interlaced: bool, data: &[u8]) -> Vec<u8> {
        let (width, height) = (width.to_be_bytes(), height.to_be_bytes());
        let rest = [8, kind, 0, 0, u8::from(is_interlaced)];
        let head = [&width[..], &height, &rest].concat();
        let start = b"\x89PNG\r\n\x1a\n".to_vec();
        [start, chunk(*b"IHDR", &head), chunk(*b"IDAT", data), chunk(*b"IEND", &[])].concat()
    }

    /// zlib, stored.
    fn stored(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap();
        let (one, two) = bytes.iter().fold((1, 0), |(one, two), byte| {
            let one = (one + u32::from(*byte)) % 65_521;
            (one, (two + one) % 65_521)
        });
        let sum = (two << 16 | one).to_be_bytes();
        let head = [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
        [&head[..], bytes, &sum].concat()
    }

    #[test]
    fn every_kind_is_read() {
        use BitDepth::{Eight, Four, One, Sixteen, Two};
        use ColorType::{Grayscale, GrayscaleAlpha, Rgb, Rgba};
        let grey = |depth, data: &[u8]| read_row(row(Grayscale, depth, 2), data);
        assert_eq!(grey(One, &[0b0100_0000]), (Layout::Grey, vec![0, 255]));
        assert_eq!(grey(Two, &[0b0111_0000]), (Layout::Grey, vec![85, 255]));
        assert_eq!(grey(Four, &[0x1f]), (Layout::Grey, vec![17, 255]));
        assert_eq!(grey(Eight, &[1, 2]), (Layout::Grey, vec![1, 2]));
        assert_eq!(grey(Sixteen, &[1, 2, 255, 3]), (Layout::Grey, vec![1, 255]));
        let wide = read_row(row(Rgba, Sixteen, 1), &[1, 0, 2, 0, 3, 0, 4, 0]);
        assert_eq!(wide, (Layout::Rgba, vec![1, 2, 3, 4]));
        let size = Size { width: 40, height: 24 };
        for (layout, color_type) in [
            (Layout::Grey, Grayscale),
            (Layout::GreyAlpha, GrayscaleAlpha),
            (Layout::Rgb, Rgb),
            (Layout::Rgba, Rgba),
        ] {
            let picture = gradient(size, layout);
            let mut info = Info::with_size(40, 24);
            (info.color_type, info.bit_depth) = (color_type, Eight);
            let bytes = encoded(info, &picture.samples);
            assert_eq!(read(&bytes).as_ref(), Ok(&picture));
            cut(&bytes, read);
        }
    }

    #[test]
    fn palettes_and_transparent_colors_are_looked_up() {
        let mut info = row(ColorType::Indexed, BitDepth::Two, 3);
        info.palette = Some(Cow::Borrowed(&[1, 2, 3, 4, 5, 6, 7, 8, 9]));
        let data = [0b1001_0000];
        let opaque = vec![7, 8, 9, 4, 5, 6, 1, 2, 3];
        assert_eq!(read_row(info.clone(), &data), (Layout::Rgb, opaque));
        info.trns = Some(Cow::Borrowed(&[0, 99]));
        let seen = vec![7, 8, 9, 255, 4, 5, 6, 99, 1, 2, 3, 0];
        assert_eq!(read_row(info, &data), (Layout::Rgba, seen));
        let mut info = row(ColorType::Grayscale, BitDepth::Eight, 2);
        info.trns = Some(Cow::Borrowed(&[0, 7]));
        assert_eq!(read_row(info, &[7, 8]), (Layout::GreyAlpha, vec![7, 0, 8, 255]));
    }

    #[test]
    fn an_interlaced_one_is_put_together() {
        // Two of its seven passes are in a picture of 2 times 2, behind one of its first pixel.
        let bytes = raw(2, 2, 0, true, &stored(&[0, 10, 0, 20, 0, 30, 40]));
        assert_eq!(read(&bytes).unwrap().samples, [10, 20, 30, 40]);
        cut(&bytes, read);
    }

    #[test]
    fn a_header_is_believed_before_memory_is_taken() {
        for (width, height) in [(20_001, 1), (1, 20_001), (12_001, 10_000), (u32::MAX >> 1, 9)] {
            let bytes = &raw(width, height, 6, false, &[])[..33];
            assert_eq!(read(bytes), Err(Undrawn::TooLarge), "{width} {height}");
        }
        for (width, height) in [(20_000, 6_000), (3_000, 3_000), (0, 0)] {
            let bytes = raw(width, height, 6, false, &stored(&[0; 100]));
            assert_eq!(read(&bytes), Err(Undrawn::Unreadable), "{width} {height}");
        }
    }

    #[test]
    fn what_is_written_is_the_picture_and_nothing_else() {
        let size = Size { width: 40, height: 24 };
        for layout in [Layout::Grey, Layout::GreyAlpha, Layout::Rgb, Layout::Rgba] {
            let picture = gradient(size, layout);
            let samples = picture.rgba();
            let bytes = written(&picture).unwrap();
            let expected = Picture { size, layout: Layout::Rgba, samples };
            assert_eq!(read(&bytes), Ok(expected));
            assert_eq!(picture_of_png(&bytes), bytes);
        }
    }
}
