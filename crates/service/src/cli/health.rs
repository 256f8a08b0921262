//! `estafette health`: asks the running service, for supervisors that can only run a command.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use http_body_util::{BodyExt as _, Limited};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::commands::HealthArgs;
use super::output::Output;
use crate::config::Config;
use crate::kit::task;

/// Longer than this is not well.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer: figures are many.
const LONGEST: usize = 16 << 20;

/// Asks the live address, where it listens.
pub(super) async fn run(
    config: &Config,
    args: &HealthArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let address = reachable(config.server.live);
    ensure!(address.port() != 0, "server.live has port 0: nobody can know where the service is");
    let path = if args.ready { "readyz" } else { "livez" };
    let reply = ask(Asked { address, has_tls: config.server.has_tls(), path }).await;
    let is_well = reply.as_ref().is_some_and(|reply| reply.is_success && reply.is_of_api());
    let verdict = match reply {
        Some(_) if is_well => "well".to_owned(),
        Some(reply) if !reply.is_of_api() => {
            "something other than estafette answers there".to_owned()
        }
        Some(reply) => match reply.why() {
            Some(why) => format!("not well: {why}"),
            None => "not well".to_owned(),
        },
        None if TcpStream::connect(address).await.is_err() => {
            "nothing listens there; is the service running?".to_owned()
        }
        None => format!("not well: no answer in {} s", PATIENCE.as_secs()),
    };
    let asked = format!("{address}/{path}");
    let told = json!({ "ok": is_well, "address": asked, "verdict": verdict });
    output.answer(&told, || format!("{asked}: {verdict}"))?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is asked of a listener.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// Whether it speaks TLS.
    pub(super) has_tls: bool,
    /// What is asked for, without the first slash.
    pub(super) path: &'static str,
}

/// An answer.
pub(super) struct Reply {
    /// Whether it says that all is well.
    pub(super) is_success: bool,
    /// The id that the API gives every request.
    pub(super) request_id: Option<String>,
    /// The body.
    pub(super) text: String,
}

impl Reply {
    /// Whether the API answered, which gives every request an id.
    pub(super) fn is_of_api(&self) -> bool {
        self.request_id.as_ref().is_some_and(|id| id.starts_with("req_"))
    }

    /// Why it says that not all is well.
    pub(super) fn why(&self) -> Option<String> {
        let problem: Value = serde_json::from_str(&self.text).ok().filter(|_| !self.is_success)?;
        let words = problem["detail"].as_str().or_else(|| problem["title"].as_str())?;
        Some(words.to_owned())
    }
}

/// What it answers; `None` = not in HTTP, or not soon.
pub(super) async fn ask(Asked { address, has_tls, path }: Asked) -> Option<Reply> {
    let address = reachable(address);
    let asked = async {
        let tcp = TcpStream::connect(address).await.ok()?;
        if !has_tls {
            return reply(tcp, path).await;
        }
        let name = ServerName::IpAddress(address.ip().into());
        reply(connector()?.connect(name, tcp).await.ok()?, path).await
    };
    tokio::time::timeout(PATIENCE, asked).await.ok().flatten()
}

/// One request over HTTP/1.1.
async fn reply<S>(stream: S, path: &str) -> Option<Reply>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = client.ok()?;
    let driver = task::spawn(async {
        // What went wrong reaches the request.
        let _told_there = connection.await;
    });
    let request = Request::get(format!("/{path}")).header(header::HOST, "localhost");
    let answer = sender.send_request(request.body(String::new()).ok()?).await.ok()?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, LONGEST).collect().await;
    driver.abort();
    let text = String::from_utf8_lossy(&body.ok()?.to_bytes()).into_owned();
    let request_id = head.headers.get("x-request-id").and_then(|id| id.to_str().ok());
    let is_success = head.status.is_success();
    Some(Reply { is_success, request_id: request_id.map(str::to_owned), text })
}

/// TLS to whoever listens there, whatever its certificate is for: this machine asks itself, by an
/// address that no certificate names, and tells no secret.
fn connector() -> Option<TlsConnector> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions().ok()?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)));
    Some(Arc::new(config.with_no_client_auth()).into())
}

/// Takes every certificate whose key the other side has.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// All addresses are reached by the loopback one.
pub(super) fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_the_loopback_one() {
        for (listener, expected) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
