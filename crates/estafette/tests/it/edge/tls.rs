//! TLS by the service itself, with a certificate made for the story.

use std::sync::Arc;

use estafette::app::Env;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::wire::{Raw, SHORT, figure, header, hurry};
use crate::world::{Engine, World};

/// A world that speaks TLS, and what its clients trust.
struct Secure {
    world: World,
    roots: RootCertStore,
    _files: TempDir,
}

async fn secure() -> Secure {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (cert_file, key_file) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap()).unwrap();
    let world = World::with(Engine::Lite, |config| {
        hurry(&mut config.server);
        config.server.header_timeout_ms = 1_000;
        config.server.tls_cert_file = cert_file;
        config.server.tls_key_file = key_file;
    })
    .await;
    Secure { world, roots, _files: files }
}

impl Secure {
    async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let tcp = TcpStream::connect(self.world.address(Env::Sandbox)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http1_is_served_over_tls_with_and_without_negotiation() {
    let secure = secure().await;
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let mut raw = Raw::over(secure.connect(protocols).await);
        for _ in 0..2 {
            raw.send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let (head, body) = raw.answer().await;
            assert!(head.starts_with("HTTP/1.1 200") && body == "ready\n", "{head}");
            assert_eq!(header(&head, "strict-transport-security"), "max-age=31536000");
        }
    }
    secure.world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_is_negotiated_over_tls() {
    let secure = secure().await;
    let stream = secure.connect(&[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    for path in ["/readyz", "/docs/viewer.js"] {
        let uri = format!("https://localhost{path}");
        let request = http::Request::get(uri).body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let mut response = response.await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
        let mut length = 0;
        while let Some(data) = response.body_mut().data().await {
            let data = data.unwrap();
            response.body_mut().flow_control().release_capacity(data.len()).unwrap();
            length += data.len();
        }
        assert_eq!(response.headers()["content-length"], length.to_string().as_str());
    }
    drop(client);
    secure.world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_begin_with_https_where_the_service_speaks_tls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("estafette.toml");
    let text = "[server]\ntls_cert_file = 'c.pem'\ntls_key_file = 'k.pem'\n";
    std::fs::write(&file, text).unwrap();
    let flags = estafette::config::Flags::default();
    let config = estafette::config::load(Some(&file), std::iter::empty(), flags).unwrap();
    assert_eq!(config.server.live_url, "https://127.0.0.1:8080");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_does_not_end_is_ended() {
    let secure = secure().await;
    for said in [&b""[..], b"\x16\x03\x01"] {
        let mut raw = Raw::open(&secure.world).await;
        let since = raw.since;
        raw.send(said).await;
        raw.since = since;
        assert_eq!(raw.ends_after(1_000).await, "");
    }
    let cut = "estafette_connections_cut_total{reason=\"handshake\"}";
    assert_eq!(figure(&secure.world, cut).await, 2);
    // And so is a head that does not come after it.
    let mut raw = Raw::over(secure.connect(&[]).await);
    raw.send("GET /livez HTTP/1.1\r\n").await;
    super::wire::is_last_problem(&raw.ends_after(1_000).await, 408, "request_timeout");
    secure.world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_tls_is_let_go() {
    let secure = secure().await;
    let mut raw = Raw::open(&secure.world).await;
    raw.send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let (bytes, after) = raw.rest().await;
    assert!(!bytes.starts_with(b"HTTP"), "{:?}", String::from_utf8_lossy(&bytes));
    assert!(after.as_millis() < u128::from(SHORT), "{after:?}");
    secure.world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_ended_over_tls() {
    let secure = secure().await;
    let mut raw = Raw::over(secure.connect(&[]).await);
    raw.send("GET /docs/viewer.js HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20)).await;
    let cut = "estafette_connections_cut_total{reason=\"write\"}";
    let world = &secure.world;
    crate::world::eventually(async || (figure(world, cut).await >= 1).then_some(())).await;
    drop(raw);
    secure.world.finish().await;
}
