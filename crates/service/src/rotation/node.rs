//! What a node does about master keys while it serves: reads its file again, follows the database,
//! and says which keys it has.

use std::path::Path;
use std::time::Duration;

use ::store::{CommitError, WriteSet, args};
use clock::{MINUTE, Millis};
use rustix::io::Errno;
use tokio::sync::watch;

use super::{Error, SILENT, follow, is_known, store as sql};
use crate::app::App;
use crate::kit::seal::{KeyError, Vault};

/// How often a node looks, milliseconds.
const LOOK_MS: u64 = 2_000;
/// How often it says that it is there, milliseconds.
const SAY_MS: i64 = MINUTE;

/// What a node said last.
#[derive(Default, PartialEq, Eq)]
struct Said {
    key_ids: String,
    writes: String,
}

/// Looks until the process stops.
pub async fn run(app: App, mut stopped: watch::Receiver<bool>) {
    let (mut said, mut said_at, mut fault) = (Said::default(), Millis(0), String::new());
    loop {
        let now = look(&app, &mut fault).await;
        if now != said || app.now() - said_at >= SAY_MS || app.now() < said_at {
            match say(&app, &now).await {
                Ok(()) => (said, said_at) = (now, app.now()),
                Err(error) => tracing::debug!(%error, "keys not told; trying again"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
            // An error means that the sender is gone: stop as well.
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    let mut set = WriteSet::of("nodes");
    set.push(sql::GONE, args![app.node]);
    if let Err(error) = app.db.commit(set).await {
        tracing::debug!(%error, "a rotation waits for this node until it is silent for long");
    }
}

/// Reads the file, where there is one, and the database. The same fault is logged once.
async fn look(app: &App, fault: &mut String) -> Said {
    let learned = match app.config.master_key_file() {
        Some(path) => read_again(app, &path).await,
        None => Ok(()),
    };
    let followed = match follow(app).await {
        // What others wrote does not open here, and what is written here does not open there.
        Err(Error::Key(error @ KeyError::Missing { .. })) => {
            app.give_up(format!(
                "a rotation went on without this process; give it the key and start it again: \
                 {error}"
            ));
            Err(error.to_string())
        }
        Err(Error::Key(error)) => Err(error.to_string()),
        Ok(Some(strange)) => Err(strange),
        // A database that is away says so elsewhere.
        Ok(None) | Err(_) => Ok(()),
    };
    let found = learned.and(followed).err().unwrap_or_default();
    if found != *fault && !found.is_empty() {
        tracing::error!(error = found, "the master keys are not as they should be");
    }
    *fault = found;
    Said { key_ids: app.vault.key_ids().join(" "), writes: app.vault.writes_with() }
}

/// Learns what is in the file, and looks whether the next start could do with that: what this
/// process knows it keeps, so it would not notice.
async fn read_again(app: &App, path: &Path) -> Result<(), String> {
    let given = match Vault::from_file(path, app.clock.clone()) {
        Err(KeyError::File(_, why)) if is_of_process(&why) => {
            tracing::debug!(error = %why, "the master key file was not read; trying again");
            return Ok(());
        }
        given => given.map_err(|error| error.to_string())?,
    };
    app.vault.learn_from(&given);
    match is_known(&app.db, &given).await {
        Err(Error::Key(error)) => {
            Err(format!("the next start would fail by what is in {}: {error}", path.display()))
        }
        // A database that is away says so elsewhere.
        _ => Ok(()),
    }
}

/// Whether it is no fault of the file: too many are open, here or on the machine.
fn is_of_process(why: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(why), Some(Errno::MFILE | Errno::NFILE))
}

async fn say(app: &App, said: &Said) -> Result<(), CommitError> {
    let mut set = WriteSet::of("nodes");
    let process = i64::from(std::process::id());
    let now = app.now();
    set.push(sql::SEEN, args![app.node, process, &said.key_ids, &said.writes, now]);
    set.push(sql::FORGET, args![now - 2 * SILENT, app.node]);
    app.db.commit(set).await.map(drop)
}
