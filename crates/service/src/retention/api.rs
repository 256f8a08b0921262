//! Erasing a recipient over HTTP: staff only.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Deserialize;

use super::turns::{self, Order};
use super::view::ErasureView;
use super::{Error, Person, inbound, of_dispatch};
use crate::access::caller::Staff;
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::chatapp;
use crate::kit::body::Fields;
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;
use crate::kit::page::NoQuery;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(erase_recipient)
}

/// A person who wants to be forgotten.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewErasure {
    /// The phone number, in international form; this or `email`.
    #[schema(example = "+33612345678")]
    pub phone: Option<String>,
    /// The email address; this or `phone`.
    pub email: Option<String>,
    /// Only in this account; left out = in all accounts of both environments.
    pub account_id: Option<String>,
}

/// Erase a person.
///
/// Their phone number or email address goes from everything that was sent to it or by it. Open
/// passcodes, and SMS and emails that are not sent yet, end, and what is held for them is given
/// back. Doing it again changes nothing, so a request without an answer may simply be repeated.
/// If an erasure takes longer than its request may, the request is answered with 504 and the
/// erasure continues. A repeat with the same `Idempotency-Key` is told what it found once it is
/// done. What the person is sent from then on is kept again. That they opted out, or are not to be
/// written to, stays known, by a keyed hash.
#[endpoints::path(
    post, path = "/v1/admin/erasures", tag = "Operator",
    request_body = NewErasure,
    extensions(("x-codes" = json!([Code::NotFound]))),
    responses(
        (status = 200, body = ErasureView, description = "The number is erased"),
    ),
    security(("staff_token" = []))
)]
async fn erase_recipient(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let (recipient, account) = read(&app, &body)?;
    // What is kept of the request is a keyed hash, for a day, and how much was found.
    let request = Repeatable::by_person(&staff.who, &headers, "POST /v1/admin/erasures", &body);
    let fresh = async |claim: Claim| {
        let (person, account, staff) = (recipient.clone(), account.clone(), staff.clone());
        let order = Order { person, account, staff, claim: claim.clone() };
        let (is_own, mut told) = turns::begin(&app, order);
        let found = told.wait_for(Option::is_some).await.map_err(|_| Code::InternalError)?.clone();
        let view = found.ok_or(Code::InternalError)??;
        if !is_own {
            turns::keep(&app, &claim, &view).await?;
        }
        Ok(view)
    };
    let again = async |seen: Seen| {
        let view = seen.answer.as_deref().and_then(|text| serde_json::from_str(text).ok());
        Ok(view.ok_or(Code::InternalError)?)
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(Json).into_response())
}

fn read(app: &App, body: &[u8]) -> Result<(Person, Option<AccountId>), Problem> {
    let mut fields = Fields::read(body)?;
    let recipient = match (fields.text("email"), fields.text("phone")) {
        (Some(text), None) => mailbox(&mut fields, &text),
        (None, Some(text)) => phone(&mut fields, &text),
        (Some(_), Some(_)) => {
            fields.fault("email", "invalid_type", "must not be given beside phone");
            None
        }
        (None, None) if fields.has_faults_of(&["email", "phone"]) => None,
        (None, None) => {
            fields.fault("phone", "required", "is required, unless email is given");
            None
        }
    };
    let account = fields.text("account_id");
    fields.finish(app.is_strict())?;
    let account = match account {
        // An id of another shape is no id of ours: unknown, like any other wrong one.
        Some(text) => Some(AccountId::parse(&text).ok_or(Code::NotFound)?),
        None => None,
    };
    Ok((recipient.ok_or(Code::InternalError)?, account))
}

fn phone(fields: &mut Fields, text: &str) -> Option<Person> {
    let read = Msisdn::once_valid(text).map(Person::Phone);
    read.map_err(|error| fields.fault("phone", "invalid_phone_number", error.to_string())).ok()
}

fn mailbox(fields: &mut Fields, text: &str) -> Option<Person> {
    if fields.take("phone").is_some() {
        fields.fault("phone", "invalid_type", "must not be given beside email");
    }
    let read = email::Address::parse(text).map(Person::Email);
    read.map_err(|error| fields.fault("email", "invalid_email", error.to_string())).ok()
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::NoAccount => Code::NotFound.into(),
            Error::Otp(error) => error.into(),
            Error::Sms(error) => error.into(),
            Error::Emails(error) => error.into(),
            Error::Access(error) => error.into(),
            Error::Webhooks(error) => error.into(),
            Error::Credits(error) => error.into(),
            Error::Support(error) => error.into(),
            Error::Dispatch(of_dispatch::Error::Db(error))
            | Error::Chatapp(chatapp::Error::Db(error))
            | Error::Inbound(inbound::Fault::Db(error))
            | Error::Db(error) => error.into(),
            Error::Dispatch(of_dispatch::Error::Commit(error))
            | Error::Chatapp(chatapp::Error::Commit(error))
            | Error::Inbound(inbound::Fault::Commit(error))
            | Error::Commit(error) => error.into(),
        }
    }
}
