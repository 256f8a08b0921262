//! What the centre's other side can be told to do, over HTTP: `GET /messages` lists what arrived,
//! `POST /mo` makes a phone write, `POST /unbind` ends all sessions in order.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::{Carried, Handsets, Mobile};

/// What a phone is to write.
#[derive(Debug, Deserialize)]
struct Writing {
    from: String,
    to: String,
    text: String,
}

/// Serves the control of a centre.
pub(super) fn router(handsets: Handsets) -> Router {
    Router::new()
        .route("/messages", get(messages))
        .route("/mo", post(write))
        .route("/unbind", post(unbind))
        .with_state(handsets)
}

async fn messages(State(handsets): State<Handsets>) -> Json<Vec<Carried>> {
    Json(handsets.messages())
}

/// 409: nobody is bound to receive it.
async fn write(State(handsets): State<Handsets>, Json(it): Json<Writing>) -> StatusCode {
    let Writing { from, to, text } = it;
    if handsets.write(&Mobile { from, to, text }) { StatusCode::OK } else { StatusCode::CONFLICT }
}

async fn unbind(State(handsets): State<Handsets>) -> StatusCode {
    handsets.unbind();
    StatusCode::OK
}
