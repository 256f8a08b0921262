//! Canned replies over HTTP: staff only.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::{Draft, Reply, VARIABLES, stranger};
use crate::access::caller::Staff;
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::{AccountId, CannedReplyId};
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::support::LONGEST_MESSAGE;
use crate::support::api::said;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_canned_replies, create_canned_reply, change_canned_reply, delete_canned_reply)
}

/// An answer that staff keep at hand.
#[derive(Serialize, ToSchema)]
pub struct CannedReplyView {
    /// Its id.
    #[schema(example = "cnd_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// What staff find it by.
    #[schema(example = "Receipts are late")]
    pub title: String,
    /// The text, with variables in it.
    #[schema(example = "About {{subject}}: receipts are late today.")]
    pub body: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was changed last.
    #[schema(format = DateTime)]
    pub updated_at: String,
}

impl From<Reply> for CannedReplyView {
    fn from(reply: Reply) -> Self {
        Self {
            id: reply.id.into(),
            title: reply.title,
            body: reply.body,
            created_at: reply.created_at.to_string(),
            updated_at: reply.updated_at.to_string(),
        }
    }
}

/// An answer to be kept.
#[derive(Deserialize, ToSchema)]
pub struct NewCannedReply {
    /// 1 to 100 characters.
    #[schema(min_length = 1, example = "Receipts are late", max_length = 100)]
    pub title: String,
    /// 1 to 10,000 characters. `{{ticket_id}}`, `{{subject}}`, `{{priority}}` and `{{status}}`
    /// stand for what the ticket has.
    #[schema(
        min_length = 1,
        example = "About {{subject}}: receipts are late today.",
        max_length = 10000
    )]
    pub body: String,
}

/// A change; what is left out stays.
#[derive(Deserialize, ToSchema)]
pub struct CannedReplyChange {
    /// As when it is made.
    #[schema(min_length = 1, max_length = 100, example = "Receipts are late today")]
    pub title: Option<String>,
    /// As when it is made.
    #[schema(min_length = 1, max_length = 10000)]
    pub body: Option<String>,
}

/// List canned replies.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/admin/canned-replies", tag = "Operator",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<CannedReplyView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_canned_replies(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let path = "/v1/admin/canned-replies";
    let page = Query::read(query.as_deref(), &["limit", "cursor"])?.page(&app.vault, path)?;
    let replies = super::list(&app, &page).await?;
    let views: Vec<CannedReplyView> = replies.into_iter().map(CannedReplyView::from).collect();
    Ok(page::answer(&app.vault, path, &page, views, |view| view.id.clone()))
}

/// Create a canned reply.
#[endpoints::path(
    post, path = "/v1/admin/canned-replies", tag = "Operator",
    request_body = NewCannedReply,
    extensions(("x-codes" = json!([Problem::from(super::full()), Code::NotFound]))),
    responses(
        (status = 200, body = CannedReplyView, description = "The reply"),
    ),
    security(("staff_token" = []))
)]
async fn create_canned_reply(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let title = said(&mut fields, "title", 100);
    let text = said(&mut fields, "body", LONGEST_MESSAGE);
    check(&mut fields, text.as_deref());
    fields.finish(app.is_strict())?;
    let keeper = AccountId::stored(staff.id.to_string());
    let route = "POST /v1/admin/canned-replies";
    let request = Repeatable::by_staff(&keeper, &headers, route, &body);
    let draft = Draft { title, body: text };
    let fresh = async |claim: Claim| Ok(super::keep(&app, draft, staff.by(), &claim).await?);
    let again =
        async |seen: Seen| Ok(super::find(&app, &CannedReplyId::stored(seen.object_id)).await?);
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|reply| Json(CannedReplyView::from(reply))).into_response())
}

/// Change a canned reply.
#[endpoints::path(
    patch, path = "/v1/admin/canned-replies/{reply_id}", tag = "Operator",
    params(("reply_id" = String, Path, description = "The reply")),
    request_body = CannedReplyChange,
    responses(
        (status = 200, body = CannedReplyView, description = "The reply as changed"),
    ),
    security(("staff_token" = []))
)]
async fn change_canned_reply(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<CannedReplyView>, Problem> {
    let mut fields = Fields::read(&body)?;
    let title = fields.text_within("title", 1, 100);
    let text = fields.text_within("body", 1, LONGEST_MESSAGE);
    check(&mut fields, text.as_deref());
    fields.finish(app.is_strict())?;
    let id = CannedReplyId::parse(&id).ok_or(Code::NotFound)?;
    let draft = Draft { title, body: text };
    Ok(Json(super::change(&app, &id, draft, staff.by()).await?.into()))
}

/// Delete a canned reply.
#[endpoints::path(
    delete, path = "/v1/admin/canned-replies/{reply_id}", tag = "Operator",
    params(("reply_id" = String, Path, description = "The reply")),
    responses(
        (status = 200, body = CannedReplyView, description = "The reply that is gone"),
    ),
    security(("staff_token" = []))
)]
async fn delete_canned_reply(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    Path(id): Path<String>,
) -> Result<Json<CannedReplyView>, Problem> {
    let id = CannedReplyId::parse(&id).ok_or(Code::NotFound)?;
    Ok(Json(super::delete(&app, &id, staff.by()).await?.into()))
}

fn check(fields: &mut Fields, text: Option<&str>) {
    if let Some(name) = text.and_then(stranger) {
        let name: String = name.chars().take(40).collect();
        let known = VARIABLES.join(", ");
        let detail = format!("has the variable {name:?}; known: {known}");
        fields.fault("body", "invalid_enum", detail);
    }
}
