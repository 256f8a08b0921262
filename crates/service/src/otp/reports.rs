//! "I did not request this code": a person taps the button of that name under a passcode on the
//! chat-app. The passcode ends, since somebody else asked for it, and its event says why. What it
//! cost stays: it arrived.

use ::store::{Error, WriteSet};

use super::{Challenge, Otp, Reason, Status, events, store as sql};
use crate::app::{App, Heard, Reaction};
use crate::carriers::Channel;
use crate::dispatch::{self, Attempt, Failure, Owner, State};
use crate::kit::id::ChallengeId;

/// What the button sends back: the upstream's own word.
const PAYLOAD: &str = "DID_NOT_REQUEST_CODE";
/// What the event of the tap says.
const BUTTON: &str = "did_not_request_code";

/// What follows from a tap on that button; `None` = it is another message.
///
/// # Errors
/// When the database cannot be read.
pub async fn report(app: &App, heard: &Heard<'_>) -> Result<Option<Reaction>, Error> {
    if heard.button != Some(PAYLOAD) {
        return Ok(None);
    }
    let mut reaction = Reaction::none(heard.account.as_str());
    // Under nothing of ours it is a message like any other.
    let Some(challenge) = reported(app, heard).await? else { return Ok(Some(reaction)) };
    reaction.button = Some(BUTTON);
    let attempt = dispatch::attempt(app, heard.account, &challenge.attempt).await?;
    let in_hand = |it: &Attempt| it.state == State::Sending && app.now() < it.lease_until;
    if challenge.is_open(app.now()) {
        // It is brought again, once the carrier has said what it makes of the last one.
        if attempt.as_ref().is_some_and(in_hand) {
            return Err(Error::Unavailable("the passcode is being sent".to_owned()));
        }
        if let Some(attempt) = &attempt {
            settle(app, &mut reaction.set, attempt);
        }
        let reason = Reason::ReportedByUser;
        sql::close(&mut reaction.set, &challenge, Status::Failed, Some(reason));
        events::failed(app, &mut reaction.set, &challenge, reason);
    }
    Ok(Some(reaction))
}

/// What is held for the last attempt is given back where it never went out, or is an SMS of which
/// nobody knows. Of the chat-app, where the button is, it is spent.
fn settle(app: &App, set: &mut WriteSet, attempt: &Attempt) {
    let give_back = |set: &mut WriteSet, why: &Failure| {
        dispatch::give_back::<Otp>(app, set, attempt, why);
    };
    match (attempt.state, attempt.channel) {
        (state, _) if !state.is_held() => {}
        (State::Queued, _) => give_back(set, &Failure::expired()),
        (_, Channel::Chatapp) => drop(dispatch::arrived::<Otp>(app, set, attempt)),
        (_, Channel::Sms | Channel::Email) => give_back(set, &Failure::silence()),
    }
}

/// The passcode that the button was under, else the newest to this person.
async fn reported(app: &App, heard: &Heard<'_>) -> Result<Option<Challenge>, Error> {
    let account = heard.account;
    let named = match heard.context {
        Some(context) => dispatch::object_of(app, account, heard.carrier, context).await?,
        None => None,
    };
    let id = match named {
        Some((kind, id)) if kind == Otp::KIND => ChallengeId::parse(&id),
        // It was under something else.
        Some(_) => None,
        None => sql::newest_by_recipient(app, account, heard.person).await?,
    };
    let Some(id) = id else { return Ok(None) };
    let found = sql::challenge(app, account, &id).await?;
    Ok(found.filter(|challenge| challenge.recipient == heard.person.e164()))
}
