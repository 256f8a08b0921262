//! Reports of other mail servers: that an email bounced, or that a person calls it unwanted. They
//! come to the return path of the copy, whose local part says which one it is, under a keyed hash
//! and for a month. So nobody can speak of mail that was not sent, and whoever got a copy only of
//! that one. What is no report is taken and dropped: nothing here answers mail, so nothing loops.

use email::report::{Action, Feedback, Outcome, Report, without_addresses};
use email::status::{Bounce, Enhanced, bounce, is_about_sender};
use smtp::server::{Desk, Letter, Verdict};
use store::{CommitError, Error as DbError, WriteSet};

use super::decide::{self, Late};
use super::return_paths::{self, Copy};
use super::{Email, Piece, domains};
use crate::app::App;
use crate::carriers::door::Door;
use crate::carriers::{Echo, Fate, NotNow, Receipt, Refusal};
use crate::dispatch::{self, Failure, Owner, STALE};
use crate::kit::id::AccountId;
use crate::kit::words::words;

/// The address to which complaints come whose senders do not use return paths.
const COMPLAINTS: &str = "fbl";
/// Times that a copy is read again because another was faster.
const TRIES: u32 = 5;
/// The code of a report that says none.
const NO_CODE: u16 = 0;
/// RFC 3463 §3.1: other, which says nothing.
const UNDEFINED: Enhanced = Enhanced { class: 5, subject: 0, detail: 0 };

words! {
    /// What became of a message to the listener.
    pub enum Heard {
        /// It said that a copy did not arrive.
        Bounced = "bounced",
        /// It said that a copy arrived.
        Delivered = "delivered",
        /// It said that a person does not want it.
        Complained = "complained",
        /// It said nothing that counts, or was no report.
        Ignored = "ignored",
    }
}

/// Takes reports in.
#[derive(Clone)]
pub struct Intake {
    app: App,
    door: Door,
}

impl Desk for Intake {
    /// A return path that we made, or the address of complaints of a domain that somebody writes
    /// from.
    async fn knows(&self, recipient: &str) -> Option<bool> {
        if return_paths::read(&self.app, recipient).is_some() {
            return Some(true);
        }
        let recipient = recipient.to_ascii_lowercase();
        let host = recipient.strip_prefix(COMPLAINTS).and_then(|rest| rest.strip_prefix('@'));
        let Some(domain) = host.and_then(return_paths::domain_of) else { return Some(false) };
        if domain == self.app.config.mail_name().to_ascii_lowercase() {
            return Some(true);
        }
        domains::is_anybodys(&self.app, domain).await.map_err(not_now).ok()
    }

    async fn take(&self, letter: Letter) -> Verdict {
        match self.hear(&letter).await {
            Ok(heard) => {
                self.app.metrics.email_report(heard.as_str());
                Verdict::Taken
            }
            Err(NotNow) => Verdict::Later,
        }
    }
}

impl Intake {
    /// For live, whose carriers this door is of.
    #[must_use]
    pub fn new(app: &App, door: &Door) -> Self {
        Self { app: app.clone(), door: door.clone() }
    }

    async fn hear(&self, letter: &Letter) -> Result<Heard, NotNow> {
        let copies = letter.recipients.iter().filter_map(|to| return_paths::read(&self.app, to));
        match email::report::read(&letter.message) {
            None => Ok(Heard::Ignored),
            Some(Report::Delivery(outcomes)) => {
                let mut heard = Heard::Ignored;
                for copy in copies {
                    heard = self.delivery(&copy, &outcomes).await?;
                }
                Ok(heard)
            }
            Some(Report::Complaint { feedback, return_path, .. }) => {
                let quoted = return_path.and_then(|path| return_paths::read(&self.app, &path));
                let copy = copies.chain(quoted).next();
                match copy.filter(|_| feedback == Feedback::Unwanted) {
                    Some(copy) => self.complaint(&copy).await,
                    None => Ok(Heard::Ignored),
                }
            }
        }
    }

    /// A report of delivery: of this copy, whichever recipients it names; it can have been
    /// forwarded to others.
    async fn delivery(&self, copy: &Copy, outcomes: &[Outcome]) -> Result<Heard, NotNow> {
        let Some((account, piece)) = self.find(copy).await? else { return Ok(Heard::Ignored) };
        let address = piece.address().map(|address| address.key());
        let is_meant = |outcome: &&Outcome| {
            address.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(&outcome.recipient))
        };
        let own = outcomes.iter().find(is_meant);
        let Some(outcome) = own.or(outcomes.first()) else { return Ok(Heard::Ignored) };
        let detail = without_addresses(&outcome.diagnostic);
        let (fate, late, heard) = match outcome.action {
            Action::Failed => {
                // That somebody it was passed on to is not there says nothing of this address.
                let is_own = own.is_some() || address.is_none();
                let refusal = if is_own { refusal(outcome) } else { Refusal::Undelivered };
                let why = Failure::receipt(refusal, Some(detail.clone()));
                (Fate::Failed(refusal), Late::Failed(why), Heard::Bounced)
            }
            Action::Delivered => (Fate::Delivered, Late::Delivered, Heard::Delivered),
            // It is on its way, or nobody will say more.
            Action::Delayed | Action::Relayed | Action::Expanded => return Ok(Heard::Ignored),
        };
        let error = (heard == Heard::Bounced).then_some(detail);
        self.receipt(&account, copy, fate, error).await?;
        self.settle_late(&account, copy, &late).await?;
        Ok(heard)
    }

    async fn complaint(&self, copy: &Copy) -> Result<Heard, NotNow> {
        let Some((account, _)) = self.find(copy).await? else { return Ok(Heard::Ignored) };
        // Whoever complains got it.
        self.receipt(&account, copy, Fate::Delivered, None).await?;
        self.settle_late(&account, copy, &Late::Complained).await?;
        Ok(Heard::Complained)
    }

    /// Brings it to the attempt, like every carrier's receipt. One whose fate is known already
    /// changes nothing there.
    async fn receipt(
        &self,
        account: &AccountId,
        copy: &Copy,
        fate: Fate,
        error: Option<String>,
    ) -> Result<(), NotNow> {
        let Some(piece) = self.piece(account, copy).await? else { return Ok(()) };
        let attempt = dispatch::attempt(&self.app, account, &piece.attempt).await;
        let Some(attempt) = attempt.map_err(not_now)? else { return Ok(()) };
        let echo = Echo {
            account_id: account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
        };
        let (echo, provider_id) = (Some(echo), None);
        let receipt =
            Receipt { carrier: attempt.carrier, echo, hint: None, provider_id, fate, error };
        self.door.receipt(receipt).await
    }

    /// What comes after nobody waited for it any more, as from a server that gave up after days.
    async fn settle_late(
        &self,
        account: &AccountId,
        copy: &Copy,
        late: &Late,
    ) -> Result<(), NotNow> {
        for _ in 0..TRIES {
            let Some(mut piece) = self.piece(account, copy).await? else { return Ok(()) };
            let mut set = WriteSet::of(account.as_str());
            if !decide::late(&self.app, &mut set, &mut piece, late) {
                return Ok(());
            }
            match self.app.db.commit(set).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Rejected(STALE)) => {}
                Err(error) => {
                    tracing::warn!(%error, "a report of an email is not stored");
                    return Err(NotNow);
                }
            }
        }
        Err(NotNow)
    }

    async fn find(&self, copy: &Copy) -> Result<Option<(AccountId, Piece)>, NotNow> {
        let object_id = format!("{}.{}", copy.email, copy.position);
        let found = dispatch::attempt_of(&self.app, &object_id).await.map_err(not_now)?;
        let Some((account, _)) = found else { return Ok(None) };
        Ok(self.piece(&account, copy).await?.map(|piece| (account, piece)))
    }

    async fn piece(&self, account: &AccountId, copy: &Copy) -> Result<Option<Piece>, NotNow> {
        let id = format!("{}.{}", copy.email, copy.position);
        Email::load(&self.app, account, &id).await.map_err(not_now)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_now(error: DbError) -> NotNow {
    tracing::warn!(%error, "a report of an email cannot be looked up");
    NotNow
}

/// What a failure means for the address.
fn refusal(outcome: &Outcome) -> Refusal {
    // RFC 5321 §4.2: the text follows after a space, or after a dash where further lines do.
    let (code, text) = outcome.diagnostic.split_at_checked(3).unwrap_or_default();
    let is_code = text.is_empty() || text.starts_with([' ', '-']);
    let said = code.parse().ok().filter(|_| is_code);
    // The status is the report's own word; the diagnostic quotes the server that refused.
    let quoted = || text.get(1..).and_then(Enhanced::at_start).filter(|_| said.is_some());
    let status = outcome.status.filter(|status| *status != UNDEFINED).or_else(quoted);
    let is_vague = said.is_some() && status.is_none();
    let status = status.or(outcome.status.filter(|_| said.is_none()));
    match bounce(said.unwrap_or(NO_CODE), status) {
        Bounce::Hard if is_vague && is_about_sender(&without_addresses(text)) => {
            Refusal::Undelivered
        }
        Bounce::Hard => Refusal::BadRecipient,
        Bounce::Soft | Bounce::Policy => Refusal::Undelivered,
    }
}
