//! The ways out to URLs of tenants: one for each environment, so that the sandbox pushes out none
//! of the connections that live keeps.

use std::path::Path;
use std::time::Duration;

use crate::app::WaysOut;
use crate::config::Webhooks;
use crate::kit::outgoing::{Outgoing, Rules};

/// The ways out to URLs of tenants, by the settings.
pub(super) fn ways_out(webhooks: &Webhooks) -> anyhow::Result<WaysOut> {
    Ok(WaysOut { live: way_out(webhooks)?, sandbox: way_out(webhooks)? })
}

/// One of them.
pub(super) fn way_out(webhooks: &Webhooks) -> anyhow::Result<Outgoing> {
    let networks = webhooks.allow_networks.iter();
    let rules = Rules {
        allow_http: webhooks.allow_http,
        allow_networks: networks.filter_map(|network| network.parse().ok()).collect(),
        dns_server: webhooks.dns_server.parse().ok(),
        connect_timeout: Duration::from_millis(webhooks.connect_timeout_ms),
        timeout: Duration::from_millis(webhooks.timeout_ms),
        keeps_bodies: false,
    };
    let ca_file = (!webhooks.ca_file.is_empty()).then(|| Path::new(&webhooks.ca_file));
    Outgoing::new(rules, ca_file)
        .map_err(|error| anyhow::anyhow!("webhooks.ca_file cannot be used: {error}"))
}
