//! Chat-app messages as a channel: what goes out, what follows when the carrier does not take it,
//! and what the news of its attempt mean for the message. All of it is pure.

use clock::MINUTE;
use store::{Error, WriteSet};

use super::{Cause, Message, Said, Status, store as sql, view};
use crate::app::App;
use crate::carriers::{Address, Channel, Content, Outbound, QuickReply, Refusal, Template};
use crate::chatapp::sessions;
use crate::chatapp::templates::{self, Named, live::upstream_name};
use crate::dispatch::recipients::is_number;
use crate::dispatch::{Attempt, Failure, News, Owner, State, Then};
use crate::events::{self, Kind, Note};
use crate::inbound::opt_outs;
use crate::kit::id::{AccountId, MessageId};
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;

/// How soon a message that the carrier could not take goes to it again; the last one repeats until
/// the message's validity ends.
const RETRIES_MS: [i64; 5] = [15_000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE];
/// How long before its validity ends a message goes to the carrier for the last time.
const LAST_TRY_MS: i64 = 1_000;
/// Most characters of a carrier's code that are kept.
const MOST_CODE_CHARS: usize = 64;

/// The channel of chat-app messages.
pub struct Chatapp;

impl Owner for Chatapp {
    const KIND: &'static str = "chatapp";
    const IS_FREE_AT_ZERO: bool = true;
    type Message = Message;

    fn reason(_: Channel) -> &'static str {
        "chatapp"
    }

    async fn load(app: &App, account: &AccountId, id: &str) -> Result<Option<Message>, Error> {
        match MessageId::parse(id) {
            Some(id) => sql::message(app, account, &id).await,
            None => Ok(None),
        }
    }

    fn content(app: &App, message: &Message, attempt: &Attempt) -> Option<Outbound> {
        if !is_number(&message.recipient) {
            return None;
        }
        let said = Said::of(app, message)?;
        Some(Outbound {
            account_id: message.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
            priority: attempt.priority,
            to: Address::Phone(Msisdn::stored(message.recipient.clone())),
            sender: String::new(),
            content: content(app, message, said),
            valid_until: message.valid_until,
        })
    }

    async fn is_wanted(app: &App, message: &Message) -> Result<bool, Error> {
        let recipient = message.recipient.as_str();
        let number = is_number(recipient).then_some(recipient);
        opt_outs::still_wants(app, &message.account, number).await
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

    /// What may work later goes to the carrier again, as long as the message is valid.
    fn after(app: &App, _: &Message, attempt: &Attempt, why: &Failure) -> Then {
        let last = attempt.give_up_at - LAST_TRY_MS;
        if why.state != State::Refused || !is_passing(why) || app.now() >= last {
            return Then::End;
        }
        let step = usize::try_from(attempt.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        let wait_ms = RETRIES_MS.get(step).or(RETRIES_MS.last()).copied().unwrap_or(MINUTE);
        Then::Retry { at: last.min(app.now() + wait_ms) }
    }

    /// What the carrier has, and says nothing more of, may have arrived.
    fn keeps_price(attempt: &Attempt, why: &Failure) -> bool {
        why.state == State::Lapsed && attempt.state == State::Accepted
    }

    /// There is no other way for a chat-app message.
    fn adopt(_: &App, _: &mut WriteSet, _: &mut Message, _: &Attempt, _: &Failure) {}

    fn decide(
        app: &App,
        set: &mut WriteSet,
        message: &mut Message,
        attempt: &Attempt,
        news: News<'_>,
    ) {
        match news {
            News::Accepted { .. } => rise(app, set, message, Status::Sent),
            News::Delivered { .. } => {
                rise(app, set, message, Status::Sent);
                rise(app, set, message, Status::Delivered);
            }
            News::Read { .. } => {
                rise(app, set, message, Status::Sent);
                rise(app, set, message, Status::Delivered);
                rise(app, set, message, Status::Read);
            }
            News::Over(over) if Self::keeps_price(attempt, &over.why) => {}
            News::Over(over) => fail(app, set, message, &over.why),
            // It stays submitted, and no other leg ever takes its place. Who has one of unknown
            // fate in hand may find that it did not go out.
            News::Unknown | News::Retry { .. } | News::Owed(_) => {}
        }
    }
}

fn content(app: &App, message: &Message, said: Said) -> Content {
    let Said { text, params, components, replies } = said;
    let text = Secret::new(text);
    let Some(name) = &message.template else { return Content::Text { text, parts: 1 } };
    let name = upstream_name(app, &message.account, name);
    let reply = |label| QuickReply { label, payload: String::new() };
    Content::Template {
        text,
        template: Template { name, language: message.language.clone().unwrap_or_default() },
        params: params.into_iter().map(Secret::new).collect(),
        components,
        replies: replies.into_iter().map(reply).collect(),
    }
}

/// Whether the carrier may take it later.
fn is_passing(why: &Failure) -> bool {
    why.refusal.is_some_and(Refusal::is_passing)
}

/// Moves a message up to a status and tells of it; down it never goes.
fn rise(app: &App, set: &mut WriteSet, message: &mut Message, status: Status) {
    if status.rank() <= message.status.rank() {
        return;
    }
    message.content_sealed = None;
    message.status = status;
    message.updated_at = app.now();
    message.event_count += 1;
    sql::shift(set, message);
    let (kind, state) = (Kind::ChatappStatus, view::state_of(message));
    let (account, object_id, sequence) =
        (&message.account, message.id.as_str(), message.event_count);
    let note = Note { account, kind, object_id, sequence, state: &state };
    events::note_shown(app, set, note, || view::json(message));
}

fn fail(app: &App, set: &mut WriteSet, message: &mut Message, why: &Failure) {
    // What is over stays as it is, whatever a late receipt says.
    if !matches!(message.status, Status::Submitted | Status::Sent) {
        return;
    }
    message.cause = Some(cause(why));
    message.carrier_code = why.code.as_deref().map(short);
    message.charged_credits = 0;
    if why.refusal == Some(Refusal::OptedOut) && is_number(&message.recipient) {
        let person = &Msisdn::stored(message.recipient.clone());
        opt_outs::note_told(app, set, &message.account, person, message.created_at);
        sessions::silence(app, set, &message.account, person);
    }
    if why.refusal == Some(Refusal::Template)
        && let (Some(name), Some(language)) = (&message.template, &message.language)
    {
        let code = why.code.as_deref().unwrap_or_default();
        templates::doubt(set, &message.account, Named { name, language }, code);
    }
    rise(app, set, message, Status::Failed);
}

/// What an attempt that did not work out is to the message.
fn cause(why: &Failure) -> Cause {
    match (why.state, why.refusal) {
        (State::Expired, _) => Cause::NotSubmitted,
        (State::Refused, _) if is_passing(why) => Cause::NotSubmitted,
        (State::Lapsed, _) => Cause::NoReceipt,
        (_, Some(Refusal::Unreachable | Refusal::BadRecipient)) => Cause::RecipientUnreachable,
        (_, Some(Refusal::WindowClosed)) => Cause::MessagingWindowClosed,
        (_, Some(Refusal::OptedOut)) => Cause::RecipientOptedOut,
        (_, Some(Refusal::Template)) => Cause::TemplateNotApproved,
        (State::Failed, Some(Refusal::Undelivered | Refusal::Expired)) => Cause::Undelivered,
        _ => Cause::CarrierRejected,
    }
}

fn short(code: &str) -> String {
    code.chars().filter(|letter| *letter != '\0').take(MOST_CODE_CHARS).collect()
}

/// Ends a message that no carrier has, because its recipient is erased.
pub(in crate::chatapp) fn erase(app: &App, set: &mut WriteSet, message: &mut Message) {
    message.cause = Some(Cause::Erased);
    message.charged_credits = 0;
    rise(app, set, message, Status::Failed);
}

#[cfg(test)]
mod tests {
    use super::{Cause, Failure, Refusal, State, cause};
    use crate::chatapp::messages::Status;

    #[test]
    fn a_refusal_is_told_from_silence() {
        let refused = |refusal| cause(&Failure::refused(refusal, String::new()));
        let receipt = |refusal| cause(&Failure::receipt(refusal, None));
        assert_eq!(refused(Refusal::Unreachable), Cause::RecipientUnreachable);
        assert_eq!(receipt(Refusal::Unreachable), Cause::RecipientUnreachable);
        assert_eq!(refused(Refusal::Permanent), Cause::CarrierRejected);
        assert_eq!(refused(Refusal::Down), Cause::NotSubmitted);
        assert_eq!(receipt(Refusal::Undelivered), Cause::Undelivered);
        assert_eq!(cause(&Failure::silence()), Cause::NoReceipt);
        let never_out = Failure { state: State::Expired, refusal: None, code: None };
        assert_eq!(cause(&never_out), Cause::NotSubmitted);
    }

    #[test]
    fn no_two_statuses_have_one_rank() {
        let ranks: std::collections::BTreeSet<u8> =
            Status::ALL.iter().map(|status| status.rank()).collect();
        assert_eq!(ranks.len(), Status::ALL.len());
    }
}
