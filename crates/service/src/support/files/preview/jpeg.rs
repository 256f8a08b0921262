//! JPEG, read and written.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::picture::{Layout, Picture, Size, Undrawn};

/// Quality of what is written, of 100.
const QUALITY: u8 = 80;
/// Scans that are gone through; those who write progressive images make some ten.
const MOST_SCANS: usize = 32;
/// What the decoder keeps of each component while it goes down the rows, bytes for each column.
const COLUMN: usize = 64;

/// The pixels: grey ones as they are, all others as red, green and blue. One that
/// is cut off is drawn as far as it goes.
///
/// # Errors
/// It is too large, or cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Picture, Undrawn> {
    if scans(bytes) > MOST_SCANS {
        return Err(Undrawn::Unreadable);
    }
    // Its own limit is less than ours, which is looked at next.
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .jpeg_set_max_scans(MOST_SCANS)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers()?;
    // It is a copy of all that is known, so it goes at once.
    let sides = decoder.info().map(|info| (info.width, info.height, info.components));
    let (width, height, components) = sides.ok_or(Undrawn::Unreadable)?;
    let size = Size::taken(width.into(), height.into())?;
    let (layout, colors) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (Layout::Grey, ColorSpace::Luma),
        _ => (Layout::Rgb, ColorSpace::RGB),
    };
    // Profiles and the like are copied, though nobody asks for them.
    let beside = coefficients(bytes, size, components)
        + size.width * COLUMN * usize::from(components)
        + bytes.len();
    let mut picture = Picture::room(size, layout, beside)?;
    decoder.set_options(decoder.options().jpeg_set_out_colorspace(colors));
    decoder.decode_into(&mut picture.samples)?;
    Ok(picture)
}

/// What the decoder keeps until the last scan, bytes: the coefficients of a progressive image,
/// and of one with a scan that lacks components. The decoder does not tell which it has. So every
/// header is looked at that may be one, wherever it is: the image may have been made to mislead.
fn coefficients(bytes: &[u8], size: Size, components: u8) -> usize {
    let is_partial = scan_heads(bytes).any(|in_scan| in_scan != components);
    let kept = bytes.windows(10).enumerate().filter_map(|(at, head)| {
        let [0xff, marker @ 0xc0..=0xc2, _, _, _, sides @ .., count] = head else { return None };
        let end = at + 10 + 3 * usize::from(components);
        let is_frame = *count == components && sides_of(sides) == Some(size);
        let is_kept = is_frame && (is_partial || *marker == 0xc2);
        is_kept.then(|| blocks(bytes.get(at + 10..end)?, size)).flatten()
    });
    kept.max().unwrap_or(0)
}

/// How often a scan begins, as far as the decoder would take it for one. Each goes over all of the
/// picture again, however little of it the file has.
fn scans(bytes: &[u8]) -> usize {
    scan_heads(bytes).filter(|components| (1..=4).contains(components)).count()
}

/// How many components each scan has, of all headers that may be of one.
fn scan_heads(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.windows(5).filter_map(|head| match head {
        [0xff, 0xda, 0, length, count] if u16::from(*length) == 6 + 2 * u16::from(*count) => {
            Some(*count)
        }
        _ => None,
    })
}

/// The height and the width in the header of a frame (ITU-T T.81 §B.2.2).
fn sides_of(sides: &[u8]) -> Option<Size> {
    let [tall, high, wide, low] = *sides else { return None };
    let side = |bytes| usize::from(u16::from_be_bytes(bytes));
    Some(Size { width: side([wide, low]), height: side([tall, high]) })
}

/// What all blocks of a frame take, bytes. Of each component there are its identifier, how often
/// it is sampled to the right and downwards, and a table.
fn blocks(components: &[u8], size: Size) -> Option<usize> {
    let samplings: Vec<(usize, usize)> = components
        .as_chunks::<3>()
        .0
        .iter()
        .map(|[_, often, _]| (usize::from(often >> 4), usize::from(often & 0xf)))
        .collect();
    let right = samplings.iter().map(|(right, _)| *right).max()?.max(1);
    let down = samplings.iter().map(|(_, down)| *down).max()?.max(1);
    let units = size.width.div_ceil(8 * right) * size.height.div_ceil(8 * down);
    let of_unit: usize = samplings.iter().map(|(right, down)| right * down).sum();
    // 64 numbers of two bytes.
    Some(units * of_unit * 128)
}

/// A JPEG of it.
///
/// # Errors
/// The encoder's.
pub(super) fn written(picture: &Picture) -> Result<Vec<u8>, Undrawn> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    let (width, height) = (picture.size.width.try_into()?, picture.size.height.try_into()?);
    encoder.encode(&picture.rgba(), width, height, ColorType::Rgba)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

    use super::{blocks, coefficients, read, written};
    use crate::support::files::preview::picture::{Layout, Picture, Size, Undrawn};
    use crate::support::files::preview::samples::{cut, gradient, is_near};

    const SIZE: Size = Size { width: 40, height: 24 };

    fn encoded(bytes: &[u8], colors: ColorType, is_progressive: bool, often: u8) -> Vec<u8> {
        let mut out = vec![];
        let mut encoder = Encoder::new(&mut out, 95);
        encoder.set_progressive(is_progressive);
        encoder.set_sampling_factor(SamplingFactor::from_factors(often, often).unwrap());
        encoder.add_app_segment(1, b"Exif\0\0a secret".to_vec()).unwrap();
        encoder.encode(bytes, 40, 24, colors).unwrap();
        out
    }

    /// The same with other sides in its header.
    fn of_size(mut bytes: Vec<u8>, width: u16, height: u16) -> Vec<u8> {
        let frame = bytes.windows(2).position(|two| matches!(two, [0xff, 0xc0 | 0xc2])).unwrap();
        bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
        bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
        bytes
    }

    /// Up to the end of the header of its first scan.
    fn head(mut bytes: Vec<u8>) -> Vec<u8> {
        let scan = bytes.windows(2).position(|two| two == [0xff, 0xda]).unwrap();
        bytes.truncate(scan + 2 + usize::from(bytes[scan + 3]));
        bytes
    }

    #[test]
    fn every_kind_is_read() {
        let (grey, rgb) = (gradient(SIZE, Layout::Grey), gradient(SIZE, Layout::Rgb));
        for is_progressive in [false, true] {
            let bytes = encoded(&grey.samples, ColorType::Luma, is_progressive, 1);
            assert!(is_near(&read(&bytes).unwrap(), &grey, 6));
            for often in [1, 2] {
                let bytes = encoded(&rgb.samples, ColorType::Rgb, is_progressive, often);
                assert!(is_near(&read(&bytes).unwrap(), &rgb, 12), "{is_progressive} {often}");
            }
        }
    }

    #[test]
    fn ink_becomes_light() {
        let ink: Vec<u8> = [[0, 255, 255, 0]; 960].concat();
        for colors in [ColorType::Cmyk, ColorType::CmykAsYcck] {
            let samples = [[255, 0, 0]; 960].concat();
            let red = Picture { size: SIZE, layout: Layout::Rgb, samples };
            let read = read(&encoded(&ink, colors, false, 1)).unwrap();
            assert!(is_near(&read, &red, 6), "{colors:?}");
        }
    }

    #[test]
    fn what_is_written_is_color_and_nothing_else() {
        let rgb = gradient(SIZE, Layout::Rgb);
        let bytes = written(&rgb).unwrap();
        assert!(is_near(&read(&bytes).unwrap(), &rgb, 16));
        let grey = Picture { samples: vec![99; 960], layout: Layout::Grey, ..rgb };
        let bytes = written(&grey).unwrap();
        assert_eq!(read(&bytes).unwrap().layout, Layout::Rgb);
        let is_metadata = |two: &[u8]| matches!(two, [0xff, 0xe1..=0xef | 0xfe]);
        assert!(!bytes.windows(2).any(is_metadata));
    }

    #[test]
    fn what_is_cut_off_is_drawn_as_far_as_it_goes() {
        let rgb = gradient(SIZE, Layout::Rgb);
        for is_progressive in [false, true] {
            let bytes = encoded(&rgb.samples, ColorType::Rgb, is_progressive, 2);
            cut(&bytes, read);
            assert_eq!(read(&bytes[..100]), Err(Undrawn::Unreadable));
        }
        let bytes = encoded(&rgb.samples, ColorType::Rgb, false, 1);
        let part = read(&bytes[..bytes.len() - 100]).unwrap();
        assert_eq!(part.samples[..40], read(&bytes).unwrap().samples[..40]);
    }

    #[test]
    fn a_picture_that_is_scanned_again_and_again_is_not_drawn() {
        let rgb = gradient(SIZE, Layout::Rgb);
        let mut bytes = encoded(&rgb.samples, ColorType::Rgb, false, 1);
        let end = bytes.split_off(bytes.len() - 2);
        let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0];
        for (count, is_drawn) in [(20, true), (40, false)] {
            let bytes = [bytes.clone(), scan.repeat(count), end.clone()].concat();
            assert_eq!(read(&bytes) != Err(Undrawn::Unreadable), is_drawn, "{count}");
        }
        // The film behind a photo has what looks like the beginning of one here and there.
        let film = [0xff, 0xda, 0x51, 0x07, 0x03].repeat(1_000);
        assert!(read(&[bytes, end, film].concat()).is_ok());
    }

    #[test]
    fn a_header_is_believed_before_memory_is_taken() {
        let rgb = gradient(SIZE, Layout::Rgb);
        let bytes = |is_progressive| encoded(&rgb.samples, ColorType::Rgb, is_progressive, 1);
        for (width, height) in [(20_001, 1), (1, 20_001), (12_001, 10_000), (65_535, 65_535)] {
            let bytes = head(of_size(bytes(false), width, height));
            assert_eq!(read(&bytes), Err(Undrawn::TooLarge), "{width} {height}");
        }
        let much = of_size(bytes(false), 12_000, 10_000);
        assert_eq!(read(&much), Err(Undrawn::Unreadable));
        // Twice as many bytes of coefficients as of pixels.
        let much = of_size(bytes(true), 5_000, 4_000);
        assert_eq!(read(&much), Err(Undrawn::Unreadable));
        assert_eq!(read(&of_size(bytes(false), 0, 24)), Err(Undrawn::Unreadable));
    }

    #[test]
    fn coefficients_are_counted_where_they_are_kept() {
        let rgb = gradient(SIZE, Layout::Rgb);
        let of = |is_progressive, often| {
            let bytes = encoded(&rgb.samples, ColorType::Rgb, is_progressive, often);
            coefficients(&bytes, SIZE, 3)
        };
        assert_eq!(of(false, 1), 0);
        // 5 times 3 blocks of three components.
        assert_eq!(of(true, 1), 15 * 3 * 128);
        // 3 times 2 units of 4 + 1 + 1 blocks.
        assert_eq!(of(true, 2), 6 * 6 * 128);
        let mut partial = encoded(&rgb.samples, ColorType::Rgb, false, 1);
        partial.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
        assert_eq!(coefficients(&partial, SIZE, 3), 15 * 3 * 128);
        assert_eq!(blocks(&[], SIZE), None);
    }
}
