//! What tests of previews draw, and how they compare.

use super::picture::{Layout, Picture, Size, Undrawn};

/// A picture without edges, which codecs that lose something change little.
pub(super) fn gradient(size: Size, layout: Layout) -> Picture {
    let shade = |at: usize, of: usize| u8::try_from(at * 255 / of).unwrap();
    let places = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x, y)));
    let pixels = places.flat_map(|(x, y)| {
        let (x, y) = (shade(x, size.width), shade(y, size.height));
        match layout {
            Layout::Grey => vec![x],
            Layout::GreyAlpha => vec![x, y],
            Layout::Rgb => vec![x, y, 255 - x],
            Layout::Rgba => vec![x, y, 255 - x, 255 - y],
        }
    });
    Picture { size, layout, samples: pixels.collect() }
}

/// Whether two are the same but for so much in each sample.
pub(super) fn is_near(one: &Picture, other: &Picture, most: u8) -> bool {
    let mut pairs = one.samples.iter().zip(&other.samples);
    (one.size, one.layout) == (other.size, other.layout)
        && pairs.all(|(one, other)| one.abs_diff(*other) <= most)
}

/// Reads a file cut off after each of its bytes: that may fail, and nothing worse.
pub(super) fn cut(bytes: &[u8], read: fn(&[u8]) -> Result<Picture, Undrawn>) {
    for length in 0..bytes.len() {
        assert_ne!(read(&bytes[..length]), Err(Undrawn::TooLarge), "{length}");
    }
}
