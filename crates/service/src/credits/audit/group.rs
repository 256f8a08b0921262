//! What the transfers of one uuid must be to each other, and to the attempt that they pay for.

use ::store::{Error, FromRow, Row};
use clock::Millis;

use crate::credits::{Transfer, TransferKind, resolution_of};
use crate::kit::id::AttemptId;
use crate::kit::words::words;

/// One finding before it has an account: invariant and words.
pub(super) type Finding = (&'static str, String);

/// What the audit needs of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) id: String,
    /// A [`State`], as it is stored.
    state: String,
    pub(super) credits: i64,
    pub(super) object_id: String,
    pub(super) give_up_at: Millis,
}

words! {
    /// Where an attempt stands. The audit says it again, because it judges whoever says it first.
    pub(super) enum State {
        Queued = "queued",
        Sending = "sending",
        Unknown = "unknown",
        Accepted = "accepted",
        Delivered = "delivered",
        Undelivered = "undelivered",
        Refused = "refused",
        Failed = "failed",
        Lapsed = "lapsed",
        Late = "late",
        Expired = "expired",
    }
}

impl Attempt {
    /// Where it stands; `None` = nowhere that the service writes.
    pub(super) fn state(&self) -> Option<State> {
        self.state.parse().ok()
    }

    pub(super) fn key(&self) -> Option<u128> {
        AttemptId::parse(&self.id).map(|id| id.uuid().as_u128())
    }
}

impl FromRow for Attempt {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            state: row.take(1)?,
            credits: row.take(2)?,
            object_id: row.take(3)?,
            give_up_at: row.take(4)?,
        })
    }
}

/// A hold with its resolution and refund, or a movement by hand: the transfers of one UUID but
/// for its two lowest bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) first: Option<Transfer>,
    second: Option<Transfer>,
    refund: Option<Transfer>,
    stray: Option<Transfer>,
}

impl Group {
    pub(super) fn put(&mut self, transfer: Transfer) {
        let place = match transfer.id.uuid().as_u128() & 3 {
            0 => &mut self.first,
            1 => &mut self.second,
            2 => &mut self.refund,
            _ => &mut self.stray,
        };
        *place = Some(transfer);
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Transfer> {
        [&self.first, &self.second, &self.refund, &self.stray].into_iter().flatten()
    }

    /// Whether it pays for a message, rather than being made by hand.
    pub(super) fn is_of_attempt(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.kind() == Some(TransferKind::Hold))
    }

    pub(super) fn is_open(&self) -> bool {
        self.second.is_none() && self.is_of_attempt()
    }

    fn is_resolved_as(&self, kind: TransferKind) -> bool {
        self.second.as_ref().is_some_and(|second| second.kind() == Some(kind))
    }

    /// What the transfers must be to each other.
    pub(super) fn check_shape(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(stray) = &self.stray {
            findings.push(("I1", format!("{} {} belongs to no book", stray.kind, stray.id)));
        }
        match &self.first {
            Some(first) if first.kind().is_some_and(TransferKind::begins) => {}
            Some(first) => {
                findings.push(("I1", format!("{} {} belongs to no book", first.kind, first.id)));
            }
            None if self.second.is_some() || self.refund.is_some() => {
                findings.push(("I4", "a resolution or refund has no hold".to_owned()));
            }
            // Nothing at all: a group that was only asked for because of an attempt.
            None => {}
        }
        for transfer in self.rows().filter(|transfer| transfer.amount < 0) {
            findings.push(("I1", format!("{} has a negative amount", transfer.id)));
        }
        findings.extend(self.check_resolution());
        findings
    }

    fn check_resolution(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let Some(hold) = &self.first else { return findings };
        if let Some(second) = &self.second {
            let resolves =
                self.is_resolved_as(TransferKind::Post) || self.is_resolved_as(TransferKind::Void);
            let is_one = resolves && self.is_of_attempt();
            if !is_one || second.of.as_ref() != Some(&hold.id) || second.amount != hold.amount {
                let detail = format!("{} does not resolve its hold as it is", second.id);
                findings.push(("I4", detail));
            }
        }
        if let Some(refund) = &self.refund {
            let is_of_post = refund.of.as_ref() == Some(&resolution_of(&hold.id));
            let is_refund = refund.kind() == Some(TransferKind::Refund)
                && self.is_resolved_as(TransferKind::Post);
            if !is_refund || !is_of_post || refund.amount > hold.amount {
                findings.push(("I7", format!("{} does not refund a posted hold", refund.id)));
            }
        }
        findings
    }

    /// What the money must say of a message whose attempt stands like this.
    pub(super) fn check_fate(&self, attempt: &Attempt) -> Option<Finding> {
        // What costs nothing needs no hold.
        if attempt.credits == 0 && self.rows().next().is_none() {
            return None;
        }
        let is_held = self.is_of_attempt();
        let is_open = self.is_open() && self.refund.is_none();
        let is_voided = self.is_resolved_as(TransferKind::Void) && self.refund.is_none();
        let is_posted = self.is_resolved_as(TransferKind::Post);
        let is_refunded = is_posted && self.refund.is_some();
        let (invariant, is_right) = match attempt.state() {
            Some(State::Queued | State::Sending | State::Unknown) => ("I5", is_open),
            Some(State::Accepted | State::Delivered | State::Undelivered) => {
                ("I5", is_posted && !is_refunded)
            }
            Some(State::Refused | State::Expired) => ("I6", is_voided),
            Some(State::Failed | State::Lapsed | State::Late) => ("I6", is_voided || is_refunded),
            None => ("I5", false),
        };
        let money = match (is_held, is_refunded, is_posted, is_voided, is_open) {
            (false, ..) => "not held",
            (_, true, ..) => "refunded",
            (_, _, true, ..) => "posted",
            (_, _, _, true, _) => "voided",
            (.., true) => "held",
            _ => "in disorder",
        };
        if !is_held || !is_right {
            return Some((
                invariant,
                format!("the attempt is {}, its credits are {money}", attempt.state),
            ));
        }
        self.check_attempt(attempt)
    }

    /// Price and object of an attempt are those of its hold.
    fn check_attempt(&self, attempt: &Attempt) -> Option<Finding> {
        let hold = self.first.as_ref()?;
        if attempt.credits != hold.amount {
            let (price, amount) = (attempt.credits, hold.amount);
            return Some(("I5", format!("the attempt says {price} credits, its hold {amount}")));
        }
        (attempt.object_id != hold.object_id).then(|| {
            let (one, other) = (&attempt.object_id, &hold.object_id);
            ("I5", format!("the attempt is of {one}, its hold of {other}"))
        })
    }
}
