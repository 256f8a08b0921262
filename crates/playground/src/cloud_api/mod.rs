//! The far side of the chat-app: a Cloud API on this machine. It takes messages as the real one
//! does, with its checks and its shapes of errors, and tells by signed callbacks what became of
//! them. The last four digits of a recipient script that, as in the sandbox.

mod callbacks;
mod chaos;
mod check;
mod rules;
mod templates;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use callbacks::{bodies, message_body, post_signed, signature};
pub use chaos::Chaos;

/// The number that sends.
pub const PHONE_NUMBER_ID: &str = "106540352242922";
/// The same as people dial it.
pub const DISPLAY_NUMBER: &str = "15550783881";
/// The business account.
pub const WABA_ID: &str = "102290129340398";
/// The token that it takes.
pub const ACCESS_TOKEN: &str = "playground-token";
/// What callbacks are signed with.
pub const APP_SECRET: &str = "playground-secret";
/// The word of the handshake.
pub const VERIFY_TOKEN: &str = "playground-word";
/// How many messages are remembered.
const REMEMBERED: usize = 1_000;
/// How long an answer is kept back that its sender is to lose.
const LOST: Duration = Duration::from_mins(1);
/// After how long a late failure is told.
const LATE: Duration = Duration::from_secs(3);

/// The server. Clones show the same messages.
#[derive(Clone)]
pub struct CloudApi {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A number beside the first.
#[derive(Clone)]
struct Other {
    waba_id: String,
    chaos: Option<Chaos>,
}

struct Shared {
    /// Where callbacks go.
    callback: Mutex<Option<SocketAddr>>,
    messages: Mutex<Vec<Value>>,
    templates: Mutex<Vec<Value>>,
    count: AtomicU64,
    seen_throttled: Mutex<HashMap<String, u8>>,
    /// When people wrote last.
    windows: Mutex<HashMap<String, Instant>>,
    chaos: Mutex<Option<Chaos>>,
    /// Further numbers, each with its business account and what goes wrong with it.
    others: Mutex<HashMap<String, Other>>,
    /// With what the next message is refused.
    refused: Mutex<Option<i64>>,
    /// Messages that it was asked to take.
    asked: AtomicU64,
    /// Whether it knows which templates and windows there are.
    is_strict: AtomicBool,
}

impl CloudApi {
    /// Starts it; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn start(address: SocketAddr) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let shared = Arc::new(Shared {
            callback: Mutex::default(),
            messages: Mutex::default(),
            templates: Mutex::default(),
            count: AtomicU64::new(1),
            seen_throttled: Mutex::default(),
            windows: Mutex::default(),
            chaos: Mutex::default(),
            others: Mutex::default(),
            refused: Mutex::default(),
            asked: AtomicU64::new(0),
            is_strict: AtomicBool::new(false),
        });
        let server = Self { address: listener.local_addr()?, shared };
        let routes = Router::new()
            .route("/{version}/{number}/messages", post(take))
            .route(
                "/{version}/{waba_id}/message_templates",
                post(templates::declare).get(templates::list).delete(templates::delete),
            )
            .route("/{version}/{template_id}", post(templates::edit))
            .route("/messages", get(taken))
            .route("/write", post(write))
            .layer(DefaultBodyLimit::max(1024 * 1024))
            .with_state(server.clone());
        tokio::spawn(async move {
            // It ends with the process.
            let _ended = axum::serve(listener, routes).await;
        });
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where callbacks go from now on: the live address of the service.
    pub fn call_back(&self, service: SocketAddr) {
        *lock(&self.shared.callback) = Some(service);
    }

    /// From now on templates have to be there, with as many values as they have variables, and
    /// words go only to those who wrote within a day.
    pub fn be_strict(&self) {
        self.shared.is_strict.store(true, Ordering::Relaxed);
    }

    /// What goes wrong with every message from now on; `None` = nothing.
    pub fn misbehave(&self, chaos: Option<Chaos>) {
        *lock(&self.shared.chaos) = chaos;
    }

    /// The next message is refused with this number.
    pub fn refuse_once(&self, code: i64) {
        *lock(&self.shared.refused) = Some(code);
    }

    /// Somebody deletes all templates where the service does not see it.
    pub fn forget_templates(&self) {
        lock(&self.shared.templates).clear();
    }

    /// All templates stand so from now on, and no callback says it.
    pub fn retire_templates(&self, status: &str) {
        for template in lock(&self.shared.templates).iter_mut() {
            template["status"] = status.into();
        }
    }

    /// Somebody makes a template where the service does not see it.
    pub fn make_template(&self, waba_id: &str, name: &str, language: &str, text: &str) {
        let components = json!([{"type": "BODY", "text": text}]);
        self.make_template_of(waba_id, name, language, &components);
    }

    /// The same, of these parts.
    pub fn make_template_of(&self, waba_id: &str, name: &str, language: &str, components: &Value) {
        let id = self.next_number();
        let template = json!({"id": id, "waba_id": waba_id, "name": name, "language": language,
            "category": "UTILITY", "status": "APPROVED", "components": components});
        lock(&self.shared.templates).push(template);
    }

    /// All templates get other contents, as if an operator had changed them by hand.
    pub fn change_templates(&self, member: &str, value: &Value) {
        for template in lock(&self.shared.templates).iter_mut() {
            template[member] = value.clone();
        }
    }

    /// Another number, with a business account of its own and the same token.
    pub fn add_number(&self, phone_number_id: &str, waba_id: &str) {
        let other = Other { waba_id: waba_id.to_owned(), chaos: None };
        lock(&self.shared.others).insert(phone_number_id.to_owned(), other);
    }

    /// What goes wrong with the messages of one of these numbers.
    pub fn misbehave_at(&self, phone_number_id: &str, chaos: Option<Chaos>) {
        if let Some(other) = lock(&self.shared.others).get_mut(phone_number_id) {
            other.chaos = chaos;
        }
    }

    fn knows_account(&self, waba_id: &str) -> bool {
        let others = lock(&self.shared.others);
        waba_id == WABA_ID || others.values().any(|other| other.waba_id == waba_id)
    }

    /// How many messages it was asked to take.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// The bodies of the messages that it took, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        lock(&self.shared.messages).clone()
    }

    /// Tells the service something, signed.
    ///
    /// # Errors
    /// When the service does not answer 200.
    pub async fn tell(&self, body: &Value) -> std::io::Result<()> {
        let service = *lock(&self.shared.callback);
        let Some(service) = service else { return Ok(()) };
        let body = body.to_string();
        match post_signed(service, APP_SECRET, body.as_bytes()).await? {
            200 => Ok(()),
            status => Err(std::io::Error::other(format!("the callback was answered {status}"))),
        }
    }

    /// A person writes or taps; answers the id of their message.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub async fn write(&self, from: &str, message: Value) -> std::io::Result<String> {
        let id = self.next_id();
        rules::open_window(self, from);
        self.tell(&message_body(from, &id, message)).await?;
        Ok(id)
    }

    fn next_id(&self) -> String {
        let number = self.shared.count.fetch_add(1, Ordering::Relaxed);
        format!("wamid.PLAY{number:012}")
    }

    /// An id of something else.
    fn next_number(&self) -> String {
        let number = self.shared.count.fetch_add(1, Ordering::Relaxed);
        (1_689_556_908_000_000 + number).to_string()
    }

    /// The templates that it knows.
    #[must_use]
    pub fn templates(&self) -> Vec<Value> {
        lock(&self.shared.templates).clone()
    }

    fn remember(&self, message: Value) {
        let mut messages = lock(&self.shared.messages);
        if messages.len() >= REMEMBERED {
            messages.remove(0);
        }
        messages.push(message);
    }

    fn is_throttled(&self, to: &str) -> bool {
        let mut seen = lock(&self.shared.seen_throttled);
        let times = seen.entry(to.to_owned()).or_default();
        *times += 1;
        *times <= 2
    }

    /// Tells the scripted statuses in the background, each again until it is taken.
    fn follow(&self, to: String, id: String, echo: Value) {
        let server = self.clone();
        tokio::spawn(async move {
            for (after, status) in bodies(&to, &id, &echo) {
                tokio::time::sleep(after).await;
                for _ in 0..20 {
                    if server.tell(&status).await.is_ok() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a request has the token.
fn is_known(headers: &HeaderMap) -> bool {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    token == Some(&format!("Bearer {ACCESS_TOKEN}"))
}

/// The last four digits.
fn ending(to: &str) -> &str {
    to.get(to.len().saturating_sub(4)..).unwrap_or(to)
}

/// What it took, newest first, for whoever tries things out.
async fn taken(State(server): State<CloudApi>) -> Json<Vec<Value>> {
    Json(server.messages().into_iter().rev().collect())
}

/// Makes a person write (`from`, `text`) or tap (`from`, `payload`).
async fn write(State(server): State<CloudApi>, Json(said): Json<Value>) -> Response {
    let (from, text) = (said["from"].as_str().unwrap_or_default(), &said["text"]);
    let message = match said["payload"].as_str() {
        Some(payload) => {
            json!({ "type": "button", "button": { "payload": payload, "text": text } })
        }
        None => json!({ "type": "text", "text": { "body": text } }),
    };
    match server.write(from, message).await {
        Ok(id) => Json(json!({ "id": id })).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

async fn take(
    State(server): State<CloudApi>,
    Path((_version, number)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_known(&headers) {
        return check::error(401, 190, "Invalid OAuth access token");
    }
    let other = lock(&server.shared.others).get(&number).cloned();
    if number != PHONE_NUMBER_ID && other.is_none() {
        return check::error(400, 33, "Object with this ID does not exist");
    }
    server.shared.asked.fetch_add(1, Ordering::Relaxed);
    let chaos = other.map_or_else(|| *lock(&server.shared.chaos), |other| other.chaos);
    if chaos == Some(Chaos::Hang) {
        tokio::time::sleep(LOST).await;
    }
    if let Some(refusal) = chaos.and_then(Chaos::refusal) {
        return refusal;
    }
    if let Some(code) = lock(&server.shared.refused).take() {
        return check::error(400, code, "Refused, as a story wants it");
    }
    let message = match admitted(&server, &body) {
        Ok(message) => message,
        Err(fault) => return fault,
    };
    let to = message["to"].as_str().unwrap_or_default().trim_start_matches('+').to_owned();
    let id = server.next_id();
    let echo = message["biz_opaque_callback_data"].clone();
    server.remember(message);
    server.follow(to.clone(), id.clone(), echo);
    if ending(&to) == "0005" {
        tokio::time::sleep(LOST).await;
    }
    match chaos {
        Some(Chaos::Cut) => return chaos::cut(),
        Some(Chaos::Overtaken) => tokio::time::sleep(chaos::OVERTAKEN).await,
        _ => {}
    }
    let answer = json!({
        "messaging_product": "whatsapp",
        "contacts": [{ "input": to, "wa_id": to }],
        "messages": [{ "id": id, "message_status": "accepted" }],
    });
    (StatusCode::OK, Json(answer)).into_response()
}

/// The message, if it is taken.
#[expect(clippy::result_large_err, reason = "an answer is what a test server fails with")]
fn admitted(server: &CloudApi, body: &[u8]) -> Result<Value, Response> {
    let message = check::message(body)?;
    let to = message["to"].as_str().unwrap_or_default().trim_start_matches('+');
    match ending(to) {
        "0001" | "0004" => return Err(check::error(400, 131_026, "Message undeliverable")),
        "0006" if server.is_throttled(to) => {
            return Err(check::error(400, 130_429, "Rate limit hit"));
        }
        _ => {}
    }
    if server.shared.is_strict.load(Ordering::Relaxed) {
        rules::check(server, &message)?;
    }
    Ok(message)
}
