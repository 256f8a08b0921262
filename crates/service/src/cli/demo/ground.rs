//! The demo's environment: its own data directory, free ports, and no real carriers.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clock::Clock;
use store::Db;

use crate::cli::output::Output;
use crate::config::{self, Config, Flags};
use crate::kit::secret::Secret;
use crate::wiring::{self, Listeners};

/// A file that says that a directory was made by the demo, so that it may be removed.
const MARK: &str = ".made-by-estafette-demo";

/// The demo's directory.
pub(super) struct Ground {
    directory: PathBuf,
    /// Whether the directory above was made for it.
    made_above: bool,
    /// The database is not in it.
    is_lent: bool,
    /// The file of a database that is elsewhere, made for it.
    file: Option<PathBuf>,
}

impl Ground {
    /// Whether the database is one that the command line names.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Removes what the demo made.
    pub(super) fn clear(&self) {
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let Some(file) = &self.file else { break };
            let mut name = file.clone().into_os_string();
            name.push(suffix);
            // SQLite removes some of them itself.
            let _removed = std::fs::remove_file(name);
        }
        if self.directory.join(MARK).exists() {
            // Left-overs go at the next start.
            let _removed = std::fs::remove_dir_all(&self.directory);
            // The directory above, if nothing but the demo needed it.
            if let (true, Some(above)) = (self.made_above, self.directory.parent()) {
                let _removed = std::fs::remove_dir(above);
            }
        }
    }
}

/// All that a demo starts with.
pub(super) struct Prepared {
    pub(super) config: Config,
    pub(super) ground: Ground,
    pub(super) listeners: Listeners,
}

/// Settings that touch nothing outside the demo but the database that it was lent, from those of
/// the operator.
pub(super) fn prepare(
    config: Config,
    database: Option<Secret>,
    output: Output,
) -> anyhow::Result<Prepared> {
    let flags = Flags { engines: config.database.engines, ..Flags::default() };
    let mut defaults = config::load(None, std::iter::empty(), flags)?;
    // Kept from here on: a port that is let go may be somebody else's a moment later.
    let served = Config { server: config.server.clone(), ..defaults.clone() };
    let listeners = Listeners::bind_or_move(&served)?;
    let (server, has_moved) = moved(&config.server, &listeners, output)?;
    // A second demo beside the first must not remove the data of that.
    let name =
        if has_moved { format!("demo-{}", server.sandbox.port()) } else { "demo".to_owned() };
    let is_lent = database.is_some();
    let directory = config.data_dir.join(name);
    let made_above = !config.data_dir.exists();
    claim(&directory)?;
    let mut log = config.log;
    if log.level == defaults.log.level {
        // The steps are the story; only trouble may interrupt them.
        "warn".clone_into(&mut log.level);
    }
    if let Some(url) = database {
        defaults.database.url = url;
        defaults.database.prepared_statements = config.database.prepared_statements;
        defaults.master_key =
            if config.master_key.is_empty() { made_up_key() } else { config.master_key };
    }
    let mut access = config.access;
    access.signup_sandbox = true;
    let config = Config {
        data_dir: directory.clone(),
        server,
        access,
        log,
        otp: config.otp,
        limits: config.limits,
        ..defaults
    };
    let file = wiring::database_file(&config).filter(|_| is_lent);
    if let Some(file) = file.as_ref().filter(|file| file.exists()) {
        bail!("{} is there already; {ANOTHER}", file.display());
    }
    let ground = Ground { directory, made_above, is_lent, file };
    Ok(Prepared { config, ground, listeners })
}

const ANOTHER: &str = "give the demo a database without tables, or none";

/// The demo removes what it made, and leaves alone what others have.
pub(super) async fn must_be_new(db: &Db) -> anyhow::Result<()> {
    ensure!(!db.has_tables().await?, "this database has tables of estafette already; {ANOTHER}");
    Ok(())
}

/// Nobody needs it after the demo.
fn made_up_key() -> Secret {
    let half = || {
        let mut bytes = [0; 16];
        Clock::system().fill(&mut bytes);
        u128::from_be_bytes(bytes)
    };
    Secret::new(format!("{:032x}{:032x}", half(), half()))
}

fn claim(directory: &Path) -> anyhow::Result<()> {
    if directory.exists() {
        let is_ours = directory.join(MARK).exists();
        let is_empty = directory.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        if !is_ours && !is_empty {
            bail!("{} was not made by the demo; use another --data-dir", directory.display());
        }
        std::fs::remove_dir_all(directory)?;
    }
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(directory.join(MARK), ""))
        .with_context(|| format!("cannot make {}", directory.display()))
}

/// The settings with the addresses that were taken, and whether any is not as it was set.
fn moved(
    server: &config::Server,
    listeners: &Listeners,
    output: Output,
) -> anyhow::Result<(config::Server, bool)> {
    let mut server = server.clone();
    let got = listeners.addresses()?;
    let mut has_moved = false;
    for (address, got) in [
        (&mut server.live, got.live),
        (&mut server.sandbox, got.sandbox),
        (&mut server.metrics, got.metrics),
    ] {
        if got != *address {
            output.tell(&match address.port() {
                0 => format!("Using {got}."),
                _ => format!("{address} is taken: using {got}."),
            });
            has_moved = true;
        }
        *address = got;
    }
    // Nobody balances load between demos.
    server.drain_accept_ms = 0;
    // The visitor speaks plain HTTP, and no certificate is for a demo.
    server.tls_cert_file.clear();
    server.tls_key_file.clear();
    server.live_url = format!("http://{}", server.live);
    server.sandbox_url = format!("http://{}", server.sandbox);
    Ok((server, has_moved))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn config(data_dir: &Path) -> Config {
        let any = Some("127.0.0.1:0".parse().unwrap());
        let data_dir = Some(data_dir.to_owned());
        let flags = Flags { live: any, sandbox: any, metrics: any, data_dir, ..Flags::default() };
        config::load(None, std::iter::empty(), flags).unwrap()
    }

    #[test]
    fn a_directory_that_the_demo_did_not_make_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine"), "x").unwrap();
        assert!(claim(folder.path()).is_err());
        assert!(folder.path().join("mine").exists());
    }

    #[test]
    fn what_a_demo_left_behind_is_removed_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("demo");
        claim(&directory).unwrap();
        std::fs::write(directory.join("old"), "x").unwrap();
        claim(&directory).unwrap();
        assert!(!directory.join("old").exists());
    }

    #[tokio::test]
    async fn a_taken_port_is_exchanged_for_a_free_one_that_nobody_else_gets() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(folder.path());
        config.server.sandbox = taken.local_addr().unwrap();
        let prepared = prepare(config, None, Output::new(true)).unwrap();
        let server = &prepared.config.server;
        assert_ne!(server.sandbox, taken.local_addr().unwrap());
        assert_ne!(server.sandbox.port(), server.live.port());
        assert_eq!(server.sandbox_url, format!("http://{}", server.sandbox));
        assert!(TcpListener::bind(server.sandbox).is_err(), "it is kept until the service starts");
        prepared.ground.clear();
        assert!(!prepared.config.data_dir.exists());
    }
}
