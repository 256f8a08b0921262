//! Prompts as a channel: the question whether an account may write, and the due work on sessions:
//! those that wait for their prompt, those whose time is over.

use ::store::{Bell, CommitError, Error, WriteSet};
use clock::{MINUTE, Millis};
use futures_util::{StreamExt, stream};

use super::{Consent, Reason, SILENCED, Session, Standing, Status, shift, store as sql};
use crate::app::{App, Env};
use crate::carriers::{
    Address, Channel, Content, Outbound, Priority, QuickReply, Refusal, Template,
};
use crate::dispatch::recipients::is_number;
use crate::dispatch::{
    self, Attempt, Claim, Failure, Leg, NewLeg, News, Owner, Round, State, Then,
};
use crate::inbound::{opt_outs, windows};
use crate::kit::id::{AccountId, ConsentId};
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;

/// How often due work is looked for without being asked, milliseconds.
const PAUSE_MS: u64 = 500;
/// Sessions claimed at a time.
const BATCH: usize = 256;
/// How long a claim keeps other nodes away, milliseconds.
const CLAIM_MS: i64 = 15_000;
/// Sessions visited at the same time.
const PARALLEL: usize = 32;
/// How long after its passcode a prompt may still go out, milliseconds: later nobody knows why.
const LATEST_PROMPT_MS: i64 = 10 * MINUTE;
/// How soon a prompt that the carrier could not take goes to it again, milliseconds.
const RETRY_MS: i64 = 15_000;

/// Rings when somebody is to be asked. Each environment has one, since each has a listener.
pub(super) fn bell(app: &App) -> Bell {
    match app.env {
        Env::Live => Bell("consent live"),
        Env::Sandbox => Bell("consent sandbox"),
    }
}

/// Whether people are asked at all: only where there is a prompt to ask them with.
pub(super) fn are_offered(app: &App, account: &AccountId) -> bool {
    let is_set = !app.config.chatapp.consent_template.is_empty();
    let is_offered = app.carriers.offers(Channel::Chatapp, account.as_str());
    app.carriers.handsets().is_some() || (is_set && is_offered)
}

/// What payloads of prompts begin with, and no others.
pub(in crate::chatapp) const PAYLOAD_PREFIX: &str = "c1:";

/// The payload that a button of a session's prompt sends back.
pub(super) fn payload(session: &ConsentId, is_yes: bool) -> String {
    format!("{PAYLOAD_PREFIX}{session}:{}", if is_yes { 'y' } else { 'n' })
}

/// The session and the answer that a payload stands for; `None` = it is no answer to a prompt.
pub(in crate::chatapp) fn read_payload(payload: &str) -> Option<(ConsentId, bool)> {
    let (id, answer) = payload.strip_prefix(PAYLOAD_PREFIX)?.rsplit_once(':')?;
    let is_yes = match answer {
        "y" => true,
        "n" => false,
        _ => return None,
    };
    Some((ConsentId::parse(id)?, is_yes))
}

/// The question and its two answers, in a language.
pub(in crate::chatapp) const fn words(is_french: bool) -> (&'static str, [&'static str; 2]) {
    if is_french {
        let text = "Pouvons-nous vous écrire ici pendant les prochaines 24 heures ?";
        (text, ["Oui", "Non"])
    } else {
        ("May we write to you here for the next 24 hours?", ["Yes", "No"])
    }
}

/// The channel of prompts.
pub struct Prompt;

impl Owner for Prompt {
    const KIND: &'static str = "consent";
    const IS_FREE_AT_ZERO: bool = true;
    type Message = Session;

    /// The prompt itself costs nothing; the answer does.
    fn reason(_: Channel) -> &'static str {
        "chatapp.session"
    }

    async fn load(app: &App, account: &AccountId, id: &str) -> Result<Option<Session>, Error> {
        let Some(id) = ConsentId::parse(id) else { return Ok(None) };
        let Some(mut session) = sql::session(app, account, &id).await? else { return Ok(None) };
        session.in_window = is_in_window(app, &session).await?;
        Ok(Some(session))
    }

    fn content(_: &App, session: &Session, attempt: &Attempt) -> Option<Outbound> {
        if !is_number(&session.recipient) {
            return None;
        }
        let (text, labels) = words(session.language.starts_with("fr"));
        let text = Secret::new(text.to_owned());
        let reply = |(label, is_yes): (&str, bool)| QuickReply {
            label: label.to_owned(),
            payload: payload(&session.id, is_yes),
        };
        let replies = labels.into_iter().zip([true, false]).map(reply).collect();
        Some(Outbound {
            account_id: session.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
            priority: attempt.priority,
            to: Address::Phone(Msisdn::stored(session.recipient.clone())),
            sender: String::new(),
            content: if session.in_window {
                Content::Question { text, replies }
            } else {
                Content::Template {
                    text,
                    template: Template { name: String::new(), language: session.language.clone() },
                    params: Vec::new(),
                    components: Vec::new(),
                    replies,
                }
            },
            valid_until: session.created_at + LATEST_PROMPT_MS,
        })
    }

    /// Who said No or STOP meanwhile is not asked, nor is anybody long after the passcode.
    async fn is_wanted(app: &App, session: &Session) -> Result<bool, Error> {
        let is_late = app.now() >= session.created_at + LATEST_PROMPT_MS;
        if session.status != Status::Pending || is_late {
            return Ok(false);
        }
        opt_outs::still_wants(app, &session.account, Some(&session.recipient)).await
    }

    fn wait_ms(_: &App) -> u64 {
        0
    }

    fn waits_on(_: Channel) -> bool {
        false
    }

    fn may_name(session: &Session) -> bool {
        is_number(&session.recipient)
    }

    fn after(app: &App, session: &Session, _: &Attempt, why: &Failure) -> Then {
        let passes = why.refusal.is_some_and(Refusal::is_passing);
        let at = app.now() + RETRY_MS;
        let is_late = at > session.created_at + LATEST_PROMPT_MS;
        if why.state == State::Refused && passes && !is_late {
            Then::Retry { at }
        } else {
            Then::End
        }
    }

    fn keeps_price(attempt: &Attempt, why: &Failure) -> bool {
        why.state == State::Lapsed && attempt.state == State::Accepted
    }

    /// There is no other way for a prompt.
    fn adopt(_: &App, _: &mut WriteSet, _: &mut Session, _: &Attempt, _: &Failure) {}

    /// Only that it did not arrive changes the session. Silence does not: the person may have it.
    fn decide(app: &App, set: &mut WriteSet, session: &mut Session, _: &Attempt, news: News<'_>) {
        let News::Over(ending) = news else { return };
        if ending.why.refusal == Some(Refusal::OptedOut) && is_number(&session.recipient) {
            let person = Msisdn::stored(session.recipient.clone());
            opt_outs::note_told(app, set, &session.account, &person, session.created_at);
        }
        if session.status == Status::Pending && ending.why.state != State::Lapsed {
            let reason = Reason::PromptUndeliverable;
            let to = Standing { status: Status::Failed, consent: Consent::Pending, reason };
            shift(app, set, session, to);
        }
    }
}

/// Does due work until the process drains.
pub async fn run(app: App) {
    let mut round = Round::default();
    while !app.is_draining() {
        match look(&app, &mut round).await {
            Ok(0) => tokio::select! {
                () = app.db.rung(bell(&app)) => {}
                () = app.rest(PAUSE_MS) => {}
            },
            Ok(_) => {}
            Err(error) => {
                let env = app.env.as_str();
                tracing::warn!(%error, env, "due sessions not read; trying again");
                app.rest(1_000).await;
            }
        }
    }
}

/// Visits the sessions that are due now and says how many there were.
///
/// # Errors
/// When they cannot be claimed. A visit that fails is logged, and due again when its claim ends.
pub async fn run_due(app: &App) -> Result<usize, CommitError> {
    look(app, &mut Round::default()).await
}

async fn look(app: &App, round: &mut Round) -> Result<usize, CommitError> {
    let now = app.now();
    let claim = Claim { due_at: now, until: now + CLAIM_MS, limit: BATCH };
    let due = sql::CLAIMS.claim::<Session>(app, round, claim).await?;
    let count = due.len();
    let visits = stream::iter(due.into_iter().map(|session| visit(app, session)));
    visits.buffer_unordered(PARALLEL).collect::<()>().await;
    Ok(count)
}

/// Since when work is due, in both environments; `None` = none is.
///
/// # Errors
/// When the database cannot be read.
pub async fn oldest_due(app: &App) -> Result<Option<Millis>, Error> {
    sql::CLAIMS.oldest(app).await
}

async fn visit(app: &App, session: Session) {
    let id = session.id.clone();
    let done = if app.now() >= session.expires_at {
        expire(app, session).await
    } else if session.attempt.is_none() && session.status == Status::Pending {
        ask(app, session).await
    } else {
        ask_for_wish(app, session).await
    };
    match done {
        // An answer or another node was faster.
        Ok(()) | Err(CommitError::Rejected(dispatch::STALE)) => {}
        Err(error) => {
            tracing::warn!(%error, session = %id, "due session not settled; trying again");
        }
    }
}

/// Its time is over.
async fn expire(app: &App, mut session: Session) -> Result<(), CommitError> {
    let mut set = WriteSet::of(session.account.as_str());
    let to = session.run_out();
    shift(app, &mut set, &mut session, to);
    app.db.commit(set).await.map(drop)
}

/// The upstream said that the person wants no more: what ends with STOP ends with this.
async fn ask_for_wish(app: &App, mut session: Session) -> Result<(), CommitError> {
    let number = is_number(&session.recipient).then_some(session.recipient.as_str());
    let mut set = WriteSet::of(session.account.as_str());
    if opt_outs::still_wants(app, &session.account, number).await? {
        sql::rest(&mut set, &session);
    } else {
        shift(app, &mut set, &mut session, SILENCED);
    }
    app.db.commit(set).await.map(drop)
}

/// Whether a question with buttons reaches the person: their window is open, and is not about to
/// close. Else only a template does.
async fn is_in_window(app: &App, session: &Session) -> Result<bool, Error> {
    if session.status != Status::Pending || !is_number(&session.recipient) {
        return Ok(false);
    }
    let person = Msisdn::stored(session.recipient.clone());
    windows::is_open(app, &session.account, &person, LATEST_PROMPT_MS).await
}

/// Sends the prompt.
async fn ask(app: &App, mut session: Session) -> Result<(), CommitError> {
    let person = Msisdn::stored(session.recipient.clone());
    let (account, address) = (session.account.clone(), Address::Phone(person.clone()));
    let id = session.id.clone();
    let leg = NewLeg {
        account: &account,
        object_id: id.as_str(),
        channel: Channel::Chatapp,
        to: &address,
        priority: Priority::Transactional,
        credits: 0,
        give_up_at: session.expires_at,
    };
    let mut set = WriteSet::of(account.as_str());
    let (status, consent) = (Status::Pending, Consent::Pending);
    let slot = dispatch::slot(app, &leg).filter(|_| is_number(&session.recipient));
    let Some(slot) = slot else {
        let reason = Reason::PromptUndeliverable;
        shift(app, &mut set, &mut session, Standing { status: Status::Failed, consent, reason });
        return app.db.commit(set).await.map(drop);
    };
    let attempt = slot.attempt(app, &leg);
    session.in_window = is_in_window(app, &session).await?;
    session.attempt = Some(attempt.id.clone());
    shift(app, &mut set, &mut session, Standing { status, consent, reason: Reason::PromptSent });
    dispatch::open::<Prompt>(app, &mut set, &attempt);
    app.db.commit(set).await?;
    slot.go(app, Leg::<Prompt>::new(session, attempt));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clock::{Clock, Millis};

    use super::{payload, read_payload};
    use crate::kit::id::ConsentId;

    #[test]
    fn a_payload_says_session_and_answer_and_nothing_else_is_one() {
        let id = ConsentId::new(&Clock::held(Millis(1_700_000_000_000), 3));
        for is_yes in [true, false] {
            assert_eq!(read_payload(&payload(&id, is_yes)), Some((id.clone(), is_yes)));
        }
        let bad = [String::new(), "c1:".into(), "c1:ses_x:y".into(), format!("c1:{id}:z")];
        for bad in bad.into_iter().chain([format!("c2:{id}:y"), format!("c1:{id}:y:n")]) {
            assert_eq!(read_payload(&bad), None, "{bad}");
        }
    }
}
