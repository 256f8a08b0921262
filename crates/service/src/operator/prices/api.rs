//! Prices over HTTP.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};

use crate::access::audit::{self, Entry};
use crate::access::caller::Staff;
use crate::app::App;
use crate::credits::prices::{self, Filter, Price};
use crate::kit::body::Fields;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::problem::Problem;
use crate::kit::words;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_prices, put_prices)
}

/// A price.
#[derive(Debug, Serialize, ToSchema)]
pub struct PriceView {
    /// Its id.
    #[schema(example = "prc_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// `chatapp`, `sms` or `email`.
    #[schema(value_type = crate::credits::prices::PriceChannel)]
    pub channel: String,
    /// `authentication`, `utility`, `marketing`, `service`, `session` or `message`.
    #[schema(value_type = crate::credits::prices::PriceCategory)]
    pub category: String,
    /// ISO 3166 code, or `*` for all countries without their own price.
    #[schema(example = "IQ")]
    pub country: String,
    /// Credits for one message or segment.
    #[schema(example = 12)]
    pub credits: i64,
    /// From this instant on.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00.000Z")]
    pub valid_from: String,
    /// Until this instant: the end of a promotion, or the start of the next base price. Null =
    /// until replaced.
    #[schema(required = true, format = DateTime)]
    pub valid_until: Option<String>,
}

impl From<Price> for PriceView {
    fn from(price: Price) -> Self {
        Self {
            id: price.id.into(),
            channel: price.channel,
            category: price.category,
            country: price.country,
            credits: price.credits,
            valid_from: price.valid_from.to_string(),
            valid_until: [price.valid_until, price.replaced_at]
                .into_iter()
                .flatten()
                .min()
                .map(|at| at.to_string()),
        }
    }
}

/// A new price.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewPrice {
    /// `chatapp`, `sms` or `email`.
    #[schema(value_type = crate::credits::prices::PriceChannel)]
    pub channel: String,
    /// `chatapp` has all but `message`, `sms` has `authentication` and `message`, `email` has
    /// `message`.
    #[schema(value_type = crate::credits::prices::PriceCategory)]
    pub category: String,
    /// ISO 3166 code, or `*`.
    #[schema(pattern = "^([*]|[A-Z]{2})$", example = "IQ")]
    pub country: String,
    /// Credits for one message or segment, 0 to 1,000,000,000.
    #[schema(minimum = 0, maximum = 1_000_000_000, example = 12)]
    pub credits: i64,
    /// From this instant on; now when left out or in the past.
    #[schema(format = DateTime)]
    pub valid_from: Option<String>,
    /// Until this instant: a promotion, after which the price before it holds again. A base price,
    /// which holds until replaced, when left out.
    #[schema(format = DateTime)]
    pub valid_until: Option<String>,
}

/// New prices, taken all together or not at all.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewPrices {
    /// 1 to 1,000 of them.
    #[schema(min_items = 1)]
    pub prices: Vec<NewPrice>,
}

/// List prices.
///
/// Those that have not ended. One table holds in live and in the sandbox.
#[endpoints::path(
    get, path = "/v1/admin/prices", tag = "Operator",
    params(
        ("channel" = Option<crate::credits::prices::PriceChannel>, Query,
         description = "Only this channel"),
        ("category" = Option<crate::credits::prices::PriceCategory>, Query,
         description = "Only this category"),
        ("country" = Option<String>, Query, description = "Only this country, or `*`"),
        ("limit" = Option<i64>, Query, description = "1 to 200; 50 when left out"),
        ("cursor" = Option<String>, Query, description = "From the `Link` header"),
    ),
    responses(
        (status = 200, body = Vec<PriceView>,
         description = "One page; the `Link` header has the next"),
    ),
    security(("staff_token" = []))
)]
async fn list_prices(
    _staff: Staff,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let filters = ["channel", "category", "country"];
    let known = ["channel", "category", "country", "limit", "cursor"];
    let query = Query::read(query.as_deref(), &known)?;
    let path = query.path_with("/v1/admin/prices", &filters);
    let page = query.page(&app.vault, &path)?;
    let filter = Filter {
        channel: one_of(&query, "channel", prices::CHANNELS)?,
        category: one_of(&query, "category", prices::CATEGORIES)?,
        country: country(&query)?,
    };
    let rows = prices::list(&app, &filter, &page).await?;
    let views: Vec<PriceView> = rows.into_iter().map(PriceView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view| view.id.clone()))
}

/// A filter that is one of these words; empty = it is not given.
fn one_of(query: &Query, name: &str, words: &[&str]) -> Result<String, Problem> {
    let Some(word) = query.get(name) else { return Ok(String::new()) };
    if words.contains(&word) {
        return Ok(word.to_owned());
    }
    Err(Problem::bad_request(&format!("?{name}"), "invalid_enum", words::one_of(words)))
}

/// The filter by country; empty = it is not given.
fn country(query: &Query) -> Result<String, Problem> {
    let Some(country) = query.get("country") else { return Ok(String::new()) };
    if prices::is_country(country) {
        return Ok(country.to_owned());
    }
    let detail = "must be * or the ISO 3166 code of a country, like DE or GB";
    Err(Problem::bad_request("?country", "invalid_enum", detail))
}

/// Set prices.
///
/// A price without `valid_until` replaces the one of the same channel, category and country from
/// its `valid_from` on. One with `valid_until` is a promotion: when it ends, the price before it
/// holds again. Other prices stay. Answers all prices that have not ended.
///
/// There is one table: what is set at either address holds in live and in the sandbox.
#[endpoints::path(
    put, path = "/v1/admin/prices", tag = "Operator",
    request_body = NewPrices,
    responses(
        (status = 200, body = Vec<PriceView>, description = "All prices that have not ended"),
    ),
    security(("staff_token" = []))
)]
async fn put_prices(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<Vec<PriceView>>, Problem> {
    let mut fields = Fields::read(&body)?;
    let new = super::read(&app, fields.take("prices")).unwrap_or_else(|items| {
        fields.add(items);
        Vec::new()
    });
    fields.finish(app.is_strict())?;
    let mut set = prices::change();
    for price in &new {
        prices::replace(&mut set, price, app.now());
        let Price { channel, category, country, credits, valid_from, valid_until, .. } = price;
        let entry = Entry {
            actor: &staff.who,
            action: "price.set",
            object_id: price.id.as_str(),
            account: None,
            request_id: &staff.request_id,
            detail: serde_json::json!({
                "channel": channel, "category": category, "country": country, "credits": credits,
                "valid_from": valid_from.to_string(),
                "valid_until": valid_until.map(|at| at.to_string()),
            }),
        };
        audit::record(&app, &mut set, &entry);
    }
    app.db.commit(set).await?;
    app.memo.prices.invalidate_all();
    // They hold: if all of them cannot be read now, those that were set are told.
    let all = prices::all(&app).await.unwrap_or(new);
    Ok(Json(all.into_iter().map(PriceView::from).collect()))
}
