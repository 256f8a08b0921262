//! SMS as a channel: what goes out, what follows when a carrier does not take it, and what the news
//! of its attempt mean for the message. All of it is pure.

use clock::MINUTE;
use store::{Error, WriteSet};

use super::{Cause, Class, Message, Status, store as sql, text_of, view};
use crate::app::App;
use crate::carriers::{Address, Channel, Content, Outbound, Refusal};
use crate::dispatch::recipients::is_number;
use crate::dispatch::{Attempt, Failure, News, Owner, State, Then, Unsure};
use crate::events::{self, Kind, Note};
use crate::inbound::opt_outs;
use crate::kit::id::{AccountId, SmsId};
use crate::kit::msisdn::Msisdn;

/// How soon a message that a carrier could not take goes to it again; the last one repeats until
/// the message's validity ends.
const RETRIES_MS: [i64; 5] = [15_000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE];
/// How long before its validity ends a message goes to the carrier for the last time.
const LAST_TRY_MS: i64 = 1_000;
/// How long a receipt may still tell what an answer that was lost did not.
const UNSURE_MS: i64 = 3_000;
/// How long after the end of its validity a message is waited for: carriers say `EXPIRED` then, or
/// that it arrived a moment before.
const LATE_MS: i64 = MINUTE;
/// Most characters of a carrier's code that are kept.
const MOST_CODE_CHARS: usize = 64;

/// The channel of SMS messages.
pub struct Sms;

impl Owner for Sms {
    const KIND: &'static str = "sms";
    const IS_REMEMBERED: bool = true;
    const RECEIPTS_LATE_MS: i64 = LATE_MS;
    type Message = Message;

    fn reason(_: Channel) -> &'static str {
        "sms"
    }

    async fn load(app: &App, account: &AccountId, id: &str) -> Result<Option<Message>, Error> {
        match SmsId::parse(id) {
            Some(id) => sql::message(app, account, &id).await,
            None => Ok(None),
        }
    }

    fn content(app: &App, message: &Message, attempt: &Attempt) -> Option<Outbound> {
        let text = text_of(app, message)?;
        Some(Outbound {
            account_id: message.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
            priority: attempt.priority,
            to: Address::Phone(Msisdn::stored(message.recipient.clone())),
            sender: message.sender.clone(),
            content: Content::Text { text, parts: u32::try_from(message.segments).unwrap_or(1) },
            valid_until: message.valid_until,
        })
    }

    async fn is_wanted(app: &App, message: &Message) -> Result<bool, Error> {
        opt_outs::still_wants(app, &message.account, Self::number(message)).await
    }

    fn wait_ms(_: &App) -> u64 {
        0
    }

    fn waits_on(_: Channel) -> bool {
        false
    }

    fn may_name(message: &Message) -> bool {
        is_number(&message.recipient)
    }

    fn number(message: &Message) -> Option<&str> {
        is_number(&message.recipient).then_some(message.recipient.as_str())
    }

    /// What may work later goes to the carrier again, as long as the message is valid.
    fn after(app: &App, message: &Message, attempt: &Attempt, why: &Failure) -> Then {
        let last = attempt.give_up_at - LAST_TRY_MS;
        // What was not to go again has no text any more, should its refusal come late.
        let is_gone = message.text.is_none();
        if why.state != State::Refused || !is_passing(why) || is_gone || app.now() >= last {
            return Then::End;
        }
        let step = usize::try_from(attempt.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        let wait_ms = RETRIES_MS.get(step).or(RETRIES_MS.last()).copied().unwrap_or(MINUTE);
        Then::Retry { at: last.min(app.now() + wait_ms) }
    }

    /// Twice is better than never for what somebody waits for; of a campaign it is not.
    fn unknown(_: &App, message: &Message, attempt: &Attempt) -> Unsure {
        if may_go_again(message, attempt) {
            Unsure::Again { after_ms: UNSURE_MS }
        } else {
            Unsure::Stays
        }
    }

    /// Carriers charge for what they took, whether or not they could bring it to the phone.
    fn keeps_price(attempt: &Attempt, why: &Failure) -> bool {
        match why.state {
            State::Lapsed => attempt.state == State::Accepted,
            State::Failed => ending(why).0 != Status::Failed,
            _ => false,
        }
    }

    /// Of the one whose answer was lost nobody knows; the copy alone was kept back.
    fn may_have_arrived(attempt: &Attempt, why: &Failure) -> bool {
        let is_kept_back = matches!(why.refusal, Some(Refusal::OptedOut | Refusal::Expired));
        let is_refused = why.state == State::Refused && (is_kept_back || is_passing(why));
        attempt.resends > 0 && (is_refused || why.state == State::Expired)
    }

    /// There is no other way for an SMS.
    fn adopt(_: &App, _: &mut WriteSet, _: &mut Message, _: &Attempt, _: &Failure) {}

    fn decide(
        app: &App,
        set: &mut WriteSet,
        message: &mut Message,
        attempt: &Attempt,
        news: News<'_>,
    ) {
        // What is over stays as it is, whatever a late receipt says; but what is given back then is
        // not shown as charged.
        if !matches!(message.status, Status::Queued | Status::Submitted) {
            if let News::Over(over) = news
                && message.charged_credits > 0
                && !Self::keeps_price(attempt, &over.why)
            {
                message.charged_credits = 0;
                let status = message.status;
                shift(app, set, message, status);
            }
            return;
        }
        match news {
            News::Accepted { .. } => submitted(app, set, message, false),
            // Should its answer come late and be a refusal, it may go again, whatever its class.
            News::Unknown => submitted(app, set, message, attempt.resends == 0),
            News::Delivered { .. } | News::Read { .. } => {
                submitted(app, set, message, false);
                shift(app, set, message, Status::Delivered);
            }
            News::Over(over) => end(app, set, message, attempt, &over.why),
            // It stays queued, and no other leg ever takes its place.
            News::Retry { .. } | News::Owed(_) => {}
        }
    }
}

/// Whether the carrier may take it later.
fn is_passing(why: &Failure) -> bool {
    why.refusal.is_some_and(Refusal::is_passing)
}

/// Whether a message of unclear fate is sent once more.
fn may_go_again(message: &Message, attempt: &Attempt) -> bool {
    message.class == Class::Transactional && attempt.resends == 0
}

/// A carrier has it, or may have it. Its text is kept only where it may have to go again.
fn submitted(app: &App, set: &mut WriteSet, message: &mut Message, keeps_text: bool) {
    if message.status == Status::Queued {
        message.text.take_if(|_| !keeps_text);
        shift(app, set, message, Status::Submitted);
    } else if !keeps_text && message.text.take().is_some() {
        sql::drop_text(set, message);
    }
}

/// It did not arrive. A receipt that says so says that a carrier had it.
fn end(app: &App, set: &mut WriteSet, message: &mut Message, attempt: &Attempt, why: &Failure) {
    if why.state == State::Failed {
        submitted(app, set, message, false);
    }
    let (status, cause) = ending(why);
    message.cause = Some(cause);
    message.carrier_code = why.code.as_deref().map(short);
    if !Sms::keeps_price(attempt, why) {
        message.charged_credits = 0;
    }
    shift(app, set, message, status);
}

/// Moves a message to a status and tells of it.
fn shift(app: &App, set: &mut WriteSet, message: &mut Message, status: Status) {
    if status != Status::Submitted {
        message.text = None;
    }
    message.status = status;
    message.updated_at = app.now();
    message.event_count += 1;
    sql::shift(set, message);
    let (kind, state) = (Kind::SmsDelivery, view::state_of(message));
    let (account, object_id, sequence) =
        (&message.account, message.id.as_str(), message.event_count);
    let note = Note { account, kind, object_id, sequence, state: &state };
    events::note_shown(app, set, note, || view::json(message));
}

/// What an attempt that did not work out is to the message.
fn ending(why: &Failure) -> (Status, Cause) {
    match (why.state, why.refusal) {
        // Its time was over here.
        (State::Expired, _) | (State::Refused, Some(Refusal::Expired)) => {
            (Status::Expired, Cause::NotSubmitted)
        }
        (State::Refused, _) if is_passing(why) => (Status::Expired, Cause::NotSubmitted),
        (State::Lapsed, _) => (Status::Expired, Cause::NoReceipt),
        (_, Some(Refusal::Expired)) => (Status::Expired, Cause::ValidityEnded),
        (State::Failed, Some(Refusal::Undelivered)) => (Status::Undelivered, Cause::Undelivered),
        (State::Failed, Some(Refusal::Unreachable | Refusal::BadRecipient)) => {
            (Status::Undelivered, Cause::RecipientUnreachable)
        }
        (_, Some(Refusal::Unreachable | Refusal::BadRecipient)) => {
            (Status::Failed, Cause::RecipientUnreachable)
        }
        (_, Some(Refusal::BadSender)) => (Status::Failed, Cause::SenderRefused),
        (_, Some(Refusal::OptedOut)) => (Status::Failed, Cause::RecipientOptedOut),
        _ => (Status::Failed, Cause::CarrierRejected),
    }
}

fn short(code: &str) -> String {
    code.chars().filter(|letter| *letter != '\0').take(MOST_CODE_CHARS).collect()
}

/// Ends a message that no carrier has, because its recipient is erased.
pub(super) fn erase(app: &App, set: &mut WriteSet, message: &mut Message) {
    message.cause = Some(Cause::Erased);
    message.charged_credits = 0;
    shift(app, set, message, Status::Failed);
}

#[cfg(test)]
mod tests {
    use super::{Cause, Failure, Refusal, State, Status, ending};

    #[test]
    fn a_receipt_that_says_no_is_told_from_a_refusal() {
        let receipt = |refusal| ending(&Failure::receipt(refusal, None)).0;
        let refused = |refusal| ending(&Failure::refused(refusal, String::new())).0;
        assert_eq!(receipt(Refusal::Undelivered), Status::Undelivered);
        assert_eq!(receipt(Refusal::Unreachable), Status::Undelivered);
        assert_eq!(receipt(Refusal::Expired), Status::Expired);
        // REJECTD.
        assert_eq!(receipt(Refusal::Permanent), Status::Failed);
        assert_eq!(refused(Refusal::Unreachable), Status::Failed);
        assert_eq!(refused(Refusal::Permanent), Status::Failed);
        assert_eq!(refused(Refusal::Temporary), Status::Expired);
        assert_eq!(ending(&Failure::silence()), (Status::Expired, Cause::NoReceipt));
        let overdue = Failure::refused(Refusal::Expired, String::new());
        assert_eq!(ending(&overdue), (Status::Expired, Cause::NotSubmitted));
        let never_out = Failure { state: State::Expired, refusal: None, code: None };
        assert_eq!(ending(&never_out), (Status::Expired, Cause::NotSubmitted));
    }
}
