//! The addresses of a service, taken together before it starts.

use std::net::SocketAddr;

use super::{Addresses, Listener};
use crate::config::Config;

/// All that the settings say to listen on.
pub(crate) struct Listeners {
    pub(super) live: Listener,
    pub(super) sandbox: Listener,
    pub(super) metrics: Listener,
    /// Where reports of emails come in.
    pub(super) reports: Option<Listener>,
}

/// Takes one address; the words are the setting to look at and the listener's name.
type Take = fn(SocketAddr, &str, &'static str) -> anyhow::Result<Listener>;

impl Listeners {
    /// Takes them as they are set.
    ///
    /// # Errors
    /// When one is in use or not of this machine.
    pub(super) fn bind(config: &Config) -> anyhow::Result<Self> {
        Self::take(config, Listener::bind)
    }

    /// Takes a free port where the set one is in use.
    ///
    /// # Errors
    /// When an address is not of this machine.
    pub(crate) fn bind_or_move(config: &Config) -> anyhow::Result<Self> {
        Self::take(config, |address, key, name| {
            Listener::bind(address, key, name)
                .or_else(|_| Listener::bind(SocketAddr::new(address.ip(), 0), key, name))
        })
    }

    fn take(config: &Config, take: Take) -> anyhow::Result<Self> {
        let server = &config.server;
        let reports = config.email.reports.parse().ok();
        Ok(Self {
            live: take(server.live, "server.live", "live")?,
            sandbox: take(server.sandbox, "server.sandbox", "sandbox")?,
            metrics: take(server.metrics, "server.metrics", "metrics")?,
            reports: reports
                .map(|address| take(address, "email.reports", "reports"))
                .transpose()?,
        })
    }

    /// Where they listen.
    ///
    /// # Errors
    /// When the system does not say.
    pub(crate) fn addresses(&self) -> std::io::Result<Addresses> {
        Ok(Addresses {
            live: self.live.address()?,
            sandbox: self.sandbox.address()?,
            metrics: self.metrics.address()?,
            reports: self.reports.as_ref().map(Listener::address).transpose()?,
        })
    }
}
