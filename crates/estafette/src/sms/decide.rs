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
use crate::kit::id::{AccountId, SmsId};
use crate::kit::msisdn::Msisdn;

/// How soon a message that a carrier could not take goes to it again; the last one repeats until
/// the message's validity ends.
const RETRIES_MS: [i64; 5] = [15_000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE];
/// How long before its validity ends a message goes to the carrier for the last time.
const LAST_TRY_MS: i64 = 1_000;
/// How long a receipt may still tell what an answer that was lost did not.
const UNSURE_MS: i64 = 3_000;
/// Most characters of a carrier's code that are kept.
const MOST_CODE_CHARS: usize = 64;

/// The channel of SMS messages.
pub struct Sms;

impl Owner for Sms {
    const KIND: &'static str = "sms";
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

    fn content(app: &App, m: &Message, a: &Attempt) -> Option<Outbound> {
        let text = text_of(app, m)?;
        Some(Outbound {
            account_id: m.account.as_str().to_owned(),
            attempt_id: a.id.as_str().to_owned(),
            to: Address::Phone(Msisdn::stored(m.recipient.clone())),
            sender: m.sender.clone(),
            content: Content::Text { text, parts: u32::try_from(m.segments).unwrap_or(1) },
            valid_until: m.valid_until,
        })
    }

    fn wait_ms(_: &App) -> u64 {
        0
    }

    fn waits_on(_: Channel) -> bool {
        false
    }

    fn may_name(m: &Message) -> bool {
        is_number(&m.recipient)
    }

    fn number(m: &Message) -> Option<&str> {
        is_number(&m.recipient).then_some(m.recipient.as_str())
    }

    /// What may work later goes to the carrier again, as long as the message is valid.
    fn after(app: &App, _: &Message, a: &Attempt, why: &Failure) -> Then {
        let last = a.give_up_at - LAST_TRY_MS;
        if why.state != State::Refused || !is_passing(why) || app.now() >= last {
            return Then::End;
        }
        let step = usize::try_from(a.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        let wait_ms = RETRIES_MS.get(step).or(RETRIES_MS.last()).copied().unwrap_or(MINUTE);
        Then::Retry { at: last.min(app.now() + wait_ms) }
    }

    /// Twice is better than never for what somebody waits for; of a campaign it is not.
    fn unknown(_: &App, m: &Message, a: &Attempt) -> Unsure {
        if may_go_again(m, a) { Unsure::Again { after_ms: UNSURE_MS } } else { Unsure::Stays }
    }

    /// Carriers charge for what they took, whether or not they could bring it to the phone.
    fn keeps_price(a: &Attempt, why: &Failure) -> bool {
        match why.state {
            State::Lapsed => a.state == State::Accepted,
            State::Failed => ending(why).0 != Status::Failed,
            _ => false,
        }
    }

    /// There is no other way for an SMS.
    fn adopt(_: &App, _: &mut WriteSet, _: &mut Message, _: (&Attempt, &Failure)) {}

    fn decide(app: &App, set: &mut WriteSet, m: &mut Message, a: &Attempt, news: News<'_>) {
        // What is over stays as it is, whatever a late receipt says.
        if !matches!(m.status, Status::Queued | Status::Submitted) {
            return;
        }
        match news {
            News::Accepted { .. } => submitted(app, set, m, false),
            News::Unknown => submitted(app, set, m, may_go_again(m, a)),
            News::Delivered { .. } | News::Read { .. } => {
                submitted(app, set, m, false);
                shift(app, set, m, Status::Delivered);
            }
            News::Over(over) => end(app, set, m, a, &over.why),
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
fn may_go_again(m: &Message, a: &Attempt) -> bool {
    m.class == Class::Transactional && a.resends == 0
}

/// A carrier has it, or may have it. Its text is kept only where it may have to go again.
fn submitted(app: &App, set: &mut WriteSet, m: &mut Message, keeps_text: bool) {
    if m.status == Status::Queued {
        m.text_sealed.take_if(|_| !keeps_text);
        shift(app, set, m, Status::Submitted);
    } else if !keeps_text && m.text_sealed.take().is_some() {
        sql::drop_text(set, m);
    }
}

/// It did not arrive. A receipt that says so says that a carrier had it.
fn end(app: &App, set: &mut WriteSet, m: &mut Message, a: &Attempt, why: &Failure) {
    if why.state == State::Failed {
        submitted(app, set, m, false);
    }
    let (status, cause) = ending(why);
    m.cause = Some(cause);
    m.carrier_code = why.code.as_deref().map(short);
    if !Sms::keeps_price(a, why) {
        m.charged_credits = 0;
    }
    shift(app, set, m, status);
}

/// Moves a message to a status and tells of it.
fn shift(app: &App, set: &mut WriteSet, m: &mut Message, status: Status) {
    if status != Status::Submitted {
        m.text_sealed = None;
    }
    m.status = status;
    m.updated_at = app.now();
    m.event_count += 1;
    sql::shift(set, m);
    let (kind, state) = (Kind::SmsDelivery, view::state_of(m));
    let (account, object_id, sequence) = (&m.account, m.id.as_str(), m.event_count);
    events::note(app, set, Note { account, kind, object_id, sequence, state: &state });
}

/// What an attempt that did not work out is to the message.
fn ending(why: &Failure) -> (Status, Cause) {
    match (why.state, why.refusal) {
        (State::Expired, _) => (Status::Expired, Cause::NotSubmitted),
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
        _ => (Status::Failed, Cause::CarrierRejected),
    }
}

fn short(code: &str) -> String {
    code.chars().filter(|letter| *letter != '\0').take(MOST_CODE_CHARS).collect()
}

/// Ends a message that no carrier has, because its recipient is erased.
pub(super) fn erase(app: &App, set: &mut WriteSet, m: &mut Message) {
    m.cause = Some(Cause::Erased);
    m.charged_credits = 0;
    shift(app, set, m, Status::Failed);
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
        let never_out = Failure { state: State::Expired, refusal: None, code: None };
        assert_eq!(ending(&never_out), (Status::Expired, Cause::NotSubmitted));
    }
}
