//! What a node does about master keys while it serves: reads its file again, follows the database,
//! and says which keys it has.

use std::time::Duration;

use ::store::{CommitError, WriteSet, args};
use clock::{MINUTE, Millis};
use tokio::sync::watch;

use super::{Error, SILENT, follow, store as sql};
use crate::app::App;

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
        Some(path) => app.vault.learn_file(&path).map_err(|error| error.to_string()),
        None => Ok(()),
    };
    let followed = match follow(app).await {
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

async fn say(app: &App, said: &Said) -> Result<(), CommitError> {
    let mut set = WriteSet::of("nodes");
    let process = i64::from(std::process::id());
    let now = app.now();
    set.push(sql::SEEN, args![app.node, process, &said.key_ids, &said.writes, now]);
    set.push(sql::FORGET, args![now - 2 * SILENT, app.node]);
    app.db.commit(set).await.map(drop)
}
