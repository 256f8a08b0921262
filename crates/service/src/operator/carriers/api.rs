//! Carriers and routes over HTTP.

use endpoints::{ApiRouter, ToSchema, routes};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Serialize;
use store::{CommitError, WriteSet};

use super::{RouteView, item, subjects};
use crate::access::audit::{self, Entry};
use crate::access::caller::Staff;
use crate::app::App;
use crate::carriers::binds::Presence;
use crate::carriers::routes::Route;
use crate::carriers::{Channel, Lane};
use crate::dispatch;
use crate::dispatch::routes::Change;
use crate::kit::body::Fields;
use crate::kit::described::described_words;
use crate::kit::page::NoQuery;
use crate::kit::problem::{Item, Problem};
use crate::kit::seal::{hex, sha256};

/// The longest table of routes that a line of the audit log has in it, bytes.
const LONGEST_NOTED_BYTES: usize = 8 * 1024;

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(list_carriers, list_routes, put_routes)
}

described_words!(
    LaneState: "How a carrier does, seen from this node.",
    ["up", "resting", "sends_only", "elsewhere", "down"]
);

/// A way out for messages, as the node that answers sees it.
#[derive(Debug, Serialize, ToSchema)]
pub struct CarrierView {
    /// Its name.
    #[schema(example = "main")]
    pub name: String,
    /// What it carries.
    #[schema(value_type = crate::carriers::Channel)]
    pub channel: String,
    /// `up`, `resting` (it fails or throttles, for all or for some accounts, and is asked again
    /// soon or by the next message), `sends_only` (messages go out, but of a pair of connections
    /// none that receives stands: no receipts, nothing that people write), `elsewhere` (its
    /// connection is on another node), or `down`.
    #[schema(value_type = LaneState)]
    pub state: String,
    /// What ended a connection that does not stand again yet; `null` = nothing is known.
    #[schema(required = true, example = "receiver: the carrier refuses the bind: RALYBND")]
    pub reason: Option<String>,
    /// Its connections, where it has some.
    #[schema(example = 1)]
    pub binds: usize,
    /// Submissions that may be under way at the same time.
    #[schema(example = 10)]
    pub window: usize,
    /// Those that are.
    #[schema(example = 0)]
    pub in_flight: usize,
    /// Segments that wait for the window or the rate.
    #[schema(example = 0)]
    pub waiting: usize,
    /// Segments a second at present; `null` = no limit.
    #[schema(required = true, example = 100)]
    pub rate_per_s: Option<u64>,
    /// Answers that asked to slow down.
    #[schema(example = 0)]
    pub throttled: u64,
    /// How long the latest answer took, milliseconds.
    #[schema(example = 12)]
    pub round_trip_ms: u64,
    /// Its receipts.
    pub receipts: ReceiptsView,
    /// How long the message has waited that has waited longest for it, at any node, seconds.
    #[schema(example = 0)]
    pub oldest_queued_s: u64,
}

/// What became of a carrier's receipts since this node was started.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReceiptsView {
    /// Led to their message at once.
    #[schema(example = 1200)]
    pub matched: u64,
    /// Came before the answer that they are about, and led to their message then.
    #[schema(example = 3)]
    pub early: u64,
    /// Lead nowhere so far.
    #[schema(example = 0)]
    pub orphan: u64,
}

impl CarrierView {
    fn of(channel: Channel, lane: &Arc<Lane>, oldest_queued_s: u64) -> Self {
        let (carrier, load) = (lane.carrier(), lane.carrier().load());
        let presence = lane.presence();
        // Links know whether they are up; of others only answers tell.
        let is_doubted = load.window == 0 && lane.is_doubted();
        let is_resting = lane.is_resting() || is_doubted || load.is_resting;
        let state = match presence {
            Presence::Here if is_resting => "resting",
            Presence::Here if load.sends_only => "sends_only",
            presence => presence.as_str(),
        };
        let counts = &lane.receipts;
        let answers = &lane.answers;
        // Links measure the answers themselves; of the rest the lane knows.
        let round_trip_ms = if load.window > 0 {
            load.round_trip_ms
        } else {
            answers.round_trip_ms.load(Ordering::Relaxed)
        };
        let (early, parked) =
            (counts.early.load(Ordering::Relaxed), counts.parked.load(Ordering::Relaxed));
        Self {
            name: carrier.name().to_owned(),
            channel: channel.as_str().to_owned(),
            state: state.to_owned(),
            reason: carrier.trouble(),
            binds: load.binds,
            window: lane.pace().window,
            in_flight: if load.window > 0 { load.in_flight } else { lane.taken() },
            waiting: load.waiting,
            // Links keep their rate themselves, and lower it; of the rest the lane does.
            rate_per_s: Some(load.rate_per_s)
                .filter(|rate| *rate > 0)
                .or_else(|| lane.pace().per_s.map(u64::from)),
            throttled: load.throttled.max(answers.throttled.load(Ordering::Relaxed)),
            round_trip_ms,
            receipts: ReceiptsView {
                matched: counts.matched.load(Ordering::Relaxed),
                early,
                orphan: parked.saturating_sub(early),
            },
            oldest_queued_s,
        }
    }
}

/// List carriers.
///
/// Those of this environment, and how they are.
#[endpoints::path(
    get, path = "/v1/admin/carriers", tag = "Operator",
    responses(
        (status = 200, body = Vec<CarrierView>, description = "All carriers"),
    ),
    security(("staff_token" = []))
)]
async fn list_carriers(
    _staff: Staff,
    State(app): State<App>,
    _: NoQuery,
) -> Result<Json<Vec<CarrierView>>, Problem> {
    let mut views = Vec::new();
    for (channel, lane) in app.carriers.by_channel() {
        let since = dispatch::oldest_queued(&app, lane.carrier().name()).await?;
        let waited_ms = since.map_or(0, |since| app.now() - since);
        let waited_s = u64::try_from(waited_ms / 1_000).unwrap_or(0);
        views.push(CarrierView::of(channel, lane, waited_s));
    }
    Ok(Json(views))
}

/// List SMS routes.
///
/// Those that are in force.
#[endpoints::path(
    get, path = "/v1/admin/routes", tag = "Operator",
    responses(
        (status = 200, body = Vec<RouteView>, description = "The routes in force on this node"),
    ),
    security(("staff_token" = []))
)]
async fn list_routes(
    _staff: Staff,
    State(app): State<App>,
    _: NoQuery,
) -> Result<Json<Vec<RouteView>>, Problem> {
    Ok(Json(shown(&app)))
}

fn shown(app: &App) -> Vec<RouteView> {
    app.carriers.table().routes().iter().map(RouteView::from).collect()
}

/// The routes that are to be in force.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[schema(example = json!({"routes": [{"prefix": "+33", "carriers": ["main"]}]}))]
pub struct NewRoutes {
    /// All of them, at most 1,000 (a bare array in place of the object may have more, as far as a
    /// body may be long); none = those of the settings.
    pub routes: Vec<RouteView>,
}

/// Replace the SMS routes.
///
/// They take the place of all routes that were in force, at once on this node and within two
/// seconds on the others; a send sees the old table or the new one. An empty list puts the routes
/// of the settings in force again.
///
/// The carriers that a route names must be in the settings; in the example it is one that is called
/// `main` there.
#[endpoints::path(
    put, path = "/v1/admin/routes", tag = "Operator",
    request_body = NewRoutes,
    responses(
        (status = 200, body = Vec<RouteView>, description = "The routes in force"),
    ),
    security(("staff_token" = []))
)]
async fn put_routes(
    staff: Staff,
    State(app): State<App>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<Vec<RouteView>>, Problem> {
    let list = serde_json::from_slice(&body).ok().filter(serde_json::Value::is_array);
    let is_bare = list.is_some();
    let given = if is_bare {
        list
    } else {
        let mut fields = Fields::read(&body)?;
        let given = fields.take("routes");
        fields.finish(app.is_strict())?;
        given
    };
    let invalid = |faults| Problem::invalid(if is_bare { in_list(faults) } else { faults });
    let new = super::read(given, app.is_strict()).map_err(invalid)?;
    app.carriers.check_routes(&new).map_err(|fault| invalid(vec![item(&fault)]))?;
    let faults = subjects::faults(&app, &new).await?;
    if !faults.is_empty() {
        return Err(invalid(faults));
    }
    loop {
        let (after, _) = dispatch::routes::newest(&app).await?;
        let change = Change { after, routes: new.clone() };
        let mut set = WriteSet::of("sms_routes");
        change.store(&app, &mut set);
        let entry = Entry {
            actor: &staff.who,
            action: "routes.set",
            object_id: "",
            account: None,
            request_id: &staff.request_id,
            detail: noted(&new, change.version()),
        };
        audit::record(&app, &mut set, &entry);
        match change.commit(&app, set).await {
            Ok(()) => return Ok(Json(shown(&app))),
            // Another change came between; this one is the later.
            Err(CommitError::Rejected(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What the audit log keeps of a table: nothing else does once the next one is there. Of a long one
/// the digest, which tells it from others.
fn noted(routes: &[Route], version: i64) -> serde_json::Value {
    let text = serde_json::to_string(routes).unwrap_or_default();
    let mut detail = serde_json::json!({ "routes": routes.len(), "version": version });
    if text.len() <= LONGEST_NOTED_BYTES {
        detail["table"] = serde_json::json!(routes);
    } else {
        detail["sha256"] = hex(&sha256(text.as_bytes())).into();
    }
    detail
}

/// The same faults in a body that is the list itself.
fn in_list(faults: Vec<Item>) -> Vec<Item> {
    let bare = |item: Item| {
        let pointer = item.pointer.strip_prefix("/routes").unwrap_or(&item.pointer).to_owned();
        Item { pointer, ..item }
    };
    faults.into_iter().map(bare).collect()
}
