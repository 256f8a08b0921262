//! Pictures in memory, and how large they may be.

/// Longest side of an image that is taken, pixels.
const MOST_SIDE: u32 = 20_000;
/// Pixels of an image that is taken.
const MOST_PIXELS: u64 = 120_000_000;
/// Memory that drawing one may take, bytes. What needs more has no preview.
const MOST_MEMORY: usize = 160 * 1024 * 1024;
/// The part of it that is not asked for: the preview itself, and the rows and tables of a codec.
const ASIDE: usize = 8 * 1024 * 1024;

/// Why there is no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undrawn {
    /// It has more pixels than are taken.
    TooLarge,
    /// It is broken, or drawing it takes more memory than it may.
    Unreadable,
}

impl<E: std::error::Error> From<E> for Undrawn {
    fn from(_: E) -> Self {
        Self::Unreadable
    }
}

/// The sides, pixels. None is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Size {
    /// What a header says.
    ///
    /// # Errors
    /// It is larger than is taken, or empty.
    pub(super) fn taken(width: u32, height: u32) -> Result<Self, Undrawn> {
        let pixels = u64::from(width) * u64::from(height);
        if width.max(height) > MOST_SIDE || pixels > MOST_PIXELS {
            return Err(Undrawn::TooLarge);
        }
        if pixels == 0 {
            return Err(Undrawn::Unreadable);
        }
        Ok(Self { width: usize::try_from(width)?, height: usize::try_from(height)? })
    }

    pub(super) const fn pixels(self) -> usize {
        self.width * self.height
    }
}

/// What a pixel consists of, a byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Grey,
    GreyAlpha,
    Rgb,
    Rgba,
}

impl Layout {
    pub(super) const fn channels(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::GreyAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }
}

/// Pixels, row by row from the top.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) size: Size,
    pub(super) layout: Layout,
    pub(super) samples: Vec<u8>,
}

impl Picture {
    /// Room for one, once it is known that all memory for it may be taken: its own, and what its
    /// codec takes beside it.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn room(size: Size, layout: Layout, beside: usize) -> Result<Self, Undrawn> {
        let length = size.pixels() * layout.channels();
        if beside.saturating_add(length) > MOST_MEMORY - ASIDE {
            return Err(Undrawn::Unreadable);
        }
        Ok(Self { size, layout, samples: vec![0; length] })
    }

    /// Its pixels as red, green, blue and alpha.
    pub(super) fn rgba(&self) -> Vec<u8> {
        let pixels = self.samples.chunks_exact(self.layout.channels());
        let rgba = pixels.flat_map(|pixel| match *pixel {
            [grey] => [grey, grey, grey, u8::MAX],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, u8::MAX],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => [0; 4],
        });
        rgba.collect()
    }
}
