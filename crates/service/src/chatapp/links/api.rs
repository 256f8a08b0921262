//! Linking an account to a business account of its own.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::store::Current;
use super::{Error, Link, Secrets, link, linked, unlink};
use crate::access::caller::Staff;
use crate::app::App;
use crate::chatapp::upstream::PATH;
use crate::kit::body::Fields;
use crate::kit::id::AccountId;
use crate::kit::page::NoQuery;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

/// Longest id of the upstream's, characters.
const LONGEST_ID: usize = 64;
/// Longest secret, characters.
const LONGEST_SECRET: usize = 1_024;

/// The routes of links.
pub fn routes() -> ApiRouter<App> {
    routes!(link_account, read_link, unlink_account)
}

/// A business account of the chat-app and its number.
#[derive(Deserialize, ToSchema)]
pub struct ChatappLink {
    /// The id of the number that sends.
    #[schema(pattern = "^[A-Za-z0-9]{1,64}$", example = "106540352242922")]
    pub phone_number_id: String,
    /// The id of the business account.
    #[schema(pattern = "^[A-Za-z0-9]{1,64}$", example = "102290129340398")]
    pub waba_id: String,
    /// The token for sending. Never shown again.
    #[schema(min_length = 1, max_length = 1024, example = "a system user's token")]
    pub access_token: String,
    /// Signs the callbacks. Never shown again.
    #[schema(min_length = 1, max_length = 1024, example = "the app's secret")]
    pub app_secret: String,
    /// The word of the handshake of callbacks. Never shown again.
    #[schema(min_length = 1, max_length = 1024, example = "a word of your own")]
    pub verify_token: String,
}

/// What an account is linked to.
#[derive(Serialize, ToSchema)]
pub struct ChatappLinkView {
    /// The account.
    #[schema(example = "acc_01h455vb4pex5vsknk084sn02q")]
    account_id: String,
    /// The id of the number that sends.
    #[schema(example = "106540352242922")]
    phone_number_id: String,
    /// The id of the business account.
    #[schema(example = "102290129340398")]
    waba_id: String,
    /// Where the upstream has to call.
    #[schema(example = "http://127.0.0.1:8080/v1/upstream/chatapp")]
    callback_url: String,
    /// Since when.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    linked_at: String,
}

/// Link a chat-app business account.
///
/// What the account sends on the chat-app goes out from its number from then on, here at once and
/// from other nodes within seconds. It takes the place of an earlier link.
#[endpoints::path(
    put, path = "/v1/admin/accounts/{account_id}/chatapp", tag = "Operator",
    params(("account_id" = String, Path, description = "The account")),
    request_body = ChatappLink,
    responses(
        (status = 200, body = ChatappLinkView, description = "What the account is linked to"),
    ),
    security(("staff_token" = []))
)]
async fn link_account(
    staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<ChatappLinkView>, Problem> {
    let wanted = read(&app, &body)?;
    let account = AccountId::parse(&id).ok_or(Code::NotFound)?;
    let linked_at = link(&app, &account, &wanted, staff.by()).await?;
    let Link { phone_number_id, waba_id, .. } = wanted;
    Ok(view(&app, &account, Current { phone_number_id, waba_id, linked_at }))
}

/// Read a chat-app link.
///
/// What the account is linked to, without the secrets.
#[endpoints::path(
    get, path = "/v1/admin/accounts/{account_id}/chatapp", tag = "Operator",
    params(("account_id" = String, Path, description = "The account")),
    responses(
        (status = 200, body = ChatappLinkView, description = "What the account is linked to"),
    ),
    security(("staff_token" = []))
)]
async fn read_link(
    _: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<ChatappLinkView>, Problem> {
    let account = AccountId::parse(&id).ok_or(Code::NotFound)?;
    let found = linked(&app, &account).await?;
    Ok(view(&app, &account, found))
}

/// Remove a chat-app link.
///
/// What it sends goes out from the deployment's number again, here at once and from other nodes
/// within seconds. The answer says what the account was linked to.
#[endpoints::path(
    delete, path = "/v1/admin/accounts/{account_id}/chatapp", tag = "Operator",
    params(("account_id" = String, Path, description = "The account")),
    responses(
        (status = 200, body = ChatappLinkView, description = "What the account was linked to"),
    ),
    security(("staff_token" = []))
)]
async fn unlink_account(
    staff: Staff,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<ChatappLinkView>, Problem> {
    let account = AccountId::parse(&id).ok_or(Code::NotFound)?;
    let was = unlink(&app, &account, staff.by()).await?;
    Ok(view(&app, &account, was))
}

fn view(app: &App, account: &AccountId, linked: Current) -> Json<ChatappLinkView> {
    Json(ChatappLinkView {
        account_id: account.as_str().to_owned(),
        phone_number_id: linked.phone_number_id,
        waba_id: linked.waba_id,
        callback_url: format!("{}{PATH}", app.config.server.live_url),
        linked_at: linked.linked_at.to_string(),
    })
}

fn read(app: &App, body: &[u8]) -> Result<Link, Problem> {
    let mut fields = Fields::read(body)?;
    let phone_number_id = id(&mut fields, "phone_number_id");
    let waba_id = id(&mut fields, "waba_id");
    let mut secret = |name| fields.required_within(name, 1, LONGEST_SECRET);
    let (access_token, app_secret) = (secret("access_token"), secret("app_secret"));
    let verify_token = secret("verify_token");
    fields.finish(app.is_strict())?;
    let there = |text: Option<String>| text.ok_or(Code::InternalError);
    Ok(Link {
        phone_number_id: there(phone_number_id)?,
        waba_id: there(waba_id)?,
        secrets: Secrets {
            access_token: there(access_token)?,
            app_secret: there(app_secret)?,
            verify_token: there(verify_token)?,
        },
    })
}

/// An id becomes a part of a path.
fn id(fields: &mut Fields, name: &'static str) -> Option<String> {
    let text = fields.required_within(name, 1, LONGEST_ID)?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_plain {
        fields.fault(name, "invalid_type", "must be letters and digits");
    }
    is_plain.then_some(text)
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Unknown | Error::NotLinked => {
                Self::new(Code::NotFound).detail(format!("{error}."))
            }
            Error::OtherBusiness => {
                let fault = Item::at("/phone_number_id", "invalid_enum", error.to_string());
                Self::invalid(vec![fault])
            }
            Error::Unusable(fault) => {
                let says = fault.trim_start_matches("access_token ");
                Self::invalid(vec![Item::at("/access_token", "invalid_type", says)])
            }
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
