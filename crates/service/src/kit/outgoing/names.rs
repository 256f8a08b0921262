//! Names to addresses, asked anew for every request (answers are kept as long as DNS says).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use tokio::sync::OnceCell;

/// How long one question waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer is kept no longer than this, whatever its time to live says.
const LONGEST_KEPT: Duration = Duration::from_mins(5);
/// That a name does not exist is kept no longer than this: somebody may be mending it.
const LONGEST_DENIED: Duration = Duration::from_secs(5);

/// The resolver; made at the first question, or at the next where that is not possible then.
pub(super) struct Names {
    server: Option<SocketAddr>,
    resolver: OnceCell<TokioResolver>,
}

impl Names {
    /// Asks `server`, or the system's servers.
    pub(super) fn new(server: Option<SocketAddr>) -> Self {
        Self { server, resolver: OnceCell::new() }
    }

    /// All addresses of a name, IPv4 first. The text of an error is for the tenant.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let name = name.trim_end_matches('.');
        if is_localhost(name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let mut name = Name::from_ascii(name).map_err(|_| "is no name that DNS knows")?;
        // Otherwise `backend` would be looked for in the search domains of this machine.
        name.set_fqdn(true);
        let resolver = self.resolver.get_or_try_init(|| async { self.build() }).await?;
        match resolver.lookup_ip(name).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(error) if error.is_nx_domain() => Err("does not exist".to_owned()),
            Err(error) if error.is_no_records_found() => Err("has no address".to_owned()),
            Err(error) => {
                tracing::debug!(%error, "a name was not resolved");
                Err("could not be resolved".to_owned())
            }
        }
    }

    fn build(&self) -> Result<TokioResolver, String> {
        resolver(self.server, tune).map_err(|error| {
            tracing::warn!(error, "names of webhooks cannot be resolved");
            "could not be resolved".to_owned()
        })
    }
}

/// Asks `server`, or the system's servers.
///
/// # Errors
/// Why nobody can be asked.
pub(in crate::kit) fn resolver(
    server: Option<SocketAddr>,
    tune: impl FnOnce(&mut ResolverOpts),
) -> Result<TokioResolver, String> {
    let mut builder = match server {
        None => TokioResolver::builder_tokio().map_err(|error| error.to_string())?,
        Some(server) => {
            let config = ResolverConfig::from_parts(None, vec![], vec![only(server)]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    tune(builder.options_mut());
    builder.build().map_err(|error| error.to_string())
}

fn tune(options: &mut ResolverOpts) {
    options.timeout = PATIENCE;
    options.attempts = 2;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.positive_max_ttl = Some(LONGEST_KEPT);
    options.negative_max_ttl = Some(LONGEST_DENIED);
}

fn only(server: SocketAddr) -> NameServerConfig {
    let mut config = NameServerConfig::udp_and_tcp(server.ip());
    for connection in &mut config.connections {
        connection.port = server.port();
    }
    config
}

/// RFC 6761 §6.3: these names mean this machine, whatever DNS says.
fn is_localhost(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost")
}
