//! Where attachments are kept: a directory, or an S3-compatible store that all nodes share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use hyper::body::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};

use super::s3::Connector;
use crate::config::Config;

/// How long after its first try a request is tried again: one that failed quickly is, a store that
/// hangs is not asked three times.
const RETRIES: Duration = Duration::from_secs(5);

/// The storage of a deployment.
pub type Storage = Arc<dyn ObjectStore>;

/// Why it cannot be opened, or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Its directory.
    #[error("support.storage: the directory {place} cannot be made: {why}", place = .0.display(),
            why = .1)]
    Folder(PathBuf, std::io::Error),
    /// The store itself.
    #[error("support.storage: {0}")]
    Store(#[from] object_store::Error),
    /// TLS to it.
    #[error("support.storage: {0}")]
    Tls(#[from] rustls::Error),
}

/// The directory, unless it is a store on a server.
#[must_use]
pub fn folder(config: &Config) -> Option<PathBuf> {
    match config.support.storage.as_str() {
        "" => Some(config.data_dir.join("files")),
        place if place.starts_with("s3://") => None,
        place => Some(place.into()),
    }
}

/// Opens it, by the settings. A directory is made when it is not there; a bucket is not looked at.
///
/// # Errors
/// When the directory cannot be made, or the settings do not fit together.
pub fn open(config: &Config) -> Result<Storage, Fault> {
    if let Some(folder) = folder(config) {
        std::fs::create_dir_all(&folder).map_err(|error| Fault::Folder(folder.clone(), error))?;
        let local = LocalFileSystem::new_with_prefix(folder)?;
        // An answer 200 survives a power cut, and so does its file.
        return Ok(Arc::new(local.with_automatic_cleanup(true).with_fsync(true)));
    }
    let settings = &config.support;
    let place = settings.storage.trim_start_matches("s3://");
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let mut s3 = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(&settings.s3_region)
        .with_access_key_id(settings.s3_access_key_id.expose())
        .with_secret_access_key(settings.s3_secret_access_key.expose())
        .with_retry(RetryConfig {
            max_retries: 2,
            retry_timeout: RETRIES,
            ..RetryConfig::default()
        })
        .with_http_connector(Connector::new()?);
    if !settings.s3_endpoint.is_empty() {
        let is_plain = settings.s3_endpoint.starts_with("http://");
        s3 = s3.with_endpoint(&settings.s3_endpoint).with_allow_http(is_plain);
    }
    let s3 = s3.build()?;
    Ok(Arc::new(object_store::prefix::PrefixStore::new(s3, prefix)))
}

/// Whether the storage answers. Changes nothing, except that a directory of ours is made.
///
/// # Errors
/// As [`open`], or why it does not answer.
pub async fn probe(config: &Config) -> Result<(), Fault> {
    // Who may read a bucket is told that it has no such thing.
    match open(config)?.head(&Path::from("probe")).await {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts an object; it is there as a whole or not at all.
pub(super) async fn put(
    storage: &Storage,
    key: &str,
    bytes: Bytes,
) -> Result<(), object_store::Error> {
    storage.put(&Path::from(key), bytes.into()).await.map(drop)
}

/// The bytes of an object, piece by piece; `None` when it is not there.
pub(super) async fn get(
    storage: &Storage,
    key: &str,
) -> Result<Option<BoxStream<'static, Result<Bytes, object_store::Error>>>, object_store::Error> {
    match storage.get(&Path::from(key)).await {
        Ok(found) => Ok(Some(found.into_stream())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes what a directory has of an object that was not put as a whole: `object_store` writes it
/// under another name first, which a crash leaves there.
pub(super) async fn delete_rest(config: &Config, key: &str) -> std::io::Result<()> {
    let Some(folder) = folder(config) else { return Ok(()) };
    match tokio::fs::remove_file(folder.join(format!("{key}#1"))).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Deletes an object; one that is not there is deleted.
pub(super) async fn delete(storage: &Storage, key: &str) -> Result<(), object_store::Error> {
    match storage.delete(&Path::from(key)).await {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}
