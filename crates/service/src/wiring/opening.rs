//! From settings to a database that can be served from: which commands may make one, what a start
//! waits for, and what ends it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure};
use clock::Clock;
use store::{CommitError, Db};
use url::Url;

use super::{Service, database_file, open_database};
use crate::config::Config;
use crate::kit::folder;
use crate::kit::seal::{KeyError, Vault};
use crate::{credits, rotation};

/// The first pause before a database that is away is tried again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Why a database cannot be served from.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The schema.
    #[error(transparent)]
    Db(#[from] store::Error),
    /// The master key, and where it is read from.
    #[error("{0}. The key is read from {1}: put the right one there")]
    Key(rotation::Error, String),
    /// The prices of a new database, or the seals.
    #[error(transparent)]
    Prices(#[from] credits::Error),
}

impl OpenError {
    /// Whether it may pass: the server is away, or just not able to.
    fn may_pass(&self) -> bool {
        match self {
            Self::Db(error)
            | Self::Prices(credits::Error::Db(error))
            | Self::Key(rotation::Error::Db(error), _) => {
                matches!(error, store::Error::Unavailable(_))
            }
            Self::Prices(credits::Error::Commit(error))
            | Self::Key(rotation::Error::Commit(error), _) => {
                !matches!(error, CommitError::Rejected(_))
            }
            Self::Prices(_) | Self::Key(..) => false,
        }
    }
}

/// Brings the database up to date. One on a server that is away is waited for, however long: a
/// service that ends because of it would not be there when it comes back.
pub(super) async fn wait(service: &Service) -> Result<(), OpenError> {
    let config = &service.live.config;
    let (is_elsewhere, database) = (config.database.is_shared(), place_of(config));
    let mut pause = FIRST_PAUSE;
    loop {
        match service.migrate().await {
            Ok(_version) => return Ok(()),
            Err(error) if is_elsewhere && error.may_pass() => {
                let wait_s = pause.as_secs();
                tracing::warn!(
                    %error,
                    database,
                    wait_s,
                    "waiting for the database of database.url; nothing is served yet. \
                     `estafette doctor` says what to do"
                );
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The master keys. A new embedded database gets a new one; for one that is there a key that is not
/// would be the wrong one.
pub(crate) fn vault(config: &Config, clock: &Clock) -> anyhow::Result<Vault> {
    let named = |error: KeyError| match error {
        KeyError::Malformed | KeyError::TooMany(_) => {
            anyhow::Error::from(error).context(place_of_key(config))
        }
        other => other.into(),
    };
    if !config.master_key.is_empty() {
        return Vault::from_hex(config.master_key.expose(), clock.clone()).map_err(named);
    }
    let path = config.data_dir.join("master.key");
    let database = database_file(config).unwrap_or_default();
    let size = std::fs::metadata(&database).map(|file| file.len()).ok();
    ensure!(size != Some(0) || !path.exists(), emptied(config));
    if size > Some(0) {
        ensure!(
            path.exists(),
            "the master key is missing, without which {} cannot be used: put it back as {}, or \
             name it with master_key_file",
            place_of(config),
            folder::shown(&path).display(),
        );
        return Vault::from_file(&path, clock.clone()).map_err(named);
    }
    Vault::from_file_or_new(&path, clock.clone()).map_err(|error| match error {
        KeyError::File(..) if !path.exists() => blamed(config, error.into(), &config.data_dir),
        other => named(other),
    })
}

/// Opens the storage, what is there of it before the master key is looked at: the file of another
/// program has none, and whoever misses the key would look for it in vain.
pub(super) fn storage(config: &Config, clock: &Clock) -> anyhow::Result<(Vault, Db)> {
    let has_file = |file: PathBuf| file.metadata().is_ok_and(|found| found.len() > 0);
    let is_there = database_file(config).is_some_and(has_file);
    let found = is_there.then(|| open_database(config)).transpose()?;
    let vault = vault(config, clock)?;
    let db = found.map_or_else(|| open_database(config), Ok)?;
    Ok((vault, db))
}

/// An error of a file that was to be made, with what is wrong with its directory if anything is.
pub(super) fn blamed(config: &Config, error: anyhow::Error, folder: &Path) -> anyhow::Error {
    let Some(why) = folder::obstacle(folder) else { return error };
    let is_of_data = folder::shown(folder) == folder::shown(&config.data_dir);
    let whose = if is_of_data { "the data directory" } else { "the directory of the database" };
    anyhow::Error::from(why).context(format!("{whose} cannot be used"))
}

/// What is said of a file without a byte beside the key of a database that there was: its data are
/// lost, and a new installation in its place would look as if nothing had happened.
fn emptied(config: &Config) -> String {
    format!(
        "{} is empty, and the master key beside it is that of a database that is gone: put a \
         backup in its place (operations.md), or remove the empty file if there never was one",
        place_of(config)
    )
}

/// Where the master key is read from, for errors.
pub(super) fn place_of_key(config: &Config) -> String {
    match config.master_key_file() {
        Some(path) => folder::shown(&path).display().to_string(),
        None => "the setting master_key".to_owned(),
    }
}

/// Refuses an embedded database that is not there, before opening would make it.
///
/// # Errors
/// Says where was looked.
pub fn must_exist(config: &Config) -> anyhow::Result<()> {
    let Some(path) = database_file(config) else { return Ok(()) };
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!(
                "this user may not look for the database at {}: run this as the service's user \
                 (sudo -u estafette estafette …)",
                place_of(config)
            )
        }
        _ => bail!(nothing_at(&place_of(config))),
    }
}

impl Service {
    /// Refuses a database without tables, such as a new one on a server.
    ///
    /// # Errors
    /// Says where was looked, or why the database does not answer.
    pub async fn must_have_tables(&self) -> anyhow::Result<()> {
        let has_tables = self.live.db.has_tables().await?;
        ensure!(has_tables, nothing_at(&place_of(&self.live.config)));
        Ok(())
    }
}

fn nothing_at(place: &str) -> String {
    format!(
        "there is no database of estafette at {place}. Name the service's own settings with \
         --config FILE, or its directory with --data-dir DIR. Only `serve`, `demo` and `migrate` \
         make a new database"
    )
}

/// Where the database is, without credentials.
pub(crate) fn place_of(config: &Config) -> String {
    if let Some(path) = database_file(config) {
        return folder::shown(&path).display().to_string();
    }
    let Ok(url) = Url::parse(config.database.url.expose()) else {
        return "database.url".to_owned();
    };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("postgres://{}{port}{}", url.host_str().unwrap_or_default(), url.path())
}

#[cfg(test)]
mod tests {
    use super::place_of;
    use crate::config::{Flags, load};
    use crate::kit::secret::Secret;

    #[test]
    fn a_place_has_no_password() {
        let mut config = load(None, std::iter::empty(), Flags::default()).unwrap();
        assert!(place_of(&config).ends_with("/estafette-data/estafette.db"));
        assert!(place_of(&config).starts_with('/'));
        config.database.url = Secret::new("sqlite:/x/y.db".to_owned());
        assert_eq!(place_of(&config), "/x/y.db");
        for (url, place) in [
            ("postgres://ada:secret@db.example:5433/shop?x=y", "postgres://db.example:5433/shop"),
            ("postgres://ada:secret@db1,db2/shop", "postgres://db1,db2/shop"),
        ] {
            config.database.url = Secret::new(url.to_owned());
            let shown = place_of(&config);
            assert!(shown == place || shown == "database.url", "{shown}");
        }
    }
}
