//! A user with a ticket, and sockets of it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::wire::Conn;

/// Longest wait for anything.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// A message, as far as the driver needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) client_message_id: Option<String>,
}

/// Who speaks, and where.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) address: String,
    token: String,
    pub(super) ticket: String,
}

impl Desk {
    /// Signs up and opens a ticket.
    ///
    /// # Errors
    /// When the service answers anything else than 200.
    pub(super) async fn open(url: &str) -> Result<Self> {
        let address = url.trim_start_matches("http://").to_owned();
        let mut desk = Self { address, token: String::new(), ticket: String::new() };
        let body = json!({"email": "chat@example.com", "password": "correct horse battery"});
        let made = desk.ask("POST", "/v1/auth/signup", Some(&body)).await?;
        desk.token = word(&made, "token")?;
        let body =
            json!({"subject": "s", "category": "c", "priority": "normal", "message": "first"});
        let made = desk.ask("POST", "/v1/support/tickets", Some(&body)).await?;
        desk.ticket = word(&made, "id")?;
        Ok(desk)
    }

    /// The same at another node.
    pub(super) fn at(&self, url: &str) -> Self {
        Self { address: url.trim_start_matches("http://").to_owned(), ..self.clone() }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let reply = Conn::new(&self.address).call(request.as_bytes()).await?;
        let said = String::from_utf8_lossy(&reply.body).into_owned();
        ensure!(reply.status == 200, "{method} {path}: {} {said}", reply.status);
        Ok(serde_json::from_str(&said)?)
    }

    /// Writes a message over HTTP; its number.
    ///
    /// # Errors
    /// When it is not answered with 200.
    pub(super) async fn write(&self, text: &str, client_id: &str) -> Result<i64> {
        let path = format!("/v1/support/tickets/{}/messages", self.ticket);
        let body = json!({"message": text, "client_message_id": client_id});
        let made = self.ask("POST", &path, Some(&body)).await?;
        made["seq"].as_i64().context("no seq")
    }

    /// All messages, in their order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn messages(&self) -> Result<Vec<Seen>> {
        let mut all: Vec<Seen> = Vec::new();
        loop {
            let after = all.last().map_or(0, |seen| seen.seq);
            let ticket = &self.ticket;
            let path = format!("/v1/support/tickets/{ticket}/messages?limit=200&after_seq={after}");
            let page = self.ask("GET", &path, None).await?;
            let page = page.as_array().context("no array")?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page.iter().filter_map(seen));
        }
    }

    /// Opens a socket.
    ///
    /// # Errors
    /// When it cannot be connected or upgraded.
    pub(super) async fn socket(&self, more: &str) -> Result<Socket> {
        let Self { address, token, ticket } = self;
        let url = format!("ws://{address}/v1/support/tickets/{ticket}/ws?token={token}{more}");
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(0);
        let request = url.into_client_request()?;
        let opening = client_async_with_config(request, tcp, Some(config));
        let (ws, _) = timeout(PATIENCE, opening).await??;
        Ok(Socket { ws })
    }
}

/// An open socket.
#[derive(Debug)]
pub(super) struct Socket {
    ws: WebSocketStream<TcpStream>,
}

/// What came.
#[derive(Debug)]
pub(super) enum Came {
    Message(Seen),
    Ack { client_message_id: String, id: String, seq: i64 },
    Closed,
}

impl Socket {
    /// Sends a message.
    ///
    /// # Errors
    /// When the connection is gone.
    pub(super) async fn send(&mut self, text: &str, client_id: &str) -> Result<()> {
        let frame = json!({"message": text, "client_message_id": client_id}).to_string();
        Ok(self.ws.send(Message::text(frame)).await?)
    }

    /// The next frame of those that matter.
    ///
    /// # Errors
    /// When nothing comes for a minute, or what comes is not understood.
    pub(super) async fn next(&mut self) -> Result<Came> {
        loop {
            let next = timeout(PATIENCE, self.ws.next()).await.context("nothing comes")?;
            let text = match next {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(_) | Err(_)) | None => return Ok(Came::Closed),
            };
            let frame: Value = serde_json::from_str(&text)?;
            match frame["type"].as_str() {
                Some("message") => {
                    return Ok(Came::Message(seen(&frame["message"]).context("no message")?));
                }
                Some("ack") => {
                    return Ok(Came::Ack {
                        client_message_id: word(&frame, "client_message_id")?,
                        id: word(&frame, "id")?,
                        seq: frame["seq"].as_i64().context("no seq")?,
                    });
                }
                _ => bail!("an unexpected frame: {frame}"),
            }
        }
    }
}

fn seen(message: &Value) -> Option<Seen> {
    Some(Seen {
        seq: message["seq"].as_i64()?,
        id: message["id"].as_str()?.to_owned(),
        client_message_id: message["client_message_id"].as_str().map(str::to_owned),
    })
}

fn word(value: &Value, name: &str) -> Result<String> {
    let found = value[name].as_str().with_context(|| format!("no {name}"))?;
    Ok(found.to_owned())
}
