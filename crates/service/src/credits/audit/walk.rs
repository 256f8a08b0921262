//! The walk through one account: every transfer that there is, beside the seals, the attempts and
//! the messages.

use ::store::{Sql, args};
use clock::DAY;
use uuid::Uuid;

use super::chain::{Blocks, difference};
use super::group::{Attempt, Finding, Group, State};
use super::{Dangling, MOST, Report, SECOND_LOOK, Scope, rest, store as sql};
use crate::app::App;
use crate::credits::seals::{self, Forgotten, Kind, NOBODY, Tally, terms::Terms};
use crate::credits::{Error, Transfer};
use crate::kit::id::{AttemptId, TransferId};
use crate::kit::walk::{Feed, Found};

/// Rows between two pauses.
const CHUNK: u64 = 1_000;
/// Looks at what seems wrong. Something may land between the two reads of each.
const LOOKS: u32 = 3;

/// No message of any channel is on its way for longer, whatever its row says, milliseconds.
const LONGEST_MS: i64 = 7 * DAY;

/// The walk through one account's rows.
pub(super) struct Walk<'a> {
    pub(super) app: &'a App,
    pub(super) account: &'a str,
    pub(super) report: &'a mut Report,
    pub(super) scope: &'a Scope<'a>,
    /// The newest seal when the audit began.
    pub(super) end: i64,
    /// Groups that look wrong, for another look.
    pub(super) suspects: Vec<u128>,
}

impl Walk<'_> {
    /// `found` are the account's terms; without them there is no such account.
    pub(super) async fn run(&mut self, found: Option<&Terms>) -> Result<(), Error> {
        let forgotten = self.forgotten(found).await?;
        self.transfers(&forgotten).await?;
        for channel in [sql::CHALLENGES, sql::MESSAGES, sql::CHATAPP_MESSAGES] {
            self.messages(channel, found).await?;
        }
        self.look_again(found).await
    }

    /// Attempts before this id may be gone: retention said so before it deleted them.
    async fn forgotten(&self, found: Option<&Terms>) -> Result<String, Error> {
        let Some(env) = found.and_then(|found| found.env.parse().ok()) else {
            return Ok(String::new());
        };
        let kind = Kind::Forgotten(Forgotten::Attempts(env));
        let mark = seals::newest_of(self.app, NOBODY, kind).await?;
        Ok(mark.map(|mark| mark.until).unwrap_or_default())
    }

    async fn transfers(&mut self, forgotten: &str) -> Result<(), Error> {
        let (app, account) = (self.app, self.account);
        let mut feed: Feed<'_, Transfer> = Feed::new(&app.db, sql::TRANSFERS, args![account]);
        let mut attempts: Feed<'_, Attempt> = Feed::new(&app.db, sql::ATTEMPTS, args![account]);
        let mut late = Late::new(app, account, self.end);
        let mut blocks = Blocks::new(app, account, Kind::Transfers, self.end);
        let (mut group, mut key) = (Group::default(), None);
        let mut read: u64 = 0;
        while let Some(found) = feed.next().await? {
            self.report.transfers += 1;
            read += 1;
            if read.is_multiple_of(CHUNK) && !rest(self.scope.turn).await {
                return Ok(());
            }
            let Some((transfer, is_genuine)) = self.read(found) else { continue };
            let id = transfer.id.as_str();
            late.follow(feed.chunks());
            let faults = late.before(id).await?;
            self.blame_all("S2", faults);
            let sealed = blocks.before(id).await?;
            self.blame_all("S2", sealed.into_iter().map(|(_, (_, detail))| detail));
            if !late.take(&transfer, is_genuine).await? && is_genuine {
                blocks.add(transfer.effect(), &transfer.digest(account));
            }
            let of = transfer.id.uuid().as_u128() & !3;
            if key.is_some_and(|key| key != of) {
                self.judge(key, std::mem::take(&mut group), &mut attempts, forgotten).await?;
            }
            key = Some(of);
            group.put(transfer);
        }
        self.judge(key, group, &mut attempts, forgotten).await?;
        while let Some(attempt) = attempts.next().await? {
            self.lonely(attempt);
        }
        let faults = late.finish().await?;
        self.blame_all("S2", faults);
        let sealed = blocks.finish().await?;
        self.blame_all("S2", sealed.into_iter().map(|(_, (_, detail))| detail));
        self.report.unsealed += blocks.unsealed;
        Ok(())
    }

    fn blame_all(&mut self, invariant: &'static str, details: impl IntoIterator<Item = String>) {
        for detail in details {
            self.report.blame(invariant, self.account, "", detail);
        }
    }

    /// A row, and whether the service wrote it just so. `None` where it tells nothing of others.
    fn read(&mut self, found: Found<Transfer>) -> Option<(Transfer, bool)> {
        let id = found.id.unwrap_or_default();
        let Some(transfer) = found.row else {
            self.report.blame("I9", self.account, &id, "the row cannot be read".to_owned());
            return None;
        };
        let is_genuine = transfer.is_genuine(&self.app.vault, self.account);
        if !is_genuine {
            let detail = format!("{} {id} was changed or made up", transfer.kind);
            self.report.blame("I9", self.account, &id, detail);
        }
        TransferId::parse(&id).map(|_| (transfer, is_genuine))
    }

    /// A whole group, and the attempts up to its own.
    async fn judge(
        &mut self,
        key: Option<u128>,
        group: Group,
        attempts: &mut Feed<'_, Attempt>,
        forgotten: &str,
    ) -> Result<(), Error> {
        let Some(key) = key else { return Ok(()) };
        let mut own = None;
        while let Some(next) = attempts.peek().await? {
            let of = next.row.as_ref().and_then(Attempt::key);
            if of.is_some_and(|of| of > key) {
                break;
            }
            let Some(attempt) = attempts.next().await? else { break };
            if of == Some(key) { own = attempt.row } else { self.lonely(attempt) }
        }
        let has_findings = match &own {
            Some(attempt) => {
                self.report.attempts_unknown += u64::from(attempt.state() == Some(State::Unknown));
                group.check_fate(attempt).is_some()
            }
            None => is_bereft(&group, key, forgotten),
        };
        if has_findings || !group.check_shape().is_empty() {
            self.suspect(key);
        }
        self.age(&group, own.as_ref());
        Ok(())
    }

    /// An attempt for which nothing was ever held.
    fn lonely(&mut self, found: Found<Attempt>) {
        let Some(attempt) = found.row else {
            let id = found.id.unwrap_or_default();
            let detail = "the attempt cannot be read".to_owned();
            return self.report.blame("I5", self.account, &id, detail);
        };
        self.report.attempts_unknown += u64::from(attempt.state() == Some(State::Unknown));
        if let Some(key) = attempt.key() {
            // What costs nothing needs no hold.
            if attempt.credits == 0 {
                return;
            }
            self.suspect(key);
        } else {
            let detail = "the attempt's id is not one that the service makes".to_owned();
            self.report.blame("I5", self.account, &attempt.id, detail);
        }
    }

    /// Something may have landed between the reads: another look decides. Where too much is wrong
    /// to name it all, it is counted at once.
    fn suspect(&mut self, key: u128) {
        if self.suspects.len() < MOST {
            self.suspects.push(key);
        } else {
            self.report.violations_found += 1;
        }
    }

    /// A hold may be open until its message ends: an SMS waits longer than a passcode.
    fn age(&mut self, group: &Group, attempt: Option<&Attempt>) {
        let Some(hold) = group.first.as_ref().filter(|_| group.is_open()) else { return };
        self.report.holds_open += 1;
        let now = self.scope.as_of.unwrap_or_else(|| self.app.now()).0;
        let created_at = hold.created_at.0;
        let end = attempt.map_or(created_at, |attempt| attempt.give_up_at.0);
        let end = end.clamp(created_at, created_at.saturating_add(LONGEST_MS));
        let age_ms = now.saturating_sub(created_at);
        if now.saturating_sub(end) > self.scope.horizon_ms {
            self.report.dangle(Dangling {
                account_id: self.account.to_owned(),
                transfer_id: hold.id.to_string(),
                object_id: hold.object_id.clone(),
                amount: hold.amount,
                age_ms,
            });
        }
    }

    /// Messages of one channel whose attempt is gone.
    async fn messages(&mut self, of: Sql, terms: Option<&Terms>) -> Result<(), Error> {
        let mut forgotten = self.forgotten(terms).await?;
        let args = args![self.account];
        let mut feed: Feed<'_, (String, Option<String>, String)> =
            Feed::new(&self.app.db, of, args);
        let mut read: u64 = 0;
        while let Some(found) = feed.next().await? {
            read += 1;
            if read.is_multiple_of(CHUNK) && !rest(self.scope.turn).await {
                return Ok(());
            }
            let id = found.id.unwrap_or_default();
            match found.row {
                Some((_, Some(_), _)) => {}
                Some((_, None, attempt)) if attempt < forgotten => {}
                Some((_, None, attempt)) => {
                    // What retention deleted meanwhile was announced before.
                    forgotten = self.forgotten(terms).await?;
                    if attempt >= forgotten {
                        let detail = format!("its attempt {attempt} is gone");
                        self.report.blame("I5", self.account, &id, detail);
                    }
                }
                None => {
                    let detail = "the message cannot be read".to_owned();
                    self.report.blame("I5", self.account, &id, detail);
                }
            }
        }
        Ok(())
    }

    /// Reads what looked wrong again, all suspects after one pause, and blames what stays wrong.
    async fn look_again(&mut self, found: Option<&Terms>) -> Result<(), Error> {
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.sort_unstable();
        suspects.dedup();
        for look in 1..=LOOKS {
            if suspects.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(SECOND_LOOK).await;
            let forgotten = self.forgotten(found).await?;
            let mut guilty = Vec::new();
            for key in suspects {
                let findings = self.examine(key, &forgotten).await?;
                if let Some(turn) = self.scope.turn
                    && !turn.breathe().await
                {
                    return Ok(());
                }
                tokio::task::yield_now().await;
                if findings.is_empty() {
                    continue;
                }
                guilty.push(key);
                if look == LOOKS {
                    for (object, (invariant, detail)) in findings {
                        self.report.blame(invariant, self.account, &object, detail);
                    }
                }
            }
            suspects = guilty;
        }
        Ok(())
    }

    /// What is wrong with one group and its attempt now, with the id of the thing concerned.
    async fn examine(&self, key: u128, forgotten: &str) -> Result<Vec<(String, Finding)>, Error> {
        let id = AttemptId::of(Uuid::from_u128(key));
        let args = args![self.account, &id];
        let attempt: Option<Found<Attempt>> = self.app.db.row(sql::ATTEMPT, args).await?;
        let attempt = attempt.and_then(|found| found.row);
        let first = TransferId::of(Uuid::from_u128(key));
        let last = TransferId::of(Uuid::from_u128(key | 3));
        let mut group = Group::default();
        let args = args![self.account, &first, &last];
        let rows: Vec<Found<Transfer>> = self.app.db.rows(sql::GROUP, args).await?;
        rows.into_iter().filter_map(|found| found.row).for_each(|row| group.put(row));
        let shape = group.check_shape().into_iter();
        let mut findings: Vec<_> = shape.map(|finding| (first.to_string(), finding)).collect();
        match &attempt {
            Some(attempt) => {
                findings.extend(group.check_fate(attempt).map(|found| (id.to_string(), found)));
            }
            None if is_bereft(&group, key, forgotten) => {
                let detail = "the attempt that it paid for is gone".to_owned();
                findings.push((first.to_string(), ("I5", detail)));
            }
            None => {}
        }
        Ok(findings)
    }
}

/// A hold whose attempt is gone, although retention did not delete it. What is open stays.
fn is_bereft(group: &Group, key: u128, forgotten: &str) -> bool {
    let attempt = AttemptId::of(Uuid::from_u128(key));
    group.is_of_attempt() && (group.is_open() || attempt.as_str() >= forgotten)
}

/// An account's late transfers, beside what its seals say of them all together. The service may be
/// writing some: a transfer and the word that it is late come together, so what says so is read
/// anew behind each chunk of transfers.
struct Late<'a> {
    app: &'a App,
    account: &'a str,
    end: i64,
    feed: Feed<'a, (String, i64)>,
    /// Chunks of transfers that had been read when the feed began.
    chunks: u64,
    /// The newest transfer that was asked for.
    last: Option<String>,
    tally: Tally,
}

impl<'a> Late<'a> {
    fn new(app: &'a App, account: &'a str, end: i64) -> Self {
        let feed = Feed::new(&app.db, sql::LATE, args![account]);
        Self { app, account, end, feed, chunks: 0, last: None, tally: Tally::default() }
    }

    /// So many chunks of transfers were read.
    fn follow(&mut self, chunks: u64) {
        if self.chunks != chunks {
            self.chunks = chunks;
            let feed = Feed::new(&self.app.db, sql::LATE, args![self.account]);
            self.feed = feed.starting_at(self.last.as_deref().unwrap_or_default());
        }
    }

    /// Transfers before this one that came late and are gone.
    async fn before(&mut self, id: &str) -> Result<Vec<String>, Error> {
        let mut gone = Vec::new();
        while let Some(next) = self.feed.peek().await? {
            // Ids that cannot be read come behind all others.
            if next.id.as_deref().is_none_or(|late| late >= id) {
                break;
            }
            let next = self.feed.next().await?.and_then(|found| found.id).unwrap_or_default();
            // A feed that begins anew begins with the last one.
            if self.last.as_ref() != Some(&next) {
                gone.extend(self.missing(&next).await?);
            }
        }
        self.last = Some(id.to_owned());
        Ok(gone)
    }

    /// Whether this transfer came late; after [`Self::before`].
    async fn take(&mut self, transfer: &Transfer, is_genuine: bool) -> Result<bool, Error> {
        let is_next = |found: &Found<_>| found.id.as_deref() == Some(transfer.id.as_str());
        if !self.feed.peek().await?.is_some_and(is_next) {
            return Ok(false);
        }
        let row = self.feed.next().await?.and_then(|found| found.row);
        if is_genuine && row.is_some_and(|(_, seal)| seal > 0 && seal <= self.end) {
            self.tally.add_transfer(self.account, transfer);
        }
        Ok(true)
    }

    /// What is wrong with a late transfer that the walk did not come to. It may have been written
    /// behind the walk's back; the seals miss it if they knew it before.
    async fn missing(&self, id: &str) -> Result<Option<String>, Error> {
        let args = args![self.account, id];
        let row: Option<Found<Transfer>> = self.app.db.row(seals::store::TRANSFER, args).await?;
        let transfer = row.and_then(|found| found.row);
        let is_there = transfer.is_some_and(|it| it.is_genuine(&self.app.vault, self.account));
        Ok((!is_there).then(|| format!("late transfer {id} is gone")))
    }

    /// What is left, and what the seals say of all.
    async fn finish(&mut self) -> Result<Vec<String>, Error> {
        let mut faults = Vec::new();
        while let Some(next) = self.feed.next().await? {
            let id = next.id.unwrap_or_default();
            if self.last.as_ref() != Some(&id) {
                faults.extend(self.missing(&id).await?);
            }
        }
        let mut sealed = Tally::default();
        let mut after = 0;
        loop {
            let args = args![self.account, Kind::Late.as_str(), after, self.end, 1_000_i64];
            let rows: Vec<Found<seals::Seal>> =
                self.app.db.rows(seals::store::CHAIN_OF, args).await?;
            let rows: Vec<_> = rows.into_iter().filter_map(|found| found.row).collect();
            let Some(last) = rows.last() else { break };
            after = last.number;
            for seal in &rows {
                sealed.join(&seal.tally);
            }
        }
        let detail = difference(&self.tally, &sealed);
        faults.extend(detail.map(|detail| format!("late transfers: {detail}")));
        Ok(faults)
    }
}
