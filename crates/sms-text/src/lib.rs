//! Text as SMS carries it: which alphabet a text needs, how many segments it makes and where it is
//! cut, the octets of each part, and the way back for what handsets send.
//!
//! Nothing here does I/O, fails on hostile input or allocates before it has to: cutting a text
//! borrows from it.
//!
//! ```
//! use sms_text::{Encoding, Reference, Segments};
//!
//! let text = "Bonjour, votre colis arrive demain à 9 h.";
//! let segments = Segments::of(text, Reference::Octet)?;
//! assert_eq!((segments.encoding(), segments.count()), (Encoding::Gsm7, 1));
//! # Ok::<(), sms_text::TooLong>(())
//! ```

mod data_coding;
pub mod gsm7;
mod segments;
mod transliterate;
pub mod ucs2;
mod user_data_header;

pub use data_coding::{Alphabet, latin1};
pub use segments::{Encoding, MAX_SEGMENTS, Part, Segments, TooLong};
pub use transliterate::transliterate;
pub use user_data_header::{Concatenation, Reference, UserDataHeader};
