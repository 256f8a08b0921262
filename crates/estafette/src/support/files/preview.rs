//! Previews: images drawn anew, small, without anything else that the original may carry.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use tokio::sync::Semaphore;

use super::kinds::{self, FileKind};

/// Longest side of a preview, pixels.
const SIDE: u32 = 1_024;
/// Longest side of an image that is taken, pixels.
const MOST_SIDE: u32 = 20_000;
/// Pixels of an image that is taken.
const MOST_PIXELS: u64 = 120_000_000;
/// What is said of an image that has more of either.
pub(super) const TOO_LARGE: &str =
    "The image has more than 20,000 pixels a side or 120 million in all.";
/// Memory that drawing one may take, bytes. What needs more has no preview.
const MOST_MEMORY: u64 = 160 * 1024 * 1024;
/// One at a time: each takes a whole processor and much memory.
static DRAWING: Semaphore = Semaphore::const_new(1);

/// What came of drawing.
pub(super) enum Drawn {
    /// There is a preview.
    Preview(Vec<u8>),
    /// It has none: a PDF, or an image that cannot be drawn.
    None,
    /// It has more pixels than are taken.
    TooLarge,
}

/// The media type of previews.
pub(super) fn media_type(of: &str) -> &'static str {
    if of == FileKind::Jpeg.media_type() { "image/jpeg" } else { "image/png" }
}

/// Draws a preview of a file.
pub(super) async fn draw(kind: FileKind, bytes: hyper::body::Bytes) -> Drawn {
    let format = match kind {
        FileKind::Pdf => return Drawn::None,
        FileKind::Jpeg => ImageFormat::Jpeg,
        FileKind::Png => ImageFormat::Png,
        FileKind::Gif => ImageFormat::Gif,
        FileKind::Webp => ImageFormat::WebP,
    };
    // Nobody closes it.
    let _turn = DRAWING.acquire().await;
    let drawn = tokio::task::spawn_blocking(move || match format {
        ImageFormat::Png => drawn(format, &kinds::picture_of_png(&bytes)),
        _ => drawn(format, &bytes),
    })
    .await;
    drawn.unwrap_or(Drawn::None)
}

fn drawn(format: ImageFormat, bytes: &[u8]) -> Drawn {
    let Ok((width, height)) =
        ImageReader::with_format(Cursor::new(bytes), format).into_dimensions()
    else {
        return Drawn::None;
    };
    let pixels = u64::from(width) * u64::from(height);
    if width.max(height) > MOST_SIDE || pixels > MOST_PIXELS {
        return Drawn::TooLarge;
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    match reader.decode() {
        Ok(image) => encoded(&image, format).map_or(Drawn::None, Drawn::Preview),
        Err(_) => Drawn::None,
    }
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Option<Vec<u8>> {
    let is_small = image.width().max(image.height()) <= SIDE;
    let small = if is_small { image.clone() } else { image.thumbnail(SIDE, SIDE) };
    let mut out = Vec::new();
    let written = if format == ImageFormat::Jpeg {
        let rgb = DynamicImage::ImageRgb8(small.into_rgb8());
        rgb.write_with_encoder(JpegEncoder::new_with_quality(&mut out, 80))
    } else {
        let rgba = DynamicImage::ImageRgba8(small.into_rgba8());
        rgba.write_to(&mut Cursor::new(&mut out), ImageFormat::Png)
    };
    written.ok().map(|()| out)
}
