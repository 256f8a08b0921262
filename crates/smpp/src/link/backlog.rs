//! Submissions that wait for the window or the pace: urgent ones first, throttled ones in the place
//! they had.

use std::collections::VecDeque;

use clock::Millis;

use super::{Job, Lane, NotSent, Outcome};
use crate::status::Status;

/// The waiting submissions.
pub(super) struct Backlog<K> {
    lanes: [VecDeque<Job<K>>; 2],
    /// Counts those that came.
    came: u64,
}

impl<K> Backlog<K> {
    pub(super) const fn new() -> Self {
        Self { lanes: [VecDeque::new(), VecDeque::new()], came: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    pub(super) fn push(&mut self, mut job: Job<K>) {
        self.came += 1;
        job.place_in_line = self.came;
        self.lane(job.submission.lane).push_back(job);
    }

    /// Puts one back to the place that it had: before all that came later.
    pub(super) fn put_back(&mut self, job: Job<K>) {
        let lane = self.lane(job.submission.lane);
        let later = lane.iter().position(|other| other.place_in_line > job.place_in_line);
        lane.insert(later.unwrap_or(lane.len()), job);
    }

    /// The next such one that somebody still wants.
    pub(super) fn pop_where(&mut self, fits: impl Fn(&Job<K>) -> bool) -> Option<Job<K>> {
        self.lanes.iter_mut().find_map(|lane| {
            while lane.front().is_some_and(|job| job.answer.is_closed()) {
                lane.pop_front();
            }
            let at = lane.iter().position(|job| !job.answer.is_closed() && fits(job))?;
            lane.remove(at)
        })
    }

    /// All that somebody still wants.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Job<K>> {
        self.lanes.iter().flatten().filter(|job| !job.answer.is_closed())
    }

    /// Gives back such ones; those that the centre said nothing of yet with what it says of others.
    pub(super) fn give_back(&mut self, fits: impl Fn(&Job<K>) -> bool, throttled: Option<Status>) {
        for lane in &mut self.lanes {
            if !lane.iter().any(&fits) {
                continue;
            }
            let (back, kept): (VecDeque<Job<K>>, _) = lane.drain(..).partition(&fits);
            *lane = kept;
            for mut job in back {
                job.throttled = job.throttled.or(throttled);
                job.give_up(NotSent::Expired);
            }
        }
    }

    /// When the first of them expires.
    pub(super) fn expires_at(&self) -> Option<Millis> {
        self.lanes.iter().flatten().map(|job| job.submission.expires_at).min()
    }

    /// Gives up those whose time has come; where the centre throttles all the while, with what it
    /// says.
    pub(super) fn expire(&mut self, now: Millis, throttled: Option<Status>) {
        if self.expires_at().is_none_or(|at| now < at) {
            return;
        }
        self.give_back(|job| job.submission.expires_at <= now, throttled);
    }

    /// Gives up all of them.
    pub(super) fn clear(&mut self) {
        let all = self.lanes.iter_mut().flat_map(|lane| lane.drain(..));
        all.for_each(|job| job.give_up(NotSent::Closed));
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Job<K>> {
        let [urgent, normal] = &mut self.lanes;
        match lane {
            Lane::Urgent => urgent,
            Lane::Normal => normal,
        }
    }
}

impl<K> Job<K> {
    /// It will not be written any more.
    pub(super) fn give_up(self, why: NotSent) {
        let outcome = match self.throttled {
            Some(status) => Outcome::Refused { status },
            None => Outcome::NotSent(why),
        };
        // Nobody waits for it any more.
        let _gone = self.answer.send(outcome);
    }
}
