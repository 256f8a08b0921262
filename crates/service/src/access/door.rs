//! Who comes without a token, and who leaves with one. A repeat of a logout shows a token that the
//! first one ended, so here, and only here, an ended token still says whose it was: for an
//! `Idempotency-Key` that stands for its end.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use store::args;

use super::audit::By;
use super::caller::{Caller, Myself, Portal, Staff, bearer, client_of, request_id, take};
use super::idempotency;
use super::store as sql;
use super::token::{self, Kind};
use super::who::Who;
use crate::app::App;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::seal::hex;
use crate::kit::throttle::Class;

/// Whoever makes a password be hashed: somebody without a token who is about to get one, or who
/// changes the password. Their address has a budget, because hashing costs more than asking for it.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The id of the request, for the audit log.
    pub request_id: String,
    /// What counts as one client: an address, or the /64 of an IPv6 one.
    pub address: String,
    /// The network of it, which names no person: for the audit log.
    pub network: String,
}

impl Guest {
    /// Whose `Idempotency-Key`s theirs are: a keyed hash of the address, the same after a rotation
    /// of the master key.
    #[must_use]
    pub fn owner(&self, app: &App) -> String {
        hex(&app.vault.recipient_mac("guest", &self.address))
    }
}

impl FromRequestParts<App> for Guest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let client = client_of(parts);
        // Every connection has an address; without one all share a budget.
        let address = client.map(|client| client.unit().to_string()).unwrap_or_default();
        let network = client.map(|client| client.to_string()).unwrap_or_default();
        take(app, parts, Class::Guest, &address)?;
        Ok(Self { request_id: request_id(parts), address, network })
    }
}

/// A user ([`Portal`]) or a member of staff ([`Staff`]) who logs out, or did.
#[derive(Debug)]
pub struct Leaver<P> {
    /// Who it is.
    pub who: Who,
    /// The hash of the token.
    pub token: [u8; 32],
    /// Why the token opens nothing, if it has ended.
    pub refused: Option<Problem>,
    request_id: String,
    side: PhantomData<fn() -> P>,
}

impl<P> Leaver<P> {
    /// The actor and the request, for the audit log.
    #[must_use]
    pub fn by(&self) -> By<'_> {
        By { who: &self.who, request_id: &self.request_id }
    }

    fn of(who: Who, token: [u8; 32], request_id: String) -> Self {
        Self { who, token, refused: None, request_id, side: PhantomData }
    }

    /// Whose a token was that has ended, where a key is shown with it; else the refusal.
    async fn ended(
        parts: &Parts,
        app: &App,
        kind: Kind,
        refused: Problem,
    ) -> Result<Self, Problem> {
        let is_keyed = idempotency::is_in(&parts.headers);
        let Some(text) = bearer(&parts.headers).filter(|text| token::is_well_formed(text, kind))
        else {
            return Err(refused);
        };
        if !is_keyed || refused.code() != Code::InvalidToken {
            return Err(refused);
        }
        let hash = token::hash(text);
        let row: Option<sql::TokenRow> = app.db.row(sql::TOKEN, args![hash]).await?;
        let Some(row) = row.filter(|row| row.kind == kind.as_str()) else { return Err(refused) };
        let who = kind.who(&row.subject_id);
        Ok(Self { refused: Some(refused), ..Self::of(who, hash, String::new()) })
    }
}

impl FromRequestParts<App> for Leaver<Portal> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Caller::<Myself>::from_request_parts(parts, app).await {
            Ok(Caller { who, token: Some(token), request_id, .. }) => {
                Ok(Self::of(who, token, request_id))
            }
            Ok(_) => Err(Code::InternalError.into()),
            Err(refused) => Self::ended(parts, app, Kind::Portal, refused).await,
        }
    }
}

impl FromRequestParts<App> for Leaver<Staff> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Staff::from_request_parts(parts, app).await {
            Ok(staff) => Ok(Self::of(staff.who, staff.token, staff.request_id)),
            Err(refused) => Self::ended(parts, app, Kind::Staff, refused).await,
        }
    }
}
