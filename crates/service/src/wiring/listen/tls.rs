//! TLS from files, read again when they change. The old certificate serves until the new pair is
//! whole and fits together, so that it does not matter which file is replaced first.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use clock::{Clock, Millis};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use zeroize::Zeroizing;

use crate::config::Server;
use crate::kit::seal::sha256;

/// How often the files are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What an encrypted key has in its first line: of PKCS #8 (RFC 7468 §11), or in its header of
/// older forms (RFC 1421 §4.6.1.1).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// What handshakes are made with.
pub(super) struct Tls {
    cert_file: PathBuf,
    key_file: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    /// A hash of the files that were read last, whether they were good or not.
    seen: Mutex<[u8; 32]>,
}

/// The content of both files.
struct Files {
    cert: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Tls {
    /// As the settings say; `None` = plain HTTP.
    ///
    /// # Errors
    /// When a file cannot be read, holds no certificate or key, or the two do not fit together.
    pub(super) fn open(server: &Server) -> anyhow::Result<Option<Arc<Self>>> {
        if !server.has_tls() {
            return Ok(None);
        }
        let (cert_file, key_file) = (server.tls_cert_file.clone(), server.tls_key_file.clone());
        let files = Files::read(&cert_file, &key_file)?;
        let seen = Mutex::new(files.hash());
        let config = RwLock::new(Arc::new(files.config()?));
        files.warn_if_ended();
        Ok(Some(Arc::new(Self { cert_file, key_file, config, seen })))
    }

    /// What the next handshake is made with.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }

    /// Takes the files if they have changed; whether they had.
    ///
    /// # Errors
    /// As [`Self::open`]; then the old certificate stays, and the same files are not tried again.
    fn refresh(&self) -> anyhow::Result<bool> {
        let files = Files::read(&self.cert_file, &self.key_file)?;
        let hash = files.hash();
        let seen =
            std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), hash);
        if seen == hash {
            return Ok(false);
        }
        let config = Arc::new(files.config()?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        files.warn_if_ended();
        Ok(true)
    }

    /// Looks at the files every ten seconds until the service stops.
    pub(super) async fn keep_fresh(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                // An error means that the sender is gone: stop as well.
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let tls = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || tls.refresh()).await;
            match looked {
                Ok(Ok(true)) => tracing::info!("the new TLS certificate is in use"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "the TLS files cannot be used; the old ones stay");
                }
                Err(error) => tracing::warn!(%error, "the TLS files were not looked at"),
            }
        }
    }
}

/// When the certificate of the service ends, if it can be read.
pub(super) fn ends(server: &Server) -> Option<Millis> {
    end_of(&std::fs::read(&server.tls_cert_file).ok()?)
}

/// When the first certificate of a chain, the service's own, ends (RFC 5280 §4.1.2.5).
fn end_of(chain: &[u8]) -> Option<Millis> {
    let own = CertificateDer::pem_slice_iter(chain).next()?.ok()?;
    let certificate = Certificate::from_der(&own).ok()?;
    let ends = certificate.tbs_certificate.validity.not_after.to_unix_duration();
    i64::try_from(ends.as_millis()).ok().map(Millis)
}

impl Files {
    fn read(cert_file: &PathBuf, key_file: &PathBuf) -> anyhow::Result<Self> {
        let read = |file: &PathBuf, key: &str| {
            let content = std::fs::read(file);
            content.with_context(|| format!("cannot read {} ({key})", file.display()))
        };
        let cert = read(cert_file, "server.tls_cert_file")?;
        let key = Zeroizing::new(read(key_file, "server.tls_key_file")?);
        Ok(Self { cert, key })
    }

    /// Clients refuse it, which nothing else in the log would tell.
    fn warn_if_ended(&self) {
        let ended = end_of(&self.cert).filter(|ends| *ends < Clock::system().now());
        if let Some(ended) = ended {
            tracing::warn!(%ended, "the TLS certificate has expired: clients will refuse it");
        }
    }

    /// What is in the file of the key instead of one.
    fn no_key(&self) -> anyhow::Error {
        let is_encrypted = self.key.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
        anyhow::anyhow!(if is_encrypted {
            "server.tls_key_file is encrypted with a passphrase: decrypt it, for instance with \
             `openssl pkey -in FILE -out NEW`"
        } else {
            "server.tls_key_file is not a PEM file with a private key"
        })
    }

    fn hash(&self) -> [u8; 32] {
        sha256(&[sha256(&self.cert), sha256(&self.key)].concat())
    }

    fn config(&self) -> anyhow::Result<ServerConfig> {
        let chain = CertificateDer::pem_slice_iter(&self.cert).collect::<Result<Vec<_>, _>>();
        let chain = chain.context("server.tls_cert_file is not a PEM file with certificates")?;
        anyhow::ensure!(!chain.is_empty(), "server.tls_cert_file holds no certificate");
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| self.no_key())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Why a certificate and a key make no pair.
fn unusable(error: rustls::Error) -> anyhow::Error {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            anyhow::anyhow!("the key in server.tls_key_file does not match the certificate")
        }
        rustls::Error::InvalidCertificate(why) => {
            anyhow::anyhow!("the certificate in server.tls_cert_file cannot be used: {why}")
        }
        // Of another kind, or too short.
        _ => anyhow::anyhow!(
            "the key in server.tls_key_file cannot be used: it must be RSA with 2048 to 8192 \
             bits, ECDSA on P-256, P-384 or P-521, or Ed25519"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rcgen::generate_simple_self_signed;

    use super::Tls;
    use crate::config::{self, Server};

    struct Pair {
        cert: String,
        key: String,
    }

    fn pair() -> Pair {
        let made = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Pair { cert: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn server(folder: &Path) -> Server {
        let flags = config::Flags::default();
        let mut server = config::load(None, std::iter::empty(), flags).unwrap().server;
        server.tls_cert_file = folder.join("cert.pem");
        server.tls_key_file = folder.join("key.pem");
        server
    }

    fn write(server: &Server, cert: &str, key: &str) {
        std::fs::write(&server.tls_cert_file, cert).unwrap();
        std::fs::write(&server.tls_key_file, key).unwrap();
    }

    #[test]
    fn a_new_pair_is_taken_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(folder.path());
        let (old, new) = (pair(), pair());
        write(&server, &old.cert, &old.key);
        let tls = Tls::open(&server).unwrap().unwrap();
        let config = || Arc::clone(&tls.config.read().unwrap());
        let first = config();
        assert!(!tls.refresh().unwrap());
        write(&server, &new.cert, &old.key);
        assert!(tls.refresh().is_err());
        assert!(Arc::ptr_eq(&config(), &first), "half a pair replaces nothing");
        assert!(!tls.refresh().unwrap(), "and is not complained about again");
        write(&server, &new.cert, &new.key);
        assert!(tls.refresh().unwrap());
        assert!(!Arc::ptr_eq(&config(), &first));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(folder.path());
        let fault = || format!("{:#}", Tls::open(&server).err().unwrap());
        assert!(fault().contains("cert.pem (server.tls_cert_file)"));
        let (one, other) = (pair(), pair());
        write(&server, "", &one.key);
        assert!(fault().contains("no certificate"));
        write(&server, &one.cert, "nonsense");
        assert!(fault().contains("server.tls_key_file is not a PEM file"));
        write(&server, &one.cert, &other.key);
        assert!(fault().contains("does not match the certificate"));
        let encrypted = one.key.replace("BEGIN PRIVATE", "BEGIN ENCRYPTED PRIVATE");
        write(&server, &one.cert, &encrypted.replace("END PRIVATE", "END ENCRYPTED PRIVATE"));
        assert!(fault().contains("is encrypted with a passphrase"));
        // OpenSSL 3: `openssl genpkey -algorithm ed448`.
        let ed448 = "-----BEGIN PRIVATE KEY-----\n\
            MEcCAQAwBQYDK2VxBDsEOQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\n\
            ISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OQ==\n-----END PRIVATE KEY-----\n";
        write(&server, &one.cert, ed448);
        assert!(fault().contains("must be RSA"), "{}", fault());
    }
}
