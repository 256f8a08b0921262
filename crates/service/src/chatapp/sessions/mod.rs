//! Consent sessions. After a passcode arrived by the chat-app, the person may be asked whether the
//! account may write to them for a day ([`want`]). The question is a template with two buttons; it
//! costs nothing, and goes out through a queue ([`Prompt`]). A Yes charges the price of a session
//! and opens it, in the write set that takes the answer in ([`hear`]); a No or STOP ends it.
//!
//! The hold that pays for a session has the session's own uuid, so the primary key alone says that
//! it is charged once.

mod answers;
pub mod api;
pub(super) mod prompts;
pub(super) mod store;
mod view;

use ::store::{Error, Reject, WriteSet};
use clock::{DAY, Millis};
use endpoints::ToSchema;
use serde::Serialize;

use self::store as sql;
use crate::app::App;
use crate::credits;
use crate::events::{self, Kind, Note};
use crate::kit::id::{AccountId, AttemptId, ConsentId};
use crate::kit::msisdn::Msisdn;
use crate::kit::words::words;

pub use answers::hear;
pub use prompts::{Prompt, oldest_due, run, run_due};
pub use view::show;

/// The account has no such session that is active.
pub(super) const NO_SESSION: Reject = Reject("no_active_session");
/// How long a prompt may be answered, and how long a session lasts, milliseconds.
const LIFE_MS: i64 = DAY;
/// How long somebody who declined is not asked again, milliseconds.
const DECLINED_MS: i64 = 30 * DAY;

words! {
    /// Where a session stands.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = SessionStatus)]
    pub(super) enum Status {
        /// The person is asked.
        Pending = "pending",
        /// The account may write.
        Active = "active",
        /// The person said No, or STOP.
        Declined = "declined",
        /// Nobody answered within a day, or the session's day is over.
        Expired = "expired",
        /// The prompt did not arrive, or the account could not pay.
        Failed = "failed",
    }
}

impl Status {
    const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Active)
    }
}

words! {
    /// What the person said.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = ConsentStatus)]
    pub(super) enum Consent {
        Pending = "pending",
        Yes = "yes",
        No = "no",
    }
}

words! {
    /// Why a session stands so.
    pub(super) enum Reason {
        /// The person is to be asked, and is not yet. Nobody sees this one.
        Wanted = "wanted",
        PromptSent = "prompt_sent",
        ConsentGiven = "consent_given",
        Declined = "declined",
        Withdrawn = "withdrawn",
        Stop = "stop",
        NoAnswer = "no_answer",
        AnsweredTooLate = "answered_too_late",
        WindowEnded = "window_ended",
        PromptUndeliverable = "prompt_undeliverable",
        InsufficientCredits = "insufficient_credits",
        AccountSuspended = "account_suspended",
        Erased = "erased",
    }
}

/// A session as stored.
#[derive(Clone, Debug)]
pub struct Session {
    account: AccountId,
    id: ConsentId,
    recipient: String,
    country: String,
    challenge: String,
    language: String,
    consent: Consent,
    status: Status,
    reason: Reason,
    billed_credits: i64,
    /// The prompt's; `None` = it is not out yet.
    attempt: Option<AttemptId>,
    event_count: i64,
    expires_at: Millis,
    /// When the Yes was said that it was charged for.
    consent_at: Option<Millis>,
    ended_at: Option<Millis>,
    created_at: Millis,
    next_at: Option<Millis>,
    /// When the newest Yes or No was said.
    answered_at: Option<Millis>,
    /// Whether the person may be asked with buttons, and needs no template; not stored.
    in_window: bool,
}

impl Session {
    /// Whether it is pending or active, perhaps over its time.
    pub(super) fn is_open(&self) -> bool {
        self.status.is_open()
    }

    /// Its status as shown: expiry is a fact of time, not of a sweep.
    fn shown_status(&self, now: Millis) -> Status {
        if self.status.is_open() && now >= self.expires_at { Status::Expired } else { self.status }
    }

    /// One event further. An open one has due work at its end.
    fn stand(&mut self, to: Standing, now: Millis) {
        (self.status, self.consent, self.reason) = (to.status, to.consent, to.reason);
        self.next_at = to.status.is_open().then_some(self.expires_at);
        self.ended_at = (!to.status.is_open()).then_some(now);
        self.event_count += 1;
    }

    /// How an open one stands when its time is over.
    fn run_out(&self) -> Standing {
        let reason = match self.status {
            Status::Active => Reason::WindowEnded,
            _ => Reason::NoAnswer,
        };
        Standing { status: Status::Expired, consent: self.consent, reason }
    }
}

/// Where STOP leaves a session.
const SILENCED: Standing =
    Standing { status: Status::Declined, consent: Consent::No, reason: Reason::Stop };

/// How a session comes to stand.
#[derive(Clone, Copy, Debug)]
struct Standing {
    status: Status,
    consent: Consent,
    reason: Reason,
}

/// Moves a session and tells of it.
fn shift(app: &App, set: &mut WriteSet, session: &mut Session, to: Standing) {
    let before = session.status;
    session.stand(to, app.now());
    sql::shift(set, session, before);
    let (kind, state) = (Kind::ChatappConsent, view::state_of(session));
    let (account, object_id, sequence) =
        (&session.account, session.id.as_str(), session.event_count);
    events::note(app, set, Note { account, kind, object_id, sequence, state: &state });
}

/// After which passcode a person is to be asked.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose passcode.
    pub account: &'a AccountId,
    /// The passcode.
    pub challenge_id: &'a str,
    /// To whom it was delivered, `+` and digits.
    pub recipient: &'a str,
    /// The language that they are asked in.
    pub language: &'a str,
}

/// Has a person asked, in the set that says that a passcode was delivered, unless a session is open
/// with them, they declined lately, or they opted out. One statement, and nobody waits for the
/// rest.
pub fn want(app: &App, set: &mut WriteSet, wanted: Wanted<'_>) {
    if !prompts::are_offered(app, wanted.account) {
        return;
    }
    let id = ConsentId::of(credits::new_hold(app));
    let country = Msisdn::stored(wanted.recipient.to_owned()).country().to_owned();
    let recipient_mac = app.vault.recipient_mac(wanted.account.as_str(), wanted.recipient);
    let new = sql::New { env: app.env.as_str(), id: &id, country: &country, recipient_mac, wanted };
    sql::want(set, &new, app.now());
    set.ring(prompts::bell(app));
}

/// Has the open session with a person ended soon, because the set notes that they want no more.
pub(super) fn silence(app: &App, set: &mut WriteSet, account: &AccountId, person: &Msisdn) {
    sql::look(set, account, person.e164(), app.now());
    set.ring(prompts::bell(app));
}

/// The account's active session with a person.
pub(super) async fn active(
    app: &App,
    account: &AccountId,
    person: &Msisdn,
) -> Result<Option<ConsentId>, Error> {
    let found = sql::active(app, account, person.e164()).await?;
    Ok(found.map(|session| session.id))
}

/// Refuses the set with [`NO_SESSION`] unless the session is active.
pub(super) fn guard(app: &App, set: &mut WriteSet, account: &AccountId, session: &ConsentId) {
    sql::active_guard(set, account, session, app.now(), NO_SESSION);
}

/// Ends a session, because its person is erased.
pub(super) fn erase(app: &App, set: &mut WriteSet, session: &mut Session) {
    let to = Standing { status: Status::Expired, consent: session.consent, reason: Reason::Erased };
    shift(app, set, session, to);
}
