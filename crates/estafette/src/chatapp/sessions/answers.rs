//! What a person's message means for a session: Yes opens it and is charged, No and STOP end it.
//! All of it is written in the set that takes the message in, so a message that is brought again
//! changes nothing. The person's own clock (the upstream's time) decides between answers out of
//! order.

use ::store::{Error, WriteSet};
use clock::Millis;
use futures_util::future::BoxFuture;

use super::prompts::{Prompt, read_payload};
use super::{Consent, LIFE_MS, Reason, Session, Standing, Status, shift, store as sql};
use crate::app::{App, Heard, Reaction};
use crate::carriers::{Address, Channel, Priority};
use crate::credits;
use crate::dispatch::{self, Attempt, NewLeg, State};
use crate::kit::id::AttemptId;
use crate::kit::msisdn::Msisdn;

/// What people write instead of tapping. Only the whole message counts.
const YES: [&str; 2] = ["oui", "yes"];
const NO: [&str; 2] = ["non", "no"];

/// See [`crate::app::Hear`].
#[must_use]
pub fn hear<'a>(app: &'a App, heard: Heard<'a>) -> BoxFuture<'a, Result<Reaction, Error>> {
    Box::pin(async move {
        let mut reaction = Reaction::none(heard.account.as_str());
        if heard.is_stop {
            if let Some(session) = sql::open(app, heard.account, heard.person.e164()).await? {
                stop(app, &mut reaction.set, session, heard.said_at);
            }
            return Ok(reaction);
        }
        let Some((session, is_yes)) = answered(app, &heard).await? else { return Ok(reaction) };
        reaction.button = Some(if is_yes { "yes" } else { "no" });
        if is_yes {
            yes(app, &mut reaction.set, session, &heard).await?;
        } else {
            no(app, &mut reaction.set, session, heard.said_at);
        }
        Ok(reaction)
    })
}

/// The session of this person that the message answers, and the answer.
async fn answered(app: &App, heard: &Heard<'_>) -> Result<Option<(Session, bool)>, Error> {
    if heard.channel != Channel::Chatapp {
        return Ok(None);
    }
    if let Some((id, is_yes)) = heard.button.and_then(read_payload) {
        let found = sql::session(app, heard.account, &id).await?;
        // A payload that somebody else sends is no answer.
        let own = found.filter(|session| session.recipient == heard.person.e164());
        return Ok(own.map(|session| (session, is_yes)));
    }
    let Some(is_yes) = word(heard.text) else { return Ok(None) };
    let open = sql::open(app, heard.account, heard.person.e164()).await?;
    let asked =
        open.filter(|session| session.status == Status::Pending && session.attempt.is_some());
    Ok(asked.map(|session| (session, is_yes)))
}

/// The answer that a whole message is.
fn word(text: &str) -> Option<bool> {
    let text = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    if YES.contains(&text.as_str()) {
        Some(true)
    } else {
        NO.contains(&text.as_str()).then_some(false)
    }
}

/// What the person wants no longer ends, unless they said Yes after that.
fn stop(app: &App, set: &mut WriteSet, mut s: Session, said_at: Millis) {
    if s.consent_at.is_none_or(|consent_at| consent_at <= said_at) {
        end(app, set, &mut s, Reason::Stop);
    }
}

fn no(app: &App, set: &mut WriteSet, mut s: Session, said_at: Millis) {
    match s.shown_status(app.now()) {
        Status::Pending => end(app, set, &mut s, Reason::Declined),
        Status::Active if s.consent_at.is_none_or(|consent_at| consent_at <= said_at) => {
            end(app, set, &mut s, Reason::Withdrawn);
        }
        _ => {}
    }
}

fn end(app: &App, set: &mut WriteSet, s: &mut Session, reason: Reason) {
    shift(app, set, s, Standing { status: Status::Declined, consent: Consent::No, reason });
}

/// What a Yes comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It opens the session.
    Opens,
    /// It comes when the day that it would have opened is over.
    TooLate,
    /// It changes nothing.
    Nothing,
}

/// A Yes counts for a prompt that waits for one, and also after a No or after the sweep if the
/// person said it while the prompt could be answered. After STOP, only a new prompt counts.
fn judge(s: &Session, said_at: Millis, now: Millis) -> Verdict {
    let may_count = match s.status {
        Status::Pending => true,
        Status::Declined => s.reason == Reason::Declined,
        Status::Expired => s.reason == Reason::NoAnswer,
        Status::Active | Status::Failed => false,
    };
    // Our clock and the upstream's may differ, so what is said before the prompt counts as well.
    if !may_count || said_at >= s.created_at + LIFE_MS {
        return Verdict::Nothing;
    }
    if said_at + LIFE_MS <= now { Verdict::TooLate } else { Verdict::Opens }
}

async fn yes(
    app: &App,
    set: &mut WriteSet,
    mut s: Session,
    heard: &Heard<'_>,
) -> Result<(), Error> {
    let said_at = heard.said_at;
    let verdict = judge(&s, said_at, app.now());
    let is_open = s.status == Status::Pending;
    // The person may have been asked again meanwhile: that one is theirs to answer.
    let others = if is_open { None } else { sql::open(app, &s.account, &s.recipient).await? };
    match verdict {
        Verdict::Nothing => {}
        _ if others.is_some() => {}
        Verdict::TooLate => {
            let reason = Reason::AnsweredTooLate;
            shift(
                app,
                set,
                &mut s,
                Standing { status: Status::Expired, consent: Consent::Yes, reason },
            );
        }
        Verdict::Opens => {
            let channel = Channel::Chatapp.as_str();
            match credits::price(app, channel, "session", &s.country).await {
                Ok(price) if heard.can_pay => activate(app, set, s, (said_at, price)),
                Ok(_) | Err(credits::Error::NoPrice { .. }) => {
                    let reason = Reason::InsufficientCredits;
                    let to = Standing { status: Status::Failed, consent: Consent::Yes, reason };
                    shift(app, set, &mut s, to);
                }
                Err(credits::Error::Db(error)) => return Err(error),
                Err(error) => return Err(Error::Unavailable(error.to_string())),
            }
        }
    }
    Ok(())
}

/// Charges and opens. The set is refused as a whole where the account cannot pay.
fn activate(app: &App, set: &mut WriteSet, mut s: Session, (said_at, price): (Millis, i64)) {
    let address = Address::Phone(Msisdn::stored(s.recipient.clone()));
    let leg = NewLeg {
        account: &s.account,
        object_id: s.id.as_str(),
        channel: Channel::Chatapp,
        to: &address,
        priority: Priority::Transactional,
        credits: price,
        give_up_at: app.now(),
    };
    let opening = Attempt {
        id: AttemptId::of(s.id.uuid()),
        carrier: String::new(),
        state: State::Delivered,
        tries: 0,
        lease_until: app.now(),
        ..Attempt::new(app, &leg)
    };
    dispatch::buy::<Prompt>(app, set, &opening);
    s.billed_credits = price;
    s.expires_at = said_at + LIFE_MS;
    s.consent_at = Some(said_at);
    let reason = Reason::ConsentGiven;
    shift(app, set, &mut s, Standing { status: Status::Active, consent: Consent::Yes, reason });
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn only_a_whole_message_is_an_answer() {
        for (text, answer) in [("Oui", true), (" YES! ", true), ("non.", false), ("No", false)] {
            assert_eq!(word(text), Some(answer), "{text}");
        }
        for text in ["", "1", "oui merci", "yes please", "nope", "no no", "si"] {
            assert_eq!(word(text), None, "{text}");
        }
    }
}
