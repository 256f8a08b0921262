//! Accounts over HTTP.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::{
    AccountRow, Billing, Fault, Filter, HIGHEST_LIMIT, Order, Patch, SETTABLE, SettingsPatch,
};
use crate::access::api::{email_taken, private};
use crate::access::caller::Staff;
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::access::staff::{self, api::new_person};
use crate::access::{self, NewUser, key, password};
use crate::app::{App, BillingMode, Env, Settings};
use crate::kit::body::Fields;
use crate::kit::described::described_words;
use crate::kit::id::AccountId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_accounts, create_account, read_account, change_account)
}

/// An account as staff sees it.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminAccountView {
    /// Its id.
    #[schema(example = "acc_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// Whose it is.
    pub user_id: String,
    /// The user's email.
    #[schema(example = "dev@example.com")]
    pub email: String,
    /// `live` or `sandbox`.
    #[schema(value_type = crate::app::Env)]
    pub env: String,
    /// Whether somebody proved that this email reaches them.
    #[schema(example = false)]
    pub email_verified: bool,
    /// `pending`, `active` or `suspended`.
    #[schema(value_type = crate::app::Standing)]
    pub status: String,
    /// `prepaid` or `postpaid`.
    #[schema(value_type = crate::app::BillingMode)]
    pub billing_mode: String,
    /// How far below zero a postpaid account may go, in credits.
    #[schema(example = 0)]
    pub credit_limit: i64,
    /// Credits that can be spent now, without the credit limit: below zero, what is owed.
    #[schema(example = 1000)]
    pub balance_credits: i64,
    /// Credits held for messages whose fate is open.
    #[schema(example = 0)]
    pub held_credits: i64,
    /// Settings of its passcodes; null = the deployment's.
    pub settings: SettingsView,
    /// When it was made.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
}

/// Settings of an account; null = the deployment's.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SettingsView {
    /// Validity of a passcode, seconds, 60 to 600.
    #[schema(minimum = 60, maximum = 600)]
    pub otp_validity_s: Option<i64>,
    /// Seconds without a delivery receipt until SMS takes over, 5 to 120.
    #[schema(minimum = 5, maximum = 120)]
    pub otp_fallback_after_s: Option<i64>,
    /// ISO 3166 codes that may be sent to; null = all.
    pub countries: Option<Vec<String>>,
    /// The sender of SMS where a request names none: an approved one of a live account.
    pub default_sender: Option<String>,
    /// Countries (ISO 3166), and beginnings of numbers (`+` and digits), that the guard against
    /// fraud leaves alone.
    pub otp_fraud_allow: Option<Vec<String>>,
}

impl From<Settings> for SettingsView {
    fn from(settings: Settings) -> Self {
        Self {
            otp_validity_s: settings.otp_validity_s,
            otp_fallback_after_s: settings.otp_fallback_after_s,
            countries: settings.countries,
            default_sender: settings.default_sender,
            otp_fraud_allow: settings.otp_fraud_allow,
        }
    }
}

impl From<AccountRow> for AdminAccountView {
    fn from(row: AccountRow) -> Self {
        let settings: Settings = serde_json::from_str(&row.settings).unwrap_or_default();
        Self {
            id: row.id.into(),
            user_id: row.user.into(),
            email: row.email,
            email_verified: row.email_verified_at.is_some(),
            env: row.env,
            status: row.status,
            billing_mode: row.billing_mode.as_str().to_owned(),
            credit_limit: row.credit_limit,
            balance_credits: row.posted.saturating_sub(row.held),
            held_credits: row.held,
            settings: settings.into(),
            created_at: row.created_at.to_string(),
        }
    }
}

/// A user to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewAccount {
    /// The email to log in with.
    #[schema(format = Email, example = "dev@example.com")]
    pub email: String,
    /// 12 to 256 characters; made up when left out.
    #[schema(format = Password, min_length = 12, max_length = 256)]
    pub password: Option<String>,
    /// Of the live account: `prepaid` (when left out) or `postpaid`.
    #[schema(value_type = Option<crate::app::BillingMode>)]
    pub billing_mode: Option<String>,
    /// Of a postpaid live account, in credits; 0 when left out.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64, example = 0)]
    pub credit_limit: Option<i64>,
}

/// A new user with both accounts.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewAccountView {
    /// The user.
    #[schema(example = "usr_01h455vb4pex5vsknk084sn02q")]
    pub user_id: String,
    /// The email as stored.
    #[schema(example = "dev@example.com")]
    pub email: String,
    /// The accounts.
    pub accounts: AccountIds,
    /// The password, only when it was made up; it is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub password: Option<String>,
}

/// The accounts of one user.
#[derive(Debug, Serialize, ToSchema)]
pub struct AccountIds {
    /// Of the live environment.
    #[schema(example = "acc_01h455vb4pex5vsknk084sn02q")]
    pub live: String,
    /// Of the sandbox.
    #[schema(example = "acc_01h455vb4pex5vsknk084sn02r")]
    pub sandbox: String,
}

/// What is to change in an account; fields left out stay.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"billing_mode": "prepaid"}))]
pub struct AccountPatch {
    /// `active` or `suspended`.
    #[schema(value_type = Option<SettableStatus>)]
    pub status: Option<String>,
    /// `prepaid` or `postpaid`; a change to prepaid sets the credit limit to 0.
    #[schema(value_type = Option<crate::app::BillingMode>)]
    pub billing_mode: Option<String>,
    /// Of a postpaid account, in credits; not below what is used of it.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    pub credit_limit: Option<i64>,
    /// Settings that are named change; null = the deployment's.
    pub settings: Option<SettingsView>,
}

/// List accounts.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/admin/accounts", tag = "Operator",
    params(
        ("env" = Option<Env>, Query, description = "Only this environment's"),
        ("email" = Option<String>, Query, description = "Only the accounts of this email"),
        ("status" = Option<crate::app::Standing>, Query, description = "Only with this status"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<AdminAccountView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_accounts(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let known = ["env", "email", "status", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with("/v1/admin/accounts", &known[..5]);
    let mut page = query.page(&app.vault, &path)?;
    // A plus that was not escaped arrives as a space, which no address has.
    let email = query.get("email").map(|email| email.trim().replace(' ', "+"));
    if email.as_deref() == Some("") {
        return Err(Problem::bad_request("?email", "too_short", "must not be blank"));
    }
    let email = email.unwrap_or_default();
    let filter = Filter {
        email: email.to_lowercase(),
        env: query.word("env")?,
        status: query.word("status")?,
        since: query.between(&mut page, |at| AccountId::bound(at).into())?,
    };
    let rows = super::list(&app, &filter, &page).await?;
    let views: Vec<AdminAccountView> = rows.into_iter().map(AdminAccountView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

/// Create a user and their accounts.
///
/// One account is live, one for the sandbox. A generated password is in this answer only; a repeat
/// with the same `Idempotency-Key` carries it for ten minutes, and comes without it afterwards.
#[endpoints::path(
    post, path = "/v1/admin/accounts", tag = "Operator",
    request_body = NewAccount,
    responses(
        (status = 200, body = NewAccountView, description = "The user and both accounts"),
    ),
    security(("staff_token" = []))
)]
async fn create_account(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let order = read_new(&app, &body)?;
    let request = Repeatable::by_person(&staff.who, &headers, "POST /v1/admin/accounts", &body);
    let fresh = async |claim: Claim| {
        let hash = password::hash(&app, &staff::asker(staff.by()), &order.password).await?;
        let new = super::create(&app, &order, &hash, staff.by(), &claim).await?;
        Ok((new, order.is_made_up.then(|| order.password.clone())))
    };
    let again =
        async |seen: Seen| Ok((access::user(&app, &seen.object_id).await?, seen.secret(&app)));
    let view = |(new, password): (NewUser, Option<Secret>)| NewAccountView {
        user_id: new.id.into(),
        email: new.email,
        accounts: AccountIds { live: new.live.into(), sandbox: new.sandbox.into() },
        password: password.map(|password| password.expose().to_owned()),
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|made| private(view(made))).into_response())
}

fn read_new(app: &App, body: &[u8]) -> Result<Order, Problem> {
    let mut fields = Fields::read(body)?;
    let (email, given) = new_person(&mut fields);
    let mode = fields.word("billing_mode").unwrap_or(BillingMode::Prepaid);
    let credit_limit = fields.integer("credit_limit", 0, HIGHEST_LIMIT).unwrap_or(0);
    fields.finish(app.is_strict())?;
    let email = email.ok_or(Code::InternalError)?;
    let is_made_up = given.is_none();
    let password = given.unwrap_or_else(|| key::made_up_password(&app.clock));
    Ok(Order { email, password, is_made_up, billing: Billing { mode, credit_limit } })
}

/// Read an account.
#[endpoints::path(
    get, path = "/v1/admin/accounts/{account_id}", tag = "Operator",
    params(("account_id" = String, Path, description = "The account")),
    responses(
        (status = 200, body = AdminAccountView, description = "The account"),
    ),
    security(("staff_token" = []))
)]
async fn read_account(
    _staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<AdminAccountView>, Problem> {
    let id = AccountId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(super::find(&app, &id).await?.into()))
}

/// Change an account.
///
/// Suspends or activates it, or sets how it pays and what its passcodes are like.
#[endpoints::path(
    patch, path = "/v1/admin/accounts/{account_id}", tag = "Operator",
    params(("account_id" = String, Path, description = "The account")),
    request_body = AccountPatch,
    responses(
        (status = 200, body = AdminAccountView, description = "The account as it is now"),
    ),
    security(("staff_token" = []))
)]
async fn change_account(
    staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<AdminAccountView>, Problem> {
    let mut fields = Fields::read(&body)?;
    let patch = Patch {
        status: fields.choice("status", SETTABLE),
        billing_mode: fields.word("billing_mode"),
        credit_limit: fields.integer("credit_limit", 0, HIGHEST_LIMIT),
        settings: SettingsPatch::read(&mut fields, app.is_strict()),
    };
    fields.finish(app.is_strict())?;
    let id = AccountId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(super::change(&app, &id, &patch, staff.by()).await?.into()))
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unknown => Self::new(Code::NotFound),
            Fault::LimitInUse { used } => {
                let detail = format!("must not be below the {used} credits already in use");
                Self::invalid(vec![Item::at("/credit_limit", "out_of_range", detail)])
            }
            Fault::PrepaidLimit => {
                let detail = "must be 0: prepaid accounts have no credit limit";
                Self::invalid(vec![Item::at("/credit_limit", "out_of_range", detail)])
            }
            Fault::SenderNotApproved => {
                let detail = "must be an approved sender of the account: approve it first";
                Self::invalid(vec![Item::at("/settings/default_sender", "invalid_enum", detail)])
            }
            Fault::Busy => Self::new(Code::Overloaded),
            Fault::Access(access::Error::EmailTaken) => {
                email_taken("`GET /v1/admin/accounts?email=…` shows the accounts of its user")
            }
            Fault::Access(error) => error.into(),
            Fault::Db(error) => error.into(),
            Fault::Commit(error) => error.into(),
        }
    }
}

described_words!(
    SettableStatus: "What staff may set the status of an account to.",
    SETTABLE.iter().copied()
);
