//! The endpoints of templates.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Path, RawQuery, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use clock::Millis;
use cloud_api::template::{is_name, language};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::{
    Error, MOST, Status, Template, declare, find, parse, remove, seen, store as sql, sync,
};
use crate::access::api::EmptyRequest;
use crate::access::caller::{Caller, Templates};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::chatapp::messages::DEFAULT_LANGUAGE;
use crate::kit::body::Fields;
use crate::kit::described::described_words;
use crate::kit::page::{NoQuery, Query};
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/chatapp/templates";

/// Seconds until it is worth asking an upstream again that did not answer.
const SILENCE_S: i64 = 5;

/// The routes of templates.
pub fn routes() -> ApiRouter<App> {
    routes!(list_templates, declare_template, read_template, delete_template, sync_template)
}

/// A template to declare.
#[derive(Deserialize, ToSchema)]
pub struct NewTemplate {
    /// Lower-case letters, digits and underscores.
    #[schema(pattern = "^[a-z0-9_]+$", min_length = 1, max_length = 499, example = "order_update")]
    pub name: String,
    /// Its language, `fr` when left out.
    #[schema(pattern = "^[a-z]{2,3}([_-][A-Za-z]{2,4})?$", example = "fr")]
    pub language: Option<String>,
    /// What it is for; `UTILITY` when left out.
    pub category: Option<TemplateCategory>,
    /// What it says, with variables `{{1}}` to `{{n}}`. The text of an `AUTHENTICATION` template is
    /// the provider's own; this one is a preview.
    #[schema(
        min_length = 1,
        max_length = 1024,
        example = "Bonjour {{1}}, votre commande {{2}} est prête."
    )]
    pub body: String,
    /// A line below, without variables.
    #[schema(min_length = 1, max_length = 60, example = "Estafette")]
    pub footer: Option<String>,
    /// At most 10: 2 of type URL, 1 of type `PHONE_NUMBER`, quick replies side by side.
    #[schema(max_items = 10)]
    pub buttons: Option<Vec<TemplateButton>>,
    /// Whether to submit it for approval. `false` stores a draft, which a later request replaces.
    #[schema(default = true)]
    pub submit: Option<bool>,
}

/// What a template is for.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum TemplateCategory {
    /// About something that the person ordered or asked for.
    Utility,
    /// Anything that sells.
    Marketing,
    /// Carries a passcode.
    Authentication,
}

/// A button of a template.
#[derive(Deserialize, ToSchema)]
pub struct TemplateButton {
    /// `URL`, `PHONE_NUMBER` or `QUICK_REPLY`.
    #[serde(rename = "type")]
    #[schema(value_type = ButtonType)]
    pub kind: String,
    /// What is written on it.
    #[schema(min_length = 1, max_length = 25, example = "Suivre")]
    pub text: String,
    /// Of type URL: where it leads. It may end in one variable.
    #[schema(min_length = 1, max_length = 2000, example = "https://example.com/orders/{{1}}")]
    pub url: Option<String>,
    /// Of type `PHONE_NUMBER`: whom it calls.
    #[schema(min_length = 1, max_length = 20, example = "+33123456789")]
    pub phone_number: Option<String>,
}

described_words!(
    ButtonType: "What a button does.",
    ["URL", "PHONE_NUMBER", "QUICK_REPLY"]
);

/// A template after it was declared or synced.
#[derive(Serialize, ToSchema)]
pub struct TemplateResult {
    #[schema(example = "order_update")]
    name: String,
    #[schema(example = "fr")]
    language: String,
    status: Status,
    /// The provider's id; empty for a draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1689556908129832")]
    provider_template_id: Option<String>,
    /// For people.
    #[schema(example = "The template was submitted for approval.")]
    message: String,
}

/// A template.
#[derive(Serialize, ToSchema)]
pub struct TemplateView {
    #[schema(example = "order_update")]
    name: String,
    #[schema(example = "fr")]
    language: String,
    #[schema(value_type = TemplateCategory)]
    category: &'static str,
    status: Status,
    /// The provider's own word for it; empty for a draft.
    #[schema(example = "APPROVED")]
    provider_status: String,
    /// The provider's id; empty for a draft.
    #[schema(example = "1689556908129832")]
    provider_template_id: String,
    /// Whether it has a button that opens an address.
    has_url_button: bool,
    /// How many values fill its text.
    #[schema(example = 2)]
    body_param_count: usize,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "INVALID_FORMAT")]
    rejection_reason: Option<String>,
}

/// An account's templates.
#[derive(Serialize, ToSchema)]
pub struct TemplateList {
    templates: Vec<TemplateView>,
}

fn view(template: &Template, now: Millis) -> TemplateView {
    TemplateView {
        name: template.name.clone(),
        language: template.language.clone(),
        category: template.category.as_str(),
        status: template.status(now),
        provider_status: template.provider_status(now).to_owned(),
        provider_template_id: template.provider_id.clone(),
        has_url_button: template.has_url_button(),
        body_param_count: template.params(),
        rejection_reason: template.rejection_reason(now).map(str::to_owned),
    }
}

/// How a template stands, in a sentence.
fn sentence(template: &Template, now: Millis) -> String {
    match template.status(now) {
        Status::Pending if template.is_draft => {
            "The template is a draft: declare it again with `submit: true`.".to_owned()
        }
        Status::Pending if template.is_unanswered() => {
            "The chat-app has not confirmed the template yet. It is submitted again every five \
             minutes until it does."
                .to_owned()
        }
        Status::Pending => "The template waits for approval.".to_owned(),
        Status::Approved => "The template is approved and ready for delivery.".to_owned(),
        Status::Rejected => {
            let reason = template.rejection_reason(now).unwrap_or_default();
            format!("The template was rejected: {reason}.")
        }
    }
}

/// What a request to declare a template came to.
struct JustDeclared {
    template: Template,
    is_repeat: bool,
}

/// List templates.
///
/// By name and language.
#[endpoints::path(
    get, path = "/v1/chatapp/templates", tag = "Chat-app",
    params(
        ("name" = Option<String>, Query, description = "Only of this name"),
        ("language" = Option<String>, Query, description = "Only in this language"),
        ("status" = Option<Status>, Query, description = "Only with this status"),
    ),
    responses(
        (status = 200, body = TemplateList, description = "The templates, at most 250"),
    ),
    security(("api_key" = ["chatapp:send"]))
)]
async fn list_templates(
    caller: Caller<Templates>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<TemplateList>, Problem> {
    let query = Query::read(query.as_deref(), &["name", "language", "status"])?;
    let status = query.word::<Status>("status")?;
    let name = query.get("name");
    let wanted = read_language(&query)?;
    let now = app.now();
    let all = sql::all(&app, &caller.account.id, MOST).await?;
    let keeps = |t: &&Template| {
        name.is_none_or(|name| name == t.name)
            && wanted.as_ref().is_none_or(|language| *language == t.language)
            && status.is_none_or(|status| status == t.status(now))
    };
    let templates = all.iter().filter(keeps).map(|template| view(template, now)).collect();
    Ok(Json(TemplateList { templates }))
}

/// Create a template.
///
/// Submits it for approval, unless `submit` is false. A draft of the same name and language is
/// replaced. The sandbox judges a second later: it approves all but those whose name ends in
/// `_rejected`.
#[endpoints::path(
    post, path = "/v1/chatapp/templates", tag = "Chat-app",
    request_body = NewTemplate,
    extensions(("x-codes" = json!([
        Code::TemplateExists, Problem::from(Error::Full), Code::CarrierUnavailable, Code::NotFound,
    ]))),
    responses(
        (status = 200, body = TemplateResult, description = "The template is declared"),
    ),
    security(("api_key" = ["chatapp:send"]))
)]
async fn declare_template(
    caller: Caller<Templates>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let declared = parse::declare(&app, &body)?;
    let account = &caller.account.id;
    let route = "POST /v1/chatapp/templates";
    let request = Repeatable::by_tenant(account, &headers, route, &body);
    let fresh = async |claim: Claim| {
        let template = declare(&app, account, &declared, &claim).await?;
        Ok(JustDeclared { template, is_repeat: false })
    };
    let again = async |seen: Seen| {
        let template = self::seen(&app, account, &seen.object_id).await?;
        // The chat-app refused it, which uses no key up.
        if declared.submit && template.is_draft {
            let template = declare(&app, account, &declared, &Claim::default()).await?;
            return Ok(JustDeclared { template, is_repeat: false });
        }
        Ok(JustDeclared { template, is_repeat: true })
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    let once = once.repeats_if(|it| it.is_repeat).map(|it| it.template);
    let now = app.now();
    let answer = |template: Template| TemplateResult {
        message: match template.status(now) {
            Status::Pending if !template.is_draft && !template.is_unanswered() => {
                "The template was submitted for approval.".to_owned()
            }
            _ => sentence(&template, now),
        },
        status: template.status(now),
        name: template.name,
        language: template.language,
        provider_template_id: Some(template.provider_id),
    };
    Ok(once.map(|template| Json(answer(template))).into_response())
}

/// Read a template.
#[endpoints::path(
    get, path = "/v1/chatapp/templates/{name}", tag = "Chat-app",
    params(("name" = String, Path, description = "Its name"),
        ("language" = Option<String>, Query, description = "Its language; `fr` when left out")),
    responses(
        (status = 200, body = TemplateView, description = "The template as it stands"),
    ),
    security(("api_key" = ["chatapp:send"]))
)]
async fn read_template(
    caller: Caller<Templates>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    Path(name): Path<String>,
) -> Result<Json<TemplateView>, Problem> {
    let language = language_of(query.as_deref())?;
    may_be_a_name(&name)?;
    let found = find(&app, &caller.account.id, &name, &language).await?;
    let template = found.ok_or(Error::Unknown)?;
    Ok(Json(view(&template, app.now())))
}

/// Delete a template.
///
/// In one language, at the provider as well. The provider may keep the name from being used again
/// for a while. Messages that wait to go out with it fail with `template_not_approved`, and cost
/// nothing.
#[endpoints::path(
    delete, path = "/v1/chatapp/templates/{name}", tag = "Chat-app",
    params(("name" = String, Path, description = "Its name"),
        ("language" = Option<String>, Query, description = "Its language; `fr` when left out")),
    extensions(("x-codes" = json!([Code::CarrierError, Code::CarrierUnavailable]))),
    responses(
        (status = 200, body = TemplateView, description = "The template as it was"),
    ),
    security(("api_key" = ["chatapp:send"]))
)]
async fn delete_template(
    caller: Caller<Templates>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    Path(name): Path<String>,
) -> Result<Json<TemplateView>, Problem> {
    let language = language_of(query.as_deref())?;
    may_be_a_name(&name)?;
    let removed = remove(&app, &caller.account.id, &name, &language).await?;
    Ok(Json(view(&removed, app.now())))
}

/// Sync a template's status.
///
/// Asks the provider for it, and stores it. One that the account's own business account has and
/// that was not declared here is taken over, and can be sent from then on.
#[endpoints::path(
    post, path = "/v1/chatapp/templates/{name}/sync", tag = "Chat-app",
    params(("name" = String, Path, description = "Its name"),
        ("language" = Option<String>, Query, description = "Its language; `fr` when left out")),
    request_body = Option<EmptyRequest>,
    extensions(("x-codes" = json!([
        Code::CarrierUnavailable, Code::TemplateExists, Problem::from(Error::Full),
    ]))),
    responses(
        (status = 200, body = TemplateResult, description = "The template as it stands now"),
    ),
    security(("api_key" = ["chatapp:send"]))
)]
async fn sync_template(
    caller: Caller<Templates>,
    State(app): State<App>,
    Path(name): Path<String>,
    OneLanguage { language, headers, body }: OneLanguage,
) -> Result<Response, Problem> {
    Fields::read(&body)?.finish(app.is_strict())?;
    idempotency::check(&headers)?;
    may_be_a_name(&name)?;
    let account = &caller.account.id;
    let route = format!("POST {PATH}/{name}/sync?language={language}");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let fresh = async |claim: Claim| Ok(sync(&app, account, &name, &language, &claim).await?);
    let again = async |seen: Seen| Ok(self::seen(&app, account, &seen.object_id).await?);
    let once = idempotency::once(&app, request, fresh, again).await?;
    let now = app.now();
    let answer = |template: Template| TemplateResult {
        message: sentence(&template, now),
        status: template.status(now),
        name: template.name,
        language: template.language,
        provider_template_id: None,
    };
    Ok(once.map(|template| Json(answer(template))).into_response())
}

/// What cannot be the name of a template is asked of no database.
fn may_be_a_name(name: &str) -> Result<(), Error> {
    if is_name(name) { Ok(()) } else { Err(Error::Unknown) }
}

/// A POST about a template in one language.
struct OneLanguage {
    language: String,
    headers: HeaderMap,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for OneLanguage {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let language = language_of(request.uri().query())?;
        let headers = request.headers().clone();
        let body = Bytes::from_request(request, state).await.map_err(|_| Code::InternalError)?;
        Ok(Self { language, headers, body })
    }
}

/// The language that the query of a path with a name says.
fn language_of(query: Option<&str>) -> Result<String, Problem> {
    let language = read_language(&Query::read(query, &["language"])?)?;
    Ok(language.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned()))
}

fn read_language(query: &Query) -> Result<Option<String>, Problem> {
    let Some(text) = query.get("language") else { return Ok(None) };
    let detail = "must be a language code such as fr, en or en_US";
    let unknown = || Problem::bad_request("?language", "invalid_enum", detail.to_owned());
    language(text).map(Some).ok_or_else(unknown)
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = format!("{error}.");
        let told = |code| Self::new(code).detail(detail.clone());
        match error {
            Error::Exists { .. } | Error::Differs { .. } => told(Code::TemplateExists),
            Error::Full => told(Code::LimitReached),
            Error::NoCarrier => told(Code::CarrierUnavailable),
            Error::Silent => told(Code::CarrierUnavailable).retry_after_s(SILENCE_S),
            Error::Kept(_) => told(Code::CarrierError),
            Error::Refused(said) => {
                let detail = format!("is not what the chat-app takes: {said}");
                Self::invalid(vec![Item::at("/body", "invalid_template_params", detail)])
            }
            Error::TooOften(wait) => wait,
            Error::Unknown | Error::Unfit => told(Code::NotFound),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
