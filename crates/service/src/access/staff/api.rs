//! The operator's staff over HTTP: their logins and passwords, and who is one of them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::StaffMember;
use crate::access::api::{
    DoneView, EmptyRequest, LoginRequest, LoginView, PasswordRequest, email_taken, log_in, log_out,
    private, replace_password,
};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::access::token::Kind;
use crate::access::{Credentials, Error, Guest, Leaver, Owner, Staff, email, key, password};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::StaffId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::posted::Post;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;

const STAFF: &str = "/v1/admin/staff";

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(login, logout, change_password, list_staff, add_staff, remove_staff)
}

/// A member of staff.
#[derive(Debug, Serialize, ToSchema)]
pub struct StaffView {
    /// Their id.
    #[schema(example = "stf_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// The email to log in with.
    #[schema(example = "ops@example.com")]
    pub email: String,
    /// When they were added.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub created_at: String,
    /// When they last logged in; null = never.
    #[schema(required = true, format = DateTime, example = "2026-02-01T08:00:00.000Z")]
    pub last_login_at: Option<String>,
}

impl From<StaffMember> for StaffView {
    fn from(member: StaffMember) -> Self {
        Self {
            id: member.id.into(),
            email: member.email,
            created_at: member.created_at.to_string(),
            last_login_at: member.last_login_at.map(|at| at.to_string()),
        }
    }
}

/// A member of staff to be added.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewStaff {
    /// The email to log in with.
    #[schema(format = Email, example = "ops@example.com")]
    pub email: String,
    /// 12 to 256 characters; made up when left out.
    #[schema(format = Password, min_length = 12, max_length = 256)]
    pub password: Option<String>,
}

/// A new member of staff.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewStaffView {
    /// Their id, as in the list.
    #[schema(example = "stf_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// The same, as `estafette staff add --json` prints it.
    #[schema(example = "stf_01h455vb4pex5vsknk084sn02q")]
    pub staff_id: String,
    /// The email as stored.
    #[schema(example = "ops@example.com")]
    pub email: String,
    /// The password, only when it was made up; it is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub password: Option<String>,
}

/// Log in as staff.
///
/// A repeat with the same `Idempotency-Key` is the same login for ten minutes, as long as its token
/// is good; after that it is a new one.
#[endpoints::path(post, path = "/v1/admin/auth/login", tag = "Operator",
    operation_id = "staff_login",
    request_body = LoginRequest,
    extensions(("x-codes" = json!([Code::InvalidLogin, Code::TooManyLogins]))),
    responses(
        (status = 200, body = LoginView, description = "Logged in"),
    ))]
async fn login(guest: Guest, State(app): State<App>, post: Post) -> Result<Response, Problem> {
    log_in(&app, Kind::Staff, &guest, "POST /v1/admin/auth/login", &post).await
}

/// Log out as staff.
///
/// Ends the token that it is called with. A repeat with the same `Idempotency-Key` and the ended
/// token gets the same answer.
#[endpoints::path(post, path = "/v1/admin/auth/logout", tag = "Operator",
    operation_id = "staff_logout",
    request_body = Option<EmptyRequest>,
    security(("staff_token" = [])),
    responses(
        (status = 200, body = DoneView, description = "The token has ended"),
    ))]
async fn logout(
    leaver: Leaver<Staff>,
    State(app): State<App>,
    post: Post,
) -> Result<Response, Problem> {
    log_out(&app, Kind::Staff, &leaver, "POST /v1/admin/auth/logout", &post).await
}

/// Change a staff password.
///
/// Ends all other tokens of the member of staff. The new password must differ from the current one,
/// be none of the commonest, and not be the email.
#[endpoints::path(post, path = "/v1/admin/auth/password", tag = "Operator",
    operation_id = "change_staff_password",
    request_body = PasswordRequest, security(("staff_token" = [])),
    extensions(("x-codes" = json!([Code::InvalidLogin, Code::TooManyLogins]))),
    responses(
        (status = 200, body = DoneView, description = "The password is changed"),
    ))]
async fn change_password(
    staff: Staff,
    guest: Guest,
    State(app): State<App>,
    Post { headers, body }: Post,
) -> Result<Response, Problem> {
    let owner = Owner { by: staff.by(), token: Some(staff.token), guest: &guest };
    let route = "POST /v1/admin/auth/password";
    let request = Repeatable::by_person(&staff.who, &headers, route, &body);
    replace_password(&app, Kind::Staff, owner, request).await
}

/// List staff.
///
/// Newest first.
#[endpoints::path(get, path = "/v1/admin/staff", tag = "Operator",
    params(
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<StaffView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = [])))]
async fn list_staff(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let path = query.path_with(STAFF, &["since", "until"]);
    let mut page = query.page(&app.vault, &path)?;
    let since = query.between(&mut page, |at| StaffId::bound(at).into())?;
    let rows = since.keep(super::list_staff(&app, &page).await?, |member| member.id.as_str());
    let views = rows.into_iter().map(StaffView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view: &StaffView| view.id.clone()))
}

/// Add a member of staff.
///
/// A generated password is in this answer only; a repeat with the same `Idempotency-Key` carries it
/// for ten minutes, and comes without it afterwards.
#[endpoints::path(post, path = "/v1/admin/staff", tag = "Operator",
    request_body = NewStaff,
    extensions(("x-codes" = json!([Code::NotFound]))),
    responses(
        (status = 200, body = NewStaffView, description = "The member of staff"),
    ),
    security(("staff_token" = [])))]
async fn add_staff(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let (email, given) = new_person(&mut fields);
    fields.finish(app.is_strict())?;
    let email = email.ok_or(Code::InternalError)?;
    let request = Repeatable::by_person(&staff.who, &headers, "POST /v1/admin/staff", &body);
    let view = |id: String, email, password: Option<Secret>| {
        let password = password.map(|password| password.expose().to_owned());
        private(NewStaffView { staff_id: id.clone(), id, email, password })
    };
    let fresh = async |claim: Claim| {
        let is_made_up = given.is_none();
        let password = given.unwrap_or_else(|| key::made_up_password(&app.clock));
        let credentials = Credentials { email: &email, password: &password };
        let added = super::add_staff(&app, credentials, staff.by(), &claim, is_made_up).await;
        let id = added.map_err(|error| match error {
            Error::EmailTaken => email_taken("`GET /v1/admin/staff` lists the members of staff"),
            other => other.into(),
        })?;
        Ok(view(id.to_string(), email, is_made_up.then_some(password)))
    };
    let again = async |seen: Seen| {
        let email = super::email_of(&app, &seen.object_id).await?;
        let password = seen.secret(&app);
        Ok(view(seen.object_id, email, password))
    };
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

/// The email and the password, if there is one, of somebody who is to be made by staff.
pub fn new_person(fields: &mut Fields) -> (Option<String>, Option<Secret>) {
    let typed = fields.required("email");
    let email = typed.as_deref().and_then(email);
    if typed.is_some() && email.is_none() {
        fields.fault("email", "invalid_email", "must be an email address");
    }
    let given = fields.text("password").map(Secret::new);
    let checked = given
        .as_ref()
        .map(|secret| password::check(secret.expose(), email.as_deref().unwrap_or_default()));
    if let Some(Err(fault)) = checked {
        fields.fault("password", fault.code(), fault.to_string());
    }
    (email, given)
}

/// Remove a member of staff.
///
/// Their tokens end at once. The last member of staff stays.
#[endpoints::path(delete, path = "/v1/admin/staff/{staff_id}", tag = "Operator",
    params(("staff_id" = String, Path, description = "The member of staff")),
    extensions(("x-codes" = json!([Problem::from(Error::LastStaff)]))),
    responses(
        (status = 200, body = DoneView, description = "They are no member of staff any more"),
    ),
    security(("staff_token" = [])))]
async fn remove_staff(
    staff: Staff,
    State(app): State<App>,
    Path(staff_id): Path<String>,
    _: NoQuery,
) -> Result<Json<DoneView>, Problem> {
    let id = StaffId::parse(&staff_id).ok_or(Code::NotFound)?;
    super::remove_staff(&app, &id, staff.by()).await?;
    Ok(Json(DoneView { ok: true }))
}
