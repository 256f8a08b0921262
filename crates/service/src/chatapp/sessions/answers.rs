//! What a person's message means for a session: Yes opens it and is charged, No and STOP end it.
//! All of it is written in the set that takes the message in, so a message that is brought again
//! changes nothing. What the person said last counts, in whatever order it is heard: the clock of
//! the upstream decides between answers.

use ::store::{Error, WriteSet};
use clock::Millis;
use futures_util::future::BoxFuture;

use super::prompts::{Prompt, read_payload};
use super::{Consent, LIFE_MS, Reason, SILENCED, Session, Standing, Status, shift, store as sql};
use crate::app::{App, Heard, Reaction};
use crate::carriers::{Address, Channel, Priority};
use crate::chatapp::CLOCKS_DIFFER_MS;
use crate::credits;
use crate::dispatch::{self, Attempt, NewLeg, Owner, State};
use crate::inbound::opt_outs;
use crate::kit::id::AttemptId;
use crate::kit::msisdn::Msisdn;

/// What people write instead of tapping. Only the whole message counts.
const YES: [&str; 2] = ["oui", "yes"];
const NO: [&str; 2] = ["non", "no"];

/// What somebody says of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Stop,
}

/// See [`crate::app::Hear`].
#[must_use]
pub fn hear<'a>(app: &'a App, heard: Heard<'a>) -> BoxFuture<'a, Result<Reaction, Error>> {
    Box::pin(async move {
        let mut reaction = Reaction::none(heard.account.as_str());
        let Some((session, answer)) = answered(app, &heard).await? else { return Ok(reaction) };
        reaction.button = match answer {
            Answer::Yes => Some("yes"),
            Answer::No => Some("no"),
            Answer::Stop => None,
        };
        follow(app, &mut reaction.set, session, answer, &heard).await?;
        Ok(reaction)
    })
}

/// The session of this person that the message answers, and the answer.
async fn answered(app: &App, heard: &Heard<'_>) -> Result<Option<(Session, Answer)>, Error> {
    let (account, person) = (heard.account, heard.person.e164());
    if heard.is_stop {
        let found = match sql::open(app, account, person).await? {
            None => sql::reopenable(app, account, person).await?,
            open => open,
        };
        return Ok(found.map(|session| (session, Answer::Stop)));
    }
    if heard.channel != Channel::Chatapp {
        return Ok(None);
    }
    if let Some((id, is_yes)) = heard.button.and_then(read_payload) {
        let found = sql::session(app, account, &id).await?;
        // A payload that somebody else sends is no answer.
        let own = found.filter(|session| session.recipient == person);
        let answer = if is_yes { Answer::Yes } else { Answer::No };
        return Ok(own.map(|session| (session, answer)));
    }
    let Some(answer) = word(heard.text) else { return Ok(None) };
    let found = match sql::open(app, account, person).await? {
        None => sql::reopenable(app, account, person).await?,
        open => open,
    };
    let asked = found.filter(|session| session.attempt.is_some() && session.asks(heard.said_at));
    let Some(session) = asked else { return Ok(None) };
    // What was said long before it, and heard only now, was said about something else.
    if heard.context.is_none() && session.is_after(heard.said_at) {
        return Ok(None);
    }
    // Words in answer to another message are no answer to the prompt.
    if let Some(context) = heard.context {
        let named = dispatch::object_of(app, account, heard.carrier, context).await?;
        if named.is_none_or(|(kind, id)| kind != Prompt::KIND || id != session.id.as_str()) {
            return Ok(None);
        }
    }
    Ok(Some((session, answer)))
}

/// The answer that a whole message is.
fn word(text: &str) -> Option<Answer> {
    let text = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    if YES.contains(&text.as_str()) {
        Some(Answer::Yes)
    } else {
        NO.contains(&text.as_str()).then_some(Answer::No)
    }
}

/// What an answer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It opens the session, which is charged.
    Opens,
    /// It opens one again that was paid for.
    Reopens,
    /// It comes when the day that it would have opened is over.
    TooLate,
    /// It ends the session, or the question.
    Ends(Reason),
    /// It moves nothing, and makes older ones count for nothing.
    Heard,
    /// It changes nothing.
    Nothing,
}

impl Session {
    /// Whether a Yes may open it although it is over.
    fn may_reopen(&self) -> bool {
        match self.status {
            Status::Declined => matches!(self.reason, Reason::Declined | Reason::Withdrawn),
            Status::Expired => self.reason == Reason::NoAnswer,
            Status::Pending | Status::Active | Status::Failed => false,
        }
    }

    /// Whether the prompt could be answered then. Our clock and the upstream's may differ, so what
    /// is said before the prompt counts as well.
    fn can_be_answered(&self, said_at: Millis) -> bool {
        said_at < self.created_at + LIFE_MS
    }

    /// Whether it began after what is said then.
    fn is_after(&self, said_at: Millis) -> bool {
        said_at < self.created_at - CLOCKS_DIFFER_MS
    }

    /// Whether a Yes or a No that is written then is about it.
    fn asks(&self, said_at: Millis) -> bool {
        self.status == Status::Active || self.can_be_answered(said_at)
    }

    /// Whether nothing is known that was said later. Of a Yes and a No at the same time, which may
    /// be a whole second, the No counts.
    fn is_newest(&self, answer: Answer, said_at: Millis) -> bool {
        // Sessions from before `answered_at` know the Yes alone.
        let last = self.answered_at.max(self.consent_at);
        last.is_none_or(|last| match answer {
            Answer::Yes => last < said_at,
            Answer::No | Answer::Stop => last <= said_at,
        })
    }
}

/// What the person said last counts, until the prompt's day is over: a Yes opens, also after a No
/// or after the sweep, a No ends. STOP ends what is open, also where a Yes came after it: then only
/// a new prompt counts.
fn judge(session: &Session, answer: Answer, said_at: Millis, now: Millis) -> Verdict {
    let is_newest = session.is_newest(answer, said_at);
    match answer {
        // A late Yes would open it otherwise.
        Answer::Stop if session.may_reopen() => Verdict::Ends(Reason::Stop),
        Answer::Stop
            if session.is_open()
                && (said_at >= session.created_at || is_newest && !session.is_after(said_at)) =>
        {
            Verdict::Ends(Reason::Stop)
        }
        Answer::Stop => Verdict::Nothing,
        _ if !is_newest || !(session.is_open() || session.may_reopen()) => Verdict::Nothing,
        Answer::Yes => judge_yes(session, said_at, now),
        Answer::No => match session.shown_status(now) {
            Status::Pending => Verdict::Ends(Reason::Declined),
            Status::Active => Verdict::Ends(Reason::Withdrawn),
            // It was said in time, and is heard when the time is over.
            Status::Expired if session.consent_at.is_none() && session.can_be_answered(said_at) => {
                Verdict::Ends(Reason::Declined)
            }
            _ => Verdict::Heard,
        },
    }
}

fn judge_yes(session: &Session, said_at: Millis, now: Millis) -> Verdict {
    match session.status {
        _ if !session.can_be_answered(said_at) => Verdict::Nothing,
        Status::Active => Verdict::Heard,
        _ if session.consent_at.is_none() => {
            if said_at + LIFE_MS <= now {
                Verdict::TooLate
            } else {
                Verdict::Opens
            }
        }
        _ if now < session.expires_at => Verdict::Reopens,
        _ => Verdict::Nothing,
    }
}

async fn follow(
    app: &App,
    set: &mut WriteSet,
    mut session: Session,
    answer: Answer,
    heard: &Heard<'_>,
) -> Result<(), Error> {
    let verdict = judge(&session, answer, heard.said_at, app.now());
    let comes_back = !matches!(verdict, Verdict::Nothing | Verdict::Heard) && !session.is_open();
    // The person may have been asked again meanwhile: that one is theirs to answer.
    if comes_back && sql::open(app, &session.account, &session.recipient).await?.is_some() {
        return Ok(());
    }
    if verdict != Verdict::Nothing {
        session.answered_at = session.answered_at.max(Some(heard.said_at));
    }
    let opens = matches!(verdict, Verdict::Opens | Verdict::Reopens);
    let is_suspended = opens && sql::is_suspended(app, &session.account).await?;
    let is_silent = opens && opt_outs::is_opted_out(app, heard.account, heard.person).await?;
    let to = match verdict {
        Verdict::Nothing => return Ok(()),
        Verdict::Heard => {
            sql::heard(set, &session);
            return Ok(());
        }
        // Nothing could be written in it.
        Verdict::Opens | Verdict::Reopens if is_silent => SILENCED,
        Verdict::Ends(reason) => {
            Standing { status: Status::Declined, consent: Consent::No, reason }
        }
        Verdict::TooLate => said_yes(Status::Expired, Reason::AnsweredTooLate),
        // It could not write to the person, so it pays for nothing.
        _ if is_suspended => said_yes(Status::Failed, Reason::AccountSuspended),
        Verdict::Reopens => said_yes(Status::Active, Reason::ConsentGiven),
        Verdict::Opens => match price(app, &session).await? {
            Some(price) if heard.can_pay => {
                activate(app, set, session, heard.said_at, price);
                return Ok(());
            }
            _ => said_yes(Status::Failed, Reason::InsufficientCredits),
        },
    };
    shift(app, set, &mut session, to);
    Ok(())
}

const fn said_yes(status: Status, reason: Reason) -> Standing {
    Standing { status, consent: Consent::Yes, reason }
}

/// What a session costs; `None` = nothing says.
async fn price(app: &App, session: &Session) -> Result<Option<i64>, Error> {
    match credits::price(app, Channel::Chatapp.as_str(), "session", &session.country).await {
        Ok(price) => Ok(Some(price)),
        Err(credits::Error::NoPrice { .. }) => Ok(None),
        Err(credits::Error::Db(error)) => Err(error),
        Err(error) => Err(Error::Unavailable(error.to_string())),
    }
}

impl Session {
    /// It is paid for, from the moment of the Yes.
    fn open(&mut self, said_at: Millis, price: i64) -> Standing {
        self.billed_credits = price;
        self.expires_at = said_at + LIFE_MS;
        self.consent_at = Some(said_at);
        said_yes(Status::Active, Reason::ConsentGiven)
    }
}

/// Charges and opens. The set is refused as a whole where the account cannot pay.
fn activate(app: &App, set: &mut WriteSet, mut session: Session, said_at: Millis, price: i64) {
    let address = Address::Phone(Msisdn::stored(session.recipient.clone()));
    let leg = NewLeg {
        account: &session.account,
        object_id: session.id.as_str(),
        channel: Channel::Chatapp,
        to: &address,
        priority: Priority::Transactional,
        credits: price,
        give_up_at: app.now(),
    };
    let opening = Attempt {
        id: AttemptId::of(session.id.uuid()),
        carrier: String::new(),
        state: State::Delivered,
        tries: 0,
        lease_until: app.now(),
        ..Attempt::new(app, &leg)
    };
    dispatch::buy::<Prompt>(app, set, &opening);
    let to = session.open(said_at, price);
    shift(app, set, &mut session, to);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kit::id::AccountId;

    #[test]
    fn only_a_whole_message_is_an_answer() {
        let answers = [
            ("Oui", Answer::Yes),
            (" YES! ", Answer::Yes),
            ("non.", Answer::No),
            ("No", Answer::No),
        ];
        for (text, answer) in answers {
            assert_eq!(word(text), Some(answer), "{text}");
        }
        for text in ["", "1", "oui merci", "yes please", "nope", "no no", "si"] {
            assert_eq!(word(text), None, "{text}");
        }
    }

    const START: Millis = Millis(1_767_225_600_000);
    const PRICE: i64 = 10;

    fn asked() -> Session {
        Session {
            account: AccountId::stored("acc_1".to_owned()),
            id: crate::kit::id::ConsentId::new(&clock::Clock::held(START, 1)),
            recipient: "+33612345678".to_owned(),
            country: "FR".to_owned(),
            challenge: String::new(),
            language: "fr".to_owned(),
            consent: Consent::Pending,
            status: Status::Pending,
            reason: Reason::PromptSent,
            billed_credits: 0,
            attempt: None,
            event_count: 1,
            expires_at: START + LIFE_MS,
            consent_at: None,
            ended_at: None,
            created_at: START,
            next_at: Some(START + LIFE_MS),
            answered_at: None,
            in_window: false,
        }
    }

    /// Something happens to a session: the sweep, or an answer that took so long to come in.
    #[derive(Clone, Copy, Debug)]
    struct Happening {
        answer: Option<Answer>,
        after_ms: i64,
        delay_ms: i64,
        can_pay: bool,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        let answer = prop_oneof![
            Just(None),
            Just(Some(Answer::Yes)),
            Just(Some(Answer::Yes)),
            Just(Some(Answer::No)),
            Just(Some(Answer::Stop)),
        ];
        let pause = prop_oneof![Just(0), 0..clock::HOUR, 0..8 * clock::DAY];
        (answer, pause.clone(), pause, proptest::bool::weighted(0.9)).prop_map(
            |(answer, after_ms, delay_ms, can_pay)| Happening {
                answer,
                after_ms,
                delay_ms,
                can_pay,
            },
        )
    }

    /// Does what [`follow`] and the sweep do, without a database; `true` = it was charged.
    fn happens(session: &mut Session, it: Happening, now: Millis) -> bool {
        let said_at = now - it.delay_ms;
        let Some(answer) = it.answer else {
            if session.is_open() && now >= session.expires_at {
                session.stand(session.run_out(), now);
            }
            return false;
        };
        let verdict = judge(session, answer, said_at, now);
        if verdict != Verdict::Nothing {
            session.answered_at = session.answered_at.max(Some(said_at));
        }
        let to = match verdict {
            Verdict::Nothing | Verdict::Heard => return false,
            Verdict::Ends(reason) => {
                Standing { status: Status::Declined, consent: Consent::No, reason }
            }
            Verdict::TooLate => said_yes(Status::Expired, Reason::AnsweredTooLate),
            Verdict::Reopens => said_yes(Status::Active, Reason::ConsentGiven),
            Verdict::Opens if it.can_pay => session.open(said_at, PRICE),
            Verdict::Opens => said_yes(Status::Failed, Reason::InsufficientCredits),
        };
        session.stand(to, now);
        verdict == Verdict::Opens && it.can_pay
    }

    /// Answers within an hour, each with its second.
    fn answers() -> impl Strategy<Value = Vec<(i64, Answer)>> {
        let answer = prop_oneof![Just(Answer::Yes), Just(Answer::No)];
        proptest::collection::vec((1..8_i64, answer), 1..7)
    }

    /// How a session stands after these answers were heard in this order.
    fn after(heard: &[(i64, Answer)]) -> Session {
        let mut session = asked();
        for &(second, answer) in heard {
            let said_at = START + second * 1_000;
            let delay_ms = clock::HOUR - second * 1_000;
            let it = Happening { answer: Some(answer), after_ms: 0, delay_ms, can_pay: true };
            happens(&mut session, it, said_at + delay_ms);
        }
        session
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_a_person_said_last_counts_in_whatever_order_it_is_heard(
            (heard, again) in answers().prop_flat_map(|said| {
                let twice = [said.clone(), said.clone()].concat();
                (Just(twice).prop_shuffle(), Just(said).prop_shuffle())
            })
        ) {
            let last = |said: &[(i64, Answer)]| {
                let newest = said.iter().map(|(second, _)| *second).max();
                let is_no = said.iter().any(|&(second, answer)| {
                    Some(second) == newest && answer == Answer::No
                });
                if is_no { Status::Declined } else { Status::Active }
            };
            prop_assert_eq!(after(&heard).status, last(&heard));
            prop_assert_eq!(after(&again).status, last(&again));
        }

        #[test]
        fn whatever_people_say_a_session_is_charged_once_and_ends_for_good(
            all in proptest::collection::vec(happening(), 1..12)
        ) {
            let (mut s, mut now, mut charges, mut is_stopped) = (asked(), START, 0, false);
            for it in all {
                now = now + it.after_ms;
                let before = s.clone();
                charges += i64::from(happens(&mut s, it, now));
                prop_assert!(charges <= 1, "charged twice");
                prop_assert_eq!(s.billed_credits, charges * PRICE);
                let is_final = match before.status {
                    Status::Failed => true,
                    Status::Declined => !before.may_reopen(),
                    Status::Expired => before.reason != Reason::NoAnswer,
                    Status::Pending | Status::Active => false,
                };
                let moved = s.event_count - before.event_count;
                prop_assert!(moved == 0 || (moved == 1 && !is_final), "{:?}", before.reason);
                prop_assert_eq!(s.next_at.is_some(), s.is_open());
                prop_assert_eq!(s.ended_at.is_some(), !s.is_open());
                if s.status == Status::Active {
                    let consent_at = s.consent_at.unwrap();
                    prop_assert!(consent_at < s.created_at + LIFE_MS);
                    prop_assert_eq!(s.expires_at, consent_at + LIFE_MS);
                }
                if it.answer == Some(Answer::Stop) && it.delay_ms == 0 {
                    prop_assert!(!s.is_open(), "a STOP that is new ends everything");
                    is_stopped = true;
                }
                prop_assert!(!is_stopped || !s.is_open(), "nothing opens it after STOP");
            }
        }
    }
}
