//! What the centre's other side can be told to do, over HTTP: as `scripts/smsc_peer.js` takes it.
//!
//! | | |
//! |---|---|
//! | `GET`, `DELETE /messages` | what arrived; forgets it |
//! | `GET`, `DELETE /stats` | what was counted; counts from zero |
//! | `GET`, `POST /behaviour` | how the centre behaves; changes what the body names |
//! | `POST /mo` | makes a phone write: `from`, `to`, `text`, and how it is cut: `long`, `shuffle` |
//! | `POST /dlr` | one more receipt: `id` as it was answered, `stat`, `err` |
//! | `POST /unbind`, `POST /kick` | ends all sessions in order; cuts them |

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;

use super::script::state_of;
use super::{Carried, Handsets, Long, Mobile, SmscOptions, Stats};

/// What a phone is to write.
#[derive(Debug, Deserialize)]
struct Writing {
    from: String,
    to: String,
    text: String,
    #[serde(default)]
    long: Long,
    #[serde(default)]
    shuffle: bool,
}

/// A receipt that is to be sent.
#[derive(Debug, Deserialize)]
struct Reporting {
    id: String,
    #[serde(default)]
    stat: Option<String>,
    #[serde(default)]
    err: Option<String>,
}

/// Serves the control of a centre.
pub(super) fn router(handsets: Handsets) -> Router {
    Router::new()
        .route("/messages", get(messages).delete(forget))
        .route("/stats", get(stats).delete(reset_stats))
        .route("/behaviour", get(behaviour).post(behave))
        .route("/mo", post(write))
        .route("/dlr", post(report))
        .route("/unbind", post(unbind))
        .route("/kick", post(kick))
        .with_state(handsets)
}

async fn messages(State(handsets): State<Handsets>) -> Json<Vec<Carried>> {
    Json(handsets.messages())
}

async fn forget(State(handsets): State<Handsets>) {
    handsets.forget();
}

async fn stats(State(handsets): State<Handsets>) -> Json<Stats> {
    Json(handsets.stats())
}

async fn reset_stats(State(handsets): State<Handsets>) {
    handsets.reset_stats();
}

async fn behaviour(State(handsets): State<Handsets>) -> Json<SmscOptions> {
    Json(handsets.options())
}

/// 400: nothing has changed.
async fn behave(
    State(handsets): State<Handsets>,
    Json(given): Json<Value>,
) -> Result<Json<SmscOptions>, (StatusCode, String)> {
    let new = handsets.options().changed(given);
    let new = new.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    handsets.behave(new.clone());
    Ok(Json(new))
}

/// 409: nobody is bound to receive it.
async fn write(State(handsets): State<Handsets>, Json(it): Json<Writing>) -> StatusCode {
    let Writing { from, to, text, long, shuffle } = it;
    let is_written = handsets.write_as(&Mobile { from, to, text }, long, shuffle);
    if is_written { StatusCode::OK } else { StatusCode::CONFLICT }
}

/// 404: no such message is remembered. 400: there is no such state.
async fn report(State(handsets): State<Handsets>, Json(it): Json<Reporting>) -> StatusCode {
    let Some(state) = state_of(it.stat.as_deref().unwrap_or("DELIVRD")) else {
        return StatusCode::BAD_REQUEST;
    };
    let is_known = handsets.receipt(&it.id, state, it.err.as_deref());
    if is_known { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

async fn unbind(State(handsets): State<Handsets>) {
    handsets.unbind();
}

async fn kick(State(handsets): State<Handsets>) {
    handsets.kick();
}
