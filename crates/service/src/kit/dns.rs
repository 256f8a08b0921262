//! What domains publish in DNS. Nothing is remembered: whoever asks has just mended something.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::ResolverOpts;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use tokio::sync::OnceCell;

use super::outgoing::names::resolver;

/// How long one question waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Answers to one question that are looked at.
const MOST: usize = 20;

/// Nobody could say: the servers do not answer, or answer that they cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name servers gave no answer")]
pub struct NoAnswer;

/// The way to the name servers.
pub struct Dns {
    server: String,
    resolver: OnceCell<TokioResolver>,
}

impl Dns {
    /// Asks this server (`host:port`), or the system's where it is empty.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self { server: server.to_owned(), resolver: OnceCell::new() }
    }

    /// The texts at a name, the strings of each put together (RFC 7208 §3.3). Empty = there are
    /// none.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn texts(&self, name: &str) -> Result<Vec<String>, NoAnswer> {
        let found = self.ask(name, RecordType::TXT).await?;
        let text = |data: RData| match data {
            RData::TXT(text) => Some(String::from_utf8_lossy(&text.txt_data.concat()).into_owned()),
            _ => None,
        };
        Ok(found.into_iter().filter_map(text).collect())
    }

    /// The names that a name is an alias of, without the dot at their end. Empty = of none.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn aliases(&self, name: &str) -> Result<Vec<String>, NoAnswer> {
        let found = self.ask(name, RecordType::CNAME).await?;
        let alias = |data: RData| match data {
            RData::CNAME(name) => Some(name.to_ascii().trim_end_matches('.').to_ascii_lowercase()),
            _ => None,
        };
        Ok(found.into_iter().filter_map(alias).collect())
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Result<Vec<RData>, NoAnswer> {
        let mut name = Name::from_ascii(name).map_err(|_| NoAnswer)?;
        // Otherwise the search domains of this machine count as well.
        name.set_fqdn(true);
        let resolver = self.resolver.get_or_try_init(|| self.build()).await?;
        match resolver.lookup(name, kind).await {
            Ok(found) => {
                let data = found.answers().iter().take(MOST).map(|record| record.data.clone());
                Ok(data.collect())
            }
            Err(error) if error.is_nx_domain() || error.is_no_records_found() => Ok(vec![]),
            Err(error) => {
                tracing::debug!(%error, "a record was not looked up");
                Err(NoAnswer)
            }
        }
    }

    async fn build(&self) -> Result<TokioResolver, NoAnswer> {
        let server: Option<SocketAddr> = if self.server.is_empty() {
            None
        } else {
            let found = tokio::net::lookup_host(&self.server).await;
            Some(found.ok().and_then(|mut all| all.next()).ok_or(NoAnswer)?)
        };
        resolver(server, tune).map_err(|error| {
            tracing::warn!(error, "records of email domains cannot be looked up");
            NoAnswer
        })
    }
}

fn tune(options: &mut ResolverOpts) {
    options.timeout = PATIENCE;
    options.attempts = 2;
    options.cache_size = 0;
    options.positive_max_ttl = Some(Duration::ZERO);
    options.negative_max_ttl = Some(Duration::ZERO);
}
