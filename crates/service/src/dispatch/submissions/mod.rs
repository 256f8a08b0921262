//! What carriers call the parts that they have: their receipts may name nothing else.

mod store;

pub(super) use self::store::{
    Lead, Submission, fate, fates, found, hide, is_hidden, lead, of_object, set_fate, submitted,
};
pub use self::store::{object_of, open_elsewhere};
