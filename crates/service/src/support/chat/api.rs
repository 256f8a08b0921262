//! Live chat over HTTP: the upgrade of both sides, and one-use tokens for it.

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use clock::Millis;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::socket::{self, Wish};
use super::{Ending, token};
use crate::access::api::{EmptyRequest, private};
use crate::access::caller::{Caller, Portal, Staff};
use crate::access::client_of;
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::TicketId;
use crate::kit::page::Query;
use crate::kit::posted::{Posted, path_part};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;
use crate::kit::takeover::Takeover;
use crate::kit::throttle::Class;
use crate::sockets::features;
use crate::support::{Reader, Side, tickets};

/// What a browser that can set no header names beside its token.
const PROTOCOL: &str = "estafette.v1";

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(open_ticket_socket, open_staff_socket, create_socket_token, create_staff_socket_token)
}

/// A token that opens one socket.
#[derive(Serialize, ToSchema)]
pub struct SocketToken {
    /// For the parameter `token`; good once.
    #[schema(example = "est_ct_0sJmVh3YwQxk1sU0N8pJ4yW8b5m2Qm1Zc7c2hVxq3rE")]
    token: String,
    /// 30 seconds from now.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// An upgrade to a socket, as far as HTTP knows it.
struct Upgrade {
    accept: String,
    protocol: bool,
    given: Option<Secret>,
    is_foreign: bool,
    since: Option<i64>,
    features: u8,
    ticket: Option<TicketId>,
    client: String,
}

impl FromRequestParts<App> for Upgrade {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let accept = handshake(parts)?;
        let known = ["token", "since", "features"];
        let query = Query::read(parts.uri.query(), &known)?;
        let since = match query.get("since").map(str::parse::<i64>) {
            None => None,
            Some(Ok(seq)) if seq >= 0 => Some(seq),
            Some(_) => {
                let detail = "must be the number of a message, 0 or higher";
                return Err(Problem::bad_request("?since", "out_of_range", detail));
            }
        };
        let features = read_features(query.get("features").unwrap_or(""))?;
        let ticket = TicketId::parse(&path_part(parts, app).await?);
        let (protocol, offered) = offered(&parts.headers);
        let given = query.get("token").map(|text| Secret::new(text.to_owned()));
        let given = given.or(offered).or_else(|| bearer(&parts.headers));
        let client = client_of(parts);
        let client = client.map(|client| client.unit().to_string()).unwrap_or_default();
        let is_foreign = is_foreign(app, &parts.headers);
        Ok(Self { accept, protocol, given, is_foreign, since, features, ticket, client })
    }
}

/// Open a ticket's live chat.
///
/// A WebSocket. The client sends `{"message": text}` and may add `client_message_id`, so that a
/// repeat is no second message. It receives `{"type": "message", "ticket_id", "message"}`. `since`
/// first replays all messages after that number, so a client that reconnects loses none. Frames of
/// other types come only when `features` asks for them: `ack`, `typing`, `read`, `presence`,
/// `status`, `error`, `resync`.
///
/// Errors are close codes: 4401 (token), 4403 (origin, account), 4404 (ticket), 4408 (the client is
/// too slow), 4429 (too many frames or sockets), 1012 (the service restarts).
#[endpoints::path(
    get, path = "/v1/support/tickets/{ticket_id}/ws", tag = "Support",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
        ("token" = Option<String>, Query,
         description = "A portal token, or a one-use one; else as a `Bearer`"),
        ("since" = Option<i64>, Query, description = "Replay what comes after this number"),
        ("features" = Option<String>, Query, description = "Comma-separated list"),
    ),
    responses(
        (status = 101, description = "It is a WebSocket from here on"),
    ),
    security(("portal_token" = []))
)]
async fn open_ticket_socket(State(app): State<App>, upgrade: Upgrade) -> Result<Response, Problem> {
    upgraded(app, upgrade, Side::User).await
}

/// Open a ticket's live chat as staff.
///
/// As the user's side; `internal: true` beside `message` makes it a note, and notes are seen here.
#[endpoints::path(
    get, path = "/v1/admin/support/tickets/{ticket_id}/ws", tag = "Operator",
    params(
        ("ticket_id" = String, Path, description = "The ticket"),
        ("token" = Option<String>, Query,
         description = "A staff token, or a one-use one; else as a `Bearer`"),
        ("since" = Option<i64>, Query, description = "Replay what comes after this number"),
        ("features" = Option<String>, Query, description = "Comma-separated list"),
    ),
    responses(
        (status = 101, description = "It is a WebSocket from here on"),
    ),
    security(("staff_token" = []))
)]
async fn open_staff_socket(State(app): State<App>, upgrade: Upgrade) -> Result<Response, Problem> {
    upgraded(app, upgrade, Side::Admin).await
}

/// Create a token for the live chat.
///
/// It opens one WebSocket of the ticket within 30 seconds: `GET
/// /v1/support/tickets/{ticket_id}/ws?token=…`, as the guide to support says. It may be seen where
/// addresses are written down; a portal token should not be.
#[endpoints::path(
    post, path = "/v1/support/tickets/{ticket_id}/ws-token", tag = "Support",
    params(("ticket_id" = String, Path, description = "The ticket")),
    request_body = Option<EmptyRequest>,
    responses(
        (status = 200, body = SocketToken, description = "The token"),
    ),
    security(("portal_token" = []))
)]
async fn create_socket_token(
    caller: Caller<Portal>,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    let account = &caller.account.id;
    tickets::find(&app, Reader::User(account), &posted.id).await?;
    let session = caller.token.ok_or(Code::InternalError)?;
    let route = format!("POST /v1/support/tickets/{}/ws-token", posted.id);
    let request = Repeatable::by_tenant(account, &posted.headers, &route, &posted.body);
    made(&app, &posted.id, Side::User, session, request).await
}

/// Create a staff token for the live chat.
///
/// It opens one WebSocket of the staff's side of the ticket within 30 seconds: `GET
/// /v1/admin/support/tickets/{ticket_id}/ws?token=…`.
#[endpoints::path(
    post, path = "/v1/admin/support/tickets/{ticket_id}/ws-token", tag = "Operator",
    params(("ticket_id" = String, Path, description = "The ticket")),
    request_body = Option<EmptyRequest>,
    responses(
        (status = 200, body = SocketToken, description = "The token"),
    ),
    security(("staff_token" = []))
)]
async fn create_staff_socket_token(
    staff: Staff,
    State(app): State<App>,
    posted: Posted<TicketId>,
) -> Result<Response, Problem> {
    tickets::find(&app, Reader::Staff, &posted.id).await?;
    let route = format!("POST /v1/admin/support/tickets/{}/ws-token", posted.id);
    let request = Repeatable::by_person(&staff.who, &posted.headers, &route, &posted.body);
    made(&app, &posted.id, Side::Admin, staff.token, request).await
}

fn gone() -> Problem {
    let detail = "The token of this `Idempotency-Key` has ended. Ask for another under a new key.";
    Problem::new(Code::NotFound).detail(detail)
}

/// A repeat carries the same token. It opens nothing once it was used or its 30 seconds are over.
async fn made(
    app: &App,
    ticket: &TicketId,
    side: Side,
    session: [u8; 32],
    request: Repeatable<'_>,
) -> Result<Response, Problem> {
    Fields::read(request.body())?.finish(app.is_strict())?;
    let fresh = async |claim: Claim| Ok(token::make(app, ticket, side, session, &claim).await?);
    let again = async |seen: Seen| token::again(app, &seen).ok_or_else(gone);
    let once = idempotency::once(app, request, fresh, again).await?;
    let view = |(token, expires_at): (Secret, Millis)| SocketToken {
        token: token.expose().to_owned(),
        expires_at: expires_at.to_string(),
    };
    Ok(once.map(|made| private(view(made))).into_response())
}

/// Every answer is 101: a browser cannot read the status of a failed handshake, but the code of a
/// close it can.
async fn upgraded(app: App, upgrade: Upgrade, side: Side) -> Result<Response, Problem> {
    let Upgrade { accept, protocol, given, is_foreign, since, features, ticket, client } = upgrade;
    let doubts = app.sockets.doubts();
    let entry = match () {
        // Its token is not even looked at.
        () if is_foreign => Err(Ending::Forbidden),
        // Looking up a token is a read like any other, whatever comes of it.
        () if app.throttle.take(Class::Read, &client).is_err() => Err(Ending::TooMany),
        () => match token::admit(&app, ticket.as_ref(), side, given.as_ref()).await {
            Ok(session) => match ticket {
                Some(ticket) => {
                    let wish = Wish { ticket, side, since, features, session, doubts };
                    Box::pin(socket::enter(&app, wish)).await
                }
                None => Err(Ending::NoTicket),
            },
            Err(Ending::NoToken) if app.throttle.take(Class::Guest, &client).is_err() => {
                Err(Ending::TooMany)
            }
            Err(ending) => Err(ending),
        },
    };
    let mut response = Body::empty().into_response();
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if protocol {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    let work = Takeover::by(move |taken| socket::serve(app, entry, taken));
    response.extensions_mut().insert(work);
    Ok(response)
}

/// Checks the client's side of the handshake and answers ours (RFC 6455 §4.2).
fn handshake(parts: &Parts) -> Result<String, Problem> {
    let has = |name: header::HeaderName, word: &str| {
        let mut values = parts.headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
        values.any(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    let wrong = |name: &str, detail: &str| {
        let pointer = format!("header:{name}");
        Problem::bad_request(&pointer, "invalid_type", detail)
            .header("sec-websocket-version", HeaderValue::from_static("13"))
    };
    if parts.version != Version::HTTP_11 || !has(header::UPGRADE, "websocket") {
        return Err(wrong("Upgrade", "must be websocket, on HTTP/1.1"));
    }
    if !has(header::CONNECTION, "upgrade") {
        return Err(wrong("Connection", "must be Upgrade"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(wrong("Sec-WebSocket-Version", "must be 13"));
    }
    let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    // Sixteen bytes in base64.
    match key.filter(|key| key.len() == 24 && key.ends_with(b"==")) {
        Some(key) => Ok(derive_accept_key(key)),
        None => Err(wrong("Sec-WebSocket-Key", "must be 16 bytes in base64")),
    }
}

fn read_features(list: &str) -> Result<u8, Problem> {
    let mut bits = 0;
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let Some((_, bit)) = features::WORDS.iter().find(|(known, _)| *known == word) else {
            let known = features::WORDS.map(|(word, _)| word).join(", ");
            let detail = format!("must be one or more of {known}");
            return Err(Problem::bad_request("?features", "invalid_enum", detail));
        };
        bits |= bit;
    }
    Ok(bits)
}

/// `Sec-WebSocket-Protocol: estafette.v1, bearer.TOKEN`: whether ours is offered, and the token.
fn offered(headers: &HeaderMap) -> (bool, Option<Secret>) {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let words = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let mut found = (false, None);
    for word in words.map(str::trim) {
        if word == PROTOCOL {
            found.0 = true;
        } else if let Some(token) = word.strip_prefix("bearer.") {
            found.1 = Some(Secret::new(token.to_owned()));
        }
    }
    found
}

fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| Secret::new(token.trim().to_owned()))
}

/// A page of another site must not open sockets with what its visitor's browser knows (RFC 6455
/// §10.2). Programs name no origin.
fn is_foreign(app: &App, headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return false };
    let Ok(origin) = origin.to_str() else { return true };
    if origins.next().is_some() {
        return true;
    }
    let server = &app.config.server;
    let own = [&server.live_url, &server.sandbox_url];
    let is_named = own.into_iter().chain(&app.config.support.origins).any(|known| {
        // An address may have a path behind its origin.
        let mut parts = known.splitn(4, '/');
        let known: Vec<&str> = parts.by_ref().take(3).collect();
        known.join("/").eq_ignore_ascii_case(origin)
    });
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
    // A name may be anybody's that leads here (DNS rebinding); an address is what it is.
    let is_own = authority.eq_ignore_ascii_case(host) && is_address(authority);
    !is_named && !is_own
}

/// Whether the host of an authority is an IP address, or this machine.
fn is_address(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<axum::http::uri::Authority>() else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}
