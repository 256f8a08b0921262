//! What the API and events show of a session.

use clock::Millis;
use endpoints::ToSchema;
use futures_util::future::BoxFuture;
use serde::Serialize;
use store::Error;

use super::{Consent, Session, Status, store as sql};
use crate::app::{App, EventRef};
use crate::dispatch::recipients::shown;
use crate::kit::id::ConsentId;

/// What every view of a session has.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionBase {
    /// Its id.
    #[schema(example = "ses_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// With whom; empty once the person is forgotten.
    #[schema(example = "+33612345678")]
    recipient: String,
    /// The person's country, ISO 3166.
    #[schema(example = "FR")]
    country: String,
    /// What the person said.
    consent_status: Consent,
    /// Where it stands.
    status: Status,
    /// What it cost.
    #[schema(example = 10)]
    billed_credits: i64,
    /// Its end; until the person answers, the end of the prompt.
    #[schema(format = DateTime, example = "2026-01-02T00:00:01.500Z")]
    expires_at: String,
}

/// A session in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionRow {
    #[serde(flatten)]
    base: SessionBase,
    /// The passcode after which the person was asked.
    #[schema(example = "otp_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    otp_challenge_id: String,
}

/// A session.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionDetail {
    #[serde(flatten)]
    base: SessionBase,
    /// When the person said Yes.
    #[schema(required = true, format = DateTime, example = "2026-01-01T00:00:01.500Z")]
    consent_at: Option<String>,
}

/// A session in an event.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    detail: SessionDetail,
    reason: &'static str,
}

fn base(session: &Session, status: Status) -> SessionBase {
    SessionBase {
        id: session.id.as_str().to_owned(),
        recipient: shown(session.recipient.clone()),
        country: session.country.clone(),
        consent_status: session.consent,
        status,
        billed_credits: session.billed_credits,
        expires_at: session.expires_at.to_string(),
    }
}

pub(super) fn row(session: &Session, now: Millis) -> SessionRow {
    SessionRow {
        base: base(session, session.shown_status(now)),
        otp_challenge_id: session.challenge.clone(),
    }
}

pub(super) fn detail(session: &Session, status: Status) -> SessionDetail {
    SessionDetail {
        base: base(session, status),
        consent_at: session.consent_at.map(|at| at.to_string()),
    }
}

/// What was so at an event, in words that [`as_of`] reads.
pub(super) fn state_of(session: &Session) -> String {
    let (Millis(expires_at), consent_at) =
        (session.expires_at, session.consent_at.map_or(0, |at| at.0));
    let (status, consent, reason) =
        (session.status.as_str(), session.consent.as_str(), session.reason.as_str());
    format!("{status} {consent} {reason} {} {expires_at} {consent_at}", session.billed_credits)
}

/// The session as `state` says. Without it (somebody was erased): as it stands now.
fn as_of(session: Session, state: &str, now: Millis) -> Session {
    let mut words = state.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let Ok(status) = word().parse() else {
        return Session { status: session.shown_status(now), ..session };
    };
    let (consent, reason) = (word().parse(), word().parse());
    let mut number = || word().parse::<i64>().unwrap_or_default();
    let (billed_credits, expires_at, consent_at) = (number(), number(), number());
    Session {
        status,
        consent: consent.unwrap_or(session.consent),
        reason: reason.unwrap_or(session.reason),
        billed_credits,
        expires_at: Millis(expires_at),
        consent_at: (consent_at > 0).then_some(Millis(consent_at)),
        ..session
    }
}

/// A session as its endpoint shows it, as of an event, and why it stands so.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = ConsentId::parse(news.object_id) else { return Ok(None) };
        let found = sql::session(app, news.account, &id).await?;
        let told = found.map(|session| {
            let session = as_of(session, news.state, app.now());
            Told { detail: detail(&session, session.status), reason: session.reason.as_str() }
        });
        Ok(told.and_then(|told| serde_json::to_string(&told).ok()))
    })
}
