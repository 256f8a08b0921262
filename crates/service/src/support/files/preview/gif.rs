//! GIF, read: the first of its frames, on its screen.

use ::gif::Decoder;

use super::picture::{Layout, Picture, Size, Undrawn};

/// Where a frame lies on the screen.
#[derive(Clone, Copy)]
struct Place {
    left: usize,
    top: usize,
    size: Size,
}

/// The pixels of the screen: what no frame covers is transparent.
///
/// # Errors
/// It is too large, or cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Picture, Undrawn> {
    let mut decoder = Decoder::new(bytes)?;
    let size = Size::taken(decoder.width().into(), decoder.height().into())?;
    let frame = decoder.next_frame_info()?.ok_or(Undrawn::Unreadable)?;
    let place = Place {
        left: frame.left.into(),
        top: frame.top.into(),
        size: Size { width: frame.width.into(), height: frame.height.into() },
    };
    let transparent = frame.transparent;
    // A frame may be larger than its screen. One without pixels is none.
    let indices = place.size.width.saturating_mul(place.size.height);
    if indices == 0 {
        return Err(Undrawn::Unreadable);
    }
    // Profiles and the like are copied, though nobody asks for them.
    let beside = indices.saturating_add(bytes.len());
    let mut picture = Picture::room(size, Layout::Rgba, beside)?;
    let mut indices = vec![0; indices];
    decoder.read_into_buffer(&mut indices)?;
    let colors = colors(decoder.palette()?, transparent);
    paint(&mut picture, place, &indices, &colors);
    Ok(picture)
}

/// The color of each index. One that the palette lacks is transparent.
fn colors(palette: &[u8], transparent: Option<u8>) -> [[u8; 4]; 256] {
    let mut colors = [[0; 4]; 256];
    for ((index, [red, green, blue]), color) in
        (0..=u8::MAX).zip(palette.as_chunks::<3>().0).zip(&mut colors)
    {
        let alpha = if transparent == Some(index) { 0 } else { u8::MAX };
        *color = [*red, *green, *blue, alpha];
    }
    colors
}

/// Puts a frame in its place. What does not fit on the screen is cut off.
fn paint(picture: &mut Picture, place: Place, indices: &[u8], colors: &[[u8; 4]; 256]) {
    let (pixels, _) = picture.samples.as_chunks_mut::<4>();
    let rows = pixels.chunks_exact_mut(picture.size.width).skip(place.top);
    for (row, indices) in rows.zip(indices.chunks_exact(place.size.width)) {
        for (pixel, index) in row.iter_mut().skip(place.left).zip(indices) {
            *pixel = colors[usize::from(*index)];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use ::gif::{Encoder, Frame};

    use super::read;
    use crate::support::files::preview::picture::{Size, Undrawn};
    use crate::support::files::preview::samples::cut;

    /// Black, red, green.
    const PALETTE: &[u8] = &[0, 0, 0, 255, 0, 0, 0, 255, 0];
    const NOTHING: [u8; 4] = [0; 4];
    const BLACK: [u8; 4] = [0, 0, 0, 255];
    const RED: [u8; 4] = [255, 0, 0, 255];
    const GREEN: [u8; 4] = [0, 255, 0, 255];

    fn frame(width: u16, height: u16, indices: &[u8]) -> Frame<'_> {
        Frame { width, height, buffer: Cow::Borrowed(indices), ..Frame::default() }
    }

    fn encoded(width: u16, height: u16, frames: &[Frame<'_>]) -> Vec<u8> {
        let mut out = vec![];
        let mut encoder = Encoder::new(&mut out, width, height, PALETTE).unwrap();
        for frame in frames {
            encoder.write_frame(frame).unwrap();
        }
        drop(encoder);
        out
    }

    fn pixels(bytes: &[u8]) -> Vec<[u8; 4]> {
        read(bytes).unwrap().samples.as_chunks::<4>().0.to_vec()
    }

    #[test]
    fn the_first_frame_is_read() {
        let bytes = encoded(2, 1, &[frame(2, 1, &[1, 2]), frame(2, 1, &[2, 2])]);
        assert_eq!(pixels(&bytes), [RED, GREEN]);
        cut(&bytes, read);
        assert_eq!(read(&encoded(2, 1, &[])), Err(Undrawn::Unreadable));
    }

    #[test]
    fn what_is_not_painted_is_transparent() {
        let smaller = Frame { left: 1, top: 1, ..frame(1, 1, &[1]) };
        let expected = [NOTHING, NOTHING, NOTHING, RED, NOTHING, NOTHING];
        assert_eq!(pixels(&encoded(2, 3, &[smaller])), expected);
        let clear = Frame { transparent: Some(1), ..frame(2, 1, &[1, 2]) };
        assert_eq!(pixels(&encoded(2, 1, &[clear])), [[255, 0, 0, 0], GREEN]);
        // The palette is filled up to four colors.
        let unknown = encoded(2, 1, &[frame(2, 1, &[0, 3])]);
        assert_eq!(pixels(&unknown)[0], BLACK);
        assert_eq!(super::colors(PALETTE, None)[3], NOTHING);
    }

    #[test]
    fn a_frame_is_cut_off_at_the_screen() {
        let larger = Frame { left: 1, ..frame(2, 2, &[1, 2, 2, 1]) };
        assert_eq!(pixels(&encoded(2, 1, &[larger])), [NOTHING, RED]);
        let beyond = Frame { left: 9, top: 9, ..frame(1, 1, &[1]) };
        assert_eq!(pixels(&encoded(1, 1, &[beyond])), [NOTHING]);
    }

    #[test]
    fn an_interlaced_one_is_put_together() {
        // Every eighth row, the rows half between, and so on.
        let rows = Frame { interlaced: true, ..frame(1, 8, &[0, 1, 0, 1, 2, 2, 2, 2]) };
        let expected = [BLACK, GREEN, BLACK, GREEN, RED, GREEN, RED, GREEN];
        assert_eq!(pixels(&encoded(1, 8, &[rows])), expected);
    }

    #[test]
    fn a_header_is_believed_before_memory_is_taken() {
        let pixel = [frame(1, 1, &[1])];
        for (width, height) in [(20_001, 1), (12_001, 10_000), (u16::MAX, u16::MAX)] {
            // The screen, a palette of four colors, and the beginning of a frame.
            let bytes = [&encoded(width, height, &pixel)[..25], &[0x2c, 0]].concat();
            assert_eq!(read(&bytes), Err(Undrawn::TooLarge), "{width} {height}");
        }
        for (width, height) in [(12_000, 10_000), (0, 1)] {
            assert_eq!(read(&encoded(width, height, &pixel)), Err(Undrawn::Unreadable));
        }
        let mut bytes = encoded(1, 1, &pixel);
        let at = bytes.windows(2).rposition(|two| two == [0x2c, 0]).unwrap();
        for (side, size) in [(0_u16, None), (2, None), (u16::MAX, None), (1, Some(1))] {
            bytes[at + 5..at + 7].copy_from_slice(&side.to_le_bytes());
            bytes[at + 7..at + 9].copy_from_slice(&side.to_le_bytes());
            let size = size.map(|side| Size { width: side, height: side });
            assert_eq!(read(&bytes).ok().map(|picture| picture.size), size, "{side}");
        }
    }
}
