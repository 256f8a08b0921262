//! A carrier's settings in the words of a link.

use std::path::Path;
use std::sync::Arc;

use ::smpp::{Bind, BindKind, LinkSettings, Place, SessionSettings, Tls};

use crate::config::{BindMode, Smpp};
use crate::kit::outgoing;

/// What a link of this carrier needs to know; of a pair, the one that sends.
///
/// # Errors
/// The file of authorities cannot be used.
pub fn settings(settings: &Smpp) -> Result<LinkSettings, String> {
    let Smpp { host, port, system_id, password, system_type, .. } = settings;
    let place = Place { host: host.clone(), port: *port };
    let bind = Bind {
        system_type: system_type.as_str().into(),
        ..Bind::new(system_id, password.expose())
    };
    let session = SessionSettings {
        window: settings.window,
        enquire_ms: settings.enquire_s * 1_000,
        response_ms: settings.response_s * 1_000,
        ..SessionSettings::default()
    };
    let tls = if settings.tls {
        let ca_file = (!settings.ca_file.is_empty()).then(|| Path::new(&settings.ca_file));
        Some(Tls { config: Arc::new(outgoing::trust(ca_file)?), name: None })
    } else {
        None
    };
    let kind = match settings.bind {
        BindMode::Transceiver => BindKind::Transceiver,
        BindMode::Pair => BindKind::Transmitter,
    };
    let usual = LinkSettings::new(place, kind, bind);
    let of_one_message = [&settings.temporary_codes[..], &settings.permanent_codes].concat();
    let segments_per_second = settings.rate;
    Ok(LinkSettings { tls, session, segments_per_second, of_one_message, ..usual })
}
