//! Requests that wait for their responses, and the numbers that connect the two
//! (SMPP 3.4 §2.7.1, §5.1.4).

use std::collections::VecDeque;

use clock::Millis;

use crate::message::Operation;

/// `sequence_number`: 1 to 0x7FFFFFFF, then 1 again (SMPP 3.4 §5.1.4).
#[derive(Debug)]
pub(crate) struct Sequence {
    next: u32,
}

impl Sequence {
    const LAST: u32 = 0x7FFF_FFFF;

    pub(crate) const fn starting_at(next: u32) -> Self {
        Self { next }
    }

    pub(crate) const fn take(&mut self) -> u32 {
        let taken = self.next;
        self.next = if taken >= Self::LAST { 1 } else { taken + 1 };
        taken
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) sequence: u32,
    pub(crate) operation: Operation,
    /// The sender's own number of it.
    pub(crate) key: u64,
    pub(crate) sent_at: Millis,
}

/// How many requests are remembered after their time, to recognise a late answer.
const OVERDUE: usize = 1_000;

/// The requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// In the order of sending.
    waiting: VecDeque<Slot>,
    overdue: VecDeque<Slot>,
}

/// The request that a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    InTime(Slot),
    Late(Slot),
    /// Nobody asked.
    Stray,
}

impl Window {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn oldest(&self) -> Option<Millis> {
        self.waiting.front().map(|slot| slot.sent_at)
    }

    pub(crate) fn push(&mut self, slot: Slot) {
        // After a wrap the number may be in use by one that nobody waits for any more.
        self.overdue.retain(|old| old.sequence != slot.sequence);
        self.waiting.push_back(slot);
    }

    /// The request that a response to an operation answers; `None` = to any, as `generic_nack` is.
    pub(crate) fn answer(&mut self, sequence: u32, operation: Option<Operation>) -> Match {
        let is_it = |slot: &Slot| {
            slot.sequence == sequence && operation.is_none_or(|answered| answered == slot.operation)
        };
        if let Some(slot) = take(&mut self.waiting, is_it) {
            return Match::InTime(slot);
        }
        take(&mut self.overdue, is_it).map_or(Match::Stray, Match::Late)
    }

    /// Takes one that was sent at `until` or before.
    pub(crate) fn expire(&mut self, until: Millis) -> Option<Slot> {
        let slot = *self.waiting.front().filter(|slot| slot.sent_at <= until)?;
        self.waiting.pop_front();
        if self.overdue.len() >= OVERDUE {
            self.overdue.pop_front();
        }
        self.overdue.push_back(slot);
        Some(slot)
    }

    /// Takes all that wait: the link is gone.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Slot> {
        self.waiting.drain(..)
    }
}

/// Centres answer in order, nearly always.
fn take(slots: &mut VecDeque<Slot>, is_it: impl Fn(&Slot) -> bool) -> Option<Slot> {
    let at = slots.iter().position(is_it)?;
    slots.remove(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_to_one() {
        let mut sequence = Sequence::starting_at(0x7FFF_FFFE);
        let taken: Vec<u32> = (0..4).map(|_| sequence.take()).collect();
        assert_eq!(taken, [0x7FFF_FFFE, 0x7FFF_FFFF, 1, 2]);
    }

    #[test]
    fn a_late_answer_finds_its_request_until_the_number_is_used_again() {
        let submit = Operation::Submit;
        let slot =
            |sequence, key, at| Slot { sequence, operation: submit, key, sent_at: Millis(at) };
        let mut window = Window::default();
        window.push(slot(1, 10, 0));
        window.push(slot(2, 20, 5));
        assert_eq!(window.expire(Millis(4)), Some(slot(1, 10, 0)));
        assert_eq!(window.expire(Millis(4)), None);
        assert_eq!(window.answer(1, Some(submit)), Match::Late(slot(1, 10, 0)));
        assert_eq!(window.answer(1, Some(submit)), Match::Stray);
        assert_eq!(window.expire(Millis(5)), Some(slot(2, 20, 5)));
        window.push(slot(2, 30, 9));
        assert_eq!(window.answer(2, Some(submit)), Match::InTime(slot(2, 30, 9)));
        assert_eq!(window.answer(2, Some(submit)), Match::Stray);
    }

    #[test]
    fn the_answer_to_another_operation_is_not_the_request_s() {
        let submit = Operation::Submit;
        let asked = Slot { sequence: 7, operation: submit, key: 1, sent_at: Millis(0) };
        let mut window = Window::default();
        window.push(asked);
        assert_eq!(window.answer(7, Some(Operation::Deliver)), Match::Stray);
        assert_eq!(window.answer(7, Some(Operation::Data)), Match::Stray);
        assert_eq!(window.answer(7, Some(submit)), Match::InTime(asked));
        window.push(asked);
        assert_eq!(window.answer(7, None), Match::InTime(asked));
    }
}
