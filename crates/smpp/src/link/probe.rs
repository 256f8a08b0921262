//! One bind to look at a centre: how it answers, and what it says of itself.

use clock::Clock;

use super::{LinkSettings, transport};
use crate::connection::Connection;
use crate::pdu::BindResp;
use crate::session::{Ended, Event, Session};
use crate::tlv::Tlvs;
use crate::wire::COctets;

/// How long the centre is listened to after the bind, milliseconds.
const LISTEN_MS: i64 = 1_500;
/// After this silence it is asked whether it is there, milliseconds.
const ENQUIRE_MS: i64 = 100;

/// What a centre is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What it calls itself.
    pub system_id: COctets,
    /// `sc_interface_version` (SMPP 3.4 §5.3.2.25), where it tells it: 0x34 is 3.4.
    pub version: Option<u8>,
    /// What else its answer to the bind has.
    pub tlvs: Tlvs,
    /// How long connection and bind took, milliseconds.
    pub bind_ms: i64,
    /// Whether it answers `enquire_link`.
    pub answers_enquiries: bool,
    /// Messages and receipts that it delivered at once. They were sent back to come again.
    pub deliveries: usize,
}

/// Connects, with TLS where the settings want it, and says nothing.
///
/// # Errors
/// Why there is no connection.
pub async fn reach(settings: &LinkSettings, clock: &Clock) -> std::io::Result<()> {
    let connecting = transport::connect(&settings.places, settings.tls.as_ref());
    tokio::select! {
        stream = connecting => stream.map(drop),
        () = clock.sleep(settings.connect_ms) => Err(std::io::ErrorKind::TimedOut.into()),
    }
}

/// Connects, binds, asks whether the centre is there, and unbinds.
///
/// # Errors
/// What ended the session before all that was done.
pub async fn probe(settings: &LinkSettings, clock: &Clock) -> Result<Probe, Ended> {
    let begin_ms = clock.monotonic_ms();
    let connecting = transport::connect(&settings.places, settings.tls.as_ref());
    let stream = tokio::select! {
        stream = connecting => stream.map_err(|error| transport::why_not(&error))?,
        () = clock.sleep(settings.connect_ms) => {
            return Err(Ended::Disconnected(std::io::ErrorKind::TimedOut));
        }
    };
    let mut times = settings.session;
    times.enquire_ms = ENQUIRE_MS;
    let session = Session::esme(times, settings.kind, settings.bind.clone(), clock.now());
    let mut connection = Connection::new(session, stream, clock.clone());
    let resp = loop {
        match connection.next().await {
            Event::Bound(resp) => break resp,
            Event::Ended(why) => return Err(why),
            _ => {}
        }
    };
    let bind_ms = clock.monotonic_ms() - begin_ms;
    let mut deliveries = 0;
    let listening = async {
        loop {
            match connection.next().await {
                Event::Ended(why) => return why,
                Event::Message(..) => deliveries += 1,
                _ => {}
            }
        }
    };
    tokio::select! {
        why = listening => return Err(why),
        () = clock.sleep(LISTEN_MS) => {}
    }
    // It was asked all the while: only answers can have been heard at the end.
    let answers_enquiries = clock.now() - connection.session.heard_at() < LISTEN_MS / 2;
    connection.session.unbind(clock.now());
    let parting = async { while !matches!(connection.next().await, Event::Ended(_)) {} };
    tokio::select! { () = parting => {}, () = clock.sleep(LISTEN_MS) => {} }
    let version = resp.version();
    let BindResp { system_id, tlvs } = resp;
    Ok(Probe { system_id, version, tlvs, bind_ms, answers_enquiries, deliveries })
}
