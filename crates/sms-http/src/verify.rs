//! Whether a callback comes from its gateway.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::callback::Incoming;
use crate::describe::{Gateway, Verify, network};
use crate::template::hex;

/// What callbacks are proved with.
#[derive(Clone, Copy)]
pub struct Secrets<'a> {
    /// The token in the URL of callbacks.
    pub token: &'a str,
    /// The key of signatures.
    pub key: &'a str,
}

/// It does not come from the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the callback is not proved")]
pub struct Forged;

impl Gateway {
    /// What of a callback is genuine: all of it, or its body alone where no more is signed.
    ///
    /// # Errors
    /// [`Forged`]; also where the secret is empty, or nothing is signed.
    pub fn prove<'a>(
        &self,
        incoming: Incoming<'a>,
        secrets: Secrets<'_>,
    ) -> Result<Incoming<'a>, Forged> {
        let is_genuine = match &self.verify {
            Verify::Token => {
                let given = incoming.parameter("token").unwrap_or_default();
                !secrets.token.is_empty() && is_equal(given.as_bytes(), secrets.token.as_bytes())
            }
            Verify::Addresses { networks } => {
                let is_in = |from: &IpAddr| {
                    networks.iter().filter_map(|text| network(text)).any(|it| it.contains(from))
                };
                incoming.from.map(|from| from.to_canonical()).is_some_and(|from| is_in(&from))
            }
            Verify::Twilio => {
                !secrets.key.is_empty() && is_signed_by_twilio(&incoming, secrets.key)
            }
            Verify::HmacSha256 { header } => {
                let mac = hmac::<Hmac<Sha256>>(secrets.key, incoming.body);
                let wanted = hex(&mac);
                let given = incoming.header(header).unwrap_or_default();
                let given = given.rsplit('=').next().unwrap_or_default().to_ascii_lowercase();
                let is_signed = !secrets.key.is_empty() && !incoming.body.is_empty();
                is_signed && is_equal(given.as_bytes(), wanted.as_bytes())
            }
        };
        match self.verify {
            _ if !is_genuine => Err(Forged),
            // Whoever saw one signature could put another query before it.
            Verify::HmacSha256 { .. } => Ok(Incoming { url: "", query: "", ..incoming }),
            _ => Ok(incoming),
        }
    }
}

/// Twilio signs the URL and the fields of the form. It writes the scheme's usual port or leaves it
/// out, "inconsistently" as its own libraries say, which try both.
fn is_signed_by_twilio(incoming: &Incoming<'_>, key: &str) -> bool {
    let mut fields = incoming.form();
    fields.sort();
    let fields: String = fields.into_iter().flat_map(|(name, value)| [name, value]).collect();
    let given = incoming.header("x-twilio-signature").unwrap_or_default();
    let Ok(given) = STANDARD.decode(given) else { return false };
    let urls = [Some(incoming.url.to_owned()), with_usual_port(incoming.url)];
    urls.into_iter().flatten().any(|url| {
        let mac = hmac::<Hmac<Sha1>>(key, format!("{url}{fields}").as_bytes());
        is_equal(&given, &mac)
    })
}

/// The same URL with its scheme's usual port; `None` where it has one.
fn with_usual_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let port = if scheme == "https" { 443 } else { 80 };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let name = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    (!name.contains(':')).then(|| format!("{scheme}://{host}:{port}{path}"))
}

fn hmac<M: Mac + KeyInit>(key: &str, message: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length (RFC 2104 §3).
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key.as_bytes()) else { return Vec::new() };
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}
