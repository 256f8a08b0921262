//! Claims of what is due in one environment, for tables that have rows of both: passcodes, attempts
//! and consent sessions.
//!
//! A look takes the longest due first. Where that is as much as it may take, what is due is more
//! than this node does at once, and most of it may be one account's: one whose messages all knock
//! in vain. Then every second look is *by share*. It reads a stretch of what is due, without
//! claiming it, and takes of every account in it the first before the second of any. The next one
//! reads on behind it once each had its share, whatever else of theirs is left. So another's due
//! row waits for two looks for every [`STRETCH`] rows before it, and not for all of those to be
//! done; and what is longest due is passed by every second look only. It needs no index by account,
//! which would cost every look a step for each account that has something open (decision 0030).

use std::collections::{HashMap, HashSet};

use clock::Millis;
use store::{CommitError, Error, FromRow, Row, Sql, WriteSet, args};

use crate::app::App;
use crate::kit::id::AccountId;

/// Work of many accounts, which is routed by a word of its own.
pub(super) const DUE_SHARD: &str = "due";
/// Rows that a look by share reads.
const STRETCH: usize = 2_048;
/// Rows that an account gets of a look by share at most, before the next reads on behind.
const SHARE: usize = 64;

/// What is claimed, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// What is due by then.
    pub due_at: Millis,
    /// When the claim ends: until then no other node finds it due.
    pub until: Millis,
    /// How many rows at most.
    pub limit: usize,
}

/// The statements of a table.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// The environment of a due row: of one that an earlier version made, which says none, or else
    /// of this one. Takes the time and the environment.
    pub any: Sql,
    /// Says of which environment due rows are that an earlier version made. Takes the time and how
    /// many.
    pub adopt: Sql,
    /// Takes due rows. Takes the claim's end, the environment, the time and how many.
    pub claim: Sql,
    /// A stretch of due rows: account, id and since when. Takes the environment, the time that it
    /// begins after, the time and how many.
    pub stretch: Sql,
    /// Takes one due row. Takes the claim's end, the account, the id and the time.
    pub take: Sql,
    /// Since when a row of either environment is due. Takes the time.
    pub oldest: Sql,
}

/// How far a node has come through what is due in its environment.
#[derive(Debug, Default)]
pub struct Round {
    /// Whether the last look left some.
    is_crowded: bool,
    /// Whether it went by share.
    was_by_share: bool,
    /// The next look by share begins after this time.
    after: Millis,
}

/// A due row that is not claimed yet.
#[derive(Clone, Debug)]
struct Due {
    account: AccountId,
    id: String,
    next_at: Millis,
}

impl FromRow for Due {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self { account: row.take(0)?, id: row.take(1)?, next_at: row.take(2)? })
    }
}

impl Claims {
    /// Claims due rows, the longest due first, or by share where many are due.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn claim<T: FromRow>(
        &self,
        app: &App,
        round: &mut Round,
        claim: Claim,
    ) -> Result<Vec<T>, CommitError> {
        let (Claim { due_at, until, limit }, env) = (claim, app.env.as_str());
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let any = app.db.row::<(Option<String>,)>(self.any, args![due_at, env]).await?;
        let Some((found,)) = any else {
            *round = Round::default();
            return Ok(Vec::new());
        };
        let mut set = WriteSet::of(DUE_SHARD);
        if found.is_none() {
            set.push(self.adopt, args![due_at, most]);
        }
        let is_by_share = round.is_crowded && !round.was_by_share;
        round.was_by_share = is_by_share;
        if is_by_share {
            for Due { account, id, .. } in self.by_share(app, round, claim).await? {
                set.returning_rows(self.take, args![until, &account, id, due_at]);
            }
        } else {
            set.returning_rows(self.claim, args![until, env, due_at, most]);
        }
        if set.is_empty() {
            return Ok(Vec::new());
        }
        let rows = app.db.commit(set).await?.rows.into_iter().flatten();
        let claimed = rows.map(T::from_row).collect::<Result<Vec<_>, _>>()?;
        if !is_by_share {
            round.is_crowded = claimed.len() >= limit;
        }
        if !round.is_crowded {
            *round = Round::default();
        }
        Ok(claimed)
    }

    /// What a look by share takes.
    async fn by_share(
        &self,
        app: &App,
        round: &mut Round,
        Claim { due_at, limit, .. }: Claim,
    ) -> Result<Vec<Due>, Error> {
        let mut line: Vec<Due> = Vec::new();
        // Behind the last stretch comes the first one.
        for after in [round.after, Millis(0)] {
            round.after = after;
            let most = i64::try_from(STRETCH).unwrap_or(i64::MAX);
            line = app.db.rows(self.stretch, args![app.env.as_str(), after, due_at, most]).await?;
            if !line.is_empty() || after == Millis(0) {
                break;
            }
        }
        let is_whole = line.len() < STRETCH;
        let taken = shares(&line, limit);
        round.is_crowded = !is_whole || round.after > Millis(0) || taken.len() < line.len();
        let next = Next { is_whole, share: share_of(&line, limit) };
        round.after = next.after(&line, &taken);
        Ok(taken.into_iter().filter_map(|place| line.get(place.at).cloned()).collect())
    }

    /// Since when work is due; `None` = none is.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn oldest(&self, app: &App) -> Result<Option<Millis>, Error> {
        let found = app.db.row::<(Option<Millis>,)>(self.oldest, args![app.now()]).await?;
        Ok(found.and_then(|(next_at,)| next_at))
    }
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Rows of its account before it.
    of_account: usize,
    /// In the line.
    at: usize,
}

/// The places of a line, in its order.
fn places(line: &[Due]) -> impl Iterator<Item = Place> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    line.iter().enumerate().map(move |(at, due)| {
        let before = seen.entry(due.account.as_str()).or_default();
        *before += 1;
        Place { of_account: *before - 1, at }
    })
}

/// Those of a line that a look takes: the first of every account before the second of any.
fn shares(line: &[Due], limit: usize) -> Vec<Place> {
    let mut taken: Vec<Place> = places(line).collect();
    taken.sort_unstable();
    taken.truncate(limit);
    taken
}

/// What every account of a line gets of one look.
fn share_of(line: &[Due], limit: usize) -> usize {
    let accounts: HashSet<&str> = line.iter().map(|due| due.account.as_str()).collect();
    SHARE.min(limit / accounts.len().max(1)).max(1)
}

/// How a round goes on behind a line.
struct Next {
    /// Whether nothing is behind it.
    is_whole: bool,
    share: usize,
}

impl Next {
    /// After when the next look begins: it passes what is left of accounts that had their share.
    fn after(&self, line: &[Due], taken: &[Place]) -> Millis {
        let time = |at: usize| line.get(at).map_or(Millis(0), |due| due.next_at);
        let last_taken = taken.iter().max().copied();
        let is_left = |place: &Place| last_taken.is_none_or(|last| *place > last);
        let mut left = places(line).filter(|place| place.of_account < self.share && is_left(place));
        if let Some(left) = left.next() {
            return time(left.at) - 1;
        }
        if self.is_whole {
            return Millis(0);
        }
        let (first, last) = (time(0), time(line.len().saturating_sub(1)));
        // Others of the last millisecond may be behind it.
        if first == last { last } else { last - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row a millisecond: so many of each account, one account after the other.
    fn line(accounts: &[(&str, usize)]) -> Vec<Due> {
        let owners = accounts.iter().flat_map(|(account, rows)| vec![*account; *rows]);
        let due = |(at, account): (i64, &str)| Due {
            account: AccountId::stored(account.to_owned()),
            id: at.to_string(),
            next_at: Millis(at),
        };
        (1..).zip(owners).map(due).collect()
    }

    fn next(line: &[Due], limit: usize, is_whole: bool) -> Millis {
        Next { is_whole, share: share_of(line, limit) }.after(line, &shares(line, limit))
    }

    fn count(line: &[Due], taken: &[Place], account: &str) -> usize {
        taken.iter().filter(|place| line[place.at].account.as_str() == account).count()
    }

    #[test]
    fn one_account_alone_has_the_whole_look() {
        let line = line(&[("ada", 600)]);
        let taken = shares(&line, 256);
        assert_eq!(taken.len(), 256);
        assert_eq!(next(&line, 256, true), Millis(0));
    }

    #[test]
    fn the_first_of_each_comes_before_the_second_of_any() {
        let line = line(&[("ada", 600), ("ben", 3)]);
        let taken = shares(&line, 256);
        assert_eq!(count(&line, &taken, "ben"), 3);
        let first: Vec<usize> = taken.iter().take(3).map(|place| place.at).collect();
        assert_eq!(first, [0, 600, 1]);
    }

    #[test]
    fn what_is_left_of_those_who_had_their_share_is_passed() {
        let line = line(&[("ada", 600), ("ben", 3)]);
        let taken = shares(&line, 256);
        assert_eq!((count(&line, &taken, "ada"), count(&line, &taken, "ben")), (253, 3));
        // The last millisecond is read again.
        assert_eq!(next(&line, 256, false), Millis(602));
    }

    #[test]
    fn however_many_have_much_due_who_is_behind_them_comes_next() {
        let line = line(&[("ada", 410), ("ben", 410), ("cid", 410), ("dan", 410), ("eve", 410)]);
        let taken = shares(&line, 256);
        assert_eq!(count(&line, &taken, "eve"), 51);
        assert_eq!(next(&line, 256, false), Millis(2_049));
    }

    #[test]
    fn nobody_is_passed_who_had_less_than_a_share() {
        let line = line(&[("ada", 2), ("ben", 1), ("cid", 1), ("dan", 1)]);
        let taken = shares(&line, 3);
        assert_eq!((count(&line, &taken, "ada"), count(&line, &taken, "cid")), (1, 1));
        assert_eq!(next(&line, 3, false), Millis(4), "dan's is the fifth");
    }

    #[test]
    fn a_stretch_of_one_millisecond_is_passed() {
        let mut line = line(&[("ada", 300)]);
        for due in &mut line {
            due.next_at = Millis(7);
        }
        assert_eq!(next(&line, 256, false), Millis(7));
    }
}
