//! Email as a channel: what goes out to one recipient, what follows when the relay does not take
//! it, and what the news of its attempt mean for the email. All of it is pure.

use store::{Error, WriteSet};

use super::store::{self as sql, Change};
use super::suppressions::{self, Reason};
use super::{Cause, Piece, Status, Tally, large, read_object_id, return_paths};
use crate::app::App;
use crate::carriers::{Address, Channel, Content, Mail, Outbound, Refusal, Script};
use crate::dispatch::{Attempt, Failure, News, Owner, State, Then, Unsure};
use crate::kit::id::AccountId;

/// How long before an email ends it goes to the relay for the last time.
const LAST_TRY_MS: i64 = 1_000;
/// How long after an answer that was lost an email goes out once more.
const UNSURE_MS: i64 = 60_000;
/// Most characters of a server's reply that are kept.
const MOST_REPLY_CHARS: usize = 300;

/// The channel of emails.
pub struct Email;

impl Owner for Email {
    const KIND: &'static str = "email";
    type Message = Piece;

    fn reason(_: Channel) -> &'static str {
        "email"
    }

    async fn load(app: &App, account: &AccountId, id: &str) -> Result<Option<Piece>, Error> {
        let Some((email, position)) = read_object_id(id) else { return Ok(None) };
        let mut piece = sql::piece(app, account, &email, position).await?;
        if let Some(piece) = &mut piece {
            large::fetch(app, piece).await?;
        }
        Ok(piece)
    }

    fn content(app: &App, piece: &Piece, attempt: &Attempt) -> Option<Outbound> {
        if piece.is_suppressed {
            return None;
        }
        let message = large::message_of(app, piece)?;
        // As stored it is as the account wrote it, with a name perhaps.
        let from = email::Mailbox::parse(&piece.from_email).ok()?.address.to_string();
        let domain = from.rsplit_once('@').map_or("", |(_, domain)| domain);
        let return_path = return_paths::of(app, piece, domain).unwrap_or_else(|| from.clone());
        let mail = Mail { return_path, front: Vec::new(), message };
        Some(Outbound {
            account_id: piece.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
            priority: attempt.priority,
            to: Address::Email(piece.address()?),
            sender: from,
            content: Content::Email(mail),
            valid_until: piece.valid_until,
        })
    }

    fn wait_ms(_: &App) -> u64 {
        0
    }

    fn waits_on(_: Channel) -> bool {
        false
    }

    fn may_name(piece: &Piece) -> bool {
        !piece.mailbox.is_empty()
    }

    /// What may work later goes to the relay again, by the schedule of the settings.
    fn after(app: &App, _: &Piece, attempt: &Attempt, why: &Failure) -> Then {
        let last = attempt.give_up_at - LAST_TRY_MS;
        // The one more time is over once the relay has seen it.
        if !may_go_again(attempt) && why.refusal == Some(Refusal::Temporary) {
            return Then::End;
        }
        if why.state != State::Refused || !is_passing(why) || app.now() >= last {
            return Then::End;
        }
        let step = usize::try_from(attempt.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        match app.config.email.retry_schedule_s.get(step) {
            Some(wait_s) => Then::Retry { at: last.min(app.now() + wait_s * 1_000) },
            None => Then::End,
        }
    }

    /// It goes once more, with the same Message-ID, by which mailboxes know it again.
    fn unknown(_: &App, _: &Piece, attempt: &Attempt) -> Unsure {
        once_more(attempt)
    }

    /// A relay that took it has done its work, whatever became of it.
    fn keeps_price(attempt: &Attempt, why: &Failure) -> bool {
        match why.state {
            State::Lapsed => attempt.state == State::Accepted,
            State::Failed => true,
            _ => false,
        }
    }

    /// A second copy that is refused leaves the first where it is.
    fn may_have_arrived(attempt: &Attempt, why: &Failure) -> bool {
        first_may_have_arrived(attempt, why)
    }

    /// There is no other way for an email.
    fn adopt(_: &App, _: &mut WriteSet, _: &mut Piece, _: &Attempt, _: &Failure) {}

    fn decide(app: &App, set: &mut WriteSet, piece: &mut Piece, attempt: &Attempt, news: News<'_>) {
        // What is over stays as it is, whatever a late report says.
        if !matches!(piece.status, Status::Queued | Status::Sent) {
            return;
        }
        match news {
            News::Unknown if may_go_again(attempt) => {}
            News::Accepted { .. } | News::Unknown => sent(app, set, piece),
            News::Delivered { .. } | News::Read { .. } => {
                sent(app, set, piece);
                delivered(app, set, piece);
            }
            News::Over(over) => end(app, set, piece, attempt, &over.why),
            // It stays queued, and no other leg ever takes its place.
            News::Retry { .. } | News::Owed(_) => {}
        }
    }
}

/// Whether the relay may take it later.
fn is_passing(why: &Failure) -> bool {
    why.refusal.is_some_and(Refusal::is_passing)
}

/// Whether the one more time is still to come.
pub(super) fn may_go_again(attempt: &Attempt) -> bool {
    attempt.resends == 0
}

/// What follows when nobody knows whether the relay has it.
pub(super) fn once_more(attempt: &Attempt) -> Unsure {
    if may_go_again(attempt) { Unsure::Again { after_ms: UNSURE_MS } } else { Unsure::Stays }
}

/// Whether it was the second copy that was refused, or ended.
pub(super) fn first_may_have_arrived(attempt: &Attempt, why: &Failure) -> bool {
    !may_go_again(attempt) && matches!(why.state, State::Refused | State::Expired)
}

/// A relay has it, or may have it.
fn sent(app: &App, set: &mut WriteSet, piece: &mut Piece) {
    if piece.status == Status::Queued {
        shift(app, set, piece, Status::Sent);
    }
}

fn delivered(app: &App, set: &mut WriteSet, piece: &mut Piece) {
    let script = piece.address().and_then(|address| app.carriers.scripted(&address));
    if script == Some(Script::Complained) {
        piece.cause = Some(Cause::Complained);
        suppress(app, set, piece, Reason::Complained);
    }
    shift(app, set, piece, Status::Delivered);
}

/// It did not arrive. A report that says so says that a relay had it.
fn end(app: &App, set: &mut WriteSet, piece: &mut Piece, attempt: &Attempt, why: &Failure) {
    if why.state == State::Failed {
        sent(app, set, piece);
    }
    if why.state == State::Lapsed {
        // Nobody said anything, as is usual: what a relay has is as good as delivered.
        return lapsed(app, set, piece, attempt);
    }
    let (status, cause) = match ending(why) {
        // What a relay had is no better for what happened to the address since.
        _ if piece.is_suppressed && piece.status == Status::Queued => {
            (Status::Suppressed, Cause::Suppressed)
        }
        ending => ending,
    };
    piece.cause = Some(cause);
    // What is said of somebody who is forgotten is not kept.
    let is_told = cause != Cause::Suppressed && !piece.mailbox.is_empty();
    piece.detail = why.code.as_deref().filter(|_| is_told).map(short);
    if cause == Cause::MailboxUnavailable {
        suppress(app, set, piece, Reason::Bounced);
    }
    shift_at(app, set, piece, status, !Email::keeps_price(attempt, why));
}

fn lapsed(app: &App, set: &mut WriteSet, piece: &mut Piece, attempt: &Attempt) {
    // What a relay only may have costs nothing.
    if attempt.state != State::Accepted {
        shift_at(app, set, piece, Status::Sent, true);
    }
}

/// What a report says of a copy of which nobody waits for news any more. A relay had it, so it
/// costs what it cost.
pub(super) enum Late {
    Delivered,
    Failed(Failure),
    /// The person calls it unwanted, at any time.
    Complained,
}

/// Writes down what a late report says; `false` where it says nothing new.
pub(super) fn late(app: &App, set: &mut WriteSet, piece: &mut Piece, late: &Late) -> bool {
    match (late, piece.status) {
        (Late::Delivered, Status::Sent) => shift(app, set, piece, Status::Delivered),
        (Late::Failed(why), Status::Sent) => {
            let (status, cause) = ending(why);
            piece.cause = Some(cause);
            let is_told = !piece.mailbox.is_empty();
            piece.detail = why.code.as_deref().filter(|_| is_told).map(short);
            if cause == Cause::MailboxUnavailable {
                suppress(app, set, piece, Reason::Bounced);
            }
            shift(app, set, piece, status);
        }
        (Late::Complained, Status::Sent | Status::Delivered)
            if piece.cause != Some(Cause::Complained) =>
        {
            piece.cause = Some(Cause::Complained);
            suppress(app, set, piece, Reason::Complained);
            shift(app, set, piece, Status::Delivered);
        }
        _ => return false,
    }
    true
}

/// Puts the address on the list, unless it is one whose outcome is fixed.
pub(super) fn suppress(app: &App, set: &mut WriteSet, piece: &Piece, reason: Reason) {
    let Some(address) = piece.address() else {
        // Who was forgotten meanwhile is not written to all the same.
        let (account, mac) = (&piece.account, &piece.address_mac);
        return suppressions::add_forgotten(app, set, account, mac, reason);
    };
    let is_fixed = app.carriers.scripted(&address).is_some() && !address.local().contains('+');
    if !is_fixed {
        suppressions::add(app, set, &piece.account, &address, reason);
    }
}

fn shift(app: &App, set: &mut WriteSet, piece: &mut Piece, status: Status) {
    shift_at(app, set, piece, status, false);
}

/// Moves a recipient to a status and tells of it.
fn shift_at(app: &App, set: &mut WriteSet, piece: &mut Piece, status: Status, is_free: bool) {
    let mut tally = Tally::default();
    tally.add(piece.status, -1);
    tally.add(status, 1);
    let given_back = if is_free { std::mem::take(&mut piece.credits) } else { 0 };
    if status != Status::Queued {
        piece.said = None;
    }
    piece.status = status;
    piece.change_count += 1;
    sql::shift(set, piece);
    sql::tell(app, set, piece, Change { tally, given_back });
}

/// What an attempt that did not work out is to the recipient.
fn ending(why: &Failure) -> (Status, Cause) {
    match (why.state, why.refusal) {
        (State::Expired, _) => (Status::Failed, Cause::NotSent),
        (State::Refused, _) if is_passing(why) => (Status::Failed, Cause::NotSent),
        (_, Some(Refusal::Unreachable | Refusal::BadRecipient)) => {
            (Status::Bounced, Cause::MailboxUnavailable)
        }
        (State::Failed, _) => (Status::Bounced, Cause::Undeliverable),
        (_, Some(Refusal::BadSender)) => (Status::Failed, Cause::SenderRefused),
        _ => (Status::Failed, Cause::RelayRejected),
    }
}

fn short(reply: &str) -> String {
    reply.chars().filter(|letter| !letter.is_control()).take(MOST_REPLY_CHARS).collect()
}

/// Ends a copy that no relay has, because its recipient is erased.
pub(super) fn erase(app: &App, set: &mut WriteSet, piece: &mut Piece) {
    piece.cause = Some(Cause::Erased);
    shift_at(app, set, piece, Status::Failed, true);
}

#[cfg(test)]
mod tests {
    use super::{Cause, Failure, Refusal, State, Status, ending};

    #[test]
    fn a_report_that_says_no_is_a_bounce_and_a_refusal_is_one_where_it_is_about_the_mailbox() {
        let report = |refusal| ending(&Failure::receipt(refusal, None));
        let refused = |refusal| ending(&Failure::refused(refusal, String::new()));
        let hard = (Status::Bounced, Cause::MailboxUnavailable);
        assert_eq!(report(Refusal::BadRecipient), hard);
        assert_eq!(report(Refusal::Undelivered), (Status::Bounced, Cause::Undeliverable));
        assert_eq!(refused(Refusal::BadRecipient), hard);
        assert_eq!(refused(Refusal::Permanent), (Status::Failed, Cause::RelayRejected));
        assert_eq!(refused(Refusal::BadSender), (Status::Failed, Cause::SenderRefused));
        assert_eq!(refused(Refusal::Down), (Status::Failed, Cause::NotSent));
        let never_out = Failure { state: State::Expired, refusal: None, code: None };
        assert_eq!(ending(&never_out), (Status::Failed, Cause::NotSent));
    }
}
