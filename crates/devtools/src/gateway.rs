//! `devtools gateway`: sends passcodes as small gateways in front of Redis do, on the crates that
//! the service uses: a hash for each recipient, one transaction, and one push by HTTP. No accounts,
//! credits, events, or second node. What a send costs here is what others are content with.
#![expect(clippy::print_stdout, reason = "where it listens is what its caller waits for")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use redis::aio::MultiplexedConnection;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::wire::Conn;

/// How long a passcode is valid, seconds.
const VALID_S: i64 = 300;

/// Options of `devtools gateway`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  redis-server --port 6399 --appendonly yes --appendfsync always
  devtools hello --listen 127.0.0.1:8098
  devtools gateway --redis 127.0.0.1:6399 --push 127.0.0.1:8098 --listen 127.0.0.1:8099
  devtools load --url http://127.0.0.1:8099 --key none --workload send --no-consent")]
pub(crate) struct Args {
    /// Where Redis listens.
    #[arg(long)]
    redis: SocketAddr,
    /// Who takes the messages, by HTTP.
    #[arg(long)]
    push: SocketAddr,
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// What a request needs.
#[derive(Clone)]
struct Gateway {
    redis: MultiplexedConnection,
    push: SocketAddr,
    /// Connections to whom messages are pushed that nobody uses now.
    idle: Arc<Mutex<Vec<Conn>>>,
}

/// The part of a send that it looks at.
#[derive(Deserialize)]
struct Send {
    to: String,
    #[serde(default)]
    code: Option<String>,
}

/// Serves until it is killed.
///
/// # Errors
/// When Redis does not answer, or the address is taken.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = redis::Client::open(format!("redis://{}", args.redis))?;
        let redis = client.get_multiplexed_async_connection().await;
        let redis = redis.with_context(|| format!("Redis at {} does not answer", args.redis))?;
        let gateway = Gateway { redis, push: args.push, idle: Arc::default() };
        let listener = tokio::net::TcpListener::bind(args.listen).await?;
        println!("http://{}", listener.local_addr()?);
        let app = Router::new().route("/v1/otp/send", post(send)).with_state(gateway);
        axum::serve(listener, app).await?;
        Ok(true)
    })
}

async fn send(
    State(gateway): State<Gateway>,
    Json(send): Json<Send>,
) -> Result<Json<Value>, StatusCode> {
    let sent = gateway.send(&send).await;
    sent.map(Json).map_err(|_| StatusCode::BAD_GATEWAY)
}

impl Gateway {
    /// Looks whether sends to the recipient are locked, keeps the code, pushes it.
    async fn send(&self, send: &Send) -> Result<Value> {
        let Send { to, code } = send;
        let (key, code) = (format!("otp:{to}"), code.as_deref().unwrap_or("123456"));
        let mut redis = self.redis.clone();
        let before: Vec<String> = redis::cmd("HGETALL").arg(&key).query_async(&mut redis).await?;
        anyhow::ensure!(before.len() < 100, "a hash of another program");
        let fields = [("code", code), ("to", to), ("channel", "chatapp"), ("status", "sent")];
        let mut all = redis::pipe();
        all.atomic().hset_multiple(&key, &fields).ignore();
        all.hincr(&key, "attempts", 1).ignore().expire(&key, VALID_S).ignore();
        all.query_async::<()>(&mut redis).await?;
        self.push(to, code).await?;
        Ok(json!({ "challenge_id": key, "to": to, "status": "sent" }))
    }

    async fn push(&self, to: &str, code: &str) -> Result<()> {
        let body = json!({ "to": to, "text": format!("Your code is {code}.") }).to_string();
        let request = format!(
            "POST /messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.push,
            body.len()
        );
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut conn = taken.unwrap_or_else(|| Conn::new(&self.push.to_string()));
        let reply = conn.call(request.as_bytes()).await?;
        idle().push(conn);
        anyhow::ensure!(reply.status == 200, "the push was answered {}", reply.status);
        Ok(())
    }
}
