//! Where a text is cut. The count is what a message costs, so it is taken before anything is sent,
//! and the same cuts are used to send it.

use unicode_segmentation::GraphemeCursor;

use crate::{Reference, gsm7, ucs2};

/// The most segments that a message may have.
pub const MAX_SEGMENTS: usize = 10;

/// Octets of user data in one message over the air (3GPP TS 23.040 §9.2.3.24).
const OCTETS: usize = 140;

/// The alphabet that a text is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The GSM 7-bit default alphabet with its extension table: 160 septets, 153 in a part.
    Gsm7,
    /// UTF-16: 70 units, 67 in a part.
    Ucs2,
}

impl Encoding {
    /// Septets or units in a message that is not cut.
    const fn room(self) -> usize {
        match self {
            Self::Gsm7 => OCTETS * 8 / 7,
            Self::Ucs2 => OCTETS / 2,
        }
    }

    /// Septets or units in a part behind its header.
    const fn room_in_part(self, reference: Reference) -> usize {
        let octets = OCTETS - reference.header_octets();
        match self {
            Self::Gsm7 => octets * 8 / 7,
            Self::Ucs2 => octets / 2,
        }
    }

    /// Septets or units of a character.
    fn width(self, letter: char) -> usize {
        match self {
            Self::Gsm7 => gsm7::weight(letter),
            Self::Ucs2 => letter.len_utf16(),
        }
    }
}

/// The text needs more than [`MAX_SEGMENTS`] segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text needs more than {MAX_SEGMENTS} segments")]
pub struct TooLong;

/// A text, its encoding and its cuts. Borrows the text, allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Segments<'a> {
    text: &'a str,
    encoding: Encoding,
    cuts: Cuts,
}

impl std::fmt::Debug for Segments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the text: it belongs to somebody.
        write!(f, "Segments({:?}, {})", self.encoding, self.cuts.count)
    }
}

impl<'a> Segments<'a> {
    /// Chooses the encoding (GSM-7 where it has every character, else UCS-2) and cuts the text for
    /// headers of this kind. No character is cut, and no grapheme cluster unless that saves a
    /// segment. Work is bounded however long the text is.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn of(text: &'a str, reference: Reference) -> Result<Self, TooLong> {
        let (encoding, size) = weigh(text);
        let cuts = if size <= encoding.room() {
            Cuts::one(text)
        } else {
            cut_between_clusters(text, encoding, encoding.room_in_part(reference))?
        };
        Ok(Self { text, encoding, cuts })
    }

    /// The alphabet.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// How many there are: 1 to [`MAX_SEGMENTS`].
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.cuts.count)
    }

    /// The parts in their order; an empty text has one.
    #[must_use]
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Part<'a>> {
        let Self { text, encoding, cuts } = *self;
        (0..self.count()).map(move |number| {
            let start = number.checked_sub(1).map_or(0, |before| cuts.end(before));
            // Cuts are between characters of this text.
            let text = text.get(start..cuts.end(number)).unwrap_or_default();
            Part { text, encoding }
        })
    }
}

/// What one segment carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// Its text.
    pub text: &'a str,
    /// Its alphabet.
    pub encoding: Encoding,
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Part({:?}, {} octets of UTF-8)", self.encoding, self.text.len())
    }
}

impl Part<'_> {
    /// Appends the text as SMPP carries it: one septet in an octet, or two octets for a unit.
    pub fn encode_into(self, octets: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Gsm7 => gsm7::encode_into(self.text, octets),
            Encoding::Ucs2 => ucs2::encode_into(self.text, octets),
        }
    }
}

/// Where parts end, in octets of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cuts {
    ends: [u16; MAX_SEGMENTS],
    count: u8,
}

impl Cuts {
    const NONE: Self = Self { ends: [0; MAX_SEGMENTS], count: 0 };

    fn one(text: &str) -> Self {
        let mut cuts = Self::NONE;
        // A text that fits one segment has at most 480 octets.
        let _fits = cuts.push(text.len());
        cuts
    }

    fn push(&mut self, end: usize) -> Result<(), TooLong> {
        let slot = self.ends.get_mut(usize::from(self.count)).ok_or(TooLong)?;
        *slot = u16::try_from(end).map_err(|_| TooLong)?;
        self.count += 1;
        Ok(())
    }

    fn end(&self, number: usize) -> usize {
        self.ends.get(number).copied().map_or(0, usize::from)
    }
}

/// The encoding and the septets or units, as far as they matter: GSM-7 if it has every character.
/// What is too long in GSM-7 is too long in UCS-2 as well, so looking further than that is of no
/// use.
fn weigh(text: &str) -> (Encoding, usize) {
    let looked_at = text.chars().take(Encoding::Gsm7.room() * MAX_SEGMENTS + 1);
    let septets: usize = looked_at.clone().map(gsm7::weight).sum();
    if septets < gsm7::FOREIGN {
        return (Encoding::Gsm7, septets);
    }
    let units = looked_at.map(char::len_utf16).sum();
    (Encoding::Ucs2, units)
}

fn cut_between_clusters(text: &str, encoding: Encoding, part: usize) -> Result<Cuts, TooLong> {
    let anywhere = cut(text, encoding, part, |_, end| end)?;
    if encoding == Encoding::Gsm7 {
        // It has no marks that combine.
        return Ok(anywhere);
    }
    let between = cut(text, encoding, part, |start, end| cluster_before(text, start, end));
    Ok(between.ok().filter(|cuts| cuts.count == anywhere.count).unwrap_or(anywhere))
}

/// Fills part after part. `place` moves an end forward to a better place behind the start.
fn cut(
    text: &str,
    encoding: Encoding,
    room: usize,
    place: impl Fn(usize, usize) -> usize,
) -> Result<Cuts, TooLong> {
    let mut cuts = Cuts::NONE;
    let (mut start, mut used) = (0, 0);
    for (at, letter) in text.char_indices() {
        let width = encoding.width(letter);
        if used + width > room {
            let better = place(start, at);
            let carried = text.get(better..at).unwrap_or_default().chars();
            used = carried.map(|letter| encoding.width(letter)).sum();
            start = better;
            if used + width > room {
                // The cluster is longer than a part.
                (start, used) = (at, 0);
            }
            cuts.push(start)?;
        }
        used += width;
    }
    cuts.push(text.len())?;
    Ok(cuts)
}

/// The end of the last grapheme cluster that ends at `end` or before; `end` if that one began
/// before the part.
fn cluster_before(text: &str, start: usize, end: usize) -> usize {
    let mut cursor = GraphemeCursor::new(end, text.len(), true);
    if cursor.is_boundary(text, 0).unwrap_or(true) {
        return end;
    }
    match cursor.prev_boundary(text, 0) {
        Ok(Some(boundary)) if boundary > start => boundary,
        _ => end,
    }
}
