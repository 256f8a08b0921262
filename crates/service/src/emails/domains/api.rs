//! The endpoints of domains.

use ::store::Error as DbError;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use super::records::Record;
use super::{Domain, Status};
use crate::access::api::EmptyRequest;
use crate::access::caller::{Caller, Portal, ReadAccount};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::described::described_words;
use crate::kit::id::{AccountId, EmailDomainId};
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::posted::Posted;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

const PATH: &str = "/v1/email-domains";

/// The routes of this part.
pub(in crate::emails) fn routes() -> ApiRouter<App> {
    routes!(list_domains, add_domain, read_domain, remove_domain, verify_domain)
}

/// A domain of the account.
#[derive(Serialize, ToSchema)]
pub(super) struct DomainView {
    /// Its id.
    #[schema(example = "edm_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// Its name, in ASCII.
    #[schema(example = "example.com")]
    domain: String,
    /// `verified`: the account may write from it.
    status: Status,
    /// What to publish in DNS.
    records: Vec<RecordView>,
    /// When it was added.
    #[schema(format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    created_at: String,
    /// When its records were looked at last; null = never.
    #[schema(required = true, format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    checked_at: Option<String>,
    /// Since when it is verified; null while it is not.
    #[schema(required = true, format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    verified_at: Option<String>,
    /// Since when a required record is missing; null while none is. Records are looked at every
    /// day; after three days without them the domain is `pending`.
    #[schema(required = true, format = DateTime, example = json!(null))]
    missing_since: Option<String>,
}

described_words!(RecordType: "A type of record in DNS.", ["TXT", "CNAME"]);

/// A record to publish.
#[derive(Serialize, ToSchema)]
pub(super) struct RecordView {
    /// `TXT` or `CNAME`.
    #[schema(value_type = RecordType)]
    r#type: &'static str,
    /// Its whole name.
    #[schema(example = "_estafette.example.com")]
    name: String,
    /// What it says.
    #[schema(example = "estafette-verify=6f1ed002ab5595859014ebf0951522d9")]
    value: String,
    /// `verified`: it was seen as it should be.
    status: Status,
    /// What was at this name when it was looked at last: at most 5 texts, of which other services
    /// may have made some. Empty = nothing; null = not looked at, or no name server answered.
    #[schema(
        required = true,
        example = json!(["estafette-verify=6f1ed002ab5595859014ebf0951522d9"])
    )]
    seen: Option<Vec<String>>,
    /// Whether the domain is verified only with it.
    #[schema(example = true)]
    required: bool,
}

fn view(app: &App, domain: Domain) -> DomainView {
    let record = |record: Record| RecordView {
        r#type: record.kind(),
        name: record.name(&domain.name),
        value: record.value(app, &domain),
        status: if domain.found.has(record) { Status::Verified } else { Status::Pending },
        seen: domain.found.seen(record).map(<[String]>::to_vec),
        required: record.is_required(),
    };
    let records = Record::ALL.iter().copied().map(record).collect();
    DomainView {
        records,
        status: domain.status,
        created_at: domain.created_at.to_string(),
        checked_at: domain.checked_at.map(|at| at.to_string()),
        verified_at: domain.verified_at.map(|at| at.to_string()),
        missing_since: domain.missing_since.map(|at| at.to_string()),
        id: domain.id.into(),
        domain: domain.name,
    }
}

/// A domain to be added.
#[derive(Deserialize, ToSchema)]
pub struct NewDomain {
    /// Its name; an internationalised one becomes ASCII.
    #[schema(pattern = r"^\S+$", example = "example.com")]
    pub domain: String,
}

/// List sending domains.
///
/// Newest first.
#[endpoints::path(
    get, path = "/v1/email-domains", tag = "Email",
    params(
        ("status" = Option<Status>, Query, description = "Only with this status"),
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out",
         minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<DomainView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn list_domains(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let known = ["status", "since", "until", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with(PATH, &known[..3]);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| EmailDomainId::bound(at).into())?;
    let status = query.word::<Status>("status")?;
    let read = async |after: String, limit| {
        let rows = super::stretch(&app, &caller.account.id, &after, limit).await?;
        Ok::<_, DbError>(since.keep(rows, |domain: &Domain| domain.id.as_str()))
    };
    let keeps = |domain: &Domain| status == Some(domain.status);
    let keep = status.map(|_| &keeps as &(dyn Fn(&Domain) -> bool + Sync));
    let id_of = |domain: &Domain| domain.id.as_str().to_owned();
    let (rows, next) = page::sift(&page, read, id_of, keep).await?;
    let views: Vec<DomainView> = rows.into_iter().map(|domain| view(&app, domain)).collect();
    Ok(page::answer_until(&app.vault, &path, &page, &views, next.as_deref()))
}

/// Add a sending domain.
///
/// Publish the records, then verify the domain. Adding it again changes nothing.
#[endpoints::path(
    post, path = "/v1/email-domains", tag = "Email",
    request_body = NewDomain,
    extensions(("x-codes" = json!([
        Problem::from(crate::emails::Error::TooManyDomains), Code::NotFound,
    ]))),
    responses(
        (status = 200, body = DomainView, description = "The domain and its records"),
    ),
    security(("portal_token" = []))
)]
async fn add_domain(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let name = fields.required("domain").and_then(|text| {
        let name = email::domain_of(&text);
        match name.as_deref() {
            None => fields.fault("domain", "invalid_type", "must be a domain such as example.com"),
            Some(name) if super::is_on_shared(&app, name) => {
                let detail = "is the service's own, and every account may write from it already";
                fields.fault("domain", "invalid_enum", detail);
            }
            Some(_) => {}
        }
        name
    });
    fields.finish(app.is_strict())?;
    let name = name.ok_or(Code::InternalError)?;
    let account = &caller.account.id;
    let request = Repeatable::by_tenant(account, &headers, "POST /v1/email-domains", &body);
    let fresh =
        async |claim: Claim| Ok(super::add(&app, account, &name, caller.by(), &claim).await?);
    let again = async |seen: Seen| known(&app, account, &seen.object_id).await;
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|domain| Json(view(&app, domain))).into_response())
}

async fn known(app: &App, account: &AccountId, id: &str) -> Result<Domain, Problem> {
    let id = EmailDomainId::parse(id).ok_or(Code::NotFound)?;
    Ok(super::find(app, account, &id).await?.ok_or(Code::NotFound)?)
}

/// Read a sending domain.
#[endpoints::path(
    get, path = "/v1/email-domains/{domain_id}", tag = "Email",
    params(("domain_id" = String, Path, description = "From its creation")),
    responses(
        (status = 200, body = DomainView, description = "The domain as it stands"),
    ),
    security(("api_key" = ["account:read"]), ("portal_token" = []))
)]
async fn read_domain(
    caller: Caller<ReadAccount>,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<DomainView>, Problem> {
    let found = known(&app, &caller.account.id, &id).await?;
    Ok(Json(view(&app, found)))
}

/// Verify a sending domain.
///
/// Looks up its DNS records. With all that are required in place it is `verified`, and the account
/// may write from it. A record that is missing or wrong is `pending`; one that no name server says
/// anything about stays as it was. A domain that was verified stays so for three days without them
/// (`missing_since`). In the sandbox all records are there, but for domains under `.invalid`.
#[endpoints::path(
    post, path = "/v1/email-domains/{domain_id}/verify", tag = "Email",
    params(("domain_id" = String, Path, description = "From its creation")),
    request_body = Option<EmptyRequest>,
    responses(
        (status = 200, body = DomainView, description = "The domain as it stands now"),
    ),
    security(("portal_token" = []))
)]
async fn verify_domain(
    caller: Caller<Portal>,
    State(app): State<App>,
    Posted { id, headers, body }: Posted,
) -> Result<Response, Problem> {
    Fields::read(&body)?.finish(app.is_strict())?;
    let account = &caller.account.id;
    let domain = known(&app, account, &id).await?;
    let route = format!("POST /v1/email-domains/{id}/verify");
    let request = Repeatable::by_tenant(account, &headers, &route, &body);
    let fresh = async |claim: Claim| Ok(super::verify(&app, account, domain, &claim).await?);
    let again = async |seen: Seen| known(&app, account, &seen.object_id).await;
    let once = idempotency::once(&app, request, fresh, again).await?;
    Ok(once.map(|domain| Json(view(&app, domain))).into_response())
}

/// Remove a sending domain.
///
/// The account cannot write from it any more; emails that were taken before still go out.
#[endpoints::path(
    delete, path = "/v1/email-domains/{domain_id}", tag = "Email",
    params(("domain_id" = String, Path, description = "From its creation")),
    responses(
        (status = 200, body = DomainView, description = "The domain is removed"),
    ),
    security(("portal_token" = []))
)]
async fn remove_domain(
    caller: Caller<Portal>,
    State(app): State<App>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<DomainView>, Problem> {
    let account = &caller.account.id;
    let domain = known(&app, account, &id).await?;
    super::remove(&app, account, &domain, caller.by()).await?;
    Ok(Json(view(&app, domain)))
}
