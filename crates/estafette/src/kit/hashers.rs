//! Places for work that takes much memory and time, such as hashing a password: few at a time, a
//! bounded line before them, and shares of that line that no one exceeds. Staff have a line and a
//! seat of their own, so that no crowd of guests and users keeps them out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most that stand in one line, those at work among them.
const LONGEST_LINE: usize = 64;
/// Most of a line for one address: a quarter.
pub const SHARE_OF_ADDRESS: usize = LONGEST_LINE / 4;

/// Which line somebody stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desk {
    /// Guests and users.
    Public,
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
    /// The line is full.
    Full,
    /// The line has room, but not for more of theirs.
    OverShare,
}

/// The lines of this process.
pub struct Hashers {
    public: Line,
    staff: Line,
}

struct Line {
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
    /// So many places for guests and users, at least one; staff have one more.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { public: Line::new(places.max(1)), staff: Line::new(1) }
    }

    /// Waits in line for a seat.
    ///
    /// # Errors
    /// [`Refusal`], at once.
    pub async fn seat(&self, desk: Desk, shares: Vec<Share>) -> Result<Seat, Refusal> {
        let line = match desk {
            Desk::Public => &self.public,
            Desk::Staff => &self.staff,
        };
        let turn = line.enter(shares)?;
        let permit = Arc::clone(&line.places).acquire_owned().await.map_err(|_| Refusal::Full)?;
        Ok(Seat { _permit: permit, _turn: turn })
    }
}

impl Line {
    fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), standing: Arc::default() }
    }

    fn enter(&self, shares: Vec<Share>) -> Result<InLine, Refusal> {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |share: &Share| standing.by_share.get(&share.of).copied().unwrap_or_default();
        if shares.iter().any(|share| of(share) >= share.most) {
            return Err(Refusal::OverShare);
        }
        if standing.all >= LONGEST_LINE {
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
        let line = Line::new(1);
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
        let line = Line::new(1);
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
}
