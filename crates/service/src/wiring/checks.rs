//! What a start would find out, for whoever wants to know before it.

use clock::Clock;

use super::ways::way_out;
use super::{Listeners, listen, real_carriers};
use crate::carriers::door::door;
use crate::config::{Config, Server};

/// Whether all addresses are free. A start finds that out as well, but only once there is a
/// database.
///
/// # Errors
/// Which one is not.
pub fn can_listen(config: &Config) -> anyhow::Result<()> {
    Listeners::bind(config).map(drop)
}

/// Whether the carriers of the settings can be made, as a start finds out. Nothing is connected.
///
/// # Errors
/// What is wrong with them.
pub fn check_carriers(config: &Config) -> anyhow::Result<()> {
    let (nowhere, _arrivals) = door();
    real_carriers(config, &Clock::system(), &nowhere).map(drop)
}

/// Whether the certificates of the service's own listeners can be used, as a start finds out.
///
/// # Errors
/// What is wrong with them.
pub fn check_tls(server: &Server) -> anyhow::Result<()> {
    listen::check_tls(server)
}

/// When the certificate of the service's own listeners ends, if it can be read.
#[must_use]
pub fn certificate_ends(server: &Server) -> Option<clock::Millis> {
    listen::certificate_ends(server)
}

/// Whether the authorities that targets are trusted by can be read, as a start finds out.
///
/// # Errors
/// What is wrong with them.
pub fn trusted(config: &Config) -> anyhow::Result<()> {
    way_out(&config.webhooks).map(drop)
}
