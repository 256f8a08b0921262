//! Reports of verifications that were made elsewhere, and the share of passcodes that are verified.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use clock::{DAY, Millis};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use crate::access::api::EmptyRequest;
use crate::access::caller::{Caller, CheckOtp, ReadAccount};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::ChallengeId;
use crate::kit::msisdn;
use crate::kit::page::{self, Query};
use crate::kit::posted::Posted;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::otp::Error;
use crate::otp::api::{ChallengeView, challenge_view};
use crate::otp::problems::{Gone, WrongCode};
use crate::otp::store as sql;

/// Days that are shown where nobody says since when.
const DAYS: i64 = 30;
/// The country of numbers that have none.
const NO_COUNTRY: &str = "001";

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(report_verified, read_conversion)
}

/// Passcodes of one country on one day.
#[derive(Serialize, ToSchema)]
pub struct ConversionView {
    /// The day, UTC.
    #[schema(example = "2026-01-31")]
    day: String,
    /// ISO 3166 code; `001` for numbers of no country.
    #[schema(example = "FR")]
    country: String,
    /// Passcodes sent; a resend of one counts once.
    #[schema(example = 120)]
    sent: i64,
    /// Those that were verified, here or elsewhere.
    #[schema(example = 96)]
    verified: i64,
    /// The share of them, 0 to 1.
    #[schema(example = 0.8)]
    conversion: f64,
}

impl ConversionView {
    /// Falls from line to line.
    fn place(&self) -> String {
        format!("{}/{}", self.day, self.country)
    }
}

/// Report a verification.
///
/// For codes that are checked elsewhere, so that the guard against fraud knows of them. The
/// challenge is verified from then on; one that is verified already stays so.
#[endpoints::path(post, path = "/v1/otp/{challenge_id}/verified", tag = "OTP",
    params(("challenge_id" = String, Path, description = "From either send endpoint")),
    request_body = Option<EmptyRequest>,
    security(("api_key" = ["otp:verify", "sms:send", "account:read"])),
    extensions(("x-codes" = json!([
        Code::OtpExpired, Code::OtpAttemptsExhausted,
    ]))),
    responses(
        (status = 200, body = ChallengeView, description = "The challenge as it stands"),
        (status = 410, description = "The challenge takes no more guesses", content(
            (WrongCode = "otp_attempts_exhausted", example = json!({
                "verified": false,
                "challenge_id": "otp_01kdvqh6m4e5s8w2t9zb3y7n1f",
                "challenge_status": "failed",
                "attempts": 5,
                "max_attempts": 5,
                "attempts_remaining": 0,
            })),
            (Gone = "otp_expired", example = json!({
                "verified": false,
                "challenge_id": "otp_01kdvqh6m4e5s8w2t9zb3y7n1f",
                "challenge_status": "expired",
            })),
        )),
    ))]
async fn report_verified(
    caller: Caller<CheckOtp>,
    State(app): State<App>,
    posted: Posted,
) -> Result<Response, Problem> {
    let Posted { id, headers, body } = posted;
    Fields::read(&body)?.finish(app.is_strict())?;
    idempotency::check(&headers)?;
    let account = &caller.account.id;
    let path = format!("POST /v1/otp/{id}/verified");
    let id = ChallengeId::parse(&id).ok_or(Code::NotFound)?;
    let request = Repeatable::by_tenant(account, &headers, &path, &body);
    let fresh = async |claim: Claim| match super::report(&app, &caller.account, &id, &claim).await {
        // The challenge is named by its id alone.
        Err(Error::Unknown) => Err(Code::NotFound.into()),
        reported => Ok(reported?),
    };
    let again = async |_: Seen| {
        Ok(sql::challenge(&app, account, &id).await.map_err(Error::from)?.ok_or(Error::Unknown)?)
    };
    let reported = idempotency::once(&app, request, fresh, again).await?;
    Ok(reported.map(|challenge| Json(challenge_view(&app, challenge))).into_response())
}

/// Read the conversion of passcodes.
///
/// How many are verified. By country and day (UTC), the newest day first; the last 30 days unless
/// `since` and `until` say otherwise, at most 62.
#[endpoints::path(get, path = "/v1/otp/conversion", tag = "OTP",
    params(
        ("country" = Option<String>, Query, description = "Only this country, ISO 3166, or 001"),
        ("since" = Option<String>, Query, description = "Not before this instant, RFC 3339"),
        ("until" = Option<String>, Query, description = "Before this instant, RFC 3339"),
        ("limit" = Option<i64>, Query), ("cursor" = Option<String>, Query),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = [])),
    responses(
        (status = 200, body = Vec<ConversionView>, description = "Countries and days"),
    ))]
async fn read_conversion(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    const FILTERS: [&str; 3] = ["country", "since", "until"];
    let query = Query::read(query.as_deref(), &[&FILTERS[..], &["limit", "cursor"]].concat())?;
    let list = query.path_with("/v1/otp/conversion", &FILTERS);
    let account = &caller.account.id;
    let page = query.page_of(&app.vault, account.as_str(), &list)?;
    let until = query.instant("until")?.map_or(app.now(), |until| Millis(until.0 - 1));
    let since = query.instant("since")?.unwrap_or(until - DAYS * DAY);
    let country = query.get("country");
    if country.is_some_and(|code| code != NO_COUNTRY && !msisdn::is_country(code)) {
        let detail = "must be the ISO 3166 code of a country, such as FR, or 001";
        return Err(Problem::bad_request("?country", "invalid_enum", detail));
    }
    let lines = super::by_day(&app, account, since, until).await?;
    let is_wanted = |view: &ConversionView| {
        country.is_none_or(|country| country == view.country) && view.place() < page.after
    };
    let views = lines.into_iter().map(view).filter(is_wanted);
    let views: Vec<_> = views.take(usize::try_from(page.limit).unwrap_or(50) + 1).collect();
    Ok(page::answer(&app.vault, &list, &page, views, ConversionView::place))
}

#[expect(clippy::cast_precision_loss, reason = "a share of two counts")]
fn view(line: super::Line) -> ConversionView {
    let super::Line { day, country, counts } = line;
    let text = Millis(day * DAY).to_string();
    ConversionView {
        day: text.split('T').next().unwrap_or_default().to_owned(),
        country,
        sent: counts.sent,
        verified: counts.verified,
        conversion: (counts.verified as f64 / counts.sent.max(1) as f64).min(1.0),
    }
}
