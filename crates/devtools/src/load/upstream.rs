//! The far side of the chat-app for a load of callbacks: it takes every message, and keeps what the
//! callback of its delivery says.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};

use crate::stopwatch;

/// A Cloud API that takes everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    count: AtomicU64,
    callbacks: Mutex<Vec<Box<str>>>,
}

impl Upstream {
    /// Listens at `address`.
    ///
    /// # Errors
    /// When it is taken.
    pub(crate) async fn start(address: SocketAddr) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("--upstream {address}"))?;
        let upstream = Self::default();
        let routes = Router::new()
            .route("/{version}/{number}/messages", post(take))
            .with_state(upstream.clone());
        tokio::spawn(async move {
            // It ends with the process.
            let _ended = axum::serve(listener, routes).await;
        });
        Ok(upstream)
    }

    /// The bodies of the callbacks that say that the messages were delivered.
    ///
    /// # Errors
    /// When no message came: the service sends elsewhere.
    pub(crate) fn callbacks(&self) -> Result<Vec<Box<str>>> {
        let taken = self.shared.callbacks.lock().map(|mut all| std::mem::take(&mut *all));
        let taken = taken.unwrap_or_default();
        ensure!(!taken.is_empty(), "no message came to --upstream: set chatapp.base_url to it");
        Ok(taken)
    }
}

async fn take(State(upstream): State<Upstream>, Json(message): Json<Value>) -> Json<Value> {
    let number = upstream.shared.count.fetch_add(1, Ordering::Relaxed);
    let id = format!("wamid.LOAD{number:012}");
    let (to, echo) = (&message["to"], &message["biz_opaque_callback_data"]);
    let body = delivered(to, &id, echo).to_string();
    if let Ok(mut callbacks) = upstream.shared.callbacks.lock() {
        callbacks.push(body.into_boxed_str());
    }
    Json(json!({
        "messaging_product": "whatsapp", "contacts": [{ "input": to, "wa_id": to }],
        "messages": [{ "id": id, "message_status": "accepted" }],
    }))
}

/// A callback as the real one writes it, with all that it says beside the status.
fn delivered(to: &Value, id: &str, echo: &Value) -> Value {
    json!({ "object": "whatsapp_business_account", "entry": [{ "id": "1", "changes": [{
        "field": "messages", "value": {
            "messaging_product": "whatsapp",
            "metadata": { "display_phone_number": "15550783881", "phone_number_id": "1" },
            "contacts": [{ "wa_id": to, "user_id": "FR.1", "profile": { "name": "Load" } }],
            "statuses": [{
                "id": id, "status": "delivered", "recipient_id": to,
                "timestamp": (stopwatch::ms_of_day() / 1_000).to_string(),
                "biz_opaque_callback_data": echo,
                "pricing": { "billable": true, "pricing_model": "PMP", "type": "regular",
                    "category": "authentication" },
            }],
        },
    }] }] })
}
