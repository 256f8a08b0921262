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
                let mut signed = incoming.url.to_owned();
                let mut fields = incoming.form();
                fields.sort();
                for (name, value) in fields {
                    signed.push_str(&name);
                    signed.push_str(&value);
                }
                let mac = hmac::<Hmac<Sha1>>(secrets.key, signed.as_bytes());
                let given = incoming.header("x-twilio-signature").unwrap_or_default();
                !secrets.key.is_empty()
                    && STANDARD.decode(given).is_ok_and(|given| is_equal(&given, &mac))
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

fn hmac<M: Mac + KeyInit>(key: &str, message: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length (RFC 2104 §3).
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key.as_bytes()) else { return Vec::new() };
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}
