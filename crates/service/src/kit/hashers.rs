//! Places for work that takes much memory and time, such as hashing a password: few at a time, a
//! bounded line before them, and shares of that line that no one exceeds. Staff have a line and a
//! seat of their own, so that no crowd of guests and users keeps them out, and so have changes of
//! passwords, which can wait: nobody who logs in stands behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most that stand in one line, those at work among them.
const LONGEST_LINE: usize = 64;
/// Most that stand in the line of changes.
const LONGEST_LINE_OF_CHANGES: usize = 16;
/// Longest wait for a place. Whoever waited so long in vain is told that the line is full.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Most of a line for one address: a quarter.
pub const SHARE_OF_ADDRESS: usize = LONGEST_LINE / 4;

/// Which line somebody stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desk {
    /// Guests and users, to be let in.
    Public,
    /// Users who are in and change their password.
    Changes,
    /// The operator's staff, and whoever says so at their door.
    Staff,
}

/// Somebody whose share of a line is used, and how much of it they may have at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// An address, or the id of a person.
    pub of: String,
    /// How many may stand in line for them.
    pub most: usize,
}

/// Why somebody got no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The line is full, or too slow.
    Full,
    /// The line has room, but not for more of theirs.
    OverShare,
}

/// The lines of this process.
pub struct Hashers {
    public: Line,
    changes: Line,
    staff: Line,
}

struct Line {
    longest: usize,
    places: Arc<Semaphore>,
    standing: Arc<Mutex<Standing>>,
}

#[derive(Default)]
struct Standing {
    all: usize,
    by_share: HashMap<String, usize>,
}

/// A seat, given back when it is dropped, in whichever thread that is.
pub struct Seat {
    _permit: OwnedSemaphorePermit,
    _turn: InLine,
}

/// Somebody in line or at work.
struct InLine {
    standing: Arc<Mutex<Standing>>,
    shares: Vec<Share>,
}

impl Hashers {
    /// So many places for guests and users, at least one; changes and staff have one more each.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self {
            public: Line::new(places.max(1), LONGEST_LINE),
            changes: Line::new(1, LONGEST_LINE_OF_CHANGES),
            staff: Line::new(1, LONGEST_LINE),
        }
    }

    /// Waits in line for a seat.
    ///
    /// # Errors
    /// [`Refusal`], at once.
    pub async fn seat(&self, desk: Desk, shares: Vec<Share>) -> Result<Seat, Refusal> {
        let line = match desk {
            Desk::Public => &self.public,
            Desk::Changes => &self.changes,
            Desk::Staff => &self.staff,
        };
        let turn = line.enter(shares)?;
        let seat = Arc::clone(&line.places).acquire_owned();
        let waited = tokio::time::timeout(LONGEST_WAIT, seat).await;
        let permit = waited.map_err(|_| Refusal::Full)?.map_err(|_| Refusal::Full)?;
        Ok(Seat { _permit: permit, _turn: turn })
    }
}

impl Line {
    fn new(places: usize, longest: usize) -> Self {
        Self { longest, places: Arc::new(Semaphore::new(places)), standing: Arc::default() }
    }

    fn enter(&self, shares: Vec<Share>) -> Result<InLine, Refusal> {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |share: &Share| standing.by_share.get(&share.of).copied().unwrap_or_default();
        if shares.iter().any(|share| of(share) >= share.most) {
            return Err(Refusal::OverShare);
        }
        if standing.all >= self.longest {
            return Err(Refusal::Full);
        }
        standing.all += 1;
        for share in &shares {
            *standing.by_share.entry(share.of.clone()).or_default() += 1;
        }
        Ok(InLine { standing: Arc::clone(&self.standing), shares })
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.all -= 1;
        for share in &self.shares {
            let left = standing.by_share.get_mut(&share.of).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                standing.by_share.remove(&share.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Desk, Hashers, LONGEST_LINE, Line, Refusal, Share};

    fn share(of: &str, most: usize) -> Vec<Share> {
        vec![Share { of: of.to_owned(), most }]
    }

    #[test]
    fn one_party_never_has_more_than_its_share_and_gets_it_back() {
        let line = Line::new(1, LONGEST_LINE);
        let first = line.enter(share("ann", 2)).unwrap();
        let second = line.enter(share("ann", 2)).unwrap();
        assert_eq!(line.enter(share("ann", 2)).err(), Some(Refusal::OverShare));
        assert!(line.enter(share("bob", 2)).is_ok());
        drop(first);
        assert!(line.enter(share("ann", 2)).is_ok());
        drop(second);
        let standing = line.standing.lock().unwrap();
        assert_eq!((standing.all, standing.by_share.len()), (0, 0));
    }

    #[test]
    fn a_full_line_takes_nobody() {
        let line = Line::new(1, LONGEST_LINE);
        let all: Vec<_> = (0..LONGEST_LINE).map(|_| line.enter(Vec::new()).unwrap()).collect();
        assert_eq!(line.enter(share("ann", 2)).err(), Some(Refusal::Full));
        drop(all);
        assert!(line.enter(share("ann", 2)).is_ok());
    }

    #[tokio::test]
    async fn staff_have_a_place_when_all_others_are_taken() {
        let hashers = Hashers::new(1);
        let _taken = hashers.seat(Desk::Public, Vec::new()).await.unwrap();
        assert!(hashers.seat(Desk::Staff, Vec::new()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_stands_behind_changes_and_nobody_waits_for_ever() {
        let hashers = Hashers::new(1);
        let _change = hashers.seat(Desk::Changes, Vec::new()).await.unwrap();
        let refused = hashers.seat(Desk::Changes, Vec::new()).await.err();
        assert_eq!(refused, Some(Refusal::Full), "the seat was not given back in time");
        assert!(hashers.seat(Desk::Public, Vec::new()).await.is_ok());
    }
}
