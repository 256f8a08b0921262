//! Previews: images drawn anew, small, without anything else that the original may carry.

mod gif;
mod jpeg;
mod picture;
mod png;
#[cfg(test)]
mod samples;
mod scale;
mod webp;

use hyper::body::Bytes;
use tokio::sync::Semaphore;

use self::picture::{Picture, Undrawn};
use super::kinds::{self, FileKind};

/// What is said of an image that is larger than is taken.
pub(super) const TOO_LARGE: &str =
    "The image has more than 20,000 pixels a side or 120 million in all.";
/// One at a time: each takes a whole processor and much memory.
static DRAWING: Semaphore = Semaphore::const_new(1);

/// What came of drawing.
#[derive(Debug, PartialEq, Eq)]
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
pub(super) async fn draw(kind: FileKind, bytes: Bytes) -> Drawn {
    if kind == FileKind::Pdf {
        return Drawn::None;
    }
    // Nobody closes it.
    let turn = DRAWING.acquire().await;
    let draw = move || {
        // Also where nobody waits for it any more.
        let _turn = turn;
        drawn(kind, &bytes)
    };
    // A codec that panics has drawn nothing.
    tokio::task::spawn_blocking(draw).await.unwrap_or(Drawn::None)
}

fn drawn(kind: FileKind, bytes: &[u8]) -> Drawn {
    let preview = match kind {
        FileKind::Pdf => Err(Undrawn::Unreadable),
        FileKind::Jpeg => jpeg::read(bytes).map(scale::reduced).and_then(|it| jpeg::written(&it)),
        FileKind::Png => png::read(&kinds::picture_of_png(bytes)).and_then(reduced_png),
        FileKind::Gif => gif::read(bytes).and_then(reduced_png),
        FileKind::Webp => webp::read(bytes).and_then(reduced_png),
    };
    match preview {
        Ok(preview) => Drawn::Preview(preview),
        Err(Undrawn::Unreadable) => Drawn::None,
        Err(Undrawn::TooLarge) => Drawn::TooLarge,
    }
}

fn reduced_png(picture: Picture) -> Result<Vec<u8>, Undrawn> {
    png::written(&scale::reduced(picture))
}

#[cfg(test)]
mod tests {
    use super::picture::{Layout, Size};
    use super::samples::gradient;
    use super::{Drawn, FileKind, draw, jpeg, png};

    const LARGE: Size = Size { width: 1_500, height: 60 };

    async fn preview(kind: FileKind, bytes: Vec<u8>) -> Vec<u8> {
        match draw(kind, bytes.into()).await {
            Drawn::Preview(preview) => preview,
            none => panic!("{none:?}"),
        }
    }

    #[tokio::test]
    async fn a_preview_is_a_smaller_image() {
        let original = gradient(LARGE, Layout::Rgba);
        let drawn = preview(FileKind::Png, png::written(&original).unwrap()).await;
        let small = png::read(&drawn).unwrap();
        assert_eq!((small.size, small.layout), (Size { width: 1_024, height: 41 }, Layout::Rgba));
        let original = gradient(LARGE, Layout::Grey);
        let drawn = preview(FileKind::Jpeg, jpeg::written(&original).unwrap()).await;
        let small = jpeg::read(&drawn).unwrap();
        assert_eq!((small.size, small.layout), (Size { width: 1_024, height: 41 }, Layout::Rgb));
    }

    #[tokio::test]
    async fn what_cannot_be_drawn_has_none() {
        use FileKind::{Gif, Jpeg, Pdf, Png, Webp};
        for kind in [Pdf, Jpeg, Png, Gif, Webp] {
            assert_eq!(draw(kind, b"noise".to_vec().into()).await, Drawn::None);
        }
        let mut large = png::written(&gradient(LARGE, Layout::Grey)).unwrap();
        large[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        let sum = crc32fast::hash(&large[12..29]).to_be_bytes();
        large[29..33].copy_from_slice(&sum);
        assert_eq!(draw(Png, large.into()).await, Drawn::TooLarge);
    }
}
