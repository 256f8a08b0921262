//! The addresses to listen on: free, or taken by whom.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::Finding;
use crate::cli::health::{self, Asked};
use crate::config::Config;
use crate::wiring;

/// How long a greeting may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of a greeting (RFC 5321 §4.5.3.1.5).
const GREETING: u64 = 512;

/// Who serves from this database, as far as can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// No process does.
    Nobody,
    /// One does.
    Somebody,
    /// It cannot be known: any number of nodes may serve from a PostgreSQL.
    Unknown,
}

/// What a listener of the service speaks.
#[derive(Clone, Copy)]
enum Speech {
    Api { has_tls: bool },
    Metrics,
    Mail,
}

/// Who answers at an address that is taken.
enum Answerer {
    /// One of these programs.
    Estafette,
    /// One that says why it takes no requests now.
    Unready(String),
    /// One of them, which began before `server.tls_cert_file` was changed.
    WithOtherTls,
    Stranger,
}

pub(super) async fn examine(config: &Config, server: Server) -> Vec<Finding> {
    let has_tls = config.server.has_tls();
    let mut findings = vec![];
    for (about, address, speech) in [
        ("live", Some(config.server.live), Speech::Api { has_tls }),
        ("sandbox", Some(config.server.sandbox), Speech::Api { has_tls }),
        ("metrics", Some(config.server.metrics), Speech::Metrics),
        ("email.reports", config.email.reports.parse().ok(), Speech::Mail),
    ] {
        if let Some(address) = address {
            findings.push(listener(about, address, speech, server).await);
        }
    }
    findings
}

/// Whether the service could listen there, or does.
async fn listener(about: &str, address: SocketAddr, speech: Speech, server: Server) -> Finding {
    let setting = if about.contains('.') { about.to_owned() } else { format!("server.{about}") };
    let error = match TcpListener::bind(address).await {
        Ok(_bound) => return Finding::fine(about, format!("{address} is free")),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::AddrInUse => taken(about, address, speech.answerer(address).await, server),
        why => {
            let found = format!("{address} cannot be listened on: {error}");
            Finding::fault(about, found, wiring::remedy_of_listener(why, &setting))
        }
    }
}

fn taken(about: &str, address: SocketAddr, answerer: Answerer, server: Server) -> Finding {
    let setting = if about.contains('.') { about.to_owned() } else { format!("server.{about}") };
    let elsewhere = format!("choose another address ({setting})");
    match (answerer, server) {
        (Answerer::Stranger, _) => {
            let found = format!("{address} is taken by something other than estafette");
            let remedy = wiring::remedy_of_listener(ErrorKind::AddrInUse, &setting);
            Finding::fault(about, found, remedy)
        }
        (_, Server::Nobody) => {
            let found = format!("{address} is taken by an estafette with another database");
            Finding::fault(about, found, format!("stop that one, or {elsewhere}"))
        }
        (Answerer::Estafette, Server::Somebody) => {
            Finding::fine(about, format!("{address}: the service answers"))
        }
        (Answerer::Estafette, Server::Unknown) => {
            let found = format!("{address}: an estafette answers, of this database or of another");
            Finding::fine(about, found)
        }
        (Answerer::Unready(why), _) => {
            let found = format!("{address}: the service answers, and is not ready: {why}");
            Finding::warning(about, found, "wait, or see its log")
        }
        (Answerer::WithOtherTls, _) => {
            let found = format!("{address}: the service answers, but not as server.tls_* say");
            Finding::warning(about, found, "restart it: a start turns TLS on or off")
        }
    }
}

impl Speech {
    async fn answerer(self, address: SocketAddr) -> Answerer {
        let is_estafette = match self {
            Self::Api { has_tls } => {
                if is_api(address, !has_tls).await {
                    return Answerer::WithOtherTls;
                }
                let is_estafette = is_api(address, has_tls).await;
                let ready = Asked { address, has_tls, path: "readyz" };
                match health::ask(ready).await.and_then(|reply| reply.why()) {
                    Some(why) if is_estafette => return Answerer::Unready(why),
                    _ => is_estafette,
                }
            }
            Self::Metrics => {
                let asked = Asked { address, has_tls: false, path: "metrics" };
                let figures = health::ask(asked).await;
                figures.is_some_and(|figures| figures.text.contains("estafette_build_info"))
            }
            Self::Mail => greets(address).await,
        };
        if is_estafette { Answerer::Estafette } else { Answerer::Stranger }
    }
}

/// Whether the API answers there, which gives every request an id.
async fn is_api(address: SocketAddr, has_tls: bool) -> bool {
    let answered = health::ask(Asked { address, has_tls, path: "livez" }).await;
    answered.is_some_and(|reply| reply.is_of_api())
}

/// Whether the listener for reports greets there (RFC 5321 §4.2).
async fn greets(address: SocketAddr) -> bool {
    let greeting = async {
        let connection = TcpStream::connect(health::reachable(address)).await?;
        let mut line = String::new();
        BufReader::new(connection.take(GREETING)).read_line(&mut line).await?;
        Ok::<bool, std::io::Error>(line.starts_with("220 ") && line.contains(" takes reports"))
    };
    timeout(PATIENCE, greeting).await.is_ok_and(|greeting| greeting.unwrap_or(false))
}
