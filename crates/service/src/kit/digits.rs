//! Rank 0: decimal digits as people type them, in any script.

/// First digit of each decimal run that people type.
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xe50, 0xed0, 0xf20, 0x1040, 0x17e0, 0x1810, 0xff10,
];

/// The ASCII digit that a letter stands for; `None` when it is no digit.
#[must_use]
pub fn digit(letter: char) -> Option<char> {
    let point = u32::from(letter);
    let zero = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&point))?;
    char::from_digit(point - zero, 10)
}
