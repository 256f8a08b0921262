//! Whether the other side is still there: `enquire_link` (SMPP 3.4 §2.6, §4.11).

use clock::Millis;

/// What was heard of the other side, and asked.
#[derive(Debug)]
pub(super) struct Enquiry {
    pub(super) heard_at: Millis,
    pub(super) asked_at: Option<Millis>,
    pub(super) unanswered: u8,
    /// A request was not answered in time, and nothing came since.
    pub(super) is_doubted: bool,
}

impl Enquiry {
    pub(super) const fn heard(at: Millis) -> Self {
        Self { heard_at: at, asked_at: None, unanswered: 0, is_doubted: false }
    }

    /// Whether an answer is owed for too long.
    pub(super) const fn is_silent(&self) -> bool {
        self.is_doubted || self.unanswered > 0
    }
}
