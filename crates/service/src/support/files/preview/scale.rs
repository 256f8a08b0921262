//! Reduces pictures: each pixel of the smaller one is the average of the area that it covers.

use super::picture::{Layout, Picture, Size};

/// Longest side of a preview, pixels.
const SIDE: usize = 1_024;

/// A picture as it is, or reduced to the size of previews.
pub(super) fn reduced(picture: Picture) -> Picture {
    let size = target(picture.size);
    if size == picture.size {
        return picture;
    }
    let samples = match picture.layout {
        Layout::Grey => averaged::<1, false>(&picture, size),
        Layout::GreyAlpha => averaged::<2, true>(&picture, size),
        Layout::Rgb => averaged::<3, false>(&picture, size),
        Layout::Rgba => averaged::<4, true>(&picture, size),
    };
    Picture { size, layout: picture.layout, samples }
}

/// The size of the preview: the same shape, to the nearest pixel.
fn target(size: Size) -> Size {
    let longest = size.width.max(size.height);
    if longest <= SIDE {
        return size;
    }
    let shorter = |side: usize| ((side * SIDE + longest / 2) / longest).max(1);
    Size { width: shorter(size.width), height: shorter(size.height) }
}

/// The pixels that one of the preview covers along a side, and how much of the outer two. Shares
/// are whole numbers: a pixel of the original counts as many as the preview has pixels.
struct Cover {
    first: usize,
    first_share: u32,
    last: usize,
    last_share: u32,
}

/// What each pixel of the preview covers along a side that goes `from` so many pixels `to` fewer.
fn covers(from: usize, to: usize) -> Vec<Cover> {
    // Sides have at most 20,000 pixels.
    let share = |units: usize| u32::try_from(units).unwrap_or(u32::MAX);
    let cover = |at: usize| {
        let (start, end) = (at * from, (at + 1) * from);
        let (first, last) = (start / to, (end - 1) / to);
        let last_share = if first == last { 0 } else { end - last * to };
        let first_share = end.min((first + 1) * to) - start;
        Cover { first, first_share: share(first_share), last, last_share: share(last_share) }
    };
    (0..to).map(cover).collect()
}

/// `N` channels, the last of which is alpha where it is `ALPHA`.
fn averaged<const N: usize, const ALPHA: bool>(picture: &Picture, size: Size) -> Vec<u8> {
    let columns = covers(picture.size.width, size.width);
    let (wide, high) = (share_of_one(size.width), share_of_one(size.height));
    let (pixels, _) = picture.samples.as_chunks::<N>();
    let rows: Vec<&[[u8; N]]> = pixels.chunks_exact(picture.size.width).collect();
    let area = u64::try_from(picture.size.pixels()).unwrap_or(u64::MAX);
    let mut samples = Vec::with_capacity(size.pixels() * N);
    for cover in covers(picture.size.height, size.height) {
        let mut sums = vec![[0; N]; size.width];
        for (at, row) in rows.iter().enumerate().take(cover.last + 1).skip(cover.first) {
            let share = match at {
                at if at == cover.first => cover.first_share,
                at if at == cover.last => cover.last_share,
                _ => high,
            };
            add::<N, ALPHA>(row, share, &columns, wide, &mut sums);
        }
        samples.extend(sums.into_iter().flat_map(|sum| average::<N, ALPHA>(sum, area)));
    }
    samples
}

/// What a pixel counts that is covered as a whole.
fn share_of_one(side: usize) -> u32 {
    u32::try_from(side).unwrap_or(u32::MAX)
}

/// Adds a share of a row to the sums of a row of the preview. Nothing overflows: shares along a
/// row sum up to 20,000, and what they multiply is at most 255 times 255.
fn add<const N: usize, const ALPHA: bool>(
    row: &[[u8; N]],
    share: u32,
    columns: &[Cover],
    wide: u32,
    sums: &mut [[u64; N]],
) {
    for (cover, sum) in columns.iter().zip(sums) {
        let Some([first, others @ ..]) = row.get(cover.first..=cover.last) else { continue };
        let mut total = weighed::<N, ALPHA>(first).map(|channel| channel * cover.first_share);
        if let [inner @ .., last] = others {
            let mut whole = [0; N];
            for pixel in inner {
                let pixel = weighed::<N, ALPHA>(pixel);
                (0..N).for_each(|at| whole[at] += pixel[at]);
            }
            let last = weighed::<N, ALPHA>(last);
            (0..N).for_each(|at| total[at] += whole[at] * wide + last[at] * cover.last_share);
        }
        (0..N).for_each(|at| sum[at] += u64::from(total[at]) * u64::from(share));
    }
}

/// Colours count as much as they can be seen; else what is transparent would bleed.
fn weighed<const N: usize, const ALPHA: bool>(pixel: &[u8; N]) -> [u32; N] {
    let mut weighed = pixel.map(u32::from);
    if ALPHA {
        (0..N - 1).for_each(|at| weighed[at] *= weighed[N - 1]);
    }
    weighed
}

/// The average of an area, to the nearest.
fn average<const N: usize, const ALPHA: bool>(sum: [u64; N], area: u64) -> [u8; N] {
    let over = |sum: u64, weight: u64| {
        u8::try_from((sum + weight / 2).checked_div(weight).unwrap_or(0)).unwrap_or(u8::MAX)
    };
    let seen = if ALPHA { sum[N - 1] } else { area };
    let mut average = sum.map(|channel| over(channel, seen));
    if ALPHA {
        average[N - 1] = over(seen, area);
    }
    average
}

#[cfg(test)]
mod tests {
    use super::{reduced, target};
    use crate::support::files::preview::picture::{Layout, Picture, Size};
    use crate::support::files::preview::samples::gradient;

    fn size(width: usize, height: usize) -> Size {
        Size { width, height }
    }

    /// A picture of one pixel over and over.
    fn plain(size: Size, layout: Layout, pixel: &[u8]) -> Picture {
        Picture { size, layout, samples: pixel.repeat(size.pixels()) }
    }

    #[test]
    fn the_longest_side_is_shortened_and_the_shape_stays() {
        for (from, to) in [
            ((1_024, 1_024), (1_024, 1_024)),
            ((1, 1), (1, 1)),
            ((2_048, 1_000), (1_024, 500)),
            ((1_000, 2_048), (500, 1_024)),
            ((6_000, 4_000), (1_024, 683)),
            ((1_025, 1_025), (1_024, 1_024)),
            ((20_000, 1), (1_024, 1)),
            ((3, 20_000), (1, 1_024)),
        ] {
            assert_eq!(target(size(from.0, from.1)), size(to.0, to.1), "{from:?}");
        }
    }

    #[test]
    fn what_is_small_stays_as_it_is() {
        let small = || gradient(size(1_024, 2), Layout::Rgba);
        assert_eq!(reduced(small()), small());
    }

    #[test]
    fn what_is_plain_stays_plain() {
        for (from, to) in
            [((20_000, 3), (1_024, 1)), ((1_025, 7), (1_024, 7)), ((5, 3_001), (2, 1_024))]
        {
            let (from, to) = (size(from.0, from.1), size(to.0, to.1));
            for (layout, pixel) in [
                (Layout::Grey, &[7][..]),
                (Layout::GreyAlpha, &[255, 3]),
                (Layout::Rgb, &[1, 254, 255]),
                (Layout::Rgba, &[200, 100, 50, 255]),
            ] {
                assert_eq!(reduced(plain(from, layout, pixel)), plain(to, layout, pixel));
            }
            let clear = reduced(plain(from, Layout::Rgba, &[9, 9, 9, 0]));
            assert_eq!(clear, plain(to, Layout::Rgba, &[0; 4]));
        }
    }

    #[test]
    fn areas_are_averaged() {
        let samples = [[0, 100, 50, 150].repeat(512), [20; 2_048].to_vec()].concat();
        let halves = Picture { size: size(2_048, 2), layout: Layout::Grey, samples };
        assert_eq!(reduced(halves).samples, [35, 60].repeat(512));
        // Three of the original are two of the preview: each has a half of the one between them.
        let thirds = Picture {
            size: size(1_536, 1),
            layout: Layout::Grey,
            samples: [0, 30, 90].repeat(512),
        };
        assert_eq!(reduced(thirds).samples, [10, 70].repeat(512));
        let tall = Picture {
            size: size(1, 1_536),
            layout: Layout::Rgb,
            samples: [0, 0, 0, 30, 30, 60, 90, 0, 0].repeat(512),
        };
        assert_eq!(reduced(tall).samples, [10, 10, 20, 70, 10, 20].repeat(512));
    }

    #[test]
    fn what_is_transparent_does_not_bleed() {
        let samples = [[255, 0, 0, 0], [0, 0, 200, 255]].concat().repeat(1_024);
        let half = Picture { size: size(2_048, 1), layout: Layout::Rgba, samples };
        assert_eq!(reduced(half).samples, [0, 0, 200, 128].repeat(1_024));
        let samples = [[100, 50], [200, 150]].concat().repeat(1_024);
        let half = Picture { size: size(2_048, 1), layout: Layout::GreyAlpha, samples };
        assert_eq!(reduced(half).samples, [175, 100].repeat(1_024));
    }
}
