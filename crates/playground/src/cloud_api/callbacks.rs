//! Callbacks as the upstream sends them: statuses and messages, signed over the raw bytes.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use clock::Clock;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{DISPLAY_NUMBER, LATE, PHONE_NUMBER_ID, WABA_ID, ending};

/// Where the service takes callbacks.
const PATH: &str = "/v1/upstream/chatapp";

/// Seconds since 1970, as a string.
pub(super) fn now_s() -> String {
    (Clock::system().now().0 / 1_000).to_string()
}

fn envelope(value: Value) -> Value {
    let mut value = value;
    value["messaging_product"] = "whatsapp".into();
    value["metadata"] =
        json!({ "display_phone_number": DISPLAY_NUMBER, "phone_number_id": PHONE_NUMBER_ID });
    json!({
        "object": "whatsapp_business_account",
        "entry": [{ "id": WABA_ID, "changes": [{ "field": "messages", "value": value }] }],
    })
}

fn status(to: &str, id: &str, echo: &Value, word: &str) -> Value {
    let mut status = json!({
        "id": id, "status": word, "timestamp": now_s(), "recipient_id": to,
        "biz_opaque_callback_data": echo,
    });
    let mut value = json!({});
    if word == "failed" {
        status["errors"] = json!([{
            "code": 131_026, "title": "Message undeliverable",
            "message": "Message undeliverable",
            "error_data": { "details": "Message Undeliverable." },
        }]);
    } else {
        value["contacts"] = json!([{
            "wa_id": to, "user_id": format!("FR.{to}"), "profile": { "name": "Playground" },
        }]);
    }
    if word == "sent" {
        status["pricing"] = json!({
            "billable": true, "pricing_model": "PMP", "type": "regular", "category": "utility",
        });
    }
    value["statuses"] = json!([status]);
    envelope(value)
}

/// The statuses of a message, each with how long it comes after the one before.
#[must_use]
pub fn bodies(to: &str, id: &str, echo: &Value) -> Vec<(Duration, Value)> {
    let now = |word: &str| (Duration::ZERO, status(to, id, echo, word));
    let late = |word: &str| (LATE, status(to, id, echo, word));
    match ending(to) {
        "0002" => vec![late("failed")],
        "0003" => vec![],
        "0008" => vec![now("failed")],
        "0007" => vec![late("delivered"), now("sent"), now("sent"), now("delivered")],
        _ => vec![now("sent"), now("delivered")],
    }
}

/// What a person writes or taps: `message` has `type` and its member.
#[must_use]
pub fn message_body(from: &str, id: &str, message: Value) -> Value {
    let mut message = message;
    let digits = from.trim_start_matches('+');
    message["from"] = digits.into();
    message["from_user_id"] = format!("FR.{digits}").into();
    message["id"] = id.into();
    if message["timestamp"].is_null() {
        message["timestamp"] = now_s().into();
    }
    envelope(json!({
        "contacts": [{
            "profile": { "name": "Playground" }, "wa_id": message["from"],
            "user_id": message["from_user_id"],
        }],
        "messages": [message],
    }))
}

/// The value of the header that signs a body.
#[must_use]
pub fn signature(secret: &str, body: &[u8]) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    digest.iter().fold("sha256=".to_owned(), |mut hex, byte| {
        let _always_fits = write!(hex, "{byte:02x}");
        hex
    })
}

/// Posts a body with its signature, and answers the status.
///
/// # Errors
/// When there is no answer.
pub async fn post_signed(service: SocketAddr, secret: &str, body: &[u8]) -> std::io::Result<u16> {
    let signature = signature(secret, body);
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: {service}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nx-hub-signature-256: {signature}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(service).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut answer).await?;
    let line = String::from_utf8_lossy(&answer);
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| std::io::Error::other("the service answered no HTTP"))
}
